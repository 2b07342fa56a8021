/* futex.h - waiting for the turn: a short spin, for answers that come at once, then the kernel's sleep. */
#ifndef CDZ_HOST_ISOLATE_FUTEX_H
#define CDZ_HOST_ISOLATE_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* About 10 us: a call that edits a row comes back in that time, and waking a sleeper costs more. */
enum { CDZ_SPINS = 2000 };

static inline void cdz_spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool cdz_turn_is(const _Atomic uint32_t *turn, uint32_t which)
{
    return atomic_load_explicit(turn, memory_order_acquire) == which;
}

/* From the turn before: true when turn `which` has come; false after about `ms` milliseconds, or earlier for no reason. */
static inline bool cdz_turn_wait(_Atomic uint32_t *turn, uint32_t which, long ms)
{
    for (int i = 0; i < CDZ_SPINS; i++) {
        if (cdz_turn_is(turn, which)) return true;
        cdz_spin_pause();
    }
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)syscall(SYS_futex, turn, FUTEX_WAIT, which - 1, &wait, NULL, 0);
    return cdz_turn_is(turn, which);
}

/* The same where the other end may have touched it in the meantime: false when it was not the turn `from` any more. */
static inline bool cdz_turn_pass(_Atomic uint32_t *turn, uint32_t from)
{
    if (!atomic_compare_exchange_strong_explicit(turn, &from, from + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    (void)syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    return true;
}

static inline void cdz_turn_give(_Atomic uint32_t *turn, uint32_t which)
{
    atomic_store_explicit(turn, which, memory_order_release);
    (void)syscall(SYS_futex, turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

#endif
