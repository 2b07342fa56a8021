/* referee.c - see referee.h.
 *
 * Owns: the scheduler's shared memory, and what it is shown. Not: the queue and the list of those that run (engine.c), nor what
 * it takes to begin (task.c). A request that cannot be shown for want of memory is served in the host's own order. */
#include "run/engine/referee.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "call/calls.h"
#include "call/host.h"
#include "run/engine/engine_parts.h"

/* --- a call ------------------------------------------------------------------------------------------------------- */

typedef struct scope {
    const cdz_caller *caller; /* first */
    cdz_engine *engine;
    cdz_error said; /* by the scheduler */
    bool may_alloc;
} scope;

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    scope *s = step->scope;
    return cdz_err(&s->said, code, "%s", text);
}

static void log_line(const cdz_step *step, cdz_log_level level, const char *text)
{
    const scope *s = step->scope;
    cdz_engine_log(s->engine, level, step->plugin->id, text);
}

static void *take(const cdz_step *step, size_t bytes)
{
    scope *s = step->scope;
    return s->may_alloc ? cdz_arena_alloc_aligned(&s->engine->referee.arena, bytes, 64) : NULL;
}

static void *take_scratch(const cdz_step *step, size_t bytes)
{
    scope *s = step->scope;
    return cdz_scratch_take(&s->engine->referee.scratch, bytes);
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    const scope *s = step->scope;
    return cdz_call_find_file(step, s->engine->referee.files, name, out);
}

static scope scope_of(cdz_engine *engine)
{
    static const cdz_caller caller = {
        .fail = keep_sentence, .log = log_line, .alloc = take, .scratch = take_scratch, .file = file};
    return (scope){.caller = &caller, .engine = engine};
}

static cdz_step step_of(scope *s)
{
    const cdz_referee *r = &s->engine->referee;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = r->params,
                      .shared = r->shared,
                      .plugin = &r->scheduler->base,
                      .host = &cdz_bare_host,
                      .scope = s};
}

static bool is_asked(const cdz_referee *r)
{
    return r->scheduler && r->begun && !r->dismissed;
}

static void tell(const cdz_engine *engine, const char *text)
{
    cdz_engine_log(engine, CDZ_LOG_WARNING, engine->referee.scheduler->base.id, text);
}

/* Its last answer was none: from here on the host goes by its own order. */
static void dismiss(cdz_engine *engine, const char *why)
{
    char text[CDZ_ERROR_TEXT + 80];
    engine->referee.dismissed = true;
    snprintf(text, sizeof text,
             "%s; from now on requests have their turns in the order in which they came", why);
    tell(engine, text);
}

/* False: the call went wrong, and it is asked no more. */
static bool went_well(cdz_engine *engine, const cdz_call *call, cdz_status returned,
                      const cdz_error *said)
{
    cdz_error fault;
    if (returned == CDZ_OK && !call->broken) return true;
    if (cdz_call_fault(call, returned, said, &fault) == CDZ_OK)
        cdz_err(&fault, returned, "%s: %s", call->function, said->text);
    dismiss(engine, fault.text);
    return false;
}

/* --- its life ------------------------------------------------------------------------------------------------------ */

cdz_status cdz_referee_begin(cdz_engine *engine, cdz_error *err)
{
    cdz_referee *r = &engine->referee;
    if (!r->scheduler) return CDZ_OK;
    scope s = scope_of(engine);
    s.may_alloc = true;
    const cdz_step step = step_of(&s);
    cdz_call call = {.scratch = &r->scratch};
    const cdz_status returned = cdz_call_begin(&call, &step, &r->shared);
    CDZ_TRY(cdz_call_judge(&call, returned, &s.said, err));
    r->begun = true;
    return CDZ_OK;
}

void cdz_referee_end(cdz_engine *engine)
{
    cdz_referee *r = &engine->referee;
    if (r->begun) {
        scope s = scope_of(engine);
        const cdz_step step = step_of(&s);
        cdz_call call = {.scratch = &r->scratch};
        cdz_call_end(&call, &step);
    }
    r->begun = false;
    free(r->contenders);
    free(r->shown);
    free(r->tasks);
    free(r->list);
    free(r->listed);
    cdz_scratch_free(&r->scratch);
    cdz_arena_free(&r->arena);
}

