/* Lowers tokens of the history, and the neighbours of the best one. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    {
        float *row = cdz_row(scores, r);
        uint32_t best = 0;
        for (uint32_t v = 1; v < scores->n_vocab; v++)
            if (row[v] > row[best]) best = v;
        row[best] -= 1;
        row[step->input_ids[r].at[0]] -= 1;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)},
              .caps = CDZ_ROWWISE | CDZ_NEEDS_IDS | CDZ_HISTORY_SPARSE, .apply = apply)
