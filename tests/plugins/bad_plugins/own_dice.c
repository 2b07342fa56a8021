/* Draws from the C library in place of step->host->noise. */
#include <stdlib.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r) cdz_row(scores, r)[rand() % (int)scores->n_vocab] = 0;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
