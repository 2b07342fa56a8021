/* cores.h - the same function on every core, for work at load that no pool serves yet. */
#ifndef CDZ_HOST_BASE_CORES_H
#define CDZ_HOST_BASE_CORES_H

#include <stdbool.h>

/* Runs work(arg) in this thread and, when asked to share, in one more for every further core; returns when all have.
 * They divide the work among themselves. Threads that cannot be had only cost time. */
void cdz_on_all_cores(void *(*work)(void *arg), void *arg, bool share);

#endif
