/* ref.h - the pieces of the scalar set that live in files of their own. */
#ifndef CDZ_REF_H
#define CDZ_REF_H

#include "kernel_set.h"

void cdz_ref_attend(const cdz_attend *tile);

/* cos and sin of position * inv_freq[i], the product rounded to float as the reference does,
 * times scale. Computed in double and rounded once: one function for every set, so that none can
 * differ. */
void cdz_ref_rope_table(float *cosine, float *sine, const float *inv_freq, size_t n,
                        uint32_t position, float scale);

#endif
