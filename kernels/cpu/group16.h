/* group16.h - sixteen neighbouring weights of a block type, brought into bytes, with their factors: what the
 * vector kernels widen in registers. The numbers are those of ref/quant_rows.h: w = d * q, then plus m or minus m. */
#ifndef CDZ_GROUP16_H
#define CDZ_GROUP16_H

#include "cpu/avx2.h"
#include "ref/levels.h"

typedef struct group16 {
    __m128i q; /* int8; of the types with levels: their numbers; of FP8 its codes */
    float d, m;
} group16;

CDZ_INLINE float half_float(const uint8_t *at)
{
    uint16_t h;
    memcpy(&h, at, sizeof h);
    return _cvtsh_ss(h);
}

CDZ_INLINE float whole_float(const uint8_t *at)
{
    float f;
    memcpy(&f, at, sizeof f);
    return f;
}

CDZ_INLINE __m128i bytes_at(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Bits [shift, shift + ...) of sixteen bytes that mask keeps. */
CDZ_INLINE __m128i bits_at(const uint8_t *at, size_t shift, int mask)
{
    const __m128i v = _mm_srl_epi16(bytes_at(at), _mm_cvtsi32_si128((int)shift));
    return _mm_and_si128(v, _mm_set1_epi8((char)mask));
}

/* Sixteen single bits, each a byte of 0 or 16. */
CDZ_INLINE __m128i fifth_bits_at(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    const __m128i each = _mm_set1_epi64x((long long)0x8040201008040201u);
    const __m128i spread = _mm_shuffle_epi8(
        _mm_cvtsi32_si128(bits), _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(spread, each), each), _mm_set1_epi8(16));
}

/* Blocks of 32; h: which half. The nibbles of the first half are the low ones. */
CDZ_INLINE group16 small_group(cdz_dtype type, const uint8_t *b, size_t h)
{
    const __m128i eight = _mm_set1_epi8(8), sixteen = _mm_set1_epi8(16);
    group16 g = {.d = half_float(b), .m = 0};
    switch (type) {
    case CDZ_Q8_0: g.q = bytes_at(b + 2 + 16 * h); break;
    case CDZ_Q4_0: g.q = _mm_sub_epi8(bits_at(b + 2, 4 * h, 15), eight); break;
    case CDZ_Q4_1: g.q = bits_at(b + 4, 4 * h, 15); break;
    case CDZ_Q5_0:
        g.q = _mm_add_epi8(bits_at(b + 6, 4 * h, 15), fifth_bits_at(b + 2 + 2 * h));
        g.q = _mm_sub_epi8(g.q, sixteen);
        break;
    default: g.q = _mm_add_epi8(bits_at(b + 8, 4 * h, 15), fifth_bits_at(b + 4 + 2 * h));
    }
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1) g.m = half_float(b + 2);
    return g;
}

/* Group g of sixteen in a block of 256. */
CDZ_INLINE group16 q2_k_group(const uint8_t *b, size_t g)
{
    return (group16){.q = bits_at(b + 16 + g / 8 * 32 + g % 2 * 16, g % 8 / 2 * 2, 3),
                     .d = half_float(b + 80) * (float)(b[g] & 15),
                     .m = half_float(b + 82) * (float)(b[g] >> 4)};
}

CDZ_INLINE group16 q3_k_group(const uint8_t *b, size_t g)
{
    const uint8_t *s = b + 96;
    const int low = s[g % 8] >> g / 8 * 4 & 15, top = s[8 + g % 4] >> g / 4 * 2 & 3;
    const __m128i two = bits_at(b + 32 + g / 8 * 32 + g % 2 * 16, g % 8 / 2 * 2, 3),
                  third = _mm_slli_epi16(bits_at(b + g % 2 * 16, g / 2, 1), 2);
    return (group16){.q = _mm_sub_epi8(_mm_or_si128(two, third), _mm_set1_epi8(4)),
                     .d = half_float(b + 108) * (float)((low | top << 4) - 32)};
}

