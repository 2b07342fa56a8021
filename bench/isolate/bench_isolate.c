/* bench_isolate.c - what a process of its own costs: built-in processors on a row of 151,936 scores, here and there, in
 * turns: the same bits. Exits with 1 when a bit differs.
 *
 * Prints the median and the lowest of some repeats in microseconds, and what starting a process takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "params/params.h"
#include "plug/registry.h"

enum { V = 151936, HISTORY = 512, REPEATS = 301 };

typedef struct plugin {
    cdz_plugin_ref ref;
    const cdz_processor *processor;
    cdz_arena arena;
    cdz_step step;
} plugin;

static void *host_alloc(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc(&((plugin *)step->scope)->arena, bytes);
}

/* The largest that these take, once. */
static void *host_scratch(const cdz_step *step, size_t bytes)
{
    static _Alignas(64) unsigned char room[8 << 20];
    (void)step;
    return bytes <= sizeof room ? room : NULL;
}

static const cdz_host host = CDZ_BENCH_HOST(.alloc = host_alloc, .scratch = host_scratch);
static const int32_t eos[] = {2};
static const uint32_t row_index;

static void must(cdz_status status, const cdz_error *err)
{
    if (status != CDZ_OK) cdz_bench_give_up(err->text);
}

static void set(plugin *p, const char *name, double value)
{
    const cdz_param_table table = cdz_params_of(p->ref.base);
    const cdz_param *param = cdz_param_find(&table, name);
    const bool real = param->type == CDZ_T_REAL || param->type == CDZ_T_OPT_REAL;
    cdz_json json = {.type = real ? CDZ_JSON_REAL : CDZ_JSON_INT};
    if (real)
        json.real = value;
    else
        json.integer = (int64_t)value;
    cdz_error err = {0};
    must(cdz_param_set(param, (void *)(uintptr_t)p->step.params, &json, &p->arena, &err), &err);
}

static void open_plugin(cdz_registry *registry, const char *id, double value, bool apart,
                        const cdz_ids *ids, const cdz_request_info *request, plugin *p)
{
    cdz_error err = {0};
    if (apart)
        must(cdz_registry_isolate(registry, CDZ_BY_USER, CDZ_KIND_PROCESSOR, id, false, true,
                                  &p->ref, &err),
             &err);
    else
        must(cdz_registry_find(registry, CDZ_KIND_PROCESSOR, id, &p->ref, &err), &err);
    const cdz_param_table table = cdz_params_of(p->ref.base);
    void *params = cdz_arena_alloc(&p->arena, table.params_size);
    cdz_params_defaults(&table, params);
    p->processor = (const cdz_processor *)(const void *)p->ref.base;
    p->step = (cdz_step){.size = sizeof p->step,
                         .n_rows = 1,
                         .params = params,
                         .input_ids = ids,
                         .row_index = &row_index,
                         .request = request,
                         .plugin = p->ref.base,
                         .host = &host,
                         .scope = p};
    set(p, id, value);
    if (p->processor->begin && p->processor->begin(&p->step, &p->step.shared) != CDZ_OK)
        cdz_bench_give_up(id);
}

static void close_plugin(plugin *p)
{
    if (p->processor->end) p->processor->end(&p->step);
    cdz_arena_free(&p->arena);
    cdz_module_release(p->ref.module);
}

static double time_apply(plugin *p, const float *row, float *out)
{
    cdz_scores scores = {out, 1, V, V, 0};
    memcpy(out, row, V * sizeof *out);
    const double start = cdz_bench_now_us();
    if (p->processor->apply(&p->step, &scores) != CDZ_OK) exit(1);
    return cdz_bench_now_us() - start;
}

static bool compare(cdz_registry *registry, const char *id, double value, const float *row,
                    float *x, float *y)
{
    static int32_t history[HISTORY];
    for (int i = 0; i < HISTORY; i++) history[i] = i * 97;
    const cdz_ids ids = {history, HISTORY};
    const cdz_request_info request = {.size = sizeof request,
                                      .n_prompts = 1,
                                      .n_rows = 1,
                                      .prompt_len = HISTORY - 8,
                                      .n_vocab = V,
                                      .num_beams = 1,
                                      .eos = {eos, 1},
                                      .pad = -1,
                                      .bos = -1,
                                      .prompts = &ids};
    double here_us[REPEATS], there_us[REPEATS];
    plugin here = {0}, there = {0};
    bool same = true;
    open_plugin(registry, id, value, false, &ids, &request, &here);
    open_plugin(registry, id, value, true, &ids, &request, &there);
    for (int i = 0; i < REPEATS; i++) {
        here_us[i] = time_apply(&here, row, x);
        there_us[i] = time_apply(&there, row, y);
        same = same && memcmp(x, y, V * sizeof *x) == 0;
    }
    close_plugin(&here);
    close_plugin(&there);
    const double h = cdz_bench_median(here_us, REPEATS), t = cdz_bench_median(there_us, REPEATS);
    printf("  %-24s %10.1f %10.1f %10.1f %10.1f %10s\n", id, h, here_us[0], t, there_us[0],
           same ? "yes" : "NO");
    return same;
}

static void time_start(void)
{
    double us[21];
    enum { N = sizeof us / sizeof us[0] };
    for (int i = 0; i < N; i++) {
        cdz_registry *registry;
        cdz_plugin_ref ref;
        cdz_error err = {0};
        must(cdz_registry_create(NULL, &registry, &err), &err);
        must(cdz_registry_find(registry, CDZ_KIND_PROCESSOR, "min_p", &ref, &err), &err);
        cdz_module_release(ref.module);
        const double start = cdz_bench_now_us();
        must(cdz_registry_isolate(registry, CDZ_BY_USER, CDZ_KIND_PROCESSOR, "min_p", false, true,
                                  &ref, &err),
             &err);
        us[i] = cdz_bench_now_us() - start;
        cdz_module_release(ref.module);
        cdz_registry_free(registry);
    }
    const double median = cdz_bench_median(us, N);
    printf("  %-24s %10s %10s %10.1f %10.1f\n", "starting the process", "", "", median, us[0]);
}

int main(void)
{
    float *row = aligned_alloc(64, V * sizeof *row), *x = aligned_alloc(64, V * sizeof *x),
          *y = aligned_alloc(64, V * sizeof *y);
    cdz_registry *registry;
    cdz_error err = {0};
    if (!row || !x || !y) return 1;
    cdz_bench_row(row, V, true);
    must(cdz_registry_create(NULL, &registry, &err), &err);
    printf("one row of %d scores, %d ids, us\n", (int)V, (int)HISTORY);
    printf("  %-24s %10s %10s %10s %10s %10s\n", "", "here", "lowest", "there", "lowest",
           "same bits");
    bool same = compare(registry, "min_length", 2, row, x, y); /* writes one score, or none */
    same &= compare(registry, "repetition_penalty", 1.1, row, x, y);
    same &= compare(registry, "temperature", 0.8, row, x, y);
    same &= compare(registry, "top_k", 50, row, x, y);
    time_start();
    cdz_registry_free(registry);
    free(row);
    free(x);
    free(y);
    return same ? 0 : 1;
}
