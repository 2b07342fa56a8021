/* test_lua_company.c - fifty requests, one of which attacks: it ends with its sentence, the others as if it had not been
 * there. Every attack of lua/attacks.h in turn, then attacks by strategies. */
#include "lua/attacks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"

#define MODEL CADENZA_SOURCE_DIR "/models/pocket-dictionary"

enum { N = 50, NEW_TOKENS = 3, KINDS = 4 };

typedef struct company {
    cdz_runtime *runtime;
    cdz_model *model;
    char folder[64];
    cdz_pipeline *kinds[KINDS]; /* of those who do nothing wrong */
    int32_t alone[N][NEW_TOKENS];
} company;

static void write_file(const company *c, const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fputs(text, out) >= 0, 1);
    fclose(out);
}

static void remove_file(const company *c, const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    unlink(path);
}

static cdz_pipeline *pipeline_of(const company *c, const char *text)
{
    char name[128];
    cdz_pipeline *pipeline = NULL;
    cdz_error err = {0};

    snprintf(name, sizeof name, "%s/test.ini", c->folder);
    if (cdz_pipeline_parse(c->runtime, text, strlen(text), name, &pipeline, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return pipeline;
}

/* Request i, by the innocent pipeline of its kind or by the one given. */
static uint64_t submit(const company *c, int i, cdz_pipeline *pipeline)
{
    const int32_t ids[] = {84, 300 + i, 12, 7 + i % 5};
    cdz_request request = {.size = sizeof request,
                           .model = c->model,
                           .pipeline = pipeline ? pipeline : c->kinds[i % KINDS],
                           .ids = ids,
                           .n_ids = 4};
    uint64_t id = 0;
    cdz_error err = {0};

    if (cdz_submit(c->runtime, &request, &id, &err) != CDZ_OK) fail_msg("%s", err.text);
    return id;
}

/* The new ids of a request that must end well. */
static void wait_well(const company *c, uint64_t id, const char *during, int32_t out[NEW_TOKENS])
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    uint32_t n = 0;

    if (cdz_wait(c->runtime, id, &result, &err) != CDZ_OK) fail_msg("%s: %s", during, err.text);
    const int32_t *ids = cdz_result_ids(result, 0, &n);
    memset(out, 0, NEW_TOKENS * sizeof *out);
    assert_true(n > 0 && n <= NEW_TOKENS);
    memcpy(out, ids, n * sizeof *out);
    cdz_result_free(result);
}

#define SETTINGS "[generation]\nmax_new_tokens = 3\nseed = 5\n"

static int open_company(void **state)
{
    static const char *const ini[KINDS] = {
        SETTINGS,
        SETTINGS "do_sample = false\n",
        "[pipeline]\nprocessors = lua:good.lua\n" SETTINGS,
        "[pipeline]\nstrategy = lua:loop.lua\n" SETTINGS,
    };
    company *c = calloc(1, sizeof *c);
    cdz_error err = {0};

    if (!c) return -1;
    *state = c;
    snprintf(c->folder, sizeof c->folder, "/tmp/cadenza_company_XXXXXX");
    if (!mkdtemp(c->folder)) return -1;
    if (cdz_open(NULL, &c->runtime, &err) != CDZ_OK ||
        cdz_model_open(c->runtime, MODEL, NULL, &c->model, &err) != CDZ_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    write_file(c, "good.lua",
               "return cadenza.processor { begin = function() return { n = 0 } end,\n"
               "accept = function(p, s) s.n = s.n + 1 end, apply = function(p, ids, row, ctx)\n"
               "row:sub(ids:totable(), ctx.state.n) end }");
    write_file(
        c, "loop.lua",
        "return cadenza.strategy { run = function(ctx)\n"
        "while not ctx:done() do ctx:append(ctx:argmax(ctx:process(ctx:forward()))) end end }");
    for (int i = 0; i < KINDS; i++) c->kinds[i] = pipeline_of(c, ini[i]);
    for (int i = 0; i < N; i++) wait_well(c, submit(c, i, NULL), "alone", c->alone[i]);
    return 0;
}

static int close_company(void **state)
{
    static const char *const names[] = {"good.lua", "loop.lua", "attack.lua"};
    company *c = *state;

    for (int i = 0; i < KINDS; i++) cdz_pipeline_free(c->kinds[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) remove_file(c, names[i]);
    rmdir(c->folder);
    cdz_model_close(c->model);
    cdz_close(c->runtime);
    free(c);
    return 0;
}

/* Of n requests the `place`-th attacks. out: what it said. */
static cdz_status among_others(company *c, const char *name, cdz_pipeline *hostile, int n,
                               int place, cdz_error *out)
{
    uint64_t ids[N];
    int32_t got[NEW_TOKENS];
    cdz_result *result = NULL;

    for (int i = 0; i < n; i++) ids[i] = submit(c, i, i == place ? hostile : NULL);
    const cdz_status st = cdz_wait(c->runtime, ids[place], &result, out);
    cdz_result_free(result);
    for (int i = 0; i < n; i++) {
        if (i == place) continue;
        wait_well(c, ids[i], name, got);
        if (memcmp(got, c->alone[i], sizeof got) != 0)
            fail_msg("%s: request %d chose %d, %d, %d, alone %d, %d, %d", name, i, (int)got[0],
                     (int)got[1], (int)got[2], (int)c->alone[i][0], (int)c->alone[i][1],
                     (int)c->alone[i][2]);
    }
    return st;
}

static void processors_that_attack(void **state)
{
    company *c = *state;

    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        char source[2048];
        cdz_error err = {0};
        snprintf(source, sizeof source,
                 "return cadenza.processor { apply = function(p, ids, row, ctx) %s end }",
                 attacks[i].body);
        write_file(c, "attack.lua", source);
        cdz_pipeline *hostile =
            pipeline_of(c, "[pipeline]\nprocessors = lua:attack.lua\n" SETTINGS
                           "[lua:attack.lua]\nbudget_instructions = 200000\nbudget_ms = 10000\n");
        /* What spends a budget meets the whole company, what is refused at once a part of it. */
        const int n = attacks[i].sentence && strstr(attacks[i].sentence, "budget") ? N : 8;
        const cdz_status st = among_others(c, attacks[i].name, hostile, n, (int)i % n, &err);
        cdz_pipeline_free(hostile);
        /* What some say, and whether others hurt, is a matter of the vocabulary's size. */
        if (attacks[i].sentence && (st != CDZ_E_PLUGIN || !strstr(err.text, "attack.lua")))
            fail_msg("%s: status %d, %s", attacks[i].name, (int)st, err.text);
    }
}

static const struct {
    const char *name, *body, *sentence;
} strategies[] = {
    {"a loop between two passes",
     "while not ctx:done() do ctx:append(ctx:argmax(ctx:forward())) if #ctx:input_ids() > 5 then\n"
     "while true do end end end",
     "instruction budget spent: 20000 per call"},
    {"a loop that pcall hides", "while true do pcall(function() while true do end end) end",
     "instruction budget spent: 20000 per call"},
    {"coroutines beyond number", "while true do coroutine.wrap(function() ctx:forward() end)() end",
     "instruction budget spent: 2000000 per request"},
    {"passes without end", "while true do ctx:forward() end", "budget spent"},
    {"sequences kept", "local t = {} while true do t[#t + 1] = ctx:seq_new() t[#t]:append(1) end",
     ""},
    {"a string that doubles", "local s = ('x'):rep(1000) while true do s = s .. s end",
     "budget spent"},
    {"an error in a coroutine", "coroutine.wrap(function() ctx:forward() error('so') end)()", "so"},
};

static void strategies_that_attack(void **state)
{
    company *c = *state;

    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char source[1024];
        cdz_error err = {0};
        snprintf(source, sizeof source, "return cadenza.strategy { run = function(ctx)\n%s\nend }",
                 strategies[i].body);
        write_file(c, "attack.lua", source);
        cdz_pipeline *hostile =
            pipeline_of(c, "[pipeline]\nstrategy = lua:attack.lua\n" SETTINGS
                           "[lua:attack.lua]\nbudget_instructions = 20000\nbudget_ms = 10000\n");
        const cdz_status st =
            among_others(c, strategies[i].name, hostile, N, (int)(7 * i % N), &err);
        cdz_pipeline_free(hostile);
        if (st == CDZ_OK || !strstr(err.text, strategies[i].sentence))
            fail_msg("%s: status %d, %s", strategies[i].name, (int)st, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors_that_attack),
        cmocka_unit_test(strategies_that_attack),
    };

    return cmocka_run_group_tests(tests, open_company, close_company);
}
