/* on_turns.c - schedulers: a queue is played to them that never was, pass by pass, and each of their answers is looked at.
 *
 * A made-up engine has a few places, requests of all lengths come as fast as they go, and a second is a pass. What the
 * scheduler is shown lies in memory that it may read only, and its list ends where nobody may write. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "call/host.h"
#include "call/outside.h"
#include "check/checks.h"
#include "check/setups.h"

enum {
    MOST_WAITING = 48,
    PLACES = 8,
    MOST = MOST_WAITING + PLACES,
    BITE = 128,
    TENANTS = 5,
    SAID = 300
};

/* What a play is made of. */
typedef struct plot {
    uint64_t seed;
    uint32_t passes;
    uint32_t refuses_after; /* calls of alloc and scratch that get memory; UINT32_MAX: all */
} plot;

typedef struct actor {
    cdz_contender shown;
    uint32_t answer; /* tokens that it will be given */
    uint32_t overtaken;
} actor;

typedef struct play {
    const cdz_caller *caller; /* first */
    cdz_child *child;
    const cdz_scheduler *scheduler;
    const void *params;
    void *shared;
    plot plot;
    cdz_arena arena;
    cdz_scratch_mem scratch;
    cdz_error said;
    uint32_t n_taken;
    bool begun, may_alloc, refused;

    actor waiting[MOST_WAITING], running[PLACES];
    uint32_t n_waiting, n_running;
    uint64_t pass, next_id, random;
    uint64_t hash; /* of all answers */
    uint32_t most_overtaken;

    cdz_contender *stage; /* (MOST) read-only while it is called */
    const cdz_contender **cast;
    uint32_t *list; /* (MOST) */
} play;

/* --- its host ------------------------------------------------------------------------------------------------------ */

static cdz_status keep_sentence(const cdz_step *step, cdz_status code, const char *text)
{
    play *p = step->scope;
    return cdz_err(&p->said, code, "%s", text);
}

static bool grants(play *p)
{
    const bool grants = p->n_taken++ < p->plot.refuses_after;
    p->refused |= !grants;
    return grants;
}

static void *take(const cdz_step *step, size_t bytes)
{
    play *p = step->scope;
    return p->may_alloc && grants(p) ? cdz_arena_alloc_aligned(&p->arena, bytes, 64) : NULL;
}

static void *take_scratch(const cdz_step *step, size_t bytes)
{
    play *p = step->scope;
    return grants(p) ? cdz_scratch_take(&p->scratch, bytes) : NULL;
}

static cdz_status file(const cdz_step *step, const char *name, cdz_string *out)
{
    const play *p = step->scope;
    return cdz_call_find_file(step, cdz_module_data(p->child->ref.module), name, out);
}

static const cdz_caller caller = {
    .fail = keep_sentence, .alloc = take, .scratch = take_scratch, .file = file};

static cdz_step step_of(play *p)
{
    p->said.code = CDZ_OK;
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = p->params,
                      .shared = p->shared,
                      .plugin = &p->scheduler->base,
                      .host = &cdz_bare_host,
                      .scope = p};
}

/* A call that failed where memory was refused is as it should be, with a sentence. */
static cdz_check_state judge(play *p, const cdz_call *call, cdz_status returned)
{
    cdz_error fault;
    if (cdz_call_fault(call, returned, &p->said, &fault) != CDZ_OK)
        return cdz_fail_check(p->child, "pass %" PRIu64 ": %s", p->pass, fault.text);
    if (returned == CDZ_OK || p->refused) return CDZ_CHECK_OK;
    return cdz_fail_check(p->child, "pass %" PRIu64 ": %s: %s", p->pass, call->function,
                          p->said.text);
}

/* --- one answer ---------------------------------------------------------------------------------------------------- */

static void mix(play *p, uint64_t x)
{
    p->hash = (p->hash ^ x) * 1099511628211u;
}

