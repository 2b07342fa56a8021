/* scheduler_leaves_a_file_open.c - a file for each runtime, which nobody closes. */
#include <stdio.h>

#include "bad_scheduler.h"

static cdz_status begin_bad(const cdz_step *step, void **shared)
{
    (void)step;
    *shared = fopen("/dev/null", "w");
    return CDZ_OK;
}

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    (void)step;
    return admit_well(contest, turns);
}

BAD_SCHEDULER(.begin = begin_bad, .admit = admit_bad)