/* Q4_K and Q5_K: scale and minimum of sub-block s, six bits each in 12 bytes. */
CDZ_INLINE group16 q45_k_group(cdz_dtype type, const uint8_t *b, size_t g)
{
    const size_t s = g / 2, part = g % 2 * 16;
    const uint8_t *f = b + 4, *q = b + (type == CDZ_Q4_K ? 16 : 48) + s / 2 * 32 + part;
    const int scale = s < 4 ? f[s] & 63 : (f[s + 4] & 15) | f[s - 4] >> 6 << 4;
    const int minimum = s < 4 ? f[s + 4] & 63 : f[s + 4] >> 4 | f[s] >> 6 << 4;
    group16 to = {.q = bits_at(q, s % 2 * 4, 15),
                  .d = half_float(b) * (float)scale,
                  .m = half_float(b + 2) * (float)minimum};
    if (type == CDZ_Q5_K)
        to.q = _mm_or_si128(to.q, _mm_slli_epi16(bits_at(b + 16 + part, s, 1), 4));
    return to;
}

CDZ_INLINE group16 q6_k_group(const uint8_t *b, size_t g)
{
    const size_t group = g / 2 % 4, half = g / 8, part = g % 2 * 16;
    const __m128i low = bits_at(b + half * 64 + group % 2 * 32 + part, group / 2 * 4, 15);
    const __m128i top = bits_at(b + 128 + half * 32 + part, group * 2, 3);
    const __m128i q = _mm_or_si128(low, _mm_slli_epi16(top, 4));
    return (group16){.q = _mm_sub_epi8(q, _mm_set1_epi8(32)),
                     .d = half_float(b + 208) * (float)(int8_t)b[192 + g]};
}

/* Group g of sixteen in a block of 64: NF4 and FP4 have pairs of nibbles, the high one first. */
CDZ_INLINE group16 group_of_64(cdz_dtype type, const uint8_t *b, size_t g)
{
    group16 to = {.q = bytes_at(b + 4 + (type == CDZ_INT8 ? 16 * g : 0)), .d = whole_float(b)};
    if (type == CDZ_INT8) return to;
    int64_t eight;
    memcpy(&eight, b + 4 + 8 * g, sizeof eight);
    const __m128i pairs = _mm_cvtsi64_si128(eight), mask = _mm_set1_epi8(15);
    to.q = _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(pairs, 4), mask),
                             _mm_and_si128(pairs, mask));
    return to;
}

/* Nibbles that stand for levels, h: which half. */
CDZ_INLINE group16 level_group(const uint8_t *nibbles, size_t h, float d)
{
    return (group16){.q = bits_at(nibbles, 4 * h, 15), .d = d};
}

