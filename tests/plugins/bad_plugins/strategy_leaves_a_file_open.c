/* A trace file that nobody closes. */
#include <fcntl.h>

#include "bad_loop.h"

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    if (open("/dev/null", O_WRONLY | O_CLOEXEC) < 0)
        return cdz_fail(step, CDZ_E_IO, "no /dev/null");
    while (!cdz_done(dec)) CDZ_TRY(one_step(dec, 0));
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE)}, .caps = CDZ_ONE_ROW, .run = run)