/* --- what it is shown ------------------------------------------------------------------------------------------------ */

static bool grow(void **at, size_t n, size_t bytes)
{
    void *grown = realloc(*at, n * bytes);
    if (grown) *at = grown;
    return grown;
}

static bool room_for(cdz_referee *r, uint32_t n)
{
    if (n <= r->cap) return true;
    const size_t cap = 2 * (size_t)n;
    const bool fits = grow((void **)&r->contenders, cap, sizeof *r->contenders) &&
                      grow((void **)&r->shown, cap, sizeof *r->shown) &&
                      grow((void **)&r->tasks, cap, sizeof *r->tasks) &&
                      grow((void **)&r->list, cap, sizeof *r->list) &&
                      grow((void **)&r->listed, cap, sizeof *r->listed);
    if (fits) r->cap = (uint32_t)cap;
    return fits;
}

static uint32_t n_new(const cdz_request_row *row, uint32_t prompt_len)
{
    if (row->done) return row->n_new;
    return row->seq && row->seq->n > prompt_len ? row->seq->n - prompt_len : 0;
}

/* Of one that runs, what its loops say. */
static void look_at_loops(const cdz_task *task, cdz_contender *out)
{
    out->state = CDZ_CONTENDER_DECODES;
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++) {
        const cdz_loop *loop = task->loops[i];
        const bool reads = loop->prefill_s == 0 && !cdz_fibre_ended(loop->fibre);
        if (reads) out->state = CDZ_CONTENDER_READS;
        if (reads && loop->waiting) out->prompt_left += loop->want.rows_left;
        for (uint32_t r = 0; r < loop->rows.n; r++)
            out->new_tokens += n_new(&loop->rows.at[r], loop->rows.info.prompt_len);
    }
    out->kv_blocks = (uint64_t)task->target.used + task->assistant.used;
    for (uint32_t i = 0; i < task->job->n_others; i++)
        out->kv_blocks += task->others[i].account.used;
}

static void describe(const cdz_task *task, uint64_t passes, double now_s, cdz_contender *out)
{
    *out = (cdz_contender){.size = sizeof *out,
                           .id = task->id,
                           .tenant = task->job->tenant,
                           .priority = task->job->priority,
                           .age_s = now_s - task->submitted_s,
                           .age_passes = passes - task->came_at,
                           .prompt_tokens = task->prompt_tokens,
                           .n_rows = task->job->n_rows};
    if (task->life == CDZ_TASK_RUNNING) {
        look_at_loops(task, out);
    } else {
        out->prompt_left = task->prompt_tokens;
        out->kv_blocks = task->first_blocks;
    }
}

/* Tasks [from, from + n) of those noted. */
static const cdz_contender *const *show(cdz_engine *engine, uint32_t from, uint32_t n)
{
    cdz_referee *r = &engine->referee;
    const double now_s = cdz_now_s();
    for (uint32_t i = from; i < from + n; i++) {
        describe(r->tasks[i], engine->now.passes, now_s, &r->contenders[i]);
        r->shown[i] = &r->contenders[i];
    }
    return r->shown + from;
}

/* The first n of a list; nobody else takes any out of it. */
/* Behind the i-th of n tasks. What the last one names is not read: who comes now is written there. */
static cdz_task *behind(const cdz_task *task, uint32_t i, uint32_t n)
{
    return i + 1 < n ? task->next : NULL;
}

static void note(cdz_referee *r, uint32_t from, cdz_task *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; list = behind(list, i++, n)) r->tasks[from + i] = list;
}

static uint32_t n_waiting(cdz_engine *engine, cdz_task **oldest)
{
    cdz_mutex_lock(&engine->lock);
    const uint32_t n = engine->n_queued;
    *oldest = engine->queue;
    cdz_mutex_unlock(&engine->lock);
    return n;
}

/* --- its answers ------------------------------------------------------------------------------------------------------ */

