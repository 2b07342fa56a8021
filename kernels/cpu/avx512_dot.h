/* avx512_dot.h - dot products of a few activation rows with many weight rows, as avx2_dot.c: far
 * rows in step.
 *
 * A pair's 16 lanes are one register, so tiles are larger: 1 x 6 for one activation row, up to 6 x 4
 * for several. */
#ifndef CDZ_CPU_AVX512_DOT_H
#define CDZ_CPU_AVX512_DOT_H

#include "cpu/avx512.h"
#include "cpu/dot_rows.h"

enum {
    MAX_PAIRS = 24,
    MOST_ROWS = 6,        /* of plain weights, which six rows share the widening of */
    MOST_ROWS_BLOCKS = 4, /* of others, whose widening keeps registers */
};

CDZ_INLINE void add_group(int mr, int nr, const weights *w, size_t k, const float *x, size_t ldx,
                          __m512 *acc)
{
    __m512 wj[MAX_PAIRS];
    CDZ_UNROLL
    for (int j = 0; j < nr; j++) {
        const char *row = w->row + (size_t)j * w->row_stride;
        wj[j] = w->dtype < CDZ_N_PLAIN ? load16(w->dtype, row, k) : blocks16(w->dtype, row, k);
    }
    CDZ_UNROLL
    for (int r = 0; r < mr; r++) {
        const __m512 xr = _mm512_loadu_ps(x + (size_t)r * ldx + k);
        CDZ_UNROLL
        for (int j = 0; j < nr; j++) multiply_add16(w->bf16_pairs, &acc[r * nr + j], wj[j], xr);
    }
}

/* Two groups of a type that has them together. */
CDZ_INLINE void add_groups32(int mr, int nr, const weights *w, size_t k, const float *x, size_t ldx,
                             __m512 *acc)
{
    __m512 low[MAX_PAIRS], high[MAX_PAIRS];
    const __m512 levels = _mm512_loadu_ps(levels_of(w->dtype));
    CDZ_UNROLL
    for (int j = 0; j < nr; j++) {
        const group32 g = groups_at(w->dtype, w->row + (size_t)j * w->row_stride, k);
        const __m512i q = _mm512_cvtepu8_epi32(bytes_at(g.nibbles));
        const __m512 d = _mm512_set1_ps(g.d);
        low[j] = _mm512_mul_ps(_mm512_permutexvar_ps(q, levels), d); /* by the low four bits */
        high[j] = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), levels), d);
    }
    CDZ_UNROLL
    for (int r = 0; r < mr; r++) {
        const float *xr = x + (size_t)r * ldx + k;
        CDZ_UNROLL
        for (int j = 0; j < nr; j++) {
            fma16(&acc[r * nr + j], low[j], _mm512_loadu_ps(xr));
            fma16(&acc[r * nr + j], high[j], _mm512_loadu_ps(xr + CDZ_LANES));
        }
    }
}

/* The last n columns of the rows. */
CDZ_INLINE void add_tail(int mr, int nr, const weights *w, size_t k, size_t n, const float *x,
                         size_t ldx, __m512 *acc)
{
    const __mmask16 mask = first_columns(n);
    CDZ_UNROLL
    for (int j = 0; j < nr; j++) {
        const __m512 wj = load16_masked(w->dtype, w->row + (size_t)j * w->row_stride, k, mask);
        CDZ_UNROLL
        for (int r = 0; r < mr; r++)
            multiply_add16(w->bf16_pairs, &acc[r * nr + j], wj,
                           _mm512_maskz_loadu_ps(mask, x + (size_t)r * ldx + k));
    }
}

/* The halves, and then the quarters, of two registers: each added to the other of its own. */
CDZ_INLINE __m512 add_halves(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}

