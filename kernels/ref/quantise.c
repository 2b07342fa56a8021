/* quantise.c - rows of float32 to the types that weights are stored in. Widening them again is
 * quant_rows.h's; blocks of 256 are made in quantise_k.c, those of 64 in quantise_64.c.
 *
 * The numbers are those of the formats' own reference: the same factors, the same rounding. What
 * is no number becomes the lowest level, so that no conversion is undefined. */
#include "ref/quantise.h"

#include "ref/scalar_math.h"

enum { BLOCK = 32 };

/* To nearest, ties to even; past the largest, infinity. */
uint16_t cdz_narrow_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00); /* not a number */
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* subnormal: the number of 2^-24 */
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        return (uint16_t)(sign | (uint16_t)cdz_round_even(magnitude * 0x1p24f));
    }
    const uint32_t rounded = size - 0x38000000 + 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
}

static void to_plain(cdz_dtype dtype, void *y, const float *x, size_t n)
{
    if (dtype == CDZ_F32) memcpy(y, x, n * sizeof *x);
    uint8_t *at = y;
    for (size_t i = 0; dtype != CDZ_F32 && i < n; i++)
        cdz_put_u16(at + 2 * i, dtype == CDZ_F16 ? cdz_narrow_f16(x[i]) : cdz_narrow_bf16(x[i]));
}

/* ---- blocks of 32 ---- */

static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* v cut towards zero, in [0, most]. Without branches, so that compilers do several at once. */
static int level(float v, int most)
{
    v = v > 0.0f ? v : 0.0f;
    return (int)(v < (float)most ? v : (float)most);
}

/* The one of largest magnitude, the first among equals, with its sign; what is no number is none. */
static float extreme_number(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

/* Magnitudes are in the order of their bits. */
static float extreme(const float *x, size_t n)
{
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t size = (int32_t)(cdz_bits_of_float(x[i]) & 0x7fffffff);
        most = size > most ? size : most;
    }
    if (most > 0x7f800000) return extreme_number(x, n);
    for (size_t i = 0; i < n; i++)
        if ((int32_t)(cdz_bits_of_float(x[i]) & 0x7fffffff) == most) return most ? x[i] : 0.0f;
    return 0.0f;
}

static void range(const float *x, size_t n, float *low, float *high)
{
    *low = *high = x[0];
    for (size_t i = 1; i < n; i++) {
        if (x[i] < *low) *low = x[i];
        if (x[i] > *high) *high = x[i];
    }
}

/* Halves are rounded away from zero, as roundf does. */
static void to_q8_0(uint8_t *b, const float *x)
{
    const float d = fabsf(extreme(x, BLOCK)) / 127.0f, id = inverse(d);
    int whole[BLOCK];
    cdz_put_u16(b, cdz_narrow_f16(d));
    for (size_t i = 0; i < BLOCK; i++) whole[i] = level(fabsf(x[i] * id), 127);
    for (size_t i = 0; i < BLOCK; i++) {
        const int below = x[i] * id < 0.0f ? -1 : 0;
        const int up = fabsf(x[i] * id) - (float)whole[i] >= 0.5f ? whole[i] < 127 : 0;
        whole[i] = ((whole[i] + up) ^ below) - below;
    }
    for (size_t i = 0; i < BLOCK; i++) b[2 + i] = (uint8_t)whole[i];
}

/* Nibbles to bytes 0 to 15, low ones first; fifth bits, if any, as a little-endian word. */
static void put_nibbles(uint8_t *to, uint8_t *fifth, const uint8_t q[BLOCK])
{
    for (size_t i = 0; i < BLOCK / 2; i++) to[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
    for (size_t b = 0; fifth && b < 4; b++) { /* bit i of each is that of byte i */
        uint64_t eight = 0;
        for (size_t i = 0; i < 8; i++) eight |= (uint64_t)q[8 * b + i] << 8 * i;
        fifth[b] = (uint8_t)((eight >> 4 & 0x0101010101010101) * 0x0102040810204080 >> 56);
    }
}

/* Levels around zero: d is such that the extreme gets the lowest one. */
static void to_symmetric(uint8_t *b, const float *x, int half)
{
    uint8_t q[BLOCK];
    const float d = extreme(x, BLOCK) / (float)-half, id = inverse(d);
    for (size_t i = 0; i < BLOCK; i++)
        q[i] = (uint8_t)level(x[i] * id + ((float)half + 0.5f), 2 * half - 1);
    cdz_put_u16(b, cdz_narrow_f16(d));
    put_nibbles(b + (half == 8 ? 2 : 6), half == 8 ? NULL : b + 2, q);
}

/* Levels from the minimum on. */
static void to_shifted(uint8_t *b, const float *x, int most)
{
    uint8_t q[BLOCK];
    float low, high;
    range(x, BLOCK, &low, &high);
    const float d = (high - low) / (float)most, id = inverse(d);
    for (size_t i = 0; i < BLOCK; i++) q[i] = (uint8_t)level((x[i] - low) * id + 0.5f, most);
    cdz_put_u16(b, cdz_narrow_f16(d));
    cdz_put_u16(b + 2, cdz_narrow_f16(low));
    put_nibbles(b + (most == 15 ? 4 : 8), most == 15 ? NULL : b + 4, q);
}

static void to_small_block(cdz_dtype dtype, uint8_t *b, const float *x)
{
    switch (dtype) {
    case CDZ_Q8_0: to_q8_0(b, x); break;
    case CDZ_Q4_0: to_symmetric(b, x, 8); break;
    case CDZ_Q4_1: to_shifted(b, x, 15); break;
    case CDZ_Q5_0: to_symmetric(b, x, 16); break;
    default: to_shifted(b, x, 31); break;
    }
}

void cdz_quantise(cdz_dtype dtype, void *y, const float *x, size_t n)
{
    const size_t block = cdz_dtype_block(dtype), bytes = cdz_dtype_bytes(dtype);
    if (dtype < CDZ_N_PLAIN) {
        to_plain(dtype, y, x, n);
        return;
    }
    uint8_t *b = y;
    if (dtype >= CDZ_N_MADE) return;
    if (dtype >= CDZ_N_GGUF) {
        cdz_to_blocks_64(dtype, b, x, n);
        return;
    }
    for (size_t i = 0; i + block <= n; i += block, b += bytes)
        if (block == BLOCK)
            to_small_block(dtype, b, x + i);
        else
            cdz_to_large_block(dtype, b, x + i);
}

void cdz_widen(cdz_dtype dtype, float *y, const void *x, size_t n)
{
    cdz_scalar_set.widen[dtype](y, x, n);
}
