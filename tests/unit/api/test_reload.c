/* test_reload.c - pipelines read again while their requests run, driven by the tokens themselves: a version is exchanged
 * inside the callback of a token, so that the next step is the first one of the new version. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/float_mode.h"
#include "base/sanitized.h"
#include "cadenza/cadenza.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char versions[] = CADENZA_BUILD_DIR "/tests/reload";

enum { PATH_BYTES = 256 };

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    char folder[64];
    /* What a line that a script logs brings about, on the engine thread. */
    void (*on_log)(void *user);
    void *log_user;
} fixture;

static void heard(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    const fixture *f = user;
    (void)level, (void)plugin, (void)text;
    if (f->on_log) f->on_log(f->log_user);
}

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const cdz_options options = {
        .size = sizeof options, .n_threads = 2, .log = heard, .log_user = f};
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, target);
    snprintf(f->folder, sizeof f->folder, "/tmp/cadenza-reload-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    *state = f;
    return 0;
}

static void empty_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[PATH_BYTES + 300];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    closedir(dir);
}

static int close_all(void **state)
{
    fixture *f = *state;
    cdz_model_close(f->model);
    cdz_close(f->rt);
    empty_folder(f->folder);
    rmdir(f->folder);
    free(f);
    return 0;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static const char *path_of(const fixture *f, const char *name)
{
    static _Thread_local char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    return path;
}

/* As editors do: a new file, renamed over the old one. */
static void put_bytes(const fixture *f, const char *name, const char *bytes, size_t len)
{
    char fresh[PATH_BYTES];
    snprintf(fresh, sizeof fresh, "%s/.fresh", f->folder);
    FILE *file = fopen(fresh, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path_of(f, name)), 0);
}

static void put_text(const fixture *f, const char *name, const char *text)
{
    put_bytes(f, name, text, strlen(text));
}

static void put_version(const fixture *f, const char *name, const char *version)
{
    char path[PATH_BYTES], *bytes;
    size_t len;
    cdz_error err;
    snprintf(path, sizeof path, "%s/%s.so", versions, version);
    must(cdz_file_read(path, 1u << 24, &bytes, &len, &err), &err);
    put_bytes(f, name, bytes, len);
    free(bytes);
}

/* The same processor as marker.c. */
static void put_script(const fixture *f, const char *name, int base, int step, const char *more)
{
    char text[1024];
    snprintf(text, sizeof text,
             "return cadenza.processor { id = 'test.script', %s\n"
             "begin = function(ctx) return { sum = 0, seen = {} } end,\n"
             "accept = function(p, state, token)\n"
             "  state.sum = state.sum + %d; state.seen[#state.seen + 1] = token end,\n"
             "apply = function(p, ids, row, ctx)\n"
             "  row:fill(-math.huge); row[%d + ctx.state.sum] = 0 end }\n",
             more, step, base);
    put_text(f, name, text);
}

static cdz_pipeline *load(const fixture *f, const char *ini)
{
    cdz_pipeline *pipeline;
    cdz_error err = {0};
    put_text(f, "test.ini", ini);
    must(cdz_pipeline_load(f->rt, path_of(f, "test.ini"), &pipeline, &err), &err);
    return pipeline;
}

/* --- requests that change their own pipeline ------------------------------------------------------------------------ */

typedef struct driver {
    const fixture *f;
    cdz_pipeline *pipeline;
    uint32_t n, when; /* tokens so far; and after how many the exchange comes */
    void (*exchange)(const fixture *f);
    cdz_status status; /* of the reload */
    cdz_error err;
    const char *json; /* a request document in place of the ids */
    bool flushed;     /* the thread was in another floating-point mode at a token */
} driver;

static void on_event(void *user, const cdz_event *event)
{
    driver *d = user;
    if (event->kind != CDZ_EVENT_TOKENS) return;
    d->flushed |= (cdz_float_mode() & CDZ_FLOAT_FLUSH) != 0;
    d->n += event->n_ids;
    if (d->n != d->when || !d->exchange) return;
    d->exchange(d->f);
    d->status = cdz_pipeline_reload(d->pipeline, d->f->model, &d->err);
    d->exchange = NULL;
}

static cdz_result *run(driver *d)
{
    static const int32_t prompt[] = {5, 6, 7};
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_request request = {.size = sizeof request,
                           .model = d->f->model,
                           .pipeline = d->pipeline,
                           .ids = d->json ? NULL : prompt,
                           .n_ids = d->json ? 0 : 3,
                           .json = d->json,
                           .on_event = on_event,
                           .user = d};
    must(cdz_generate(d->f->rt, &request, &result, &err), &err);
    return result;
}

