/* int8_rows.h - activations rounded to int8 a block of 32 at a time: one text, compiled once per instruction
 * set, as rows.h. Maxima and sums of integers are exact in any order, so vectorised code has the
 * scalar code's bits. */
#ifndef CDZ_INT8_ROWS_H
#define CDZ_INT8_ROWS_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

/* Magnitudes compare like their bits; infinity and NaN are the largest. */
static inline uint32_t largest_bits(const float *x)
{
    uint32_t most = 0;
    for (size_t i = 0; i < CDZ_X8; i++) {
        const uint32_t bits = cdz_bits_of_float(x[i]) & 0x7fffffffu;
        most = most < bits ? bits : most;
    }
    return most;
}

/* |x * inverse| is below 127.5: adding 1.5 * 2^23 rounds to nearest, ties to even. */
static inline void round_block(cdz_x8 *to, const float *x, float inverse)
{
    int32_t q[CDZ_X8], sum = 0, half = 0;
    for (size_t i = 0; i < CDZ_X8; i++)
        q[i] = (int32_t)(cdz_bits_of_float(x[i] * inverse + 0x1.8p23f) - 0x4b400000u);
    for (size_t i = 0; i < CDZ_X8; i++) to->q[i] = (int8_t)q[i];
    for (size_t i = 0; i < CDZ_X8 / 2; i++) half += q[i];
    for (size_t i = 0; i < CDZ_X8; i++) sum += q[i];
    to->sum = sum;
    to->half[0] = (int16_t)half;
    to->half[1] = (int16_t)(sum - half);
}

static void quantise_x(cdz_x8 *to, size_t step, const float *x, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++, to += step, x += CDZ_X8) {
        const uint32_t most = largest_bits(x);
        const float largest = cdz_float_of_bits(most);
        if (most >= 0x7f800000u || largest < 0x1p-100f) {
            memset(to, 0, sizeof *to);
            if (most >= 0x7f800000u) to->d = to->s = cdz_float_of_bits(0x7fc00000u);
            continue;
        }
        round_block(to, x, 127.0f / largest);
        to->d = largest / 127.0f;
        to->s = to->d * (float)to->sum;
    }
}

#endif
