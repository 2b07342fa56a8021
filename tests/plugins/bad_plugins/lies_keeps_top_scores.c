/* Masks below a cut, as promised, and doubles the rest, as not promised. */
#include <math.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    for (uint32_t v = 0; v < scores->n_vocab; v++)
        cdz_row(scores, r)[v] = cdz_row(scores, r)[v] < 1 ? -INFINITY : 2 * cdz_row(scores, r)[v];
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE | CDZ_KEEPS_TOP,
              .apply = apply)
