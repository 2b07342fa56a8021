/* blocks.h - dot products and packing for any type of weights: a set's own kernels for plain ones, and for
 * block-quantised ones the same kernels on rows widened a piece at a time. */
#ifndef CDZ_CPU_BLOCKS_H
#define CDZ_CPU_BLOCKS_H

#include "kernel_set.h"

enum { CDZ_UNPACK_ROWS = 32 }; /* the widest panel of any set */

/* As cdz_dot_fn. */
void cdz_dot_rows(const cdz_kernel_set *set, cdz_dtype dtype, float *y, size_t ldy, const void *w,
                  size_t n, size_t k, const float *x, size_t ldx, size_t m);

/* As cdz_pack_weights_fn. scratch: CDZ_UNPACK_ROWS * kc floats. */
void cdz_pack_rows(const cdz_kernel_set *set, cdz_dtype dtype, float *packed, const void *w,
                   size_t n, size_t k, size_t kc, float *scratch);

#endif
