/* spy.c - a table of verbs that stands before the decoder's own while run() runs. A function of the ABI has no argument of
 * ours, so what it needs is the process's. */
#include "check/spy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/utf8.h"
#include "cadenza/ext/kv.h"
#include "call/calls.h"
#include "check/spy_hidden.h"
#include "check/spy_rows.h"

enum { PATIENCE = 20000 }; /* verbs that a strategy may call after one has failed */

static struct {
    cdz_spy seen;
    cdz_child *c;
    cdz_strategy strategy;
    const cdz_decoder_api *real;
    cdz_decoder_api table;
    const cdz_host *real_host;
    const cdz_kv_host *real_kv;
} spy;

/* --- ids between guards ------------------------------------------------------------------------------------------ */

cdz_ids cdz_show_ids(uint32_t slot, cdz_ids ids)
{
    static int32_t *at[CDZ_SHOWN];
    const size_t bytes = CDZ_SHOWN_MOST * sizeof(int32_t);
    if (slot >= CDZ_SHOWN || ids.len > CDZ_SHOWN_MOST || ids.len == 0) return ids;
    if (!at[slot]) {
        at[slot] = cdz_guarded(bytes, sizeof(int32_t), true, "input_ids");
        if (!at[slot] ||
            !cdz_guarded_lock(at[slot], bytes, sizeof(int32_t), "input_ids, which are the host's"))
            return ids;
    }
    int32_t *to = at[slot] + CDZ_SHOWN_MOST - ids.len;
    cdz_guarded_unlock(at[slot], bytes);
    memcpy(to, ids.at, ids.len * sizeof *to);
    cdz_guarded_readable(at[slot], bytes, true);
    return (cdz_ids){to, ids.len};
}

/* --- verbs --------------------------------------------------------------------------------------------------------- */

/* Notes a verb that is called on a thread which is in no [engine] call of the host. */
static void look_at_thread(const char *verb)
{
    const char *none = NULL;
    if (cdz_calling_now.thread != CDZ_THREAD_ENGINE)
        atomic_compare_exchange_strong(&spy.seen.astray, &none, verb);
}

/* Whether the verb that is called now is to fail. A strategy that never stops calling is ended with its process. */
static bool fails(const char *verb)
{
    cdz_spy *s = &spy.seen;
    look_at_thread(verb);
    s->calls++;
    if (s->fail_at == 0 || s->calls < s->fail_at) {
        cdz_shown_give();
        return false;
    }
    if (++s->after < PATIENCE) return true;
    (void)cdz_fail_check(spy.c,
                         "verb %u of a request returned CDZ_E_CANCELLED, and the strategy went on to "
                         "call %d more: does it pass on what its verbs return?",
                         s->fail_at, (int)PATIENCE);
    _exit(0);
}

static cdz_status ended(const char *verb, cdz_status status)
{
    if (!cdz_shown_on()) return status;
    cdz_shown_take();
    cdz_check_note(spy.c, "rows of scores between guards, behind %s, verb %u of a request", verb,
                   spy.seen.calls);
    return status;
}

/* Scores that a verb gave. Where it failed, the engine's rows may lie elsewhere by now. */
static cdz_status gave(const char *verb, cdz_scores *out, cdz_rows_of whose, cdz_status status)
{
    if (status == CDZ_OK && out) cdz_shown_scores(out, whose);
    if (status != CDZ_OK) cdz_shown_forget(whose);
    return ended(verb, status);
}

/* Scores that it was given, as the engine knows them: in host memory now, if they were not before. */
static cdz_status edited(const char *verb, cdz_scores *s, cdz_scores *real, cdz_status status)
{
    if (status == CDZ_OK && !s->data && real->data) {
        cdz_shown_scores(real, CDZ_ROWS_KEPT);
        *s = *real;
    }
    return ended(verb, status);
}

static cdz_status made(cdz_status status)
{
    spy.seen.live += status == CDZ_OK;
    return status;
}

/* what: what is noted of the call. */
#define VERB_(name, params, args, what)                                                            \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        what;                                                                                      \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        return ended(#name, spy.real->name args);                                                  \
    }