/* 2^(e - 128) */
CDZ_INLINE float exponent_float(uint8_t e)
{
    const uint32_t bits = e < 2 ? (uint32_t)0x200000 << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Two groups whose nibbles stand in the same bytes, low ones first. */
typedef struct group32 {
    const uint8_t *nibbles;
    float d;
} group32;

/* Those of sixteen columns each in a block of 256. */
CDZ_INLINE group32 iq4_xs_groups(const uint8_t *b, size_t s)
{
    const int top = b[2 + s / 4] >> s % 4 * 2 & 3,
              scale = (b[4 + s / 2] >> s % 2 * 4 & 15) | top << 4;
    return (group32){b + 8 + 16 * s, half_float(b) * (float)(scale - 32)};
}

/* Does a type have such groups? */
CDZ_INLINE bool has_groups32(cdz_dtype type)
{
    return type == CDZ_MXFP4 || type == CDZ_IQ4_NL || type == CDZ_IQ4_XS;
}

/* Columns [k, k + 32) of a row of one; k is a multiple of 32. */
CDZ_INLINE group32 groups_at(cdz_dtype type, const void *row, size_t k)
{
    const uint8_t *b = row;
    switch (type) {
    case CDZ_MXFP4: b += k / 32 * 17; return (group32){b + 1, exponent_float(b[0])};
    case CDZ_IQ4_NL: b += k / 32 * 18; return (group32){b + 2, half_float(b)};
    default: return iq4_xs_groups(b + k / 256 * 136, k % 256 / 32);
    }
}

CDZ_INLINE group16 half_of(group32 g, size_t h)
{
    return level_group(g.nibbles, h, g.d);
}

/* Columns [k, k + 16) of a row of blocks; k is a multiple of 16. */
CDZ_INLINE group16 group_at(cdz_dtype type, const void *row, size_t k)
{
    const uint8_t *b = row;
    switch (type) {
    case CDZ_Q8_0: return small_group(type, b + k / 32 * 34, k % 32 / 16);
    case CDZ_Q4_0: return small_group(type, b + k / 32 * 18, k % 32 / 16);
    case CDZ_Q4_1: return small_group(type, b + k / 32 * 20, k % 32 / 16);
    case CDZ_Q5_0: return small_group(type, b + k / 32 * 22, k % 32 / 16);
    case CDZ_Q5_1: return small_group(type, b + k / 32 * 24, k % 32 / 16);
    case CDZ_Q2_K: return q2_k_group(b + k / 256 * 84, k % 256 / 16);
    case CDZ_Q3_K: return q3_k_group(b + k / 256 * 110, k % 256 / 16);
    case CDZ_Q4_K: return q45_k_group(type, b + k / 256 * 144, k % 256 / 16);
    case CDZ_Q5_K: return q45_k_group(type, b + k / 256 * 176, k % 256 / 16);
    case CDZ_Q6_K: return q6_k_group(b + k / 256 * 210, k % 256 / 16);
    case CDZ_MXFP4:
    case CDZ_IQ4_NL:
    case CDZ_IQ4_XS: return half_of(groups_at(type, row, k / 32 * 32), k % 32 / 16);
    case CDZ_FP8: /* as float16 they are 256 times smaller */
        b += k / 64 * 68;
        return (group16){.q = bytes_at(b + 4 + k % 64), .d = whole_float(b) * 256.0f};
    case CDZ_INT8: return group_of_64(type, b + k / 64 * 68, k % 64 / 16);
    default: return group_of_64(type, b + k / 64 * 36, k % 64 / 16); /* NF4, FP4 */
    }
}

/* May a row end within a group? Rows of other blocks are whole blocks. */
CDZ_INLINE bool has_tail(cdz_dtype type)
{
    return type < CDZ_N_PLAIN || type == CDZ_FP8;
}

CDZ_INLINE bool has_levels(cdz_dtype type)
{
    return type == CDZ_NF4 || type == CDZ_FP4 || (type >= CDZ_MXFP4 && type != CDZ_FP8);
}

CDZ_INLINE const float *levels_of(cdz_dtype type)
{
    static const float nf4[16] = CDZ_NF4_LEVELS, fp4[16] = CDZ_FP4_LEVELS,
                       mxfp4[16] = CDZ_MXFP4_LEVELS, iq4[16] = CDZ_IQ4_LEVELS;
    switch (type) {
    case CDZ_NF4: return nf4;
    case CDZ_FP4: return fp4;
    case CDZ_MXFP4: return mxfp4;
    default: return iq4;
    }
}

/* Codes of float8_e4m3fn in the low bytes of words, as float16 of the same bits: the sign at the top, exponent and mantissa
 * where float16 has the lower four of its five exponent bits and the upper three of its ten. */
CDZ_INLINE __m128i half_of_e4m3(__m128i codes)
{
    const __m128i spread = _mm_srai_epi16(_mm_slli_epi16(codes, 8), 1);
    return _mm_and_si128(spread, _mm_set1_epi16((short)0xbfff));
}

/* Of the types with a minimum: 1 where it is added, -1 where it comes off, else 0. */
CDZ_INLINE int sign_of_minimum(cdz_dtype type)
{
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1) return 1;
    return type == CDZ_Q2_K || type == CDZ_Q4_K || type == CDZ_Q5_K ? -1 : 0;
}

#endif
