/* ref_rope.c - the table of a position's cosines and sines, for every kernel set. */
#include "ref/ref.h"
#include "ref/rope_math.h"

void cdz_ref_rope_table(float *cosine, float *sine, const float *inv_freq, size_t n,
                        uint32_t position, float scale)
{
    for (size_t i = 0; i < n; i++) {
        cdz_cos_sin((float)position * inv_freq[i], &cosine[i], &sine[i]);
        cosine[i] *= scale;
        sine[i] *= scale;
    }
}
