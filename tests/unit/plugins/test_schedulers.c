/* test_schedulers.c - the built-in schedulers' answers to queues that are made up: ages, accounts and all. The order that a
 * real engine has from them is test_scheduling.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/scratch.h"
#include "call/calls.h"
#include "call/host.h"
#include "params/params.h"

enum { MOST = 16 };

/* A scheduler that is open, as a runtime has it. */
typedef struct stage {
    const cdz_caller *caller; /* first */
    void *file;
    const cdz_scheduler *scheduler;
    void *params, *shared;
    cdz_arena arena;
    cdz_scratch_mem scratch;
    uint32_t list[MOST];
    uint64_t passes;
} stage;

static void *take(const cdz_step *step, size_t bytes)
{
    stage *s = step->scope;
    return cdz_arena_alloc_aligned(&s->arena, bytes, 64);
}

static void *take_scratch(const cdz_step *step, size_t bytes)
{
    stage *s = step->scope;
    return cdz_scratch_take(&s->scratch, bytes);
}

static const cdz_caller caller = {.alloc = take, .scratch = take_scratch};

static cdz_step step_of(stage *s)
{
    return (cdz_step){.size = sizeof(cdz_step),
                      .params = s->params,
                      .shared = s->shared,
                      .plugin = &s->scheduler->base,
                      .host = &cdz_bare_host,
                      .scope = s};
}

/* param NULL: the defaults. */
static void open_stage(stage *s, const char *id, const char *param, double value)
{
    char path[512];
    snprintf(path, sizeof path, "%s/lib/cadenza/%s.so", CADENZA_BUILD_DIR, id);
    *s = (stage){.caller = &caller, .file = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    assert_non_null(s->file);
    const cdz_entry *entry = dlsym(s->file, "cdz_plugin");
    assert_non_null(entry);
    s->scheduler = (const cdz_scheduler *)(const void *)entry->plugins[0];
    const cdz_param_table table = cdz_params_of(&s->scheduler->base);
    s->params = cdz_arena_alloc(&s->arena, table.params_size);
    cdz_params_defaults(&table, s->params);
    if (param) {
        const cdz_json number = {.type = CDZ_JSON_REAL, .real = value};
        assert_int_equal(
            cdz_param_set(cdz_param_find(&table, param), s->params, &number, &s->arena, NULL),
            CDZ_OK);
    }
    const cdz_step step = step_of(s);
    cdz_call call = {0};
    assert_int_equal(cdz_call_begin(&call, &step, &s->shared), CDZ_OK);
}

static void close_stage(stage *s)
{
    const cdz_step step = step_of(s);
    cdz_call call = {0};
    cdz_call_end(&call, &step);
    cdz_scratch_free(&s->scratch);
    cdz_arena_free(&s->arena);
    dlclose(s->file);
}

/* Their turns, as digits. */
static const char *admitted(stage *s, const cdz_contender *all, uint32_t n,
                            const cdz_contender *running, uint32_t n_running, uint32_t places)
{
    static char digits[MOST + 1];
    const cdz_contender *shown[2 * MOST];
    for (uint32_t i = 0; i < n; i++) shown[i] = &all[i];
    for (uint32_t i = 0; i < n_running; i++) shown[n + i] = &running[i];
    const cdz_contest contest = {.size = sizeof contest,
                                 .n_waiting = n,
                                 .n_running = n_running,
                                 .places = places,
                                 .waiting = shown,
                                 .running = shown + n,
                                 .passes = s->passes,
                                 .pass_rows = 512};
    cdz_lineup turns = {.size = sizeof turns, .cap = n, .list = s->list};
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    assert_int_equal(cdz_call_admit(&call, s->scheduler, &step, &contest, &turns), CDZ_OK);
    assert_true(turns.n <= n);
    for (uint32_t i = 0; i < turns.n; i++) digits[i] = (char)('0' + turns.list[i]);
    digits[turns.n] = '\0';
    return digits;
}

static void ordered(stage *s, const cdz_contender *running, uint32_t n, cdz_lineup *turns)
{
    const cdz_contender *shown[MOST];
    for (uint32_t i = 0; i < n; i++) shown[i] = &running[i];
    const cdz_contest contest = {.size = sizeof contest,
                                 .n_running = n,
                                 .running = shown,
                                 .passes = s->passes,
                                 .pass_rows = 512};
    *turns = (cdz_lineup){.size = sizeof *turns, .cap = n, .list = s->list};
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    assert_int_equal(cdz_call_order(&call, s->scheduler, &step, &contest, turns), CDZ_OK);
}

static void end_of(stage *s, const cdz_contender *request)
{
    cdz_call call = {.scratch = &s->scratch};
    const cdz_step step = step_of(s);
    cdz_call_ended(&call, s->scheduler, &step, request);
}

/* Sixty seconds are a step of priority; among equals the older one; ages beyond all priorities. */
static void priorities_rise_with_age(void **state)
{
    (void)state;
    static const cdz_contender waiting[] = {
        {.id = 1, .priority = 5, .age_s = 400}, /* -1.67 */
        {.id = 2, .priority = 1, .age_s = 130}, /* -1.17 */
        {.id = 3, .priority = 0, .age_s = 30},  /* -0.5 */
        {.id = 4, .priority = -1, .age_s = 0},  /* -1 */
        {.id = 5, .priority = -1, .age_s = 0},
    };
    stage s;
    open_stage(&s, "priority", NULL, 0);
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 2), "01342");
    cdz_lineup turns;
    ordered(&s, waiting, 5, &turns);
    assert_int_equal(turns.n, 5);
    assert_int_equal(turns.list[0], 0);
    assert_int_equal(turns.first, CDZ_DECODING_FIRST);
    close_stage(&s);
    open_stage(&s, "priority", "ageing", 0); /* age does not count */
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 2), "34210");
    close_stage(&s);
    open_stage(&s, "priority", "ageing", 1e9);
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 2), "34210");
    close_stage(&s);
}

