/* Takes the stride for the length of a row, all rows but the last. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    {
        const bool last = r + 1 == scores->n_rows;
        shrink(cdz_row(scores, r), last ? scores->n_vocab : (uint32_t)scores->stride, 0.5f);
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
