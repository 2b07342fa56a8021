/* cores.c - see cores.h. */
#include "base/cores.h"

#include <stddef.h>
#include <unistd.h>

#include "base/thread.h"

enum { MOST_THREADS = 32 };

void cdz_on_all_cores(void *(*work)(void *arg), void *arg, bool share)
{
    pthread_t threads[MOST_THREADS];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = share && cores > 1 ? (size_t)cores - 1 : 0, started = 0;
    if (n > MOST_THREADS) n = MOST_THREADS;
    while (started < n && cdz_thread_begin(&threads[started], work, arg) == 0) started++;
    work(arg);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
