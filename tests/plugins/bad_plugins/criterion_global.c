/* Stops when all requests together have had enough. */
#include "bad.h"

static uint32_t accepted;

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (accepted > 9) stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"enough", 6}};
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)step, (void)r, (void)token;
    accepted++;
    return CDZ_OK;
}

BAD_CRITERION(.base = {BAD_BASE(CDZ_CRITERION_BASE)}, .test = test, .accept = accept)
