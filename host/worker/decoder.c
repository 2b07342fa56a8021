/* decoder.c - the decoder of a drafter in a process of its own: the facts that came with the call, scores of its own, and
 * the pipeline's processors on made-up histories, which the host runs. Whatever runs a model, draws or changes rows is
 * refused in a sentence. (Compiled without the warning about parameters that are not used.) */
#include <string.h>

#include "worker/worker.h"

static const cdz_worker_decoder *decoder_of(const cdz_decoder *dec)
{
    return (const cdz_worker_decoder *)(const void *)dec;
}

static cdz_status refuse(const cdz_decoder *dec, const char *verb)
{
    return cdz_fail(decoder_of(dec)->step, CDZ_E_UNSUPPORTED,
                    "%s: a drafter in a process of its own (isolation = process) has no models, "
                    "rows or draws to use",
                    verb);
}

/* --- what there is not ----------------------------------------------------------------------------------------------- */

#define REFUSE(verb, ...)                                                                          \
    static cdz_status no_##verb(__VA_ARGS__)                                                       \
    {                                                                                              \
        return refuse(dec, #verb);                                                                 \
    }
#define NOTHING(ret, verb, value, ...)                                                             \
    static ret no_##verb(__VA_ARGS__)                                                              \
    {                                                                                              \
        return value;                                                                              \
    }
NOTHING(bool, done, (false), const cdz_decoder *dec)
NOTHING(bool, row_done, (false), const cdz_decoder *dec, uint32_t row)
REFUSE(forward, cdz_decoder *dec, cdz_scores *out)
REFUSE(process, cdz_decoder *dec, cdz_scores *scores)
REFUSE(append, cdz_decoder *dec, uint32_t row, int32_t token)
REFUSE(append_rows, cdz_decoder *dec, int32_t *tokens)
NOTHING(uint32_t, rewindable, (0), const cdz_decoder *dec, uint32_t row)
REFUSE(append_chunk, cdz_decoder *dec, uint32_t row, const int32_t *tokens, uint32_t n,
       const cdz_scores *logits, const cdz_scores *scores, uint32_t *taken)
REFUSE(rewind, cdz_decoder *dec, uint32_t row, uint32_t n)
REFUSE(reorder, cdz_decoder *dec, const uint32_t *parents)
REFUSE(extend_rows, cdz_decoder *dec, const uint32_t *parents, const int32_t *tokens)
REFUSE(softmax, cdz_decoder *dec, cdz_scores *scores)
REFUSE(log_softmax, cdz_decoder *dec, cdz_scores *scores)
REFUSE(softmax_flat, cdz_decoder *dec, const cdz_scores *scores, uint32_t first, uint32_t n,
       const float *addends, cdz_scores *out)
REFUSE(ban, cdz_decoder *dec, cdz_scores *scores, uint32_t row, int32_t token)
REFUSE(token_scores, cdz_decoder *dec, const cdz_scores *scores, const uint32_t *rows,
       const int32_t *tokens, uint32_t n, cdz_token_score *out)
REFUSE(argmax, cdz_decoder *dec, const cdz_scores *scores, uint32_t row, cdz_pick *out)
REFUSE(argmax_rows, cdz_decoder *dec, const cdz_scores *scores, int32_t *tokens)
REFUSE(multinomial, cdz_decoder *dec, const cdz_scores *probs, int32_t *tokens)
REFUSE(topk_flat, cdz_decoder *dec, const cdz_scores *scores, uint32_t first, uint32_t n,
       const float *addends, uint32_t m, cdz_candidate *out)
REFUSE(multinomial_flat, cdz_decoder *dec, const cdz_scores *probs, uint32_t first, uint32_t n,
       uint32_t m, cdz_candidate *out)
REFUSE(uniform, cdz_decoder *dec, uint32_t n, float *out)
REFUSE(seq_new, cdz_decoder *dec, const char *model, cdz_seq **out)
NOTHING(cdz_seq *, seq_of_row, (NULL), cdz_decoder *dec, uint32_t row)
REFUSE(seq_fork, cdz_decoder *dec, const cdz_seq *seq, cdz_seq **out)
static void no_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
}
REFUSE(seq_append, cdz_decoder *dec, cdz_seq *seq, const int32_t *ids, uint32_t n)
REFUSE(seq_truncate, cdz_decoder *dec, cdz_seq *seq, uint32_t len)
NOTHING(cdz_ids, seq_ids, ((cdz_ids){0}), const cdz_decoder *dec, const cdz_seq *seq)
NOTHING(uint32_t, seq_length, (0), const cdz_decoder *dec, const cdz_seq *seq)
REFUSE(seq_forward, cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, cdz_positions positions,
       cdz_scores *out)
REFUSE(seq_process, cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n,
       cdz_scores *scores)
REFUSE(seq_new_exit, cdz_decoder *dec, const char *model, uint32_t n_layers, cdz_seq **out)
REFUSE(pipeline_derive, cdz_decoder *dec, const char *const *exclude, uint32_t n_exclude,
       const char *const *append, uint32_t n_append, uint32_t *out)
