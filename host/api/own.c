/* own.c - cdz_runtime_add_plugin: plugins of the program itself, which the registry takes as linked in. */
#include <string.h>

#include "api/api.h"
#include "run/loop/own.h"

static cdz_status check_new(cdz_runtime *rt, const cdz_plugin_base *plugin, cdz_error *err)
{
    cdz_plugin_ref known = {0};
    if (cdz_registry_find(rt->registry, 0, plugin->id, &known, NULL) != CDZ_OK) return CDZ_OK;
    const bool taken = strcmp(known.base->id, plugin->id) == 0; /* not one that ends alike */
    cdz_module_release(known.module);
    if (!taken) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE, "cdz_runtime_add_plugin: there is a plugin \"%s\" already",
                   plugin->id);
}

/* A descriptor that the registry did not take stays in the list till the end. */
cdz_status cdz_runtime_add_plugin(cdz_runtime *rt, const cdz_plugin_base *plugin, cdz_error *err)
{
    cdz_mutex_lock(&rt->lock);
    const cdz_status status = cdz_own_open(plugin, &rt->own, err);
    const cdz_plugin_base *shown = status == CDZ_OK ? cdz_own_shown(rt->own) : NULL;
    cdz_mutex_unlock(&rt->lock);
    CDZ_TRY(status);
    CDZ_TRY(check_new(rt, plugin, err));
    return cdz_registry_add_linked(rt->registry, shown, err);
}
