/* stages.c - runs the plan's processors and criteria: begin, apply, accept, test, end, and what comes back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call/calls.h"
#include "run/companion.h"
#include "run/engine_parts.h"
#include "run/fuse.h"
#include "run/phase.h"
#include "run/task.h"
#include "run/watch.h"

/* Elements from which rows are worth handing to other threads. */
enum { SHARE_FROM = 32768, STATE_ALIGN = 16, MOST_TASKS = CDZ_LOOP_WORKERS };

/* --- one call of each kind ----------------------------------------------------------------------------------- */

static const cdz_processor *processor_of(const cdz_stage *stage)
{
    return (const cdz_processor *)(const void *)stage->plugin;
}

static const cdz_criterion *criterion_of(const cdz_stage *stage)
{
    return (const cdz_criterion *)(const void *)stage->plugin;
}

static cdz_scope scope_for(cdz_loop *loop, const cdz_plugin_base *plugin, cdz_row_worker *worker,
                           bool may_alloc)
{
    return (cdz_scope){.loop = loop,
                       .plugin = plugin,
                       .scratch = &worker->scratch,
                       .error = &worker->error,
                       .may_alloc = may_alloc,
                       .arena = &loop->stage_arena};
}

/* Points the stage's state of view rows [first, first + n) into to. */
static void *const *states_of(const cdz_stage *stage, const cdz_view *view, uint32_t first,
                              uint32_t n, void **to)
{
    if (stage->state_size == 0) return NULL;
    for (uint32_t i = 0; i < n; i++) to[i] = view->states[first + i] + stage->state_at;
    return to;
}

/* apply on view rows [first, first + n), score row first + i of scores being view row first + i. The call is the worker's. */
static cdz_status apply(cdz_loop *loop, const cdz_stage *stage, const cdz_view *view,
                        uint32_t first, uint32_t n, const cdz_scores *scores, void **state_room,
                        cdz_row_worker *worker)
{
    cdz_scope scope = scope_for(loop, stage->plugin, worker, false);
    scope.stage = stage;
    scope.first = first;
    cdz_step step = cdz_step_for(&scope, stage->instance->params, stage->shared);
    step.n_rows = n;
    step.input_ids = stage->caps & CDZ_NEEDS_IDS ? view->ids + first : NULL;
    step.row_index = view->rows + first;
    step.row_state = states_of(stage, view, first, n, state_room);
    cdz_scores part = *scores;
    part.data = cdz_row(scores, first);
    part.n_rows = n;
    worker->call = (cdz_call){.scratch = &worker->scratch};
    return cdz_call_apply(&worker->call, processor_of(stage), &step, &part);
}

/* What came of the worker's last apply. */
static cdz_status judge_apply(cdz_loop *loop, const cdz_row_worker *worker, cdz_status returned)
{
    return cdz_loop_judge(loop, &worker->call, returned, &worker->error);
}

static cdz_status accept(cdz_loop *loop, const cdz_stage *stage, cdz_ids ids, uint32_t row,
                         unsigned char *state, int32_t token)
{
    if (!stage->hears || stage->deaf) return CDZ_OK;
    cdz_scope scope = scope_for(loop, stage->plugin, &loop->workers[0], false);
    cdz_step step = cdz_step_for(&scope, stage->instance->params, stage->shared);
    void *const own = state ? state + stage->state_at : NULL;
    step.n_rows = 1;
    step.input_ids = &ids;
    step.row_index = &row;
    step.row_state = stage->state_size ? &own : NULL;
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_accept(&call, &step, 0, token);
    return cdz_loop_judge(loop, &call, status, scope.error);
}

static cdz_status test(cdz_loop *loop, const cdz_stage *stage, const cdz_view *view, cdz_stop *stops)
{
    cdz_scope scope = scope_for(loop, stage->plugin, &loop->workers[0], false);
    cdz_step step = cdz_step_for(&scope, stage->instance->params, stage->shared);
    step.n_rows = view->n;
    step.input_ids = view->ids;
    step.row_index = view->rows;
    step.row_state = states_of(stage, view, 0, view->n, loop->state_view);
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_test(&call, criterion_of(stage), &step, stops);
    return cdz_loop_judge(loop, &call, status, scope.error);
}

/* --- processors -------------------------------------------------------------------------------------------- */

