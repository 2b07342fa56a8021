/* Reads input_ids without CDZ_NEEDS_IDS. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r) cdz_row(scores, r)[step->input_ids[r].at[0]] -= 1;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
