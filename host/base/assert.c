/* assert.c - how a broken promise ends the process: a sentence on standard error, then abort, so that a debugger, a
 * sanitizer or a core file shows where. The only place that may abort. */
#include "base/mutex.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef CDZ_CHECKED
_Thread_local const void *cdz_thread_serves;

const void *cdz_thread_address(void)
{
    static _Thread_local char mine;
    return &mine;
}
#endif

void cdz_assert_broken(const char *condition, const char *file, int line, const char *function)
{
    fprintf(stderr, "cadenza: a promise of its own code is broken: %s (%s:%d, %s)\n", condition,
            file, line, function);
    abort();
}
