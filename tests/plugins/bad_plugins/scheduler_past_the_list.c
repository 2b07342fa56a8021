/* scheduler_past_the_list.c - ends its list with a mark, for which there is no room. */
#include "bad_scheduler.h"

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    turns->list[contest->n_waiting] = UINT32_MAX;
    return admit_well(contest, turns);
}

BAD_SCHEDULER(.admit = admit_bad)
