/* stages.c - runs the plan's processors and criteria: begin, apply, accept, test, end, and what comes back.
 *
 * Owns: what stages took in begin. Not: row states (row_state.c), which processors one walk replaces (fuse.c), logits of
 * companions, which are there before the call. Thread: [engine]; apply of row-wise processors [row]. */
#include "run/stages/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "call/calls.h"
#include "run/stages/fuse.h"
#include "run/stages/phase.h"
#include "run/stages/watch.h"

/* Elements from which rows are worth handing to other threads. */
enum { SHARE_FROM = 32768, STATE_ALIGN = 16, MOST_TASKS = CDZ_ROW_WORKERS };

/* --- one call of each kind ----------------------------------------------------------------------------------- */

static const cdz_processor *processor_of(const cdz_stage *stage)
{
    return (const cdz_processor *)(const void *)stage->plugin;
}

static const cdz_criterion *criterion_of(const cdz_stage *stage)
{
    return (const cdz_criterion *)(const void *)stage->plugin;
}

static cdz_scope scope_for(cdz_stageset *set, cdz_rows *rows, const cdz_plugin_base *plugin,
                           cdz_row_worker *worker, bool may_alloc)
{
    return (cdz_scope){.rows = rows,
                       .set = set,
                       .plugin = plugin,
                       .scratch = &worker->scratch,
                       .error = &worker->error,
                       .may_alloc = may_alloc,
                       .arena = &set->arena};
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
static cdz_status apply(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                        const cdz_view *view, uint32_t first, uint32_t n, const cdz_scores *scores,
                        void **state_room, cdz_row_worker *worker)
{
    cdz_assert(stage->begun);
    cdz_scope scope = scope_for(set, rows, stage->plugin, worker, false);
    scope.stage = stage;
    scope.first = first;
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
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
static cdz_status judge_apply(cdz_rows *rows, const cdz_row_worker *worker, cdz_status returned)
{
    return cdz_rows_judge(rows, &worker->call, returned, &worker->error);
}

static cdz_status accept(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage, cdz_ids ids,
                         uint32_t row, unsigned char *state, int32_t token)
{
    if (!stage->hears || stage->deaf) return CDZ_OK;
    cdz_assert(stage->begun);
    cdz_scope scope = scope_for(set, rows, stage->plugin, &rows->workers[0], false);
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    void *const own = state ? state + stage->state_at : NULL;
    step.n_rows = 1;
    step.input_ids = &ids;
    step.row_index = &row;
    step.row_state = stage->state_size ? &own : NULL;
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_accept(&call, &step, 0, token);
    return cdz_rows_judge(rows, &call, status, scope.error);
}

static cdz_status test(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                       const cdz_view *view, cdz_stop *stops)
{
    cdz_assert(stage->begun);
    cdz_scope scope = scope_for(set, rows, stage->plugin, &rows->workers[0], false);
    cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    step.n_rows = view->n;
    step.input_ids = view->ids;
    step.row_index = view->rows;
    step.row_state = states_of(stage, view, 0, view->n, rows->state_view);
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_test(&call, criterion_of(stage), &step, stops);
    return cdz_rows_judge(rows, &call, status, scope.error);
}

/* --- processors -------------------------------------------------------------------------------------------- */

/* Row-wise stages [from, to) on some rows of a view, each row through all of them while it is in the cache. */
typedef struct row_work {
    cdz_stageset *set;
    const cdz_stage_chain *chain;
    cdz_rows *rows;
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

/* Stages [from, to) one by one. */
static void one_by_one(row_work *w, struct row_verdict *verdict, uint32_t row, uint32_t from,
                       uint32_t to, cdz_row_worker *worker)
{
    for (uint32_t s = from; s < to && verdict->status == CDZ_OK; s++) {
        void *state;
        const cdz_stage *stage = &w->chain->at[s];
        if (!cdz_stage_runs(w->set, w->rows, stage, row)) continue;
        verdict->status = apply(w->set, w->rows, stage, w->view, row, 1, w->scores, &state, worker);
        if (worker->call.broken) verdict->status = CDZ_E_PLUGIN;
        verdict->row = row;
    }
}

bool cdz_stages_try(cdz_stageset *set, cdz_rows *rows, const cdz_view *view,
                    const cdz_scores *scores, uint32_t row, uint32_t n)
{
    row_work w = {
        .set = set, .chain = &set->processors, .rows = rows, .view = view, .scores = scores};
    one_by_one(&w, &w.verdict[0], row, 0, n, &rows->workers[0]);
    if (w.verdict[0].status == CDZ_OK) return true;
    rows->workers[0].error = (cdz_error){0};
    return false;
}

/* A row through the stages, runs of known form in one walk where that can be. */
static void one_row(row_work *w, struct row_verdict *verdict, uint32_t row, cdz_row_worker *worker)
{
    const uint32_t phase = cdz_phase_bit(w->set, w->rows, row);
    for (uint32_t s = w->from, end; s < w->to && verdict->status == CDZ_OK; s = end) {
        end = cdz_fuse_end(w->chain, s, w->to, phase);
        const bool last = w->drawn && end == w->chain->n;
        if (end > s && cdz_fuse_row(w->chain, s, end, phase, cdz_row(w->scores, row),
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
        if (!cdz_view_skips(w->rows, w->view, (uint32_t)row) && !(w->drawn && w->drawn[row].listed))
            one_row(w, verdict, (uint32_t)row, &w->rows->workers[t]);
}

/* Stages [from, to) of the work's chain, row-wise ones. */
static cdz_status process_rows(row_work *w, uint32_t from, uint32_t to)
{
    cdz_rows *rows = w->rows;
    cdz_backend *backend = rows->berth->backend;
    w->from = from;
    w->to = to;
    memset(w->verdict, 0, sizeof w->verdict);
    const bool share = (size_t)w->view->n * w->scores->n_vocab >= SHARE_FROM;
    w->n_tasks = share && w->view->n < rows->n_workers ? w->view->n : share ? rows->n_workers : 1;
    if (w->n_tasks > 1)
        backend->api->parallel(backend, row_task, w, w->n_tasks);
    else
        row_task(w, 0);

    uint32_t first = w->n_tasks; /* the failure of the lowest row speaks for all */
    for (uint32_t t = 0; t < w->n_tasks; t++)
        if (w->verdict[t].status != CDZ_OK &&
            (first == w->n_tasks || w->verdict[t].row < w->verdict[first].row))
            first = t;
    if (first == w->n_tasks) return CDZ_OK;
    return judge_apply(rows, &rows->workers[first], w->verdict[first].status);
}

/* View rows [first, ...) that the stage runs on together, those that are filled with pad being left alone as
 * by process_rows; returns where they end, first: none do. */
static uint32_t run_of_rows(const row_work *w, const cdz_stage *stage, uint32_t first)
{
    uint32_t end = first;
    while (end < w->view->n && cdz_stage_runs(w->set, w->rows, stage, end) &&
           !cdz_view_skips(w->rows, w->view, end))
        end++;
    return end;
}

static cdz_status process_all(row_work *w, const cdz_stage *stage)
{
    cdz_rows *rows = w->rows;
    cdz_row_worker *worker = &rows->workers[0];
    for (uint32_t first = 0, end; first < w->view->n; first = end + 1) {
        end = run_of_rows(w, stage, first);
        if (end == first) continue;
        if (rows->keeping.asked && rows->keeping.of)
            CDZ_TRY(cdz_matrix_spare(rows, rows->keeping.of));
        const cdz_status status = apply(w->set, rows, stage, w->view, first, end - first, w->scores,
                                        rows->state_view, worker);
        CDZ_TRY(judge_apply(rows, worker, status));
    }
    return CDZ_OK;
}

/* Stages from s on that go through the rows together; returns the one after them. */
static uint32_t together(const cdz_stage_chain *chain, uint32_t s, bool one_by_one)
{
    uint32_t end = s;
    while (end < chain->n && chain->at[end].row_wise && !(one_by_one && end > s)) end++;
    return end;
}

static cdz_status run_processors(row_work *w)
{
    const cdz_stage_chain *chain = w->chain;
    const bool watched = cdz_watch_sees_stages(w->rows);
    for (uint32_t s = 0, end; s < chain->n; s = end) {
        end = together(chain, s, watched);
        if (watched) CDZ_TRY(cdz_watch_stage_before(w->rows, w->scores));
        if (end > s)
            CDZ_TRY(process_rows(w, s, end));
        else
            CDZ_TRY(process_all(w, &chain->at[end++]));
        if (watched) CDZ_TRY(cdz_watch_stage(w->set, &chain->at[s], w->rows, w->view, w->scores));
    }
    return CDZ_OK;
}

cdz_status cdz_stages_process(cdz_stageset *set, const cdz_stage_chain *chain, cdz_rows *rows,
                              const cdz_view *view, cdz_scores *scores, cdz_drawn *drawn)
{
    row_work work = {
        .set = set, .chain = chain, .rows = rows, .view = view, .scores = scores, .drawn = drawn};
    const cdz_work was = cdz_profile_mark(rows->berth->profile, CDZ_WORK_PROCESSORS);
    const bool changes = chain->n > 0; /* else the rows are their own copy */
    if (changes) CDZ_TRY(cdz_watch_before(rows, scores));
    CDZ_TRY(cdz_phases_look(set, rows, view));
    CDZ_TRY(run_processors(&work));
    CDZ_TRY(cdz_watch_scores(rows, view, scores, changes));
    cdz_profile_mark(rows->berth->profile, was);
    return CDZ_OK;
}

/* --- tokens and stop rules ----------------------------------------------------------------------------------- */

cdz_status cdz_stages_accept(cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t row,
                             unsigned char *state, int32_t token)
{
    if (!set->accepts) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(rows->berth->profile, CDZ_WORK_RULES);
    uint32_t phase = CDZ_IN_ALL_PHASES;
    if (set->some_of_phase) CDZ_TRY(cdz_phases_of_newest(set, rows, ids, row, state, &phase));
    for (uint32_t s = 0; s < set->processors.n; s++)
        if (!set->processors.at[s].of_phase || set->processors.at[s].phases & phase)
            CDZ_TRY(accept(set, rows, &set->processors.at[s], ids, row, state, token));
    for (uint32_t s = 0; s < set->criteria.n; s++)
        CDZ_TRY(accept(set, rows, &set->criteria.at[s], ids, row, state, token));
    cdz_profile_mark(rows->berth->profile, was);
    return CDZ_OK;
}

cdz_status cdz_stages_replay(cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t from,
                             uint32_t row, unsigned char *state)
{
    if (!set->accepts) return CDZ_OK;
    for (uint32_t len = from + 1; len <= ids.len; len++)
        CDZ_TRY(cdz_stages_accept(set, rows, (cdz_ids){ids.at, len}, row, state, ids.at[len - 1]));
    return CDZ_OK;
}

/* Reasons a criterion may not give are its failure. */
static cdz_status check_stops(cdz_rows *rows, const cdz_stage *stage, const cdz_stop *stops,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (stops[i].reason > CDZ_STOP_CUSTOM)
            return cdz_err(&rows->error, CDZ_E_PLUGIN,
                           "%s: test gave reason %" PRIu32 ", which is none of cdz_stop_reason",
                           stage->plugin->id, stops[i].reason);
        if (stops[i].text.len && !stops[i].text.at)
            return cdz_err(&rows->error, CDZ_E_PLUGIN,
                           "%s: test gave a text of %" PRIu32 " bytes at NULL", stage->plugin->id,
                           stops[i].text.len);
    }
    return CDZ_OK;
}

/* A reason's text may be the plugin's own, which another version of it may replace before the request ends. */
static cdz_status keep_text(cdz_rows *rows, cdz_stop *stop)
{
    if (stop->text.len == 0) return CDZ_OK;
    for (const cdz_kept_text *kept = rows->texts; kept; kept = kept->next)
        if (kept->len == stop->text.len && memcmp(kept->at, stop->text.at, kept->len) == 0) {
            stop->text.at = kept->at;
            return CDZ_OK;
        }
    cdz_kept_text *kept = cdz_arena_alloc(&rows->arena, sizeof *kept);
    const char *copy = cdz_arena_strndup(&rows->arena, stop->text.at, stop->text.len);
    if (!kept || !copy) return cdz_rows_nomem(rows);
    *kept = (cdz_kept_text){rows->texts, copy, stop->text.len};
    rows->texts = kept;
    stop->text.at = copy;
    return CDZ_OK;
}

/* The view's rows that are not done, in room of the verb's. False: out of memory. */
static bool open_rows(cdz_rows *rows, const cdz_view *view, cdz_view *open, uint32_t *at)
{
    open->n = 0;
    open->ids = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *open->ids);
    open->rows = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *open->rows);
    open->states = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *open->states);
    if (!open->ids || !open->rows || !open->states) return false;
    for (uint32_t i = 0; i < view->n; i++) {
        if (rows->at[view->rows[i]].done) continue;
        open->ids[open->n] = view->ids[i];
        open->rows[open->n] = view->rows[i];
        open->states[open->n] = view->states[i];
        at[open->n++] = i;
    }
    return true;
}

/* A criterion is asked about rows that ended only if it wants to be. */
static cdz_status ask_of(cdz_stageset *set, cdz_rows *rows, const cdz_stage *stage,
                         const cdz_view *view, cdz_stop *said)
{
    cdz_view open;
    if (view != &rows->view || stage->sees_ended || !set->asks_of_ended)
        return test(set, rows, stage, view, said);
    uint32_t *at = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *at);
    cdz_stop *stops = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *stops);
    if (!at || !stops || !open_rows(rows, view, &open, at)) return cdz_rows_nomem(rows);
    memset(stops, 0, view->n * sizeof *stops);
    if (open.n) CDZ_TRY(test(set, rows, stage, &open, stops));
    for (uint32_t i = 0; i < open.n; i++) said[at[i]] = stops[i];
    return CDZ_OK;
}

