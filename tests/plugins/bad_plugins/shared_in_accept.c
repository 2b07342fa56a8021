/* Counts tokens in what begin made: rows that part go on counting together. */
#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(uint32_t));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "out of memory");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r) cdz_row(scores, r)[0] = (float)*(const uint32_t *)step->shared;
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)r, (void)token;
    *(uint32_t *)step->shared += 1;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .begin = begin,
              .apply = apply, .accept = accept)