static cdz_check_state look_at(play *p, const char *function, const cdz_lineup *turns, uint32_t n)
{
    bool listed[MOST] = {false};
    if (turns->n > n)
        return cdz_fail_check(p->child, "pass %" PRIu64 ": %s listed %u of %u requests", p->pass,
                              function, turns->n, n);
    for (uint32_t i = 0; i < turns->n; i++) {
        const uint32_t at = turns->list[i];
        if (at >= n || listed[at])
            return cdz_fail_check(p->child, "pass %" PRIu64 ": %s listed number %u of %u requests%s",
                                  p->pass, function, at, n, at < n ? " twice" : " (from 0)");
        listed[at] = true;
        mix(p, at + 1);
    }
    if (turns->first > CDZ_PROMPTS_FIRST)
        return cdz_fail_check(p->child, "pass %" PRIu64 ": %s answered first = %u, expected 0 or 1",
                              p->pass, function, turns->first);
    mix(p, turns->first);
    mix(p, turns->prompt_rows);
    return CDZ_CHECK_OK;
}

static void put_on_stage(play *p, uint32_t from, const actor *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        p->stage[from + i] = all[i].shown;
        p->cast[from + i] = &p->stage[from + i];
    }
}

typedef cdz_status ask_fn(cdz_call *c, const cdz_scheduler *s, const cdz_step *step,
                          const cdz_contest *contest, cdz_lineup *turns);

/* The list ends with the memory that there is. */
static cdz_check_state ask(play *p, ask_fn *function, bool admits, cdz_lineup *turns)
{
    const uint32_t n = admits ? p->n_waiting : p->n_running;
    put_on_stage(p, 0, p->waiting, p->n_waiting);
    put_on_stage(p, p->n_waiting, p->running, p->n_running);
    const cdz_contest contest = {.size = sizeof contest,
                                 .n_waiting = p->n_waiting,
                                 .n_running = p->n_running,
                                 .places = admits ? PLACES - p->n_running : 0,
                                 .waiting = admits ? p->cast : NULL,
                                 .running = p->cast + p->n_waiting,
                                 .passes = p->pass,
                                 .pass_rows = 512};
    *turns = (cdz_lineup){.size = sizeof *turns, .cap = n, .list = p->list + MOST - n};
    cdz_call call = {.scratch = &p->scratch};
    const cdz_step step = step_of(p);
    cdz_check_note(p->child, "pass %" PRIu64 ": %s of %u requests that wait and %u that run",
                   p->pass, admits ? "admit" : "order", p->n_waiting, p->n_running);
    cdz_guarded_readable(p->stage, MOST * sizeof *p->stage, true);
    const cdz_status returned = function(&call, p->scheduler, &step, &contest, turns);
    cdz_guarded_unlock(p->stage, MOST * sizeof *p->stage);
    CDZ_CHECK_TRY(judge(p, &call, returned));
    if (returned != CDZ_OK) turns->n = 0;
    return call.function ? look_at(p, call.function, turns, n) : CDZ_CHECK_OK;
}

/* --- the play ------------------------------------------------------------------------------------------------------ */

static void arrive(play *p)
{
    while (p->n_waiting < MOST_WAITING && cdz_random_below(&p->random, 4) != 0) {
        const uint32_t prompt = 1 + cdz_random_below(&p->random, 1000);
        p->waiting[p->n_waiting++] =
            (actor){.shown = {.size = sizeof(cdz_contender),
                              .id = p->next_id++,
                              .tenant = cdz_random_below(&p->random, TENANTS),
                              .priority = (int64_t)cdz_random_below(&p->random, 9) - 4,
                              .prompt_tokens = prompt,
                              .prompt_left = prompt,
                              .kv_blocks = prompt / 16 + 1,
                              .n_rows = 1},
                    .answer = 1 + cdz_random_below(&p->random, 30)};
    }
}

/* Those that wait begin, in the order of the list; who came before one that begins was overtaken. */
static void begin_some(play *p, const cdz_lineup *turns)
{
    bool gone[MOST_WAITING] = {false};
    uint32_t n = 0;
    for (uint32_t i = 0; i < turns->n && p->n_running < PLACES; i++) {
        const uint32_t at = turns->list[i];
        for (uint32_t k = 0; k < at; k++)
            if (!gone[k] && ++p->waiting[k].overtaken > p->most_overtaken)
                p->most_overtaken = p->waiting[k].overtaken;
        gone[at] = true;
        p->running[p->n_running] = p->waiting[at];
        p->running[p->n_running++].shown.state = CDZ_CONTENDER_READS;
    }
    for (uint32_t i = 0; i < p->n_waiting; i++)
        if (!gone[i]) p->waiting[n++] = p->waiting[i];
    p->n_waiting = n;
}

