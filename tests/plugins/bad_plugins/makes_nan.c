/* The mean over what is not masked, of a row with masks. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    {
        float sum = 0, *row = cdz_row(scores, r);
        for (uint32_t v = 0; v < scores->n_vocab; v++) sum += row[v];
        for (uint32_t v = 0; v < scores->n_vocab; v++) row[v] -= sum / (float)scores->n_vocab;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
