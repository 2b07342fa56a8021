/* attend_avx2.h - the registers of an attention tile, eight lanes wide: four queries by two of them, and how the store's
 * numbers are widened into one. CDZ_ATTEND_TYPE is what the store holds. */
#ifndef CDZ_ATTEND_AVX2_H
#define CDZ_ATTEND_AVX2_H

#include "cpu/avx2.h"
#include "ref/kv_layout.h"

#define CDZ_TILE_QUERIES 4

typedef __m256 word;
enum { WORD = 8, TILE_QUERIES = CDZ_TILE_QUERIES, KEY_WORDS = 2 };

#include "cpu/attend_softmax.h"

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

CDZ_INLINE word minus(word a, word b)
{
    return _mm256_sub_ps(a, b);
}

CDZ_INLINE word exp_of(word x)
{
    return exp8(x);
}

/* b's lane where a's is NaN. */
CDZ_INLINE word larger_of(word a, word b)
{
    return _mm256_max_ps(a, b);
}

CDZ_INLINE float largest_lane(word v)
{
    return largest8(v);
}

/* v in the lanes of the positions from `at` on that lie in [begin, end), other elsewhere. */
CDZ_INLINE word within(word v, size_t at, size_t begin, size_t end, word other)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int low = (int)lanes_before(at, begin), high = (int)lanes_before(at, end);
    const __m256i seen = _mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32(low - 1)),
                                          _mm256_cmpgt_epi32(_mm256_set1_epi32(high), lane));
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(seen));
}

/* The eight sums of the softmax and the next numbers. */
CDZ_INLINE __m256 add_eights(__m256 sum, word v)
{
    return _mm256_add_ps(sum, v);
}

/* Half bytes, each 8 too great: the lower of each when it is turned right by shift. */
CDZ_INLINE __m128i lower_halves(__m128i bytes, __m128i shift)
{
    const __m128i low = _mm_and_si128(_mm_srl_epi16(bytes, shift), _mm_set1_epi8(15));
    return _mm_sub_epi8(low, _mm_set1_epi8(8));
}

/* Numbers that lie side by side; of blocks still to be multiplied by their factors. */
CDZ_INLINE word widen_word(const char *at, __m128i shift)
{
    if (CDZ_ATTEND_TYPE < CDZ_N_PLAIN) return load8(CDZ_ATTEND_TYPE, at, 0);
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)at);
    if (CDZ_ATTEND_TYPE == CDZ_Q4_0) bytes = lower_halves(bytes, shift);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

/* The i-th register of the keys of groups of positions. */
CDZ_INLINE word widen_keys(int i, const char *at, size_t group_bytes, __m128i shift)
{
    return widen_word(at + (size_t)i * group_bytes, shift);
}

/* Likewise their factors. */
CDZ_INLINE word widen_factors(int i, const char *at, size_t group_bytes)
{
    return load8(CDZ_F16, at + (size_t)i * group_bytes, 0);
}

/* acc[d..] += weight(p) * v[p][d..] for the dims past the last whole register; values are (positions, dim). */
static void add_values_rest(size_t nq, const cdz_attend_query *query, const float *weights,
                            const char *values, size_t dim, size_t d, size_t from, size_t to)
{
    const cdz_kv_place first = {0, 0, 0};
    const size_t bytes = cdz_dtype_bytes(CDZ_ATTEND_TYPE);
    for (size_t i = 0; i < nq; i++)
        for (size_t at = d; at < dim; at++) {
            float sum = query[i].out[at];
            for (size_t p = from; p < to; p++) {
                const float v = cdz_kv_read(CDZ_ATTEND_TYPE, values + (p * dim + at) * bytes, first);
                sum = __builtin_fmaf(weights[i * CDZ_KV_BLOCK + p], v, sum);
            }
            query[i].out[at] = sum;
        }
}

#endif
