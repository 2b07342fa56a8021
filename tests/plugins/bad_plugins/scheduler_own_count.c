/* scheduler_own_count.c - takes turns by a count of its own, which all runtimes share. */
#include "bad_scheduler.h"

static uint32_t count;

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    const uint32_t n = contest->n_waiting, at = count++ % (n < 3 ? n : 3);

    (void)step;
    turns->list[turns->n++] = at;
    for (uint32_t i = 0; i < n; i++)
        if (i != at) turns->list[turns->n++] = i;
    return CDZ_OK;
}

BAD_SCHEDULER(.admit = admit_bad)
