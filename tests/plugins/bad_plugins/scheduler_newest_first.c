/* scheduler_newest_first.c - whoever came first waits for ever. */
#include "bad_scheduler.h"

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    turns->n = contest->n_waiting;
    for (uint32_t i = 0; i < turns->n; i++) turns->list[i] = turns->n - 1 - i;
    return CDZ_OK;
}

BAD_SCHEDULER(.admit = admit_bad)