CDZ_INLINE __m512 add_quarters(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

/* Neighbouring lanes. */
CDZ_INLINE __m512 add_neighbours(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}

/* The written tree over the lanes of n registers, at most 16, together: fold16 of register i comes to sums[4 * (i % 4) + i / 4]. */
CDZ_INLINE void fold_together(const __m512 *acc, int n, float *sums)
{
    __m512 half[8], quarter[4];
    CDZ_UNROLL
    for (int i = 0; i < (n + 1) / 2; i++)
        half[i] = add_halves(acc[2 * i], acc[2 * i + 1 < n ? 2 * i + 1 : 2 * i]);
    CDZ_UNROLL
    for (int i = 0; i < (n + 3) / 4; i++)
        quarter[i] = add_quarters(half[2 * i], half[4 * i + 2 < n ? 2 * i + 1 : 2 * i]);
    const __m512 low = add_neighbours(quarter[0], quarter[n > 4 ? 1 : 0]);
    const __m512 high = n > 8 ? add_neighbours(quarter[2], quarter[n > 12 ? 3 : 2]) : low;
    _mm512_storeu_ps(sums, add_neighbours(low, high));
}

CDZ_INLINE void dot_tile(int mr, int nr, cdz_ask ask, const char *asked, const weights *w, size_t k,
                         const float *x, size_t ldx, float *y, size_t ldy, size_t y_step)
{
    const int n = mr * nr;
    size_t from = 0;
    do {
        const size_t to = k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK;
        const size_t whole = from + (to - from) / CDZ_LANES * CDZ_LANES;
        __m512 acc[MAX_PAIRS];
        float sums[32];
        CDZ_UNROLL
        for (int i = 0; i < n; i++) acc[i] = _mm512_setzero_ps();
        if (has_groups32(w->dtype))
            for (size_t at = from; at < whole; at += 2 * CDZ_LANES)
                add_groups32(mr, nr, w, at, x, ldx, acc);
        else
            for (size_t at = from; at < whole; at += CDZ_LANES) {
                cdz_ask_for(ask, nr, asked, w->row_stride, at * element_bytes(w->dtype));
                add_group(mr, nr, w, at, x, ldx, acc);
            }
        if (has_tail(w->dtype) && whole < to) add_tail(mr, nr, w, whole, to - whole, x, ldx, acc);
        fold_together(acc, n < 16 ? n : 16, sums);
        if (n > 16) fold_together(acc + 16, n - 16, sums + 16);
        CDZ_UNROLL
        for (int i = 0; i < n; i++) {
            float *out = y + (size_t)(i / nr) * ldy + (size_t)(i % nr) * y_step;
            const float sum = sums[i / 16 * 16 + i % 4 * 4 + i % 16 / 4];
            *out = from == 0 ? sum : *out + sum;
        }
        from = to;
    } while (from < k);
}

/* Tiles of several rows are for four weight rows. */
CDZ_INLINE size_t most_rows(cdz_dtype dtype, int nr)
{
    return nr != 4 ? 1 : dtype < CDZ_N_PLAIN ? MOST_ROWS : MOST_ROWS_BLOCKS;
}

/* Types of blocks come to no tile of five or six, so that none is compiled for them. */
CDZ_INLINE void all_rows(int nr, const weights *w, size_t k, const float *x, size_t ldx,
                         const cdz_row_tiles *rows, float *y, size_t ldy, size_t y_step)
{
    const bool plain = w->dtype < CDZ_N_PLAIN;
    for (size_t i = 0, r = 0, height; i < rows->n; i++, r += height) {
        height = rows->height + (i < rows->taller);
        switch (nr == 4 ? height : 1) {
        case 6: tile_at(i, rows, r, plain ? 6 : 1, nr, w, k, x, ldx, y, ldy, y_step); break;
        case 5: tile_at(i, rows, r, plain ? 5 : 1, nr, w, k, x, ldx, y, ldy, y_step); break;
        case 4: tile_at(i, rows, r, 4, nr, w, k, x, ldx, y, ldy, y_step); break;
        case 3: tile_at(i, rows, r, 3, nr, w, k, x, ldx, y, ldy, y_step); break;
        case 2: tile_at(i, rows, r, 2, nr, w, k, x, ldx, y, ldy, y_step); break;
        default: tile_at(i, rows, r, 1, nr, w, k, x, ldx, y, ldy, y_step); break;
        }
    }
}

CDZ_INLINE void dot_any(cdz_dtype dtype, bool bf16_pairs, float *y, size_t ldy, const void *w,
                        size_t n, size_t k, const float *x, size_t ldx, size_t m)
{
    const size_t done = m == 1 ? far_rows(6, dtype, bf16_pairs, w, n, k, x, ldx, m, y, ldy)
                               : far_rows(4, dtype, bf16_pairs, w, n, k, x, ldx, m, y, ldy);
    const char *rest = (const char *)w + done * cdz_row_bytes(dtype, k);
    far_rows(1, dtype, bf16_pairs, rest, n - done, k, x, ldx, m, y + done, ldy);
}

#endif
