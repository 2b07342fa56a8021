/* outcome.c - what a request gave: rows, stop reasons, recorded steps, times. Everything is copied out of the loops.
 *
 * Owns: the copy, since an answer outlives its loops, its task and the pipeline's edition. Not: recorded steps of one loop,
 * which lie in the outcome's arena from the start (run/loop/record.c). Thread: [engine]; then the reader's alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine/engine_parts.h"

static cdz_loop *loop_of_row(const cdz_task *task, uint32_t r)
{
    if (!task->loops) return NULL;
    return task->n_loops > 1 ? task->loops[r] : task->loops[0];
}

static cdz_string constant(const char *text)
{
    return (cdz_string){text, (uint32_t)strlen(text)};
}

/* Why a row ended that no rule ended. */
static cdz_stop stop_of_open_row(const cdz_task *task)
{
    switch (task->outcome->error.code) {
    case CDZ_OK: return (cdz_stop){CDZ_STOP_CUSTOM, constant("the strategy returned")};
    case CDZ_E_DEADLINE: return (cdz_stop){CDZ_STOP_TIME, constant("deadline")};
    case CDZ_E_CANCELLED: return (cdz_stop){CDZ_STOP_CUSTOM, constant("cancelled")};
    default: return (cdz_stop){CDZ_STOP_CUSTOM, constant("failed")};
    }
}

static bool copy_spans(cdz_arena *arena, const cdz_insertions *in, cdz_outcome_row *out)
{
    if (in->n == 0) return true;
    cdz_span *spans = cdz_arena_array(arena, in->n, sizeof *spans);
    if (!spans) return false;
    for (uint32_t i = 0; i < in->n; i++) {
        spans[i] = in->at[i].span;
        spans[i].who = cdz_arena_strdup(arena, in->at[i].span.who);
        if (!spans[i].who) return false;
    }
    out->spans = spans;
    out->n_spans = in->n;
    return true;
}

/* A row's ids, filled up with pad to len where there is a pad. */
static bool fill_row(const cdz_task *task, uint32_t r, uint32_t len, cdz_outcome_row *out)
{
    const cdz_job *job = task->job;
    cdz_arena *arena = &task->outcome->arena;
    const cdz_loop *loop = loop_of_row(task, r);
    const cdz_request_row *row = loop ? &loop->rows.at[r - loop->first_row] : NULL;
    const uint64_t prompt = (uint64_t)r * job->n_prompts / task->outcome->n_step_rows;
    const cdz_ids ids = row ? cdz_row_ids(row) : (cdz_ids){job->rows[prompt].ids, job->prompt_len};
    out->len = job->pad >= 0 && ids.len < len ? len : ids.len;
    out->ids = cdz_arena_array(arena, out->len, sizeof *out->ids);
    if (!out->ids) return false;
    if (ids.len) memcpy(out->ids, ids.at, ids.len * sizeof *out->ids);
    for (uint32_t i = ids.len; i < out->len; i++) out->ids[i] = job->pad;

    if (row && !copy_spans(arena, &row->inserted, out)) return false;
    const bool done = row && row->done;
    out->n_new = done ? row->n_new : ids.len - job->prompt_len;
    out->stop = done ? row->stop : stop_of_open_row(task);
    char *text =
        cdz_arena_strndup(arena, out->stop.text.at ? out->stop.text.at : "", out->stop.text.len);
    out->stop.text.at = text;
    return text != NULL;
}

/* The sequences that a search returned. Those it left open end like open rows. */
static void take_returned(const cdz_task *task, const cdz_loop *loop)
{
    cdz_outcome *outcome = task->outcome;
    outcome->rows = loop->returned;
    outcome->n_rows = loop->n_returned;
    for (uint32_t r = 0; r < loop->n_returned; r++) {
        cdz_outcome_row *row = &outcome->rows[r];
        outcome->n_new_tokens += row->n_new;
        if (row->stop.reason == CDZ_GO_ON) row->stop = stop_of_open_row(task);
    }
}

static bool fill_rows(const cdz_task *task)
{
    cdz_outcome *outcome = task->outcome;
    const uint32_t n = task->job->prompt_logits ? task->job->n_prompts : task->job->n_rows;
    outcome->n_step_rows = n;
    if (task->loops && task->n_loops == 1 && task->loops[0]->returned) {
        take_returned(task, task->loops[0]);
        return true;
    }
    cdz_outcome_row *rows = cdz_arena_array(&outcome->arena, n, sizeof *rows);
    if (!rows) return false;
    uint32_t longest = 0;
    for (uint32_t r = 0; r < n; r++) {
        const cdz_loop *loop = loop_of_row(task, r);
        const uint32_t len = loop ? loop->rows.at[r - loop->first_row].seq->n : 0;
        if (len > longest) longest = len;
    }
    for (uint32_t r = 0; r < n; r++) {
        if (!fill_row(task, r, longest, &rows[r])) return false;
        outcome->n_new_tokens += rows[r].n_new;
    }
    outcome->rows = rows;
    outcome->n_rows = n;
    return true;
}

