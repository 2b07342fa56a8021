/* Counts its steps in a static variable: set to 0 when a request begins, whoever else is on the way. */
#include "bad_loop.h"

static uint32_t steps;

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    steps = 0;
    while (!cdz_done(dec)) CDZ_TRY(one_step(dec, steps++));
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .caps = CDZ_ONE_ROW, .run = run)
