/* body_filter.h - the filters of transformers' warpers (docs/reference/internals/processors.md, 2.2), masking in place.
 * A body: compiled once per instruction set; everything is static.
 *
 * The reference sorts the vocabulary and sums in that order. Where only the order of distinct values matters, what
 * is not masked yet is sorted by radix, which gives the same sums; only a tie right at the cut, or one whose members
 * differ, asks for the reference's own permutation. */
#ifndef CDZ_HOST_VEC_BODY_FILTER_H
#define CDZ_HOST_VEC_BODY_FILTER_H

#include "vec/body_distribution.h"
#include "vec/body_select.h"

static void keep_topk(float *x, size_t n, size_t k, void *scratch)
{
    if (n == 0 || k == 0 || k >= n) return;
    mask_below(x, n, kth_largest(x, n, k, scratch));
}

/* False for rows on which every softmax is NaN, so that no comparison masks anything. */
static bool has_softmax(const float *x, size_t n, float *top)
{
    *top = maximum(x, n);
    return *top > -INFINITY && *top < INFINITY && !any_nan(x, n);
}

/* --- top-p ------------------------------------------------------------------------------------------------------ */

/* How many of the ascending values v[0, len) go: the longest head whose cumulated probability is at most `limit`.
 * `before` further values (-inf) lie ahead of them in the sorted row; they add nothing but shift the lanes. */
static size_t head_below(const float *v, size_t len, size_t before, float top, float limit, float *p)
{
    const size_t pad = before % LANES, n = before + len;
    double total = 0.0;

    for (size_t i = 0; i < pad; i++) p[i] = 0.0f;
    sum_exp(p + pad, v, len, top);
    const float s = n < LANES ? sum_from_left(p, pad + len) : sum_lanes(p, pad + len);
    const float reciprocal = 1.0f / s;
    for (size_t i = 0; i < len; i++) {
        total += (double)(p[pad + i] * reciprocal);
        if (!((float)total <= limit)) return i;
    }
    return len;
}

/* The first `count` of the reference's ascending permutation. */
static void mask_head(float *x, size_t n, size_t count, void *scratch)
{
    cdz_ranked *const a = scratch;

    for (size_t i = 0; i < n; i++) a[i] = (cdz_ranked){cdz_rank_up(x[i]), (int32_t)i};
    cdz_order_sort(a, n);
    for (size_t i = 0; i < count; i++) x[a[i].id] = -INFINITY;
}

/* The values above -inf, ascending; returns how many. v and spare: n each. */
static size_t ascending(const float *x, size_t n, float *v, uint32_t *spare)
{
    uint32_t *const keys = (uint32_t *)(void *)v;
    size_t len = 0, i = 0;

    while (i < n) {
        if (i + LANES <= n && l_bits_less(l_set(-INFINITY), l_load(x + i)) == 0) {
            i += LANES; /* all masked */
            continue;
        }
        for (const size_t stop = i + LANES < n ? i + LANES : n; i < stop; i++)
            if (x[i] > -INFINITY) spare[len++] = cdz_rank_up(x[i]);
    }
    memcpy(keys, spare, len * sizeof *keys);
    cdz_order_radix_keys(keys, spare, len);
    for (size_t k = 0; k < len; k++) v[k] = cdz_unrank_up(keys[k]);
    return len;
}

static void keep_topp_sorted(float *x, size_t n, float limit, size_t keep, float top, void *scratch)
{
    float *const v = scratch, *const p = v + 2 * n;

    const size_t len = ascending(x, n, v, (uint32_t *)scratch + n);
    size_t gone = head_below(v, len, n - len, top, limit, p);
    if (gone + keep > len) gone = keep < len ? len - keep : 0;
    if (gone == 0) return;
    if (v[gone - 1] == v[gone])
        mask_head(x, n, n - len + gone, scratch);
    else
        mask_below(x, n, v[gone]);
}

/* The sum of exp(x - top), off by less than 16 roundings. */
static double mass_of(const float *x, size_t n, float top)
{
    double total = 0.0;

    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t len = n - first < BLOCK ? n - first : (size_t)BLOCK;
        total += (double)sum_exp(NULL, x + first, len, top);
    }
    return total;
}

enum { TOPP_LOOK = 256, TOPP_SHORT = 4096 };

/* Decides the cut among the TOPP_LOOK best by bounds on what the reference's sums can be; false when a bound, or a tie
 * at the cut, leaves it open. Summing len positive floats in 8 lanes errs by len / 8 roundings at most, which scales
 * the cumulated probability; our own mass errs by a part of the whole. */
static bool keep_topp_bounded(float *x, size_t n, float limit, size_t keep, float top, size_t len,
                              void *scratch)
{
    cdz_ranked a[TOPP_LOOK];
    const double scaled = ((double)len / LANES + 16) * 0x1p-24, shifted = 32 * 0x1p-24;

    const heights h = measure(x, n, scratch);
    const float t = kth_of(&h, TOPP_LOOK, (float *)scratch + h.n_blocks);
    if (gather(&h, t, TOPP_LOOK, a) != TOPP_LOOK) return false;
    cdz_order_sort(a, TOPP_LOOK);

    const double mass = mass_of(x, n, top);
    double rest = mass; /* of element i and all below it */
    for (size_t i = 0; i + 1 < TOPP_LOOK; i++) {
        const float value = cdz_unrank_up(~a[i].key);
        const double low = (rest / mass - shifted) * (1 - scaled);
        const double high = (rest / mass + shifted) * (1 + scaled);
        if (i >= keep && low <= (double)limit) {
            if (high > (double)limit || a[i - 1].key == a[i].key) return false;
            mask_below(x, n, cdz_unrank_up(~a[i - 1].key));
            return true;
        }
        rest -= (double)exp1(value - top);
    }
    return false;
}

