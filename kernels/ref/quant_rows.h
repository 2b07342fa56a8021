/* quant_rows.h - block-quantised rows to float32, as plain loops: one text, compiled once per
 * instruction set, as rows.h.
 *
 * Blocks are those of GGUF. Each step rounds once and nothing is contracted: the factors of a
 * group first (d * scale, dmin * minimum), then factor * integer, then the minimum off. So every
 * set has the same bits, and the ones of the format's own reference. n is a multiple of the
 * block's length. */
#ifndef CDZ_QUANT_ROWS_H
#define CDZ_QUANT_ROWS_H

#include "kernel_set.h"
#include "ref/levels.h"
#include "ref/scalar_math.h"

enum { QUANT_SMALL = 32, QUANT_64 = 64, QUANT_LARGE = 256 };

static inline float half_at(const uint8_t *at)
{
    return cdz_widen_f16((uint16_t)(at[0] | at[1] << 8));
}

/* ---- blocks of 32 ---- */

/* f16 d, 32 int8 */
static void widen_q8_0(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 34, y += QUANT_SMALL) {
        const float d = half_at(b);
        for (size_t i = 0; i < 32; i++) y[i] = (float)(int8_t)b[2 + i] * d;
    }
}

/* f16 d, 16 bytes of nibbles: the low ones first */
static void widen_q4_0(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 18, y += QUANT_SMALL) {
        const float d = half_at(b);
        for (size_t i = 0; i < 16; i++) {
            y[i] = (float)((b[2 + i] & 15) - 8) * d;
            y[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
        }
    }
}

/* f16 d, f16 minimum, nibbles */
static void widen_q4_1(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 20, y += QUANT_SMALL) {
        const float d = half_at(b), m = half_at(b + 2);
        for (size_t i = 0; i < 16; i++) {
            y[i] = (float)(b[4 + i] & 15) * d + m;
            y[i + 16] = (float)(b[4 + i] >> 4) * d + m;
        }
    }
}

/* The fifth bits of 32 numbers, as 0 or 16 each. */
static inline void fifth_bits(int32_t to[32], const uint8_t *at)
{
    const uint32_t bits =
        (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    for (size_t i = 0; i < 32; i++) to[i] = (int32_t)(bits >> i & 1) << 4;
}

/* f16 d, 32 fifth bits, nibbles */
static void widen_q5_0(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 22, y += QUANT_SMALL) {
        const float d = half_at(b);
        int32_t high[32];
        fifth_bits(high, b + 2);
        for (size_t i = 0; i < 16; i++) {
            y[i] = (float)((b[6 + i] & 15) + high[i] - 16) * d;
            y[i + 16] = (float)((b[6 + i] >> 4) + high[i + 16] - 16) * d;
        }
    }
}

/* f16 d, f16 minimum, 32 fifth bits, nibbles */
static void widen_q5_1(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 24, y += QUANT_SMALL) {
        const float d = half_at(b), m = half_at(b + 2);
        int32_t high[32];
        fifth_bits(high, b + 4);
        for (size_t i = 0; i < 16; i++) {
            y[i] = (float)((b[8 + i] & 15) + high[i]) * d + m;
            y[i + 16] = (float)((b[8 + i] >> 4) + high[i + 16]) * d + m;
        }
    }
}

/* ---- blocks of 256 ---- */

/* 16 bytes: scale and minimum of 16 numbers, a nibble each; 64 bytes: two bits of 4 groups of 32
 * side by side, twice; f16 d; f16 dmin */
static void widen_q2_k(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 84) {
        const float d = half_at(b + 80), dmin = half_at(b + 82);
        for (size_t g = 0; g < 16; g++, y += 16) {
            const uint8_t *q = b + 16 + g / 8 * 32 + g % 2 * 16;
            const float dl = d * (float)(b[g] & 15), ml = dmin * (float)(b[g] >> 4);
            const unsigned shift = (unsigned)(g % 8 / 2 * 2);
            for (size_t i = 0; i < 16; i++) y[i] = dl * (float)(q[i] >> shift & 3) - ml;
        }
    }
}