/* Are the indexes below n, each there once? */
static bool is_sound(cdz_engine *engine, const char *function, const cdz_lineup *turns, uint32_t n,
                     const char *whose)
{
    cdz_referee *r = &engine->referee;
    char why[160];
    why[0] = '\0';
    for (uint32_t i = 0; i < n; i++) r->listed[i] = false;
    if (turns->n > n)
        snprintf(why, sizeof why, "%s listed %u of %u requests that %s", function, turns->n, n,
                 whose);
    for (uint32_t i = 0; !why[0] && i < turns->n; i++) {
        const uint32_t at = r->list[i];
        if (at >= n)
            snprintf(why, sizeof why, "%s listed number %u of %u requests that %s (from 0)",
                     function, at, n, whose);
        else if (r->listed[at])
            snprintf(why, sizeof why, "%s listed number %u of %u requests that %s twice", function,
                     at, n, whose);
        else
            r->listed[at] = true;
    }
    if (!why[0] && turns->first > CDZ_PROMPTS_FIRST)
        snprintf(why, sizeof why, "%s answered first = %u, expected 0 or 1", function, turns->first);
    if (!why[0]) return true;
    dismiss(engine, why);
    return false;
}

typedef cdz_status ask_fn(cdz_call *c, const cdz_scheduler *s, const cdz_step *step,
                          const cdz_contest *contest, cdz_lineup *turns);

/* False: there is no answer. n: of those that are listed. */
static bool ask(cdz_engine *engine, ask_fn *function, const cdz_contest *contest, uint32_t n,
                cdz_lineup *turns)
{
    cdz_referee *r = &engine->referee;
    scope s = scope_of(engine);
    const cdz_step step = step_of(&s);
    cdz_call call = {.scratch = &r->scratch};
    *turns = (cdz_lineup){.size = sizeof *turns, .cap = n, .list = r->list};
    const cdz_status returned = function(&call, r->scheduler, &step, contest, turns);
    return went_well(engine, &call, returned, &s.said) &&
           is_sound(engine, call.function, turns, n, contest->waiting ? "wait" : "run");
}

static void tell_once(cdz_engine *engine, unsigned what, const char *text)
{
    if (engine->referee.told & what) return;
    engine->referee.told |= what;
    tell(engine, text);
}

/* --- who begins ------------------------------------------------------------------------------------------------------ */

/* One that others overtook too often. */
static cdz_task *overtaken(cdz_engine *engine, cdz_task *oldest, uint32_t n)
{
    char text[160];
    cdz_task *task = oldest;
    for (uint32_t i = 0; i < n; task = behind(task, i++, n)) {
        if (task->overtaken < CDZ_MOST_OVERTAKEN) continue;
        snprintf(text, sizeof text,
                 "%u requests that came later have begun before request %" PRIu64
                 ", which therefore begins next",
                 task->overtaken, task->id);
        tell_once(engine, CDZ_TOLD_OVERTAKEN, text);
        return task;
    }
    return NULL;
}

/* The tasks that the scheduler listed, behind all that were noted. False: there is no answer. */
static bool ask_admit(cdz_engine *engine, cdz_task *oldest, uint32_t n, cdz_task *const **out,
                      uint32_t *n_out)
{
    cdz_referee *r = &engine->referee;
    cdz_lineup turns;
    const uint32_t n_running = engine->n_running;
    if (!room_for(r, 2 * n + n_running)) return false;
    note(r, 0, oldest, n);
    note(r, n, engine->running, n_running);
    const cdz_contest contest = {.size = sizeof contest,
                                 .n_waiting = n,
                                 .n_running = n_running,
                                 .places = cdz_engine_places(engine),
                                 .waiting = show(engine, 0, n),
                                 .running = show(engine, n, n_running),
                                 .passes = engine->now.passes,
                                 .pass_rows = CDZ_PASS_ROWS};
    if (!ask(engine, cdz_call_admit, &contest, n, &turns)) return false;
    cdz_task **chosen = r->tasks + n + n_running;
    for (uint32_t i = 0; i < turns.n; i++) chosen[i] = r->tasks[r->list[i]];
    *out = chosen;
    *n_out = turns.n;
    return true;
}

/* The host's own order, one at a time: no memory is needed for it. */
static uint32_t one(cdz_referee *r, cdz_task *task, cdz_task *const **out)
{
    r->alone = task;
    *out = &r->alone;
    return 1;
}

