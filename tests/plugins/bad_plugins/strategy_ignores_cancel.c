/* Takes an end of its rows for the only way to end: what the verbs return is not looked at. */
#include "bad_loop.h"

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    cdz_pick pick;
    (void)step;
    while (!cdz_row_done(dec, 0))
        if (cdz_forward(dec, &scores) == CDZ_OK && cdz_argmax(dec, &scores, 0, &pick) == CDZ_OK)
            (void)cdz_append(dec, 0, pick.token);
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .caps = CDZ_ONE_ROW, .run = run)