/* Row-wise stages [from, to) on some rows of a view, each row through all of them while it is in the cache. */
typedef struct row_work {
    cdz_loop *loop;
    const cdz_view *view;
    const cdz_scores *scores;
    uint32_t from, to; /* stages */
    cdz_drawn *drawn;  /* (view->n) or NULL; rows that are lists already are left alone */
    uint32_t n_tasks;  /* task t takes rows t, t + n_tasks, ... */
    struct row_verdict {
        cdz_status status;
        uint32_t row;
    } verdict[MOST_TASKS]; /* (n_tasks) */
} row_work;

bool cdz_view_skips(const cdz_loop *loop, const cdz_view *view, uint32_t i)
{
    return view == &loop->view && !cdz_row_runs(loop, view->rows[i]);
}

/* Stages [from, to) one by one. */
static void one_by_one(row_work *w, struct row_verdict *verdict, uint32_t row, uint32_t from,
                       uint32_t to, cdz_row_worker *worker)
{
    for (uint32_t s = from; s < to && verdict->status == CDZ_OK; s++) {
        void *state;
        if (!cdz_stage_runs(w->loop, &w->loop->processors[s], row)) continue;
        verdict->status =
            apply(w->loop, &w->loop->processors[s], w->view, row, 1, w->scores, &state, worker);
        if (worker->call.broken) verdict->status = CDZ_E_PLUGIN;
        verdict->row = row;
    }
}

bool cdz_stages_try(cdz_loop *loop, const cdz_view *view, const cdz_scores *scores, uint32_t row,
                    uint32_t n)
{
    row_work w = {.loop = loop, .view = view, .scores = scores};
    one_by_one(&w, &w.verdict[0], row, 0, n, &loop->workers[0]);
    if (w.verdict[0].status == CDZ_OK) return true;
    loop->workers[0].error = (cdz_error){0};
    return false;
}

/* A row through the stages, runs of known form in one walk where that can be. */
static void one_row(row_work *w, struct row_verdict *verdict, uint32_t row, cdz_row_worker *worker)
{
    cdz_loop *loop = w->loop;
    const uint32_t phase = cdz_phase_bit(loop, row);
    for (uint32_t s = w->from, end; s < w->to && verdict->status == CDZ_OK; s = end) {
        end = cdz_fuse_end(loop, s, w->to, phase);
        const bool last = w->drawn && end == loop->n_processors;
        if (end > s && cdz_fuse_row(loop, s, end, phase, cdz_row(w->scores, row),
                                    w->scores->n_vocab, worker, last ? &w->drawn[row] : NULL))
            continue;
        if (end == s) end++;
        one_by_one(w, verdict, row, s, end, worker);
    }
}

static void row_task(void *arg, size_t t)
{
    row_work *w = arg;
    struct row_verdict *verdict = &w->verdict[t];
    for (size_t row = t; row < w->view->n && verdict->status == CDZ_OK; row += w->n_tasks)
        if (!cdz_view_skips(w->loop, w->view, (uint32_t)row) && !(w->drawn && w->drawn[row].listed))
            one_row(w, verdict, (uint32_t)row, &w->loop->workers[t]);
}

static cdz_status process_rows(cdz_loop *loop, const cdz_view *view, const cdz_scores *scores,
                               uint32_t from, uint32_t to, cdz_drawn *drawn)
{
    row_work w = {
        .loop = loop, .view = view, .scores = scores, .from = from, .to = to, .drawn = drawn};
    const bool share = (size_t)view->n * scores->n_vocab >= SHARE_FROM;
    w.n_tasks = share && view->n < loop->n_workers ? view->n : share ? loop->n_workers : 1;
    if (w.n_tasks > 1)
        loop->backend->api->parallel(loop->backend, row_task, &w, w.n_tasks);
    else
        row_task(&w, 0);

    uint32_t first = w.n_tasks; /* the failure of the lowest row speaks for all */
    for (uint32_t t = 0; t < w.n_tasks; t++)
        if (w.verdict[t].status != CDZ_OK &&
            (first == w.n_tasks || w.verdict[t].row < w.verdict[first].row))
            first = t;
    if (first == w.n_tasks) return CDZ_OK;
    return judge_apply(loop, &loop->workers[first], w.verdict[first].status);
}

/* View rows [first, ...) that the stage runs on together, those that are filled with pad being left alone as
 * by process_rows; returns where they end, first: none do. */
static uint32_t run_of_rows(const cdz_loop *loop, const cdz_stage *stage, const cdz_view *view,
                            uint32_t first)
{
    uint32_t end = first;
    while (end < view->n && cdz_stage_runs(loop, stage, end) && !cdz_view_skips(loop, view, end))
        end++;
    return end;
}

