/* outside.c - loops that wait for what is outside of the engine: files they poll, a time, what helper threads do for them; and
 * the engine's sleep while nothing but such loops and paused requests is left.
 *
 * Owns: the bell that ends that sleep, and the helpers; both are made for the first that needs them. An engine without any has
 * neither, and looks at two counters a tick.
 * Thread: [engine], but for wake and ring. */
#include <stdlib.h>

#include "base/clock.h"
#include "run/engine/engine_parts.h"

/* How long the engine sleeps where no file was left to be woken by. */
enum { WITHOUT_BELL_MS = 20 };

static void ring(void *engine)
{
    cdz_bell_ring(&((cdz_engine *)engine)->bell);
}

void cdz_engine_wake(cdz_engine *engine)
{
    cdz_assert_holds(&engine->lock);
    pthread_cond_broadcast(&engine->wake);
    ring(engine);
}

/* Whoever comes from now on rings; who came just before finds that the bell has rung once. */
static cdz_status open_bell(cdz_engine *engine, cdz_error *err)
{
    cdz_bell bell = {0};
    if (engine->bell.open) return CDZ_OK;
    CDZ_TRY(cdz_bell_open(&bell, err));
    cdz_mutex_lock(&engine->lock);
    engine->bell = bell;
    cdz_mutex_unlock(&engine->lock);
    ring(engine);
    return CDZ_OK;
}

cdz_status cdz_engine_go_outside(void *of, cdz_helpers **helpers, cdz_error *err)
{
    cdz_engine *engine = of;
    CDZ_TRY(open_bell(engine, err));
    if (!engine->helpers) CDZ_TRY(cdz_helpers_create(ring, engine, &engine->helpers, err));
    *helpers = engine->helpers;
    return CDZ_OK;
}

void cdz_engine_end_outside(cdz_engine *engine)
{
    cdz_helpers_free(engine->helpers);
    cdz_bell_close(&engine->bell);
    free(engine->polled);
}

/* --- looking -------------------------------------------------------------------------------------------------------- */

typedef void look(cdz_loop *loop, void *user);

static void each_outside(cdz_engine *engine, look *at, void *user)
{
    for (cdz_task *task = engine->running; task; task = task->next)
        for (uint32_t i = 0; task->loops && i < task->n_loops; i++)
            if (task->loops[i]->pause.on) at(task->loops[i], user);
}

/* The soonest of what ends a sleep by the clock; 0: nothing does. */
static void sooner(double *soonest, double at)
{
    if (at > 0 && (*soonest == 0 || at < *soonest)) *soonest = at;
}

/* What is polled, and until when. */
typedef struct watch {
    struct pollfd *files;
    nfds_t n;
    double until_s;
} watch;

static void add_file(cdz_loop *loop, void *user)
{
    watch *w = user;
    const cdz_loop_pause *p = &loop->pause;
    sooner(&w->until_s, p->until_s);
    if (p->events) w->files[w->n++] = (struct pollfd){.fd = p->fd, .events = p->events};
}

static void take_file(cdz_loop *loop, void *user)
{
    watch *w = user;
    if (loop->pause.events) loop->pause.came = w->files[w->n++].revents;
}

static void add_deadlines(cdz_engine *engine, watch *w)
{
    cdz_mutex_lock(&engine->lock);
    for (const cdz_task *task = engine->running; task; task = task->next)
        sooner(&w->until_s, task->job->deadline_s);
    for (const cdz_task *task = engine->queue; task; task = task->next)
        sooner(&w->until_s, task->job->deadline_s);
    cdz_mutex_unlock(&engine->lock);
}

static bool room_for(cdz_engine *engine, uint32_t n)
{
    if (n <= engine->polled_cap) return true;
    struct pollfd *grown = realloc(engine->polled, 2 * n * sizeof *grown);
    if (!grown) return false;
    engine->polled = grown;
    engine->polled_cap = 2 * n;
    return true;
}

/* sleeps: until there is something to do; otherwise it only looks. */
static void poll_files(cdz_engine *engine, bool sleeps)
{
    if (!room_for(engine, engine->n_outside + 1)) return; /* the next tick tries again */
    watch w = {.files = engine->polled, .n = 1};
    each_outside(engine, add_file, &w);
    if (!sleeps && w.n == 1) return;
    if (sleeps) add_deadlines(engine, &w);
    cdz_bell_sleep(&engine->bell, w.files, w.n, sleeps ? w.until_s : -1);
    w.n = 1;
    each_outside(engine, take_file, &w);
}

void cdz_engine_look_outside(cdz_engine *engine)
{
    if (engine->n_outside) poll_files(engine, false);
}

void cdz_engine_rest(cdz_engine *engine)
{
    if ((!engine->n_outside && !engine->n_paused) || engine->moved) return;
    cdz_profile_mark(engine->profile, CDZ_WORK_IDLE);
    if (open_bell(engine, NULL) == CDZ_OK)
        poll_files(engine, true);
    else
        poll(NULL, 0, WITHOUT_BELL_MS);
    cdz_profile_mark(engine->profile, CDZ_WORK_SCHEDULE);
}
