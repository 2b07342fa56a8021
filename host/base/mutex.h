/* mutex.h - a mutex that knows in checked builds who holds it, so that "the lock is held" is a check and not a comment. */
#ifndef CDZ_HOST_BASE_MUTEX_H
#define CDZ_HOST_BASE_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/assert.h"

typedef struct cdz_mutex {
    pthread_mutex_t mutex;
#ifdef CDZ_CHECKED
    _Atomic(const void *) owner; /* an address that only one thread has; NULL: nobody */
#endif
} cdz_mutex;

/* clang-format off */
#ifdef CDZ_CHECKED
#define CDZ_MUTEX_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, NULL}
#else
#define CDZ_MUTEX_INITIALIZER {PTHREAD_MUTEX_INITIALIZER}
#endif
/* clang-format on */

#ifdef CDZ_CHECKED
const void *cdz_thread_address(void);
static inline void cdz_mutex_own(cdz_mutex *m, const void *who)
{
    atomic_store_explicit(&m->owner, who, memory_order_relaxed);
}
#define cdz_assert_holds(m)                                                                        \
    cdz_assert(atomic_load_explicit(&(m)->owner, memory_order_relaxed) == cdz_thread_address())
#define cdz_assert_free_of(m)                                                                      \
    cdz_assert(atomic_load_explicit(&(m)->owner, memory_order_relaxed) != cdz_thread_address())
#else
static inline const void *cdz_thread_address(void)
{
    return NULL;
}
static inline void cdz_mutex_own(cdz_mutex *m, const void *who)
{
    (void)m;
    (void)who;
}
#define cdz_assert_holds(m)   ((void)(m))
#define cdz_assert_free_of(m) ((void)(m))
#endif

static inline void cdz_mutex_init(cdz_mutex *m)
{
    pthread_mutex_init(&m->mutex, NULL);
    cdz_mutex_own(m, NULL);
}

static inline void cdz_mutex_destroy(cdz_mutex *m)
{
    pthread_mutex_destroy(&m->mutex);
}

/* Not again by the thread that holds it. */
static inline void cdz_mutex_lock(cdz_mutex *m)
{
    cdz_assert_free_of(m);
    pthread_mutex_lock(&m->mutex);
    cdz_mutex_own(m, cdz_thread_address());
}

static inline void cdz_mutex_unlock(cdz_mutex *m)
{
    cdz_assert_holds(m);
    cdz_mutex_own(m, NULL);
    pthread_mutex_unlock(&m->mutex);
}

/* Waits for the condition with the lock given up meanwhile; until NULL: without an end. Returns what pthread does. */
static inline int cdz_mutex_wait(cdz_mutex *m, pthread_cond_t *condition,
                                 const struct timespec *until)
{
    cdz_assert_holds(m);
    cdz_mutex_own(m, NULL);
    const int got = until ? pthread_cond_timedwait(condition, &m->mutex, until)
                          : pthread_cond_wait(condition, &m->mutex);
    cdz_mutex_own(m, cdz_thread_address());
    return got;
}

#endif
