/* scheduler.c - one tick of the engine thread: admit, run fibres, run one pass per model, deliver.
 *
 * Owns: who runs next, and which rows share a pass. Not: a request's memory (task.c), the pass (run/pass/forward.h).
 * Invariant: after a tick, cdz_engine_check (walk.c). Thread: [engine]. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "run/engine/engine_parts.h"

/* --- counters ------------------------------------------------------------------------------------------------------- */

static void publish(cdz_engine *engine)
{
    cdz_profile_settle(engine->profile);
    cdz_mutex_lock(&engine->lock);
    engine->now.kv_blocks_used = 0;
    engine->now.kv_blocks_peak = 0;
    engine->now.kv_blocks_cached = 0;
    engine->now.kv_blocks_evicted = engine->budget.given_away;
    engine->now.prefix_queries = engine->budget.looked_for;
    engine->now.prefix_hits = engine->budget.found;
    engine->now.prefix_refused = engine->budget.refused;
    engine->now.kv_bytes_held = engine->budget.committed;
    engine->now.kv_bytes_limit = engine->budget.limit;
    engine->now.n_paused = engine->n_paused;
    for (const cdz_run_model *model = engine->models; model; model = model->next) {
        if (!model->pool) continue;
        const cdz_kv_counts counts = cdz_kv_pool_counts(model->pool);
        engine->now.kv_blocks_used += counts.used;
        engine->now.kv_blocks_peak += counts.peak;
        engine->now.kv_blocks_cached += counts.resting;
    }
    engine->stats = engine->now;
    if (engine->profile) engine->times = engine->profile->times;
    cdz_mutex_unlock(&engine->lock);
}

/* --- admission ------------------------------------------------------------------------------------------------------ */

/* Why a task that has not begun will not begin. */
static cdz_status hopeless(const cdz_task *task)
{
    if (atomic_load(&task->cancelled)) return CDZ_E_CANCELLED;
    const double deadline = task->job->deadline_s;
    return deadline > 0 && cdz_now_s() >= deadline ? CDZ_E_DEADLINE : CDZ_OK;
}

static void end_task(cdz_engine *engine, cdz_task *task)
{
    engine->now.requests_done++;
    if (engine->profile) engine->profile->times.requests++;
    cdz_profile_mark(engine->profile, CDZ_WORK_REQUEST);
    const bool ran = task->life == CDZ_TASK_RUNNING;
    cdz_task_finish(task);
    if (ran) cdz_referee_ended(engine, task);
    publish(engine); /* who waits for the answer finds it counted */
    cdz_task_deliver(task);
    cdz_task_free(task);
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
}

/* Takes out of the queue whatever was cancelled or ran out of time there. */
static void sweep_queue(cdz_engine *engine)
{
    cdz_task *gone = NULL;
    cdz_mutex_lock(&engine->lock);
    for (cdz_task **at = &engine->queue; *at;) {
        cdz_task *task = *at;
        task->error.code = hopeless(task);
        if (task->error.code == CDZ_OK) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        if (!*at) engine->queue_end = at;
        engine->n_queued--;
        task->next = gone;
        gone = task;
    }
    cdz_mutex_unlock(&engine->lock);
    while (gone) {
        cdz_task *next = gone->next;
        end_task(engine, gone);
        gone = next;
    }
}

/* Moves a waiting task to the end of those that run. */
static void promote(cdz_engine *engine, cdz_task *task)
{
    cdz_mutex_lock(&engine->lock);
    cdz_referee_begins(engine, task);
    cdz_task **at = &engine->queue;
    while (*at != task) at = &(*at)->next;
    *at = task->next;
    if (!*at) engine->queue_end = at;
    engine->n_queued--;
    cdz_assert(task->life == CDZ_TASK_QUEUED);
    task->life = CDZ_TASK_RUNNING;
    task->next = NULL;
    cdz_task **end = &engine->running;
    while (*end) end = &(*end)->next;
    *end = task;
    engine->n_running++;
    engine->moved = true;
    cdz_mutex_unlock(&engine->lock);
}

static bool may_begin(const cdz_engine *engine)
{
    return cdz_engine_places(engine) > 0 && !cdz_engine_is_short(engine);
}

