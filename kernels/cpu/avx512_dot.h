/* avx512_dot.h - dot products of a few activation rows with many weight rows, as avx2_dot.c: far
 * rows in step.
 *
 * A pair's 16 lanes are one register, so tiles are larger: 1 x 8 for one activation row, 4 x 4
 * for several. */
#ifndef CDZ_CPU_AVX512_DOT_H
#define CDZ_CPU_AVX512_DOT_H

#include "cpu/ahead.h"
#include "cpu/avx512.h"

enum { MAX_PAIRS = 16, MOST_ROWS = 4 };

typedef struct weights {
    cdz_dtype dtype;
    bool bf16_pairs;   /* a column is two of them, of weights and activations; dtype is CDZ_F32 */
    const char *row;   /* the first of nr rows */
    size_t row_stride; /* bytes between them */
    size_t next;       /* bytes to the rows that are next in turn */
} weights;

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

/* y[r * ldy + j * y_step] for mr activation rows by nr weight rows over the whole k axis. */
CDZ_INLINE void dot_tile(int mr, int nr, cdz_ask ask, const weights *w, size_t k, const float *x,
                         size_t ldx, float *y, size_t ldy, size_t y_step)
{
    size_t from = 0;
    do {
        const size_t to = k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK;
        const size_t whole = from + (to - from) / CDZ_LANES * CDZ_LANES;
        __m512 acc[MAX_PAIRS];
        CDZ_UNROLL
        for (int i = 0; i < mr * nr; i++) acc[i] = _mm512_setzero_ps();
        for (size_t at = from; at < whole; at += CDZ_LANES) {
            cdz_ask_for(ask, nr, w->row, w->row_stride, w->next, at * element_bytes(w->dtype));
            add_group(mr, nr, w, at, x, ldx, acc);
        }
        if (has_tail(w->dtype) && whole < to) add_tail(mr, nr, w, whole, to - whole, x, ldx, acc);
        CDZ_UNROLL
        for (int i = 0; i < mr * nr; i++) {
            float *out = y + (size_t)(i / nr) * ldy + (size_t)(i % nr) * y_step;
            const float sum = fold16(acc[i]);
            *out = from == 0 ? sum : *out + sum;
        }
        from = to;
    } while (from < k);
}

/* A tile of mr activation rows, the first of them being row r of m. */
CDZ_INLINE void tile_at(size_t r, int mr, int nr, const weights *w, size_t k, const float *x,
                        size_t ldx, size_t m, float *y, size_t ldy, size_t y_step)
{
    x += r * ldx, y += r * ldy;
    switch (cdz_ask_of(w->dtype, r, mr, m, MOST_ROWS)) {
    case CDZ_ASK_AHEAD: dot_tile(mr, nr, CDZ_ASK_AHEAD, w, k, x, ldx, y, ldy, y_step); break;
    case CDZ_ASK_NEXT: dot_tile(mr, nr, CDZ_ASK_NEXT, w, k, x, ldx, y, ldy, y_step); break;
    default: dot_tile(mr, nr, CDZ_ASK_NOTHING, w, k, x, ldx, y, ldy, y_step); break;
    }
}

/* All m activation rows by one set of nr weight rows. One weight row is what was left over: few of them, and one by one. */
CDZ_INLINE void all_rows(int nr, const weights *w, size_t k, const float *x, size_t ldx, size_t m,
                         float *y, size_t ldy, size_t y_step)
{
    size_t r = 0;
    for (; nr == 4 && r + 4 <= m; r += 4) tile_at(r, 4, nr, w, k, x, ldx, m, y, ldy, y_step);
    for (; nr == 4 && r + 3 <= m; r += 3) tile_at(r, 3, nr, w, k, x, ldx, m, y, ldy, y_step);
    for (; nr == 4 && r + 2 <= m; r += 2) tile_at(r, 2, nr, w, k, x, ldx, m, y, ldy, y_step);
    for (; r < m; r++) tile_at(r, 1, nr, w, k, x, ldx, m, y, ldy, y_step);
}

/* Walks n weight rows as nr far streams; returns how many rows that covered. */
CDZ_INLINE size_t far_rows(int nr, cdz_dtype dtype, bool bf16_pairs, const char *w, size_t n,
                           size_t k, const float *x, size_t ldx, size_t m, float *y, size_t ldy)
{
    const size_t part = n / (size_t)nr, row_bytes = cdz_row_bytes(dtype, k);
    for (size_t i = 0; i < part; i++) {
        const weights rows = {dtype, bf16_pairs, w + i * row_bytes, part * row_bytes, row_bytes};
        all_rows(nr, &rows, k, x, ldx, m, y + i, ldy, part);
    }
    return part * (size_t)nr;
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
