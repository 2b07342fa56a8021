/* scheduler_trusts_memory.c - does not look at what cdz_alloc gave. */
#include "bad_scheduler.h"

static cdz_status begin_bad(const cdz_step *step, void **shared)
{
    uint64_t *seen = cdz_alloc(step, sizeof *seen);
    *seen = 0;
    *shared = seen;
    return CDZ_OK;
}

static cdz_status admit_bad(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns)
{
    ++*(uint64_t *)step->shared;
    return admit_well(contest, turns);
}

BAD_SCHEDULER(.begin = begin_bad, .admit = admit_bad)
