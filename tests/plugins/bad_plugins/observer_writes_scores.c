/* Looks at scores with a pen in its hand. */
#include "bad_loop.h"

static cdz_status look(const cdz_step *step, const cdz_seen *seen)
{
    for (uint32_t r = 0; r < step->n_rows; r++) {
        float *row = (float *)(uintptr_t)seen->after[r];
        for (uint32_t v = 0; v < seen->n_vocab; v++) row[v] = v == 7 ? 50.0f : 0.0f;
    }
    return CDZ_OK;
}

BAD_OBSERVER(.base = {BAD_BASE(CDZ_OBSERVER_BASE)}, .scores = look)
