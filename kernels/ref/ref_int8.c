/* ref_int8.c - products of quantised weights with int8 activations: what the numbers are.
 *
 * Both sides are blocks of 32: weights w = d_w * q (+ m_w), activations d_x * q_x (cdz_x8). Per block
 * and output, ascending, with one accumulator from +0:
 *   Q8_0, Q4_0, Q5_0   i = sum(q * q_x), q with its offset taken off;   acc = fma((float)i, d_w * d_x, acc)
 *   Q4_1, Q5_1         the same; then acc = fma(m_w, s_x, acc),         s_x = d_x * sum(q_x), rounded
 *   Q4_K, Q5_K         as Q4_1 with d_w = d * scale, m_w = -(dmin * minimum) of the sub-block, both exact
 *   Q6_K               i = scale0 * sum of 16 + scale1 * sum of 16, below 2^24; d_w = d
 *   Q3_K               as Q6_K
 *   Q2_K               as Q6_K; then j = minimum0 * sum of 16 q_x + minimum1 * sum of 16 q_x, exact too;
 *                      acc = fma(-(dmin * d_x), (float)j, acc)
 * Every i is exact in int32 and in float32, so neither instructions nor tiles can show. */
#include <math.h>

#include "ref/ref.h"
#include "ref/scalar_math.h"

/* What one block of 32 weights contributes. */
typedef struct block8 {
    int q[CDZ_X8];
    int scale[2], minimum[2]; /* of either half */
    float d, m;
} block8;

static float half_at(const uint8_t *at)
{
    return cdz_widen_f16((uint16_t)(at[0] | at[1] << 8));
}

/* Nibbles, the low ones of 16 bytes first; high: their fifth bits, or NULL. */
static void nibbles(block8 *to, const uint8_t *at, const uint8_t *high, int offset)
{
    for (size_t i = 0; i < 16; i++) {
        to->q[i] = (at[i] & 15) - offset;
        to->q[i + 16] = (at[i] >> 4) - offset;
    }
    for (size_t i = 0; high && i < 32; i++) to->q[i] += (high[i / 8] >> i % 8 & 1) << 4;
}

static void small_block(block8 *to, cdz_dtype dtype, const uint8_t *b)
{
    to->d = half_at(b);
    switch (dtype) {
    case CDZ_Q4_0: nibbles(to, b + 2, NULL, 8); break;
    case CDZ_Q5_0: nibbles(to, b + 6, b + 2, 16); break;
    case CDZ_Q4_1: nibbles(to, b + 4, NULL, 0); break;
    case CDZ_Q5_1: nibbles(to, b + 8, b + 4, 0); break;
    default:
        for (size_t i = 0; i < 32; i++) to->q[i] = (int8_t)b[2 + i];
    }
    if (dtype == CDZ_Q4_1 || dtype == CDZ_Q5_1) to->m = half_at(b + 2);
}

/* Scale and minimum g of eight, six bits each in 12 bytes. */
static void scale_of(const uint8_t *s, size_t g, int *scale, int *minimum)
{
    *scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    *minimum = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
}

/* Sub-block g of Q4_K and Q5_K. */
static void k_block(block8 *to, cdz_dtype dtype, const uint8_t *b, size_t g)
{
    const uint8_t *q = b + (dtype == CDZ_Q4_K ? 16 : 48) + g / 2 * 32, *high = b + 16;
    const unsigned shift = (unsigned)(g % 2 * 4), bit = (unsigned)g;
    int scale, minimum;
    scale_of(b + 4, g, &scale, &minimum);
    to->d = half_at(b) * (float)scale;
    to->m = -(half_at(b + 2) * (float)minimum);
    for (size_t i = 0; i < 32; i++) {
        to->q[i] = q[i] >> shift & 15;
        if (dtype == CDZ_Q5_K) to->q[i] |= (high[i] >> bit & 1) << 4;
    }
}

/* Two bits of weight i of sub-block g, as Q2_K and Q3_K have them. */
static int two_bits(const uint8_t *q, size_t g, size_t i)
{
    return q[g / 4 * 32 + i] >> g % 4 * 2 & 3;
}

static void q2_k_block(block8 *to, const uint8_t *b, size_t g)
{
    to->d = half_at(b + 80);
    to->m = half_at(b + 82);
    for (size_t i = 0; i < 2; i++) {
        to->scale[i] = b[2 * g + i] & 15;
        to->minimum[i] = b[2 * g + i] >> 4;
    }
    for (size_t i = 0; i < 32; i++) to->q[i] = two_bits(b + 16, g, i);
}

