/* fault.c - memory that a plugin may not touch, and a fault there told as what it was.
 *
 * A signal handler has no argument of ours: the one pointer it needs is the process's, which is a check's own. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/stack.h"
#include "check/child.h"

enum { EXIT_FAULT = 3 };

static cdz_verdict *the_verdict;

/* --- telling ---------------------------------------------------------------------------------------------- */

/* "wrote", "read", or "touched" where the machine does not say. */
static const char *what_was_done(const void *context)
{
#if defined(__x86_64__) && defined(__linux__)
    const ucontext_t *u = context;
    return u->uc_mcontext.gregs[REG_ERR] & 2 ? "wrote" : "read";
#else
    (void)context;
    return "touched";
#endif
}

static const cdz_region *region_of(const cdz_verdict *v, uintptr_t at)
{
    for (uint32_t i = v->n_regions; i > 0; i--)
        if (at >= v->regions[i - 1].lo && at < v->regions[i - 1].hi) return &v->regions[i - 1];
    return NULL;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    cdz_verdict *v = the_verdict;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const cdz_region *r = region_of(v, at);
    if (r) {
        const long long index = ((long long)at - (long long)r->from) / (long long)r->unit;
        snprintf(v->detail, sizeof v->detail, "%s: %s %s (element %lld)", v->note,
                 what_was_done(context), r->name, index);
    } else if (cdz_stack_overflowed(info->si_addr)) {
        snprintf(v->detail, sizeof v->detail, "%s: crashed: its stack of %zu KiB is full", v->note,
                 cdz_stack_now.bytes / 1024);
    } else {
        snprintf(v->detail, sizeof v->detail, "%s: crashed: signal %d, %s address %p%s", v->note,
                 number, what_was_done(context), info->si_addr,
                 at < 4096 ? ", through a NULL pointer" : "");
    }
    v->state = CDZ_CHECK_FAILED;
    _exit(EXIT_FAULT);
}

void cdz_fault_watch(cdz_verdict *verdict)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    act.sa_sigaction = on_fault;
    the_verdict = verdict;
    (void)cdz_stack_begin(); /* to the end of the process */
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}

bool cdz_fault_region(const void *lo, size_t bytes, const void *from, uint32_t unit,
                      const char *name)
{
    cdz_verdict *v = the_verdict;
    if (!v || v->n_regions == CDZ_CHECK_REGIONS) return false;
    cdz_region *r = &v->regions[v->n_regions];
    *r = (cdz_region){
        .lo = (uintptr_t)lo, .hi = (uintptr_t)lo + bytes, .from = (uintptr_t)from, .unit = unit};
    snprintf(r->name, sizeof r->name, "%s", name);
    v->n_regions++;
    return true;
}

/* --- guarded memory --------------------------------------------------------------------------------------- */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Guards of several pages: a stride too far is caught too. */
enum { GUARD_PAGES = 16 };

void *cdz_guarded(size_t len, uint32_t unit, bool at_end, const char *name)
{
    const size_t page = page_bytes(), guard = GUARD_PAGES * page;
    const size_t body = (len + page - 1) / page * page + (len == 0) * page;
    char before[CDZ_CHECK_REGION_NAME], behind[CDZ_CHECK_REGION_NAME];
    unsigned char *base =
        mmap(NULL, body + 2 * guard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    unsigned char *at = base + guard + (at_end ? body - len : 0);
    snprintf(before, sizeof before, "before the start of %s", name);
    snprintf(behind, sizeof behind, "past the end of %s", name);
    if (mprotect(base, guard, PROT_NONE) != 0 ||
        mprotect(base + guard + body, guard, PROT_NONE) != 0 ||
        !cdz_fault_region(base, guard, at, unit, before) ||
        !cdz_fault_region(base + guard + body, guard, at, unit, behind))
        return NULL;
    return at;
}

static unsigned char *page_of(void *at)
{
    return (unsigned char *)at - (uintptr_t)at % page_bytes();
}

static size_t pages_of(void *at, size_t len)
{
    const size_t page = page_bytes();
    const size_t bytes = (uintptr_t)at % page + len;
    return (bytes + page - 1) / page * page;
}

bool cdz_guarded_lock(void *at, size_t len, uint32_t unit, const char *name)
{
    return mprotect(page_of(at), pages_of(at, len), PROT_READ) == 0 &&
           cdz_fault_region(page_of(at), pages_of(at, len), at, unit, name);
}

void cdz_guarded_readable(void *at, size_t len, bool readable)
{
    (void)mprotect(page_of(at), pages_of(at, len), readable ? PROT_READ : PROT_NONE);
}

void cdz_guarded_unlock(void *at, size_t len)
{
    (void)mprotect(page_of(at), pages_of(at, len), PROT_READ | PROT_WRITE);
}
