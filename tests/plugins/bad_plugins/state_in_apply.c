/* apply keeps the best token it has seen; only accept may write. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    *(uint32_t *)step->row_state[r] += 1;
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)step, (void)r, (void)token;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .state_size = 16,
              .apply = apply, .accept = accept)
