/* loop.c - the life of a decode loop: built when its request is admitted, run on its fibre, taken apart at the end. */
#include "run/loop.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "call/calls.h"
#include "run/companion.h"
#include "run/engine_parts.h"
#include "run/task.h"
#include "run/verbs.h"
#include "run/watch.h"

const cdz_decoder_api cdz_loop_api = {
    .size = sizeof(cdz_decoder_api),
    .n_rows = cdz_verb_n_rows,
    .input_ids = cdz_verb_input_ids,
    .done = cdz_verb_done,
    .row_done = cdz_verb_row_done,
    .forward = cdz_verb_forward,
    .process = cdz_verb_process,
    .append = cdz_verb_append,
    .append_rows = cdz_verb_append_rows,
    .append_chunk = cdz_verb_append_chunk,
    .rewindable = cdz_verb_rewindable,
    .rewind = cdz_verb_rewind,
    .reorder = cdz_verb_reorder,
    .extend_rows = cdz_verb_extend_rows,
    .map = cdz_verb_map,
    .softmax = cdz_verb_softmax,
    .log_softmax = cdz_verb_log_softmax,
    .softmax_flat = cdz_verb_softmax_flat,
    .ban = cdz_verb_ban,
    .token_scores = cdz_verb_token_scores,
    .scratch_scores = cdz_verb_scratch_scores,
    .argmax = cdz_verb_argmax,
    .argmax_rows = cdz_verb_argmax_rows,
    .multinomial = cdz_verb_multinomial,
    .topk_flat = cdz_verb_topk_flat,
    .multinomial_flat = cdz_verb_multinomial_flat,
    .uniform = cdz_verb_uniform,
    .seq_new = cdz_verb_seq_new,
    .seq_of_row = cdz_verb_seq_of_row,
    .seq_fork = cdz_verb_seq_fork,
    .seq_free = cdz_verb_seq_free,
    .seq_append = cdz_verb_seq_append,
    .seq_truncate = cdz_verb_seq_truncate,
    .seq_ids = cdz_verb_seq_ids,
    .seq_length = cdz_verb_seq_length,
    .seq_forward = cdz_verb_seq_forward,
    .seq_process = cdz_verb_seq_process,
    .seq_new_exit = cdz_verb_seq_new_exit,
    .process_ids = cdz_verb_process_ids,
    .pipeline_derive = cdz_verb_pipeline_derive,
    .keep_hidden = cdz_verb_keep_hidden,
    .hidden_states = cdz_verb_hidden_states,
    .head = cdz_verb_head,
    .stop_test = cdz_verb_stop_test,
    .has_drafter = cdz_verb_has_drafter,
    .propose = cdz_verb_propose,
    .judged = cdz_verb_judged,
    .finish = cdz_verb_finish,
    .return_rows = cdz_verb_return_rows,
    .record = cdz_verb_record,
    .put_result = cdz_verb_put_result,
    .cancelled = cdz_verb_cancelled,
    .deadline_s = cdz_verb_deadline_s,
    .vocab_size = cdz_verb_vocab_size,
    .facts = cdz_verb_facts,
    .draw_rows = cdz_verb_draw_rows,
};

/* --- shared by the verbs --------------------------------------------------------------------------------------- */

cdz_status cdz_loop_alive(cdz_loop *loop)
{
    cdz_task *task = loop->task;
    if (atomic_load_explicit(&task->cancelled, memory_order_relaxed) || task->failed)
        return CDZ_E_CANCELLED;
    if (loop->job->deadline_s > 0 && cdz_now_s() >= loop->job->deadline_s) return CDZ_E_DEADLINE;
    return CDZ_OK;
}

/* Whose fibre it is goes first: the loop belongs to the thread that runs it, and is not even read from another. Without a
 * sentence, for the same reason. */
cdz_status cdz_verb_enter(cdz_decoder *dec, uint32_t flags)
{
    cdz_loop *loop = cdz_loop_of(dec);
    if (loop->fibre != cdz_fibre_now) return CDZ_E_PLUGIN;
    if (!(flags & CDZ_VERB_LATE)) CDZ_TRY(cdz_loop_alive(loop));
    if (flags & CDZ_VERB_SCRATCH) cdz_scratch_reset(&loop->verb_scratch);
    return CDZ_OK;
}

