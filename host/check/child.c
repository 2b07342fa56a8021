/* child.c - the inside of a check's process: opening the plugin, saying the verdict. */
#include "check/child.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/plugins.h"
#include "plug/module.h"

/* --- verdicts --------------------------------------------------------------------------------------------- */

static void judged(cdz_child *c, cdz_check_state state, const char *fmt, va_list args)
    CDZ_PRINTF(3, 0);

static void judged(cdz_child *c, cdz_check_state state, const char *fmt, va_list args)
{
    vsnprintf(c->verdict->detail, sizeof c->verdict->detail, fmt, args);
    c->verdict->state = (int)state;
}

cdz_check_state cdz_fail_check(cdz_child *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    judged(c, CDZ_CHECK_FAILED, fmt, args);
    va_end(args);
    return CDZ_CHECK_FAILED;
}

cdz_check_state cdz_skip_check(cdz_child *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    judged(c, CDZ_CHECK_SKIPPED, fmt, args);
    va_end(args);
    return CDZ_CHECK_SKIPPED;
}

/* The verdict is given when the check returns: until then the process may still die. */
cdz_check_state cdz_pass_check(cdz_child *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->verdict->detail, sizeof c->verdict->detail, fmt, args);
    va_end(args);
    return CDZ_CHECK_OK;
}

void cdz_check_note(cdz_child *c, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->verdict->note, sizeof c->verdict->note, fmt, args);
    va_end(args);
}

/* --- opening ---------------------------------------------------------------------------------------------- */

/* Every plugin of the file. */
static cdz_status open_path(cdz_child *c, cdz_plugin_ref *found, uint32_t *n, cdz_error *err)
{
    cdz_plugin_ref first;
    CDZ_TRY(cdz_registry_load(c->registry, c->options->what, 0, &first, err));
    const uint32_t all = cdz_module_count(first.module);
    for (; *n < all && *n < CDZ_CHECK_MAX_PLUGINS; (*n)++) {
        found[*n] = (cdz_plugin_ref){cdz_module_plugin(first.module, *n), first.module};
        cdz_module_retain(first.module);
    }
    cdz_module_release(first.module);
    return CDZ_OK;
}

/* One id may name a processor and a strategy. */
static cdz_status open_id(cdz_child *c, cdz_plugin_ref *found, uint32_t *n, cdz_error *err)
{
    for (uint32_t kind = CDZ_KIND_PROCESSOR; cdz_kind_name(kind); kind++)
        if (cdz_registry_find(c->registry, kind, c->options->what, &found[*n], NULL) == CDZ_OK)
            (*n)++;
    if (*n > 0) return CDZ_OK;
    return cdz_registry_find(c->registry, 0, c->options->what, &found[0], err);
}

cdz_status cdz_child_open(cdz_child *c, cdz_plugin_ref *found, uint32_t *n, cdz_error *err)
{
    const cdz_check_options *o = c->options;
    *n = 0;
    CDZ_TRY(cdz_plugins_open(&o->registry, o->plugins, o->n_plugins, &c->registry, err));
    return o->is_path ? open_path(c, found, n, err) : open_id(c, found, n, err);
}

void cdz_child_close(cdz_child *c)
{
    cdz_module_release(c->ref.module);
    cdz_registry_free(c->registry);
    cdz_arena_free(&c->memory);
    c->ref = (cdz_plugin_ref){0};
    c->registry = NULL;
}

/* --- random numbers: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) --- */

uint64_t cdz_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint32_t cdz_random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((cdz_random(state) >> 32) * n >> 32);
}

double cdz_random_unit(uint64_t *state)
{
    return (double)(cdz_random(state) >> 11) * 0x1p-53;
}
