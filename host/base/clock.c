/* clock.c - two of the system's clocks in seconds; see clock.h. */
#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double cdz_now_s(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double cdz_thread_s(void)
{
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}