REFUSE(keep_hidden, cdz_decoder *dec, cdz_positions positions, const uint32_t *layers, uint32_t n)
REFUSE(hidden_states, cdz_decoder *dec, cdz_hidden *out)
REFUSE(head, cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
REFUSE(stop_test, cdz_decoder *dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
       cdz_stop *stops)
NOTHING(bool, has_drafter, (false), const cdz_decoder *dec)
REFUSE(propose, cdz_decoder *dec, uint32_t row, cdz_draft *out)
REFUSE(judged, cdz_decoder *dec, uint32_t row, uint32_t n_accepted)
REFUSE(finish, cdz_decoder *dec, uint32_t row, cdz_stop_reason reason, const char *text)
REFUSE(return_rows, cdz_decoder *dec, const cdz_returned *rows, uint32_t n)
REFUSE(record, cdz_decoder *dec, cdz_record_kind what, const cdz_scores *scores)
REFUSE(put_result, cdz_decoder *dec, const char *name, cdz_result_type type, uint32_t n_dims,
       const uint64_t *shape, const void *data)
NOTHING(bool, cancelled, (false), const cdz_decoder *dec)
NOTHING(double, deadline_s, (0), const cdz_decoder *dec)
NOTHING(bool, facts, (false), const cdz_decoder *dec, const char *model, cdz_model_facts *out)
REFUSE(draw_rows, cdz_decoder *dec, cdz_scores *scores, int32_t *tokens)
REFUSE(lens, cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
REFUSE(seq_steer, cdz_decoder *dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n)
REFUSE(sleep, cdz_decoder *dec, double seconds)
REFUSE(wait_fd, cdz_decoder *dec, int fd, uint32_t events, double seconds, uint32_t *ready)
REFUSE(offload, cdz_decoder *dec, void (*fn)(void *arg), void *arg)
REFUSE(call_tool, cdz_decoder *dec, const char *name, const char *text, uint32_t len,
       cdz_tool_answer *out)
REFUSE(insert, cdz_decoder *dec, uint32_t row, const int32_t *ids, uint32_t n, uint32_t flags,
       const char *who)
REFUSE(commit, cdz_decoder *dec, uint32_t row, uint32_t n)
REFUSE(seq_score, cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t last, float *out)
REFUSE(seq_append_forward, cdz_decoder *dec, cdz_seq *const *seqs, const int32_t *tokens,
       uint32_t n, cdz_scores *out)
REFUSE(rollouts, cdz_decoder *dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n,
       uint32_t most, bool draws, cdz_rollout *out)
REFUSE(embed, cdz_decoder *dec, const char *model, const int32_t *ids, uint32_t n, float *out)
REFUSE(seq_embeds, cdz_decoder *dec, cdz_seq *seq, uint32_t from, const float *embeds, uint32_t n,
       uint32_t width)
NOTHING(uint32_t, n_values, (0), const cdz_decoder *dec, const char *model)
REFUSE(seq_value, cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values, float *out)
NOTHING(cdz_string, value_label, ((cdz_string){NULL, 0}), const cdz_decoder *dec, const char *model,
        uint32_t i)
NOTHING(uint32_t, drafter_caps, (0), const cdz_decoder *dec)

/* --- what there is ----------------------------------------------------------------------------------------------------- */

static uint32_t n_rows(const cdz_decoder *dec)
{
    return decoder_of(dec)->step->request->n_rows;
}

/* The row of the call; others did not come along. */
static cdz_ids input_ids(const cdz_decoder *dec, uint32_t row)
{
    const cdz_step *step = decoder_of(dec)->step;
    for (uint32_t i = 0; i < step->n_rows && step->input_ids; i++)
        if (step->row_index[i] == row) return step->input_ids[i];
    return (cdz_ids){0};
}

static uint32_t vocab_size(const cdz_decoder *dec, const char *model)
{
    const bool target = !model || strcmp(model, "target") == 0;
    return target ? decoder_of(dec)->step->request->n_vocab : 0;
}

static cdz_status map(cdz_decoder *dec, cdz_scores *scores)
{
    return CDZ_OK; /* all that is here is memory */
}

static cdz_status scratch_scores(cdz_decoder *dec, uint32_t n, cdz_scores *out)
{
    const cdz_worker_decoder *d = decoder_of(dec);
    const size_t V = d->step->request->n_vocab;
    float *data = cdz_arena_array(&d->worker->now->arena, n, V * sizeof *data);
    if (!data) return cdz_fail(d->step, CDZ_E_NOMEM, "scratch_scores: out of memory");
    *out = (cdz_scores){.data = data, .n_rows = n, .n_vocab = (uint32_t)V, .stride = V};
    return CDZ_OK;
}

static void copy_rows(cdz_scores *scores, uint32_t n, float *shared, bool out)
{
    const size_t V = scores->n_vocab;
    for (uint32_t i = 0; i < n; i++)
        memcpy(out ? shared + i * V : cdz_row(scores, i), out ? cdz_row(scores, i) : shared + i * V,
               V * sizeof(float));
}

/* What the host does for one question. */
static cdz_status check_size(const cdz_worker_decoder *d, const cdz_ids *ids, uint32_t n,
                             uint64_t bytes)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < n; i++) tokens += ids[i].len;
    if (bytes <= CDZ_ASK_FILTER_BYTES && tokens <= CDZ_ASK_FILTER_IDS) return CDZ_OK;
    return cdz_fail(d->step, CDZ_E_LIMIT,
                    "process_ids: %u rows with %llu tokens; at most %d MiB of rows and %d tokens go "
                    "to the host at once (isolation = process)",
                    n, (unsigned long long)tokens, CDZ_ASK_FILTER_BYTES >> 20, CDZ_ASK_FILTER_IDS);
}

