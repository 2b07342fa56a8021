/* bench.c - what the benchmarks share: made-up rows of scores, the host that a plugin finds there, a Lua processor begun as by a
 * request, and the end of a benchmark that cannot go on. */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/lua_loader.h"
#include "params/params.h"
#include "plug/loaded.h"
#include "vec/vec.h"

float cdz_bench_normal(uint32_t *stream)
{
    float s = -6.0f;
    for (int i = 0; i < 12; i++) {
        *stream = *stream * 1664525u + 1013904223u;
        s += (float)(*stream >> 8) * 0x1p-24f;
    }
    return s;
}

void cdz_bench_row(float *row, size_t n, bool peaked)
{
    uint32_t stream = 1;
    for (size_t i = 0; i < n; i++) row[i] = (peaked ? 1.5f : 2.0f) * cdz_bench_normal(&stream);
    for (size_t rank = 1; peaked && rank <= 60; rank++)
        row[(rank * 7919) % n] = 18.0f - 1.6f * logf((float)rank);
}

void cdz_bench_flat(float *row, size_t n, int32_t *ids, size_t n_ids)
{
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        row[i] = (float)((double)(x >> 8) * 0x1p-24 * 20.0 - 10.0);
    }
    for (size_t i = 0; i < n_ids; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)(x % n);
    }
}

void cdz_bench_give_up(const char *sentence)
{
    fprintf(stderr, "bench: %s\n", sentence);
    exit(1);
}

cdz_status cdz_bench_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", step->plugin->id);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

const void *cdz_bench_extension(const char *id)
{
    return strcmp(id, CDZ_EXT_VEC) == 0 ? cdz_vec_table() : NULL;
}

cdz_status cdz_bench_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    (void)step, (void)name, (void)type, (void)out;
    return CDZ_E_NOT_FOUND;
}

/* --- scripts -------------------------------------------------------------------------------------------------------- */

static void set_integer(const cdz_param_table *table, void *params, const char *name, int64_t value)
{
    *(int64_t *)(void *)((char *)params + cdz_param_find(table, name)->offset) = value;
}

void cdz_bench_open_script(cdz_bench_script *script, const char *path, int64_t chain,
                           const cdz_ids *ids, const cdz_request_info *request)
{
    static const cdz_host host = CDZ_BENCH_HOST(.alloc = NULL);
    static const uint32_t row_index;
    uint32_t n;
    cdz_error err = {0};
    *script = (cdz_bench_script){0};
    if (cdz_loaded_open(&cdz_lua_loader, path, &script->module, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
    const cdz_plugin_base *const *plugins = cdz_loaded_plugins(script->module, &n);
    const cdz_param_table table = cdz_params_of(plugins[0]);
    script->params = calloc(1, table.params_size);
    if (!script->params) cdz_bench_give_up("out of memory");
    cdz_params_defaults(&table, script->params);
    set_integer(&table, script->params, "budget_ms", 60000);
    if (chain) set_integer(&table, script->params, "chain", chain);
    script->processor = (const cdz_processor *)(const void *)plugins[0];
    script->step = (cdz_step){.size = sizeof script->step,
                              .n_rows = 1,
                              .params = script->params,
                              .input_ids = ids,
                              .row_index = &row_index,
                              .request = request,
                              .plugin = plugins[0],
                              .host = &host};
    if (script->processor->begin(&script->step, &script->step.shared) != CDZ_OK)
        cdz_bench_give_up("the script does not begin");
}

void cdz_bench_close_script(cdz_bench_script *script)
{
    script->processor->end(&script->step);
    cdz_loaded_close(script->module);
    free(script->params);
}
