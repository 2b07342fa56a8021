/* Sorts the history where it lies; here, one pair of it, and back. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    {
        volatile int32_t *ids = (volatile int32_t *)(uintptr_t)step->input_ids[r].at;
        const int32_t first = ids[0];
        ids[0] = 0;
        ids[0] = first;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE | CDZ_NEEDS_IDS,
              .apply = apply)
