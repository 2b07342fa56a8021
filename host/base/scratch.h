/* scratch.h - memory for the length of one plugin call: taken piece by piece, forgotten at once.
 * After the largest call has been seen, no call allocates. One owner, one thread at a time. */
#ifndef CDZ_HOST_BASE_SCRATCH_H
#define CDZ_HOST_BASE_SCRATCH_H

#include <stddef.h>

typedef struct cdz_scratch_more cdz_scratch_more;

/* Zeroed: empty and ready. */
typedef struct cdz_scratch_mem {
    unsigned char *raw, *base; /* as allocated, and its first 64-byte boundary */
    size_t size, used;
    size_t beyond;          /* bytes of this call that did not fit */
    cdz_scratch_more *more; /* where those went */
} cdz_scratch_mem;

void *cdz_scratch_take(cdz_scratch_mem *mem, size_t bytes); /* 64-byte aligned, or NULL */
void cdz_scratch_reset(cdz_scratch_mem *mem); /* forgets; grows so that the same call fits next time */
void cdz_scratch_free(cdz_scratch_mem *mem);

#endif
