/* watch.c - calls the request's observers. Each call is one of the kinds of `event`; what comes back can only silence the
 * observer. */
#include "run/stages/watch.h"

#include <stdio.h>
#include <string.h>

#include "call/calls.h"
#include "run/stages/phase.h"

struct cdz_watcher {
    const cdz_observer *observer;
    const cdz_instance *instance;
    void *shared;
    bool begun, failed;
};

/* --- one call ---------------------------------------------------------------------------------------------------- */

/* What is to be told. */
typedef struct event {
    const cdz_stageset *set; /* of `by` */
    const cdz_stage *by;     /* rows that it did not run on are not shown */
    const cdz_seen *seen;
    const cdz_stop *stop;
    const uint32_t *parents;
    uint32_t n;
    int32_t token;
    enum { TO_ALL, TO_THOSE_WHO_SEE_ENDED, TO_THE_OTHERS } to; /* rows that are filled with pad */
    cdz_status (*tell)(cdz_call *call, struct cdz_watcher *watcher, const cdz_step *step,
                       const struct event *e);
} event;

/* Rows an event is about. */
typedef struct subjects {
    uint32_t n;
    const cdz_ids *ids;
    const uint32_t *index;
} subjects;

static void silence(const cdz_rows *rows, struct cdz_watcher *watcher, const char *why)
{
    char text[CDZ_ERROR_TEXT + 80];
    snprintf(text, sizeof text, "%s; it watches this request no further", why);
    watcher->failed = true;
    cdz_rows_log(rows, CDZ_LOG_WARNING, watcher->observer->base.id, text);
}

/* A call that went wrong silences the observer. */
static void judge(const cdz_rows *rows, struct cdz_watcher *watcher, const cdz_call *call,
                  cdz_status returned, const cdz_error *said)
{
    cdz_error fault;
    if (returned == CDZ_OK && !call->broken) return;
    if (cdz_call_fault(call, returned, said, &fault) == CDZ_OK)
        cdz_err(&fault, returned, "%s: %s", call->function, said->text);
    silence(rows, watcher, fault.text);
}

static void tell_one(cdz_rows *rows, struct cdz_watcher *watcher, const subjects *about,
                     const event *e)
{
    cdz_error said = {.code = CDZ_OK};
    cdz_scope scope = {.rows = rows,
                       .plugin = &watcher->observer->base,
                       .scratch = &rows->workers[0].scratch,
                       .error = &said,
                       .may_alloc = !watcher->begun};
    cdz_step step = cdz_step_for(&scope, watcher->instance, watcher->shared);
    step.n_rows = about->n;
    step.input_ids = about->ids;
    step.row_index = about->index;
    cdz_call call = {.scratch = scope.scratch};
    const cdz_status status = e->tell(&call, watcher, &step, e);
    judge(rows, watcher, &call, status, &said);
}

static bool is_for(const struct cdz_watcher *watcher, const event *e)
{
    const bool sees = watcher->instance->offers.ended;
    return e->to == TO_ALL || sees == (e->to == TO_THOSE_WHO_SEE_ENDED);
}

static void tell(cdz_rows *rows, const subjects *about, const event *e)
{
    for (uint32_t i = 0; i < rows->watch.n; i++) {
        struct cdz_watcher *watcher = &rows->watch.all[i];
        if (watcher->begun && !watcher->failed && is_for(watcher, e))
            tell_one(rows, watcher, about, e);
    }
}

static cdz_status tell_begin(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                             const event *e)
{
    (void)e;
    return cdz_call_begin(call, step, &w->shared);
}

static cdz_status tell_stage(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                             const event *e)
{
    return cdz_call_stage(call, w->observer, step, e->by->plugin, e->seen);
}

static cdz_status tell_scores(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                              const event *e)
{
    return cdz_call_scores(call, w->observer, step, e->seen);
}

static cdz_status tell_token(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                             const event *e)
{
    return cdz_call_token(call, w->observer, step, e->token);
}

static cdz_status tell_stop(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                            const event *e)
{
    return cdz_call_stop(call, w->observer, step, e->stop);
}

