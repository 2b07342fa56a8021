/* drafter.h - drafters: they propose the tokens that come next, so that the model can verify several in one pass
 * (speculative decoding).
 *
 * A wrong proposal only costs time: the strategy lets the model decide about every token. So a drafter must be fast
 * rather than right, and a faulty one makes decoding slow, not wrong.
 *
 *     propose   the row holds `history`; give up to `room` tokens that may follow it
 *     judged    the number of them that were right; the row is about to take these, and one token of the model
 *
 * Scenario. The strategy calls cdz_propose(dec, row, &draft), which asks the drafter of the pipeline
 * (`drafter = ID` in [pipeline]). It lets the model score the history and the proposals in one pass, keeps the longest
 * prefix of proposals that the model agrees with, and calls cdz_judged(dec, row, n), which tells the drafter.
 *
 * Order of calls: create (once per pipeline) -> begin (once per request) -> { propose, judged }* -> end. All but create
 * are [engine], on the strategy's fibre. propose may call every function of strategy.h that does not change the request's
 * rows: it may make sequences on any of the request's models, run forward passes, draw from the request's random stream. */
#ifndef CADENZA_DRAFTER_H
#define CADENZA_DRAFTER_H

#include "strategy.h"

typedef enum cdz_drafter_cap {
    /* Its tokens are not drawn. A strategy that draws does so for one of them after the other, and for none behind the first that
     * is wrong: a draft then changes no draw of the request's stream, and sampled tokens are those of sampling without drafts. Without
     * it all positions of a draft are drawn for, as the reference does. */
    CDZ_DRAWS_IN_TURN = 1u << 0,
} cdz_drafter_cap;

typedef struct cdz_drafter {
    cdz_plugin_base base;
    uint32_t caps; /* cdz_drafter_cap */

    cdz_status (*create)(const cdz_step *step); /* [load] Optional, as in processor.h */
    /* Optional. *shared: request-lifetime data from cdz_alloc, later step->shared. */
    cdz_status (*begin)(cdz_decoder *dec, const cdz_step *step, void **shared);
    /* Fills draft->tokens and, if it drew them, draft->scores. It may propose no tokens. draft->tokens may point to
     * memory of cdz_scratch or of the drafter: the host copies them. */
    cdz_status (*propose)(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft);
    /* Optional. Of n_proposed tokens the first n_accepted were right. Called after every successful propose, also
     * when nothing was proposed. */
    cdz_status (*judged)(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted);
    void (*end)(const cdz_step *step); /* Optional. */
} cdz_drafter;

/* transformers' ConfidenceCriteria: whether a draft ends after a token to which the draft model gave this probability. */
static inline bool cdz_draft_doubted(float prob, double threshold)
{
    return prob < (float)threshold;
}

#define CDZ_DRAFTER_BASE .size = sizeof(cdz_drafter), .kind = CDZ_KIND_DRAFTER

#endif
