/* stack.h - where the stack ends that a thread or fibre runs on, and a spare one for handlers of signals: a plugin that
 * overflows its stack dies of a fault below it, and the handler that says so cannot run on the full one.
 *
 * As with whom a thread calls (call/guard.h): a handler has its thread and nothing else. */
#ifndef CDZ_HOST_BASE_STACK_H
#define CDZ_HOST_BASE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that nobody may touch lies below a fibre's stack. So wide that a row of scores among the local variables does not
 * reach over it: 4 MiB are a million of them. */
enum { CDZ_STACK_GUARD = 4 << 20 };

typedef struct cdz_stack {
    uintptr_t guard, end; /* a fault at guard <= address < end is below the stack; 0, 0: not known */
    size_t bytes;
} cdz_stack;

extern _Thread_local cdz_stack cdz_stack_now;

/* At the start of a thread of ours, and on it: notes its stack, and gives handlers a spare one unless somebody has. What
 * cdz_stack_end takes when the thread ends; without memory NULL, and handlers do without. */
void *cdz_stack_begin(void);
void cdz_stack_end(void *spare);

static inline bool cdz_stack_overflowed(const void *address)
{
    const uintptr_t at = (uintptr_t)address;
    return at >= cdz_stack_now.guard && at < cdz_stack_now.end;
}

#endif
