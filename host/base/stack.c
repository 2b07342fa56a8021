/* stack.c - see stack.h. */
#include "base/stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum {
    SPARE_BYTES = 64 * 1024,
    FIRST_THREADS_GAP = 1 << 20 /* the kernel maps nothing there (stack_guard_gap: 256 pages) */
};

_Thread_local cdz_stack cdz_stack_now;

/* Whether a thread's guard counts to its stack differs between C libraries: both are taken. The process's first thread has
 * none: its stack grows to a limit, with the kernel's gap below. */
static void note_own(void)
{
    pthread_attr_t attr;
    void *lowest = NULL;
    size_t bytes = 0, guard = 0;
    if (pthread_getattr_np(pthread_self(), &attr) != 0) return;
    if (pthread_attr_getstack(&attr, &lowest, &bytes) == 0 &&
        pthread_attr_getguardsize(&attr, &guard) == 0) {
        const size_t below = guard > 0 ? guard : FIRST_THREADS_GAP;
        cdz_stack_now = (cdz_stack){(uintptr_t)lowest - below, (uintptr_t)lowest + guard, bytes};
    }
    pthread_attr_destroy(&attr);
}

void *cdz_stack_begin(void)
{
    stack_t other;
    note_own();
    if (sigaltstack(NULL, &other) != 0 || !(other.ss_flags & SS_DISABLE)) return NULL;
    void *spare =
        mmap(NULL, SPARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (spare == MAP_FAILED) return NULL;
    if (sigaltstack(&(stack_t){.ss_sp = spare, .ss_size = SPARE_BYTES}, NULL) == 0) return spare;
    munmap(spare, SPARE_BYTES);
    return NULL;
}

void cdz_stack_end(void *spare)
{
    cdz_stack_now = (cdz_stack){0};
    if (!spare) return;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(spare, SPARE_BYTES);
}