/* The first reason in list order counts. */
cdz_status cdz_stages_test(cdz_stageset *set, cdz_rows *rows, const cdz_view *view, cdz_stop *stops)
{
    if (view->n == 0) return CDZ_OK;
    const cdz_work was = cdz_profile_mark(rows->berth->profile, CDZ_WORK_RULES);
    cdz_stop *said = cdz_scratch_take(&rows->verb_scratch, view->n * sizeof *said);
    if (!said) return cdz_rows_nomem(rows);
    for (uint32_t s = 0; s < set->criteria.n; s++) {
        const cdz_stage *stage = &set->criteria.at[s];
        memset(said, 0, view->n * sizeof *said);
        CDZ_TRY(ask_of(set, rows, stage, view, said));
        CDZ_TRY(check_stops(rows, stage, said, view->n));
        for (uint32_t i = 0; i < view->n; i++)
            if (stops[i].reason == CDZ_GO_ON) stops[i] = said[i];
    }
    for (uint32_t i = 0; i < view->n; i++)
        if (stops[i].reason != CDZ_GO_ON) CDZ_TRY(keep_text(rows, &stops[i]));
    cdz_profile_mark(rows->berth->profile, was);
    return CDZ_OK;
}

void cdz_stages_look(const cdz_stageset *set, cdz_rows *rows, uint32_t first, uint32_t n)
{
    cdz_view *view = &rows->view;
    view->n = n;
    for (uint32_t i = 0; i < n; i++) {
        view->ids[i] = cdz_row_ids(&rows->at[first + i]);
        view->rows[i] = first + i;
        view->states[i] = set->states[first + i].state;
    }
}