static cdz_check_state tell_end(play *p, const cdz_contender *ended)
{
    cdz_call call = {.scratch = &p->scratch};
    const cdz_step step = step_of(p);
    cdz_call_ended(&call, p->scheduler, &step, ended);
    return judge(p, &call, CDZ_OK);
}

static void grow_older(play *p)
{
    for (uint32_t i = 0; i < p->n_waiting; i++) {
        p->waiting[i].shown.age_s += 1;
        p->waiting[i].shown.age_passes++;
    }
}

/* Everybody that runs has rows in the pass. */
static cdz_check_state run_pass(play *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_running; i++) {
        actor *a = &p->running[i];
        cdz_contender *c = &a->shown;
        c->age_s += 1;
        c->age_passes++;
        c->prompt_left -= c->prompt_left < BITE ? c->prompt_left : BITE;
        if (c->prompt_left == 0) c->state = CDZ_CONTENDER_DECODES;
        if (c->prompt_left == 0) c->new_tokens++;
        if (c->new_tokens < a->answer)
            p->running[n++] = *a;
        else
            CDZ_CHECK_TRY(tell_end(p, c));
    }
    p->n_running = n;
    p->pass++;
    grow_older(p);
    return CDZ_CHECK_OK;
}

/* One pass and what is before it. */
static cdz_check_state play_on(play *p)
{
    cdz_lineup turns = {0};
    arrive(p);
    if (p->n_waiting && p->n_running < PLACES) {
        CDZ_CHECK_TRY(ask(p, cdz_call_admit, true, &turns));
        begin_some(p, &turns);
    }
    if (p->n_waiting && !p->n_running && !p->refused)
        return cdz_fail_check(p->child,
                              "pass %" PRIu64
                              ": nothing runs, %u requests wait, and admit lets none "
                              "begin",
                              p->pass, p->n_waiting);
    if (p->n_running) CDZ_CHECK_TRY(ask(p, cdz_call_order, false, &turns));
    return run_pass(p);
}

static cdz_check_state curtain_up(cdz_child *c, const plot *way, play *p)
{
    *p = (play){.caller = &caller,
                .child = c,
                .scheduler = (const cdz_scheduler *)(const void *)c->ref.base,
                .plot = *way,
                .next_id = 1,
                .random = way->seed,
                .hash = 1469598103934665603u,
                .may_alloc = true,
                .stage = cdz_guarded(MOST * sizeof *p->stage, sizeof *p->stage, true,
                                     "the requests that it is shown"),
                .list = cdz_guarded(MOST * sizeof *p->list, sizeof *p->list, true, "the list"),
                .cast = calloc(MOST, sizeof(cdz_contender *))};
    cdz_error err = {0};
    const cdz_setup *setup = cdz_setup_defaults(c, &err);
    if (!p->stage || !p->list || !p->cast) return cdz_fail_check(c, "out of memory");
    if (!setup) return cdz_fail_check(c, "%s", err.text);
    if (!cdz_guarded_lock(p->stage, MOST * sizeof *p->stage, sizeof *p->stage,
                          "the requests that it is shown, which are the host's"))
        return cdz_fail_check(c, "out of memory");
    cdz_guarded_unlock(p->stage, MOST * sizeof *p->stage);
    p->params = setup->params;
    if (cdz_call_create_plugin(c->ref.base, setup->params, cdz_module_data(c->ref.module),
                               &c->memory, &err) != CDZ_OK)
        return cdz_fail_check(c, "create with %s: %s", setup->text, err.text);
    cdz_check_note(c, "begin");
    const cdz_step step = step_of(p);
    cdz_call call = {.scratch = &p->scratch};
    const cdz_status begun = cdz_call_begin(&call, &step, &p->shared);
    CDZ_CHECK_TRY(judge(p, &call, begun));
    p->begun = begun == CDZ_OK;
    p->may_alloc = false;
    return CDZ_CHECK_OK;
}