/* False: it waits for memory. */
static bool begin(cdz_engine *engine, cdz_task *task)
{
    cdz_profile_mark(engine->profile, CDZ_WORK_REQUEST);
    bool started = cdz_task_start(task);
    while (!started && cdz_engine_take_paused(engine)) started = cdz_task_start(task);
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
    if (started) promote(engine, task);
    return started;
}

/* In the scheduler's order; nobody overtakes a task that waits for memory. True: some were left waiting, for memory or by the
 * scheduler, whatever places are free. */
static bool admit_some(cdz_engine *engine)
{
    while (may_begin(engine)) {
        cdz_task *const *turn;
        const bool any = cdz_engine_n_waiting(engine) > 0;
        const uint32_t n = cdz_referee_admit(engine, &turn);
        if (n == 0) return any;
        for (uint32_t i = 0; i < n && may_begin(engine); i++)
            if (!begin(engine, turn[i])) return true;
    }
    return cdz_engine_is_short(engine);
}

static void admit(cdz_engine *engine)
{
    sweep_queue(engine);
    const bool holds = admit_some(engine);
    cdz_mutex_lock(&engine->lock);
    engine->holds_queue = holds;
    cdz_mutex_unlock(&engine->lock);
}

/* --- fibres --------------------------------------------------------------------------------------------------------- */

static bool can_go_on(cdz_loop *loop)
{
    if (loop->pause.on) return cdz_loop_pause_is_over(loop);
    return !loop->waiting || loop->want.rows_left == 0 || loop->denied != CDZ_OK ||
           cdz_loop_alive(loop) != CDZ_OK;
}

/* The first loop that fails speaks for the task; its siblings see task->failed. */
static void loop_ended(cdz_task *task, const cdz_loop *loop)
{
    task->n_ended++;
    if (loop->status == CDZ_OK || task->error.code != CDZ_OK) return;
    if (loop->status == CDZ_E_CANCELLED || loop->status == CDZ_E_DEADLINE)
        task->error.code = loop->status;
    else
        task->error = loop->rows.error;
    task->failed = true;
}

static void run_loops(cdz_engine *engine, cdz_task *task)
{
    for (uint32_t i = 0; task->loops && i < task->n_loops; i++) {
        cdz_loop *loop = task->loops[i];
        if (cdz_fibre_ended(loop->fibre) || !can_go_on(loop)) continue;
        engine->now.switches++;
        engine->moved = true;
        if (engine->profile) engine->profile->times.pass[engine->profile->pass].switches++;
        cdz_profile_mark(engine->profile, CDZ_WORK_STRATEGY);
        cdz_fibre_resume(loop->fibre);
        cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
        if (cdz_fibre_ended(loop->fibre)) loop_ended(task, loop);
    }
}

static bool has_ended(const cdz_task *task)
{
    return !task->loops || task->n_ended == task->n_loops;
}

static bool is_held_back(const cdz_task *task)
{
    return atomic_load(&task->held_back) && hopeless(task) == CDZ_OK;
}

/* Whoever is not held back any more waits for a place, which others may have taken; what is to end needs none. */
static bool waits_for_place(const cdz_task *task)
{
    return task->paused && !atomic_load(&task->held_back) && hopeless(task) == CDZ_OK;
}

/* Once all fibres wait: whose rows stay out of this tick's passes. Places that become free are first theirs who had one; who
 * waits for memory needs none, so that whoever holds the memory gets to its end. */
static void note_paused(cdz_engine *engine)
{
    uint32_t places = engine->max_running, n_away = 0;
    for (const cdz_task *task = engine->running; task; task = task->next)
        if (!task->paused && !task->parked && !is_held_back(task) && places) places--;
    engine->n_paused = 0;
    for (cdz_task *task = engine->running; task; task = task->next) {
        const bool waits = waits_for_place(task);
        task->paused = waits ? places == 0 : is_held_back(task);
        if (waits && places) places--;
        engine->n_paused += task->paused;
        n_away += task->paused && !waits;
    }
    cdz_mutex_lock(&engine->lock);
    engine->n_away = n_away;
    cdz_mutex_unlock(&engine->lock);
}

