/* elements.cuh - elements of every weight type as float32, four neighbours at a time.
 *
 * load4<D>(out, row, i) gives elements [4i, 4i + 4) of a row: a type costs this loader and nothing
 * else. The steps and their roundings are those of ref/quant_rows.h. Rows of blocks begin at even
 * addresses: every block has an even number of bytes, and what place and alloc give is aligned. MXFP4's
 * blocks have 17 and are read byte by byte. */
#ifndef CDZ_CUDA_ELEMENTS_CUH
#define CDZ_CUDA_ELEMENTS_CUH

#include "device.h"

/* A matrix of activations. */
struct row_view {
    float *at;
    size_t ld;
};

template <int D> struct block_of; /* elements and bytes of a block, as in dtype.c */
#define BLOCK_OF(dtype, n, size)                                                                   \
    template <> struct block_of<dtype> {                                                           \
        static constexpr unsigned elements = n, bytes = size;                                      \
    }
BLOCK_OF(CDZ_F32, 1, 4);
BLOCK_OF(CDZ_F16, 1, 2);
BLOCK_OF(CDZ_BF16, 1, 2);
BLOCK_OF(CDZ_Q8_0, 32, 34);
BLOCK_OF(CDZ_Q4_0, 32, 18);
BLOCK_OF(CDZ_Q4_1, 32, 20);
BLOCK_OF(CDZ_Q5_0, 32, 22);
BLOCK_OF(CDZ_Q5_1, 32, 24);
BLOCK_OF(CDZ_Q2_K, 256, 84);
BLOCK_OF(CDZ_Q3_K, 256, 110);
BLOCK_OF(CDZ_Q4_K, 256, 144);
BLOCK_OF(CDZ_Q5_K, 256, 176);
BLOCK_OF(CDZ_Q6_K, 256, 210);
BLOCK_OF(CDZ_NF4, 64, 36);
BLOCK_OF(CDZ_FP4, 64, 36);
BLOCK_OF(CDZ_INT8, 64, 68);
BLOCK_OF(CDZ_MXFP4, 32, 17);
BLOCK_OF(CDZ_IQ4_NL, 32, 18);
BLOCK_OF(CDZ_IQ4_XS, 256, 136);
BLOCK_OF(CDZ_FP8, 64, 68);
#undef BLOCK_OF

template <int D> __device__ inline size_t row_bytes(size_t k)
{
    return (k + block_of<D>::elements - 1) / block_of<D>::elements * block_of<D>::bytes;
}

__device__ inline uint32_t u16_at(const uint8_t *at)
{
    return *reinterpret_cast<const uint16_t *>(at);
}

/* Four bytes at an even address. */
__device__ inline uint32_t u32_at(const uint8_t *at)
{
    return u16_at(at) | u16_at(at + 2) << 16;
}

__device__ inline float f16_at(const uint8_t *at)
{
    return cdz_widen_f16((uint16_t)u16_at(at));
}

__device__ inline int s8_of(uint32_t word, unsigned i)
{
    return (int8_t)(word >> (8 * i) & 255);
}

__device__ inline int u8_of(uint32_t word, unsigned i)
{
    return (int)(word >> (8 * i) & 255);
}

/* Element i of a row of a plain type, from wherever it lies. */
template <int D> __device__ inline float load1(const uint8_t *row, size_t i)
{
    if (D == CDZ_F32) return reinterpret_cast<const float *>(row)[i];
    const uint16_t h = reinterpret_cast<const uint16_t *>(row)[i];
    return D == CDZ_F16 ? cdz_widen_f16(h) : cdz_widen_bf16(h);
}

/* The two elements in a word of a 16-bit type. */
template <int D> __device__ inline void halves(float *out, unsigned word)
{
    out[0] = D == CDZ_F16 ? cdz_widen_f16((uint16_t)word) : cdz_float_of_bits(word << 16);
    out[1] = D == CDZ_F16 ? cdz_widen_f16((uint16_t)(word >> 16))
                          : cdz_float_of_bits(word & 0xffff0000u);
}