static void expect(const char *what, cdz_result *result, const int32_t *want, uint32_t n)
{
    uint32_t len;
    const int32_t *ids = cdz_result_ids(result, 0, &len);
    if (len != n) fail_msg("%s: %u tokens, expected %u", what, len, n);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] != want[i])
            fail_msg("%s: token %u is %d, expected %d", what, i, ids[i], want[i]);
    cdz_result_free(result);
}

static const char greedy_lines[] = "[generation]\ndo_sample = no\nmax_new_tokens = 8\n"
                                   "eos_token_id = none\n";

static void native_b(const fixture *f)
{
    put_version(f, "marker.so", "marker_b");
}
static void native_c(const fixture *f)
{
    put_version(f, "marker.so", "marker_c");
}
static void native_failing(const fixture *f)
{
    put_version(f, "marker.so", "marker_failing");
}
static void native_cut(const fixture *f)
{
    put_text(f, "marker.so", "\177ELF");
}
static void script_b(const fixture *f)
{
    put_script(f, "script.lua", 200, 10, "state_version = 1,");
}
static void script_c(const fixture *f)
{
    put_script(f, "script.lua", 300, 10, "state_version = 2,");
}
static void script_syntax(const fixture *f)
{
    put_text(f, "script.lua", "return cadenza.processor {");
}
static void script_error(const fixture *f)
{
    put_text(f, "script.lua", "return cadenza.processor { apply = function() error('no') end }");
}
static void script_endless(const fixture *f)
{
    put_text(f, "script.lua",
             "return cadenza.processor { apply = function() while true do end end }");
}
static void script_nan(const fixture *f)
{
    put_text(f, "script.lua",
             "return cadenza.processor { apply = function(p, ids, row) row[3] = 0/0 end }");
}
static void script_gone(const fixture *f)
{
    unlink(path_of(f, "script.lua"));
}

typedef struct exchange_case {
    const char *name;
    void (*exchange)(const fixture *f);
    const char *refusal; /* part of the sentence; NULL: the reload succeeds */
    int32_t want[8];
    uint32_t n;
} exchange_case;

/* Either a native processor or a script, with version a at first. */
static void try_exchange(const fixture *f, const exchange_case *c, bool native)
{
    char ini[256];
    put_version(f, "marker.so", "marker_a");
    put_script(f, "script.lua", 100, 1, "state_version = 1,");
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = %s\n%s%s", native ? "m" : "lua:script.lua",
             native ? "stopping = s\n[m]\nid = ./marker.so\n[s]\nid = ./marker.so\n" : "",
             greedy_lines);
    driver d = {.f = f, .pipeline = load(f, ini), .when = 3, .exchange = c->exchange};
    cdz_result *result = run(&d);
    if (c->refusal && (d.status == CDZ_OK || !strstr(d.err.text, c->refusal)))
        fail_msg("%s: %d: %s", c->name, (int)d.status, d.err.text);
    if (!c->refusal && d.status != CDZ_OK) fail_msg("%s: %s", c->name, d.err.text);
    assert_int_equal(cdz_pipeline_generation(d.pipeline), c->refusal ? 1 : 2);
    expect(c->name, result, c->want, c->n);
    cdz_pipeline_free(d.pipeline);
}

static void test_native(void **state)
{
    static const exchange_case cases[] = {
        {"states go on", native_b, NULL, {100, 101, 102, 203, 213, 223, 233, 243}, 8},
        {"states are rebuilt, and a rule is new", native_c, NULL, {100, 101, 102, 330, 340, 350}, 6},
        {"a version that fails",
         native_failing,
         "this version always fails",
         {100, 101, 102, 103, 104, 105, 106, 107},
         8},
        {"half a file", native_cut, "marker.so", {100, 101, 102, 103, 104, 105, 106, 107}, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) try_exchange(*state, &cases[i], true);
}

static void native_own_hands(const fixture *f)
{
    put_version(f, "marker.so", "marker_own_hands");
}
static void native_own_frees(const fixture *f)
{
    put_version(f, "marker.so", "marker_own_frees");
}

/* States that the plugin hands over itself: what its functions do to the thread ends with them. One that fails so leaves
 * the request with the version it had. */
static void test_hand_over_leaves_the_thread(void **state)
{
    static const exchange_case cases[] = {
        {"hand_over flushes", native_own_hands, NULL, {100, 101, 102, 103, 104, 105, 106, 107}, 8},
        {"free flushes", native_own_frees, NULL, {100, 101, 102, 203, 213, 223, 233, 243}, 8},
    };
    const fixture *f = *state;
    if (!CDZ_SEES_FLOAT_MODE) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ini[256];
        put_version(f, "marker.so", "marker_own");
        snprintf(ini, sizeof ini,
                 "[pipeline]\nprocessors = m\nstopping = s\n[m]\nid = ./marker.so\n"
                 "[s]\nid = ./marker.so\n%s",
                 greedy_lines);
        driver d = {.f = f, .pipeline = load(f, ini), .when = 3, .exchange = cases[i].exchange};
        cdz_result *result = run(&d);
        must(d.status, &d.err);
        expect(cases[i].name, result, cases[i].want, cases[i].n);
        if (d.flushed) fail_msg("%s: and the request went on so", cases[i].name);
        cdz_pipeline_free(d.pipeline);
    }
}

