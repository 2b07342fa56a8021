/* scheduling.c - which scheduler a runtime has: found by its id, with its parameters.
 *
 * Owns: the parameters, and a hold of the file that the scheduler is in. Not: asking it (run/engine/referee.h). */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "cadenza/scheduler.h"
#include "call/outside.h"
#include "params/params.h"
#include "params/settings.h"

static cdz_status set_one(cdz_scheduling *s, const cdz_param_table *table, const char *text,
                          cdz_error *err)
{
    const char *id = s->plugin.base->id, *equals = strchr(text, '=');
    char near[80];
    if (!equals || equals == text)
        return cdz_err(err, CDZ_E_USAGE, "scheduler %s: '%.60s': expected NAME=VALUE", id, text);
    const char *name = cdz_arena_strndup(&s->arena, text, (size_t)(equals - text));
    if (!name) return cdz_err_memory(err, "the scheduler");
    const cdz_param *param = cdz_param_find(table, name);
    cdz_param_suggest(table, name, near, sizeof near);
    if (!param)
        return cdz_err(err, CDZ_E_USAGE, "scheduler %s: no parameter '%.40s'%s", id, name, near);
    cdz_json value;
    cdz_status status = cdz_param_from_text(param, equals + 1, &s->arena, &value, err);
    if (status == CDZ_OK)
        status = cdz_param_set(param, (void *)(uintptr_t)s->params, &value, &s->arena, err);
    if (status != CDZ_OK && err) return cdz_err_prefix(err, "scheduler %s: %s", id, name);
    return status;
}

static cdz_status set_params(cdz_scheduling *s, const cdz_options *options, cdz_error *err)
{
    const cdz_param_table table = cdz_params_of(s->plugin.base);
    void *params = cdz_arena_alloc(&s->arena, table.params_size);
    cdz_error why = {0};
    if (!params) return cdz_err_memory(err, "the scheduler");
    cdz_params_defaults(&table, params);
    s->params = params;
    for (uint32_t i = 0; i < options->n_scheduler_params; i++)
        CDZ_TRY(set_one(s, &table, options->scheduler_params[i], err));
    const cdz_status status = cdz_call_create_plugin(
        s->plugin.base, params, cdz_module_data(s->plugin.module), &s->arena, &why);
    if (status == CDZ_OK) return CDZ_OK;
    return cdz_err(err, status, "scheduler %s: %s", s->plugin.base->id, why.text);
}

/* Where nobody said one and the built-in ones are not there, the engine has an order of its own. */
cdz_status cdz_scheduling_open(cdz_runtime *rt, const cdz_options *options, cdz_error *err)
{
    cdz_scheduling *s = &rt->scheduling;
    cdz_error why = {0};
    const char *id = cdz_settings_scheduler(options->scheduler);
    const cdz_status found =
        cdz_registry_find(rt->registry, CDZ_KIND_SCHEDULER, id, &s->plugin, &why);
    if (found == CDZ_OK) return set_params(s, options, err);
    s->plugin = (cdz_plugin_ref){0};
    if (found == CDZ_E_NOT_FOUND && !options->scheduler && !options->n_scheduler_params)
        return CDZ_OK;
    return cdz_err(err, found == CDZ_E_NOT_FOUND ? CDZ_E_USAGE : found, "scheduler: %s", why.text);
}

void cdz_scheduling_close(cdz_scheduling *s)
{
    cdz_module_release(s->plugin.module);
    cdz_arena_free(&s->arena);
    *s = (cdz_scheduling){0};
}

const char *cdz_scheduler_id(const cdz_runtime *runtime)
{
    return runtime->scheduling.plugin.base ? runtime->scheduling.plugin.base->id : NULL;
}

bool cdz_scheduler_has_priorities(const cdz_runtime *runtime)
{
    const cdz_scheduler *scheduler = (const void *)runtime->scheduling.plugin.base;
    return scheduler && scheduler->caps & CDZ_HAS_PRIORITIES;
}