/* Runs every fibre until it waits for a pass or ends, and delivers the tasks whose fibres all ended. */
static void run_fibres(cdz_engine *engine)
{
    for (cdz_task **at = &engine->running; *at;) {
        cdz_task *task = *at;
        run_loops(engine, task);
        if (!has_ended(task)) {
            at = &task->next;
            continue;
        }
        cdz_mutex_lock(&engine->lock);
        *at = task->next;
        engine->n_running--;
        cdz_mutex_unlock(&engine->lock);
        /* What a strategy computed since the last pass, it may have computed from a file that is gone. */
        if (task->error.code == CDZ_OK)
            task->failed |= cdz_weights_check(task->job->model->weights, &task->error) != CDZ_OK;
        end_task(engine, task);
    }
}

/* --- passes --------------------------------------------------------------------------------------------------------- */

static bool room_for_wants(cdz_engine *engine, uint32_t n)
{
    if (n <= engine->want_cap) return true;
    cdz_want **grown = realloc(engine->wants, 2 * n * sizeof *grown);
    if (!grown) return false;
    engine->wants = grown;
    engine->want_cap = 2 * n;
    return true;
}

/* Before a pass: lists what the want's sequences have of their prompts, and takes over what others have listed by now. */
static void find_listed(cdz_loop *loop)
{
    cdz_want *want = &loop->want;
    for (uint32_t i = want->at; i < want->n_seqs; i++) {
        cdz_seq_list(want->seqs[i].seq);
        if (want->rows_left > CDZ_KV_BLOCK)
            want->rows_left -=
                cdz_loop_recall(loop, want->seqs[i].seq, cdz_want_reads_all(want, &want->seqs[i]));
    }
}

/* Wants of one model from all tasks in their order, as many as there is room for: the others wait for the next tick. */
static uint32_t gather(cdz_engine *engine, const cdz_run_model *model)
{
    uint32_t n = 0;
    for (cdz_task *task = engine->referee.first; task; task = task->after)
        for (uint32_t i = 0; !task->paused && i < task->n_loops; i++) {
            cdz_loop *loop = task->loops[i];
            if (!loop->waiting || loop->want.rows_left == 0 || loop->want.model != model) continue;
            if (loop->lacks || loop->denied != CDZ_OK) continue;
            if (!room_for_wants(engine, n + 1)) return n;
            find_listed(loop);
            engine->wants[n++] = &loop->want;
        }
    return n;
}

/* Moves the wants that go as deep as the first one to the front, in order; returns their number. */
static uint32_t same_depth(cdz_want **wants, uint32_t n)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < n; i++) {
        cdz_want *want = wants[i];
        if (want->n_layers != wants[0]->n_layers) continue;
        memmove(wants + same + 1, wants + same, (i - same) * sizeof *wants);
        wants[same++] = want;
    }
    return same;
}

/* Has a file of the model been cut or rewritten, or its device had trouble? Then what waits for a pass, or has just had
 * one, fails. */
static bool still_whole(const cdz_engine *engine, cdz_run_model *model)
{
    cdz_error why;
    if (cdz_weights_check(model->weights, &why) == CDZ_OK &&
        cdz_layers_check(model->layers, &why) == CDZ_OK &&
        cdz_function_check(&model->function, &why) == CDZ_OK)
        return true;
    cdz_kv_pool_distrust(model->pool);
    for (cdz_task *task = engine->running; task; task = task->next)
        for (uint32_t i = 0; task->loops && i < task->n_loops; i++) {
            const cdz_loop *loop = task->loops[i];
            if (!loop->waiting || loop->want.model != model || task->error.code != CDZ_OK) continue;
            task->error = why;
            task->failed = true;
        }
    return false;
}

/* Before a pass: does it belong to a prompt? */
static void note_pass(cdz_engine *engine)
{
    bool prompt = false;
    for (const cdz_task *task = engine->running; task && !prompt; task = task->next)
        for (uint32_t i = 0; task->loops && i < task->n_loops && !prompt; i++)
            prompt = task->loops[i]->waiting && task->loops[i]->prefill_s == 0;
    cdz_profile_enter(engine->profile, prompt ? CDZ_PASS_PROMPT : CDZ_PASS_DECODE);
    engine->profile->times.pass[engine->profile->pass].passes++;
}