static void keep_topp(float *x, size_t n, double p, size_t keep, void *scratch)
{
    const float limit = (float)(1.0 - p);
    float top;

    if (keep == 0) keep = 1;
    if (n == 0 || !has_softmax(x, n, &top)) return;
    const size_t len = count_above(x, n, -INFINITY);
    if (len >= TOPP_SHORT && keep_topp_bounded(x, n, limit, keep, top, len, scratch)) return;
    keep_topp_sorted(x, n, limit, keep, top, scratch);
}

/* --- min-p, epsilon, eta: a threshold on probabilities ------------------------------------------------------------ */

static void keep_minp(float *x, size_t n, double m, size_t keep, void *scratch)
{
    float *const p = scratch;
    int32_t *const kept = (int32_t *)(void *)(p + n);

    if (n == 0) return;
    if (keep > n) keep = n;
    softmax(p, x, n);
    const float t = (float)m * maximum(p, n);
    if (keep > 1) {
        topk_ids(p, n, keep, kept, kept + n);
        for (size_t i = 0; i < keep; i++) p[kept[i]] = INFINITY;
    }
    CDZ_MAP2(x, p, n, l_if_less(w, l_set(t), l_set(-INFINITY), v));
}

/* Masks what is less probable than t and below the keep-th score. */
static void keep_probable(float *x, size_t n, float t, size_t keep, void *scratch)
{
    float *const p = scratch;

    if (keep == 0) keep = 1;
    const float kth = kth_largest(x, n, keep < n ? keep : n, p + n);
    softmax(p, x, n);
    CDZ_MAP2(x, p, n, l_if_less(w, l_set(t), l_if_less(v, l_set(kth), l_set(-INFINITY), v), v));
}

static void keep_epsilon(float *x, size_t n, double e, size_t keep, void *scratch)
{
    if (n > 0) keep_probable(x, n, (float)e, keep, scratch);
}

static void keep_eta(float *x, size_t n, double e, size_t keep, void *scratch)
{
    const float epsilon = (float)e;

    if (n == 0) return;
    const float eta = sqrtf(epsilon) * exp1(-entropy(x, n));
    keep_probable(x, n, eta < epsilon ? eta : epsilon, keep, scratch);
}

/* --- typical ------------------------------------------------------------------------------------------------------ */

/* d = |-l - H| of every token, l = log_softmax(x), H = -sum(l * exp(l)); the NaN of masked tokens adds nothing. */
static void surprise(float *d, float *products, const float *x, size_t n)
{
    log_softmax(d, x, n);
    memcpy(products, d, n * sizeof *d);
    exponential(products, n);
    mul_v(products, d, n);
    CDZ_MAP(products, n, l_if_nan(v, l_set(0.0f), v));
    const terms t = {.x = products, .n = n, .kind = TERM_ITSELF};
    const float h = -torch_sum(&t);
    CDZ_MAP(d, n, l_abs(l_sub(l_mul(v, l_set(-1.0f)), l_set(h))));
}

/* Tokens that have a probability, the least surprising first, in the reference's order; returns how many. */
static size_t by_surprise(const float *d, size_t n, cdz_ranked *a)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++)
        if (d[i] < INFINITY) a[len++] = (cdz_ranked){cdz_rank_up(d[i]), (int32_t)i};
    if (!cdz_order_distinct(a, a + n, len)) return len;
    for (size_t i = 0; i < n; i++) a[i] = (cdz_ranked){cdz_rank_up(d[i]), (int32_t)i};
    cdz_order_sort(a, n);
    return len;
}

static void keep_typical(float *x, size_t n, double mass, size_t keep, void *scratch)
{
    cdz_ranked *const a = scratch;
    float *const d = (float *)(a + 2 * n), *const p = d + n;
    float top;

    if (n == 0 || !has_softmax(x, n, &top)) return;
    surprise(d, p, x, n);
    const size_t len = by_surprise(d, n, a);
    for (size_t i = 0; i < len; i++) p[i] = x[a[i].id];
    for (size_t i = len; i < LANES && i < n; i++) p[i] = -INFINITY;
    const size_t n_summed = len < LANES && len < n ? (n < LANES ? n : (size_t)LANES) : len;
    const float total = sum_exp(p, p, n_summed, top);
    const float reciprocal = 1.0f / total;

    double c = 0.0;
    size_t last = 0;
    while (last < len) {
        c += (double)(p[last] * reciprocal);
        if (!((float)c < (float)mass)) break;
        last++;
    }
    if (last == len) return; /* what lies beyond has d = inf: nothing exceeds it */
    const float limit = d[a[last].id];
    for (size_t i = keep; i < len; i++)
        if (d[a[i].id] > limit) x[a[i].id] = -INFINITY;
}

#endif