static cdz_status process_ids(cdz_decoder *dec, uint32_t pipeline, const cdz_ids *ids,
                              const uint32_t *rows, uint32_t n, cdz_scores *scores)
{
    const cdz_worker_decoder *d = decoder_of(dec);
    const uint64_t bytes = (uint64_t)n * scores->n_vocab * sizeof(float);
    if (pipeline != 0 || scores->n_vocab != d->step->request->n_vocab || n > scores->n_rows ||
        n == 0)
        return refuse(dec, "process_ids of other processors or rows than the request's");
    CDZ_TRY(check_size(d, ids, n, bytes));
    float *shared = (float *)(void *)(d->worker->map + cdz_isolate_rows_at((size_t)bytes));
    copy_rows(scores, n, shared, true);
    cdz_wire_out out = cdz_worker_down(d->worker);
    cdz_put_u32(&out, CDZ_DOWN_FILTER);
    cdz_put_u32(&out, n);
    for (uint32_t i = 0; i < n; i++) {
        cdz_put_u32(&out, rows[i]);
        cdz_put_ids(&out, ids[i]);
    }
    cdz_wire_in in = cdz_worker_turn(d->worker, &out);
    (void)cdz_take_u32(&in);
    const cdz_status status = (cdz_status)cdz_take_u32(&in);
    if (in.bad) return CDZ_E_INTERNAL;
    if (status == CDZ_OK) copy_rows(scores, n, shared, false);
    return status;
}

static const cdz_decoder_api api = {
    .size = sizeof(cdz_decoder_api),
    .n_rows = n_rows,
    .input_ids = input_ids,
    .done = no_done,
    .row_done = no_row_done,
    .forward = no_forward,
    .process = no_process,
    .append = no_append,
    .append_rows = no_append_rows,
    .rewindable = no_rewindable,
    .append_chunk = no_append_chunk,
    .rewind = no_rewind,
    .reorder = no_reorder,
    .extend_rows = no_extend_rows,
    .map = map,
    .softmax = no_softmax,
    .log_softmax = no_log_softmax,
    .softmax_flat = no_softmax_flat,
    .ban = no_ban,
    .token_scores = no_token_scores,
    .scratch_scores = scratch_scores,
    .argmax = no_argmax,
    .argmax_rows = no_argmax_rows,
    .multinomial = no_multinomial,
    .topk_flat = no_topk_flat,
    .multinomial_flat = no_multinomial_flat,
    .uniform = no_uniform,
    .seq_new = no_seq_new,
    .seq_of_row = no_seq_of_row,
    .seq_fork = no_seq_fork,
    .seq_free = no_seq_free,
    .seq_append = no_seq_append,
    .seq_truncate = no_seq_truncate,
    .seq_ids = no_seq_ids,
    .seq_length = no_seq_length,
    .seq_forward = no_seq_forward,
    .seq_process = no_seq_process,
    .seq_new_exit = no_seq_new_exit,
    .process_ids = process_ids,
    .pipeline_derive = no_pipeline_derive,
    .keep_hidden = no_keep_hidden,
    .hidden_states = no_hidden_states,
    .head = no_head,
    .stop_test = no_stop_test,
    .has_drafter = no_has_drafter,
    .drafter_caps = no_drafter_caps,
    .propose = no_propose,
    .judged = no_judged,
    .finish = no_finish,
    .return_rows = no_return_rows,
    .record = no_record,
    .put_result = no_put_result,
    .cancelled = no_cancelled,
    .deadline_s = no_deadline_s,
    .vocab_size = vocab_size,
    .facts = no_facts,
    .draw_rows = no_draw_rows,
    .lens = no_lens,
    .seq_steer = no_seq_steer,
    .sleep = no_sleep,
    .wait_fd = no_wait_fd,
    .offload = no_offload,
    .call_tool = no_call_tool,
    .insert = no_insert,
    .commit = no_commit,
    .seq_score = no_seq_score,
    .seq_append_forward = no_seq_append_forward,
    .rollouts = no_rollouts,
    .embed = no_embed,
    .seq_embeds = no_seq_embeds,
    .n_values = no_n_values,
    .seq_value = no_seq_value,
    .value_label = no_value_label,
};

cdz_worker_decoder cdz_worker_decoder_for(cdz_worker *w, const cdz_step *step)
{
    return (cdz_worker_decoder){.base = {.api = &api}, .worker = w, .step = step};
}
