/* scheduler_lists_twice.c - the last of many is listed first, too. */
#include "bad_scheduler.h"

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    CDZ_TRY(admit_well(contest, turns));
    if (turns->n > 2) turns->list[0] = turns->n - 1;
    return CDZ_OK;
}

BAD_SCHEDULER(.admit = admit_bad)
