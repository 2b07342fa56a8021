/* avx2_panels.c - rows into panels, a word of eight rows to a register. */
#include "cpu/avx2.h"
#include "cpu/to_panel.h"

/* Four words each of row 0 and 4 from `row` on. */
CDZ_INLINE __m256i two_rows(const uint8_t *row, size_t stride)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)row)),
        _mm_loadu_si128((const __m128i *)(const void *)(row + 4 * stride)), 1);
}

CDZ_INLINE void store_words(uint8_t *to, __m256i v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

CDZ_INLINE void four_words(uint8_t *to, const uint8_t *from, size_t stride)
{
    for (int half = 0; half < 2; half++, from += 8 * stride, to += WORD / 2) {
        const __m256i r0 = two_rows(from, stride), r1 = two_rows(from + stride, stride),
                      r2 = two_rows(from + 2 * stride, stride),
                      r3 = two_rows(from + 3 * stride, stride);
        const __m256i low01 = _mm256_unpacklo_epi32(r0, r1), high01 = _mm256_unpackhi_epi32(r0, r1),
                      low23 = _mm256_unpacklo_epi32(r2, r3), high23 = _mm256_unpackhi_epi32(r2, r3);
        store_words(to, _mm256_unpacklo_epi64(low01, low23));
        store_words(to + WORD, _mm256_unpackhi_epi64(low01, low23));
        store_words(to + 2 * WORD, _mm256_unpacklo_epi64(high01, high23));
        store_words(to + 3 * WORD, _mm256_unpackhi_epi64(high01, high23));
    }
}

CDZ_INLINE __m256i drawn_together(__m256i v, int by, int mask)
{
    return _mm256_and_si256(_mm256_or_si256(v, _mm256_srli_epi32(v, by)), _mm256_set1_epi32(mask));
}

/* Bits 0, 4, 8, ... 28 of every word side by side. */
CDZ_INLINE __m256i every_fourth(__m256i v)
{
    v = drawn_together(_mm256_and_si256(v, _mm256_set1_epi32(0x11111111)), 3, 0x03030303);
    return drawn_together(drawn_together(v, 6, 0x000f000f), 12, 0xff);
}

CDZ_INLINE void turn_words(uint8_t *at)
{
    for (int half = 0; half < 2; half++, at += WORD / 2) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)at);
        __m256i turned = every_fourth(v);
        CDZ_UNROLL
        for (int b = 1; b < 4; b++)
            turned = _mm256_or_si256(
                turned, _mm256_slli_epi32(every_fourth(_mm256_srli_epi32(v, b)), 8 * b));
        store_words(at, turned);
    }
}

void cdz_avx2_to_panel(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t k,
                       size_t ahead)
{
    rows_to_panel(dtype, to, rows, stride, k, ahead);
}