/* 32 bytes: the third bits, bit g of byte i for group g of 32, 1 for no offset; 64 bytes as in q2_k;
 * 12 bytes: 16 scales of six bits; f16 d */
static void widen_q3_k(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 110) {
        const uint8_t *s = b + 96;
        const float d = half_at(b + 108);
        for (size_t g = 0; g < 16; g++, y += 16) {
            const uint8_t *q = b + 32 + g / 8 * 32 + g % 2 * 16, *h = b + g % 2 * 16;
            const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, top = s[8 + g % 4] >> (g / 4 * 2) & 3;
            const float dl = d * (float)((low | top << 4) - 32);
            const unsigned shift = (unsigned)(g % 8 / 2 * 2), bit = (unsigned)(g / 2);
            for (size_t i = 0; i < 16; i++)
                y[i] = dl * (float)((q[i] >> shift & 3) - 4 + ((h[i] >> bit & 1) << 2));
        }
    }
}

/* Scale and minimum g of eight, six bits each in 12 bytes. */
static inline void scale_of(const uint8_t *s, size_t g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *minimum = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
        *minimum = s[g + 4] >> 4 | (s[g] >> 6) << 4;
    }
}

/* f16 d, f16 dmin, 12 bytes of scales, 128 bytes of nibbles: a group of 32 low ones, then high */
static void widen_q4_k(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 144) {
        const float d = half_at(b), dmin = half_at(b + 2);
        for (size_t g = 0; g < 8; g++, y += 32) {
            const uint8_t *q = b + 16 + g / 2 * 32;
            const unsigned shift = (unsigned)(g % 2 * 4);
            int scale, minimum;
            scale_of(b + 4, g, &scale, &minimum);
            const float dl = d * (float)scale, ml = dmin * (float)minimum;
            for (size_t i = 0; i < 32; i++) y[i] = dl * (float)(q[i] >> shift & 15) - ml;
        }
    }
}

/* The same with 32 bytes of fifth bits before the nibbles, bit g of byte i for group g. */
static void widen_q5_k(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 176) {
        const float d = half_at(b), dmin = half_at(b + 2);
        for (size_t g = 0; g < 8; g++, y += 32) {
            const uint8_t *q = b + 48 + g / 2 * 32, *h = b + 16;
            const unsigned shift = (unsigned)(g % 2 * 4), bit = (unsigned)g;
            int scale, minimum;
            scale_of(b + 4, g, &scale, &minimum);
            const float dl = d * (float)scale, ml = dmin * (float)minimum;
            for (size_t i = 0; i < 32; i++)
                y[i] = dl * (float)((q[i] >> shift & 15) | (h[i] >> bit & 1) << 4) - ml;
        }
    }
}

/* 128 bytes of nibbles, 64 bytes of upper two bits, 16 int8 scales, f16 d. A half of 128 has its
 * groups of 32 in: low nibbles of bytes 0 to 31, of 32 to 63, high ones of both. */
static void widen_q6_k(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 210) {
        const float d = half_at(b + 208);
        for (size_t g = 0; g < 16; g++, y += 16) {
            const size_t group = g / 2 % 4, half = g / 8, part = g % 2 * 16;
            const uint8_t *q = b + half * 64 + group % 2 * 32 + part,
                          *h = b + 128 + half * 32 + part;
            const unsigned shift = (unsigned)(group / 2 * 4), top = (unsigned)(group * 2);
            const float dl = d * (float)(int8_t)b[192 + g];
            for (size_t i = 0; i < 16; i++)
                y[i] = dl * (float)(((q[i] >> shift & 15) | (h[i] >> top & 3) << 4) - 32);
        }
    }
}

/* ---- blocks of 64: bitsandbytes' numbers, each block with its factor, a float32, before them ---- */

