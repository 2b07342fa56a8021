/* clocks.c - what time it is, for a plugin of a check that looks at an answer at two moments.
 *
 * As malloc in allocations.c, the program's functions stand before the C library's, pass on, and add what a check has asked
 * for in its own process: nothing, everywhere else. Absent under sanitizers and without glibc. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/sanitized.h"
#include "check/child.h"

#if !CDZ_WITH_OWN_HEAP && defined(__GLIBC__)

typedef int clock_fn(clockid_t clock, struct timespec *out);

static _Atomic(clock_fn *) behind; /* the C library's */
static int64_t ahead_s;            /* set before the plugin's calls, in a process with one thread */

static clock_fn *library_clock(void)
{
    clock_fn *at = atomic_load_explicit(&behind, memory_order_acquire);
    if (at) return at;
    void *symbol = dlsym(RTLD_NEXT, "clock_gettime");
    memcpy(&at, &symbol, sizeof at);
    atomic_store_explicit(&behind, at, memory_order_release);
    return at;
}

CDZ_EXPORT int clock_gettime(clockid_t clock, struct timespec *out)
{
    const int status = library_clock()(clock, out);
    if (status == 0) out->tv_sec += ahead_s;
    return status;
}

CDZ_EXPORT time_t time(time_t *out)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

CDZ_EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    *out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

void cdz_clocks_ahead(int64_t seconds)
{
    ahead_s = seconds;
}

#else

void cdz_clocks_ahead(int64_t seconds)
{
    (void)seconds;
}

#endif