void cdz_loop_say(cdz_loop *loop, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cdz_err(&loop->error, code, "%s: %s", loop->strategy.plugin.base->id, text);
}

cdz_status cdz_loop_judge(cdz_loop *loop, const cdz_call *call, cdz_status returned,
                          const cdz_error *said)
{
    if (returned == CDZ_OK && !call->broken) return CDZ_OK;
    /* That a request was cancelled or is late is the host's to say: it ends without a sentence, as if all were well. */
    const bool ends = returned == CDZ_E_CANCELLED || returned == CDZ_E_DEADLINE;
    if (ends && cdz_loop_alive(loop) == CDZ_OK)
        return cdz_call_overstepped(call, returned, said, &loop->error);
    return cdz_call_failed(call, returned, said, &loop->error);
}

cdz_status cdz_loop_await(cdz_loop *loop)
{
    if (loop->prefill_s == 0) loop->want.chunk = loop->job->prefill_chunk;
    cdz_want_begin(&loop->want);
    if (loop->want.rows_left == 0) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(loop->profile, CDZ_WORK_STRATEGY);
    cdz_assert(!loop->waiting);
    loop->waiting = true;
    cdz_fibre_suspend(loop->fibre);
    loop->waiting = false;
    cdz_profile_mark(loop->profile, was);
    if (loop->prefill_s == 0) loop->prefill_s = cdz_now_s();
    return cdz_loop_alive(loop);
}

bool cdz_loop_want(cdz_loop *loop, uint32_t n)
{
    if (n <= loop->want_cap) return true;
    cdz_want_seq *grown = realloc(loop->want_seqs, n * sizeof *grown);
    if (!grown) return false;
    loop->want_seqs = grown;
    loop->want_cap = n;
    return true;
}

bool cdz_loop_view(cdz_loop *loop, uint32_t n)
{
    if (n <= loop->view_cap) return true;
    cdz_view *view = &loop->view;
    cdz_ids *ids = realloc(view->ids, n * sizeof *ids);
    if (ids) view->ids = ids;
    uint32_t *rows = realloc(view->rows, n * sizeof *rows);
    if (rows) view->rows = rows;
    unsigned char **states = realloc(view->states, n * sizeof *states);
    if (states) view->states = states;
    void **state_view = realloc(loop->state_view, n * sizeof *state_view);
    if (state_view) loop->state_view = state_view;
    uint32_t *phase_view = realloc(loop->phase_view, n * sizeof *phase_view);
    if (phase_view) loop->phase_view = phase_view;
    if (!ids || !rows || !states || !state_view || !phase_view) return false;
    loop->view_cap = n;
    return true;
}

bool cdz_verb_cancelled(const cdz_decoder *dec)
{
    return cdz_loop_alive(cdz_loop_of(dec)) != CDZ_OK;
}

double cdz_verb_deadline_s(const cdz_decoder *dec)
{
    return cdz_loop_of(dec)->job->deadline_s;
}

/* --- building --------------------------------------------------------------------------------------------------- */

static const cdz_job_row *prompt_of(const cdz_loop *loop, uint32_t row)
{
    const cdz_job *job = loop->job;
    return &job->rows[job->prompt_logits ? row : row / (job->n_rows / job->n_prompts)];
}

/* What processors read by config(): the plan's values, with those that preparation worked out. */
static cdz_status resolve_config(cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    cdz_generation *g = &loop->config;
    *g = job->plan->generation;
    g->max_length = (cdz_opt_int){job->max_length, true};
    g->min_length = (cdz_opt_int){job->min_length, g->min_length.set || job->min_length > 0};
    g->pad_token_id = (cdz_opt_int){job->pad, job->pad >= 0};
    g->bos_token_id = (cdz_opt_int){job->bos, job->bos >= 0};
    g->seed = (cdz_opt_int){(int64_t)loop->info.seed, true};
    g->use_cache |= !job->sources &&
                    job->n_embeds > 0; /* the reference reads embeddings in the first pass alone */
    int64_t *eos = cdz_arena_array(&loop->arena, job->eos.len, sizeof *eos);
    if (!eos) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < job->eos.len; i++) eos[i] = job->eos.at[i];
    g->eos_token_id = (cdz_int_list){eos, job->eos.len, job->eos.len > 0};
    return CDZ_OK;
}

