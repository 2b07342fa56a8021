/* avx2_panels.c - sixteen rows of blocks brought into a panel, a word of eight rows to a register: ref/panels.h says what
 * comes where. AVX-512 sets use it too: reading bounds it, and registers twice as wide were no faster. */
#include "cpu/avx2.h"
#include "ref/panels.h"

enum { WORD = 4 * CDZ_PANEL_ROWS, LINE = 64 }; /* bytes of a word of all rows; of the cache */

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

/* Four neighbouring words of every row, transposed: to (4 words, 16 rows). */
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

/* The bits of a word of all rows, brought together: bit 4 g + b to 8 b + g. */
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

CDZ_INLINE void words_of_rows(uint8_t *to, const uint8_t *from, size_t stride, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) four_words(to + WORD * i, from + 4 * i, stride);
    for (; i < n; i++)
        for (size_t row = 0; row < CDZ_PANEL_ROWS; row++)
            memcpy(to + WORD * i + 4 * row, from + row * stride + 4 * i, 4);
}

/* One block of every row. */
CDZ_INLINE void block_of_rows(const cdz_panel_layout *l, uint8_t *to, const uint8_t *from,
                              size_t stride)
{
    for (size_t h = 0; h < l->n_halves; h++, to += 2 * CDZ_PANEL_ROWS)
        for (size_t row = 0; row < CDZ_PANEL_ROWS; row++)
            memcpy(to + 2 * row, from + row * stride + l->half[h], 2);
    uint8_t *words = to;
    for (size_t i = 0; i < CDZ_PANEL_WORD_RUNS; words += WORD * l->words[i++].n)
        words_of_rows(words, from + l->words[i].at, stride, l->words[i].n);
    if (l->turned) turn_words(to);
}

/* As cdz_to_panel_fn. What comes next is asked for in the order in which it lies, into the second cache: sixteen
 * rows read in step are more streams, and nearer ones, than a processor foresees. */
void cdz_avx2_to_panel(cdz_dtype dtype, void *panel, const void *rows, size_t stride, size_t k,
                       size_t ahead)
{
    uint8_t *to = panel;
    const uint8_t *from = rows;
    const cdz_panel_layout l = *cdz_panel_layout_of(dtype);
    const size_t bytes = cdz_dtype_bytes(dtype), length = cdz_row_bytes(dtype, k);
    const char *next = (const char *)from + ahead;
    for (size_t b = 0, asked = 0; b < length; b += bytes) {
        for (; ahead && asked < (b + bytes) * CDZ_PANEL_ROWS; asked += LINE)
            _mm_prefetch(next + asked, _MM_HINT_T1);
        block_of_rows(&l, to + b * CDZ_PANEL_ROWS, from + b, stride);
    }
}