/* Whoever was given least; a long prompt counts at once. */
static void shares_are_fair(void **state)
{
    (void)state;
    static const cdz_contender waiting[] = {
        {.id = 1, .tenant = 7, .prompt_tokens = 100}, {.id = 2, .tenant = 7, .prompt_tokens = 10},
        {.id = 3, .tenant = 8, .prompt_tokens = 30},  {.id = 4, .tenant = 8, .prompt_tokens = 30},
        {.id = 5, .tenant = 8, .prompt_tokens = 60},
    };
    stage s;
    open_stage(&s, "fair_share", NULL, 0);
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 5), "02341");
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 2), "02");
    static const cdz_contender running[] = {
        {.id = 1, .tenant = 7, .prompt_tokens = 100, .new_tokens = 1},
        {.id = 3, .tenant = 8, .prompt_tokens = 30, .new_tokens = 40}, /* 110 */
    };
    cdz_lineup turns;
    ordered(&s, running, 2, &turns);
    assert_int_equal(turns.list[0], 0);
    static const cdz_contender later[] = {
        {.id = 1, .tenant = 7, .prompt_tokens = 100, .new_tokens = 9}, /* 118 */
        {.id = 3, .tenant = 8, .prompt_tokens = 30, .new_tokens = 40},
    };
    ordered(&s, later, 2, &turns);
    assert_int_equal(turns.list[0], 1);
    close_stage(&s);
}

/* What was given is remembered while one stays; who comes later, or comes back, has saved up nothing. */
static void accounts_are_kept(void **state)
{
    (void)state;
    static const cdz_contender done[] = {
        {.id = 1, .tenant = 7, .prompt_tokens = 1000, .new_tokens = 100},
        {.id = 2, .tenant = 8, .prompt_tokens = 400, .new_tokens = 100}};
    static const cdz_contender waiting[] = {{.id = 3, .tenant = 7, .prompt_tokens = 10},
                                            {.id = 4, .tenant = 8, .prompt_tokens = 10},
                                            {.id = 5, .tenant = 8, .prompt_tokens = 10},
                                            {.id = 6, .tenant = 9, .prompt_tokens = 700},
                                            {.id = 7, .tenant = 9, .prompt_tokens = 10}};
    stage s;
    open_stage(&s, "fair_share", NULL, 0);
    assert_string_equal(admitted(&s, done, 2, NULL, 0, 2), "01");
    end_of(&s, &done[0]);
    end_of(&s, &done[1]);
    /* 7 has 1200, 8 has 600, and 9 begins at 600: then 610, and 9 would be at 1300 after its long one. */
    assert_string_equal(admitted(&s, waiting, 5, NULL, 0, 5), "13204");
    close_stage(&s);
}

/* Who waited for a place begins where the lowest account was when it came, not where it is by now. */
static void waiting_counts(void **state)
{
    (void)state;
    static const cdz_contender early[] = {{.id = 1, .tenant = 7, .prompt_tokens = 50}};
    static const cdz_contender done = {.id = 1, .tenant = 7, .prompt_tokens = 50, .new_tokens = 500};
    static const cdz_contender waiting[] = {
        {.id = 2, .tenant = 7, .prompt_tokens = 10, .age_passes = 499},
        {.id = 3, .tenant = 8, .prompt_tokens = 10, .age_passes = 490},
        {.id = 4, .tenant = 8, .prompt_tokens = 10, .age_passes = 480}};
    stage s;
    cdz_lineup turns;
    open_stage(&s, "fair_share", NULL, 0);
    assert_string_equal(admitted(&s, early, 1, NULL, 0, 1), "0");
    for (uint64_t pass = 0; pass < 500; pass++) {
        cdz_contender running = early[0];
        running.new_tokens = pass;
        s.passes = pass;
        ordered(&s, &running, 1, &turns);
    }
    s.passes = 500;
    end_of(&s, &done);
    assert_string_equal(admitted(&s, waiting, 3, NULL, 0, 3), "120");
    close_stage(&s);
}

static void bites_are_passed_on(void **state)
{
    (void)state;
    static const char *const ids[] = {"first_come", "prefill_first", "fair_share", "priority"};
    static const cdz_contender running[] = {{.id = 1}, {.id = 2}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        stage s;
        cdz_lineup turns;
        open_stage(&s, ids[i], NULL, 0);
        ordered(&s, running, 2, &turns);
        assert_int_equal(turns.prompt_rows, 0);
        assert_int_equal(turns.first, i == 1 ? CDZ_PROMPTS_FIRST : CDZ_DECODING_FIRST);
        *(int64_t *)(void *)((char *)s.params +
                             cdz_param_find(&(cdz_param_table){s.scheduler->base.params,
                                                               s.scheduler->base.n_params,
                                                               s.scheduler->base.param_size,
                                                               s.scheduler->base.params_size},
                                            "prompt_rows")
                                 ->offset) = 24;
        ordered(&s, running, 2, &turns);
        assert_int_equal(turns.prompt_rows, 24);
        close_stage(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priorities_rise_with_age), cmocka_unit_test(shares_are_fair),
        cmocka_unit_test(accounts_are_kept),        cmocka_unit_test(waiting_counts),
        cmocka_unit_test(bites_are_passed_on),
    };
    return cmocka_run_group_tests_name("schedulers", tests, NULL, NULL);
}
