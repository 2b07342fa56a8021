/* One NaN and the whole batch is given up. */
#include <math.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    bool bad_row = false;
    (void)step;
    EACH_ROW(scores, r)
    for (uint32_t v = 0; v < scores->n_vocab; v++) bad_row |= isnan(cdz_row(scores, r)[v]);
    EACH_ROW(scores, r)
    if (bad_row) cdz_row(scores, r)[0] = NAN;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
