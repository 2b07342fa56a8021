/* ahead.h - weights asked for before the kernels get to them. A tile of several activation rows computes about as long as its
 * weights take to come, and does one after the other when left alone: far streams leave the processor's own prefetching
 * behind, and too few loads are under way while it multiplies. */
#ifndef CDZ_CPU_AHEAD_H
#define CDZ_CPU_AHEAD_H

#include "cpu/intrinsics.h"
#include "kernel_set.h"

enum {
    CDZ_AHEAD_BYTES = 2048,
    CDZ_AHEAD_IN_PANEL = 384,
    CDZ_AHEAD_IN_FAR_PANELS = 4096, /* where few rows meet two panels in step */
    CDZ_AHEAD_IN_PANELS = 8192,     /* where 8 or 12 rows do */
    CDZ_LINE_BYTES = 64
};

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

/* Whether panels of a type are asked for when `height` activation rows meet them: q6_k comes 25 to 40 % faster, others no
 * faster, or slower. */
static inline __attribute__((always_inline)) bool cdz_asks_in_panels(cdz_dtype dtype, int height)
{
    return dtype == CDZ_Q6_K && height <= 4;
}

/* For what comes `ahead` bytes after the n at `at`, of the same panel or the next. */
static inline __attribute__((always_inline)) void cdz_ask_in_panel(const uint8_t *at, size_t n,
                                                                   size_t ahead, bool into_second)
{
    const char *from = (const char *)at + ahead;
    for (size_t i = 0; i < n; i += CDZ_LINE_BYTES) {
        if (into_second)
            _mm_prefetch(from + i, _MM_HINT_T1);
        else
            _mm_prefetch(from + i, _MM_HINT_T0);
    }
}

/* Lane i of a tile asks for a row of what comes after, if there is one. */
static inline __attribute__((always_inline)) void cdz_ask_for_coming(const cdz_coming *coming,
                                                                     unsigned i)
{
    if (i >= coming->rows) return;
    const char *row = coming->at + i * coming->stride;
    for (size_t at = 0; at < coming->bytes; at += CDZ_LINE_BYTES)
        _mm_prefetch(row + at, _MM_HINT_T1);
}

#endif
