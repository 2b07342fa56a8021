/* Raises the row until its first score is positive: NaN never is. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    {
        volatile float *row = cdz_row(scores, r);
        while (!(row[0] > -100.0f) && row[0] != row[0]) row[0] += 1;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
