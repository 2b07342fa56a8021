/* Never comes back. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    volatile bool waiting = true;
    (void)step, (void)scores;
    while (waiting) {
    }
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