/* Plain types: rows aligned to four elements. Read once, so past the nearer cache. */
template <int D> __device__ inline void load4_plain(float out[4], const uint8_t *row, size_t i)
{
    if (D == CDZ_F32) {
        const float4 v = __ldcs(reinterpret_cast<const float4 *>(row) + i);
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
        const uint2 v = __ldcs(reinterpret_cast<const uint2 *>(row) + i);
        halves<D>(out, v.x);
        halves<D>(out + 2, v.y);
    }
}

/* ---- blocks of 32: element j of the block is the first of the four ---- */

__device__ inline void q8_0(float out[4], const uint8_t *b, unsigned j)
{
    const float d = f16_at(b);
    const uint32_t q = u32_at(b + 2 + j);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = (float)s8_of(q, i) * d;
}

/* Four nibbles: bytes [j % 16, + 4), the low halves of which are elements 0 to 15. */
__device__ inline uint32_t nibbles(const uint8_t *at, unsigned j)
{
    return u32_at(at + j % 16) >> (j < 16 ? 0 : 4) & 0x0f0f0f0fu;
}

__device__ inline int fifth(uint32_t bits, unsigned j)
{
    return (int)(bits >> j & 1) << 4;
}

template <int D> __device__ inline void small(float out[4], const uint8_t *b, unsigned j)
{
    constexpr bool has_minimum = D == CDZ_Q4_1 || D == CDZ_Q5_1;
    constexpr bool has_fifth = D == CDZ_Q5_0 || D == CDZ_Q5_1;
    constexpr unsigned head = has_minimum ? 4 : 2;
    constexpr int offset = D == CDZ_Q4_0 ? 8 : D == CDZ_Q5_0 ? 16 : 0;
    const float d = f16_at(b), m = has_minimum ? f16_at(b + 2) : 0.0f;
    const uint32_t high = has_fifth ? u32_at(b + head) : 0;
    const uint32_t q = nibbles(b + head + (has_fifth ? 4 : 0), j);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const float v = (float)(u8_of(q, i) + fifth(high, j + i) - offset) * d;
        out[i] = has_minimum ? v + m : v;
    }
}

/* ---- blocks of 256 ---- */

__device__ inline void q2_k(float out[4], const uint8_t *b, unsigned j)
{
    const unsigned g = j / 16, shift = g % 8 / 2 * 2;
    const uint32_t q = u32_at(b + 16 + g / 8 * 32 + g % 2 * 16 + j % 16) >> shift;
    const float dl = f16_at(b + 80) * (float)(b[g] & 15), ml = f16_at(b + 82) * (float)(b[g] >> 4);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = dl * (float)(u8_of(q, i) & 3) - ml;
}

__device__ inline void q3_k(float out[4], const uint8_t *b, unsigned j)
{
    const unsigned g = j / 16, shift = g % 8 / 2 * 2, bit = g / 2;
    const uint8_t *s = b + 96;
    const uint32_t q = u32_at(b + 32 + g / 8 * 32 + g % 2 * 16 + j % 16) >> shift;
    const uint32_t h = u32_at(b + g % 2 * 16 + j % 16) >> bit;
    const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, top = s[8 + g % 4] >> (g / 4 * 2) & 3;
    const float dl = f16_at(b + 108) * (float)((low | top << 4) - 32);
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        out[i] = dl * (float)((u8_of(q, i) & 3) - 4 + ((u8_of(h, i) & 1) << 2));
}

/* Scale and minimum g of eight, six bits each in 12 bytes. */
__device__ inline void scale_of(const uint8_t *s, unsigned g, int *scale, int *minimum)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *minimum = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
        *minimum = s[g + 4] >> 4 | (s[g] >> 6) << 4;
    }
}

/* Q4_K and Q5_K: the same but for the fifth bits. */
template <bool has_fifth> __device__ inline void q45_k(float out[4], const uint8_t *b, unsigned j)
{
    const unsigned g = j / 32, shift = g % 2 * 4;
    int scale, minimum;
    scale_of(b + 4, g, &scale, &minimum);
    const float dl = f16_at(b) * (float)scale, ml = f16_at(b + 2) * (float)minimum;
    const uint32_t q = u32_at(b + (has_fifth ? 48 : 16) + g / 2 * 32 + j % 32) >> shift;
    const uint32_t h = has_fifth ? u32_at(b + 16 + j % 32) >> g : 0;
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        out[i] = dl * (float)((u8_of(q, i) & 15) | (u8_of(h, i) & 1) << 4) - ml;
}

