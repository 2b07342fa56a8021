/* ref_set.c - the scalar kernel set: what the numbers are. Obvious loops in the written order;
 * every other set is compared with this one bit for bit. It needs no instruction beyond the
 * compiler's baseline: where the machine has no fused multiply-add, libm's fmaf still rounds
 * once. */
#include "kernel_set.h"
#include "ref/int8_rows.h"
#include "ref/quant_rows.h"
#include "ref/recurrent.h"
#include "ref/ref.h"
#include "ref/rows.h"

static float load_f32(const void *w, size_t i)
{
    return ((const float *)w)[i];
}

static float load_f16(const void *w, size_t i)
{
    return cdz_widen_f16(((const uint16_t *)w)[i]);
}

static float load_bf16(const void *w, size_t i)
{
    return cdz_widen_bf16(((const uint16_t *)w)[i]);
}

/* 16 -> 8 -> 4, then (s0 + s1) + (s2 + s3). */
static float fold(float s[CDZ_LANES])
{
    for (size_t l = 0; l < 8; l++) s[l] += s[l + 8];
    for (size_t l = 0; l < 4; l++) s[l] += s[l + 4];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Columns [from, to) of one chunk, from a multiple of 16. The last group is filled up with
 * products of zeros. */
static float dot_chunk(float (*load)(const void *, size_t), const void *w, const float *x,
                       size_t from, size_t to)
{
    float s[CDZ_LANES] = {0};
    for (size_t k = from; k < to; k += CDZ_LANES)
        for (size_t l = 0; l < CDZ_LANES; l++) {
            const bool inside = k + l < to;
            s[l] = fmaf(inside ? load(w, k + l) : 0.0f, inside ? x[k + l] : 0.0f, s[l]);
        }
    return fold(s);
}

static float dot_row(float (*load)(const void *, size_t), const void *w, const float *x, size_t k)
{
    float y = dot_chunk(load, w, x, 0, k < CDZ_K_CHUNK ? k : CDZ_K_CHUNK);
    for (size_t from = CDZ_K_CHUNK; from < k; from += CDZ_K_CHUNK)
        y += dot_chunk(load, w, x, from, k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK);
    return y;
}

static void dot_any(cdz_dtype dtype, float *y, size_t ldy, const void *w, size_t n, size_t k,
                    const float *x, size_t ldx, size_t m)
{
    static float (*const loads[])(const void *, size_t) = {load_f32, load_f16, load_bf16};
    const char *row = w;
    for (size_t j = 0; j < n; j++, row += k * cdz_dtype_bytes(dtype))
        for (size_t r = 0; r < m; r++) y[r * ldy + j] = dot_row(loads[dtype], row, x + r * ldx, k);
}

static void dot_f32(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                    size_t ldx, size_t m)
{
    dot_any(CDZ_F32, y, ldy, w, n, k, x, ldx, m);
}

static void dot_f16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                    size_t ldx, size_t m)
{
    dot_any(CDZ_F16, y, ldy, w, n, k, x, ldx, m);
}

static void dot_bf16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                     size_t ldx, size_t m)
{
    dot_any(CDZ_BF16, y, ldy, w, n, k, x, ldx, m);
}

/* The numbers of a pair as a set that flushes sees them. */
static float of_pair(const void *pairs, size_t k, size_t which)
{
    uint16_t half;
    memcpy(&half, (const char *)pairs + 4 * k + 2 * which, sizeof half);
    return half & 0x7f80 ? cdz_widen_bf16(half) : half & 0x8000 ? -0.0f : 0.0f;
}

static float fold_flushed(float s[CDZ_LANES])
{
    for (size_t n = 8; n >= 4; n /= 2)
        for (size_t l = 0; l < n; l++) s[l] = cdz_small_to_zero(s[l] + s[l + n]);
    return cdz_small_to_zero(cdz_small_to_zero(s[0] + s[1]) + cdz_small_to_zero(s[2] + s[3]));
}

static float dot_pair_row(const void *w, const void *x, size_t k)
{
    float y = 0.0f;
    for (size_t from = 0; from < k; from += CDZ_K_CHUNK) {
        const size_t to = k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK;
        float s[CDZ_LANES] = {0};
        for (size_t i = from; i < to; i++)
            for (size_t which = 2; which-- > 0;) {
                float *lane = &s[(i - from) % CDZ_LANES];
                *lane = cdz_small_to_zero(fmaf(of_pair(w, i, which), of_pair(x, i, which), *lane));
            }
        const float sum = fold_flushed(s);
        y = from == 0 ? sum : cdz_small_to_zero(y + sum);
    }
    return y;
}

static void dot_pairs(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                      size_t ldx, size_t m)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < m; r++)
            y[r * ldy + j] = dot_pair_row((const char *)w + 4 * j * k, x + r * ldx, k);
}

static void to_panel(cdz_dtype dtype, void *to, const void *rows, size_t stride, size_t k,
                     size_t ahead)
{
    (void)ahead;
    cdz_to_panels(dtype, to, rows, stride, CDZ_PANEL_ROWS, k);
}

const cdz_kernel_set cdz_scalar_set = {
    .name = "scalar",
    .dot = {dot_f32, dot_f16, dot_bf16},
    .int8_tile = CDZ_INT8_TILES(cdz_ref_int8),
    .int8_heights = {12, 8, 4, 2, 1},
    .dot_pairs = dot_pairs,
    .parts_product = cdz_ref_parts_product,
    .pack_parts = cdz_ref_pack_parts,
    .to_panel = to_panel,
    .quantise_x = quantise_x,
    .widen = {widen_f32, widen_f16, widen_bf16, CDZ_QUANT_ROWS},
    CDZ_ROW_OPERATIONS,
    .conv = conv,
    .recur = recur,
    .attend = {cdz_ref_attend, cdz_ref_attend, cdz_ref_attend, cdz_ref_attend, cdz_ref_attend},
    .attend_packed = cdz_ref_attend,
};
