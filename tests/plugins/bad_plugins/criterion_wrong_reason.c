/* A reason that is none. */
#include "bad.h"

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++) stops[r].reason = 17;
    return CDZ_OK;
}

BAD_CRITERION(.base = {BAD_BASE(CDZ_CRITERION_BASE)}, .test = test)
