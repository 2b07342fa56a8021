/* ref.h - the pieces of the scalar set that live in files of their own. */
#ifndef CDZ_REF_H
#define CDZ_REF_H

#include "kernel_set.h"

void cdz_ref_attend(const cdz_attend *tile);
CDZ_INT8_DECLARE(cdz_ref_int8)
void cdz_ref_parts_product(const cdz_parts_product *p);
void cdz_ref_pack_parts(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t k,
                        size_t parts);

/* cos and sin of position * inv_freq[i], the product rounded to float as the reference does,
 * times scale. Computed in double and rounded once: one function for every set, so that none can
 * differ. */
void cdz_ref_rope_table(float *cosine, float *sine, const float *inv_freq, size_t n,
                        uint32_t position, float scale);

/* The k experts of n that a row of scores chooses, and their weights: see kernels.h, route. */
void cdz_ref_route(float *weights, int32_t *ids, size_t k, const float *scores, size_t n,
                   bool normalise);

#endif