static void q3_k_block(block8 *to, const uint8_t *b, size_t g)
{
    const uint8_t *s = b + 96;
    to->d = half_at(b + 108);
    for (size_t i = 0; i < 2; i++) {
        const size_t k = 2 * g + i;
        const int low = s[k % 8] >> k / 8 * 4 & 15, top = s[8 + k % 4] >> k / 4 * 2 & 3;
        to->scale[i] = (low | top << 4) - 32;
    }
    for (size_t i = 0; i < 32; i++) to->q[i] = two_bits(b + 32, g, i) + ((b[i] >> g & 1) << 2) - 4;
}

static void q6_k_block(block8 *to, const uint8_t *b, size_t g)
{
    const size_t half = g / 4, group = g % 4;
    const uint8_t *q = b + half * 64 + group % 2 * 32, *high = b + 128 + half * 32;
    const unsigned shift = (unsigned)(group / 2 * 4), top = (unsigned)(group * 2);
    to->d = half_at(b + 208);
    for (size_t i = 0; i < 2; i++) to->scale[i] = (int8_t)b[192 + 2 * g + i];
    for (size_t i = 0; i < 32; i++)
        to->q[i] = ((q[i] >> shift & 15) | (high[i] >> top & 3) << 4) - 32;
}

static block8 block_of(cdz_dtype dtype, const uint8_t *row, size_t i)
{
    const size_t per = cdz_dtype_block(dtype) / CDZ_X8;
    const uint8_t *b = row + i / per * cdz_dtype_bytes(dtype);
    block8 to = {.scale = {1, 1}};
    switch (dtype) {
    case CDZ_Q4_K:
    case CDZ_Q5_K: k_block(&to, dtype, b, i % per); break;
    case CDZ_Q6_K: q6_k_block(&to, b, i % per); break;
    case CDZ_Q2_K: q2_k_block(&to, b, i % per); break;
    case CDZ_Q3_K: q3_k_block(&to, b, i % per); break;
    default: small_block(&to, dtype, b);
    }
    return to;
}

static bool has_minimum(cdz_dtype dtype)
{
    return dtype == CDZ_Q4_1 || dtype == CDZ_Q5_1 || dtype == CDZ_Q4_K || dtype == CDZ_Q5_K;
}

float cdz_int8_dot(cdz_dtype dtype, const void *row, const cdz_x8 *x, size_t step, size_t blocks,
                   float acc)
{
    for (size_t b = 0; b < blocks; b++, x += step) {
        const block8 w = block_of(dtype, row, b);
        int sum[2] = {0};
        for (size_t i = 0; i < CDZ_X8; i++) sum[i / 16] += w.q[i] * x->q[i];
        const int whole = w.scale[0] * sum[0] + w.scale[1] * sum[1];
        acc = fmaf((float)whole, w.d * x->d, acc);
        if (has_minimum(dtype)) acc = fmaf(w.m, x->s, acc);
        const int low = w.minimum[0] * x->half[0] + w.minimum[1] * x->half[1];
        if (dtype == CDZ_Q2_K) acc = fmaf(-(w.m * x->d), (float)low, acc);
    }
    return acc;
}

/* ---- the scalar set's kernels: panels, a row at a time ---- */

enum { PIECE = 1024, PIECE_BYTES = PIECE / 32 * 34 };

/* Row `lane` of one panel by all rows of the tile. */
static void lane_of(cdz_dtype dtype, const cdz_int8_tile *t, const uint8_t *panel, size_t lane,
                    float *y)
{
    uint8_t row[PIECE_BYTES];
    for (size_t from = 0; from < t->blocks; from += PIECE / CDZ_X8) {
        const size_t n = t->blocks - from < PIECE / CDZ_X8 ? t->blocks - from : PIECE / CDZ_X8;
        const size_t at = cdz_row_bytes(dtype, from * CDZ_X8) * CDZ_PANEL_ROWS;
        cdz_row_of_panel(dtype, row, panel + at, lane, n * CDZ_X8);
        for (size_t r = 0; r < t->height; r++)
            y[r * t->ldy] = cdz_int8_dot(dtype, row, t->x + from * t->height + r, t->height, n,
                                         t->first && from == 0 ? 0.0f : y[r * t->ldy]);
    }
}

static void tile_of(cdz_dtype dtype, const cdz_int8_tile *t)
{
    for (size_t p = 0; p < t->panels; p++)
        for (size_t lane = 0; lane < CDZ_PANEL_ROWS; lane++)
            lane_of(dtype, t, (const uint8_t *)t->w + p * t->stride, lane,
                    t->y + p * CDZ_PANEL_ROWS + lane);
}

#define TILE(name, dtype, prefix)                                                                  \
    void prefix##_##name(const cdz_int8_tile *t)                                                   \
    {                                                                                              \
        tile_of(dtype, t);                                                                         \
    }
CDZ_GGUF_TYPES(TILE, cdz_ref_int8)
