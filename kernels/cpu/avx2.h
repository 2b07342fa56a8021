/* avx2.h - what the AVX2 kernels share: loads that widen, the multiply-add, the fold tree. On arm64 they are the NEON set
 * (avx2_on_neon.h), but for products of bf16 pairs (neon_pairs.c).
 *
 * A group is 16 columns, held as two registers: lanes 0-7 and 8-15. */
#ifndef CDZ_AVX2_H
#define CDZ_AVX2_H

#include <string.h>

#include "cpu/intrinsics.h"
#include "kernel_set.h"

#define CDZ_INLINE static inline __attribute__((always_inline))

/* Loops over accumulators must vanish, or the accumulators live in memory. */
#if defined(__clang__)
#define CDZ_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CDZ_UNROLL _Pragma("GCC unroll 32")
#endif

/* acc += a * b. Written in assembly because gcc otherwise picks the form that overwrites a
 * factor, and then copies and spills in tiles of twelve accumulators: 30 instead of 43 GMAC/s. */
CDZ_INLINE void fma8(__m256 *acc, __m256 a, __m256 b)
{
#if defined(CDZ_HAVE_X86)
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
#else
    *acc = _mm256_fmadd_ps(a, b, *acc);
#endif
}

#if defined(CDZ_HAVE_X86)
/* Keeps gcc from adding up products as a tree, which takes more registers than there are. */
CDZ_INLINE void in_order(__m256i *sum)
{
    __asm__("" : "+x"(*sum));
}
#endif

/* acc += a * b, lane by lane; or of lanes of two bf16 numbers the product of the second ones, then that of the first. */
CDZ_INLINE void multiply_add8(bool bf16_pairs, __m256 *acc, __m256 a, __m256 b)
{
    if (!bf16_pairs) {
        fma8(acc, a, b);
        return;
    }
    const __m256i ai = _mm256_castps_si256(a), bi = _mm256_castps_si256(b),
                  second = _mm256_set1_epi32((int)0xffff0000);
    fma8(acc, _mm256_castsi256_ps(_mm256_and_si256(ai, second)),
         _mm256_castsi256_ps(_mm256_and_si256(bi, second)));
    fma8(acc, _mm256_castsi256_ps(_mm256_slli_epi32(ai, 16)),
         _mm256_castsi256_ps(_mm256_slli_epi32(bi, 16)));
}

#if defined(CDZ_HAVE_X86)
/* Numbers below the smallest normal one count as zero, as products of bf16 pairs want it; returns what _mm_setcsr takes
 * to end that. What computes in between is a function that is not inlined. */
CDZ_INLINE unsigned small_to_zero(void)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    return before;
}
#endif

CDZ_INLINE size_t element_bytes(cdz_dtype dtype)
{
    return dtype == CDZ_F32 ? 4 : 2;
}

/* Eight weights from column k of a row, exactly widened. */
CDZ_INLINE __m256 load8(cdz_dtype dtype, const void *row, size_t k)
{
    if (dtype == CDZ_F32) return _mm256_loadu_ps((const float *)row + k);
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)row + k));
    if (dtype == CDZ_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* The last n < 16 columns of a row, followed by zeros: a mapped file may end right after them. */
typedef union tail_group {
    float f[CDZ_LANES];
    uint16_t h[CDZ_LANES];
} tail_group;

CDZ_INLINE void copy_tail(tail_group *tail, cdz_dtype dtype, const void *row, size_t k, size_t n)
{
    memset(tail, 0, sizeof *tail);
    memcpy(tail, (const char *)row + k * element_bytes(dtype), n * element_bytes(dtype));
}

/* 8 -> 4, then (s0 + s1) + (s2 + s3). */
CDZ_INLINE float fold8(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_hadd_ps(s, s);
    s = _mm_hadd_ps(s, s);
    return _mm_cvtss_f32(s);
}

/* The attention of this instruction set, compiled from attend.h. */
void cdz_avx2_attend(const cdz_attend *tile);
void cdz_avx2_attend_f16(const cdz_attend *tile);
void cdz_avx2_attend_bf16(const cdz_attend *tile);
void cdz_avx2_attend_q8_0(const cdz_attend *tile);
void cdz_avx2_attend_q4_0(const cdz_attend *tile);
void cdz_avx2_attend_packed(const cdz_attend *tile);

CDZ_INT8_DECLARE(cdz_avx2_int8)
CDZ_INT8_DECLARE(cdz_avx2_vnni_int8)
cdz_to_panel_fn cdz_avx2_to_panel;

cdz_dot_fn cdz_avx2_dot_f32, cdz_avx2_dot_f16, cdz_avx2_dot_bf16;
CDZ_BLOCK_DECLARE(cdz_dot_fn, cdz_avx2_dot)
CDZ_BLOCK_DECLARE(cdz_widen_fn, cdz_avx2_widen)
cdz_pack_weights_fn cdz_avx2_pack_f32, cdz_avx2_pack_f16, cdz_avx2_pack_bf16;
void cdz_avx2_pack_rows(float *packed, const float *x, size_t ldx, size_t rows, size_t height,
                        size_t kc);
void cdz_avx2_lane_tile(const cdz_lane_tile *tile);
cdz_dot_fn cdz_avx2_dot_pairs;
void cdz_avx2_lane_tile_pairs(const cdz_lane_tile *tile);

/* arm64's own. */
CDZ_INT8_DECLARE(cdz_neon_dotprod)
CDZ_INT8_DECLARE(cdz_neon_i8mm)
cdz_dot_fn cdz_neon_dot_pairs;

/* In the table of a set: what NEON has of them too. */
#define CDZ_AVX2_KERNELS                                                                           \
    .dot = {cdz_avx2_dot_f32, cdz_avx2_dot_f16, cdz_avx2_dot_bf16,                                 \
            CDZ_BLOCK_KERNELS(cdz_avx2_dot)},                                                      \
    .n_tile = 16, .heights = {6, 4, 2},                                                            \
    .pack_weights = {cdz_avx2_pack_f32, cdz_avx2_pack_f16, cdz_avx2_pack_bf16},                    \
    .pack_rows = cdz_avx2_pack_rows, .lane_tile = cdz_avx2_lane_tile,                              \
    .to_panel = cdz_avx2_to_panel,                                                                 \
    .attend = {[CDZ_F32] = cdz_avx2_attend,                                                        \
               [CDZ_F16] = cdz_avx2_attend_f16,                                                    \
               [CDZ_BF16] = cdz_avx2_attend_bf16,                                                  \
               [CDZ_Q8_0] = cdz_avx2_attend_q8_0,                                                  \
               [CDZ_Q4_0] = cdz_avx2_attend_q4_0},                                                 \
    .attend_packed = cdz_avx2_attend_packed

/* Tiles of products with int8 activations, cdz_avx2_int8 or with AVX-VNNI, and their heights (avx2_tall.h). */
#define CDZ_AVX2_INT8(prefix)                                                                      \
    .int8_tile = CDZ_INT8_TILES(prefix), .int8_heights = {48, 24, 16, 12, 8, 4, 2, 1},             \
    .int8_full = 4, .int8_spare = 7

#endif
