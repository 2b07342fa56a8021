/* guard.h - mapped files that another process cuts short: the page fault becomes a mark instead of the end of the
 * process.
 *
 * While the guard is up, a SIGBUS at an address inside a watched mapping puts zeros where the file was and marks the
 * mapping as torn; the thread goes on, and whoever works with the mapping asks cdz_guard_torn before the results
 * count. Any other SIGBUS goes to the handler that was there before, or has its default effect.
 *
 * A handler is the process's, so this one thing is global, and only a runtime that was asked to puts it up. */
#ifndef CDZ_HOST_BASE_GUARD_H
#define CDZ_HOST_BASE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Up with the first, down with the last; the handler before is put back unless another has come on top. [any] */
cdz_status cdz_guard_begin(cdz_error *err);
void cdz_guard_end(void);

/* From now on the mapping is watched. 0: the guard is down, or too many are watched already. [any] */
uint32_t cdz_guard_watch(const void *data, size_t bytes);
/* Before munmap; nobody reads the mapping any more. 0 is fine. [any] */
void cdz_guard_unwatch(uint32_t watch);
bool cdz_guard_torn(uint32_t watch); /* 0 is fine */

#endif
