/* attend_avx512.h - the registers of an attention tile, sixteen lanes wide: all its queries by two of them, so that what is
 * widened serves them all, and what is repeated serves two; and how the store's numbers are widened into one. CDZ_ATTEND_TYPE is what the store holds. */
#ifndef CDZ_ATTEND_AVX512_H
#define CDZ_ATTEND_AVX512_H

#include "cpu/avx512.h"
#include "ref/kv_layout.h"

#define CDZ_TILE_QUERIES 12

typedef __m512 word;
enum { WORD = 16, TILE_QUERIES = CDZ_TILE_QUERIES, KEY_WORDS = 2 };

#include "cpu/attend_softmax.h"

CDZ_INLINE word word_of(float x)
{
    return _mm512_set1_ps(x);
}

CDZ_INLINE word load_word(const float *at)
{
    return _mm512_loadu_ps(at);
}

CDZ_INLINE void store_word(float *at, word x)
{
    _mm512_storeu_ps(at, x);
}

CDZ_INLINE word times(word a, word b)
{
    return _mm512_mul_ps(a, b);
}

CDZ_INLINE void fma_word(word *acc, word a, word b)
{
    fma16(acc, a, b);
}

CDZ_INLINE word minus(word a, word b)
{
    return _mm512_sub_ps(a, b);
}

/* cdz_exp of 0, less, or NaN: the same operations, but 2^n, which it multiplies by in two halves of which the first is
 * exact, in one. */
CDZ_INLINE word exp_of(word x)
{
    const word t = _mm512_max_ps(word_of(-104.0f), x); /* the second one where it is NaN */
    const word magic = word_of(12582912.0f);
    const word n = _mm512_sub_ps(_mm512_fmadd_ps(t, word_of(1.44269504f), magic), magic);
    word r = _mm512_fmadd_ps(n, word_of(-0.693145752f), t);
    r = _mm512_fmadd_ps(n, word_of(-1.42860677e-6f), r);
    word p = _mm512_fmadd_ps(word_of(1.38319808e-3f), r, word_of(8.37550033e-3f));
    p = _mm512_fmadd_ps(p, r, word_of(4.16694112e-2f));
    p = _mm512_fmadd_ps(p, r, word_of(1.66664466e-1f));
    p = _mm512_fmadd_ps(p, r, word_of(4.99999851e-1f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, _mm512_add_ps(r, word_of(1.0f)));
    return _mm512_scalef_ps(p, n);
}

/* b's lane where a's is NaN. */
CDZ_INLINE word larger_of(word a, word b)
{
    return _mm512_max_ps(a, b);
}

CDZ_INLINE __m256 lower_half(word v)
{
    return _mm512_castps512_ps256(v);
}

CDZ_INLINE __m256 upper_half(word v)
{
    return _mm512_extractf32x8_ps(v, 1);
}

CDZ_INLINE float largest_lane(word v)
{
    return largest8(_mm256_max_ps(lower_half(v), upper_half(v)));
}

/* v in the lanes of the positions from `at` on that lie in [begin, end), other elsewhere. */
CDZ_INLINE word within(word v, size_t at, size_t begin, size_t end, word other)
{
    const __mmask16 seen =
        (__mmask16)(first_columns(lanes_before(at, end)) & ~first_columns(lanes_before(at, begin)));
    return _mm512_mask_mov_ps(other, seen, v);
}

/* The eight sums of the softmax and the next numbers, eight by eight. */
CDZ_INLINE __m256 add_eights(__m256 sum, word v)
{
    return _mm256_add_ps(_mm256_add_ps(sum, lower_half(v)), upper_half(v));
}

CDZ_INLINE word widen_bytes(__m128i bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

/* Half bytes, each 8 too great: the lower of each when it is turned right by shift. */
CDZ_INLINE word widen_halves(__m128i bytes, __m128i shift)
{
    const word numbers = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm_srl_epi16(bytes, shift)), numbers);
}

/* Numbers that lie side by side; of blocks still to be multiplied by their factors. */
CDZ_INLINE word widen_word(const char *at, __m128i shift)
{
    if (CDZ_ATTEND_TYPE < CDZ_N_PLAIN) return load16(CDZ_ATTEND_TYPE, at, 0);
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    return CDZ_ATTEND_TYPE == CDZ_Q8_0 ? widen_bytes(bytes) : widen_halves(bytes, shift);
}

/* Eight numbers of two bytes from here and from there. */
CDZ_INLINE __m256i join_halves(const char *g0, const char *g1)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)g0)),
        _mm_loadu_si128((const __m128i *)(const void *)g1), 1);
}

/* Eight bytes from here and from there. */
CDZ_INLINE __m128i join_bytes(const char *g0, const char *g1)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)g0),
                              _mm_loadl_epi64((const __m128i *)(const void *)g1));
}

/* The i-th register of the keys of groups of positions. */
CDZ_INLINE word widen_keys(int i, const char *at, size_t group_bytes, __m128i shift)
{
    const char *g0 = at + (size_t)(2 * i) * group_bytes, *g1 = g0 + group_bytes;
    switch (CDZ_ATTEND_TYPE) {
    case CDZ_F16: return _mm512_cvtph_ps(join_halves(g0, g1));
    case CDZ_BF16:
        return _mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(join_halves(g0, g1)), 16));
    case CDZ_Q8_0: return widen_bytes(join_bytes(g0, g1));
    case CDZ_Q4_0: return widen_halves(join_bytes(g0, g1), shift);
    default:
        return _mm512_insertf32x8(_mm512_castps256_ps512(load8(CDZ_F32, g0, 0)),
                                  load8(CDZ_F32, g1, 0), 1);
    }
}

/* Likewise their factors. */
CDZ_INLINE word widen_factors(int i, const char *at, size_t group_bytes)
{
    const char *g0 = at + (size_t)(2 * i) * group_bytes;
    return _mm512_cvtph_ps(join_halves(g0, g0 + group_bytes));
}

/* acc[d..] += weight(p) * v[p][d..] for the dims past the last whole register; values are (positions, dim). */
static void add_values_rest(size_t nq, const cdz_attend_query *query, const float *weights,
                            const char *values, size_t dim, size_t d, size_t from, size_t to)
{
    const __mmask16 mask = first_columns(dim - d);
    for (size_t i = 0; i < nq; i++) {
        word acc = _mm512_maskz_loadu_ps(mask, query[i].out + d);
        for (size_t p = from; p < to; p++)
            fma16(&acc, load16_masked(CDZ_ATTEND_TYPE, values, p * dim + d, mask),
                  word_of(weights[i * CDZ_KV_BLOCK + p]));
        _mm512_mask_storeu_ps(query[i].out + d, mask, acc);
    }
}

#endif
