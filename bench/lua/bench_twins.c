/* bench_twins.c - every built-in processor beside its Lua twin (tests/lua/twins) at a vocabulary of 151,936: the same bits, and
 * nearly the same time. Exits with 1 when a bit differs.
 *
 * Prints microseconds per row, the median of some repeats, alternating between the two so that both see the same
 * machine. The goal is 1.15 times the C one's time; below 20 us the way into a script (some hundred ns) shows. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "bench.h"
#include "lua/lua_loader.h"
#include "lua/twins.h"
#include "params/params.h"
#include "plug/loaded.h"
#include "vec/vec.h"

enum { V = 151936, HISTORY = 512, REPEATS = 51, SCRATCH = 32 << 20 };

/* --- a host that is just enough ------------------------------------------------------------------------------- */

typedef struct plugin {
    void *library;      /* of the C one */
    cdz_loaded *module; /* of the Lua one */
    void *params;
    const cdz_processor *processor;
    cdz_step step;
    cdz_arena arena;
    char *scratch;
    size_t used;
} plugin;

static void *host_alloc(const cdz_step *step, size_t bytes)
{
    return cdz_arena_alloc(&((plugin *)step->scope)->arena, bytes);
}

/* As the host's: handed out from one block, taken back when apply returns, not zeroed. */
static void *host_scratch(const cdz_step *step, size_t bytes)
{
    plugin *p = step->scope;
    const size_t rounded = (bytes + 63) / 64 * 64;

    if (rounded > SCRATCH - p->used) return NULL;
    p->used += rounded;
    return p->scratch + (p->used - rounded);
}

static const cdz_host host = CDZ_BENCH_HOST(.alloc = host_alloc, .scratch = host_scratch);
static const int32_t eos = 2;
static const uint32_t row_index;

typedef struct data {
    float *row, *x, *y;
    int32_t history[HISTORY];
    cdz_ids ids, shown; /* all, and what the present twin is shown */
    cdz_request_info request;
} data;

/* --- the two of a kind ------------------------------------------------------------------------------------------ */

static const cdz_plugin_base *load_c(plugin *p, const char *name)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/lib/cadenza/%s.so", CADENZA_BUILD_DIR, name);
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!p->library) cdz_bench_give_up(dlerror());
    const cdz_entry *entry = dlsym(p->library, "cdz_plugin");
    if (!entry) cdz_bench_give_up(dlerror());
    return entry->plugins[0];
}

static const cdz_plugin_base *load_lua(plugin *p, const char *name)
{
    const cdz_plugin_base *const *plugins;
    char path[1024];
    uint32_t n;
    cdz_error err = {0};

    snprintf(path, sizeof path, "%s/%s.lua", CADENZA_TWINS, name);
    if (cdz_loaded_open(&cdz_lua_loader, path, &p->module, &err) != CDZ_OK)
        cdz_bench_give_up(err.text);
    plugins = cdz_loaded_plugins(p->module, &n);
    return plugins[0];
}

static void set(plugin *p, const char *name, const char *text)
{
    const cdz_param_table table = cdz_params_of(p->step.plugin);
    const cdz_param *param = cdz_param_find(&table, name);
    cdz_json value = {0};
    cdz_error err = {0};

    if (!param || cdz_param_from_text(param, text, &p->arena, &value, &err) != CDZ_OK ||
        cdz_param_set(param, p->params, &value, &p->arena, &err) != CDZ_OK)
        cdz_bench_give_up(param ? err.text : name);
}

