/* processor.h - logits processors: edit the scores of the next token, in place, all rows at once.
 *
 * Order of calls: create (once per pipeline) -> begin (once per request) -> { apply, accept }* -> end.
 * apply also runs on draft rows and on prefixes that are rejected later, so it may change only the scores. Only accept
 * writes row state, when a token became part of a row. */
#ifndef CADENZA_PROCESSOR_H
#define CADENZA_PROCESSOR_H

#include "plugin.h"

/* Declarations on which the host relies to do less work; cadenza plugin test checks them. */
typedef enum cdz_processor_cap {
    CDZ_NEEDS_IDS = 1u << 0, /* reads step->input_ids */
    CDZ_ROWWISE =
        1u << 1, /* a row's result depends on that row alone: rows may run on several threads */
    CDZ_ELEMENTWISE = 1u << 2,  /* an element's result depends on that element alone */
    CDZ_KEEPS_ARGMAX = 1u << 3, /* never changes which token is best: greedy may skip it */
    CDZ_KEEPS_TOP =
        1u << 4, /* masks everything but a top segment of the row and changes no other score */
    CDZ_HISTORY_SPARSE = 1u << 5, /* changes only scores of tokens in input_ids and a constant set */
    CDZ_NEEDS_NORMALISED = 1u << 6, /* needs log-probabilities as input */
    CDZ_SAMPLING_ONLY = 1u << 7,    /* a warper: the hf profile uses it only with do_sample */
} cdz_processor_cap;

typedef struct cdz_processor {
    cdz_plugin_base base;
    uint32_t caps; /* cdz_processor_cap */
    uint32_t state_size; /* bytes per row, zeroed at begin; plain data without pointers: the host copies it on fork */

    /* [load] Optional. Refuses parameters that ranges cannot express. step->request is NULL. */
    cdz_status (*create)(const cdz_step *step);
    /* [engine] Optional. True when the processor changes nothing with these parameters in this request: it is left out. */
    bool (*idle)(const cdz_step *step);
    /* [engine] Optional. *shared: request-lifetime data from cdz_alloc, later step->shared. n_rows is 0. */
    cdz_status (*begin)(const cdz_step *step, void **shared);
    /* [row when CDZ_ROWWISE, else engine; no-alloc] Edits scores, (n_rows, n_vocab), in place. */
    cdz_status (*apply)(const cdz_step *step, cdz_scores *scores);
    /* [engine, no-alloc] Optional. token was appended to row r of this step; may write step->row_state[r]. */
    cdz_status (*accept)(const cdz_step *step, uint32_t r, int32_t token);
    /* [engine] Optional. Memory from cdz_alloc is freed by the host afterwards. */
    void (*end)(const cdz_step *step);
    /* A number of your own for the meaning of the state_size bytes; 0: no promise. When a running request changes to
     * a new version of this plugin with the same number and size, its row states are kept. Otherwise the host calls the
     * new version's accept with each row's tokens again. */
    uint32_t state_version;
} cdz_processor;

#define CDZ_PROCESSOR_BASE .size = sizeof(cdz_processor), .kind = CDZ_KIND_PROCESSOR

#endif
