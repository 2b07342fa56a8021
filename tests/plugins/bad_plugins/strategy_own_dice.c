/* Draws from the C library in place of the request's stream. */
#include <stdlib.h>

#include "bad_loop.h"

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    while (!cdz_done(dec)) CDZ_TRY(one_step(dec, (uint32_t)rand() % 50));
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .caps = CDZ_ONE_ROW, .run = run)
