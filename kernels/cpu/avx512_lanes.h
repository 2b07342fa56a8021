/* avx512_lanes.h - the 12 x 32 microkernel of lane passes: 24 accumulators, two weight registers and one broadcast,
 * so that each pass of a panel of weights serves twelve activation rows. */
#ifndef CDZ_CPU_AVX512_LANES_H
#define CDZ_CPU_AVX512_LANES_H

#include "cpu/ahead.h"
#include "cpu/avx512.h"
#include "cpu/lane_turns.h"

enum { PANEL = 32, TALL = 12 };

typedef float lane_sums[CDZ_LANES_PENDING][TALL * PANEL];

/* One lane's columns: height x 32 sums, each one chain of multiply-adds; and what they end. */
CDZ_INLINE void lane_pass(bool bf16_pairs, int height, const float *w, const float *x,
                          size_t groups, unsigned ends, lane_sums sums)
{
    __m512 acc[2 * TALL];
    CDZ_UNROLL
    for (int i = 0; i < 2 * height; i++) acc[i] = _mm512_setzero_ps();
    for (size_t j = 0; j < groups; j++, w += PANEL, x += height) {
        const __m512 w0 = _mm512_loadu_ps(w), w1 = _mm512_loadu_ps(w + 16);
        cdz_ask_in_lane(w, PANEL, x, (size_t)height);
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const __m512 xr = _mm512_set1_ps(x[r]);
            multiply_add16(bf16_pairs, &acc[2 * r], w0, xr);
            multiply_add16(bf16_pairs, &acc[2 * r + 1], w1, xr);
        }
    }
    for (unsigned e = 0; e < ends; e++) {
        CDZ_UNROLL
        for (int i = 0; i < 2 * height; i++)
            acc[i] = _mm512_add_ps(_mm512_load_ps(sums[e] + 16 * i), acc[i]);
    }
    float *to = sums[ends % CDZ_LANES_PENDING];
    CDZ_UNROLL
    for (int i = 0; i < 2 * height; i++) _mm512_store_ps(to + 16 * i, acc[i]);
}

static void add_tile(const cdz_lane_tile *tile, const float *sums)
{
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t c = 0; c < PANEL; c += 16) {
            float *y = tile->y + r * tile->ldy + c;
            const __m512 sum = _mm512_load_ps(sums + r * PANEL + c);
            _mm512_storeu_ps(y, tile->first ? sum : _mm512_add_ps(_mm512_loadu_ps(y), sum));
        }
}

CDZ_INLINE void tile_of(bool bf16_pairs, int height, const cdz_lane_tile *tile)
{
    _Alignas(64) lane_sums sums;
    for (unsigned i = 0; i < CDZ_LANES; i++) {
        cdz_ask_for_coming(&tile->coming, i);
        lane_pass(bf16_pairs, height, tile->w + i * cdz_lane_floats(tile->groups, PANEL),
                  tile->x + i * tile->groups * (size_t)height, tile->groups, cdz_pairs_ended(i),
                  sums);
    }
    add_tile(tile, sums[0]);
}

CDZ_INLINE void lane_tile(bool bf16_pairs, const cdz_lane_tile *tile)
{
    switch (tile->height) {
    case 12: tile_of(bf16_pairs, 12, tile); break;
    case 8: tile_of(bf16_pairs, 8, tile); break;
    default: tile_of(bf16_pairs, 4, tile); break;
    }
}

#endif
