/* quantise.h - what the files that make quantised blocks share. Private to kernels/ref/. */
#ifndef CDZ_REF_QUANTISE_H
#define CDZ_REF_QUANTISE_H

#include <math.h>
#include <string.h>

#include "kernel_set.h"

uint16_t cdz_narrow_f16(float value);

static inline void cdz_put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value & 255);
    at[1] = (uint8_t)(value >> 8);
}

/* To nearest, ties to even; |v| < 2^22. */
static inline float cdz_round_even(float v)
{
    return v + 0x1.8p23f - 0x1.8p23f;
}

/* The nearest whole number in [low, high]; low for what is no number. */
static inline int cdz_nearest(float v, int low, int high)
{
    if (!(v > (float)low)) return low;
    return v >= (float)high ? high : (int)cdz_round_even(v);
}

/* A row, a multiple of 64, to blocks of CDZ_NF4, CDZ_FP4 or CDZ_INT8. */
void cdz_to_blocks_64(cdz_dtype dtype, uint8_t *b, const float *x, size_t n);

/* 256 numbers to a block of Q2_K to Q6_K. */
void cdz_to_large_block(cdz_dtype dtype, uint8_t *b, const float *x);

#endif
