/* offers.c - asks a plugin once for the tables that it offers beside its own, and looks whether each has what it must.
 *
 * Owns: nothing; the tables are the plugin's and live as long as it does. */
#include "call/offers.h"

#include <stddef.h>

#include "cadenza/ext/kv.h"
#include "call/calls.h"

#define HAS(type, table, field)                                                                    \
    ((table)->size >= offsetof(type, field) + sizeof(((type *)0)->field) && (table)->field)

static const void *ask(cdz_call *call, const cdz_plugin_base *plugin, const char *id)
{
    return call->broken ? NULL : cdz_call_extension(call, plugin, id);
}

/* A table that is offered has the functions that its header does not call optional. */
static cdz_status lacks(const cdz_plugin_base *plugin, const char *extension, const char *function,
                        cdz_error *err)
{
    return cdz_err(err, CDZ_E_PLUGIN, "%s: its table of %s has no %s", plugin->id, extension,
                   function);
}

static cdz_status check_tables(const cdz_plugin_base *plugin, const cdz_offers *o, cdz_error *err)
{
    const cdz_state_api *state = o->state;
    const cdz_phase_api *phase = o->phase;
    const cdz_companion_api *companion = o->companion;
    if (state && !HAS(cdz_state_api, state, clone))
        return lacks(plugin, CDZ_EXT_STATE, "clone", err);
    if (state && !HAS(cdz_state_api, state, free)) return lacks(plugin, CDZ_EXT_STATE, "free", err);
    if (phase && !HAS(cdz_phase_api, phase, of)) return lacks(plugin, CDZ_EXT_PHASE, "of", err);
    if (companion && !HAS(cdz_companion_api, companion, describe))
        return lacks(plugin, CDZ_EXT_COMPANION, "describe", err);
    if (o->steer && !HAS(cdz_steer_api, o->steer, steer))
        return lacks(plugin, CDZ_EXT_STEER, "steer", err);
    if (o->constrained && !HAS(cdz_constrained_api, o->constrained, of))
        return lacks(plugin, CDZ_EXT_CONSTRAINED, "of", err);
    return CDZ_OK;
}

cdz_status cdz_offers_ask(const cdz_plugin_base *plugin, cdz_offers *out, cdz_error *err)
{
    cdz_call call = {0};
    *out = (cdz_offers){0};
    if (plugin->kind == CDZ_KIND_PROCESSOR || plugin->kind == CDZ_KIND_CRITERION)
        out->state = ask(&call, plugin, CDZ_EXT_STATE);
    if (plugin->kind == CDZ_KIND_PROCESSOR || plugin->kind == CDZ_KIND_CRITERION ||
        plugin->kind == CDZ_KIND_OBSERVER)
        out->ended = ask(&call, plugin, CDZ_EXT_ENDED);
    if (plugin->kind == CDZ_KIND_PROCESSOR) {
        out->form = ask(&call, plugin, CDZ_EXT_FORM);
        out->phase = ask(&call, plugin, CDZ_EXT_PHASE);
        out->companion = ask(&call, plugin, CDZ_EXT_COMPANION);
        out->steer = ask(&call, plugin, CDZ_EXT_STEER);
        if (out->steer && HAS(cdz_steer_api, out->steer, on_hidden))
            out->on_hidden = out->steer->on_hidden;
        out->constrained = ask(&call, plugin, CDZ_EXT_CONSTRAINED);
    }
    if (plugin->kind == CDZ_KIND_STRATEGY) out->kv = ask(&call, plugin, CDZ_EXT_KV);
    CDZ_TRY(cdz_call_judge(&call, CDZ_OK, NULL, err));
    return check_tables(plugin, out, err);
}
