/* noise.h - the numbers that a draw divides probabilities by (docs/reference/internals/random.md). */
#ifndef CDZ_HOST_RANDOM_NOISE_H
#define CDZ_HOST_RANDOM_NOISE_H

#include <math.h>

#include "random/torch_rng.h"

/* In [0, 1), of 53 bits: two words, the first drawn on top. */
static inline double cdz_uniform53(cdz_torch_rng *rng)
{
    const uint64_t high = cdz_torch_word(rng), low = cdz_torch_word(rng);
    return (double)(((high << 32) | low) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Rate 1. Never less than u. */
static inline float cdz_exponential(double u)
{
    return (float)-log1p(-u);
}

#endif
