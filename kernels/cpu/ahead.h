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

typedef enum cdz_ask {
    CDZ_ASK_NOTHING,
    CDZ_ASK_AHEAD, /* what comes in the same rows: 20 to 40 % at 3 to 7 activation rows */
    CDZ_ASK_NEXT /* the rows that come after these, from a tile whose own weights are in the cache: 10 to 15 % at 8 and 12 */
} cdz_ask;

/* What a tile of mr rows asks for whose first is row r of m, and which has `most` rows at most: the first tile of all reads
 * the weights from memory, the others find them in the first-level cache. */
static inline __attribute__((always_inline)) cdz_ask cdz_ask_of(cdz_dtype dtype, size_t r, int mr,
                                                                size_t m, size_t most)
{
    if (dtype >= CDZ_N_PLAIN) return CDZ_ASK_NOTHING;
    if (mr > 1 && r == 0 && m < 2 * most) return CDZ_ASK_AHEAD;
    return (size_t)mr == most && r == most ? CDZ_ASK_NEXT : CDZ_ASK_NOTHING;
}

/* For the first byte of each of nr rows: `at` bytes into them, `next` bytes before the rows that come after. */
static inline __attribute__((always_inline)) void cdz_ask_for(cdz_ask ask, int nr, const char *row,
                                                              size_t row_stride, size_t next,
                                                              size_t at)
{
    if (ask == CDZ_ASK_NOTHING) return;
    if (ask == CDZ_ASK_AHEAD && at % CDZ_LINE_BYTES != 0) return;
    for (int j = 0; j < nr; j++) {
        const char *here = row + (size_t)j * row_stride + at;
        if (ask == CDZ_ASK_AHEAD)
            _mm_prefetch(here + CDZ_AHEAD_BYTES, _MM_HINT_T1);
        else
            _mm_prefetch(here + next, _MM_HINT_T0);
    }
}

/* Whether panels of a type are asked for when `height` activation rows meet them: q6_k comes 25 to 40 % faster, others no
 * faster, or slower. */
static inline __attribute__((always_inline)) bool cdz_asks_in_panels(cdz_dtype dtype, int height)
{
    return dtype == CDZ_Q6_K && height <= 4;
}

/* For what comes `ahead` bytes after the n at `at`, of the same panel or the next. */
static inline __attribute__((always_inline)) void cdz_ask_in_panel(const uint8_t *at, size_t n,
                                                                   size_t ahead)
{
    for (size_t i = 0; i < n; i += CDZ_LINE_BYTES)
        _mm_prefetch((const char *)at + ahead + i, _MM_HINT_T0);
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
