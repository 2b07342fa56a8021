/* observer.h - observers: they watch a request and change nothing: traces, statistics, plots.
 *
 * The host calls an observer for everything that a decode loop does, with every strategy: scores before and after the
 * processors, tokens, ends, tokens taken back. An observer cannot change anything. When one of its calls fails, the error
 * goes to the log as a warning, the observer is not called again for this request, and the request continues without it.
 *
 * Scenario. `observers = ID` in [pipeline]; several are called in the order of the list. A request's calls:
 *
 *     begin -> { stage*, scores, token, stop, rewind, reorder }* -> end
 *
 * Rows. step->n_rows, row_index and input_ids say which rows a call is about. `stage` and `scores` are also called for
 * histories that may be rejected (drafts, candidates of a search, guidance for a prefix): input_ids are the ids
 * before the scores, row_index the row that they continue. `token` and the calls below it are about the rows themselves.
 *
 * All functions but create are [engine], one at a time for a request. Calls for other requests may come between two calls,
 * on the same thread. They may allocate, but not block: the models wait. `shared` belongs to the
 * request and may be written. Pointers are borrowed until the call returns. */
#ifndef CADENZA_OBSERVER_H
#define CADENZA_OBSERVER_H

#include "criterion.h"

/* Read-only score rows: row i is before[i][0 .. n_vocab), after[i] the same row later. */
typedef struct cdz_seen {
    uint32_t size;              /* of this struct */
    uint32_t n_vocab;           /* columns; for rows of a draft model, those of its vocabulary */
    const float *const *before; /* (step->n_rows) */
    const float *const *after;  /* (step->n_rows); the same pointers when nothing ran in between */
} cdz_seen;

typedef struct cdz_observer {
    cdz_plugin_base base;
    uint32_t caps; /* none yet: 0 */

    cdz_status (*create)(const cdz_step *step); /* [load] Optional, as in processor.h */
    /* All of the following are optional. *shared: request-lifetime data from cdz_alloc, later step->shared. n_rows is 0. */
    cdz_status (*begin)(const cdz_step *step, void **shared);
    /* One processor, `by`, is done with these rows. It costs a copy of each row for each processor. */
    cdz_status (*stage)(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen);
    /* All processors are done: `before` are the model's logits (or what the strategy made of them), `after` the scores.
     * It costs a copy of each row. */
    cdz_status (*scores)(const cdz_step *step, const cdz_seen *seen);
    /* This token was appended to the row; input_ids includes it. Not called for the pads of finished rows. */
    cdz_status (*token)(const cdz_step *step, int32_t token);
    /* The row ended, or, with beam search, this is an answer of the request: input_ids holds all of it. */
    cdz_status (*stop)(const cdz_step *step, const cdz_stop *stop);
    /* The row's last n tokens were taken back; input_ids holds the rest. A row that had ended runs again. */
    cdz_status (*rewind)(const cdz_step *step, uint32_t n);
    /* Every row r of the request became a copy of the former row parents[r]. input_ids holds the new rows. */
    cdz_status (*reorder)(const cdz_step *step, const uint32_t *parents);
    void (*end)(const cdz_step *step); /* n_rows is 0 */
} cdz_observer;

#define CDZ_OBSERVER_BASE .size = sizeof(cdz_observer), .kind = CDZ_KIND_OBSERVER

#endif
