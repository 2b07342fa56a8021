/* allocations.c - counts what a thread takes from the heap between two moments.
 *
 * The program's malloc stands before the C library's, for every shared object of the process: it counts while a check
 * asks it to, and passes on. Absent under sanitizers, which have a malloc of their own, and without glibc. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/sanitized.h"
#include "check/child.h"

#if !CDZ_WITH_OWN_HEAP && defined(__GLIBC__)

static _Thread_local bool watching;
static _Thread_local uint32_t seen;
static _Thread_local int64_t kept;

/* NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names for what lies behind malloc */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *at, size_t bytes);
extern void __libc_free(void *at);
extern void *__libc_memalign(size_t align, size_t bytes);
/* NOLINTEND(bugprone-reserved-identifier) */

static void *took(void *at)
{
    if (watching) seen++, kept += (int64_t)malloc_usable_size(at);
    return at;
}

static void gives_back(void *at)
{
    if (watching) kept -= (int64_t)malloc_usable_size(at);
}

CDZ_EXPORT void *malloc(size_t bytes)
{
    return took(__libc_malloc(bytes));
}

CDZ_EXPORT void *calloc(size_t n, size_t bytes)
{
    return took(__libc_calloc(n, bytes));
}

CDZ_EXPORT void *realloc(void *at, size_t bytes)
{
    const int64_t before = kept;
    gives_back(at);
    void *now = __libc_realloc(at, bytes);
    if (!now && bytes > 0) kept = before; /* it is still there */
    return now ? took(now) : now;
}

CDZ_EXPORT void free(void *at)
{
    gives_back(at);
    __libc_free(at);
}

CDZ_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
    return took(__libc_memalign(align, bytes));
}

CDZ_EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0) return EINVAL;
    void *at = took(__libc_memalign(align, bytes));
    if (!at) return ENOMEM;
    *out = at;
    return 0;
}

bool cdz_allocations_known(void)
{
    return true;
}

void cdz_allocations_watch(void)
{
    seen = 0;
    kept = 0;
    watching = true;
}

bool cdz_allocations_pause(void)
{
    const bool watched = watching;
    watching = false;
    return watched;
}

void cdz_allocations_go_on(bool watched)
{
    watching = watched;
}

uint32_t cdz_allocations_seen(void)
{
    watching = false;
    return seen;
}

int64_t cdz_allocations_kept(void)
{
    watching = false;
    return kept;
}

#else

bool cdz_allocations_known(void)
{
    return false;
}

void cdz_allocations_watch(void)
{
}

bool cdz_allocations_pause(void)
{
    return false;
}

void cdz_allocations_go_on(bool watched)
{
    (void)watched;
}

uint32_t cdz_allocations_seen(void)
{
    return 0;
}

int64_t cdz_allocations_kept(void)
{
    return 0;
}

#endif