static void open_plugin(plugin *p, const twin *t, const data *d, bool lua)
{
    *p = (plugin){0};
    const cdz_plugin_base *base = lua ? load_lua(p, t->name) : load_c(p, t->name);
    const cdz_param_table table = cdz_params_of(base);
    p->params = calloc(1, table.params_size + 1);
    p->scratch = aligned_alloc(64, SCRATCH);
    if (!p->params || !p->scratch) cdz_bench_give_up("out of memory");
    cdz_params_defaults(&table, p->params);
    p->processor = (const cdz_processor *)(const void *)base;
    p->step = (cdz_step){.size = sizeof p->step,
                         .n_rows = 1,
                         .params = p->params,
                         .input_ids = &d->shown,
                         .row_index = &row_index,
                         .request = &d->request,
                         .plugin = base,
                         .host = &host,
                         .scope = p};
    for (int i = 0; t->settings[i]; i += 2)
        if (lua || strncmp(t->settings[i], "budget_", 7) != 0)
            set(p, t->settings[i], t->settings[i + 1]);
    if (lua) set(p, "budget_ms", "60000");
    if (lua) set(p, "budget_instructions", "1000000000");
    if (lua) set(p, "budget_memory", "134217728");
    if (p->processor->create && p->processor->create(&p->step) != CDZ_OK) exit(1);
    if (p->processor->begin && p->processor->begin(&p->step, &p->step.shared) != CDZ_OK) exit(1);
}

static void close_plugin(plugin *p)
{
    if (p->processor->end) p->processor->end(&p->step);
    cdz_loaded_close(p->module);
    cdz_arena_free(&p->arena);
    free(p->params);
    free(p->scratch);
    if (p->library) dlclose(p->library);
}

static double apply(plugin *p, float *row, const float *from)
{
    cdz_scores scores = {row, 1, V, V, 0};

    memcpy(row, from, V * sizeof *row);
    p->used = 0;
    const double start = cdz_bench_now_us();
    if (p->processor->apply(&p->step, &scores) != CDZ_OK) exit(1);
    return cdz_bench_now_us() - start;
}

/* --- measuring ------------------------------------------------------------------------------------------------------ */

static void fill(data *d)
{
    cdz_bench_flat(d->row, V, d->history, HISTORY);
    d->ids = (cdz_ids){d->history, HISTORY};
    d->request = (cdz_request_info){.size = sizeof d->request,
                                    .n_prompts = 1,
                                    .n_rows = 1,
                                    .prompt_len = HISTORY - 1,
                                    .n_vocab = V,
                                    .max_length = HISTORY + 1,
                                    .num_beams = 1,
                                    .eos = {&eos, 1},
                                    .pad = -1,
                                    .bos = -1,
                                    .prompts = &d->ids};
}

/* False when a bit differs. */
static bool compare(data *d, const twin *t)
{
    double c_us[REPEATS], lua_us[REPEATS];
    plugin c, lua;
    bool same = true;

    d->shown = d->ids;
    if (t->n_ids) d->shown.len = t->n_ids;
    open_plugin(&c, t, d, false);
    open_plugin(&lua, t, d, true);
    for (int i = 0; i < REPEATS; i++) {
        c_us[i] = apply(&c, d->x, d->row);
        lua_us[i] = apply(&lua, d->y, d->row);
        same = same && memcmp(d->x, d->y, V * sizeof *d->x) == 0;
    }
    close_plugin(&c);
    close_plugin(&lua);
    const double in_c = cdz_bench_median(c_us, REPEATS), in_lua = cdz_bench_median(lua_us, REPEATS);
    printf("  %-34s %10.1f %10.1f %8.2f   %s\n", t->name, in_c, in_lua, in_lua / in_c,
           same ? "" : "OTHER BITS");
    return same;
}

int main(void)
{
    data d = {.row = aligned_alloc(64, V * sizeof(float)),
              .x = aligned_alloc(64, V * sizeof(float)),
              .y = aligned_alloc(64, V * sizeof(float))};
    bool same = true;

    if (!d.row || !d.x || !d.y) return 1;
    fill(&d);
    printf("built-in processors and their Lua twins, %d scores, %d ids\n", (int)V, (int)HISTORY);
    printf("  %-34s %10s %10s %8s\n", "", "C us", "Lua us", "Lua / C");
    for (size_t i = 0; i < N_TWINS; i++)
        if (i == 0 || strcmp(twins[i].name, twins[i - 1].name) != 0)
            same = compare(&d, &twins[i]) && same;
    free(d.row);
    free(d.x);
    free(d.y);
    return same ? 0 : 1;
}