static cdz_status process_all(cdz_loop *loop, const cdz_view *view, const cdz_scores *scores,
                              const cdz_stage *stage)
{
    cdz_row_worker *worker = &loop->workers[0];
    for (uint32_t first = 0, end; first < view->n; first = end + 1) {
        end = run_of_rows(loop, stage, view, first);
        if (end == first) continue;
        const cdz_status status =
            apply(loop, stage, view, first, end - first, scores, loop->state_view, worker);
        CDZ_TRY(judge_apply(loop, worker, status));
    }
    return CDZ_OK;
}

/* Stages from s on that go through the rows together; returns the one after them. */
static uint32_t together(const cdz_loop *loop, uint32_t s, bool one_by_one)
{
    uint32_t end = s;
    while (end < loop->n_processors && loop->processors[end].row_wise && !(one_by_one && end > s))
        end++;
    return end;
}

static cdz_status run_processors(cdz_loop *loop, const cdz_view *view, const cdz_scores *scores,
                                 cdz_drawn *drawn)
{
    const bool watched = cdz_watch_sees_stages(loop);
    for (uint32_t s = 0, end; s < loop->n_processors; s = end) {
        end = together(loop, s, watched);
        if (watched) CDZ_TRY(cdz_watch_stage_before(loop, scores));
        if (end > s)
            CDZ_TRY(process_rows(loop, view, scores, s, end, drawn));
        else
            CDZ_TRY(process_all(loop, view, scores, &loop->processors[end++]));
        if (watched) CDZ_TRY(cdz_watch_stage(loop, &loop->processors[s], view, scores));
    }
    return CDZ_OK;
}

cdz_status cdz_stages_process(cdz_loop *loop, const cdz_view *view, cdz_scores *scores,
                              cdz_drawn *drawn)
{
    const cdz_work was = cdz_profile_mark(loop->profile, CDZ_WORK_PROCESSORS);
    CDZ_TRY(cdz_watch_before(loop, scores));
    CDZ_TRY(cdz_companions_ready(loop, view));
    CDZ_TRY(cdz_phases_look(loop, view));
    CDZ_TRY(run_processors(loop, view, scores, drawn));
    CDZ_TRY(cdz_watch_scores(loop, view, scores));
    cdz_profile_mark(loop->profile, was);
    return CDZ_OK;
}

/* --- tokens and stop rules ----------------------------------------------------------------------------------- */

cdz_status cdz_stages_accept(cdz_loop *loop, cdz_ids ids, uint32_t row, unsigned char *state,
                             int32_t token)
{
    if (!loop->accepts) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(loop->profile, CDZ_WORK_RULES);
    for (uint32_t s = 0; s < loop->n_processors; s++)
        CDZ_TRY(accept(loop, &loop->processors[s], ids, row, state, token));
    for (uint32_t s = 0; s < loop->n_criteria; s++)
        CDZ_TRY(accept(loop, &loop->criteria[s], ids, row, state, token));
    cdz_profile_mark(loop->profile, was);
    return CDZ_OK;
}

cdz_status cdz_stages_replay(cdz_loop *loop, cdz_ids ids, uint32_t from, uint32_t row,
                             unsigned char *state)
{
    if (!loop->accepts) return CDZ_OK;
    for (uint32_t len = from + 1; len <= ids.len; len++)
        CDZ_TRY(cdz_stages_accept(loop, (cdz_ids){ids.at, len}, row, state, ids.at[len - 1]));
    return CDZ_OK;
}

/* Reasons a criterion may not give are its failure. */
static cdz_status check_stops(cdz_loop *loop, const cdz_stage *stage, const cdz_stop *stops,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (stops[i].reason > CDZ_STOP_CUSTOM)
            return cdz_err(&loop->error, CDZ_E_PLUGIN,
                           "%s: test gave reason %" PRIu32 ", which is none of cdz_stop_reason",
                           stage->plugin->id, stops[i].reason);
        if (stops[i].text.len && !stops[i].text.at)
            return cdz_err(&loop->error, CDZ_E_PLUGIN,
                           "%s: test gave a text of %" PRIu32 " bytes at NULL", stage->plugin->id,
                           stops[i].text.len);
    }
    return CDZ_OK;
}

