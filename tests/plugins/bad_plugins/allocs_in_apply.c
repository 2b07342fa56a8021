/* cdz_alloc outside create and begin. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    uint32_t *count = cdz_alloc(step, sizeof *count);
    if (count) cdz_row(scores, 0)[0] = 0;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
