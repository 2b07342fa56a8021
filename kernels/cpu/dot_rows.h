/* dot_rows.h - what the dot kernels of all instruction sets share: weight rows as far streams, walked in step, by activation rows
 * in tiles, each of which asks memory for some of what comes. Included once by a set's own file. */
#ifndef CDZ_CPU_DOT_ROWS_H
#define CDZ_CPU_DOT_ROWS_H

#include "cpu/ahead.h"

/* Activation rows in tiles of like heights: the first `taller` of them have one row more than the others. */
typedef struct cdz_row_tiles {
    size_t n, height, taller;
} cdz_row_tiles;

static inline cdz_row_tiles cdz_tiles_of_rows(size_t m, size_t most)
{
    const size_t n = (m + most - 1) / most;
    return (cdz_row_tiles){n, n ? m / n : 0, n ? m % n : 0};
}

/* What a tile of the dot kernels asks for. */
typedef enum cdz_ask {
    CDZ_ASK_NOTHING,
    CDZ_ASK_ONE,  /* one of the weight rows that come after its own */
    CDZ_ASK_TWO,  /* two of them */
    CDZ_ASK_AHEAD /* what comes in its own rows */
} cdz_ask;

typedef struct cdz_prefetch {
    cdz_ask how;
    const char *at; /* the first row of it */
} cdz_prefetch;

/* Of tile i of n that meet nr weight rows, `stride` apart; those of the next turn lie `next` bytes behind them. The tile alone reads its
 * rows from memory, and asks within them. Of several the first finds its rows in the cache, for in each turn every tile asks for its
 * share of the turn after the next: asked for by one tile they would come in a rush, and what the last tile asks for
 * one turn ahead comes too late where tiles are short. */
static inline __attribute__((always_inline)) cdz_prefetch cdz_prefetch_of(
    bool asks, size_t i, size_t n, size_t nr, const char *row, size_t stride, size_t next)
{
    if (!asks) return (cdz_prefetch){CDZ_ASK_NOTHING, row};
    if (n == 1) return (cdz_prefetch){CDZ_ASK_AHEAD, row + CDZ_AHEAD_BYTES};
    const size_t from = n < nr ? i * nr / n : i, to = n < nr ? (i + 1) * nr / n : i + 1;
    if (from >= nr) return (cdz_prefetch){CDZ_ASK_NOTHING, row};
    return (cdz_prefetch){to - from > 1 ? CDZ_ASK_TWO : CDZ_ASK_ONE, row + 2 * next + from * stride};
}

/* For what lies `at` bytes into the first row that is asked for, and into the others; nr are the tile's own. Into the second
 * cache: asked for into the first, they keep the loads of the tile waiting. */
static inline __attribute__((always_inline)) void cdz_ask_for(cdz_ask ask, int nr, const char *row,
                                                              size_t row_stride, size_t at)
{
    if (ask == CDZ_ASK_NOTHING) return;
    if (ask == CDZ_ASK_AHEAD && at % CDZ_LINE_BYTES != 0) return;
    const int n = ask == CDZ_ASK_AHEAD ? nr : ask == CDZ_ASK_TWO ? 2 : 1;
    for (int j = 0; j < n; j++) _mm_prefetch(row + (size_t)j * row_stride + at, _MM_HINT_T1);
}

typedef struct weights {
    cdz_dtype dtype;
    bool bf16_pairs;   /* a column is two of them, of weights and activations; dtype is CDZ_F32 */
    const char *row;   /* the first of nr rows */
    size_t row_stride; /* bytes between them */
    size_t next;       /* bytes to the rows that are next in turn */
} weights;

/* What the set defines. Activation rows of a tile of nr weight rows, at most. */
CDZ_INLINE size_t most_rows(cdz_dtype dtype, int nr);

/* y[r * ldy + j * y_step] for mr activation rows by nr weight rows over the whole k axis; asked: of what `ask` names, the first row. */
CDZ_INLINE void dot_tile(int mr, int nr, cdz_ask ask, const char *asked, const weights *w, size_t k,
                         const float *x, size_t ldx, float *y, size_t ldy, size_t y_step);

/* All activation rows by one set of nr weight rows: tile_at of each tile, by its height. One weight row is what was left over: few of
 * them, and one by one. */
CDZ_INLINE void all_rows(int nr, const weights *w, size_t k, const float *x, size_t ldx,
                         const cdz_row_tiles *rows, float *y, size_t ldy, size_t y_step);

/* A tile of mr activation rows, the first of them being `row`. */
CDZ_INLINE void tile_at(size_t tile, const cdz_row_tiles *rows, size_t row, int mr, int nr,
                        const weights *w, size_t k, const float *x, size_t ldx, float *y,
                        size_t ldy, size_t y_step)
{
    const bool asks = w->dtype < CDZ_N_PLAIN && nr > 1 && (mr > 1 || rows->n > 1);
    const cdz_prefetch coming =
        cdz_prefetch_of(asks, tile, rows->n, (size_t)nr, w->row, w->row_stride, w->next);
    x += row * ldx, y += row * ldy;
    switch (coming.how) {
    case CDZ_ASK_AHEAD:
        dot_tile(mr, nr, CDZ_ASK_AHEAD, coming.at, w, k, x, ldx, y, ldy, y_step);
        break;
    case CDZ_ASK_TWO: dot_tile(mr, nr, CDZ_ASK_TWO, coming.at, w, k, x, ldx, y, ldy, y_step); break;
    case CDZ_ASK_ONE: dot_tile(mr, nr, CDZ_ASK_ONE, coming.at, w, k, x, ldx, y, ldy, y_step); break;
    default: dot_tile(mr, nr, CDZ_ASK_NOTHING, coming.at, w, k, x, ldx, y, ldy, y_step); break;
    }
}

/* Walks n weight rows as nr far streams; returns how many rows that covered. */
CDZ_INLINE size_t far_rows(int nr, cdz_dtype dtype, bool bf16_pairs, const char *w, size_t n,
                           size_t k, const float *x, size_t ldx, size_t m, float *y, size_t ldy)
{
    const size_t part = n / (size_t)nr, row_bytes = cdz_row_bytes(dtype, k);
    const cdz_row_tiles tiles = cdz_tiles_of_rows(m, most_rows(dtype, nr));
    for (size_t i = 0; i < part; i++) {
        const weights rows = {dtype, bf16_pairs, w + i * row_bytes, part * row_bytes, row_bytes};
        all_rows(nr, &rows, k, x, ldx, &tiles, y + i, ldy, part);
    }
    return part * (size_t)nr;
}

#endif