__device__ inline void q6_k(float out[4], const uint8_t *b, unsigned j)
{
    const unsigned g = j / 16, group = g / 2 % 4, half = g / 8, part = g % 2 * 16 + j % 16;
    const uint32_t q = u32_at(b + half * 64 + group % 2 * 32 + part) >> (group / 2 * 4);
    const uint32_t h = u32_at(b + 128 + half * 32 + part) >> (group * 2);
    const float dl = f16_at(b + 208) * (float)(int8_t)b[192 + g];
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        out[i] = dl * (float)(((u8_of(q, i) & 15) | (u8_of(h, i) & 3) << 4) - 32);
}

/* ---- blocks of 64 ---- */

__device__ inline float level_of(bool nf4, unsigned i)
{
    static constexpr float nf4_levels[16] = CDZ_NF4_LEVELS, fp4_levels[16] = CDZ_FP4_LEVELS;
    return nf4 ? nf4_levels[i] : fp4_levels[i];
}

__device__ inline void levels(float out[4], const uint8_t *b, unsigned j, bool nf4)
{
    const float d = cdz_float_of_bits(u32_at(b));
    const uint32_t q = u16_at(b + 4 + j / 2);
    out[0] = level_of(nf4, q >> 4 & 15) * d;
    out[1] = level_of(nf4, q & 15) * d;
    out[2] = level_of(nf4, q >> 12) * d;
    out[3] = level_of(nf4, q >> 8 & 15) * d;
}

__device__ inline void int8(float out[4], const uint8_t *b, unsigned j)
{
    const float d = cdz_float_of_bits(u32_at(b)), share = 1.0f / 127.0f;
    const uint32_t q = u32_at(b + 4 + j);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = (float)s8_of(q, i) * d * share;
}

/* Elements past k are no numbers of the row, whatever the block has there. */
__device__ inline void cut_off(float out[4], size_t e, size_t k)
{
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        if (e + i >= k) out[i] = 0.0f;
}

__device__ inline void fp8(float out[4], const uint8_t *b, unsigned j)
{
    const float d = cdz_float_of_bits(u32_at(b));
    const uint32_t q = u32_at(b + 4 + j);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = cdz_e4m3((uint8_t)(q >> (8 * i))) * d;
}

/* ---- levels: the low nibbles first, then the high ones ---- */

__device__ inline float mxfp4_level(unsigned i)
{
    static constexpr float all[16] = CDZ_MXFP4_LEVELS;
    return all[i];
}

__device__ inline float iq4_level(unsigned i)
{
    static constexpr float all[16] = CDZ_IQ4_LEVELS;
    return all[i];
}

__device__ inline void mxfp4(float out[4], const uint8_t *b, unsigned j)
{
    const float d = cdz_mxfp4_factor(b[0]);
    const unsigned shift = j < 16 ? 0 : 4;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = mxfp4_level(b[1 + j % 16 + i] >> shift & 15) * d;
}

/* Of a group of 32 whose nibbles begin at `at`. */
__device__ inline void iq4(float out[4], const uint8_t *at, unsigned j, float d)
{
    const uint32_t q = nibbles(at, j);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = iq4_level((unsigned)u8_of(q, i)) * d;
}

__device__ inline void iq4_xs(float out[4], const uint8_t *b, unsigned j)
{
    const unsigned g = j / 32, top = u16_at(b + 2) >> (2 * g) & 3;
    const int scale = (int)((b[4 + g / 2] >> (g % 2 * 4) & 15) | top << 4) - 32;
    iq4(out, b + 8 + 16 * g, j % 32, f16_at(b) * (float)scale);
}