/* A reason's text may be the plugin's own, which another version of it may replace before the request ends. */
static cdz_status keep_text(cdz_loop *loop, cdz_stop *stop)
{
    if (stop->text.len == 0) return CDZ_OK;
    for (const cdz_kept_text *kept = loop->texts; kept; kept = kept->next)
        if (kept->len == stop->text.len && memcmp(kept->at, stop->text.at, kept->len) == 0) {
            stop->text.at = kept->at;
            return CDZ_OK;
        }
    cdz_kept_text *kept = cdz_arena_alloc(&loop->arena, sizeof *kept);
    const char *copy = cdz_arena_strndup(&loop->arena, stop->text.at, stop->text.len);
    if (!kept || !copy) return cdz_loop_nomem(loop);
    *kept = (cdz_kept_text){loop->texts, copy, stop->text.len};
    loop->texts = kept;
    stop->text.at = copy;
    return CDZ_OK;
}

bool cdz_loop_fills_context(const cdz_loop *loop, uint32_t r, uint32_t len)
{
    const cdz_job *job = loop->job;
    if (!job->context) return false;
    const uint32_t prompt = (loop->first_row + r) / (job->n_rows / job->n_prompts);
    return job->visible[prompt] + (len - job->prompt_len) >= job->context;
}

/* The end of the model's context ends any row that no criterion ends. */
static void test_context(const cdz_loop *loop, const cdz_view *view, cdz_stop *stops)
{
    for (uint32_t i = 0; i < view->n; i++)
        if (stops[i].reason == CDZ_GO_ON &&
            cdz_loop_fills_context(loop, view->rows[i], view->ids[i].len))
            stops[i] = (cdz_stop){CDZ_STOP_LENGTH, {"length", 6}};
}

/* Every criterion is asked; the first reason in list order counts. */
cdz_status cdz_stages_test(cdz_loop *loop, const cdz_view *view, cdz_stop *stops)
{
    if (view->n == 0) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(loop->profile, CDZ_WORK_RULES);
    cdz_stop *said = cdz_scratch_take(&loop->verb_scratch, view->n * sizeof *said);
    if (!said) return cdz_loop_nomem(loop);
    for (uint32_t s = 0; s < loop->n_criteria; s++) {
        const cdz_stage *stage = &loop->criteria[s];
        memset(said, 0, view->n * sizeof *said);
        CDZ_TRY(test(loop, stage, view, said));
        CDZ_TRY(check_stops(loop, stage, said, view->n));
        for (uint32_t i = 0; i < view->n; i++)
            if (stops[i].reason == CDZ_GO_ON) stops[i] = said[i];
    }
    test_context(loop, view, stops);
    for (uint32_t i = 0; i < view->n; i++)
        if (stops[i].reason != CDZ_GO_ON) CDZ_TRY(keep_text(loop, &stops[i]));
    cdz_profile_mark(loop->profile, was);
    return CDZ_OK;
}

/* --- states that are more than bytes --------------------------------------------------------------------------- */

/* `to` as bytes that own nothing, and then as a copy of `from`, if any. */
static cdz_status clone_stage_state(cdz_loop *loop, const cdz_stage *stage, unsigned char *to,
                                    const unsigned char *from)
{
    cdz_scope scope = scope_for(loop, stage->plugin, &loop->workers[0], false);
    const cdz_step step = cdz_step_for(&scope, stage->instance->params, stage->shared);
    cdz_stages_drop_state(loop, stage, &step, to);
    if (!from) return CDZ_OK;
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_clone(&call, stage->state_api, &step, from, to);
    return cdz_loop_judge(loop, &call, status, scope.error);
}

static cdz_status copy_stage_state(cdz_loop *loop, const cdz_stage *stage, unsigned char *to,
                                   const unsigned char *from)
{
    to += stage->state_at;
    if (from) from += stage->state_at;
    if (stage->state_api) return clone_stage_state(loop, stage, to, from);
    if (from)
        memcpy(to, from, stage->state_size);
    else
        memset(to, 0, stage->state_size);
    return CDZ_OK;
}

void cdz_stages_drop_state(cdz_loop *loop, const cdz_stage *stage, const cdz_step *step, void *state)
{
    cdz_call call = {.scratch = &loop->workers[0].scratch};
    cdz_call_free(&call, stage->state_api, step, state);
    cdz_stages_complain(loop, &call);
    memset(state, 0, stage->state_size);
}

cdz_status cdz_stages_copy_state(cdz_loop *loop, unsigned char *to, const unsigned char *from)
{
    if (!loop->owned_states) {
        if (from)
            memcpy(to, from, loop->state_bytes);
        else
            memset(to, 0, loop->state_bytes);
        return CDZ_OK;
    }
    for (uint32_t s = 0; s < loop->n_processors; s++)
        CDZ_TRY(copy_stage_state(loop, &loop->processors[s], to, from));
    for (uint32_t s = 0; s < loop->n_criteria; s++)
        CDZ_TRY(copy_stage_state(loop, &loop->criteria[s], to, from));
    return CDZ_OK;
}

