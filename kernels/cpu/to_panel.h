/* to_panel.h - sixteen rows of blocks brought into a panel with vectors: ref/panels.h says what comes where. A file that
 * includes this supplies four_words and turn_words. */
#ifndef CDZ_CPU_TO_PANEL_H
#define CDZ_CPU_TO_PANEL_H

#include "cpu/avx2.h"
#include "ref/panels.h"

enum { WORD = 4 * CDZ_PANEL_ROWS, LINE = 64 }; /* bytes of a word of all rows; of the cache */

/* Four neighbouring words of every row, transposed: to (4 words, 16 rows). */
CDZ_INLINE void four_words(uint8_t *to, const uint8_t *from, size_t stride);
/* The bits of a word of all rows, brought together: bit 4 g + b to 8 b + g. */
CDZ_INLINE void turn_words(uint8_t *at);

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
CDZ_INLINE void rows_to_panel(cdz_dtype dtype, uint8_t *to, const uint8_t *from, size_t stride,
                              size_t k, size_t ahead)
{
    const cdz_panel_layout l = *cdz_panel_layout_of(dtype);
    const size_t bytes = cdz_dtype_bytes(dtype), length = cdz_row_bytes(dtype, k);
    const char *next = (const char *)from + ahead;
    for (size_t b = 0, asked = 0; b < length; b += bytes) {
        for (; ahead && asked < (b + bytes) * CDZ_PANEL_ROWS; asked += LINE)
            _mm_prefetch(next + asked, _MM_HINT_T1);
        block_of_rows(&l, to + b * CDZ_PANEL_ROWS, from + b, stride);
    }
}

#endif
