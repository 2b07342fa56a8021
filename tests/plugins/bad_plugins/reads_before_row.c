/* Looks at the neighbour on the left, of the first element too. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    {
        volatile float *row = cdz_row(scores, r);
        for (uint32_t v = 0; v < scores->n_vocab; v++)
            if (row[(int64_t)v - 1] == 12345.678f) row[v] = 0;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