/* A loop of all rows shows the request as it is; a loop of one row shows a request of that row alone. */
static cdz_status describe(cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    const bool alone = loop->task->n_loops > 1;
    const uint32_t n_prompts = alone ? 1 : job->n_prompts;
    cdz_ids *prompts = cdz_arena_array(&loop->arena, n_prompts, sizeof *prompts);
    if (!prompts) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n_prompts; i++) {
        const uint32_t at = alone ? loop->first_row / (job->n_rows / job->n_prompts) : i;
        const cdz_job_row *row = job->sources ? &job->sources[at] : &job->rows[at];
        const uint32_t len = job->sources ? job->source_len : job->prompt_len;
        /* Embeddings are the prompt where they are given, whatever ids stand beside them. */
        const bool has_ids = row->ids && (job->sources || job->n_embeds == 0);
        prompts[i] = (cdz_ids){has_ids ? row->ids : NULL, has_ids ? len : 0};
    }
    loop->info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = n_prompts,
        .n_rows = loop->n_rows,
        .prompt_len = job->prompt_len,
        .n_vocab = loop->n_vocab,
        .max_length = job->max_length,
        .min_length = job->min_length,
        .context = loop->model->weights->arch.context,
        .num_beams = (uint32_t)job->plan->generation.num_beams,
        .do_sample = job->plan->generation.do_sample,
        .seed = job->seed + (alone ? loop->first_row : 0),
        .eos = job->eos,
        .pad = job->pad,
        .bos = job->bos,
        .prompts = prompts,
        .start_s = loop->task->started_s,
    };
    return resolve_config(loop);
}

static bool has_holes(const uint8_t *mask, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && !mask[i]) i++;
    while (i < n && mask[i]) i++;
    for (; i < n; i++)
        if (mask[i]) return true;
    return false;
}

static cdz_status check_mask(cdz_loop *loop, const cdz_job_row *prompt, uint32_t row)
{
    bool any = false;
    for (uint32_t i = 0; i < cdz_job_slots(loop->job); i++) any |= prompt->mask[i] != 0;
    if (!any)
        return cdz_err(&loop->error, CDZ_E_INPUT,
                       "attention_mask: row %" PRIu32 " hides every token", row);
    if (cdz_arch_needs_whole_mask(&loop->model->weights->arch) &&
        has_holes(prompt->mask, cdz_job_slots(loop->job)))
        return cdz_err(
            &loop->error, CDZ_E_UNSUPPORTED,
            "attention_mask: row %" PRIu32 " has holes inside, which a model with %s cannot honour",
            row, loop->model->weights->arch.n_buckets ? "relative positions" : "sliding windows");
    return CDZ_OK;
}

static cdz_status build_row(cdz_loop *loop, uint32_t r)
{
    cdz_loop_row *row = &loop->rows[r];
    const cdz_job_row *prompt = prompt_of(loop, loop->first_row + r);
    const uint32_t len = loop->job->prompt_len;
    row->seq = cdz_arena_alloc(&loop->arena, sizeof *row->seq);
    if (!row->seq) return cdz_loop_nomem(loop);
    const uint32_t room = loop->job->max_length > len ? loop->job->max_length : len;
    CDZ_TRY(cdz_seq_init(row->seq, loop->model, cdz_task_account(loop->task, loop->model), room,
                         &loop->error));
    row->seq->is_row = true;
    row->seq->source = cdz_task_source(loop->task, loop->model, loop->first_row + r);
    CDZ_TRY(cdz_seq_push(row->seq, prompt->ids, len, &loop->error));
    if (prompt->embeds) cdz_seq_embed(row->seq, prompt->embeds, loop->job->n_embeds);
    if (prompt->mask) {
        CDZ_TRY(check_mask(loop, prompt, loop->first_row + r));
        cdz_seq_set_mask(row->seq, prompt->mask, cdz_job_slots(loop->job));
    }
    /* A decoder's state hangs on what its encoder read. */
    if (!loop->job->past || loop->job->prompt_logits || row->seq->source) return CDZ_OK;
    return cdz_kept_share(loop->job->past, row->seq, &loop->error);
}

/* Rows begin together: each with the positions of the longest prompt. */
static void note_prompts(cdz_loop *loop)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->n_rows; r++) {
        const uint32_t n = cdz_seq_visible(loop->rows[r].seq);
        if (n > most) most = n;
    }
    for (uint32_t r = 0; r < loop->n_rows; r++) loop->rows[r].seq->begun = most;
}

