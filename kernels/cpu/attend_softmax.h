/* attend_softmax.h - what the softmax of an attention tile takes of eight lanes, whatever a word has; included by the files that
 * say what a word is. */
#ifndef CDZ_ATTEND_SOFTMAX_H
#define CDZ_ATTEND_SOFTMAX_H

#include "cpu/avx2.h"

/* cdz_exp, eight at a time: the same operations on the same values. */
CDZ_INLINE __m256 exp8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    /* max and min return the second operand for NaN: it stays NaN */
    const __m256 t = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));
    const __m256 shifted = _mm256_fmadd_ps(t, _mm256_set1_ps(1.44269504f), magic);
    const __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693145752f), t);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.38319808e-3f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.37550033e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16694112e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66664466e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.99999851e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i i = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
    const __m256i low = _mm256_srai_epi32(i, 1), high = _mm256_sub_epi32(i, low);
    const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(low, bias), 23));
    const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(high, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}

CDZ_INLINE float largest8(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

/* Lanes of a word that begins at position `at` which lie before another position. */
CDZ_INLINE size_t lanes_before(size_t at, size_t position)
{
    if (position <= at) return 0;
    return position - at < WORD ? position - at : WORD;
}

#endif