const float *cdz_stages_shown_logits(const cdz_stageset *set, const cdz_stage *stage, uint32_t at)
{
    if (!set || !stage || !stage->companion || at >= set->shown.n_rows) return NULL;
    return set->shown.at[(size_t)(stage->companion - 1) * set->shown.n_rows + at];
}

/* --- begin and end -------------------------------------------------------------------------------------------- */

cdz_stageset *cdz_stageset_new(cdz_plan *plan, bool owned, uint32_t n_rows)
{
    cdz_stageset *set = calloc(1, sizeof *set);
    if (set) {
        set->arena.limit = CDZ_REQUEST_ARENA;
        set->plan = plan;
        set->owned = owned ? plan : NULL;
        set->n_rows = n_rows;
        set->states = cdz_arena_array(&set->arena, n_rows, sizeof *set->states);
        if (set->states) return set;
    }
    free(set);
    if (owned) cdz_plan_free(plan);
    return NULL;
}

void cdz_stageset_free(cdz_stageset *set)
{
    if (!set) return;
    for (uint32_t r = 0; r < set->n_rows; r++) free(set->states[r].marks);
    free(set->trial_states);
    free(set->shown.at);
    cdz_arena_free(&set->arena);
    cdz_plan_free(set->owned);
    free(set);
}