/* Positions that the first row of each prompt shares with the past. */
static uint32_t count_reused(const cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    const uint32_t each = job->prompt_logits ? 1 : job->n_rows / job->n_prompts;
    uint32_t n = 0;
    for (uint32_t r = 0; r < loop->n_rows; r++)
        if ((loop->first_row + r) % each == 0) n += loop->rows[r].seq->computed;
    return n;
}

static cdz_status build(cdz_loop *loop)
{
    if (!loop->job->prompt_logits) CDZ_TRY(describe(loop));
    loop->rows = cdz_arena_array(&loop->arena, loop->n_rows, sizeof *loop->rows);
    loop->n_workers = loop->backend->api->n_threads(loop->backend);
    if (loop->n_workers > CDZ_LOOP_WORKERS) loop->n_workers = CDZ_LOOP_WORKERS;
    if (loop->n_workers == 0) loop->n_workers = 1;
    loop->workers = cdz_arena_array(&loop->arena, loop->n_workers, sizeof *loop->workers);
    if (!loop->rows || !loop->workers) return cdz_loop_nomem(loop);
    if (!cdz_loop_view(loop, loop->n_rows)) return cdz_loop_nomem(loop);
    for (uint32_t r = 0; r < loop->n_rows; r++) CDZ_TRY(build_row(loop, r));
    note_prompts(loop);
    loop->task->outcome->n_reused_tokens += count_reused(loop);
    return CDZ_OK;
}

static uint32_t strategy_caps(const cdz_loop *loop)
{
    return ((const cdz_strategy *)(const void *)loop->strategy.plugin.base)->caps;
}

cdz_status cdz_loop_create(cdz_task *task, uint32_t first_row, uint32_t n_rows, cdz_loop **out,
                           cdz_error *err)
{
    cdz_loop *loop = calloc(1, sizeof *loop);
    if (!loop) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the request");
    loop->base.api = &cdz_loop_api;
    loop->task = task;
    loop->job = task->job;
    loop->model = task->job->model;
    loop->backend = cdz_engine_backend(task->engine);
    loop->first_row = first_row;
    loop->n_rows = loop->n_open = n_rows;
    loop->n_vocab = loop->model->weights->arch.n_vocab;
    loop->arena.limit = loop->stage_arena.limit = CDZ_LOOP_ARENA;
    loop->fuses = cdz_engine_fuses(task->engine);
    loop->profile = cdz_engine_profile(task->engine);
    if (!task->job->prompt_logits) {
        loop->strategy = task->job->plan->strategy;
        cdz_loop_count_for(loop, &loop->strategy.plugin);
        loop->holds_text = (strategy_caps(loop) & (CDZ_REWINDS | CDZ_BEAMS)) != 0;
    }
    const cdz_status status = build(loop);
    if (status != CDZ_OK) {
        if (err) *err = loop->error;
        cdz_loop_free(loop);
        return status;
    }
    cdz_torch_seed(&loop->rng, loop->info.seed);
    if (loop->job->draws_before) cdz_torch_skip(&loop->rng, loop->job->draws_before);
    *out = loop;
    return CDZ_OK;
}

static void free_matrix(cdz_loop *loop, cdz_matrix *m)
{
    loop->backend->api->free(loop->backend, m->data);
    m->data = NULL;
}