/* clang-format off */
#define OLD {100, 101, 102, 103, 104, 105, 106, 107}
/* clang-format on */

static void test_scripts(void **state)
{
    static const exchange_case cases[] = {
        {"states go on", script_b, NULL, {100, 101, 102, 203, 213, 223, 233, 243}, 8},
        {"states are rebuilt", script_c, NULL, {100, 101, 102, 330, 340, 350, 360, 370}, 8},
        {"a syntax error", script_syntax, "script.lua:1:", OLD, 8},
        {"an error", script_error, "script.lua:1: no", OLD, 8},
        {"a loop without end", script_endless, "budget", OLD, 8},
        {"a NaN", script_nan, "NaN", OLD, 8},
        {"no file", script_gone, "script.lua", OLD, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try_exchange(*state, &cases[i], false);
}

/* --- values that a request sets on a plugin ------------------------------------------------------------------------ */

/* Writes the token base, or base and `more`; base is 100 unless a request sets it. */
static void put_based(const fixture *f, int more)
{
    char text[512];
    snprintf(text, sizeof text,
             "return cadenza.processor { id = 'test.based', params = { base = {100, 0, 900, 'token'} "
             "},\napply = function(p, ids, row) row:fill(-math.huge); row[p.base + %d] = 0 end }\n",
             more);
    put_text(f, "script.lua", text);
}

static void based_plus_one(const fixture *f)
{
    put_based(f, 1);
}

static void based_no_more(const fixture *f)
{
    put_text(f, "script.lua",
             "return cadenza.processor { id = 'test.based', apply = function(p, ids, row)\n"
             "  row:fill(-math.huge); row[500] = 0 end }\n");
}

/* A request's own values go over to the next version with it; if that lacks the parameter, the request stays. Those of one
 * request are nobody else's. */
static void test_values_of_a_request(void **state)
{
    static const struct {
        const char *name, *json;
        void (*exchange)(const fixture *f);
        int32_t want[8], next;
    } cases[] = {
        {"by kwargs",
         "{\"prompt_ids\": [5, 6, 7], \"kwargs\": {\"m.base\": 400}}",
         based_plus_one,
         {400, 400, 400, 401, 401, 401, 401, 401},
         101},
        {"by sections",
         "{\"prompt_ids\": [5, 6, 7], \"sections\": {\"m\": {\"base\": 300}}}",
         based_plus_one,
         {300, 300, 300, 301, 301, 301, 301, 301},
         101},
        {"a parameter that is gone",
         "{\"prompt_ids\": [5, 6, 7], \"sections\": {\"m\": {\"base\": 300}}}",
         based_no_more,
         {300, 300, 300, 300, 300, 300, 300, 300},
         500},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fixture *f = *state;
        char ini[256];
        put_based(f, 0);
        snprintf(ini, sizeof ini, "[pipeline]\nprocessors = m\n[m]\nid = lua:script.lua\n%s",
                 greedy_lines);
        driver d = {.f = f,
                    .pipeline = load(f, ini),
                    .when = 3,
                    .exchange = cases[i].exchange,
                    .json = cases[i].json};
        expect(cases[i].name, run(&d), cases[i].want, 8);
        must(d.status, &d.err);
        d.json = NULL;
        int32_t next[8];
        for (size_t k = 0; k < 8; k++) next[k] = cases[i].next;
        expect(cases[i].name, run(&d), next, 8);
        cdz_pipeline_free(d.pipeline);
    }
}

/* --- strategies, and the request's mode ---------------------------------------------------------------------------- */

static void put_loop(const fixture *f, const char *choice)
{
    char text[512];
    snprintf(text, sizeof text,
             "return cadenza.strategy { one_row = true, run = function(ctx)\n"
             "  while not ctx:done() do local scores = ctx:process(ctx:forward())\n"
             "    ctx:append(ctx:argmax(scores, 1) + %s) end end }",
             choice);
    put_text(f, "loop.lua", text);
}

static void other_loop(const fixture *f)
{
    put_loop(f, "1000");
    script_b(f);
}

/* The running request keeps its loop, with the new processor; the next one has both. */
static void test_strategy(void **state)
{
    static const int32_t running[] = {100, 101, 102, 203, 213, 223, 233, 243};
    static const int32_t next[] = {1200, 1210, 1220, 1230, 1240, 1250, 1260, 1270};
    const fixture *f = *state;
    put_loop(f, "0");
    put_script(f, "script.lua", 100, 1, "state_version = 1,");
    char ini[512];
    snprintf(ini, sizeof ini,
             "[pipeline]\nstrategy = lua:loop.lua\nprocessors = lua:script.lua\n%s", greedy_lines);
    driver d = {.f = f, .pipeline = load(f, ini), .when = 3, .exchange = other_loop};
    cdz_result *result = run(&d);
    must(d.status, &d.err);
    expect("running", result, running, 8);
    expect("next", run(&d), next, 8);
    cdz_pipeline_free(d.pipeline);
}

static const char drawing_lines[] =
    "[pipeline]\nprocessors = lua:script.lua\n[generation]\n"
    "do_sample = yes\nseed = 3\nmax_new_tokens = 4\neos_token_id = none\n";

static void drawing(const fixture *f)
{
    script_b(f);
    put_text(f, "test.ini", drawing_lines);
}

/* Version a with `more`, exchanged after three tokens: the request goes on as it was, and the next one has n tokens of version b. */
static void goes_on(const fixture *f, const char *more, void (*exchange)(const fixture *f),
                    uint32_t n)
{
    static const int32_t running[] = {100, 101, 102, 103, 104, 105, 106, 107};
    static const int32_t next[] = {200, 210, 220, 230, 240, 250, 260, 270};
    put_script(f, "script.lua", 100, 1, more);
    char ini[256];
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = lua:script.lua\n%s", greedy_lines);
    driver d = {.f = f, .pipeline = load(f, ini), .when = 3, .exchange = exchange};
    cdz_result *result = run(&d);
    must(d.status, &d.err);
    expect("running", result, running, 8);
    expect("next", run(&d), next, n);
    cdz_pipeline_free(d.pipeline);
}

/* do_sample and max_new_tokens are the request's. */
static void test_mode(void **state)
{
    goes_on(*state, "state_version = 1,", drawing, 4);
}

/* Its passes call its processor. */
static void test_called(void **state)
{
    goes_on(*state,
            "state_version = 1, steer = function() return { { layer = 1, op = 'call' } } end,\n"
            "on_hidden = function(p, row, layer, h) h[#h]:mul(2) end,",
            script_b, 8);
}

/* --- rows that are rewound, reordered, looked at by selections ------------------------------------------------------- */

typedef struct exchange_now {
    const fixture *f;
    cdz_pipeline *pipeline;
    void (*exchange)(const fixture *f);
} exchange_now;

static void exchange_on_log(void *user)
{
    const exchange_now *e = user;
    cdz_error err = {0};
    e->exchange(e->f);
    must(cdz_pipeline_reload(e->pipeline, e->f->model, &err), &err);
}

typedef struct loop_case {
    const char *name, *loop;
    void (*exchange)(const fixture *f);
    uint32_t n, rows;
    int32_t last; /* token of the last row */
} loop_case;

static void try_loop(fixture *f, const loop_case *c)
{
    put_version(f, "marker.so", "marker_a");
    put_script(f, "script.lua", 100, 1, "state_version = 1,");
    put_text(f, "loop.lua", c->loop);
    char json[512];
    snprintf(json, sizeof json,
             "{\"prompt_ids\": [5, 6, 7], \"kwargs\": {\"do_sample\": true, \"seed\": 1, "
             "\"max_new_tokens\": %u, \"num_return_sequences\": %u}}",
             c->n, c->rows);
    cdz_pipeline *pipeline = load(f, "[pipeline]\nstrategy = lua:loop.lua\n"
                                     "processors = lua:script.lua\n"
                                     "[generation]\neos_token_id = none\n");
    exchange_now e = {f, pipeline, c->exchange};
    f->on_log = exchange_on_log;
    f->log_user = &e;
    cdz_error err = {0};
    cdz_result *result = NULL;
    const cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = json};
    const cdz_status st = cdz_generate(f->rt, &request, &result, &err);
    f->on_log = NULL;
    if (st != CDZ_OK) fail_msg("%s: %s", c->name, err.text);
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, c->rows - 1, &n);
    if (n != c->n || ids[n - 1] != c->last)
        fail_msg("%s: %u tokens, the last is %d, expected %u and %d", c->name, n, ids[n - 1], c->n,
                 c->last);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static void test_loops(void **state)
{
    /* At 75 tokens the version changes, at 80 ten are taken back: the mark at 64 was carried over or made anew. */
#define REWINDS                                                                                    \
    "return cadenza.strategy { rewinds = true, one_row = true, samples = true,\n"                  \
    "run = function(ctx) local n, back = 0, false\n"                                               \
    "  while not ctx:done() do\n"                                                                  \
    "    if n == 75 and not back then ctx:log('now') end\n"                                        \
    "    if n == 80 and not back then ctx:rewind(10); n = 70; back = true end\n"                   \
    "    ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))); n = n + 1 end end }"
    /* Rows become copies of each other before and after. */
#define REORDERS                                                                                   \
    "return cadenza.strategy { samples = true, run = function(ctx) local n = 0\n"                  \
    "  while not ctx:done() do\n"                                                                  \
    "    if n == 3 then ctx:log('now') end\n"                                                      \
    "    if n == 2 or n == 4 then ctx:reorder({2, 1}) end\n"                                       \
    "    local scores = ctx:process(ctx:forward())\n"                                              \
    "    ctx:append_rows(ctx:argmax_rows(scores)); n = n + 1 end end }"
    /* A selection without the script goes on to be one without it. */
#define SELECTS                                                                                    \
    "return cadenza.strategy { one_row = true, samples = true, run = function(ctx)\n"              \
    "  local without, n = ctx:pipeline_derive({'test.script'}, {}), 0\n"                           \
    "  local with = ctx:pipeline_derive({}, {})\n"                                                 \
    "  while not ctx:done() do\n"                                                                  \
    "    if n == 3 then ctx:log('now') end\n"                                                      \
    "    local scores = ctx:forward()\n"                                                           \
    "    local before = ctx:argmax(scores, 1)\n"                                                   \
    "    ctx:process_ids(without, {ctx:input_ids()}, {1}, scores)\n"                               \
    "    assert(ctx:argmax(scores, 1) == before, 'the selection changed')\n"                       \
    "    ctx:process_ids(with, {ctx:input_ids()}, {1}, scores)\n"                                  \
    "    ctx:append((ctx:argmax(scores, 1))); n = n + 1 end end }"
    static const loop_case cases[] = {
        {"rewound, carried over", REWINDS, script_b, 85, 1, 200 + 64 + 200},
        {"rewound, made anew", REWINDS, script_c, 85, 1, 300 + 840},
        {"reordered, carried over", REORDERS, script_b, 6, 2, 200 + 3 + 20},
        {"reordered, made anew", REORDERS, script_c, 6, 2, 300 + 50},
        {"selected, carried over", SELECTS, script_b, 5, 1, 200 + 3 + 10},
        {"selected, made anew", SELECTS, script_c, 5, 1, 300 + 40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) try_loop(*state, &cases[i]);
}

/* --- a reload that changes nothing changes nothing --------------------------------------------------------------------- */

typedef struct ticker {
    const fixture *f;
    cdz_pipeline *pipeline;
    uint32_t n;
    bool reloads;
} ticker;

static void put_tick(const fixture *f, uint32_t n)
{
    char text[256];
    snprintf(text, sizeof text,
             "-- %u\nreturn cadenza.processor { apply = function(p, ids, row, ctx)\n"
             "  ctx:log('tick') end }",
             n);
    put_text(f, "tick.lua", text);
}

static void on_tick(void *user)
{
    ticker *t = user;
    cdz_error err = {0};
    if (!t->reloads || t->n == 6) return;
    put_tick(t->f, ++t->n);
    must(cdz_pipeline_reload(t->pipeline, t->f->model, &err), &err);
}

static cdz_result *run_ticking(fixture *f, const char *settings, bool reloads)
{
    char ini[512];
    put_tick(f, 0);
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = lua:tick.lua\n[generation]\n%s", settings);
    ticker t = {.f = f, .pipeline = load(f, ini), .reloads = reloads};
    f->on_log = on_tick;
    f->log_user = &t;
    cdz_error err = {0};
    cdz_result *result = NULL;
    const cdz_request request = {.size = sizeof request,
                                 .model = f->model,
                                 .pipeline = t.pipeline,
                                 .prompt = "river (noun): a river"};
    const cdz_status st = cdz_generate(f->rt, &request, &result, &err);
    f->on_log = NULL;
    if (st != CDZ_OK) fail_msg("%s: %s", settings, err.text);
    if (reloads && t.n < 2) fail_msg("%s: %u reloads", settings, t.n);
    cdz_pipeline_free(t.pipeline);
    return result;
}

static void test_nothing_changes(void **state)
{
    static const char *const settings[] = {
        "do_sample = no\nmax_new_tokens = 12\nrepetition_penalty = 1.3\nmin_new_tokens = 5\n",
        "do_sample = yes\nseed = 7\nmax_new_tokens = 12\ntop_p = 0.9\nnum_return_sequences = 3\n",
        "do_sample = no\nnum_beams = 3\nmax_new_tokens = 10\nno_repeat_ngram_size = 2\nnum_return_sequences = 2\n",
        "num_beams = 2\ndo_sample = yes\nseed = 2\nmax_new_tokens = 8\n",
        "do_sample = no\nguidance_scale = 1.8\nmax_new_tokens = 10\n",
        "do_sample = no\nnum_beams = 3\nguidance_scale = 1.8\nmax_new_tokens = 8\n",
        "do_sample = no\nprompt_lookup_num_tokens = 3\nmax_new_tokens = 12\n",
        "do_sample = no\npenalty_alpha = 0.6\ntop_k = 4\nmax_new_tokens = 8\n",
        "do_sample = no\nnum_beams = 4\nnum_beam_groups = 2\ndiversity_penalty = 0.5\nmax_new_tokens = 8\n",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        cdz_result *want = run_ticking(*state, settings[i], false);
        cdz_result *got = run_ticking(*state, settings[i], true);
        assert_int_equal(cdz_result_rows(want), cdz_result_rows(got));
        for (uint32_t r = 0; r < cdz_result_rows(want); r++) {
            uint32_t n, m;
            const int32_t *a = cdz_result_sequence(want, r, &n);
            const int32_t *b = cdz_result_sequence(got, r, &m);
            if (n != m || memcmp(a, b, n * sizeof *a) != 0)
                fail_msg("%srow %u differs", settings[i], r);
        }
        cdz_result_free(want);
        cdz_result_free(got);
    }
}

/* --- a request that cannot go over -------------------------------------------------------------------------------------- */

typedef struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t good, bad;
    char why[CDZ_ERROR_TEXT];
} told;

static void on_reload(void *user, cdz_pipeline *pipeline, const cdz_error *error)
{
    told *t = user;
    (void)pipeline;
    pthread_mutex_lock(&t->lock);
    if (error) {
        t->bad++;
        memcpy(t->why, error->text, sizeof t->why);
    } else {
        t->good++;
    }
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* Begins well on the made-up row of 4 ids, not on the request's of 3. */
static void script_picky(const fixture *f)
{
    put_text(f, "script.lua",
             "return cadenza.processor { id = 'test.script', begin = function(ctx)\n"
             "  if ctx.prompt_len ~= 4 then error('not this one') end end,\n"
             "apply = function() end }");
}

static cdz_reloader *watch_with(const fixture *f, told *t, uint32_t quiet_ms)
{
    const cdz_reloader_options options = {.size = sizeof options,
                                          .quiet_ms = quiet_ms,
                                          .model = f->model,
                                          .on_reload = on_reload,
                                          .user = t};
    cdz_reloader *reloader;
    cdz_error err = {0};
    must(cdz_reloader_open(&options, &reloader, &err), &err);
    return reloader;
}

static cdz_pipeline *load_script(const fixture *f)
{
    char ini[256];
    put_script(f, "script.lua", 100, 1, "state_version = 1,");
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = lua:script.lua\n%s", greedy_lines);
    return load(f, ini);
}

static void test_one_request_stays(void **state)
{
    static const int32_t want[] = {100, 101, 102, 103, 104, 105, 106, 107};
    const fixture *f = *state;
    told t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    driver d = {.f = f, .pipeline = load_script(f), .when = 3, .exchange = script_picky};
    cdz_reloader *reloader = watch_with(f, &t, 3600000); /* the test reloads itself */
    cdz_error err = {0};
    must(cdz_reloader_add(reloader, d.pipeline, &err), &err);
    expect("stays", run(&d), want, 8);
    must(d.status, &d.err);
    pthread_mutex_lock(&t.lock);
    assert_int_equal(t.bad, 1); /* once, though every step could have said it */
    if (!strstr(t.why, "not this one")) fail_msg("%s", t.why);
    pthread_mutex_unlock(&t.lock);
    cdz_reloader_close(reloader);
    cdz_pipeline_free(d.pipeline);
}

/* --- watching ------------------------------------------------------------------------------------------------------------ */

static void await(told *t, const uint32_t *count, uint32_t n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60; /* for slow machines: it comes at once */
    pthread_mutex_lock(&t->lock);
    int timed_out = 0;
    while (*count < n && !timed_out)
        timed_out = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    if (*count < n) fail_msg("%u reloads went well, %u did not: %s", t->good, t->bad, t->why);
    pthread_mutex_unlock(&t->lock);
}

static void test_watching(void **state)
{
    static const int32_t want[] = {200, 210, 220, 230, 240, 250, 260, 270};
    const fixture *f = *state;
    told t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    driver d = {.f = f, .pipeline = load_script(f)};
    cdz_reloader *reloader = watch_with(f, &t, 20);
    cdz_error err = {0};
    must(cdz_reloader_add(reloader, d.pipeline, &err), &err);
    put_text(f, "unrelated.txt", "no file of the pipeline's");
    script_error(f);
    await(&t, &t.bad, 1);
    if (!strstr(t.why, "script.lua:1: no")) fail_msg("%s", t.why);
    assert_int_equal(cdz_pipeline_generation(d.pipeline), 1);
    script_b(f);
    await(&t, &t.good, 1);
    assert_int_equal(cdz_pipeline_generation(d.pipeline), 2);
    expect("watched", run(&d), want, 8);
    put_text(f, "test.ini", drawing_lines);
    await(&t, &t.good, 2);
    assert_int_equal(t.bad, 1);
    cdz_reloader_remove(reloader, d.pipeline);
    cdz_pipeline_free(d.pipeline);
    cdz_reloader_close(reloader);
}

/* --- packages ------------------------------------------------------------------------------------------------------------- */

static void other_words(const fixture *f)
{
    put_text(f, "words.lua", "return 700");
}

/* A file that the script requires is the script's own. */
static void test_required_file(void **state)
{
    static const int32_t want[] = {300, 300, 300, 700, 700, 700, 700, 700};
    const fixture *f = *state;
    put_text(f, "plugin.ini",
             "[plugin]\nid = test.words\nversion = 1.0.0\nkind = processor\nentry = entry.lua\n"
             "files = words.lua\nlicense = MIT\n");
    put_text(f, "words.lua", "return 300");
    put_text(f, "entry.lua",
             "local token = require 'words'\n"
             "return cadenza.processor { id = 'test.words', version = '1.0.0',\n"
             "apply = function(p, ids, row) row:fill(-math.huge); row[token] = 0 end }");
    char ini[512];
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = w\n[w]\nid = %s\n%s", f->folder,
             greedy_lines);
    driver d = {.f = f, .pipeline = load(f, ini), .when = 3, .exchange = other_words};
    cdz_result *result = run(&d);
    must(d.status, &d.err);
    expect("required", result, want, 8);
    cdz_pipeline_free(d.pipeline);
    unlink(path_of(f, "plugin.ini"));
}

/* A plugin known by its id, from a file that the runtime was opened with: the file is looked at again. */
static void test_named_plugin(void **state)
{
    static const int32_t want[] = {100, 101, 102, 203, 213, 223, 233, 243};
    static const int32_t after[] = {200, 210, 220, 230, 240, 250, 260, 270};
    const fixture *f = *state;
    fixture own = *f; /* the same folder, another runtime */
    put_version(f, "marker.so", "marker_a");
    const char *const plugins[] = {path_of(f, "marker.so")};
    const cdz_options options = {
        .size = sizeof options, .n_threads = 1, .plugins = plugins, .n_plugins = 1};
    cdz_error err = {0};
    own.rt = opened_runtime(&options);
    own.model = opened_model(own.rt, target);
    char ini[256];
    snprintf(ini, sizeof ini, "[pipeline]\nprocessors = test.marker\n%s", greedy_lines);
    driver d = {.f = &own, .pipeline = load(&own, ini), .when = 3, .exchange = native_b};
    cdz_result *result = run(&d);
    must(d.status, &d.err);
    expect("by id", result, want, 8);

    native_cut(f);
    assert_int_not_equal(cdz_pipeline_reload(d.pipeline, own.model, &err), CDZ_OK);
    if (!strstr(err.text, "marker.so")) fail_msg("%s", err.text);
    assert_int_equal(cdz_pipeline_generation(d.pipeline), 2);
    expect("half a file", run(&d), after, 8);
    native_b(f);
    must(cdz_pipeline_reload(d.pipeline, own.model, &err), &err);
    assert_int_equal(cdz_pipeline_generation(d.pipeline), 3);
    cdz_pipeline_free(d.pipeline);
    cdz_model_close(own.model);
    cdz_close(own.rt);
}

/* --- a thousand reloads under load ----------------------------------------------------------------------------------------- */

enum { SUBMITTERS = 3, FLIGHT = 4, WARM = 100, RELOADS = 1000 };

typedef struct load_test {
    const fixture *f;
    cdz_pipeline *pipeline;
    atomic_bool stop;
    atomic_uint n_done;
} load_test;

/* A request's tokens tell of one version or of one and then others; nothing else. */
static bool sound(const cdz_result *result)
{
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, 0, &n);
    for (uint32_t i = 0; i < n; i++)
        if (!(ids[i] >= 100 && ids[i] < 1000)) return false;
    return n == 12;
}

