/* lanes.h - eight floats at once: the one type the bodies of the vector operations are written with.
 *
 * Included by vec_scalar.c, where a lane is an array element, and by vec_avx2.c, where the eight are one register.
 * Both do the same IEEE operations on the same lanes, so the tables built from the bodies give the same bits. Choices
 * are spelled as comparisons (a > b ? a : b), which is also what the instructions do with NaN and signed zeros. */
#ifndef CDZ_HOST_VEC_LANES_H
#define CDZ_HOST_VEC_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 8 };

/* e^x = 2^n * e^r, n = round(x / ln 2), r by a two-part ln 2, e^r by a polynomial. These are the constants of SLEEF's
 * expf (u10, Boost licence), which torch uses on a CPU: with the same fused multiply-adds the results are the same. */
#define EXP_LOG2E 1.442695040888963407f
#define EXP_LN2_U 0.693145751953125f
#define EXP_LN2_L 1.428606765330187045e-06f
#define EXP_C5    0.000198527617612853646278381f
#define EXP_C4    0.00139304355252534151077271f
#define EXP_C3    0.00833336077630519866943359f
#define EXP_C2    0.0416664853692054748535156f
#define EXP_C1    0.166666671633720397949219f
#define EXP_C0    0.5f
#define EXP_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
#define EXP_LOW   (-104.0f)   /* below: +0 */
#define EXP_HIGH  100.0f      /* above: +inf */

#ifdef CDZ_VEC_AVX2
#include <immintrin.h>

typedef __m256 lanes;

static inline lanes l_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

static inline void l_store(float *x, lanes a)
{
    _mm256_storeu_ps(x, a);
}

static inline lanes l_set(float a)
{
    return _mm256_set1_ps(a);
}

static inline lanes l_add(lanes a, lanes b)
{
    return _mm256_add_ps(a, b);
}

static inline lanes l_sub(lanes a, lanes b)
{
    return _mm256_sub_ps(a, b);
}

static inline lanes l_mul(lanes a, lanes b)
{
    return _mm256_mul_ps(a, b);
}

static inline lanes l_div(lanes a, lanes b)
{
    return _mm256_div_ps(a, b);
}

static inline lanes l_fma(lanes a, lanes b, lanes c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline lanes l_max(lanes a, lanes b) /* a > b ? a : b */
{
    return _mm256_max_ps(a, b);
}

static inline lanes l_min(lanes a, lanes b) /* a < b ? a : b */
{
    return _mm256_min_ps(a, b);
}

static inline lanes l_abs(lanes a)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* a < b ? yes : no */
static inline lanes l_if_less(lanes a, lanes b, lanes yes, lanes no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline lanes l_if_nan(lanes a, lanes yes, lanes no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

/* A bit per lane. */
static inline unsigned l_bits_less(lanes a, lanes b)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline unsigned l_bits_nan(lanes a)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}

/* Marks lanes in which a or b is NaN; begins as zeros. */
static inline lanes l_mark_nan(lanes marks, lanes a, lanes b)
{
    return _mm256_or_ps(marks, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

static inline unsigned l_marked(lanes marks)
{
    return (unsigned)_mm256_movemask_ps(marks);
}

/* Lane l: the largest of a[l]. A NaN may hide what stands before it. */
static inline lanes l_max_each(const lanes a[LANES])
{
    lanes pair[4], four[2];

    for (size_t i = 0; i < 4; i++)
        pair[i] = _mm256_max_ps(_mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]),
                                _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    for (size_t i = 0; i < 2; i++)
        four[i] = _mm256_max_ps(_mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0x44),
                                _mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0xee));
    return _mm256_max_ps(_mm256_permute2f128_ps(four[0], four[1], 0x20),
                         _mm256_permute2f128_ps(four[0], four[1], 0x31));
}

/* a * 2^n in two steps, n being what EXP_MAGIC left in the low bits. */
static inline lanes l_scale(lanes a, lanes shifted)
{
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(n, 1), rest = _mm256_sub_epi32(n, half);
    const __m256i u = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i v = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(u)), _mm256_castsi256_ps(v));
}

#else

typedef struct lanes {
    float at[LANES];
} lanes;

#define CDZ_EACH(expression)                                                                       \
    lanes out;                                                                                     \
    for (size_t l = 0; l < LANES; l++) out.at[l] = (expression);                                   \
    return out

static inline lanes l_load(const float *x)
{
    CDZ_EACH(x[l]);
}

static inline void l_store(float *x, lanes a)
{
    memcpy(x, a.at, sizeof a.at);
}

static inline lanes l_set(float a)
{
    CDZ_EACH(a);
}

static inline lanes l_add(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] + b.at[l]);
}

static inline lanes l_sub(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] - b.at[l]);
}

static inline lanes l_mul(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] * b.at[l]);
}

static inline lanes l_div(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] / b.at[l]);
}