template <int D> __device__ inline void load4(float out[4], const uint8_t *row, size_t i)
{
    if constexpr (D < CDZ_N_PLAIN) {
        load4_plain<D>(out, row, i);
    } else {
        const size_t e = 4 * i;
        const uint8_t *b = row + e / block_of<D>::elements * block_of<D>::bytes;
        const unsigned j = (unsigned)(e % block_of<D>::elements);
        if constexpr (D == CDZ_Q8_0)
            q8_0(out, b, j);
        else if constexpr (D <= CDZ_Q5_1)
            small<D>(out, b, j);
        else if constexpr (D == CDZ_Q2_K)
            q2_k(out, b, j);
        else if constexpr (D == CDZ_Q3_K)
            q3_k(out, b, j);
        else if constexpr (D == CDZ_Q4_K)
            q45_k<false>(out, b, j);
        else if constexpr (D == CDZ_Q5_K)
            q45_k<true>(out, b, j);
        else if constexpr (D == CDZ_Q6_K)
            q6_k(out, b, j);
        else if constexpr (D == CDZ_INT8)
            int8(out, b, j);
        else if constexpr (D == CDZ_MXFP4)
            mxfp4(out, b, j);
        else if constexpr (D == CDZ_IQ4_NL)
            iq4(out, b + 2, j, f16_at(b));
        else if constexpr (D == CDZ_IQ4_XS)
            iq4_xs(out, b, j);
        else if constexpr (D == CDZ_FP8)
            fp8(out, b, j);
        else
            levels(out, b, j, D == CDZ_NF4);
    }
}

/* One element, of any type. */
template <int D> __device__ inline float load_any(const uint8_t *row, size_t i)
{
    if constexpr (D < CDZ_N_PLAIN) {
        return load1<D>(row, i);
    } else {
        float four[4];
        load4<D>(four, row, i / 4);
        return four[i % 4];
    }
}

/* Element i of a vector whose type is known at run time only, as biases and norms are. */
__device__ inline float block_element(const uint8_t *row, int dtype, size_t i);

__device__ inline float vector_at(const void *data, int dtype, size_t i)
{
    if (dtype == CDZ_F32) return static_cast<const float *>(data)[i];
    if (dtype >= CDZ_N_PLAIN) return block_element(static_cast<const uint8_t *>(data), dtype, i);
    const uint16_t h = static_cast<const uint16_t *>(data)[i];
    return dtype == CDZ_F16 ? cdz_widen_f16(h) : cdz_widen_bf16(h);
}

/* Types that are read and never made. */
#define CDZ_EACH_READ_TYPE(DO) DO(CDZ_MXFP4) DO(CDZ_IQ4_NL) DO(CDZ_IQ4_XS) DO(CDZ_FP8)
#define CDZ_EACH_BLOCK_TYPE(DO)                                                                    \
    DO(CDZ_Q8_0)                                                                                   \
    DO(CDZ_Q4_0)                                                                                   \
    DO(CDZ_Q4_1)                                                                                   \
    DO(CDZ_Q5_0)                                                                                   \
    DO(CDZ_Q5_1)                                                                                   \
    DO(CDZ_Q2_K)                                                                                   \
    DO(CDZ_Q3_K) DO(CDZ_Q4_K) DO(CDZ_Q5_K) DO(CDZ_Q6_K) DO(CDZ_NF4) DO(CDZ_FP4) DO(CDZ_INT8)
#define CDZ_EACH_MADE_TYPE(DO) DO(CDZ_F32) DO(CDZ_F16) DO(CDZ_BF16) CDZ_EACH_BLOCK_TYPE(DO)
#define CDZ_EACH_TYPE(DO)      CDZ_EACH_MADE_TYPE(DO) CDZ_EACH_READ_TYPE(DO)

__device__ inline float block_element(const uint8_t *row, int dtype, size_t i)
{
    switch (dtype) {
#define CASE(D)                                                                                    \
    case D: return load_any<D>(row, i);
        CDZ_EACH_BLOCK_TYPE(CASE)
        CDZ_EACH_READ_TYPE(CASE)
#undef CASE
    default: return 0.0f;
    }
}

/* ---- rounding to 16 bits, to nearest, ties to even ---- */

__device__ inline uint16_t round_bf16(float x)
{
    const uint32_t bits = cdz_bits_of_float(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* The magnitude is scaled so that the half's last place is the float's; too large ones become infinite. */
__device__ inline uint16_t round_f16(float x)
{
    const uint32_t bits = cdz_bits_of_float(x), sign = bits >> 16 & 0x8000u,
                   size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (size < 0x38800000u) { /* subnormal: adding 0.5 rounds to multiples of 2^-24 */
        const float shifted = cdz_float_of_bits(size) + 0.5f;
        return (uint16_t)(sign | (cdz_bits_of_float(shifted) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13));
}

#endif