static void *submit_many(void *user)
{
    static const int32_t prompt[] = {5, 6, 7, 8};
    load_test *l = user;
    while (!atomic_load(&l->stop)) {
        uint64_t ids[FLIGHT];
        cdz_error err;
        for (uint32_t i = 0; i < FLIGHT; i++) {
            const cdz_request request = {.size = sizeof request,
                                         .model = l->f->model,
                                         .pipeline = l->pipeline,
                                         .ids = prompt,
                                         .n_ids = 1 + i};
            if (cdz_submit(l->f->rt, &request, &ids[i], &err) != CDZ_OK) return strdup(err.text);
        }
        for (uint32_t i = 0; i < FLIGHT; i++) {
            cdz_result *result = NULL;
            const cdz_status st = cdz_wait(l->f->rt, ids[i], &result, &err);
            const bool good = st == CDZ_OK && sound(result);
            cdz_result_free(result);
            if (!good) return strdup(st == CDZ_OK ? "tokens of no version" : err.text);
            atomic_fetch_add(&l->n_done, 1);
        }
    }
    return NULL;
}

static void reload_often(load_test *l, uint32_t n)
{
    pthread_t threads[SUBMITTERS];
    atomic_store(&l->stop, false);
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, l), 0);
    cdz_error err = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; st == CDZ_OK && i < n; i++) {
        put_version(l->f, "marker.so", i % 2 ? "marker_a" : "marker_b");
        if (i % 3 == 0)
            script_b(l->f);
        else if (i % 3 == 1)
            script_c(l->f);
        st = cdz_pipeline_reload(l->pipeline, l->f->model, &err);
    }
    atomic_store(&l->stop, true);
    char *trouble = NULL;
    for (int i = 0; i < SUBMITTERS; i++) {
        void *said = NULL;
        pthread_join(threads[i], &said);
        if (said && !trouble)
            trouble = said;
        else
            free(said);
    }
    must(st, &err);
    if (trouble) fail_msg("%s", trouble);
}

