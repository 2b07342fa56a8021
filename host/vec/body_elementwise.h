/* body_elementwise.h - maps over a row: one or two rows in, one out, eight elements at a time.
 * A body: compiled once per instruction set; everything is static. */
#ifndef CDZ_HOST_VEC_BODY_ELEMENTWISE_H
#define CDZ_HOST_VEC_BODY_ELEMENTWISE_H

#include "vec/lanes.h"

/* Runs `expression` of v, the lanes of x, in place; the last partial lanes go through a filled copy. */
#define CDZ_MAP(x, n, expression)                                                                  \
    do {                                                                                           \
        const size_t end = (n);                                                                    \
        size_t i = 0;                                                                              \
        for (; i + LANES <= end; i += LANES) {                                                     \
            const lanes v = l_load((x) + i);                                                       \
            l_store((x) + i, (expression));                                                        \
        }                                                                                          \
        if (i < end) {                                                                             \
            const lanes v = l_load_part((x) + i, end - i, 0.0f);                                   \
            l_store_part((x) + i, end - i, (expression));                                          \
        }                                                                                          \
    } while (0)

/* The same with w, the lanes of a second row y. */
#define CDZ_MAP2(x, y, n, expression)                                                              \
    do {                                                                                           \
        const size_t end = (n);                                                                    \
        size_t i = 0;                                                                              \
        for (; i + LANES <= end; i += LANES) {                                                     \
            const lanes v = l_load((x) + i), w = l_load((y) + i);                                  \
            l_store((x) + i, (expression));                                                        \
        }                                                                                          \
        if (i < end) {                                                                             \
            const lanes v = l_load_part((x) + i, end - i, 0.0f);                                   \
            const lanes w = l_load_part((y) + i, end - i, 1.0f);                                   \
            l_store_part((x) + i, end - i, (expression));                                          \
        }                                                                                          \
    } while (0)

static void fill(float *x, size_t n, float a)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) l_store(x + i, l_set(a));
    for (; i < n; i++) x[i] = a;
}

static void add(float *x, size_t n, float a)
{
    CDZ_MAP(x, n, l_add(v, l_set(a)));
}

static void mul(float *x, size_t n, float a)
{
    CDZ_MAP(x, n, l_mul(v, l_set(a)));
}

static void divide(float *x, size_t n, float a)
{
    CDZ_MAP(x, n, l_div(v, l_set(a)));
}

/* NaN stays NaN: the row is the second operand of both choices. */
static void clamp(float *x, size_t n, float lo, float hi)
{
    CDZ_MAP(x, n, l_min(l_set(hi), l_max(l_set(lo), v)));
}

static void exponential(float *x, size_t n)
{
    CDZ_MAP(x, n, l_exp(v));
}

/* Through double: the float nearest to the logarithm, or the one beside it once in 10^8. */
static void logarithm(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)log((double)x[i]);
}

static void absolute(float *x, size_t n)
{
    CDZ_MAP(x, n, l_abs(v));
}

static void power(float *x, size_t n, float a)
{
    for (size_t i = 0; i < n; i++) x[i] = (float)pow((double)x[i], (double)a);
}

static void add_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_add(v, w));
}

static void sub_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_sub(v, w));
}

static void mul_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_mul(v, w));
}

static void div_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_div(v, w));
}

static void max_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_max(w, v));
}

static void min_v(float *x, const float *y, size_t n)
{
    CDZ_MAP2(x, y, n, l_min(w, v));
}

static void axpy(float *x, const float *y, size_t n, float a)
{
    CDZ_MAP2(x, y, n, l_add(v, l_mul(l_set(a), w)));
}

static void lerp(float *x, const float *y, size_t n, float t)
{
    CDZ_MAP2(x, y, n, l_add(v, l_mul(l_set(t), l_sub(w, v))));
}

static void mask_below(float *x, size_t n, float t)
{
    CDZ_MAP(x, n, l_if_less(v, l_set(t), l_set(-INFINITY), v));
}

#endif
