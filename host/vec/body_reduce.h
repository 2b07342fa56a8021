/* body_reduce.h - rows to numbers. A body: included once per instruction set after lanes.h; everything is static.
 *
 * Two orders of summation occur in the reference, and both are here. Inside softmax, 8 running lanes folded at the
 * end; a row shorter than the lanes is added from left to right (at::vec::reduce_all). In torch.sum, which entropy and
 * logsumexp call, four interleaved registers of lanes in a cascade of levels (aten/native/cpu/SumKernel.cpp). */
#ifndef CDZ_HOST_VEC_BODY_REDUCE_H
#define CDZ_HOST_VEC_BODY_REDUCE_H

#include "vec/lanes.h"

#include <float.h>
#include <stdbool.h>

/* Comparisons only: NaN never wins, an empty or all-NaN row gives -inf. */
static float maximum(const float *x, size_t n)
{
    lanes a = l_set(-INFINITY), b = a, c = a, d = a;
    float s[LANES], best = -INFINITY;
    size_t i = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a = l_max(l_load(x + i), a);
        b = l_max(l_load(x + i + LANES), b);
        c = l_max(l_load(x + i + 2 * LANES), c);
        d = l_max(l_load(x + i + 3 * LANES), d);
    }
    for (; i + LANES <= n; i += LANES) a = l_max(l_load(x + i), a);
    if (i < n) b = l_max(l_load_part(x + i, n - i, -INFINITY), b);
    l_store(s, l_max(l_max(a, b), l_max(c, d)));
    for (size_t l = 0; l < LANES; l++)
        if (s[l] > best) best = s[l];
    return best;
}

static float minimum(const float *x, size_t n)
{
    lanes a = l_set(INFINITY);
    float s[LANES], best = INFINITY;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) a = l_min(l_load(x + i), a);
    if (i < n) a = l_min(l_load_part(x + i, n - i, INFINITY), a);
    l_store(s, a);
    for (size_t l = 0; l < LANES; l++)
        if (s[l] < best) best = s[l];
    return best;
}

static bool any_nan(const float *x, size_t n)
{
    lanes s = l_set(0.0f);
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) s = l_if_nan(l_load(x + i), l_set(1.0f), s);
    if (i < n) s = l_if_nan(l_load_part(x + i, n - i, 0.0f), l_set(1.0f), s);
    return l_bits_less(l_set(0.0f), s) != 0;
}

/* The lowest id of the largest; the first NaN over everything. */
static int32_t argmax(const float *x, size_t n)
{
    const float best = any_nan(x, n) ? NAN : maximum(x, n);
    size_t i = 0;

    /* not less than the best: equal to it, or NaN */
    while (best == best && i + LANES <= n && l_bits_less(l_load(x + i), l_set(best)) == 0xff)
        i += LANES;
    for (; i < n; i++)
        if (best == best ? x[i] == best : x[i] != x[i]) return (int32_t)i;
    return 0;
}

static size_t count_above(const float *x, size_t n, float t)
{
    static const unsigned char ones[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    size_t i = 0, count = 0;

    for (; i + LANES <= n; i += LANES) {
        const unsigned bits = l_bits_less(l_set(t), l_load(x + i));
        count += (size_t)ones[bits & 15] + ones[bits >> 4];
    }
    for (; i < n; i++) count += x[i] > t;
    return count;
}

/* Adds the last partial lanes to the running ones, without touching those beyond. */
static lanes add_part(lanes s, const float *x, size_t n)
{
    float at[LANES];

    l_store(at, s);
    for (size_t l = 0; l < n; l++) at[l] += x[l];
    return l_load(at);
}

/* Element i to lane i mod 8, whatever n. */
static float sum_lanes(const float *x, size_t n)
{
    lanes s = l_set(0.0f);
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) s = l_add(s, l_load(x + i));
    return l_total(add_part(s, x + i, n - i));
}

static float sum_from_left(const float *x, size_t n)
{
    float s = n > 0 ? x[0] : 0.0f;

    for (size_t i = 1; i < n; i++) s += x[i];
    return s;
}

static float sum(const float *x, size_t n)
{
    return n < LANES ? sum_from_left(x, n) : sum_lanes(x, n);
}

static float dot(const float *x, const float *y, size_t n)
{
    lanes s = l_set(0.0f);
    float part[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) s = l_add(s, l_mul(l_load(x + i), l_load(y + i)));
    for (size_t l = 0; i + l < n; l++) part[l] = x[i + l] * y[i + l];
    if (n < LANES) return sum_from_left(part, n);
    return l_total(add_part(s, part, n - i));
}

/* --- torch.sum over terms made on the way --------------------------------------------------------------------- */

/* What is summed: a function of each element. */
typedef struct terms {
    const float *x;
    size_t n;
    enum { TERM_ITSELF, TERM_EXP, TERM_P_LOG_P } kind;
    float shift;      /* EXP: exp(x - shift) */
    float lse;        /* P_LOG_P: l = x - lse */
    float max, scale; /* P_LOG_P: p = exp(l - max) * scale; the term is p * max(l, lowest) */
} terms;

static inline lanes term(const terms *t, lanes x)
{
    if (t->kind == TERM_EXP) return l_exp(l_sub(x, l_set(t->shift)));
    if (t->kind == TERM_ITSELF) return x;
    const lanes l = l_sub(x, l_set(t->lse));
    const lanes p = l_mul(l_exp(l_sub(l, l_set(t->max))), l_set(t->scale));
    return l_mul(l_max(l_set(-3.4028234663852886e38f), l), p);
}

static inline lanes term_at(const terms *t, size_t i)
{
    return term(t, l_load(t->x + i));
}

