/* rows.h - the row operations of a kernel set, as plain loops: one text, compiled once per
 * instruction set.
 *
 * Every element is computed alone and nothing is contracted, so vectorised code has the scalar
 * code's bits. Included by one source file of each set, which names the functions in its table. */
#ifndef CDZ_ROWS_H
#define CDZ_ROWS_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

static void widen_f32(float *y, const void *x, size_t n)
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

#endif
