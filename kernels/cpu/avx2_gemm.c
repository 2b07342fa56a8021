/* avx2_gemm.c - the matrix product by lane passes: the bits of the dot product at the speed of a
 * GEMM.
 *
 * The 16 lanes of the written order are independent chains. So a 6 x 16 microkernel with outputs
 * across lanes runs once per lane of k, over that lane's columns only, and adds what it sums to the
 * sums before it in the written tree. Weights are widened and transposed while being packed, so
 * one microkernel serves all types. */
#include "cpu/ahead.h"
#include "cpu/avx2.h"
#include "cpu/lane_turns.h"

enum { PANEL = 16, TALL = 6 };

/* Eight rows by eight columns, transposed: out[c] holds column c of the rows. */
CDZ_INLINE void transpose8(const __m256 in[8], __m256 out[8])
{
    __m256 t[8], u[8];
    CDZ_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
    }
    CDZ_UNROLL
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    CDZ_UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        out[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

/* Eight rows' columns [k, k + 8), into the panel's lanes from `lane` on. n: rows there are. */
CDZ_INLINE void pack8x8(float *packed, size_t lane, size_t lane_stride, cdz_dtype dtype,
                        const char *w, size_t stride, size_t n, size_t k)
{
    __m256 in[8], out[8];
    CDZ_UNROLL
    for (int i = 0; i < 8; i++)
        in[i] = (size_t)i < n ? load8(dtype, w + (size_t)i * stride, k) : _mm256_setzero_ps();
    transpose8(in, out);
    CDZ_UNROLL
    for (size_t i = 0; i < 8; i++)
        _mm256_storeu_ps(packed + cdz_turn_of_lane[lane + i] * lane_stride, out[i]);
}

/* Eight rows (n of them real) of kc columns into their half of a panel. */
CDZ_INLINE void pack_half_panel(float *packed, cdz_dtype dtype, const char *w, size_t stride,
                                size_t n, size_t kc)
{
    const size_t groups = (kc + CDZ_LANES - 1) / CDZ_LANES,
                 lane_stride = cdz_lane_floats(groups, PANEL);
    const size_t whole = kc / CDZ_LANES;
    for (size_t j = 0; j < whole; j++) {
        float *to = packed + j * PANEL;
        pack8x8(to, 0, lane_stride, dtype, w, stride, n, j * CDZ_LANES);
        pack8x8(to, 8, lane_stride, dtype, w, stride, n, j * CDZ_LANES + 8);
    }
    if (whole == groups) return;
    tail_group tail[8];
    for (size_t i = 0; i < 8; i++) {
        const size_t left = i < n ? kc - whole * CDZ_LANES : 0;
        copy_tail(&tail[i], dtype, w + (left ? i * stride : 0), whole * CDZ_LANES, left);
    }
    float *to = packed + whole * PANEL;
    pack8x8(to, 0, lane_stride, dtype, (const char *)tail, sizeof *tail, 8, 0);
    pack8x8(to, 8, lane_stride, dtype, (const char *)tail, sizeof *tail, 8, 8);
}

CDZ_INLINE void pack_any(cdz_dtype dtype, float *packed, const void *w, size_t n, size_t k,
                         size_t kc)
{
    const size_t stride = k * element_bytes(dtype);
    const size_t panel_floats = cdz_panel_floats(kc, PANEL);
    const char *row = w;
    for (size_t done = 0; done < n; done += PANEL, row += PANEL * stride, packed += panel_floats)
        for (size_t half = 0; half < PANEL; half += 8) {
            const size_t left = n - done > half ? n - done - half : 0;
            pack_half_panel(packed + half, dtype, left ? row + half * stride : row, stride,
                            left < 8 ? left : 8, kc);
        }
}

void cdz_avx2_pack_f32(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_F32, packed, w, n, k, kc);
}

void cdz_avx2_pack_f16(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_F16, packed, w, n, k, kc);
}

void cdz_avx2_pack_bf16(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_BF16, packed, w, n, k, kc);
}

void cdz_avx2_pack_rows(float *packed, const float *x, size_t ldx, size_t rows, size_t height,
                        size_t kc)
{
    const size_t groups = (kc + CDZ_LANES - 1) / CDZ_LANES;
    for (size_t j = 0; j < groups; j++)
        for (size_t l = 0; l < CDZ_LANES; l++) {
            const size_t k = j * CDZ_LANES + l;
            float *to = packed + (cdz_turn_of_lane[l] * groups + j) * height;
            for (size_t r = 0; r < height; r++) to[r] = r < rows && k < kc ? x[r * ldx + k] : 0.0f;
        }
}

typedef float lane_sums[CDZ_LANES_PENDING][TALL * PANEL];

/* One lane's columns: height x 16 sums, each one chain of multiply-adds; and what they end. */
CDZ_INLINE void lane_pass(bool bf16_pairs, int height, const float *w, const float *x,
                          size_t groups, unsigned ends, lane_sums sums)
{
    __m256 acc[2 * TALL];
    CDZ_UNROLL
    for (int i = 0; i < 2 * height; i++) acc[i] = _mm256_setzero_ps();
    for (size_t j = 0; j < groups; j++, w += PANEL, x += height) {
        const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8);
        cdz_ask_in_lane(w, PANEL, x, (size_t)height);
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const __m256 xr = _mm256_broadcast_ss(x + r);
            multiply_add8(bf16_pairs, &acc[2 * r], w0, xr);
            multiply_add8(bf16_pairs, &acc[2 * r + 1], w1, xr);
        }
    }
    for (unsigned e = 0; e < ends; e++) {
        CDZ_UNROLL
        for (int i = 0; i < 2 * height; i++)
            acc[i] = _mm256_add_ps(_mm256_load_ps(sums[e] + 8 * i), acc[i]);
    }
    float *to = sums[ends % CDZ_LANES_PENDING];
    CDZ_UNROLL
    for (int i = 0; i < 2 * height; i++) _mm256_store_ps(to + 8 * i, acc[i]);
}

static void add_tile(const cdz_lane_tile *tile, const float *sums)
{
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t c = 0; c < PANEL; c += 8) {
            float *y = tile->y + r * tile->ldy + c;
            const __m256 sum = _mm256_load_ps(sums + r * PANEL + c);
            _mm256_storeu_ps(y, tile->first ? sum : _mm256_add_ps(_mm256_loadu_ps(y), sum));
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
    case 6: tile_of(bf16_pairs, 6, tile); break;
    case 4: tile_of(bf16_pairs, 4, tile); break;
    default: tile_of(bf16_pairs, 2, tile); break;
    }
}

void cdz_avx2_lane_tile(const cdz_lane_tile *tile)
{
    lane_tile(false, tile);
}

#if defined(CDZ_HAVE_X86)
static __attribute__((noinline)) void lane_tile_pairs(const cdz_lane_tile *tile)
{
    lane_tile(true, tile);
}

void cdz_avx2_lane_tile_pairs(const cdz_lane_tile *tile)
{
    const unsigned before = small_to_zero();
    lane_tile_pairs(tile);
    _mm_setcsr(before);
}
#endif
