/* aligned.c - see aligned.h. The pointer to free lies just below the aligned address. */
#include "cpu/aligned.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void *cdz_aligned_zeroed(size_t bytes)
{
    const size_t extra = ALIGNMENT + sizeof(void *);
    if (bytes > SIZE_MAX - extra) return NULL;
    char *raw = calloc(1, bytes + extra);
    if (!raw) return NULL;
    char *start = raw + sizeof(void *);
    start += (ALIGNMENT - (uintptr_t)start % ALIGNMENT) % ALIGNMENT;
    memcpy(start - sizeof raw, &raw, sizeof raw);
    return start;
}

void cdz_aligned_free(void *memory)
{
    if (!memory) return;
    void *raw;
    memcpy(&raw, (char *)memory - sizeof raw, sizeof raw);
    free(raw);
}
