/* body_distribution.h - softmax and its kin, in the reference's rounding (docs/reference/internals/processors.md, section 0).
 * A body: compiled once per instruction set; everything is static. */
#ifndef CDZ_HOST_VEC_BODY_DISTRIBUTION_H
#define CDZ_HOST_VEC_BODY_DISTRIBUTION_H

#include "vec/body_elementwise.h"
#include "vec/body_reduce.h"

/* p = exp(x - max) * (1 / sum): multiplied by the rounded reciprocal. All -inf, or a NaN: NaN everywhere. */
static void softmax(float *out, const float *x, size_t n)
{
    if (n == 0) return;
    const float total = sum_exp(out, x, n, maximum(x, n));
    mul(out, n, 1.0f / total);
}

/* (x - max) - log(sum), in that order. */
static void log_softmax(float *out, const float *x, size_t n)
{
    if (n == 0) return;
    const float top = maximum(x, n);
    const float log_total = (float)log((double)sum_exp(NULL, x, n, top));

    if (out != x) memcpy(out, x, n * sizeof *out);
    CDZ_MAP(out, n, l_sub(l_sub(v, l_set(top)), l_set(log_total)));
}

static void cumsum(float *out, const float *x, size_t n)
{
    double total = 0.0;

    for (size_t i = 0; i < n; i++) {
        total += (double)x[i];
        out[i] = (float)total;
    }
}

#endif