uint32_t cdz_referee_admit(cdz_engine *engine, cdz_task *const **out)
{
    cdz_referee *r = &engine->referee;
    cdz_task *oldest;
    const uint32_t n = n_waiting(engine, &oldest);
    if (n == 0) return 0;
    if (!is_asked(r)) return one(r, oldest, out);
    cdz_task *late = overtaken(engine, oldest, n);
    if (late) return one(r, late, out);
    uint32_t n_chosen = 0;
    if (!ask_admit(engine, oldest, n, out, &n_chosen)) return one(r, oldest, out);
    if (n_chosen > 0 || engine->n_running > engine->n_paused) return n_chosen;
    tell_once(engine, CDZ_TOLD_IDLE,
              "admit let nobody begin while nothing runs; the request that came first begins");
    return one(r, oldest, out);
}

void cdz_referee_begins(cdz_engine *engine, const cdz_task *task)
{
    cdz_assert_holds(&engine->lock);
    for (cdz_task *at = engine->queue; at && at != task; at = at->next) at->overtaken++;
}

void cdz_referee_ended(cdz_engine *engine, const cdz_task *task)
{
    cdz_referee *r = &engine->referee;
    if (!is_asked(r) || !r->scheduler->ended) return;
    cdz_contender request;
    describe(task, engine->now.passes, cdz_now_s(), &request);
    request.state = CDZ_CONTENDER_DECODES;
    request.prompt_left = request.kv_blocks = 0;
    request.new_tokens = task->outcome->n_new_tokens;
    scope s = scope_of(engine);
    const cdz_step step = step_of(&s);
    cdz_call call = {.scratch = &r->scratch};
    cdz_call_ended(&call, r->scheduler, &step, &request);
    went_well(engine, &call, CDZ_OK, &s.said);
}

/* --- who is in front of a pass ----------------------------------------------------------------------------------------- */

/* Those that were left out too often, then the list, then all others: each once. */
static void link_all(cdz_engine *engine, uint32_t n_listed)
{
    cdz_referee *r = &engine->referee;
    cdz_task **end = &r->first;
    char text[160];
    for (cdz_task *task = engine->running; task; task = task->next) {
        task->in_line = is_asked(r) && task->left_out >= CDZ_MOST_LEFT_OUT;
        if (!task->in_line) continue;
        snprintf(text, sizeof text,
                 "request %" PRIu64 " had rows in none of %u passes, and is therefore in front",
                 task->id, task->left_out);
        tell_once(engine, CDZ_TOLD_LEFT_OUT, text);
        *end = task, end = &task->after;
    }
    for (uint32_t i = 0; i < n_listed; i++) {
        cdz_task *task = r->tasks[r->list[i]];
        if (task->in_line) continue;
        task->in_line = true;
        *end = task, end = &task->after;
    }
    for (cdz_task *task = engine->running; task; task = task->next)
        if (!task->in_line) *end = task, end = &task->after;
    *end = NULL;
}

void cdz_referee_order(cdz_engine *engine)
{
    cdz_referee *r = &engine->referee;
    const uint32_t n = engine->n_running;
    cdz_lineup turns = {0};
    if (n && is_asked(r) && r->scheduler->order && room_for(r, n)) {
        note(r, 0, engine->running, n);
        cdz_task *oldest;
        const cdz_contest contest = {.size = sizeof contest,
                                     .n_waiting = n_waiting(engine, &oldest),
                                     .n_running = n,
                                     .running = show(engine, 0, n),
                                     .passes = engine->now.passes,
                                     .pass_rows = CDZ_PASS_ROWS};
        if (!ask(engine, cdz_call_order, &contest, n, &turns)) turns = (cdz_lineup){0};
    }
    r->prompts_first = turns.first == CDZ_PROMPTS_FIRST;
    r->prompt_rows = turns.prompt_rows;
    link_all(engine, turns.n);
}

void cdz_referee_look_back(cdz_engine *engine)
{
    for (cdz_task *task = engine->running; task; task = task->next) {
        bool has_rows = false, served = false;
        for (uint32_t i = 0; i < task->n_loops; i++) {
            const cdz_loop *loop = task->loops[i];
            if (!loop->waiting || loop->lacks || task->paused) continue;
            has_rows = true;
            served |= loop->want.served || loop->want.rows_left == 0;
        }
        task->left_out = has_rows && !served ? task->left_out + 1 : 0;
    }
}