static cdz_check_state curtain_down(play *p)
{
    cdz_call call = {.scratch = &p->scratch};
    const cdz_step step = step_of(p);
    cdz_check_note(p->child, "end");
    if (p->begun) cdz_call_end(&call, &step);
    cdz_scratch_free(&p->scratch);
    cdz_arena_free(&p->arena);
    free(p->cast);
    return judge(p, &call, CDZ_OK);
}

static cdz_check_state play_all(cdz_child *c, const plot *way, play *p)
{
    CDZ_CHECK_TRY(curtain_up(c, way, p));
    for (uint32_t i = 0; p->begun && i < way->passes; i++) CDZ_CHECK_TRY(play_on(p));
    return curtain_down(p);
}

/* --- the checks ---------------------------------------------------------------------------------------------------- */

static plot plot_of(uint64_t seed, uint32_t passes)
{
    return (plot){.seed = seed, .passes = passes, .refuses_after = UINT32_MAX};
}

cdz_check_state cdz_check_turns(cdz_child *c)
{
    static play p;
    for (uint32_t round = 0; round < 8; round++) {
        const plot way = plot_of(cdz_random(&c->random), 200);
        CDZ_CHECK_TRY(play_all(c, &way, &p));
    }
    return cdz_pass_check(c, "8 queues, 200 passes each");
}

cdz_check_state cdz_check_nobody_starves(cdz_child *c)
{
    static play p;
    const plot way = plot_of(cdz_random(&c->random), 6000);
    CDZ_CHECK_TRY(play_all(c, &way, &p));
    if (p.most_overtaken >= CDZ_MOST_OVERTAKEN)
        return cdz_fail_check(c,
                              "with the default parameters a request was overtaken by %u that came "
                              "later; the host lets it begin after %u",
                              p.most_overtaken, CDZ_MOST_OVERTAKEN);
    return cdz_pass_check(c, "overtaken by %u at most", p.most_overtaken);
}

/* The same queue again, and then beside another. */
cdz_check_state cdz_check_same_turns(cdz_child *c)
{
    static play p, other;
    const plot way = plot_of(cdz_random(&c->random), 300),
               beside = plot_of(cdz_random(&c->random), 300);
    CDZ_CHECK_TRY(play_all(c, &way, &p));
    const uint64_t first = p.hash;
    CDZ_CHECK_TRY(play_all(c, &way, &p));
    if (p.hash != first)
        return cdz_fail_check(c, "the same queue again has other turns: something outside of step->"
                                 "shared, or chance, decides");
    CDZ_CHECK_TRY(curtain_up(c, &way, &p));
    CDZ_CHECK_TRY(curtain_up(c, &beside, &other));
    for (uint32_t i = 0; i < way.passes; i++) {
        CDZ_CHECK_TRY(play_on(&p));
        CDZ_CHECK_TRY(play_on(&other));
    }
    CDZ_CHECK_TRY(curtain_down(&p));
    CDZ_CHECK_TRY(curtain_down(&other));
    if (p.hash != first)
        return cdz_fail_check(c,
                              "the queue has other turns while another runtime has this scheduler");
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_turns_leave(cdz_child *c)
{
    static play p;
    char what[SAID];
    const plot way = plot_of(cdz_random(&c->random), 100);
    cdz_surroundings_forgive_files(c->before);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "opening the file changed %s and left it so", what);
    CDZ_CHECK_TRY(play_all(c, &way, &p));
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "100 passes changed %s and left it so", what);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_turns_no_memory(cdz_child *c)
{
    static play p;
    for (uint32_t n = 0; n < 24; n++) {
        plot way = plot_of(7, 8);
        way.refuses_after = n;
        CDZ_CHECK_TRY(play_all(c, &way, &p));
        if (!p.refused) return cdz_pass_check(c, "%u times", n);
    }
    return cdz_pass_check(c, "24 times");
}
