/* Written for one row, and does not say so. */
#include "bad_loop.h"

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    while (!cdz_row_done(dec, 0)) CDZ_TRY(one_step(dec, 0));
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .run = run)
