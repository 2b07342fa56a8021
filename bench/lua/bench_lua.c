/* bench_lua.c - a Lua processor of bulk operations beside its C twin at a vocabulary of 151,936: the same bits, and
 * nearly the same time. Exits with 1 when a bit differs.
 *
 * Prints microseconds per row, the median of some repeats, alternating between the two so that both see the same
 * machine. The twin calls the operations that the built-in processors call, through the same table. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/params.h"
#include "lua/lua_loader.h"
#include "vec/vec.h"

#include "cadenza/processor.h"

enum { V = 151936, HISTORY = 512, REPEATS = 101 };

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *us, int n)
{
    qsort(us, (size_t)n, sizeof *us, ascending);
    return us[n / 2];
}

/* --- a host that is just enough ------------------------------------------------------------------------------- */

static cdz_status host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
static cdz_status host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    va_list args;

    (void)step;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

static const void *host_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_VEC) == 0 ? cdz_vec_table() : NULL;
}

typedef struct script {
    void *module, *params;
    const cdz_processor *processor;
    cdz_step step;
} script;

static const cdz_host host = {.size = sizeof host, .extension = host_extension, .fail = host_fail};
static const cdz_request_info request = {.size = sizeof request,
                                         .n_prompts = 1,
                                         .n_rows = 1,
                                         .n_vocab = V,
                                         .num_beams = 1,
                                         .pad = -1,
                                         .bos = -1};
static const uint32_t row_index;

static void open_script(script *s, const char *name, const cdz_ids *ids)
{
    const cdz_plugin_base *const *plugins;
    char path[1024];
    uint32_t n;
    cdz_error err = {0};

    memset(s, 0, sizeof *s);
    snprintf(path, sizeof path, "%s/%s", CADENZA_BENCH_LUA, name);
    if (cdz_lua_loader.load(path, &s->module, &plugins, &n, &err) != CDZ_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    const cdz_param_table table = cdz_params_of(plugins[0]);
    s->params = calloc(1, table.params_size);
    if (!s->params) exit(1);
    cdz_params_defaults(&table, s->params);
    *(int64_t *)(void *)((char *)s->params + cdz_param_find(&table, "budget_ms")->offset) = 60000;
    s->processor = (const cdz_processor *)(const void *)plugins[0];
    s->step = (cdz_step){.size = sizeof s->step,
                         .n_rows = 1,
                         .params = s->params,
                         .input_ids = ids,
                         .row_index = &row_index,
                         .request = &request,
                         .plugin = plugins[0],
                         .host = &host};
    if (s->processor->begin(&s->step, &s->step.shared) != CDZ_OK) exit(1);
}

static void close_script(script *s)
{
    s->processor->end(&s->step);
    cdz_lua_loader.unload(s->module);
    free(s->params);
}

static void apply(script *s, float *row)
{
    cdz_scores scores = {row, 1, V, V, 0};

    if (s->processor->apply(&s->step, &scores) != CDZ_OK) exit(1);
}

/* --- the twin ----------------------------------------------------------------------------------------------------- */

static void twin(float *row, cdz_ids ids, void *scratch)
{
    const cdz_vec *vec = cdz_vec_table();

    vec->penalize(row, V, ids.at, ids.len, 1.1f, scratch);
    vec->div(row, V, 0.8f);
    vec->keep_topk(row, V, 50, scratch);
    vec->keep_minp(row, V, 0.05, 1, scratch);
}

/* --- measuring ------------------------------------------------------------------------------------------------------ */

typedef struct data {
    float *row, *x, *y;
    void *scratch;
    int32_t history[HISTORY];
    cdz_ids ids;
} data;

static void fill(data *d)
{
    uint32_t x = 1;

    for (int i = 0; i < V; i++) {
        x = x * 1664525u + 1013904223u;
        d->row[i] = (float)((double)(x >> 8) * 0x1p-24 * 20.0 - 10.0);
    }
    for (int i = 0; i < HISTORY; i++) {
        x = x * 1664525u + 1013904223u;
        d->history[i] = (int32_t)(x % V);
    }
    d->ids = (cdz_ids){d->history, HISTORY};
}

/* False when the two disagree in a bit. */
static bool compare_bulk(data *d)
{
    double lua_us[REPEATS], c_us[REPEATS];
    bool same = true;
    script s;

    open_script(&s, "bulk.lua", &d->ids);
    for (int i = 0; i < REPEATS; i++) {
        memcpy(d->x, d->row, V * sizeof *d->x);
        memcpy(d->y, d->row, V * sizeof *d->y);
        double start = now_us();
        apply(&s, d->x);
        lua_us[i] = now_us() - start;
        start = now_us();
        twin(d->y, d->ids, d->scratch);
        c_us[i] = now_us() - start;
        same = same && memcmp(d->x, d->y, V * sizeof *d->x) == 0;
    }
    close_script(&s);
    const double lua = median(lua_us, REPEATS), c = median(c_us, REPEATS);
    printf("repetition penalty, temperature, top-k 50, min-p on %d scores, %d ids\n", (int)V,
           (int)HISTORY);
    printf("  %-28s %10.1f us\n  %-28s %10.1f us\n  %-28s %10.2f\n  %-28s %10s\n", "Lua", lua, "C",
           c, "Lua / C", lua / c, "same bits", same ? "yes" : "NO");
    return same;
}

static void time_script(data *d, const char *name, const char *what, int repeats)
{
    double us[REPEATS];
    script s;

    open_script(&s, name, &d->ids);
    for (int i = 0; i < repeats; i++) {
        memcpy(d->x, d->row, V * sizeof *d->x);
        const double start = now_us();
        apply(&s, d->x);
        us[i] = now_us() - start;
    }
    close_script(&s);
    printf("  %-28s %10.1f us\n", what, median(us, repeats));
}

/* What a request pays before its first step: a state of its own, the file run again. */
static void time_begin(data *d)
{
    double us[REPEATS];
    script s;

    open_script(&s, "bulk.lua", &d->ids);
    for (int i = 0; i < REPEATS; i++) {
        s.processor->end(&s.step);
        const double start = now_us();
        if (s.processor->begin(&s.step, &s.step.shared) != CDZ_OK) exit(1);
        us[i] = now_us() - start;
    }
    close_script(&s);
    printf("  %-28s %10.1f us\n", "begin, per request", median(us, REPEATS));
}

int main(void)
{
    data d = {.row = aligned_alloc(64, V * sizeof(float)),
              .x = aligned_alloc(64, V * sizeof(float)),
              .y = aligned_alloc(64, V * sizeof(float)),
              .scratch = aligned_alloc(64, (cdz_vec_scratch(V) + 63) / 64 * 64)};

    if (!d.row || !d.x || !d.y || !d.scratch) return 1;
    fill(&d);
    const bool same = compare_bulk(&d);
    printf("other costs\n");
    time_script(&d, "empty.lua", "an empty apply", REPEATS);
    time_begin(&d);
    time_script(&d, "naive.lua", "one pass by row[id] in Lua", 5);
    free(d.row);
    free(d.x);
    free(d.y);
    free(d.scratch);
    return same ? 0 : 1;
}