static cdz_status tell_rewind(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                              const event *e)
{
    return cdz_call_rewind(call, w->observer, step, e->n);
}

static cdz_status tell_reorder(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                               const event *e)
{
    return cdz_call_reorder(call, w->observer, step, e->parents);
}

static cdz_status tell_end(cdz_call *call, struct cdz_watcher *w, const cdz_step *step,
                           const event *e)
{
    (void)w, (void)e;
    cdz_call_end(call, step);
    return CDZ_OK;
}

/* --- begin and end ----------------------------------------------------------------------------------------------- */

cdz_status cdz_watch_begin(cdz_rows *rows, const cdz_plan *plan)
{
    static const event begin = {.tell = tell_begin};
    static const subjects none = {0};
    if (plan->n_observers == 0) return CDZ_OK;
    rows->watch.all = cdz_arena_array(&rows->arena, plan->n_observers, sizeof *rows->watch.all);
    if (!rows->watch.all) return cdz_rows_nomem(rows);
    for (uint32_t i = 0; i < plan->n_observers; i++) {
        struct cdz_watcher *watcher = &rows->watch.all[rows->watch.n++];
        watcher->instance = &plan->observers[i];
        watcher->observer = (const void *)watcher->instance->plugin.base;
        tell_one(rows, watcher, &none, &begin);
        watcher->begun = !watcher->failed;
    }
    return CDZ_OK;
}

/* A failed observer is ended as well: it may hold something. */
void cdz_watch_end(cdz_rows *rows)
{
    static const event end = {.tell = tell_end};
    static const subjects none = {0};
    for (uint32_t i = 0; i < rows->watch.n; i++)
        if (rows->watch.all[i].begun) tell_one(rows, &rows->watch.all[i], &none, &end);
    rows->watch.n = 0;
    cdz_matrix_free(rows, &rows->watch.logits_seen);
    cdz_matrix_free(rows, &rows->watch.stage_seen);
    cdz_scratch_free(&rows->watch.scratch);
}

/* --- scores ------------------------------------------------------------------------------------------------------ */

static bool sees_scores(const cdz_rows *rows)
{
    for (uint32_t i = 0; i < rows->watch.n; i++)
        if (rows->watch.all[i].observer->scores && !rows->watch.all[i].failed) return true;
    return false;
}

bool cdz_watch_sees_ended(const cdz_rows *rows)
{
    for (uint32_t i = 0; i < rows->watch.n; i++) {
        const struct cdz_watcher *watcher = &rows->watch.all[i];
        if (watcher->instance->offers.ended && watcher->observer->scores && !watcher->failed)
            return true;
    }
    return false;
}

bool cdz_watch_sees_stages(const cdz_rows *rows)
{
    for (uint32_t i = 0; i < rows->watch.n; i++)
        if (rows->watch.all[i].observer->stage && !rows->watch.all[i].failed) return true;
    return false;
}

static cdz_status copy_rows(cdz_rows *rows, const cdz_scores *scores, cdz_matrix *to)
{
    CDZ_TRY(cdz_matrix_fit(rows, to, scores->n_rows, scores->n_vocab));
    for (uint32_t r = 0; r < scores->n_rows; r++)
        memcpy(to->data + (size_t)r * scores->n_vocab, cdz_row(scores, r),
               scores->n_vocab * sizeof(float));
    return CDZ_OK;
}

cdz_status cdz_watch_before(cdz_rows *rows, const cdz_scores *scores)
{
    return sees_scores(rows) ? copy_rows(rows, scores, &rows->watch.logits_seen) : CDZ_OK;
}

cdz_status cdz_watch_stage_before(cdz_rows *rows, const cdz_scores *scores)
{
    return copy_rows(rows, scores, &rows->watch.stage_seen);
}

static bool hides(const cdz_rows *rows, const cdz_view *view, const event *e, uint32_t i)
{
    const bool ended = e->to == TO_THOSE_WHO_SEE_ENDED;
    return ended ? cdz_view_skips(rows, view, i) : cdz_view_pads(rows, view, i);
}

