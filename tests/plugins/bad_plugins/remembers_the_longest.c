/* Believes that rows only grow: what was longest once is how long it is. */
#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    *shared = cdz_alloc(step, sizeof(uint32_t));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "out of memory");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    {
        const uint32_t longest = *(const uint32_t *)step->shared, len = step->input_ids[r].len;
        cdz_row(scores, r)[0] = len < longest ? 1.0f : 2.0f;
    }
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    uint32_t *longest = step->shared;
    (void)token;
    if (step->input_ids[r].len > *longest) *longest = step->input_ids[r].len;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE | CDZ_NEEDS_IDS,
              .begin = begin, .apply = apply, .accept = accept)
