/* The answer depends on how often it was asked. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    static uint32_t calls;
    (void)step;
    calls++;
    EACH_ROW(scores, r) cdz_row(scores, r)[0] = (float)calls;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
