/* avx512_panels.c - rows into panels, a word of sixteen rows to a register. */
#include "cpu/avx512.h"
#include "cpu/to_panel.h"

CDZ_INLINE __m256i two_rows(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)a)),
        _mm_loadu_si128((const __m128i *)(const void *)b), 1);
}

/* Four words each of rows 0, 4, 8 and 12 from `row` on. */
CDZ_INLINE __m512i four_rows(const uint8_t *row, size_t stride)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(two_rows(row, row + 4 * stride)),
                              two_rows(row + 8 * stride, row + 12 * stride), 1);
}

CDZ_INLINE void four_words(uint8_t *to, const uint8_t *from, size_t stride)
{
    const __m512i r0 = four_rows(from, stride), r1 = four_rows(from + stride, stride),
                  r2 = four_rows(from + 2 * stride, stride),
                  r3 = four_rows(from + 3 * stride, stride);
    const __m512i low01 = _mm512_unpacklo_epi32(r0, r1), high01 = _mm512_unpackhi_epi32(r0, r1),
                  low23 = _mm512_unpacklo_epi32(r2, r3), high23 = _mm512_unpackhi_epi32(r2, r3);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(low01, low23));
    _mm512_storeu_si512(to + WORD, _mm512_unpackhi_epi64(low01, low23));
    _mm512_storeu_si512(to + 2 * WORD, _mm512_unpacklo_epi64(high01, high23));
    _mm512_storeu_si512(to + 3 * WORD, _mm512_unpackhi_epi64(high01, high23));
}

CDZ_INLINE __m512i drawn_together(__m512i v, unsigned by, int mask)
{
    return _mm512_and_si512(_mm512_or_si512(v, _mm512_srli_epi32(v, by)), _mm512_set1_epi32(mask));
}

/* Bits 0, 4, 8, ... 28 of every word side by side. */
CDZ_INLINE __m512i every_fourth(__m512i v)
{
    v = drawn_together(_mm512_and_si512(v, _mm512_set1_epi32(0x11111111)), 3, 0x03030303);
    return drawn_together(drawn_together(v, 6, 0x000f000f), 12, 0xff);
}

CDZ_INLINE void turn_words(uint8_t *at)
{
    const __m512i v = _mm512_loadu_si512(at);
    __m512i turned = every_fourth(v);
    CDZ_UNROLL
    for (unsigned b = 1; b < 4; b++)
        turned = _mm512_or_si512(turned,
                                 _mm512_slli_epi32(every_fourth(_mm512_srli_epi32(v, b)), 8 * b));
    _mm512_storeu_si512(at, turned);
}

void cdz_avx512_to_panel(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t k,
                         size_t ahead)
{
    rows_to_panel(dtype, to, rows, stride, k, ahead);
}
