/* avx512.h - what the AVX-512 kernels share. One register holds the 16 lanes of an output, so a
 * group is one load; masks cut off the end of a row, and nothing past it is touched. Needs the
 * F, VL, BW and DQ subsets. */
#ifndef CDZ_AVX512_H
#define CDZ_AVX512_H

#include "cpu/avx2.h"
#include "cpu/group16.h"

enum {
    CDZ_VNNI_TALL = 24
}; /* rows of a tile of int8 activations from which on they lie 128 too great: avx512_int8.c */

/* As fma8. */
CDZ_INLINE void fma16(__m512 *acc, __m512 a, __m512 b)
{
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(*acc) : "v"(a), "v"(b));
}

/* acc += a * b, lane by lane; or of lanes of two bf16 numbers the product of the second ones, then that of the first. */
CDZ_INLINE void multiply_add16(bool bf16_pairs, __m512 *acc, __m512 a, __m512 b)
{
    if (!bf16_pairs) {
        fma16(acc, a, b);
        return;
    }
    const __m512i ai = _mm512_castps_si512(a), bi = _mm512_castps_si512(b);
#if defined(__AVX512BF16__)
    *acc = _mm512_dpbf16_ps(*acc, (__m512bh)ai, (__m512bh)bi);
#else
    const __m512i second = _mm512_set1_epi32((int)0xffff0000);
    fma16(acc, _mm512_castsi512_ps(_mm512_and_si512(ai, second)),
          _mm512_castsi512_ps(_mm512_and_si512(bi, second)));
    fma16(acc, _mm512_castsi512_ps(_mm512_slli_epi32(ai, 16)),
          _mm512_castsi512_ps(_mm512_slli_epi32(bi, 16)));
#endif
}

/* A group of weights from column k of a row, exactly widened. */
CDZ_INLINE __m512 load16(cdz_dtype dtype, const void *row, size_t k)
{
    if (dtype == CDZ_F32) return _mm512_loadu_ps((const float *)row + k);
    const __m256i half =
        _mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)row + k));
    if (dtype == CDZ_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* The same of a row of blocks, rounded as ref/quant_rows.h says. */
CDZ_INLINE __m512 blocks16(cdz_dtype dtype, const void *row, size_t k)
{
    const group16 g = group_at(dtype, row, k);
    if (dtype == CDZ_FP8) {
        const __m256i spread = _mm256_srai_epi16(_mm256_slli_epi16(_mm256_cvtepu8_epi16(g.q), 8), 1);
        const __m256i half = _mm256_and_si256(spread, _mm256_set1_epi16((short)0xbfff));
        return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(g.d));
    }
    const __m512i q = _mm512_cvtepi8_epi32(g.q);
    const __m512 wide = has_levels(dtype)
                            ? _mm512_permutexvar_ps(q, _mm512_loadu_ps(levels_of(dtype)))
                            : _mm512_cvtepi32_ps(q);
    const __m512 v = _mm512_mul_ps(wide, _mm512_set1_ps(g.d));
    if (dtype == CDZ_INT8) return _mm512_mul_ps(v, _mm512_set1_ps(1.0f / 127.0f));
    const int sign = sign_of_minimum(dtype);
    if (sign == 0) return v;
    return sign > 0 ? _mm512_add_ps(v, _mm512_set1_ps(g.m)) : _mm512_sub_ps(v, _mm512_set1_ps(g.m));
}

/* The columns of mask from column k on, zeros elsewhere. */
CDZ_INLINE __m512 load16_masked(cdz_dtype dtype, const void *row, size_t k, __mmask16 mask)
{
    if (dtype >= CDZ_N_PLAIN) return _mm512_maskz_mov_ps(mask, blocks16(dtype, row, k));
    if (dtype == CDZ_F32) return _mm512_maskz_loadu_ps(mask, (const float *)row + k);
    const __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + k);
    if (dtype == CDZ_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* 16 rows by 16 columns, transposed in place: in[c] becomes column c of the rows. */
CDZ_INLINE void transpose16(__m512 in[16])
{
    __m512 t[16];
    CDZ_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(in[i], in[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(in[i], in[i + 1]);
    }
    CDZ_UNROLL
    for (int i = 0; i < 16; i += 4) { /* in[i + c]: columns c, c+4, c+8, c+12 of rows i..i+3 */
        in[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        in[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        in[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        in[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    CDZ_UNROLL
    for (int c = 0; c < 4; c++) { /* pairs of row quarters: even and odd 128-bit parts */
        t[c] = _mm512_shuffle_f32x4(in[c], in[c + 4], 0x88);
        t[c + 4] = _mm512_shuffle_f32x4(in[c], in[c + 4], 0xdd);
        t[c + 8] = _mm512_shuffle_f32x4(in[c + 8], in[c + 12], 0x88);
        t[c + 12] = _mm512_shuffle_f32x4(in[c + 8], in[c + 12], 0xdd);
    }
    CDZ_UNROLL
    for (int c = 0; c < 4; c++) {
        in[c] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0x88);
        in[c + 4] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0x88);
        in[c + 8] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0xdd);
        in[c + 12] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0xdd);
    }
}

/* The first n < 16 columns of a group. */
CDZ_INLINE __mmask16 first_columns(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

CDZ_INLINE float fold16(__m512 v)
{
    return fold8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

void cdz_avx512_attend(const cdz_attend *tile);
void cdz_avx512_attend_f16(const cdz_attend *tile);
void cdz_avx512_attend_bf16(const cdz_attend *tile);
void cdz_avx512_attend_q8_0(const cdz_attend *tile);
void cdz_avx512_attend_q4_0(const cdz_attend *tile);
void cdz_avx512_attend_packed(const cdz_attend *tile);

CDZ_INT8_DECLARE(cdz_vnni_int8)
CDZ_INT8_DECLARE(cdz_amx_int8)

cdz_dot_fn cdz_avx512_dot_f32, cdz_avx512_dot_f16, cdz_avx512_dot_bf16;
CDZ_BLOCK_DECLARE(cdz_dot_fn, cdz_avx512_dot)
CDZ_BLOCK_DECLARE(cdz_widen_fn, cdz_avx512_widen)
cdz_pack_weights_fn cdz_avx512_pack_f32, cdz_avx512_pack_f16, cdz_avx512_pack_bf16;
void cdz_avx512_pack_rows(float *packed, const float *x, size_t ldx, size_t rows, size_t height,
                          size_t kc);
void cdz_avx512_lane_tile(const cdz_lane_tile *tile);
cdz_dot_fn cdz_avx512_dot_pairs, cdz_avx512_dot_bf16_pairs;
void cdz_avx512_lane_tile_pairs(const cdz_lane_tile *tile);
void cdz_avx512_lane_tile_bf16_pairs(const cdz_lane_tile *tile);
void cdz_amx_parts_product(const cdz_parts_product *p);
void cdz_amx_pack_parts(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t k,
                        size_t parts);

#endif
