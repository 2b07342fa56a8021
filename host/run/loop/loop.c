/* loop.c - the life of a decode loop: built when its request is admitted, run on its fibre, taken apart at the end.
 *
 * Owns: what a loop has while its strategy runs, as one table (life), closed in reverse. Not: the verbs, of which this file
 * has the list alone. Invariant: whatever was opened is closed on the fibre, before the fibre ends. */
#include "run/loop/loop.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cadenza/ext/kv.h"
#include "cadenza/ext/mask.h"
#include "cadenza/ext/observe.h"
#include "call/calls.h"
#include "run/loop/companion.h"
#include "run/loop/verbs.h"
#include "run/pass/kept.h"
#include "run/stages/watch.h"

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
    .lens = cdz_verb_lens,
    .seq_steer = cdz_verb_seq_steer,
    .sleep = cdz_verb_sleep,
    .wait_fd = cdz_verb_wait_fd,
    .offload = cdz_verb_offload,
    .call_tool = cdz_verb_call_tool,
    .insert = cdz_verb_insert,
    .commit = cdz_verb_commit,
    .seq_score = cdz_verb_seq_score,
    .seq_append_forward = cdz_verb_seq_append_forward,
    .rollouts = cdz_verb_rollouts,
    .embed = cdz_verb_embed,
    .seq_embeds = cdz_verb_seq_embeds,
    .n_values = cdz_verb_n_values,
    .seq_value = cdz_verb_seq_value,
    .drafter_caps = cdz_verb_drafter_caps,
    .value_label = cdz_verb_value_label,
};

/* --- shared by the verbs --------------------------------------------------------------------------------------- */

/* Whose fibre it is goes first: the loop belongs to the thread that runs it, and is not even read from another. Without a
 * sentence, for the same reason. */
cdz_status cdz_verb_enter(cdz_decoder *dec, uint32_t flags)
{
    cdz_loop *loop = cdz_loop_of(dec);
    if (loop->fibre != cdz_fibre_now) return CDZ_E_PLUGIN;
    if (!(flags & CDZ_VERB_LATE)) CDZ_TRY(cdz_loop_alive(loop));
    if (flags & CDZ_VERB_SCRATCH) cdz_scratch_reset(&loop->rows.verb_scratch);
    return CDZ_OK;
}

void cdz_loop_say(cdz_loop *loop, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cdz_err(&loop->rows.error, code, "%s: %s", loop->strategy.plugin.base->id, text);
}

cdz_kv_account *cdz_loop_account(const cdz_loop *loop, const cdz_run_model *model)
{
    const cdz_berth *berth = loop->rows.berth;
    if (model == loop->job->model) return berth->target;
    for (uint32_t i = 0; i < berth->n_others && model != loop->job->assistant; i++)
        if (berth->others[i].model == model) return &berth->others[i].account;
    return berth->assistant;
}

cdz_encoded *cdz_loop_source(const cdz_loop *loop, const cdz_run_model *model, uint32_t row)
{
    const cdz_job *job = loop->job;
    const cdz_berth *berth = loop->rows.berth;
    cdz_encoded *sources = model == job->model       ? berth->sources
                           : model == job->assistant ? berth->assistant_sources
                                                     : NULL;
    if (!sources) return NULL;
    return &sources[job->prompt_logits ? row : row / (job->n_rows / job->n_prompts)];
}

/* A press that failed has left no cache to go on with. */
static cdz_status pressed_well(cdz_loop *loop)
{
    if (!loop->presses) return CDZ_OK;
    const cdz_error *why = &cdz_stage_presses_plan(loop->presses)->error;
    if (why->code != CDZ_OK) loop->rows.error = *why;
    return why->code;
}

/* Nor has a drop that failed. */
static cdz_status dropped_well(cdz_loop *loop)
{
    for (uint32_t i = 0; i < loop->want.n_seqs; i++)
        if (loop->want.seqs[i].seq->drop_failed) return cdz_loop_nomem(loop);
    return CDZ_OK;
}

