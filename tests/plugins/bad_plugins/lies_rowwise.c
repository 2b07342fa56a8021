/* Adds the mean of the batch to every row. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    float sum = 0;
    (void)step;
    EACH_ROW(scores, r) sum += cdz_row(scores, r)[0];
    EACH_ROW(scores, r) cdz_row(scores, r)[0] += sum;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
