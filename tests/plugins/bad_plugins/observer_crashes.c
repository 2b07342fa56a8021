/* Takes for granted that someone called begin with memory for it. */
#include "bad_loop.h"

static cdz_status token(const cdz_step *step, int32_t t)
{
    *(volatile int32_t *)step->shared = t;
    return CDZ_OK;
}

BAD_OBSERVER(.base = {BAD_BASE(CDZ_OBSERVER_BASE)}, .token = token)