cdz_status cdz_loop_await(cdz_loop *loop)
{
    if (loop->prefill_s == 0) loop->want.chunk = loop->job->prefill_chunk;
    cdz_want_begin(&loop->want);
    if (loop->want.rows_left == 0) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(loop->rows.berth->profile, CDZ_WORK_STRATEGY);
    cdz_assert(!loop->waiting);
    loop->waiting = true;
    cdz_fibre_suspend(loop->fibre);
    loop->waiting = false;
    cdz_profile_mark(loop->rows.berth->profile, was);
    if (loop->prefill_s == 0) loop->prefill_s = cdz_now_s();
    CDZ_TRY(cdz_loop_alive(loop));
    const cdz_status denied = loop->denied;
    loop->denied = CDZ_OK;
    if (denied != CDZ_OK) return denied;
    CDZ_TRY(dropped_well(loop));
    CDZ_TRY(cdz_loop_hooks_check(loop));
    return pressed_well(loop);
}

cdz_status cdz_loop_prepare(cdz_loop *loop, cdz_seq *seq)
{
    cdz_error why = {0};
    cdz_kv_account *account = seq->account;
    if (loop->yielded) return CDZ_OK;
    account->short_of = false;
    const cdz_status status = cdz_seq_prepare(seq, &why);
    if (status == CDZ_OK) return CDZ_OK;
    loop->lacks = account->short_of && account->yields;
    if (loop->lacks) return CDZ_OK;
    loop->rows.error = why;
    return status;
}

cdz_status cdz_loop_equip(cdz_loop *loop, cdz_error *err)
{
    cdz_want *want = &loop->want;
    cdz_assert(loop->waiting && loop->lacks);
    for (uint32_t i = 0; i < want->n_seqs; i++) {
        cdz_seq *seq = want->seqs[i].seq;
        (void)cdz_seq_find(seq, cdz_want_reads_all(want, &want->seqs[i]));
        CDZ_TRY(cdz_seq_prepare(seq, err));
    }
    cdz_want_begin(want);
    loop->lacks = loop->yielded = false;
    return CDZ_OK;
}

static void yield_one(void *unused, const cdz_seq *seq)
{
    (void)unused;
    cdz_seq_yield((cdz_seq *)(uintptr_t)seq);
}

void cdz_loop_yield(cdz_loop *loop)
{
    cdz_loop_visit(loop, yield_one, NULL);
    loop->yielded |= loop->pause.on;
    /* One that is outside has nothing to give either until it comes back and asks. */
    loop->lacks |= loop->pause.on || (loop->waiting && loop->want.rows_left > 0);
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

uint32_t cdz_loop_recall(cdz_loop *loop, cdz_seq *seq, bool reads_all)
{
    if (loop->yielded) return 0;
    const uint32_t n = cdz_seq_find(seq, reads_all);
    if (loop->prefill_s == 0 && seq->begun && seq->model == loop->job->model) loop->n_reused += n;
    return n;
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
    cdz_generation *g = &loop->rows.config;
    *g = job->plan->generation;
    g->max_length = (cdz_opt_int){job->max_length, true};
    g->min_length = (cdz_opt_int){job->min_length, g->min_length.set || job->min_length > 0};
    g->pad_token_id = (cdz_opt_int){job->pad, job->pad >= 0};
    g->bos_token_id = (cdz_opt_int){job->bos, job->bos >= 0};
    g->seed = (cdz_opt_int){(int64_t)loop->rows.info.seed, true};
    g->use_cache |= !job->sources &&
                    job->has_embeds; /* the reference reads embeddings in the first pass alone */
    int64_t *eos = cdz_arena_array(&loop->rows.arena, job->eos.len, sizeof *eos);
    if (!eos) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < job->eos.len; i++) eos[i] = job->eos.at[i];
    g->eos_token_id = (cdz_int_list){eos, job->eos.len, job->eos.len > 0};
    return CDZ_OK;
}