/* Which rows go first, and how many of prompts beside those that decode. */
static void set_turns(const cdz_engine *engine, cdz_run_model *model, bool measured)
{
    const cdz_referee *r = &engine->referee;
    const uint32_t bite =
        measured && !r->prompts_first ? cdz_bite_rows(&model->bite, CDZ_PASS_ROWS) : 0;
    cdz_layers_set_prompts_first(model->layers, r->prompts_first);
    cdz_layers_set_bite(model->layers, r->prompt_rows ? r->prompt_rows : bite);
}

/* One pass, on as many threads as its model's crew has. Returns its rows. */
static uint32_t run_crewed(cdz_engine *engine, cdz_run_model *model, cdz_want *const *wants,
                           uint32_t n)
{
    cdz_backend *device = model->device;
    if (model->function.forward) return cdz_function_pass(&model->function, wants, n);
    set_turns(engine, model, device->api->use_threads != NULL);
    if (!device->api->use_threads) return cdz_layers_pass(model->layers, wants, n);
    if (model->crew.most == 0) cdz_crew_begin(&model->crew, device->api->n_threads(device));
    device->api->use_threads(device, model->crew.now);
    if (engine->profile && model->crew.now < model->crew.most)
        engine->profile->times.pass[engine->profile->pass].fewer++;
    const double start = cdz_now_s(), ran = cdz_thread_s();
    const uint32_t rows = cdz_layers_pass(model->layers, wants, n);
    /* While weights come into panels each pass is faster than the last, on as many threads. */
    if (cdz_weights_panels_left(model->weights)) return rows;
    const double took = cdz_now_s() - start;
    const uint32_t decoding = cdz_layers_n_decoding(model->layers);
    cdz_bite_note(&model->bite, decoding, rows - decoding, took);
    cdz_crew_note(&model->crew, &(cdz_crew_pass){rows, took, cdz_thread_s() - ran});
    return rows;
}

/* By the powers of two. */
static void count_rows(cdz_engine_stats *stats, uint32_t rows)
{
    uint32_t i = 0;
    while (i + 1 < CDZ_ENGINE_PASSES && rows > 1u << i) i++;
    stats->passes++;
    stats->pass_rows += rows;
    stats->passes_to[i]++;
}

static void run_pass(cdz_engine *engine, cdz_run_model *model, cdz_want *const *wants, uint32_t n)
{
    if (engine->profile) note_pass(engine);
    const uint32_t rows = run_crewed(engine, model, wants, n);
    engine->moved = true;
    count_rows(&engine->now, rows);
    if (engine->profile) engine->profile->times.pass[engine->profile->pass].rows += rows;
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
}

/* The first pass reads the weights as they lie, so that nobody waits; then each brings some of them into panels, and after
 * those some of the head into its screen. */
static void bring_panels(cdz_engine *engine, cdz_run_model *model)
{
    if (model->has_run && cdz_weights_panels_left(model->weights)) {
        cdz_profile_mark(engine->profile, CDZ_WORK_MATMUL);
        cdz_weights_more_panels(model->weights, model->device);
    } else if (model->has_run) {
        cdz_profile_mark(engine->profile, CDZ_WORK_HEAD);
        cdz_screening_more(&model->screening, model->weights, model->device);
    }
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
    model->has_run = true;
}

static void run_passes(cdz_engine *engine)
{
    cdz_mutex_lock(&engine->lock);
    cdz_run_model *model = engine->models;
    cdz_mutex_unlock(&engine->lock);
    /* Models with a forward are in the list until this thread takes them out; new ones come at its front. */
    for (; model; model = model->next) {
        const uint32_t n = model->layers ? gather(engine, model) : 0;
        if (n == 0 || !still_whole(engine, model)) continue;
        bring_panels(engine, model);
        for (uint32_t at = 0, same; at < n; at += same) {
            same = same_depth(engine->wants + at, n - at);
            run_pass(engine, model, engine->wants + at, same);
        }
        still_whole(engine, model);
    }
}

void cdz_engine_tick(cdz_engine *engine)
{
    cdz_assert_serves(engine);
    engine->moved = false;
    admit(engine);
    cdz_engine_look_outside(engine);
    run_fibres(engine);
    note_paused(engine);
    cdz_engine_make_room(engine);
    cdz_referee_order(engine);
    run_passes(engine);
    cdz_referee_look_back(engine);
    publish(engine);
    cdz_engine_check(engine);
}
