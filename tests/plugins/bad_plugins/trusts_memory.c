/* Never looks at what cdz_alloc returned. */
#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    volatile float *factor = cdz_alloc(step, sizeof *factor);
    *factor = 0.5f;
    *shared = (void *)(uintptr_t)factor;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r) shrink(cdz_row(scores, r), scores->n_vocab, *(const float *)step->shared);
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .begin = begin,
              .apply = apply)