/* Shows the view's rows; before: NULL where they are as they were. */
static cdz_status show(cdz_rows *rows, const cdz_view *view, const cdz_scores *scores,
                       const cdz_matrix *before, event e)
{
    cdz_scratch_reset(&rows->watch.scratch);
    const size_t n = (size_t)view->n + 1;
    cdz_ids *ids = cdz_scratch_take(&rows->watch.scratch, n * sizeof *ids);
    uint32_t *index = cdz_scratch_take(&rows->watch.scratch, n * sizeof *index);
    const float **was = cdz_scratch_take(&rows->watch.scratch, n * sizeof *was);
    const float **is = cdz_scratch_take(&rows->watch.scratch, n * sizeof *is);
    if (!ids || !index || !was || !is) return cdz_rows_nomem(rows);
    subjects about = {0, ids, index};
    for (uint32_t i = 0; i < view->n; i++) {
        if (hides(rows, view, &e, i) || (e.by && !cdz_stage_runs(e.set, rows, e.by, i))) continue;
        ids[about.n] = view->ids[i];
        index[about.n] = view->rows[i];
        is[about.n] = cdz_row(scores, i);
        was[about.n] = before ? before->data + (size_t)i * scores->n_vocab : is[about.n];
        about.n++;
    }
    const cdz_seen seen = {sizeof seen, scores->n_vocab, was, is};
    e.seen = &seen;
    if (about.n) tell(rows, &about, &e);
    return CDZ_OK;
}

cdz_status cdz_watch_stage(const cdz_stageset *set, const cdz_stage *by, cdz_rows *rows,
                           const cdz_view *view, const cdz_scores *scores)
{
    const event e = {.tell = tell_stage, .set = set, .by = by};
    return show(rows, view, scores, &rows->watch.stage_seen, e);
}

cdz_status cdz_watch_scores(cdz_rows *rows, const cdz_view *view, const cdz_scores *scores,
                            bool changed)
{
    const cdz_matrix *before = changed ? &rows->watch.logits_seen : NULL;
    event e = {.tell = tell_scores, .to = TO_THE_OTHERS};
    if (!sees_scores(rows)) return CDZ_OK;
    CDZ_TRY(show(rows, view, scores, before, e));
    e.to = TO_THOSE_WHO_SEE_ENDED;
    return cdz_watch_sees_ended(rows) ? show(rows, view, scores, before, e) : CDZ_OK;
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

static void tell_of_row(cdz_rows *rows, uint32_t r, cdz_ids ids, const event *e)
{
    const subjects about = {1, &ids, &r};
    tell(rows, &about, e);
}

void cdz_watch_token(cdz_rows *rows, uint32_t r, int32_t token)
{
    const event e = {.tell = tell_token, .token = token};
    tell_of_row(rows, r, cdz_row_ids(&rows->at[r]), &e);
}

void cdz_watch_stop(cdz_rows *rows, uint32_t r, cdz_ids ids, const cdz_stop *stop)
{
    const event e = {.tell = tell_stop, .stop = stop};
    tell_of_row(rows, r, ids, &e);
}

void cdz_watch_rewind(cdz_rows *rows, uint32_t r, uint32_t n)
{
    const event e = {.tell = tell_rewind, .n = n};
    tell_of_row(rows, r, cdz_row_ids(&rows->at[r]), &e);
}

cdz_status cdz_watch_reorder(cdz_rows *rows, const uint32_t *parents)
{
    const event e = {.tell = tell_reorder, .parents = parents};
    if (rows->watch.n == 0) return CDZ_OK;
    cdz_scratch_reset(&rows->watch.scratch);
    cdz_ids *ids = cdz_scratch_take(&rows->watch.scratch, rows->n * sizeof *ids);
    uint32_t *index = cdz_scratch_take(&rows->watch.scratch, rows->n * sizeof *index);
    if (!ids || !index) return cdz_rows_nomem(rows);
    for (uint32_t r = 0; r < rows->n; r++) {
        ids[r] = cdz_row_ids(&rows->at[r]);
        index[r] = r;
    }
    const subjects about = {rows->n, ids, index};
    tell(rows, &about, &e);
    return CDZ_OK;
}
