/* neon_pairs.c - dot products of bf16 pairs on arm64. Its mode that flushes small numbers to zero looks at them before they are
 * rounded, x86's after: so that the bits are the same, each result is looked at here. A lane adds the product of the second
 * numbers, then that of the first (kernel_set.h). */
#include "cpu/avx2.h"

typedef float32x4_t four;

CDZ_INLINE four flushed(four v)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t small = vceqzq_u32(vandq_u32(bits, vdupq_n_u32(0x7f800000)));
    return vreinterpretq_f32_u32(vbslq_u32(small, vandq_u32(bits, vdupq_n_u32(0x80000000)), bits));
}

/* Of four pairs the second numbers (which = 1) or the first. */
CDZ_INLINE four of_pairs(uint32x4_t pairs, int which)
{
    const uint32x4_t bits =
        which ? vandq_u32(pairs, vdupq_n_u32(0xffff0000)) : vshlq_n_u32(pairs, 16);
    return flushed(vreinterpretq_f32_u32(bits));
}

/* Sixteen pairs of a weight row by those of an activation row. */
CDZ_INLINE void add_group(const uint8_t *w, const uint8_t *x, four acc[4])
{
    CDZ_UNROLL
    for (int i = 0; i < 4; i++) {
        const uint32x4_t wi = vreinterpretq_u32_u8(vld1q_u8(w + 16 * i)),
                         xi = vreinterpretq_u32_u8(vld1q_u8(x + 16 * i));
        acc[i] = flushed(vfmaq_f32(acc[i], of_pairs(wi, 1), of_pairs(xi, 1)));
        acc[i] = flushed(vfmaq_f32(acc[i], of_pairs(wi, 0), of_pairs(xi, 0)));
    }
}

/* The written tree over sixteen lanes. */
CDZ_INLINE float fold(const four acc[4])
{
    const four eight[2] = {flushed(vaddq_f32(acc[0], acc[2])), flushed(vaddq_f32(acc[1], acc[3]))};
    const four s = flushed(vaddq_f32(eight[0], eight[1]));
    const four two = flushed(vpaddq_f32(s, s));
    return vgetq_lane_f32(flushed(vpaddq_f32(two, two)), 0);
}

/* n < 16 pairs, followed by zeros. */
CDZ_INLINE void add_tail(const uint8_t *w, const uint8_t *x, size_t n, four acc[4])
{
    uint8_t wt[4 * CDZ_LANES] = {0}, xt[4 * CDZ_LANES] = {0};
    memcpy(wt, w, 4 * n);
    memcpy(xt, x, 4 * n);
    add_group(wt, xt, acc);
}

static float dot_row(const uint8_t *w, const uint8_t *x, size_t k)
{
    float y = 0.0f;
    for (size_t from = 0; from < k; from += CDZ_K_CHUNK) {
        const size_t to = k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK;
        const size_t whole = from + (to - from) / CDZ_LANES * CDZ_LANES;
        four acc[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
        for (size_t at = from; at < whole; at += CDZ_LANES) add_group(w + 4 * at, x + 4 * at, acc);
        if (whole < to) add_tail(w + 4 * whole, x + 4 * whole, to - whole, acc);
        const float sum = fold(acc);
        y = from == 0 ? sum : vgetq_lane_f32(flushed(vdupq_n_f32(y + sum)), 0);
    }
    return y;
}

void cdz_neon_dot_pairs(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                        size_t ldx, size_t m)
{
    for (size_t j = 0; j < n; j++)
        for (size_t r = 0; r < m; r++)
            y[r * ldy + j] = dot_row((const uint8_t *)w + 4 * j * k,
                                     (const uint8_t *)(const void *)(x + r * ldx), k);
}
