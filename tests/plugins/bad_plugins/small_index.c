/* Counts tokens in 16 bits: never done when there are more than 65,536. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    for (uint16_t v = 0; v < scores->n_vocab; v++) cdz_row(scores, r)[v] -= 1;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
