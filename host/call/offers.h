/* offers.h - what a plugin offers beyond its kind: its tables of extensions, asked for once.
 *
 * They are asked for when an instance of the plugin is made (config/plan.c), beside create, and not when a file is opened:
 * till then nothing of a plugin has run (cadenza/plugin.h), and a list of plugins stays one when a plugin is broken. From
 * there on they lie in the instance; nobody asks again. */
#ifndef CDZ_HOST_CALL_OFFERS_H
#define CDZ_HOST_CALL_OFFERS_H

#include "base/error.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/constrained.h"
#include "cadenza/ext/ended.h"
#include "cadenza/ext/form.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/state.h"
#include "cadenza/ext/steer.h"

struct cdz_kv_api;

/* NULL: not offered. */
typedef struct cdz_offers {
    const cdz_state_api *state; /* of processors and criteria */
    const cdz_form_api *form;   /* of processors, as the next four */
    const cdz_phase_api *phase;
    const cdz_companion_api *companion;
    const cdz_steer_api *steer;
    cdz_on_hidden_fn *on_hidden; /* its own; NULL: an older table, or none */
    const cdz_constrained_api *constrained;
    const cdz_ended_api *ended;  /* of processors, criteria and observers */
    const struct cdz_kv_api *kv; /* of strategies: ext/kv.h */
} cdz_offers;

/* Fails where `extension` does something to the thread. Other kinds offer nothing that a host asks for. */
cdz_status cdz_offers_ask(const cdz_plugin_base *plugin, cdz_offers *out, cdz_error *err);

#endif
