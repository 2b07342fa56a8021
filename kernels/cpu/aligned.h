/* aligned.h - zeroed memory on 64-byte boundaries. Large pieces come as untouched pages and cost
 * nothing until they are written. */
#ifndef CDZ_ALIGNED_H
#define CDZ_ALIGNED_H

#include <stddef.h>

void *cdz_aligned_zeroed(size_t bytes); /* NULL: out of memory */
void cdz_aligned_free(void *memory);

#endif
