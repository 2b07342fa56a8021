/* memory_meter.h - how much memory is taken: malloc and its kin are the program's own, counting and handing on to the C
 * library's, or, where a sanitizer has taken their place, its hooks count. Include in one file of a program. */
#ifndef CDZ_TESTS_SUPPORT_MEMORY_METER_H
#define CDZ_TESTS_SUPPORT_MEMORY_METER_H

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/sanitized.h"

static atomic_long meter_live, meter_peak; /* bytes */

static inline void meter_add(size_t bytes)
{
    const long live = atomic_fetch_add(&meter_live, (long)bytes) + (long)bytes;
    long peak = atomic_load(&meter_peak);
    while (live > peak && !atomic_compare_exchange_weak(&meter_peak, &peak, live)) continue;
}

static inline void meter_take(size_t bytes)
{
    atomic_fetch_sub(&meter_live, (long)bytes);
}

#if CDZ_WITH_OWN_HEAP
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *memory);

static void meter_on_malloc(const volatile void *memory, size_t bytes)
{
    (void)memory;
    meter_add(bytes);
}

static void meter_on_free(const volatile void *memory)
{
    if (memory) meter_take(__sanitizer_get_allocated_size(memory));
}

/* Counts from here on; false: nothing can be counted here. */
static inline bool meter_begin(void)
{
    static bool installed;
    if (!installed)
        installed = __sanitizer_install_malloc_and_free_hooks(meter_on_malloc, meter_on_free) > 0;
    atomic_store(&meter_live, 0);
    atomic_store(&meter_peak, 0);
    return installed;
}

#elif defined(__GLIBC__)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *memory);

static inline void *meter_taken(void *memory)
{
    if (memory) meter_add(malloc_usable_size(memory));
    return memory;
}

void *malloc(size_t bytes)
{
    return meter_taken(__libc_malloc(bytes));
}

void *calloc(size_t n, size_t bytes)
{
    return meter_taken(__libc_calloc(n, bytes));
}

/* Old and new may be there together for a moment; counted is what stays. */
void *realloc(void *old, size_t bytes)
{
    const size_t had = old ? malloc_usable_size(old) : 0;
    void *memory = __libc_realloc(old, bytes);
    if (memory || bytes == 0) meter_take(had);
    return meter_taken(memory);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return meter_taken(__libc_memalign(align, bytes));
}

void free(void *memory)
{
    if (memory) meter_take(malloc_usable_size(memory));
    __libc_free(memory);
}

static inline bool meter_begin(void)
{
    atomic_store(&meter_live, 0);
    atomic_store(&meter_peak, 0);
    return true;
}

#else
static inline bool meter_begin(void)
{
    return false;
}
#endif

/* The most bytes that were taken at once since meter_begin. */
static inline size_t meter_most(void)
{
    const long peak = atomic_load(&meter_peak);
    return peak > 0 ? (size_t)peak : 0;
}

/* What a file of that many bytes may cost before its weights are mapped. A sanitizer's realloc always has the old and
 * the new block at once, which the C library's does not do with large ones: there it is twice that. */
static inline size_t meter_allowed(size_t file_bytes)
{
    const size_t allowed = 4 * file_bytes + ((size_t)64 << 20);
#if CDZ_WITH_OWN_HEAP
    return 2 * allowed;
#else
    return allowed;
#endif
}

#endif
