/* Each score is taken from the one before it. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    for (uint32_t v = scores->n_vocab; v > 1; v--)
        if (cdz_row(scores, r)[v - 2] > 0) cdz_row(scores, r)[v - 1] *= 0.5f;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE,
              .apply = apply)