/* A loop of all rows shows the request as it is; a loop of one row shows a request of that row alone. */
static cdz_status describe(cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    const bool alone = loop->rows.berth->apart;
    const uint32_t n_prompts = alone ? 1 : job->n_prompts;
    cdz_ids *prompts = cdz_arena_array(&loop->rows.arena, n_prompts, sizeof *prompts);
    if (!prompts) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n_prompts; i++) {
        const uint32_t at = alone ? loop->first_row / (job->n_rows / job->n_prompts) : i;
        const cdz_job_row *row = job->sources ? &job->sources[at] : &job->rows[at];
        const uint32_t len = job->sources ? job->source_len : job->prompt_len;
        /* Embeddings are the prompt where they are given, whatever ids stand beside them. */
        const bool has_ids = row->ids && (job->sources || !job->has_embeds);
        prompts[i] = (cdz_ids){has_ids ? row->ids : NULL, has_ids ? len : 0};
    }
    loop->rows.info = (cdz_request_info){
        .size = sizeof(cdz_request_info),
        .n_prompts = n_prompts,
        .n_rows = loop->rows.n,
        .prompt_len = job->prompt_len,
        .n_vocab = loop->rows.n_vocab,
        .max_length = job->max_length,
        .min_length = job->min_length,
        .context = loop->rows.model->weights->arch.context,
        .num_beams = (uint32_t)job->plan->generation.num_beams,
        .do_sample = job->plan->generation.do_sample,
        .seed = job->seed + (alone ? loop->first_row : 0),
        .eos = job->eos,
        .pad = job->pad,
        .bos = job->bos,
        .prompts = prompts,
        .start_s = loop->rows.berth->started_s,
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

static const char *what_needs_whole_mask(const cdz_arch *arch)
{
    if (cdz_arch_adds_by_distance(arch)) return "relative positions";
    return arch->recurrent.kind ? "recurrent layers" : "sliding windows";
}

static cdz_status check_mask(cdz_loop *loop, const cdz_job_row *prompt, uint32_t row)
{
    const cdz_arch *arch = &loop->rows.model->weights->arch;
    bool any = false;
    for (uint32_t i = 0; i < cdz_job_slots(loop->job); i++) any |= prompt->mask[i] != 0;
    if (!any)
        return cdz_err(&loop->rows.error, CDZ_E_INPUT,
                       "attention_mask: row %" PRIu32 " hides every token", row);
    if (cdz_arch_needs_whole_mask(arch) && has_holes(prompt->mask, cdz_job_slots(loop->job)))
        return cdz_err(&loop->rows.error, CDZ_E_UNSUPPORTED,
                       "attention_mask: row %" PRIu32
                       " has holes inside, which a model with %s cannot honour",
                       row, what_needs_whole_mask(arch));
    return CDZ_OK;
}

static cdz_status build_row(cdz_loop *loop, uint32_t r)
{
    cdz_request_row *row = &loop->rows.at[r];
    const cdz_job_row *prompt = prompt_of(loop, loop->first_row + r);
    const uint32_t len = loop->job->prompt_len;
    row->seq = cdz_arena_alloc(&loop->rows.arena, sizeof *row->seq);
    if (!row->seq) return cdz_loop_nomem(loop);
    const uint32_t room = loop->job->max_length > len ? loop->job->max_length : len;
    CDZ_TRY(cdz_seq_init(row->seq, loop->rows.model, cdz_loop_account(loop, loop->rows.model), room,
                         &loop->rows.error));
    row->seq->is_row = true;
    row->seq->source = cdz_loop_source(loop, loop->rows.model, loop->first_row + r);
    CDZ_TRY(cdz_seq_push(row->seq, prompt->ids, len, &loop->rows.error));
    if (prompt->embeds) cdz_seq_embed(row->seq, prompt->embeds, loop->job->n_embeds);
    if (prompt->mask) {
        CDZ_TRY(check_mask(loop, prompt, loop->first_row + r));
        cdz_seq_set_mask(row->seq, prompt->mask, cdz_job_slots(loop->job));
    }
    /* A decoder's state hangs on what its encoder read. */
    if (!loop->job->past || loop->job->prompt_logits || row->seq->source) return CDZ_OK;
    if (loop->job->plan->n_presses) return CDZ_OK; /* presses read the whole prompt */
    return cdz_seq_share_kept(loop->job->past, row->seq, &loop->rows.error);
}

/* Rows begin together: each with the positions of the longest prompt, and goes on as far behind it as it began. */
static void note_prompts(cdz_loop *loop)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const uint32_t n = cdz_seq_visible(loop->rows.at[r].seq);
        if (n > most) most = n;
    }
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        cdz_seq *seq = loop->rows.at[r].seq;
        seq->begun = most;
        seq->behind = most - cdz_seq_visible(seq);
    }
}

