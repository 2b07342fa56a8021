/* drafter.h - drafters: guess the tokens that come next, so that the model can judge several in one pass.
 *
 * A guess costs nothing but time when it is wrong: whatever a drafter says, the strategy that asked lets the model
 * decide. A drafter therefore has to be quick rather than right, and a broken one makes decoding slow, not wrong.
 *
 *     propose   the row holds `history`; name up to `room` tokens that may follow it
 *     judged    so many of them were right; the row is about to take those, and one token of the model's own
 *
 * Scenario. The strategy calls cdz_propose(dec, row, &draft), which asks the drafter of the pipeline
 * (`drafter = ID` in [pipeline]); it has the model score the history and the proposals in one pass, keeps the longest
 * beginning that it agrees with, and tells the drafter with cdz_judged(dec, row, n).
 *
 * Order of calls: create (once per pipeline) -> begin (once per request) -> { propose, judged }* -> end. All but create
 * are [engine], on the strategy's fibre. propose may use every verb of strategy.h that does not change the request's
 * rows: sequences of its own on any of the request's models, forward passes, draws from the request's stream. */
#ifndef CADENZA_DRAFTER_H
#define CADENZA_DRAFTER_H

#include "strategy.h"

typedef struct cdz_drafter {
    cdz_plugin_base base;
    uint32_t caps; /* none yet: 0 */

    cdz_status (*create)(const cdz_step *step); /* [load] Optional, as in processor.h */
    /* Optional. *shared: request-lifetime data from cdz_alloc, later step->shared. */
    cdz_status (*begin)(cdz_decoder *dec, const cdz_step *step, void **shared);
    /* Fills draft->tokens and, where it drew them, draft->scores. No tokens is a fine answer. draft->tokens may point to
     * memory of cdz_scratch or of the drafter's own: the host copies them. */
    cdz_status (*propose)(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft);
    /* Optional. Of n_proposed tokens the first n_accepted were right. Comes after every propose that went well, also
     * when nothing was proposed. */
    cdz_status (*judged)(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted);
    void (*end)(const cdz_step *step); /* Optional. */
} cdz_drafter;

/* transformers' ConfidenceCriteria: does a draft end behind a token that the draft model gave this probability? */
static inline bool cdz_draft_doubted(float prob, double threshold)
{
    return prob < (float)threshold;
}

#define CDZ_DRAFTER_BASE .size = sizeof(cdz_drafter), .kind = CDZ_KIND_DRAFTER

#endif
