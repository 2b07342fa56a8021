/* verdict.c - how a call of a plugin went, in one sentence. The only place that words it. */
#include "call/guard.h"

cdz_status cdz_call_fault(const cdz_call *c, cdz_status returned, const cdz_error *said,
                          cdz_error *err)
{
    const unsigned code = (unsigned)returned;
    if (c->broken) return cdz_err(err, CDZ_E_PLUGIN, "%s %s", c->function, c->broken);
    if (returned == CDZ_OK) return CDZ_OK;
    if (code > CDZ_E_INTERNAL)
        return cdz_err(err, CDZ_E_PLUGIN, "%s returned %u, which is no status", c->function, code);
    if (!said || said->code == CDZ_OK)
        return cdz_err(err, CDZ_E_PLUGIN, "%s failed (%s) without saying why", c->function,
                       cdz_status_text(returned));
    return CDZ_OK;
}

/* The fault of a call, as everybody is told; CDZ_OK: it has none, and the plugin said why it failed. */
static cdz_status tell_fault(const cdz_call *c, cdz_status returned, const cdz_error *said,
                             cdz_error *err)
{
    cdz_error fault;
    if (cdz_call_fault(c, returned, said, &fault) == CDZ_OK) return CDZ_OK;
    return cdz_err(err, CDZ_E_PLUGIN, "%s: %s", c->plugin->id, fault.text);
}

cdz_status cdz_call_overstepped(const cdz_call *c, cdz_status returned, const cdz_error *said,
                                cdz_error *err)
{
    CDZ_TRY(tell_fault(c, returned, said, err));
    return cdz_err(err, CDZ_E_PLUGIN, "%s: %s failed (%s): %s", c->plugin->id, c->function,
                   cdz_status_text(returned), said->text);
}

cdz_status cdz_call_failed(const cdz_call *c, cdz_status returned, const cdz_error *said,
                           cdz_error *err)
{
    CDZ_TRY(tell_fault(c, returned, said, err));
    return cdz_err(err, returned, "%s: %s", c->plugin->id, said->text);
}