/* Positions that the first row of each prompt shares with the past. */
static uint32_t count_reused(const cdz_loop *loop)
{
    const cdz_job *job = loop->job;
    const uint32_t each = job->prompt_logits ? 1 : job->n_rows / job->n_prompts;
    uint32_t n = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++)
        if ((loop->first_row + r) % each == 0) n += loop->rows.at[r].seq->computed;
    return n;
}

static cdz_status build(cdz_loop *loop)
{
    cdz_rows *rows = &loop->rows;
    cdz_backend *backend = rows->berth->backend;
    if (!cdz_rows_open(rows, rows->n, backend->api->n_threads(backend)))
        return cdz_loop_nomem(loop);
    if (!loop->job->prompt_logits) CDZ_TRY(describe(loop));
    for (uint32_t r = 0; r < rows->n; r++) CDZ_TRY(build_row(loop, r));
    note_prompts(loop);
    loop->n_reused = count_reused(loop);
    return CDZ_OK;
}

static uint32_t strategy_caps(const cdz_loop *loop)
{
    return ((const cdz_strategy *)(const void *)loop->strategy.plugin.base)->caps;
}

/* What of the job its plugins may know. */
static void take_job(cdz_loop *loop, const cdz_job *job)
{
    cdz_rows *rows = &loop->rows;
    loop->job = job;
    rows->model = job->model;
    rows->assistant = job->assistant;
    rows->others = job->others;
    rows->n_others = job->n_others;
    rows->n_vocab = job->model->weights->arch.n_vocab;
    rows->gives_decoder_mask = job->gives_decoder_mask;
    if (job->prompt_logits) return;
    loop->strategy = job->plan->strategy;
    cdz_loop_count_for(loop, &loop->strategy.plugin);
    rows->holds_text = (strategy_caps(loop) & (CDZ_REWINDS | CDZ_BEAMS)) != 0;
    rows->keeping.may = strategy_caps(loop) & CDZ_SCORES_MOVE && !job->plan->drafter.plugin.base;
}

static const void *extension(const char *id)
{
    static const cdz_mask_host mask = {.size = sizeof mask, .hide_as = cdz_verb_seq_hide_as};
    static const cdz_steer_host steer = {.size = sizeof steer, .on_hidden = cdz_verb_on_hidden};
    if (strcmp(id, CDZ_EXT_STEER) == 0) return &steer;
    if (strcmp(id, CDZ_EXT_OBSERVE) == 0) return cdz_loop_observe_table();
    if (strcmp(id, CDZ_EXT_KV) == 0) return cdz_loop_cache_table();
    return strcmp(id, CDZ_EXT_MASK) == 0 ? &mask : cdz_stage_extension(id);
}

cdz_status cdz_loop_create(const cdz_job *job, const cdz_berth *berth, uint32_t first_row,
                           uint32_t n_rows, cdz_loop **out, cdz_error *err)
{
    static const cdz_host host = CDZ_HOST_WITH(extension);
    cdz_loop *loop = calloc(1, sizeof *loop);
    if (!loop) return cdz_err_memory(err, "the request");
    loop->base.api = &cdz_loop_api;
    loop->rows.berth = berth;
    loop->rows.host = &host;
    loop->first_row = first_row;
    loop->rows.n = loop->n_open = n_rows;
    take_job(loop, job);
    const cdz_status status = build(loop);
    if (status != CDZ_OK) {
        if (err) *err = loop->rows.error;
        cdz_loop_free(loop);
        return status;
    }
    cdz_torch_seed(&loop->rng, loop->rows.info.seed);
    if (job->draws_before) cdz_torch_skip(&loop->rng, job->draws_before);
    *out = loop;
    return CDZ_OK;
}

void cdz_loop_free(cdz_loop *loop)
{
    if (!loop) return;
    cdz_rows *rows = &loop->rows;
    cdz_assert(!loop->set); /* closed before its fibre ended */
    cdz_fibre_free(loop->fibre);
    while (loop->seqs) cdz_verb_seq_free(&loop->base, loop->seqs);
    for (uint32_t r = 0; rows->at && r < rows->n; r++) {
        cdz_seq_clear(rows->at[r].seq);
        cdz_seq_clear(rows->at[r].spare);
    }
    cdz_away_free(&rows->away); /* rows may be on their way to the next */
    cdz_matrix_free(rows, &loop->scores);
    cdz_matrix_free(rows, &loop->seq_scores);
    cdz_matrix_free(rows, &loop->hidden.scores);
    if (loop->hidden.data) rows->berth->backend->api->free(rows->berth->backend, loop->hidden.data);
    cdz_matrix_free(rows, &loop->refitted);
    for (uint32_t i = 0; i < loop->n_scratch; i++) cdz_matrix_free(rows, loop->scratch[i]);
    cdz_scratch_free(&loop->strategy_scratch);
    free(loop->want_seqs);
    cdz_buf_free(&loop->tool_answer);
    cdz_rows_close(rows);
    free(loop);
}