/* --- begin and end -------------------------------------------------------------------------------------------- */

void cdz_stages_complain(cdz_loop *loop, const cdz_call *call)
{
    cdz_error fault;
    if (call->broken && cdz_call_fault(call, CDZ_OK, NULL, &fault) != CDZ_OK)
        cdz_engine_log(loop->task->engine, CDZ_LOG_WARNING, call->plugin->id, fault.text);
}

static bool is_idle(cdz_loop *loop, const cdz_instance *instance)
{
    cdz_scope scope = scope_for(loop, instance->plugin.base, &loop->workers[0], false);
    const cdz_step step = cdz_step_for(&scope, instance->params, NULL);
    cdz_call call = {.scratch = scope.scratch};
    const bool answer = cdz_call_idle(&call, &step);
    cdz_stages_complain(loop, &call);
    return answer;
}

static void add_stage(cdz_loop *loop, const cdz_instance *instance, bool criterion)
{
    cdz_stage *stage =
        criterion ? &loop->criteria[loop->n_criteria++] : &loop->processors[loop->n_processors++];
    *stage = (cdz_stage){.instance = instance, .plugin = instance->plugin.base};
    stage->hears = cdz_accept_of(stage->plugin) != NULL;
    if (criterion) {
        const cdz_criterion *c = criterion_of(stage);
        stage->caps = c->caps;
        stage->state_size = c->state_size;
        stage->state_version = c->state_version;
        loop->has_eos |= (c->caps & CDZ_HAS_EOS) != 0;
    } else {
        const cdz_processor *p = processor_of(stage);
        stage->phases = instance->phases ? instance->phases : CDZ_IN_ALL_PHASES;
        stage->caps = p->caps;
        stage->state_size = p->state_size;
        stage->state_version = p->state_version;
        stage->row_wise = p->caps & CDZ_ROWWISE;
    }
    loop->accepts |= stage->hears;
    stage->state_api = stage->state_size ? instance->offers.state : NULL;
    loop->owned_states |= stage->state_api != NULL;
    stage->state_at = loop->state_bytes;
    loop->state_bytes += ((size_t)stage->state_size + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
}

static cdz_status begin(cdz_loop *loop, cdz_stage *stage)
{
    cdz_scope scope = scope_for(loop, stage->plugin, &loop->workers[0], true);
    const cdz_step step = cdz_step_for(&scope, stage->instance->params, NULL);
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_begin(&call, &step, &stage->shared);
    CDZ_TRY(cdz_loop_judge(loop, &call, status, scope.error));
    stage->begun = true;
    return CDZ_OK;
}

cdz_status cdz_stages_begin(cdz_loop *loop)
{
    const cdz_plan *plan = cdz_loop_plan(loop);
    loop->processors = cdz_arena_array(&loop->stage_arena, plan->n_processors, sizeof(cdz_stage));
    loop->criteria = cdz_arena_array(&loop->stage_arena, plan->n_criteria, sizeof(cdz_stage));
    if (!loop->processors || !loop->criteria) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < plan->n_processors; i++)
        if (!is_idle(loop, &plan->processors[i])) add_stage(loop, &plan->processors[i], false);
    for (uint32_t i = 0; i < plan->n_criteria; i++)
        if (!is_idle(loop, &plan->criteria[i])) add_stage(loop, &plan->criteria[i], true);
    for (uint32_t i = 0; i < loop->n_processors; i++) {
        CDZ_TRY(begin(loop, &loop->processors[i]));
        cdz_stage_describe(loop, &loop->processors[i]);
    }
    for (uint32_t i = 0; i < loop->n_criteria; i++) CDZ_TRY(begin(loop, &loop->criteria[i]));
    cdz_phases_begin(loop);
    return CDZ_OK;
}

static void end(cdz_loop *loop, cdz_stage *stage)
{
    if (!stage->begun) return;
    cdz_scope scope = scope_for(loop, stage->plugin, &loop->workers[0], false);
    const cdz_step step = cdz_step_for(&scope, stage->instance->params, stage->shared);
    cdz_call call = {.scratch = scope.scratch};
    cdz_call_end(&call, &step);
    cdz_stages_complain(loop, &call);
    stage->begun = false;
}

void cdz_stages_end(cdz_loop *loop)
{
    for (uint32_t i = 0; i < loop->n_processors; i++) end(loop, &loop->processors[i]);
    for (uint32_t i = 0; i < loop->n_criteria; i++) end(loop, &loop->criteria[i]);
}
