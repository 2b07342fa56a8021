/* A state of 16 bytes, of which it uses 20. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r)
    shrink(cdz_row(scores, r), scores->n_vocab,
           1.0f / (float)(1 + ((const uint32_t *)step->row_state[r])[0]));
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    volatile uint32_t *counts = step->row_state[r];
    counts[0]++;
    counts[4] = (uint32_t)token;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .state_size = 16,
              .apply = apply, .accept = accept)
