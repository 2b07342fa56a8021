/* begin takes from the heap, end forgets to give back. */
#include <stdlib.h>

#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    *shared = calloc(1, 1000);
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "out of memory");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .begin = begin,
              .apply = apply)