void cdz_loop_free(cdz_loop *loop)
{
    if (!loop) return;
    cdz_fibre_free(loop->fibre);
    cdz_companions_free(loop);
    cdz_watch_free(loop);
    while (loop->seqs) cdz_verb_seq_free(&loop->base, loop->seqs);
    for (uint32_t r = 0; loop->rows && r < loop->n_rows; r++) {
        cdz_seq_clear(loop->rows[r].seq);
        cdz_seq_clear(loop->rows[r].spare);
        free(loop->rows[r].marks);
    }
    cdz_away_free(&loop->away); /* rows may be on their way to the next */
    free_matrix(loop, &loop->scores);
    free_matrix(loop, &loop->seq_scores);
    free_matrix(loop, &loop->hidden.scores);
    if (loop->hidden.data) loop->backend->api->free(loop->backend, loop->hidden.data);
    free_matrix(loop, &loop->refitted);
    for (uint32_t i = 0; i < loop->n_scratch; i++) free_matrix(loop, loop->scratch[i]);
    for (uint32_t i = 0; loop->workers && i < loop->n_workers; i++)
        cdz_scratch_free(&loop->workers[i].scratch);
    cdz_scratch_free(&loop->drafting.scratch);
    free(loop->drafting.tokens);
    free(loop->drafting.pace);
    cdz_scratch_free(&loop->strategy_scratch);
    cdz_scratch_free(&loop->verb_scratch);
    free(loop->view.ids);
    free(loop->view.rows);
    free(loop->view.states);
    free(loop->state_view);
    free(loop->phase_view);
    free(loop->trial_states);
    free(loop->want_seqs);
    cdz_arena_free(&loop->stage_arena);
    cdz_plan_free(loop->plan);
    cdz_arena_free(&loop->arena);
    free(loop);
}

/* --- running ---------------------------------------------------------------------------------------------------- */

/* Row states begin as zero bytes; processors and criteria are begun before they are made. */
static cdz_status make_states(cdz_loop *loop)
{
    for (uint32_t r = 0; loop->state_bytes && r < loop->n_rows; r++) {
        loop->rows[r].state = cdz_arena_alloc(&loop->stage_arena, loop->state_bytes);
        if (!loop->rows[r].state) return cdz_loop_nomem(loop);
    }
    return cdz_matrix_fit(loop, &loop->scores, loop->n_rows, loop->n_vocab);
}

/* What the strategy returned, as the loop's status and sentence. */
static cdz_status judge_run(cdz_loop *loop, const cdz_call *call, cdz_status returned,
                            const cdz_error *said)
{
    const cdz_status alive = cdz_loop_alive(loop);
    if (call->broken) return cdz_call_judge(call, returned, said, &loop->error);
    if (returned == CDZ_OK) return alive != CDZ_OK && loop->n_open ? alive : CDZ_OK;
    if (returned == alive) return alive;
    if (said->code != returned && loop->error.code == returned)
        return returned; /* a verb said why */
    return cdz_call_judge(call, returned, said, &loop->error);
}

static cdz_status run_strategy(cdz_loop *loop)
{
    const cdz_strategy *strategy = (const void *)loop->strategy.plugin.base;
    cdz_error said = {.code = CDZ_OK};
    cdz_scope scope = {.loop = loop,
                       .plugin = &strategy->base,
                       .scratch = &loop->strategy_scratch,
                       .error = &said,
                       .may_alloc = true};
    cdz_step step = cdz_step_for(&scope, loop->strategy.params, NULL);
    step.n_rows = loop->n_rows;
    cdz_call call = {0}; /* its scratch memory is there as long as the loop */
    const cdz_status returned = cdz_call_run(&call, strategy, &loop->base, &step);
    return judge_run(loop, &call, returned, &said);
}

static cdz_status decode(cdz_loop *loop)
{
    cdz_profile_mark(loop->profile, CDZ_WORK_REQUEST);
    cdz_status status = cdz_stages_begin(loop);
    if (status == CDZ_OK) status = cdz_companions_begin(loop);
    if (status == CDZ_OK) status = make_states(loop);
    if (status == CDZ_OK) status = cdz_drafter_begin(loop);
    if (status == CDZ_OK) status = cdz_watch_begin(loop);
    cdz_profile_mark(loop->profile, CDZ_WORK_STRATEGY);
    if (status == CDZ_OK) status = run_strategy(loop);
    if (status != CDZ_OK) cdz_record_drop_open(loop);
    cdz_profile_mark(loop->profile, CDZ_WORK_REQUEST);
    if (status == CDZ_OK && (loop->job->keep_hidden || loop->job->keep_attentions))
        status = cdz_states_replay(loop);
    cdz_watch_end(loop);
    cdz_drafter_end(loop);
    cdz_stages_end(loop);
    if (loop->returned)
        cdz_loop_emit_returned(loop);
    else
        for (uint32_t r = 0; r < loop->n_rows; r++) cdz_loop_emit(loop, r, true);
    return status;
}

void cdz_loop_main(void *arg)
{
    cdz_loop *loop = arg;
    loop->status = loop->job->prompt_logits ? cdz_loop_read_prompts(loop) : decode(loop);
}
