/* phases.h - [phase:NAME] sections (docs/phases.md): what they hold and how it is checked. Private to config/. */
#ifndef CDZ_HOST_CONFIG_PHASES_H
#define CDZ_HOST_CONFIG_PHASES_H

#include "config/link.h"

/* The processor that tells phases. */
#define CDZ_PHASES_ID "phases"

typedef enum cdz_phase_key {
    CDZ_PHASE_BEGIN,
    CDZ_PHASE_UNTIL,
    CDZ_PHASE_MAX_TOKENS,
    CDZ_PHASE_PROCESSORS,
    CDZ_PHASE_CHAIN,
    CDZ_N_PHASE_KEYS,
} cdz_phase_key;
enum {
    CDZ_N_PHASE_VALUES = CDZ_PHASE_PROCESSORS
}; /* keys before this one have a value of their own */

struct cdz_phase_part {
    const char *name, *section;
    cdz_origin origin;                   /* of the section */
    cdz_json values[CDZ_N_PHASE_VALUES]; /* null: unset */
    cdz_slot_value *generation;          /* lowest source first */
    uint32_t n_generation;
    cdz_parts processors, chain;
};

/* "NAME" of "phase:NAME", or NULL. */
const char *cdz_phase_name(const char *section);
/* One of the keys above, or -1. */
int cdz_phase_key_of(const char *name);
/* The row of the generation table that a phase may set by this name, or -1 with the reason in err. names: others for them,
 * as in [names]. */
int cdz_phase_slot(const cdz_sources *names, const char *name, cdz_error *err);
/* Is this a value for `begin`, `until` or `max_tokens`? null is. */
cdz_status cdz_phase_check_value(cdz_phase_key key, const cdz_json *value, cdz_arena *arena,
                                 cdz_error *err);

#endif
