/* A seed of its own making: another one in every process. */
#include <unistd.h>

#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    float *factor = cdz_alloc(step, sizeof *factor);
    if (!factor) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    *factor = 1.0f / (float)(1 + getpid());
    *shared = factor;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    EACH_ROW(scores, r) shrink(cdz_row(scores, r), scores->n_vocab, *(const float *)step->shared);
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .begin = begin,
              .apply = apply)
