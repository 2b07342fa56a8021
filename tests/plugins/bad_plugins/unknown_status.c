/* true is no status, and neither is -1. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return (cdz_status)77;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
