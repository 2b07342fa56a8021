/* bench_lua.c - a Lua processor of bulk operations beside its C twin at a vocabulary of 151,936: the same bits, and
 * nearly the same time. Exits with 1 when a bit differs.
 *
 * Prints microseconds per row, the median of some repeats, alternating between the two so that both see the same
 * machine. The twin calls the operations that the built-in processors call, through the same table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "vec/vec.h"

enum { V = 151936, HISTORY = 512, REPEATS = 101 };

static const cdz_request_info request = {.size = sizeof request,
                                         .n_prompts = 1,
                                         .n_rows = 1,
                                         .n_vocab = V,
                                         .num_beams = 1,
                                         .pad = -1,
                                         .bos = -1};

static void apply(cdz_bench_script *s, float *row)
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
    cdz_bench_flat(d->row, V, d->history, HISTORY);
    d->ids = (cdz_ids){d->history, HISTORY};
}

static void open_script(cdz_bench_script *s, const char *name, const data *d)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", CADENZA_BENCH_LUA, name);
    cdz_bench_open_script(s, path, 0, &d->ids, &request);
}

/* False when the two disagree in a bit. */
static bool compare_bulk(data *d)
{
    double lua_us[REPEATS], c_us[REPEATS];
    bool same = true;
    cdz_bench_script s;

    open_script(&s, "bulk.lua", d);
    for (int i = 0; i < REPEATS; i++) {
        memcpy(d->x, d->row, V * sizeof *d->x);
        memcpy(d->y, d->row, V * sizeof *d->y);
        double start = cdz_bench_now_us();
        apply(&s, d->x);
        lua_us[i] = cdz_bench_now_us() - start;
        start = cdz_bench_now_us();
        twin(d->y, d->ids, d->scratch);
        c_us[i] = cdz_bench_now_us() - start;
        same = same && memcmp(d->x, d->y, V * sizeof *d->x) == 0;
    }
    cdz_bench_close_script(&s);
    const double lua = cdz_bench_median(lua_us, REPEATS), c = cdz_bench_median(c_us, REPEATS);
    printf("repetition penalty, temperature, top-k 50, min-p on %d scores, %d ids\n", (int)V,
           (int)HISTORY);
    printf("  %-28s %10.1f us\n  %-28s %10.1f us\n  %-28s %10.2f\n  %-28s %10s\n", "Lua", lua, "C",
           c, "Lua / C", lua / c, "same bits", same ? "yes" : "NO");
    return same;
}

static void time_script(data *d, const char *name, const char *what, size_t repeats)
{
    double us[REPEATS];
    cdz_bench_script s;

    open_script(&s, name, d);
    for (size_t i = 0; i < repeats; i++) {
        memcpy(d->x, d->row, V * sizeof *d->x);
        const double start = cdz_bench_now_us();
        apply(&s, d->x);
        us[i] = cdz_bench_now_us() - start;
    }
    cdz_bench_close_script(&s);
    printf("  %-28s %10.1f us\n", what, cdz_bench_median(us, repeats));
}

/* What a request pays before its first step: a state of its own, the file run again. */
static void time_begin(data *d)
{
    double us[REPEATS];
    cdz_bench_script s;

    open_script(&s, "bulk.lua", d);
    for (int i = 0; i < REPEATS; i++) {
        s.processor->end(&s.step);
        const double start = cdz_bench_now_us();
        if (s.processor->begin(&s.step, &s.step.shared) != CDZ_OK) exit(1);
        us[i] = cdz_bench_now_us() - start;
    }
    cdz_bench_close_script(&s);
    printf("  %-28s %10.1f us\n", "begin, per request", cdz_bench_median(us, REPEATS));
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
