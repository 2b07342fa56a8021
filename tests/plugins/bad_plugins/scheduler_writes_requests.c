/* scheduler_writes_requests.c - marks whom it has seen. */
#include "bad_scheduler.h"

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    ((cdz_contender *)(uintptr_t)contest->waiting[0])->priority = 0;
    return admit_well(contest, turns);
}

BAD_SCHEDULER(.admit = admit_bad)
