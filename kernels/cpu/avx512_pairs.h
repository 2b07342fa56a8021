/* avx512_pairs.h - products of bf16 pairs, under the names that PAIRS(dot) and PAIRS(lane_tile) give: compiled with the
 * instruction for it, and without. */
#include "cpu/avx512_dot.h"
#include "cpu/avx512_lanes.h"

static __attribute__((noinline)) void dot_pairs(float *y, size_t ldy, const void *w, size_t n,
                                                size_t k, const float *x, size_t ldx, size_t m)
{
    dot_any(CDZ_F32, true, y, ldy, w, n, k, x, ldx, m);
}

void PAIRS(dot)(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x, size_t ldx,
                size_t m)
{
    const unsigned before = small_to_zero();
    dot_pairs(y, ldy, w, n, k, x, ldx, m);
    _mm_setcsr(before);
}

static __attribute__((noinline)) void lane_tile_pairs(const cdz_lane_tile *tile)
{
    lane_tile(true, tile);
}

void PAIRS(lane_tile)(const cdz_lane_tile *tile)
{
    const unsigned before = small_to_zero();
    lane_tile_pairs(tile);
    _mm_setcsr(before);
}
