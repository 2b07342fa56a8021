/* bite.c - how many rows of prompts a pass takes while others decode. See bite.h. */
#include "run/pass/bite.h"

/* Of a new measurement; a pass that was held up by another program counts for little. */
static const double weight = 0.2;

static void smooth(double *value, double seen)
{
    if (*value <= 0)
        *value = seen;
    else
        *value += weight * ((seen > 4 * *value ? 4 * *value : seen) - *value);
}

void cdz_bite_note(cdz_bite *bite, uint32_t decoding, uint32_t prompts, double wall_s)
{
    if (wall_s <= 0) return;
    if (!prompts) {
        smooth(&bite->step_s, wall_s);
        return;
    }
    const double own = wall_s - (decoding ? bite->step_s : 0);
    if (own > 0) smooth(&bite->row_s, own / prompts);
}

uint32_t cdz_bite_rows(const cdz_bite *bite, uint32_t most)
{
    double rows = CDZ_BITE_FIRST;
    if (bite->step_s > 0 && bite->row_s > 0) rows = bite->step_s / bite->row_s;
    if (rows < CDZ_BITE_LEAST) rows = CDZ_BITE_LEAST;
    return rows < most ? (uint32_t)rows : most;
}
