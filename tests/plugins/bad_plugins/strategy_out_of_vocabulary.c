/* Appends a token that is none. */
#include "bad_loop.h"

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    return cdz_append(dec, 0, (int32_t)step->request->n_vocab);
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .caps = CDZ_ONE_ROW, .run = run)