#define VERB(name, params, args) VERB_(name, params, args, (void)0)
/* It runs passes of its own over sequences: rows of scores that an earlier one gave end. */
#define PASSES(name, params, args, what)                                                           \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        what;                                                                                      \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        const cdz_status status = spy.real->name args;                                             \
        cdz_shown_forget(CDZ_ROWS_OF_PASS);                                                        \
        return ended(#name, status);                                                               \
    }
#define SEARCHES(name, params, args) VERB_(name, params, args, spy.seen.searched = true)
#define MAKES(name, params, args)                                                                  \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        spy.seen.searched = true;                                                                  \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        return ended(#name, made(spy.real->name args));                                            \
    }
/* On the scores `s`, which args name as &here. */
#define EDITS_(name, params, args, what)                                                           \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        what;                                                                                      \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        cdz_scores here = cdz_shown_real(s);                                                       \
        return edited(#name, s, &here, spy.real->name args);                                       \
    }
#define READS_(name, params, args, what)                                                           \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        what;                                                                                      \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        const cdz_scores here = cdz_shown_real(s);                                                 \
        return ended(#name, spy.real->name args);                                                  \
    }
#define EDITS(name, params, args) EDITS_(name, params, args, (void)0)
#define READS(name, params, args) READS_(name, params, args, (void)0)
#define GIVES(name, params, args, out_, whose)                                                     \
    static cdz_status spy_##name params                                                            \
    {                                                                                              \
        if (fails(#name)) return CDZ_E_CANCELLED;                                                  \
        return gave(#name, out_, whose, spy.real->name args);                                      \
    }
GIVES(forward, (cdz_decoder * dec, cdz_scores *out), (dec, out), out, CDZ_ROWS_KEPT)
EDITS(process, (cdz_decoder * dec, cdz_scores *s), (dec, &here))
VERB(append, (cdz_decoder * dec, uint32_t row, int32_t token), (dec, row, token))
VERB(append_rows, (cdz_decoder * dec, int32_t *tokens), (dec, tokens))
VERB_(rewind, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n), spy.seen.rewound += n)
SEARCHES(reorder, (cdz_decoder * dec, const uint32_t *parents), (dec, parents))
SEARCHES(extend_rows, (cdz_decoder * dec, const uint32_t *parents, const int32_t *tokens),
         (dec, parents, tokens))
EDITS(map, (cdz_decoder * dec, cdz_scores *s), (dec, &here))
EDITS(softmax, (cdz_decoder * dec, cdz_scores *s), (dec, &here))
EDITS(log_softmax, (cdz_decoder * dec, cdz_scores *s), (dec, &here))
EDITS(ban, (cdz_decoder * dec, cdz_scores *s, uint32_t row, int32_t token), (dec, &here, row, token))
READS(token_scores,
      (cdz_decoder * dec, const cdz_scores *s, const uint32_t *rows, const int32_t *tokens,
       uint32_t n, cdz_token_score *out),
      (dec, &here, rows, tokens, n, out))
GIVES(scratch_scores, (cdz_decoder * dec, uint32_t n, cdz_scores *out), (dec, n, out), out,
      CDZ_ROWS_KEPT)
READS(argmax, (cdz_decoder * dec, const cdz_scores *s, uint32_t row, cdz_pick *out),
      (dec, &here, row, out))
READS(argmax_rows, (cdz_decoder * dec, const cdz_scores *s, int32_t *tokens), (dec, &here, tokens))
READS(topk_flat,
      (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, const float *addends,
       uint32_t m, cdz_candidate *out),
      (dec, &here, first, n, addends, m, out))
READS_(multinomial, (cdz_decoder * dec, const cdz_scores *s, int32_t *tokens), (dec, &here, tokens),
       spy.seen.drew = true)
READS_(multinomial_flat,
       (cdz_decoder * dec, const cdz_scores *s, uint32_t first, uint32_t n, uint32_t m,
        cdz_candidate *out),
       (dec, &here, first, n, m, out), spy.seen.drew = true)
VERB_(uniform, (cdz_decoder * dec, uint32_t n, float *out), (dec, n, out), spy.seen.drew = true)
EDITS_(draw_rows, (cdz_decoder * dec, cdz_scores *s, int32_t *tokens), (dec, &here, tokens),
       spy.seen.drew = true)
MAKES(seq_new, (cdz_decoder * dec, const char *model, cdz_seq **out), (dec, model, out))
MAKES(seq_fork, (cdz_decoder * dec, const cdz_seq *seq, cdz_seq **out), (dec, seq, out))
MAKES(seq_new_exit, (cdz_decoder * dec, const char *model, uint32_t n, cdz_seq **out),
      (dec, model, n, out))
VERB(seq_append, (cdz_decoder * dec, cdz_seq *seq, const int32_t *ids, uint32_t n),
     (dec, seq, ids, n))
VERB(seq_truncate, (cdz_decoder * dec, cdz_seq *seq, uint32_t len), (dec, seq, len))
GIVES(seq_forward,
      (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, cdz_positions positions,
       cdz_scores *out),
      (dec, seqs, n, positions, out), positions == CDZ_POSITIONS_NONE ? NULL : out, CDZ_ROWS_OF_PASS)
EDITS(seq_process,
      (cdz_decoder * dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n, cdz_scores *s),
      (dec, seqs, rows, n, &here))
EDITS(process_ids,
      (cdz_decoder * dec, uint32_t pipeline, const cdz_ids *ids, const uint32_t *rows, uint32_t n,
       cdz_scores *s),
      (dec, pipeline, ids, rows, n, &here))
VERB(pipeline_derive,
     (cdz_decoder * dec, const char *const *exclude, uint32_t n_exclude, const char *const *append,
      uint32_t n_append, uint32_t *out),
     (dec, exclude, n_exclude, append, n_append, out))
VERB(keep_hidden, (cdz_decoder * dec, cdz_positions positions, const uint32_t *layers, uint32_t n),
     (dec, positions, layers, n))
GIVES(head, (cdz_decoder * dec, const float *hidden, uint32_t n, cdz_scores *out),
      (dec, hidden, n, out), out, CDZ_ROWS_OF_PASS)
GIVES(lens, (cdz_decoder * dec, const float *hidden, uint32_t n, cdz_scores *out),
      (dec, hidden, n, out), out, CDZ_ROWS_OF_PASS)
VERB(seq_steer, (cdz_decoder * dec, cdz_seq *seq, const cdz_edit *edits, uint32_t n),
     (dec, seq, edits, n))
VERB(embed, (cdz_decoder * dec, const char *model, const int32_t *ids, uint32_t n, float *out),
     (dec, model, ids, n, out))
VERB(seq_embeds,
     (cdz_decoder * dec, cdz_seq *seq, uint32_t from, const float *embeds, uint32_t n,
      uint32_t width),
     (dec, seq, from, embeds, n, width))
VERB(stop_test,
     (cdz_decoder * dec, const cdz_ids *ids, const uint32_t *rows, uint32_t n, cdz_stop *stops),
     (dec, ids, rows, n, stops))
VERB(judged, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
READS(record, (cdz_decoder * dec, cdz_record_kind what, const cdz_scores *s), (dec, what, &here))
VERB(put_result,
     (cdz_decoder * dec, const char *name, cdz_result_type type, uint32_t n_dims,
      const uint64_t *shape, const void *data),
     (dec, name, type, n_dims, shape, data))
VERB(sleep, (cdz_decoder * dec, double seconds), (dec, seconds))
VERB(wait_fd, (cdz_decoder * dec, int fd, uint32_t events, double seconds, uint32_t *ready),
     (dec, fd, events, seconds, ready))
VERB(offload, (cdz_decoder * dec, void (*fn)(void *arg), void *arg), (dec, fn, arg))
VERB(call_tool,
     (cdz_decoder * dec, const char *name, const char *text, uint32_t len, cdz_tool_answer *out),
     (dec, name, text, len, out))
VERB(insert,
     (cdz_decoder * dec, uint32_t row, const int32_t *ids, uint32_t n, uint32_t flags,
      const char *who),
     (dec, row, ids, n, flags, who))
VERB(commit, (cdz_decoder * dec, uint32_t row, uint32_t n), (dec, row, n))
PASSES(seq_score, (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, uint32_t last, float *out),
       (dec, seqs, n, last, out), (void)0)
PASSES(seq_value,
       (cdz_decoder * dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values, float *out),
       (dec, seqs, n, n_values, out), (void)0)
GIVES(seq_append_forward,
      (cdz_decoder * dec, cdz_seq *const *seqs, const int32_t *tokens, uint32_t n, cdz_scores *out),
      (dec, seqs, tokens, n, out), out, CDZ_ROWS_OF_PASS)
PASSES(rollouts,
       (cdz_decoder * dec, cdz_seq *const *seqs, const uint32_t *rows, uint32_t n, uint32_t most,
        bool draws, cdz_rollout *out),
       (dec, seqs, rows, n, most, draws, out), spy.seen.drew |= draws)

static cdz_status spy_append_chunk(cdz_decoder *dec, uint32_t row, const int32_t *tokens,
                                   uint32_t n, const cdz_scores *logits, const cdz_scores *scores,
                                   uint32_t *taken)
{
    if (fails("append_chunk")) return CDZ_E_CANCELLED;
    const cdz_scores raw = logits ? cdz_shown_real(logits) : (cdz_scores){0};
    const cdz_scores here = scores ? cdz_shown_real(scores) : (cdz_scores){0};
    return ended("append_chunk", spy.real->append_chunk(dec, row, tokens, n, logits ? &raw : NULL,
                                                        scores ? &here : NULL, taken));
}

static cdz_status spy_softmax_flat(cdz_decoder *dec, const cdz_scores *s, uint32_t first,
                                   uint32_t n, const float *addends, cdz_scores *out)
{
    if (fails("softmax_flat")) return CDZ_E_CANCELLED;
    const cdz_scores from = cdz_shown_real(s);
    cdz_scores to = cdz_shown_real(out);
    return edited("softmax_flat", out, &to,
                  spy.real->softmax_flat(dec, &from, first, n, addends, &to));
}

static cdz_status spy_hidden_states(cdz_decoder *dec, cdz_hidden *out)
{
    if (fails("hidden_states")) return CDZ_E_CANCELLED;
    const cdz_status status = spy.real->hidden_states(dec, out);
    if (status == CDZ_OK) cdz_shown_hidden(out);
    return ended("hidden_states", status);
}

/* The drafter has the decoder's own table: it is another plugin. Its passes may move the rows of earlier ones. */
static cdz_status spy_propose(cdz_decoder *dec, uint32_t row, cdz_draft *out)
{
    if (fails("propose")) return CDZ_E_CANCELLED;
    dec->api = spy.real;
    const cdz_status status = cdz_propose(dec, row, out);
    dec->api = &spy.table;
    cdz_shown_forget(CDZ_ROWS_OF_PASS);
    return gave("propose", &out->scores, CDZ_ROWS_OF_PASS, status);
}

/* The one verb that is of use after a request was cancelled. */
static cdz_status spy_return_rows(cdz_decoder *dec, const cdz_returned *rows, uint32_t n)
{
    look_at_thread("return_rows");
    spy.seen.returned_rows = true;
    return spy.real->return_rows(dec, rows, n);
}

/* The kit's requests have no end-of-sequence token, no time limit and no stop string. */
static void look_at_reason(cdz_stop_reason reason, const char *text)
{
    static const char *const cannot[] = {
        [CDZ_STOP_EOS] = "CDZ_STOP_EOS, in a request without an end-of-sequence token",
        [CDZ_STOP_LENGTH] = NULL,
        [CDZ_STOP_TIME] = "CDZ_STOP_TIME, in a request without a time limit",
        [CDZ_STOP_STRING] = "CDZ_STOP_STRING, in a request without stop strings",
    };
    const char *what = (unsigned)reason < CDZ_STOP_CUSTOM ? cannot[reason] : NULL;
    if (reason == CDZ_STOP_CUSTOM && (!text || !text[0])) what = "CDZ_STOP_CUSTOM without a text";
    if (reason == CDZ_STOP_CUSTOM && text && !cdz_utf8_valid(text, strlen(text)))
        what = "CDZ_STOP_CUSTOM and a text that is no UTF-8";
    if (what && !spy.seen.complaint[0])
        snprintf(spy.seen.complaint, sizeof spy.seen.complaint, "finish was called with %s", what);
}

static cdz_status spy_finish(cdz_decoder *dec, uint32_t row, cdz_stop_reason reason,
                             const char *text)
{
    if (fails("finish")) return CDZ_E_CANCELLED;
    look_at_reason(reason, text);
    return spy.real->finish(dec, row, reason, text);
}

static bool spy_done(const cdz_decoder *dec)
{
    look_at_thread("done");
    return spy.seen.after > 0 || spy.real->done(dec);
}

static bool spy_cancelled(const cdz_decoder *dec)
{
    look_at_thread("cancelled");
    return spy.seen.after > 0 || spy.real->cancelled(dec);
}

static void spy_seq_free(cdz_decoder *dec, cdz_seq *seq)
{
    look_at_thread("seq_free");
    spy.seen.live -= seq && spy.seen.live > 0;
    spy.real->seq_free(dec, seq);
}

static cdz_ids spy_input_ids(const cdz_decoder *dec, uint32_t row)
{
    look_at_thread("input_ids");
    const cdz_ids ids = spy.real->input_ids(dec, row);
    return spy.seen.guards_ids ? cdz_show_ids(row, ids) : ids;
}

/* Verbs that tell something and cannot fail. */
#define TELLS(type, name, params, args)                                                            \
    static type spy_##name params                                                                  \
    {                                                                                              \
        look_at_thread(#name);                                                                     \
        return spy.real->name args;                                                                \
    }
TELLS(uint32_t, n_rows, (const cdz_decoder *dec), (dec))
TELLS(bool, row_done, (const cdz_decoder *dec, uint32_t row), (dec, row))
TELLS(uint32_t, rewindable, (const cdz_decoder *dec, uint32_t row), (dec, row))
TELLS(cdz_seq *, seq_of_row, (cdz_decoder * dec, uint32_t row), (dec, row))
TELLS(cdz_ids, seq_ids, (const cdz_decoder *dec, const cdz_seq *seq), (dec, seq))
TELLS(uint32_t, seq_length, (const cdz_decoder *dec, const cdz_seq *seq), (dec, seq))
TELLS(bool, has_drafter, (const cdz_decoder *dec), (dec))
TELLS(uint32_t, drafter_caps, (const cdz_decoder *dec), (dec))
TELLS(double, deadline_s, (const cdz_decoder *dec), (dec))
TELLS(uint32_t, vocab_size, (const cdz_decoder *dec, const char *model), (dec, model))
TELLS(uint32_t, n_values, (const cdz_decoder *dec, const char *model), (dec, model))
TELLS(cdz_string, value_label, (const cdz_decoder *dec, const char *model, uint32_t i),
      (dec, model, i))
TELLS(bool, facts, (const cdz_decoder *dec, const char *model, cdz_model_facts *out),
      (dec, model, out))

/* --- verbs of extensions -------------------------------------------------------------------------------------------- */

static cdz_status spy_drop(cdz_decoder *dec, cdz_seq *seq, uint32_t from, uint32_t to,
                           uint32_t flags)
{
    if (fails("seq_drop")) return CDZ_E_CANCELLED;
    const cdz_status status = spy.real_kv->drop(dec, seq, from, to, flags);
    if (status == CDZ_OK && to > from) spy.seen.dropped += to - from;
    return ended("seq_drop", status);
}

static cdz_status spy_kv(cdz_decoder *dec, cdz_seq *seq, uint32_t layer, uint32_t head,
                         uint32_t from, uint32_t to, cdz_kv_entries *out)
{
    if (fails("seq_kv")) return CDZ_E_CANCELLED;
    return ended("seq_kv", spy.real_kv->read(dec, seq, layer, head, from, to, out));
}

static cdz_status spy_attention(cdz_decoder *dec, cdz_seq *seq, uint32_t n_queries,
                                const uint32_t *layers, uint32_t n_layers, cdz_attention_rows *out)
{
    if (fails("seq_attention")) return CDZ_E_CANCELLED;
    const cdz_status status = spy.real_kv->attention(dec, seq, n_queries, layers, n_layers, out);
    cdz_shown_forget(CDZ_ROWS_OF_PASS);
    return ended("seq_attention", status);
}

static const void *spy_extension(const char *id)
{
    static const cdz_kv_host kv = {
        .size = sizeof kv, .drop = spy_drop, .read = spy_kv, .attention = spy_attention};
    const void *real = spy.real_host->extension(id);
    if (real && spy.seen.watches_hidden && strcmp(id, CDZ_EXT_STEER) == 0)
        return cdz_spy_hidden(real);
    if (!real || !cdz_is_kv(id)) return real;
    spy.real_kv = real;
    return &kv;
}

/* --- planting ------------------------------------------------------------------------------------------------------ */

static void fill_table(void)
{
    cdz_decoder_api *t = &spy.table;
    *t = *spy.real;
#define PUT(name) t->name = spy_##name
    PUT(forward), PUT(process), PUT(append), PUT(append_rows), PUT(append_chunk), PUT(rewind);
    PUT(reorder), PUT(extend_rows), PUT(map), PUT(softmax), PUT(log_softmax), PUT(softmax_flat);
    PUT(ban), PUT(token_scores), PUT(scratch_scores), PUT(argmax), PUT(argmax_rows), PUT(topk_flat);
    PUT(multinomial), PUT(multinomial_flat), PUT(uniform), PUT(draw_rows), PUT(seq_new);
    PUT(seq_fork), PUT(seq_new_exit), PUT(seq_append), PUT(seq_truncate), PUT(seq_forward);
    PUT(seq_process), PUT(process_ids), PUT(pipeline_derive), PUT(keep_hidden), PUT(hidden_states);
    PUT(head), PUT(stop_test), PUT(propose), PUT(judged), PUT(record), PUT(put_result);
    PUT(return_rows), PUT(finish), PUT(done), PUT(cancelled), PUT(seq_free), PUT(input_ids);
    PUT(n_rows), PUT(row_done), PUT(rewindable), PUT(seq_of_row), PUT(seq_ids), PUT(seq_length);
    PUT(has_drafter), PUT(deadline_s), PUT(vocab_size), PUT(facts), PUT(lens);
    PUT(seq_steer);
    PUT(embed);
    PUT(seq_embeds), PUT(drafter_caps);
    PUT(n_values), PUT(seq_value), PUT(value_label);
    PUT(sleep), PUT(wait_fd), PUT(offload), PUT(call_tool), PUT(insert), PUT(commit), PUT(seq_score);
    PUT(seq_append_forward), PUT(rollouts);
#undef PUT
}

void cdz_spy_lend(cdz_child *c, cdz_decoder *dec)
{
    spy.c = c;
    spy.real = dec->api;
    fill_table();
    dec->api = &spy.table;
    cdz_shown_take();
}

void cdz_spy_take_back(cdz_decoder *dec, cdz_scores *given)
{
    cdz_shown_give();
    *given = cdz_shown_real(given);
    cdz_shown_forget(CDZ_ROWS_OF_PASS);
    dec->api = spy.real;
}

const char *cdz_spy_astray(void)
{
    return atomic_load(&spy.seen.astray);
}

static cdz_status watched_run(cdz_decoder *dec, const cdz_step *step)
{
    cdz_spy *s = &spy.seen;
    s->calls = s->after = s->live = s->rewound = s->dropped = 0;
    s->drew = s->returned_rows = s->searched = false;
    spy.real = dec->api;
    fill_table();
    dec->api = &spy.table;
    cdz_step seen = *step;
    cdz_host host = *step->host;
    spy.real_host = step->host;
    host.extension = spy_extension;
    seen.host = &host;
    if (s->guards_rows) cdz_shown_begin(s->at_end);
    cdz_spy_hidden_begin();
    cdz_call inside = {.raw = true}; /* the host's own guard is round it */
    s->returned = cdz_call_run(&inside, &spy.strategy, dec, &seen);
    cdz_shown_give();
    cdz_shown_end();
    dec->api = spy.real;
    return s->returned;
}

cdz_status cdz_spy_plant(const cdz_bench *b, cdz_spy **out, cdz_error *err)
{
    cdz_plugin_ref ref;
    CDZ_TRY(
        cdz_registry_find(b->runtime->registry, CDZ_KIND_STRATEGY, b->c->ref.base->id, &ref, err));
    cdz_strategy *strategy = (cdz_strategy *)(uintptr_t)ref.base; /* the registry's own copy */
    spy.c = b->c;
    spy.strategy = *strategy;
    strategy->run = watched_run;
    cdz_module_release(ref.module); /* the registry keeps it */
    *out = &spy.seen;
    return CDZ_OK;
}
