/* rows.h - the row operations of a kernel set, as plain loops: one text, compiled once per
 * instruction set.
 *
 * Every element is computed alone and nothing is contracted, so vectorised code has the scalar
 * code's bits; the one sum names its lanes. Included by one source file of each set, which names the functions in its table. */
#ifndef CDZ_ROWS_H
#define CDZ_ROWS_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

static void widen_f32(float *restrict y, const void *restrict x, size_t n)
{
    memcpy(y, x, n * sizeof *y);
}

static void widen_f16(float *restrict y, const void *restrict x, size_t n)
{
    const uint16_t *h = x;
    for (size_t i = 0; i < n; i++) y[i] = cdz_widen_f16(h[i]);
}

static void widen_bf16(float *restrict y, const void *restrict x, size_t n)
{
    const uint16_t *h = x;
    for (size_t i = 0; i < n; i++) y[i] = cdz_widen_bf16(h[i]);
}

static void round_bf16(uint16_t *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = cdz_narrow_bf16(x[i]);
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

/* LlamaRMSNorm: (x * rsqrt) first, then the weight. */
static void scale_norm(float *y, const float *x, const float *w, float inverse, float offset,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = (x[i] * inverse) * (offset + w[i]);
}

/* torch's silu is x / (1 + exp(-x)). */
static void silu_mul(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = gate[i] / (1.0f + cdz_exp(-gate[i])) * up[i];
}

static void clamped_mul(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cdz_clamped_product(gate[i], up[i], CDZ_CLAMP_AT, CDZ_CLAMP_SLOPE);
}

static void xielu(float *y, const float *x, const cdz_xielu *how, size_t n)
{
    const float above = how->above, below = how->below, both = how->both;
    for (size_t i = 0; i < n; i++) y[i] = cdz_xielu_of(x[i], above, below, both);
}

static void gelu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = cdz_gelu(x[i]);
}

static void gelu_tanh(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = cdz_gelu_tanh(x[i]);
}

/* As torch's clamp from below: a NaN stays. */
static void relu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void silu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + cdz_exp(-x[i]));
}

static void sigmoid(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = cdz_sigmoid(x[i]);
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] *= x[i];
}

static void scale(float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

/* A rounded product, then a rounded sum, as torch's index_add_ of weighted experts. */
static void add_scaled(float *y, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] += factor * x[i];
}

static void soft_cap(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = cdz_soft_cap(x[i], cap);
}

static void subtract(float *y, const float *x, float from_each, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] - from_each;
}

/* LayerNorm on centred x: (x * rsqrt) * w + b, each step rounded. */
static void scale_shift(float *y, const float *w, const float *b, float inverse, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = (y[i] * inverse) * w[i] + b[i];
}

/* 16 lanes over the whole row, ascending, folded like a dot product. */
static float sum(const float *x, size_t n)
{
    float s[CDZ_LANES] = {0};
    size_t i = 0;
    for (; i + CDZ_LANES <= n; i += CDZ_LANES)
        for (size_t l = 0; l < CDZ_LANES; l++) s[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++) s[l] += x[i + l];
    for (size_t l = 0; l < 8; l++) s[l] += s[l + 8];
    for (size_t l = 0; l < 4; l++) s[l] += s[l + 4];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* q * cos + rotate_half(q) * sin: two rounded products and a rounded sum, as torch does it. */
static void rotate(float *restrict a, float *restrict b, const float *cosine, const float *sine,
                   size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float u = a[i], v = b[i];
        a[i] = u * cosine[i] - v * sine[i];
        b[i] = v * cosine[i] + u * sine[i];
    }
}

static void rotate_pairs(float *x, const float *cosine, const float *sine, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float u = x[2 * i], v = x[2 * i + 1];
        x[2 * i] = u * cosine[i] - v * sine[i];
        x[2 * i + 1] = v * cosine[i] + u * sine[i];
    }
}

/* They, in the table of a set. */
#define CDZ_ROW_OPERATIONS                                                                         \
    .round_bf16 = round_bf16, .add = add, .scale_norm = scale_norm, .silu_mul = silu_mul,          \
    .clamped_mul = clamped_mul, .xielu = xielu,                                                    \
    .activate = {gelu, gelu_tanh, relu, silu, sigmoid}, .mul = mul, .scale = scale,                \
    .add_scaled = add_scaled, .soft_cap = soft_cap, .subtract = subtract,                          \
    .scale_shift = scale_shift, .sum = sum, .rotate = rotate, .rotate_pairs = rotate_pairs

#endif