enum { LEVELS = 4, ROWS = 4 };

static unsigned ceil_log2(size_t n)
{
    unsigned log = 0;
    while (((size_t)1 << log) < n) log++;
    return log;
}

/* Level j+1 takes what level j gathered each time 2^power additions to it are done. */
static void carry(lanes level[LEVELS][ROWS], size_t done, unsigned power)
{
    const size_t mask = ((size_t)1 << power) - 1;

    for (unsigned j = 1; j < LEVELS; j++) {
        for (size_t r = 0; r < ROWS; r++) {
            level[j][r] = l_add(level[j][r], level[j - 1][r]);
            level[j - 1][r] = l_set(0.0f);
        }
        if ((done & (mask << (j * power))) != 0) break;
    }
}

/* n_groups times four registers; the four sums come back apart. */
static void cascade(const terms *t, size_t n_groups, lanes out[ROWS])
{
    lanes level[LEVELS][ROWS];
    const unsigned log = ceil_log2(n_groups) / LEVELS, power = log > 4 ? log : 4;
    const size_t step = (size_t)1 << power;

    for (size_t j = 0; j < LEVELS; j++)
        for (size_t r = 0; r < ROWS; r++) level[j][r] = l_set(0.0f);
    for (size_t g = 0; g < n_groups;) {
        const size_t stop = g + step <= n_groups ? g + step : n_groups;
        const bool whole = stop - g == step;
        for (; g < stop; g++)
            for (size_t r = 0; r < ROWS; r++)
                level[0][r] = l_add(level[0][r], term_at(t, (g * ROWS + r) * LANES));
        if (whole) carry(level, g, power);
    }
    for (size_t r = 0; r < ROWS; r++) {
        out[r] = level[0][r];
        for (size_t j = 1; j < LEVELS; j++) out[r] = l_add(out[r], level[j][r]);
    }
}

/* Fewer elements than lanes: four running sums of single elements, then the same folding. */
static float sum_few(const float *at, size_t n)
{
    float s[ROWS] = {0};

    if (n >= ROWS)
        for (size_t r = 0; r < ROWS; r++) s[r] += at[r];
    for (size_t i = n >= ROWS ? ROWS : 0; i < n; i++) s[0] += at[i];
    for (size_t r = 1; r < ROWS; r++) s[0] += s[r];
    return s[0];
}

static float torch_sum(const terms *t)
{
    const size_t n_registers = t->n / LANES, n_groups = n_registers / ROWS;
    const size_t tail = t->n - n_registers * LANES;
    lanes s[ROWS];
    float at[LANES], total = 0.0f;

    l_store(at, term(t, l_load_part(t->x + n_registers * LANES, tail, 0.0f)));
    if (n_registers == 0) return sum_few(at, tail);
    for (size_t l = 0; l < tail; l++) total += at[l];
    cascade(t, n_groups, s);
    for (size_t i = n_groups * ROWS; i < n_registers; i++)
        s[0] = l_add(s[0], term_at(t, i * LANES));
    for (size_t r = 1; r < ROWS; r++) s[0] = l_add(s[0], s[r]);
    l_store(at, s[0]);
    for (size_t l = 0; l < LANES; l++) total += at[l];
    return total;
}

static float logsumexp(const float *x, size_t n)
{
    const float top = any_nan(x, n) ? NAN : maximum(x, n);
    const float shift = isinf(top) ? 0.0f : top;
    const terms t = {.x = x, .n = n, .kind = TERM_EXP, .shift = shift};

    return (float)log((double)torch_sum(&t)) + shift;
}

/* What masks leave: -inf in every lane. A NaN is none. */
static bool l_masked(lanes v)
{
    return l_bits_less(v, l_set(-FLT_MAX)) == (1u << LANES) - 1;
}

/* exp(x - shift) summed in 8 lanes, as softmax does; exp(-inf) is 0, which adds nothing. out may be NULL. */
static float sum_exp(float *out, const float *x, size_t n, float shift)
{
    lanes s = l_set(0.0f);
    float part[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        const lanes v = l_load(x + i);
        if (shift > -INFINITY && l_masked(v)) {
            if (out) l_store(out + i, l_set(0.0f));
            continue;
        }
        const lanes e = l_exp(l_sub(v, l_set(shift)));
        if (out) l_store(out + i, e);
        s = l_add(s, e);
    }
    if (i < n) {
        l_store(part, l_exp(l_sub(l_load_part(x + i, n - i, 0.0f), l_set(shift))));
        if (out) memcpy(out + i, part, (n - i) * sizeof *out);
    }
    if (n < LANES) return sum_from_left(part, n);
    return l_total(add_part(s, part, n - i));
}

/* As torch.distributions.Categorical: l = x - logsumexp(x), p = softmax(l), -sum(max(l, lowest float) * p). */
static float entropy(const float *x, size_t n)
{
    terms t = {.x = x, .n = n, .kind = TERM_P_LOG_P, .lse = logsumexp(x, n)};
    lanes s = l_set(0.0f);
    float part[LANES];
    size_t i = 0;

    t.max = maximum(x, n) - t.lse;
    for (; i + LANES <= n; i += LANES)
        s = l_add(s, l_exp(l_sub(l_sub(l_load(x + i), l_set(t.lse)), l_set(t.max))));
    l_store(part, l_exp(l_sub(l_sub(l_load_part(x + i, n - i, 0.0f), l_set(t.lse)), l_set(t.max))));
    const float total = n < LANES ? sum_from_left(part, n) : l_total(add_part(s, part, n - i));
    t.scale = 1.0f / total;
    return -torch_sum(&t);
}

#endif