static uint32_t count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    uint32_t n = 0;
    assert_non_null(file);
    for (int c; (c = getc(file)) != EOF;) n += c == '\n';
    fclose(file);
    return n;
}

static uint32_t count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint32_t n = 0;
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
    fclose(file);
    return resident;
}

static void test_load(void **state)
{
    const fixture *f = *state;
    put_version(f, "marker.so", "marker_a");
    put_script(f, "script.lua", 100, 1, "state_version = 1,");
    load_test l = {.f = f,
                   .pipeline = load(f, "[pipeline]\nprocessors = m, lua:script.lua\nstopping = s\n"
                                       "[m]\nid = ./marker.so\n[s]\nid = ./marker.so\n"
                                       "[generation]\ndo_sample = no\nmax_new_tokens = 12\n"
                                       "eos_token_id = none\n")};
    reload_often(&l, WARM);
    const uint32_t maps = count_lines("/proc/self/maps"), fds = count_descriptors();
    const long pages = resident_pages();
    reload_often(&l, RELOADS);
    assert_int_equal(cdz_pipeline_generation(l.pipeline), 1 + WARM + RELOADS);
    assert_true(atomic_load(&l.n_done) > 0);
    const uint32_t maps_after = count_lines("/proc/self/maps"), fds_after = count_descriptors();
    const long more = resident_pages() - pages;
    print_message("%u requests, %u to %u mappings, %u to %u descriptors, %ld more pages\n",
                  atomic_load(&l.n_done), maps, maps_after, fds, fds_after, more);
    /* The last requests may still be on their way out. */
    assert_true(fds_after < fds + RELOADS / 100);
#if !CDZ_WITH_OWN_HEAP /* which also maps more and more of it */
    assert_true(maps_after < maps + RELOADS / 10);
    assert_true(more < 8192);
#endif
    cdz_pipeline_free(l.pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native),          cmocka_unit_test(test_hand_over_leaves_the_thread),
        cmocka_unit_test(test_scripts),         cmocka_unit_test(test_values_of_a_request),
        cmocka_unit_test(test_strategy),        cmocka_unit_test(test_mode),
        cmocka_unit_test(test_called),          cmocka_unit_test(test_loops),
        cmocka_unit_test(test_nothing_changes), cmocka_unit_test(test_one_request_stays),
        cmocka_unit_test(test_watching),        cmocka_unit_test(test_required_file),
        cmocka_unit_test(test_named_plugin),    cmocka_unit_test(test_load),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
