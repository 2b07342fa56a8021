/* refused_memory.h - malloc and its kin as a test's own: they count, and refuse the n-th request. For one file of a test
 * program. Where a sanitizer has malloc's place already, `taken` is true and nothing is refused. */
#ifndef CDZ_TESTS_SUPPORT_REFUSED_MEMORY_H
#define CDZ_TESTS_SUPPORT_REFUSED_MEMORY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/sanitized.h"

#if CDZ_WITH_OWN_HEAP || !defined(__GLIBC__)
static const bool taken = true;
#else
#define OWN_MALLOC 1
static const bool taken = false;
#endif
static atomic_long n_asked, refused_at = -1, n_held;
/* Everything from refused_at on is refused, not that one alone. Not of every program. */
static atomic_bool __attribute__((unused)) ever_after;

#ifdef OWN_MALLOC
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

/* errno as malloc leaves it: the C library's own functions return it. */
static bool refuse(void)
{
    const long n = atomic_fetch_add(&n_asked, 1), at = atomic_load(&refused_at);
    if (at < 0 || !(n == at || (atomic_load(&ever_after) && n > at))) return false;
    errno = ENOMEM;
    return true;
}

static void *held(void *memory)
{
    if (memory) atomic_fetch_add(&n_held, 1);
    return memory;
}

void *malloc(size_t bytes)
{
    return refuse() ? NULL : held(__libc_malloc(bytes));
}
void *calloc(size_t n, size_t bytes)
{
    return refuse() ? NULL : held(__libc_calloc(n, bytes));
}
void *realloc(void *old, size_t bytes)
{
    if (bytes && refuse()) return NULL;
    void *memory = __libc_realloc(old, bytes);
    if (old && !bytes) atomic_fetch_sub(&n_held, 1);
    return old ? memory : held(memory);
}
void *aligned_alloc(size_t alignment, size_t bytes)
{
    return refuse() ? NULL : held(__libc_memalign(alignment, bytes));
}
void free(void *memory)
{
    if (memory) atomic_fetch_sub(&n_held, 1);
    __libc_free(memory);
}
#endif

#endif
