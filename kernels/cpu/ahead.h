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
    CDZ_AHEAD_IN_PANELS = 8192,     /* where 8 or more do */
    CDZ_AHEAD_IN_LANE = 16,         /* groups of columns */
    CDZ_LINE_BYTES = 64
};

/* Whether panels of a type are asked for when `height` activation rows meet them: q6_k comes 25 to 40 % faster, others no
 * faster, or slower. */
static inline __attribute__((always_inline)) bool cdz_asks_in_panels(cdz_dtype dtype, int height)
{
    return dtype == CDZ_Q6_K && height <= 4;
}

/* For n bytes, into the second-level cache. */
static inline __attribute__((always_inline)) void cdz_ask_lines(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i += CDZ_LINE_BYTES) _mm_prefetch(at + i, _MM_HINT_T1);
}

/* For what comes `ahead` bytes after the n at `at`, of the same panel or the next. */
static inline __attribute__((always_inline)) void cdz_ask_in_panel(const uint8_t *at, size_t n,
                                                                   size_t ahead, bool into_second)
{
    const char *from = (const char *)at + ahead;
    if (into_second)
        cdz_ask_lines(from, n);
    else
        for (size_t i = 0; i < n; i += CDZ_LINE_BYTES) _mm_prefetch(from + i, _MM_HINT_T0);
}

/* Both operands of a lane pass lie in the second-level cache, or beyond: they are asked into the first some groups of columns ahead. */
static inline __attribute__((always_inline)) void cdz_ask_in_lane(const float *w, size_t panel,
                                                                  const float *x, size_t height)
{
    for (size_t i = 0; i < panel; i += CDZ_LINE_BYTES / sizeof *w)
        _mm_prefetch((const char *)(w + CDZ_AHEAD_IN_LANE * panel + i), _MM_HINT_T0);
    _mm_prefetch((const char *)(x + CDZ_AHEAD_IN_LANE * height), _MM_HINT_T0);
}

/* Lane i of a tile asks for a row of what comes after, if there is one. */
static inline __attribute__((always_inline)) void cdz_ask_for_coming(const cdz_coming *coming,
                                                                     unsigned i)
{
    if (i < coming->rows) cdz_ask_lines(coming->at + i * coming->stride, coming->bytes);
}

#endif