void cdz_loop_keep_rows_alone(cdz_loop *loop)
{
    while (loop->seqs) cdz_verb_seq_free(&loop->base, loop->seqs);
    for (uint32_t r = 0; r < loop->rows.n; r++) cdz_seq_clear(loop->rows.at[r].spare);
}

void cdz_loop_visit(const cdz_loop *loop, void (*visit)(void *user, const cdz_seq *seq), void *user)
{
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        if (loop->rows.at[r].seq) visit(user, loop->rows.at[r].seq);
        if (loop->rows.at[r].spare) visit(user, loop->rows.at[r].spare);
    }
    for (const cdz_seq *seq = loop->seqs; seq; seq = seq->next) visit(user, seq);
    cdz_companions_visit(loop, visit, user);
}

/* --- running ---------------------------------------------------------------------------------------------------- */

/* What the strategy returned, as the loop's status and sentence. */
static cdz_status judge_run(cdz_loop *loop, const cdz_call *call, cdz_status returned,
                            const cdz_error *said)
{
    const cdz_status alive = cdz_loop_alive(loop);
    if (call->broken) return cdz_call_judge(call, returned, said, &loop->rows.error);
    if (returned == CDZ_OK) return alive != CDZ_OK && loop->n_open ? alive : CDZ_OK;
    if (returned == alive) return alive;
    if (said->code != returned && loop->rows.error.code == returned)
        return returned; /* a verb said why */
    return cdz_call_judge(call, returned, said, &loop->rows.error);
}

static cdz_status run_strategy(cdz_loop *loop)
{
    const cdz_strategy *strategy = (const void *)loop->strategy.plugin.base;
    cdz_error said = {.code = CDZ_OK};
    cdz_scope scope = {.rows = &loop->rows,
                       .present = &loop->set,
                       .plugin = &strategy->base,
                       .scratch = &loop->strategy_scratch,
                       .error = &said,
                       .may_alloc = true};
    cdz_step step = cdz_step_for(&scope, &loop->strategy, NULL);
    step.n_rows = loop->rows.n;
    cdz_call call = {0}; /* its scratch memory is there as long as the loop */
    const cdz_status returned = cdz_call_run(&call, strategy, &loop->base, &step);
    return judge_run(loop, &call, returned, &said);
}

/* --- what a loop has while its strategy runs ----------------------------------------------------------------------- */

static cdz_status open_stages(cdz_loop *loop)
{
    loop->set = cdz_stageset_new(loop->job->plan, false, loop->rows.n);
    return loop->set ? cdz_stages_begin(loop->set, &loop->rows) : cdz_loop_nomem(loop);
}

static void close_stages(cdz_loop *loop)
{
    if (loop->set) cdz_stages_end(loop->set, &loop->rows);
    cdz_stageset_free(loop->set);
    loop->set = NULL;
}

static cdz_status open_companions(cdz_loop *loop)
{
    return cdz_companions_begin(loop, loop->set);
}

static void close_companions(cdz_loop *loop)
{
    cdz_companions_free(loop, loop->set);
}

/* Row states begin as zero bytes; their room goes with the stages'. */
static cdz_status open_states(cdz_loop *loop)
{
    return cdz_stage_states_make(loop->set, &loop->rows);
}

/* Companions' rows of scores lie behind these. */
static cdz_status open_scores(cdz_loop *loop)
{
    return cdz_matrix_fit(&loop->rows, &loop->scores, loop->rows.n, loop->rows.n_vocab);
}

static cdz_status open_observers(cdz_loop *loop)
{
    return cdz_watch_begin(&loop->rows, loop->job->plan);
}

static void close_observers(cdz_loop *loop)
{
    cdz_watch_end(&loop->rows);
}

