/* observer.h - observers: watch a request and change nothing: traces, statistics, pictures of what processors do.
 *
 * An observer hears of everything a decode loop does, whatever the strategy: scores before and after the processors,
 * tokens, ends, tokens taken back. It has no way to answer. When one of its calls fails, the sentence goes to the log as
 * a warning, the observer hears no more of this request, and the request goes on as if it had never been there.
 *
 * Scenario. `observers = ID` in [pipeline]; several are called in the order of the list. A request's calls:
 *
 *     begin -> { stage*, scores, token, stop, rewind, reorder }* -> end
 *
 * Rows. step->n_rows, row_index and input_ids say which rows a call is about. `stage` and `scores` are called for
 * histories that may never become a row's (drafts, candidates of a search, guidance asked for a prefix): input_ids is
 * what the scores follow, row_index the row that it continues. `token` and what follows it are about the rows themselves.
 *
 * All functions but create are [engine], one at a time for a request; other requests use the same plugin at the same
 * time on the same thread, between two calls. They may allocate, but not block: the models wait. `shared` is the
 * request's and may be written. Pointers are borrowed until the call returns. */
#ifndef CADENZA_OBSERVER_H
#define CADENZA_OBSERVER_H

#include "criterion.h"

/* Score rows that nobody may write: row i is before[i][0 .. n_vocab), after[i] the same row later. */
typedef struct cdz_seen {
    uint32_t size;    /* of this struct */
    uint32_t n_vocab; /* columns; of a draft model's vocabulary where it is asked about one */
    const float *const *before; /* (step->n_rows) */
    const float *const *after;  /* (step->n_rows); the same pointers when nothing ran in between */
} cdz_seen;

typedef struct cdz_observer {
    cdz_plugin_base base;
    uint32_t caps; /* none yet: 0 */

    cdz_status (*create)(const cdz_step *step); /* [load] Optional, as in processor.h */
    /* Optional, each of them. *shared: request-lifetime data from cdz_alloc, later step->shared. n_rows is 0. */
    cdz_status (*begin)(const cdz_step *step, void **shared);
    /* One processor, `by`, is done with these rows. Costs a copy of each row and processor. */
    cdz_status (*stage)(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen);
    /* All processors are done: before are the model's logits (or what the strategy made of them), after the scores.
     * Costs a copy of each row. */
    cdz_status (*scores)(const cdz_step *step, const cdz_seen *seen);
    /* The row got this token; input_ids holds it. Not called for the pad that fills rows which have ended. */
    cdz_status (*token)(const cdz_step *step, int32_t token);
    /* The row ended, or, of searches, this is an answer of the request: input_ids holds it whole. */
    cdz_status (*stop)(const cdz_step *step, const cdz_stop *stop);
    /* The row's last n tokens are gone, input_ids shows what is left. It may have ended before: now it goes on. */
    cdz_status (*rewind)(const cdz_step *step, uint32_t n);
    /* Every row r of the request became a copy of what row parents[r] was. input_ids holds the new rows. */
    cdz_status (*reorder)(const cdz_step *step, const uint32_t *parents);
    void (*end)(const cdz_step *step); /* n_rows is 0 */
} cdz_observer;

#define CDZ_OBSERVER_BASE .size = sizeof(cdz_observer), .kind = CDZ_KIND_OBSERVER

#endif
