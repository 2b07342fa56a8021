/* criterion.h - stopping criteria: they say, after each token, which rows are done and why.
 *
 * test may be asked about rows that do not exist yet (candidates of a beam, drafts), so it may not change
 * anything. step->input_ids include the newest token. Every criterion is asked; the first reason in list order counts. */
#ifndef CADENZA_CRITERION_H
#define CADENZA_CRITERION_H

#include "plugin.h"

typedef enum cdz_stop_reason {
    CDZ_GO_ON = 0,
    CDZ_STOP_EOS,    /* an end-of-sequence token */
    CDZ_STOP_LENGTH, /* max_length or max_new_tokens */
    CDZ_STOP_TIME,   /* max_time */
    CDZ_STOP_STRING, /* a stop string; text names it */
    CDZ_STOP_CUSTOM, /* text says why */
} cdz_stop_reason;

typedef struct cdz_stop {
    uint32_t reason; /* cdz_stop_reason; 0: go on */
    cdz_string text; /* the matched text or the reason's name; constant or request-lifetime memory */
} cdz_stop;

typedef enum cdz_criterion_cap {
    /* Stops at end-of-sequence tokens: if the list has such a criterion, finished rows of a batch are
     * filled with pad; otherwise they keep running, as in the reference. */
    CDZ_HAS_EOS = 1u << 16,
} cdz_criterion_cap;

typedef struct cdz_criterion {
    cdz_plugin_base base;
    uint32_t caps;       /* CDZ_NEEDS_IDS is implied; cdz_criterion_cap */
    uint32_t state_size; /* as in processor.h */

    cdz_status (*create)(const cdz_step *step);               /* [load] as in processor.h */
    bool (*idle)(const cdz_step *step);                       /* [engine] as in processor.h */
    cdz_status (*begin)(const cdz_step *step, void **shared); /* [engine] as in processor.h */
    /* [engine, no-alloc] stops[n_rows] arrive zeroed. */
    cdz_status (*test)(const cdz_step *step, cdz_stop *stops);
    cdz_status (*accept)(const cdz_step *step, uint32_t r,
                         int32_t token); /* [engine, no-alloc] as in processor.h */
    void (*end)(const cdz_step *step);   /* [engine] */
    uint32_t state_version;              /* as in processor.h */
} cdz_criterion;

#define CDZ_CRITERION_BASE .size = sizeof(cdz_criterion), .kind = CDZ_KIND_CRITERION

#endif