/* From here on what rows have read is pressed. */
static cdz_status open_presses(cdz_loop *loop)
{
    CDZ_TRY(cdz_stage_presses_begin(&loop->rows, loop->job->plan, loop->job->keep_press,
                                    &loop->presses));
    if (!loop->presses) return CDZ_OK;
    cdz_press_plan *plan = cdz_stage_presses_plan(loop->presses);
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        cdz_seq *seq = loop->rows.at[r].seq;
        const uint32_t n = cdz_seq_visible(seq);
        seq->press = plan;
        seq->press_begun = n;
        seq->press_from = plan->n_prompt && n > plan->skip_last ? n - plan->skip_last : 0;
        seq->press_row = r;
    }
    return CDZ_OK;
}

static void close_presses(cdz_loop *loop)
{
    if (loop->presses && loop->job->keep_press) cdz_record_presses(loop);
    cdz_stage_presses_end(loop->presses);
    loop->presses = NULL;
}

/* In the order they are opened; closed in reverse. One that failed to open is closed too: of what it has by then. What
 * has no close is there until the loop is freed. */
static const struct part {
    cdz_status (*open)(cdz_loop *loop);
    void (*close)(cdz_loop *loop);
} life[] = {
    {open_stages, close_stages},
    {open_companions, close_companions},
    {cdz_loop_steer, cdz_loop_end_hooks},
    {open_states, NULL},
    {open_scores, NULL},
    {cdz_drafter_open, cdz_drafter_close},
    {open_observers, close_observers},
    {open_presses, close_presses},
    {cdz_cache_open, NULL},
};

enum { N_PARTS = sizeof life / sizeof *life };

/* What is told of the rows at the end alone. */
static void emit_rest(cdz_loop *loop)
{
    if (loop->returned)
        cdz_loop_emit_returned(loop);
    else
        for (uint32_t r = 0; r < loop->rows.n; r++) cdz_loop_emit(loop, r, true);
}

static cdz_status serve(cdz_loop *loop)
{
    cdz_profile *profile = loop->rows.berth->profile;
    cdz_status status = CDZ_OK;
    size_t n = 0;
    cdz_profile_mark(profile, CDZ_WORK_REQUEST);
    while (status == CDZ_OK && n < N_PARTS) status = life[n++].open(loop);
    cdz_profile_mark(profile, CDZ_WORK_STRATEGY);
    if (status == CDZ_OK) status = run_strategy(loop);
    cdz_loop_end_strategy_hooks(loop);
    if (status != CDZ_OK) cdz_record_drop_open(loop);
    cdz_profile_mark(profile, CDZ_WORK_REQUEST);
    if (status == CDZ_OK && (loop->job->keep_hidden || loop->job->keep_attentions))
        status = cdz_states_replay(loop);
    if (status == CDZ_OK && loop->job->keep_kv) status = cdz_cache_record(loop);
    while (n-- > 0)
        if (life[n].close) life[n].close(loop);
    emit_rest(loop);
    return status;
}

void cdz_loop_main(void *arg)
{
    cdz_loop *loop = arg;
    loop->status = loop->job->prompt_logits ? cdz_loop_read_prompts(loop) : serve(loop);
}

#ifdef CDZ_CHECKED

static void check_chain(const cdz_stageset *set, const cdz_stage_chain *chain)
{
    for (uint32_t s = 0; s < chain->n; s++)
        cdz_assert(chain->at[s].state_at + chain->at[s].state_size <= set->state_bytes);
}

void cdz_loop_check_promises(const cdz_loop *loop)
{
    uint32_t n_open = 0;
    for (uint32_t r = 0; r < loop->rows.n; r++) {
        const cdz_request_row *row = &loop->rows.at[r];
        n_open += !row->done;
        cdz_assert(row->seq->is_row && (row->done || !row->pads) && (row->pads || !row->skip));
        cdz_assert(!row->done || row->n_emitted <= row->n_new);
    }
    cdz_assert(n_open == loop->n_open);
    cdz_assert(!loop->waiting || !cdz_fibre_ended(loop->fibre));
    if (!loop->set) return;
    check_chain(loop->set, &loop->set->processors);
    check_chain(loop->set, &loop->set->criteria);
    for (uint32_t i = 0; i < loop->n_derivations; i++)
        check_chain(loop->set, &loop->set->derived[i]);
}

#endif
