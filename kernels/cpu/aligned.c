/* aligned.c - see aligned.h. What is needed to give a piece back lies just below it. */
#include "cpu/aligned.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, LARGE = 1 << 20 };

typedef struct piece {
    void *raw;
    size_t mapped; /* bytes; 0: raw is malloc's */
} piece;

/* Large pieces are mapped here and not left to calloc: sanitizers and other allocators touch what they hand out. */
static void *map_zeroed(size_t bytes)
{
    void *raw = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return raw == MAP_FAILED ? NULL : raw;
}

void *cdz_aligned_zeroed(size_t bytes)
{
    const size_t extra = ALIGNMENT + sizeof(piece);
    if (bytes > SIZE_MAX - extra) return NULL;
    const size_t all = bytes + extra;
    const piece p = {all < LARGE ? calloc(1, all) : map_zeroed(all), all < LARGE ? 0 : all};
    if (!p.raw) return NULL;
    char *start = (char *)p.raw + sizeof p;
    start += (ALIGNMENT - (uintptr_t)start % ALIGNMENT) % ALIGNMENT;
    ((piece *)(void *)start)[-1] = p;
    return start;
}

void cdz_aligned_free(void *memory)
{
    if (!memory) return;
    const piece p = ((const piece *)memory)[-1];
    if (p.mapped)
        munmap(p.raw, p.mapped);
    else
        free(p.raw);
}
