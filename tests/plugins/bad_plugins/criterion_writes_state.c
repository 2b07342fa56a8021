/* Counts the questions, not the tokens. */
#include "bad.h"

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (++*(uint32_t *)step->row_state[r] > 1000) stops[r].reason = CDZ_STOP_CUSTOM;
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)step, (void)r, (void)token;
    return CDZ_OK;
}

BAD_CRITERION(.base = {BAD_BASE(CDZ_CRITERION_BASE)}, .state_size = 8, .test = test,
              .accept = accept)
