/* avx2_int8.h - products with int8 activations by lanes, as CDZ_INT8_NAMES_type: eight rows of a panel to a register, a word of
 * four weights each. On x86 unsigned weights times signed activations add up in pairs in 16 bits, as long as they cannot
 * overflow, then in 32; whole bytes (Q8_0) multiply as |w| and x with the sign of w, so that -128 is right
 * too. With AVX-VNNI they add in 32 at once, and whole bytes are 128 too great; arm64 multiplies signed bytes. Integers are
 * exact, so the bits are those of ref_int8.c. */
#ifndef CDZ_CPU_AVX2_INT8_H
#define CDZ_CPU_AVX2_INT8_H

#include "cpu/int8_types.h"

/* MOST_SUMS: height times far half panels. */
enum { PART_ROWS = 8, X_ROWS = 1, AT_ONCE = 1, MOST_SUMS = 8 };

typedef __m256i words;
typedef cdz_x8 activations;

/* Word i of the half panel at `at`. */
CDZ_INLINE words word_at(const uint8_t *at, size_t i)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(at + 64 * i));
}

/* Those of word g at bit 0: they lie turned (ref/panels.c). */
CDZ_INLINE words fifth_bits(const uint8_t *at, int g)
{
    return _mm256_srli_epi16(word_at(at, 0), g);
}

CDZ_INLINE words each_word(const uint8_t *at, size_t i)
{
    return word_at(at, i);
}

CDZ_INLINE __m256 halves_at(const uint8_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

CDZ_INLINE __m256 d_of(const activations *x)
{
    return _mm256_set1_ps(x->d);
}

CDZ_INLINE __m256 s_of(const activations *x)
{
    return _mm256_set1_ps(x->s);
}

/* What comes off the weights as they are multiplied. */
CDZ_INLINE int taken_off(cdz_dtype type)
{
#if defined(__AVXVNNI__)
    if (type == CDZ_Q8_0) return 128;
#endif
    return offset_of(type);
}

CDZ_INLINE words start_of(cdz_dtype type, const activations *x, int half)
{
    return _mm256_mullo_epi32(_mm256_set1_epi32(sum_of(type, x, half)),
                              _mm256_set1_epi32(-taken_off(type)));
}

CDZ_INLINE words both_of(const activations *x)
{
    return _mm256_set1_epi32(both_sums(x));
}

CDZ_INLINE __m256 load_sums(const float *y, size_t ldy)
{
    (void)ldy;
    return _mm256_loadu_ps(y);
}

CDZ_INLINE void store_sums(float *y, size_t ldy, __m256 sums)
{
    (void)ldy;
    _mm256_storeu_ps(y, sums);
}

CDZ_INLINE words words_of_x(const activations *x, int g)
{
    int32_t four;
    memcpy(&four, x->q + 4 * g, sizeof four);
    return _mm256_set1_epi32(four);
}

CDZ_INLINE size_t asked_of_block(cdz_dtype type)
{
    return cdz_dtype_bytes(type) * CDZ_PANEL_ROWS;
}

#if defined(CDZ_SUMS_IN_16)
/* Words whose products with activations may be added in 16 bits: 2 * largest weight * 127 each. */
CDZ_INLINE int words_together(cdz_dtype type)
{
    switch (type) {
    case CDZ_Q8_0: return 1;
    case CDZ_Q6_K: return 2;
    case CDZ_Q5_0:
    case CDZ_Q5_1:
    case CDZ_Q5_K: return 4;
    default: return 8;
    }
}

CDZ_INLINE words operand(cdz_dtype type, words w)
{
    (void)type;
    return w;
}
#else
CDZ_INLINE int words_together(cdz_dtype type)
{
    (void)type;
    return 1;
}

CDZ_INLINE words operand(cdz_dtype type, words w)
{
#if defined(__AVXVNNI__)
    if (type == CDZ_Q8_0) return _mm256_xor_si256(w, _mm256_set1_epi8(-128));
#endif
    (void)type;
    return w;
}

CDZ_INLINE void multiply(words *sum, words x, words w)
{
#if defined(__AVXVNNI__)
    *sum = _mm256_dpbusd_avx_epi32(*sum, w, x);
#else
    sum->low = cdz_add_products(sum->low, w.low, x.low);
    sum->high = cdz_add_products(sum->high, w.high, x.high);
#endif
}
#endif

#include "cpu/int8_tile.h"
#if defined(CDZ_HAVE_X86)
#include "cpu/avx2_tall.h"
#endif

/* `far` panels in step: as many streams from memory. */
CDZ_INLINE void all_panels(cdz_dtype type, int height, int far, const cdz_int8_tile *t)
{
    const size_t each = t->panels / (size_t)far;
    const uint8_t *w = t->w;
    for (size_t p = 0; p < each; p++)
        parts_in_step(type, height, 0, 2 * far, t, w + p * t->stride, each * t->stride,
                      t->y + p * CDZ_PANEL_ROWS, each * CDZ_PANEL_ROWS);
    for (size_t p = each * (size_t)far; p < t->panels; p++)
        parts_in_step(type, height, 0, 2, t, w + p * t->stride, 0, t->y + p * CDZ_PANEL_ROWS, 0);
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    switch (t->height) {
    case 4: all_panels(type, 4, 1, t); break;
    case 2: all_panels(type, 2, 2, t); break;
    case 1: all_panels(type, 1, is_large(type) ? 2 : 4, t); break;
#if defined(CDZ_HAVE_X86)
    default: tall_tile(type, t); break;
#endif
    }
}

#define NAMED(prefix, name) prefix##_##name
#define TILE(name, dtype, prefix)                                                                  \
    void NAMED(prefix, name)(const cdz_int8_tile *t)                                               \
    {                                                                                              \
        tile(dtype, t);                                                                            \
    }
CDZ_GGUF_TYPES(TILE, CDZ_INT8_NAMES)

#endif
