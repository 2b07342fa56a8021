/* offers.c - see offers.h. */
#include "call/offers.h"

#include "call/calls.h"

static const void *ask(cdz_call *call, const cdz_plugin_base *plugin, const char *id)
{
    return call->broken ? NULL : cdz_call_extension(call, plugin, id);
}

cdz_status cdz_offers_ask(const cdz_plugin_base *plugin, cdz_offers *out, cdz_error *err)
{
    cdz_call call = {0};
    *out = (cdz_offers){0};
    if (plugin->kind == CDZ_KIND_PROCESSOR || plugin->kind == CDZ_KIND_CRITERION)
        out->state = ask(&call, plugin, CDZ_EXT_STATE);
    if (plugin->kind == CDZ_KIND_PROCESSOR) {
        out->form = ask(&call, plugin, CDZ_EXT_FORM);
        out->phase = ask(&call, plugin, CDZ_EXT_PHASE);
        out->companion = ask(&call, plugin, CDZ_EXT_COMPANION);
    }
    return cdz_call_judge(&call, CDZ_OK, NULL, err);
}