static bool is_idle(cdz_stageset *set, cdz_rows *rows, const cdz_instance *instance)
{
    cdz_scope scope = scope_for(set, rows, instance->plugin.base, &rows->workers[0], false);
    const cdz_step step = cdz_step_for(&scope, instance, NULL);
    cdz_call call = {.scratch = scope.scratch};
    const bool answer = cdz_call_idle(&call, &step);
    cdz_rows_complain(rows, &call);
    return answer;
}

static void add_stage(cdz_stageset *set, const cdz_instance *instance, bool criterion)
{
    cdz_stage *stage =
        criterion ? &set->criteria.at[set->criteria.n++] : &set->processors.at[set->processors.n++];
    *stage = (cdz_stage){.instance = instance, .plugin = instance->plugin.base};
    stage->hears = cdz_accept_of(stage->plugin) != NULL;
    stage->sees_ended = instance->offers.ended != NULL;
    if (criterion) {
        const cdz_criterion *c = criterion_of(stage);
        stage->caps = c->caps;
        stage->state_size = c->state_size;
        stage->state_version = c->state_version;
        set->has_eos |= (c->caps & CDZ_HAS_EOS) != 0;
        set->asks_of_ended |= stage->sees_ended;
    } else {
        const cdz_processor *p = processor_of(stage);
        stage->phases = instance->phases ? instance->phases : CDZ_IN_ALL_PHASES;
        stage->of_phase = instance->of_phase;
        stage->caps = p->caps;
        stage->state_size = p->state_size;
        stage->state_version = p->state_version;
        stage->row_wise = p->caps & CDZ_ROWWISE;
        set->computes_ended |= stage->sees_ended;
    }
    set->accepts |= stage->hears;
    set->some_of_phase |= stage->of_phase;
    stage->state_api = stage->state_size ? instance->offers.state : NULL;
    set->owned_states |= stage->state_api != NULL;
    stage->state_at = set->state_bytes;
    set->state_bytes += ((size_t)stage->state_size + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
}

static cdz_status begin(cdz_stageset *set, cdz_rows *rows, cdz_stage *stage)
{
    cdz_scope scope = scope_for(set, rows, stage->plugin, &rows->workers[0], true);
    const cdz_step step = cdz_step_for(&scope, stage->instance, NULL);
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = cdz_call_begin(&call, &step, &stage->shared);
    CDZ_TRY(cdz_rows_judge(rows, &call, status, scope.error));
    stage->begun = true;
    return CDZ_OK;
}

cdz_status cdz_stages_begin(cdz_stageset *set, cdz_rows *rows)
{
    const cdz_plan *plan = set->plan;
    set->processors.at = cdz_arena_array(&set->arena, plan->n_processors, sizeof(cdz_stage));
    set->criteria.at = cdz_arena_array(&set->arena, plan->n_criteria, sizeof(cdz_stage));
    if (!set->processors.at || !set->criteria.at) return cdz_rows_nomem(rows);
    for (uint32_t i = 0; i < plan->n_processors; i++)
        if (!is_idle(set, rows, &plan->processors[i])) add_stage(set, &plan->processors[i], false);
    for (uint32_t i = 0; i < plan->n_criteria; i++)
        if (!is_idle(set, rows, &plan->criteria[i])) add_stage(set, &plan->criteria[i], true);
    for (uint32_t i = 0; i < set->processors.n; i++) {
        CDZ_TRY(begin(set, rows, &set->processors.at[i]));
        cdz_stage_describe(rows, &set->processors.at[i]);
    }
    for (uint32_t i = 0; i < set->criteria.n; i++) CDZ_TRY(begin(set, rows, &set->criteria.at[i]));
    cdz_phases_begin(set);
    return CDZ_OK;
}

static void end(cdz_stageset *set, cdz_rows *rows, cdz_stage *stage)
{
    if (!stage->begun) return;
    cdz_scope scope = scope_for(set, rows, stage->plugin, &rows->workers[0], false);
    const cdz_step step = cdz_step_for(&scope, stage->instance, stage->shared);
    cdz_call call = {.scratch = scope.scratch};
    cdz_call_end(&call, &step);
    cdz_rows_complain(rows, &call);
    stage->begun = false;
}

void cdz_stages_end(cdz_stageset *set, cdz_rows *rows)
{
    for (uint32_t i = 0; i < set->processors.n; i++) end(set, rows, &set->processors.at[i]);
    for (uint32_t i = 0; i < set->criteria.n; i++) end(set, rows, &set->criteria.at[i]);
}