static inline lanes l_fma(lanes a, lanes b, lanes c)
{
    CDZ_EACH(fmaf(a.at[l], b.at[l], c.at[l]));
}

static inline lanes l_max(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] > b.at[l] ? a.at[l] : b.at[l]);
}

static inline lanes l_min(lanes a, lanes b)
{
    CDZ_EACH(a.at[l] < b.at[l] ? a.at[l] : b.at[l]);
}

static inline lanes l_abs(lanes a)
{
    CDZ_EACH(fabsf(a.at[l]));
}

static inline lanes l_if_less(lanes a, lanes b, lanes yes, lanes no)
{
    CDZ_EACH(a.at[l] < b.at[l] ? yes.at[l] : no.at[l]);
}

static inline lanes l_if_nan(lanes a, lanes yes, lanes no)
{
    CDZ_EACH(a.at[l] != a.at[l] ? yes.at[l] : no.at[l]);
}

static inline unsigned l_bits_less(lanes a, lanes b)
{
    unsigned bits = 0;
    for (unsigned l = 0; l < LANES; l++) bits |= (unsigned)(a.at[l] < b.at[l]) << l;
    return bits;
}

static inline unsigned l_bits_nan(lanes a)
{
    unsigned bits = 0;
    for (unsigned l = 0; l < LANES; l++) bits |= (unsigned)(a.at[l] != a.at[l]) << l;
    return bits;
}

static inline lanes l_mark_nan(lanes marks, lanes a, lanes b)
{
    CDZ_EACH(a.at[l] != a.at[l] || b.at[l] != b.at[l] ? 1.0f : marks.at[l]);
}

static inline unsigned l_marked(lanes marks)
{
    unsigned bits = 0;
    for (unsigned l = 0; l < LANES; l++) bits |= (unsigned)(marks.at[l] > 0.0f) << l;
    return bits;
}

static inline float largest_lane(lanes a)
{
    float top = a.at[0];
    for (size_t l = 1; l < LANES; l++) top = a.at[l] > top ? a.at[l] : top;
    return top;
}

static inline lanes l_max_each(const lanes a[LANES])
{
    CDZ_EACH(largest_lane(a[l]));
}

static inline float power_of_two(uint32_t n)
{
    const uint32_t bits = (n + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float scale(float a, float shifted)
{
    uint32_t n;
    memcpy(&n, &shifted, sizeof n);
    n -= 0x4b400000u;
    const uint32_t half = ((n + 512u) >> 1) - 256u; /* floor(n / 2) of the signed n */
    return a * power_of_two(half) * power_of_two(n - half);
}

static inline lanes l_scale(lanes a, lanes shifted)
{
    CDZ_EACH(scale(a.at[l], shifted.at[l]));
}

#undef CDZ_EACH
#endif

static inline lanes l_exp(lanes x)
{
    const lanes t = l_min(l_set(EXP_HIGH), l_max(l_set(EXP_LOW), x));
    const lanes shifted = l_add(l_mul(t, l_set(EXP_LOG2E)), l_set(EXP_MAGIC));
    const lanes n = l_sub(shifted, l_set(EXP_MAGIC));
    lanes r = l_fma(n, l_set(-EXP_LN2_U), t);
    r = l_fma(n, l_set(-EXP_LN2_L), r);

    lanes p = l_fma(l_set(EXP_C5), r, l_set(EXP_C4));
    p = l_fma(p, r, l_set(EXP_C3));
    p = l_fma(p, r, l_set(EXP_C2));
    p = l_fma(p, r, l_set(EXP_C1));
    p = l_fma(p, r, l_set(EXP_C0));
    p = l_add(l_set(1.0f), l_fma(l_mul(r, r), p, r));

    const lanes e = l_scale(p, shifted);
    const lanes low = l_if_less(x, l_set(EXP_LOW), l_set(0.0f), e);
    return l_if_nan(x, x, l_if_less(l_set(EXP_HIGH), x, l_set(INFINITY), low));
}

/* The same of one number. */
static inline float exp1(float x)
{
    float e[LANES];
    l_store(e, l_exp(l_set(x)));
    return e[0];
}

/* The sum, folded as halves, pairs, neighbours: the reference's order. */
static inline float l_total(lanes a)
{
    float s[LANES];
    l_store(s, a);
    const float p0 = s[0] + s[4], p1 = s[1] + s[5], p2 = s[2] + s[6], p3 = s[3] + s[7];
    return (p0 + p2) + (p1 + p3);
}

/* The first n lanes of x, the others filled. */
static inline lanes l_load_part(const float *x, size_t n, float fill)
{
    float full[LANES] = {fill, fill, fill, fill, fill, fill, fill, fill};
    memcpy(full, x, n * sizeof *x);
    return l_load(full);
}

static inline void l_store_part(float *x, size_t n, lanes a)
{
    float full[LANES];
    l_store(full, a);
    memcpy(x, full, n * sizeof *x);
}

#endif
