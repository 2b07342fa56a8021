/* avx512_gemm.c - the matrix product by lane passes, as avx2_gemm.c: packing. */
#include "cpu/avx512_lanes.h"

/* Two groups of bf16 columns: pairs of columns are transposed, half as many as columns, and then widened. */
CDZ_INLINE void pack_two_groups(float *packed, size_t lane_stride, const char *w, size_t stride,
                                size_t n)
{
    const __m512i second = _mm512_set1_epi32((int)0xffff0000u);
    __m512 v[16];
    CDZ_UNROLL
    for (int i = 0; i < 16; i++)
        v[i] = (size_t)i < n ? _mm512_loadu_ps(w + (size_t)i * stride) : _mm512_setzero_ps();
    transpose16(v);
    CDZ_UNROLL
    for (int i = 0; i < 16; i++) {
        const __m512i pairs = _mm512_castps_si512(v[i]);
        const int lane = 2 * i % CDZ_LANES;
        float *to = packed + 2 * i / CDZ_LANES * PANEL;
        _mm512_storeu_si512(to + cdz_turn_of_lane[lane] * lane_stride, _mm512_slli_epi32(pairs, 16));
        _mm512_storeu_si512(to + cdz_turn_of_lane[lane + 1] * lane_stride,
                            _mm512_and_si512(pairs, second));
    }
}

/* 16 rows (n of them real) of kc columns into their half of a panel. */
CDZ_INLINE void pack_half_panel(float *packed, cdz_dtype dtype, const char *w, size_t stride,
                                size_t n, size_t kc)
{
    const size_t groups = (kc + CDZ_LANES - 1) / CDZ_LANES,
                 lane_stride = cdz_lane_floats(groups, PANEL);
    size_t j = 0;
    for (; dtype == CDZ_BF16 && (j + 2) * CDZ_LANES <= kc; j += 2)
        pack_two_groups(packed + j * PANEL, lane_stride, w + j * CDZ_LANES * sizeof(uint16_t),
                        stride, n);
    for (; j < groups; j++) {
        const size_t k = j * CDZ_LANES;
        const __mmask16 mask = kc - k < CDZ_LANES ? first_columns(kc - k) : (__mmask16)0xffff;
        __m512 v[16];
        CDZ_UNROLL
        for (int i = 0; i < 16; i++)
            v[i] = (size_t)i < n ? load16_masked(dtype, w + (size_t)i * stride, k, mask)
                                 : _mm512_setzero_ps();
        transpose16(v);
        CDZ_UNROLL
        for (int i = 0; i < 16; i++)
            _mm512_storeu_ps(packed + cdz_turn_of_lane[i] * lane_stride + j * PANEL, v[i]);
    }
}

CDZ_INLINE void pack_any(cdz_dtype dtype, float *packed, const void *w, size_t n, size_t k,
                         size_t kc)
{
    const size_t stride = k * element_bytes(dtype);
    const size_t panel_floats = cdz_panel_floats(kc, PANEL);
    const char *row = w;
    for (size_t done = 0; done < n; done += PANEL, row += PANEL * stride, packed += panel_floats) {
        const size_t left = n - done, low = left < 16 ? left : 16,
                     high = left < 32 ? left - low : 16;
        pack_half_panel(packed, dtype, row, stride, low, kc);
        pack_half_panel(packed + 16, dtype, high ? row + 16 * stride : row, stride, high, kc);
    }
}

void cdz_avx512_pack_f32(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_F32, packed, w, n, k, kc);
}

void cdz_avx512_pack_f16(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_F16, packed, w, n, k, kc);
}

void cdz_avx512_pack_bf16(float *packed, const void *w, size_t n, size_t k, size_t kc)
{
    pack_any(CDZ_BF16, packed, w, n, k, kc);
}

/* Rows of 16 columns are transposed; the first `height` floats of a column are stored. */
void cdz_avx512_pack_rows(float *packed, const float *x, size_t ldx, size_t rows, size_t height,
                          size_t kc)
{
    const size_t groups = (kc + CDZ_LANES - 1) / CDZ_LANES;
    const __mmask16 stored = first_columns(height);
    for (size_t j = 0; j < groups; j++) {
        const size_t k = j * CDZ_LANES;
        const __mmask16 mask = kc - k < CDZ_LANES ? first_columns(kc - k) : (__mmask16)0xffff;
        __m512 v[16];
        CDZ_UNROLL
        for (int i = 0; i < 16; i++)
            v[i] = (size_t)i < rows ? load16_masked(CDZ_F32, x + (size_t)i * ldx, k, mask)
                                    : _mm512_setzero_ps();
        transpose16(v);
        CDZ_UNROLL
        for (int i = 0; i < 16; i++)
            _mm512_mask_storeu_ps(packed + (cdz_turn_of_lane[i] * groups + j) * height, stored,
                                  v[i]);
    }
}

void cdz_avx512_lane_tile(const cdz_lane_tile *tile)
{
    lane_tile(false, tile);
}
