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
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "cadenza/cadenza.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char versions[] = CADENZA_BUILD_DIR "/tests/reload";

enum { PATH_BYTES = 256 };

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    char folder[64];
} fixture;

static void must(cdz_status status, const cdz_error *err)
{
    if (status != CDZ_OK) fail_msg("%d: %s", (int)status, err->text);
}

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    cdz_error err = {0};
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options, .n_threads = 2};
    must(cdz_open(&options, &f->rt, &err), &err);
    must(cdz_model_open(f->rt, target, NULL, &f->model, &err), &err);
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
} driver;

static void on_event(void *user, const cdz_event *event)
{
    driver *d = user;
    if (event->kind != CDZ_EVENT_TOKENS) return;
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
                           .ids = prompt,
                           .n_ids = 3,
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

static void test_scripts(void **state)
{
#define OLD                                                                                        \
    {                                                                                              \
        100, 101, 102, 103, 104, 105, 106, 107                                                     \
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native),
        cmocka_unit_test(test_scripts),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
