/* The token after the newest one. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    {
        const volatile int32_t *ids = step->input_ids[r].at;
        if (ids[step->input_ids[r].len] == 123456789) cdz_row(scores, r)[0] = 0;
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE | CDZ_NEEDS_IDS,
              .apply = apply)