static const float cdz_nf4_levels[16] = CDZ_NF4_LEVELS;
static const float cdz_fp4_levels[16] = CDZ_FP4_LEVELS;

static inline float float_at(const uint8_t *at)
{
    return cdz_float_of_bits((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                             (uint32_t)at[3] << 24);
}

/* f32 d, 32 bytes of nibbles: a pair of neighbours each, the first one high */
static inline void widen_levels(float *restrict y, const uint8_t *restrict b, size_t n,
                                const float levels[16])
{
    for (; n; n -= QUANT_64, b += 36, y += QUANT_64) {
        const float d = float_at(b);
        for (size_t i = 0; i < 32; i++) {
            y[2 * i] = levels[b[4 + i] >> 4] * d;
            y[2 * i + 1] = levels[b[4 + i] & 15] * d;
        }
    }
}

static void widen_nf4(float *restrict y, const void *restrict x, size_t n)
{
    widen_levels(y, x, n, cdz_nf4_levels);
}

static void widen_fp4(float *restrict y, const void *restrict x, size_t n)
{
    widen_levels(y, x, n, cdz_fp4_levels);
}

/* f32 largest magnitude of the row, 64 int8 of which 127 is that */
static void widen_int8(float *restrict y, const void *restrict x, size_t n)
{
    const float share = 1.0f / 127.0f;
    const uint8_t *b = x;
    for (; n; n -= QUANT_64, b += 68, y += QUANT_64) {
        const float d = float_at(b);
        for (size_t i = 0; i < 64; i++) y[i] = (float)(int8_t)b[4 + i] * d * share;
    }
}

/* ---- levels in blocks of 32 and 256: the low nibbles first, then the high ones ---- */

static const float cdz_mxfp4_levels[16] = CDZ_MXFP4_LEVELS;
static const float cdz_iq4_levels[16] = CDZ_IQ4_LEVELS;

static inline void widen_halves(float *restrict y, const uint8_t *restrict nibbles, float d,
                                const float levels[16])
{
    for (size_t i = 0; i < 16; i++) {
        y[i] = levels[nibbles[i] & 15] * d;
        y[i + 16] = levels[nibbles[i] >> 4] * d;
    }
}

/* an exponent, 16 bytes of nibbles. Every number is exact. */
static void widen_mxfp4(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 17, y += QUANT_SMALL)
        widen_halves(y, b + 1, cdz_mxfp4_factor(b[0]), cdz_mxfp4_levels);
}

/* f16 d, 16 bytes of nibbles */
static void widen_iq4_nl(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_SMALL, b += 18, y += QUANT_SMALL)
        widen_halves(y, b + 2, half_at(b), cdz_iq4_levels);
}

/* f16 d, two upper bits of eight scales, their lower nibbles, 128 bytes of nibbles: groups of 32 */
static void widen_iq4_xs(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (; n; n -= QUANT_LARGE, b += 136) {
        const float d = half_at(b);
        const int top = b[2] | b[3] << 8;
        for (size_t g = 0; g < 8; g++, y += 32) {
            const int scale = (b[4 + g / 2] >> g % 2 * 4 & 15) | (top >> 2 * g & 3) << 4;
            widen_halves(y, b + 8 + 16 * g, d * (float)(scale - 32), cdz_iq4_levels);
        }
    }
}

/* ---- blocks of 64 of float8_e4m3fn ---- */

/* f32 d, 64 bytes; of a row's last block as many as there are columns left */
static void widen_fp8(float *restrict y, const void *restrict x, size_t n)
{
    const uint8_t *b = x;
    for (size_t k = 0; k < n; k += QUANT_64, b += 68) {
        const float d = float_at(b);
        for (size_t i = 0; i < QUANT_64 && k + i < n; i++) y[k + i] = cdz_e4m3(b[4 + i]) * d;
    }
}

#define CDZ_QUANT_ROWS CDZ_BLOCK_KERNELS(widen)

#endif
