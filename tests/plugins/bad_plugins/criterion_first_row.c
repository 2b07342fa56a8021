/* Asks about the first row and answers for all. */
#include "bad.h"

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    const cdz_ids ids = step->input_ids[0];
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (ids.at[ids.len - 1] % 2) stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"odd", 3}};
    return CDZ_OK;
}

BAD_CRITERION(.base = {BAD_BASE(CDZ_CRITERION_BASE)}, .test = test)
