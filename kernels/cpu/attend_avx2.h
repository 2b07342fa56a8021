/* attend_avx2.h - the registers of an attention tile, eight lanes wide: four queries by two of them, and how the store's
 * numbers are widened into one. CDZ_ATTEND_TYPE is what the store holds. */
#ifndef CDZ_ATTEND_AVX2_H
#define CDZ_ATTEND_AVX2_H

#include "cpu/avx2.h"
#include "ref/kv_layout.h"

#define CDZ_TILE_QUERIES 4

typedef __m256 word;
enum { WORD = 8, TILE_QUERIES = CDZ_TILE_QUERIES, KEY_WORDS = 2 };

CDZ_INLINE word word_of(float x)
{
    return _mm256_set1_ps(x);
}

CDZ_INLINE word load_word(const float *at)
{
    return _mm256_loadu_ps(at);
}

CDZ_INLINE void store_word(float *at, word x)
{
    _mm256_storeu_ps(at, x);
}

CDZ_INLINE word times(word a, word b)
{
    return _mm256_mul_ps(a, b);
}

CDZ_INLINE void fma_word(word *acc, word a, word b)
{
    fma8(acc, a, b);
}

/* Numbers that lie side by side; of Q8_0 still to be multiplied by their factors. */
CDZ_INLINE word widen_word(const char *at)
{
    if (CDZ_ATTEND_TYPE != CDZ_Q8_0) return load8(CDZ_ATTEND_TYPE, at, 0);
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
}

/* The i-th register of the keys of groups of positions. */
CDZ_INLINE word widen_keys(int i, const char *at, size_t group_bytes)
{
    return widen_word(at + (size_t)i * group_bytes);
}

/* Likewise their factors. */
CDZ_INLINE word widen_factors(int i, const char *at, size_t group_bytes)
{
    return load8(CDZ_F16, at + (size_t)i * group_bytes, 0);
}

/* acc[d..] += weight(p) * v[p][d..] for the dims past the last whole register; values are (positions, dim). */
static void add_values_rest(size_t nq, const cdz_attend_query *query, const float *weights,
                            size_t stride, const char *values, size_t dim, size_t d, size_t from,
                            size_t to)
{
    const cdz_kv_place first = {0, 0};
    const size_t bytes = cdz_dtype_bytes(CDZ_ATTEND_TYPE);
    for (size_t i = 0; i < nq; i++)
        for (size_t at = d; at < dim; at++) {
            float sum = query[i].out[at];
            for (size_t p = from; p < to; p++) {
                const float v = cdz_kv_read(CDZ_ATTEND_TYPE, values + (p * dim + at) * bytes, first);
                sum = __builtin_fmaf(weights[i * stride + p], v, sum);
            }
            query[i].out[at] = sum;
        }
}

#endif
