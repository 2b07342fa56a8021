/* Counts tokens in a static variable: every request adds to every other's. */
#include "bad.h"

static uint32_t accepted;

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r) cdz_row(scores, r)[0] = (float)accepted;
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)step, (void)r, (void)token;
    accepted++;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply,
              .accept = accept)