/* --- steps of loops with one row each: row r of a step comes from loop r, which may have had fewer steps ---------- */

static bool join_floats(const cdz_task *task, uint32_t step, size_t width, size_t field,
                        const float **out)
{
    float *to = NULL;
    for (uint32_t r = 0; r < task->n_loops; r++) {
        const cdz_recorder *rec = &task->loops[r]->recorder;
        if (step >= rec->n) continue;
        const float *from;
        memcpy(&from, (const char *)&rec->steps[step] + field, sizeof from);
        if (!from) continue;
        if (!to) {
            to = cdz_arena_array(&task->outcome->arena, task->n_loops, width * sizeof *to);
            if (!to) return false;
            for (size_t i = 0; i < task->n_loops * width; i++) to[i] = NAN;
        }
        memcpy(to + r * width, from, width * sizeof *to);
    }
    *out = to;
    return true;
}

static bool join_top(const cdz_task *task, uint32_t step, cdz_recorded_step *out)
{
    const uint32_t k = task->job->keep_top;
    if (k == 0) return true;
    cdz_arena *arena = &task->outcome->arena;
    int32_t *ids = cdz_arena_array(arena, (size_t)task->n_loops * k, sizeof *ids);
    uint32_t *finite = cdz_arena_array(arena, task->n_loops, sizeof *finite);
    bool any = false;
    if (!ids || !finite) return false;
    for (uint32_t r = 0; r < task->n_loops; r++) {
        const cdz_recorder *rec = &task->loops[r]->recorder;
        if (step >= rec->n || !rec->steps[step].top_ids) continue;
        any = true;
        memcpy(ids + (size_t)r * k, rec->steps[step].top_ids, k * sizeof *ids);
        finite[r] = rec->steps[step].n_finite[0];
    }
    if (!any) return true;
    out->top_ids = ids;
    out->n_finite = finite;
    return join_floats(task, step, k, offsetof(cdz_recorded_step, top_values), &out->top_values) &&
           join_floats(task, step, 1, offsetof(cdz_recorded_step, logsumexp), &out->logsumexp);
}

/* A tensor for each layer with `rows` times `width` floats for each loop; zeros for those that have no such step. */
static bool join_layers(const cdz_task *task, uint32_t step, const cdz_recorded_step *like,
                        uint32_t n_layers, size_t rows, size_t width, size_t field,
                        float *const **out)
{
    cdz_arena *arena = &task->outcome->arena;
    float **all = NULL;
    for (uint32_t r = 0; r < task->n_loops; r++) {
        const cdz_recorder *rec = &task->loops[r]->recorder;
        const cdz_recorded_step *own = step < rec->n ? &rec->steps[step] : NULL;
        if (!own || own->n_keys != like->n_keys || own->n_queries != like->n_queries) continue;
        float *const *from;
        memcpy(&from, (const char *)own + field, sizeof from);
        if (!from) continue;
        if (!all) all = cdz_arena_array(arena, n_layers, sizeof *all);
        if (!all) return false;
        for (uint32_t l = 0; l < n_layers; l++) {
            if (!all[l])
                all[l] = cdz_arena_array(arena, task->n_loops * rows, width * sizeof **all);
            if (!all[l]) return false;
            memcpy(all[l] + r * rows * width, from[l], rows * width * sizeof **all);
        }
    }
    *out = all;
    return true;
}

/* Loops begin with prompts of one length and each step is a token: step s of all has one shape. */
static bool join_states(const cdz_task *task, uint32_t step, cdz_recorded_step *out)
{
    const cdz_job *job = task->job;
    const cdz_arch *a = &job->model->weights->arch;
    for (uint32_t r = 0; r < task->n_loops && !out->n_keys; r++) {
        const cdz_recorder *rec = &task->loops[r]->recorder;
        if (step >= rec->n) continue;
        out->n_queries = rec->steps[step].n_queries;
        out->n_keys = rec->steps[step].n_keys;
    }
    const size_t Q = out->n_queries, HQ = a->n_heads * Q;
    return join_layers(task, step, out, a->n_layers + 1, Q, a->hidden,
                       offsetof(cdz_recorded_step, hidden), &out->hidden) &&
           join_layers(task, step, out, a->n_layers, HQ, out->n_keys,
                       offsetof(cdz_recorded_step, attentions), &out->attentions) &&
           join_layers(task, step, out, a->n_layers, HQ, job->source_len,
                       offsetof(cdz_recorded_step, cross), &out->cross);
}

