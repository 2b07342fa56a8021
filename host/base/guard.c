/* guard.c - the SIGBUS handler and what it looks up: a fixed table, read without a lock. */
#include "base/guard.h"
#include "base/mutex.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WATCHES = 4096 };

/* begin is 0 in a free one. It is written last and read again after end, so that the handler never pairs the
 * bounds of two mappings. */
typedef struct watch {
    atomic_uintptr_t begin, end;
    atomic_bool torn;
} watch;

static struct {
    cdz_mutex lock; /* of what the handler does not read */
    uint32_t users;
    bool installed;
    struct sigaction before;
    uintptr_t page;
    watch watches[WATCHES];
} guard = {.lock = CDZ_MUTEX_INITIALIZER};

/* --- in the handler ------------------------------------------------------------------------ */

/* Zeros from the page of the fault to the mapping's end: what is behind it is gone too. */
static bool patch(watch *w, uintptr_t begin, uintptr_t at, uintptr_t end)
{
    const uintptr_t from = at & ~(guard.page - 1);
    if (from < begin) return false;
    /* The address is that of the fault: there is no other way to say where. */
    void *zeros = mmap((void *)from, end - from, /* NOLINT(performance-no-int-to-ptr) */
                       PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) return false;
    atomic_store(&w->torn, true);
    return true;
}

static bool mend(uintptr_t at)
{
    for (size_t i = 0; i < WATCHES; i++) {
        watch *w = &guard.watches[i];
        const uintptr_t begin = atomic_load(&w->begin), end = atomic_load(&w->end);
        if (begin != 0 && at >= begin && at < end && atomic_load(&w->begin) == begin)
            return patch(w, begin, at, end);
    }
    return false;
}

/* As if this handler were not there. A fault comes again when its instruction does, now to the default. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *before = &guard.before;
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, context);
    } else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    } else if (before->sa_handler == SIG_DFL || info->si_code > 0) {
        const struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
        if (info->si_code <= 0) raise(number);
    }
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    const int kept = errno;
    if (info->si_code <= 0 || !mend((uintptr_t)info->si_addr)) pass_on(number, info, context);
    errno = kept;
}

/* --- outside ------------------------------------------------------------------------------- */

static cdz_status install(cdz_error *err)
{
    struct sigaction mine = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&mine.sa_mask);
    guard.page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return cdz_err(err, CDZ_E_IO, "SIGBUS: %s", strerror(errno));
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus) return CDZ_OK; /* still there */
    guard.before = now;
    if (sigaction(SIGBUS, &mine, NULL) != 0)
        return cdz_err(err, CDZ_E_IO, "SIGBUS: %s", strerror(errno));
    return CDZ_OK;
}

cdz_status cdz_guard_begin(cdz_error *err)
{
    cdz_mutex_lock(&guard.lock);
    const cdz_status st = guard.users == 0 && !guard.installed ? install(err) : CDZ_OK;
    if (st == CDZ_OK) {
        guard.users++;
        guard.installed = true;
    }
    cdz_mutex_unlock(&guard.lock);
    return st;
}

void cdz_guard_end(void)
{
    struct sigaction now;
    cdz_mutex_lock(&guard.lock);
    /* A handler that came on top may pass on to this one: then it stays, and does nothing without watches. */
    if (--guard.users == 0 && sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_bus) {
        sigaction(SIGBUS, &guard.before, NULL);
        guard.installed = false;
    }
    cdz_mutex_unlock(&guard.lock);
}

uint32_t cdz_guard_watch(const void *data, size_t bytes)
{
    uint32_t number = 0;
    cdz_mutex_lock(&guard.lock);
    for (uint32_t i = 0; guard.users && bytes && i < WATCHES && number == 0; i++) {
        watch *w = &guard.watches[i];
        if (atomic_load(&w->begin) != 0) continue;
        atomic_store(&w->torn, false);
        atomic_store(&w->end, (uintptr_t)data + bytes);
        atomic_store(&w->begin, (uintptr_t)data);
        number = i + 1;
    }
    cdz_mutex_unlock(&guard.lock);
    return number;
}

void cdz_guard_unwatch(uint32_t number)
{
    if (number) atomic_store(&guard.watches[number - 1].begin, 0);
}

bool cdz_guard_torn(uint32_t number)
{
    return number && atomic_load(&guard.watches[number - 1].torn);
}