static bool join_steps(const cdz_task *task)
{
    cdz_outcome *outcome = task->outcome;
    const size_t V = outcome->n_vocab;
    uint32_t n = 0;
    for (uint32_t r = 0; r < task->n_loops; r++)
        if (task->loops[r]->recorder.n > n) n = task->loops[r]->recorder.n;
    cdz_recorded_step *steps = cdz_arena_array(&outcome->arena, n, sizeof *steps);
    if (!steps) return false;
    for (uint32_t i = 0; i < n; i++) {
        cdz_recorded_step *s = &steps[i];
        if (!join_floats(task, i, V, offsetof(cdz_recorded_step, scores), &s->scores) ||
            !join_floats(task, i, V, offsetof(cdz_recorded_step, logits), &s->logits) ||
            !join_floats(task, i, 1, offsetof(cdz_recorded_step, chosen), &s->chosen) ||
            !join_floats(task, i, 1, offsetof(cdz_recorded_step, chosen_logprob),
                         &s->chosen_logprob) ||
            !join_floats(task, i, 1, offsetof(cdz_recorded_step, chosen_raw_logprob),
                         &s->chosen_raw_logprob) ||
            !join_top(task, i, s) || !join_states(task, i, s))
            return false;
    }
    outcome->steps = steps;
    outcome->n_steps = n;
    return true;
}

static bool fill_steps(const cdz_task *task)
{
    if (!task->loops) return true;
    if (task->n_loops > 1) return join_steps(task);
    task->outcome->steps = task->loops[0]->recorder.steps;
    task->outcome->n_steps = task->loops[0]->recorder.n;
    return true;
}

/* --- error and times ----------------------------------------------------------------------------------------------- */

static void fill_error(const cdz_task *task)
{
    cdz_error *err = &task->outcome->error;
    *err = task->error;
    if (err->code == CDZ_E_CANCELLED && !err->text[0])
        cdz_err(err, CDZ_E_CANCELLED, "the request was cancelled");
    if (err->code == CDZ_E_DEADLINE && !err->text[0])
        cdz_err(err, CDZ_E_DEADLINE, "the request's deadline passed");
}

static void fill_times(const cdz_task *task)
{
    cdz_outcome *outcome = task->outcome;
    const double now = cdz_now_s(), started = task->started_s > 0 ? task->started_s : now;
    double prefilled = 0;
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++)
        if (task->loops[i]->prefill_s > prefilled) prefilled = task->loops[i]->prefill_s;
    outcome->queued_s = started - task->submitted_s;
    outcome->prefill_s = prefilled > 0 ? prefilled - started : 0;
    outcome->decode_s = prefilled > 0 ? now - prefilled : 0;
}

static void count_prompt(const cdz_task *task)
{
    const cdz_job *job = task->job;
    for (uint32_t i = 0; task->loops && i < job->n_prompts; i++)
        for (uint32_t k = 0; k < cdz_job_slots(job); k++)
            task->outcome->n_prompt_tokens += !job->rows[i].mask || job->rows[i].mask[k];
    for (uint32_t i = 0; task->sources && i < job->n_prompts; i++)
        task->outcome->n_prompt_tokens += task->sources[i].n_visible;
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++)
        task->outcome->n_reused_tokens += task->loops[i]->n_reused;
    if (task->outcome->n_reused_tokens > task->outcome->n_prompt_tokens) /* rows of one prompt */
        task->outcome->n_reused_tokens = task->outcome->n_prompt_tokens;
    task->outcome->n_prompt_tokens -= task->outcome->n_reused_tokens;
}

/* Row by row, on whichever thread it was. */
static void count_fusings(const cdz_task *task)
{
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++) {
        const cdz_rows *rows = &task->loops[i]->rows;
        for (uint32_t w = 0; w < rows->n_workers; w++)
            for (uint32_t k = 0; k < CDZ_FUSE_KINDS; k++)
                task->outcome->fusings[k] += rows->workers[w].fusings[k];
    }
}

void cdz_outcome_fill(cdz_task *task)
{
    cdz_outcome *outcome = task->outcome;
    count_fusings(task);
    outcome->n_vocab = task->job->model->weights->arch.n_vocab;
    fill_error(task);
    fill_times(task);
    count_prompt(task);
    cdz_states_drop_unread(task->job, task->sources, outcome);
    if (!fill_rows(task) || !fill_steps(task)) {
        outcome->rows = NULL;
        outcome->n_rows = outcome->n_steps = 0;
        cdz_err_memory(&outcome->error, "the result");
    }
}
