/* body_select.h - the largest of a row without sorting it.
 * A body: compiled once per instruction set; everything is static.
 *
 * The row is cut into blocks of 64 and their maxima kept: the k-th largest of n/64 maxima is a lower bound of the k-th
 * largest element, since k blocks hold one at least as large. Only blocks whose maximum reaches the bound are looked
 * at again. At n = 151,936 and k = 50 that is one pass over the row and 50 blocks; k may be anything. */
#ifndef CDZ_HOST_VEC_BODY_SELECT_H
#define CDZ_HOST_VEC_BODY_SELECT_H

#include "vec/body_reduce.h"
#include "vec/order.h"

enum { BLOCK = 64 };

/* What is known about the large elements of a row. */
typedef struct heights {
    const float *x;
    size_t n;
    float *max; /* of each block */
    size_t n_blocks;
    bool nan; /* the row holds one: comparisons are no guide */
} heights;

static size_t block_len(const heights *h, size_t b)
{
    return b + 1 < h->n_blocks ? (size_t)BLOCK : h->n - b * BLOCK;
}

/* max: room for n / 64 + 1 floats. */
static heights measure(const float *x, size_t n, float *max)
{
    heights h = {.x = x, .n = n, .max = max, .n_blocks = (n + BLOCK - 1) / BLOCK};
    unsigned nan = 0;

    for (size_t b = 0; b < h.n_blocks; b++) {
        const size_t len = block_len(&h, b);
        const float *at = x + b * BLOCK;
        lanes top = l_set(-INFINITY);
        size_t i = 0;
        for (; i + LANES <= len; i += LANES) {
            const lanes v = l_load(at + i);
            top = l_max(v, top);
            nan |= l_bits_nan(v);
        }
        if (i < len) {
            const lanes v = l_load_part(at + i, len - i, -INFINITY);
            top = l_max(v, top);
            nan |= l_bits_nan(v);
        }
        float s[LANES];
        l_store(s, top);
        const float m0 = s[0] > s[4] ? s[0] : s[4], m1 = s[1] > s[5] ? s[1] : s[5];
        const float m2 = s[2] > s[6] ? s[2] : s[6], m3 = s[3] > s[7] ? s[3] : s[7];
        const float a = m0 > m2 ? m0 : m2, c = m1 > m3 ? m1 : m3;
        max[b] = a > c ? a : c;
    }
    h.nan = nan != 0;
    return h;
}

/* Elements not below t in order of their ids: the first `room` of them into out, all of them counted. */
static size_t gather(const heights *h, float t, size_t room, cdz_ranked *out)
{
    size_t count = 0;

    for (size_t b = 0; b < h->n_blocks; b++) {
        if (h->max[b] < t) continue;
        const size_t first = b * BLOCK, last = first + block_len(h, b);
        for (size_t i = first; i < last; i++) {
            if (h->x[i] < t) continue;
            if (count < room) out[count] = (cdz_ranked){cdz_rank_down(h->x[i]), (int32_t)i};
            count++;
        }
    }
    return count;
}

/* The k-th largest value, k from 1 to n. spare: room for n floats. */
static float kth_of(const heights *h, size_t k, float *spare)
{
    size_t count = 0;

    if (h->nan || k > h->n_blocks / 2) return cdz_unrank_up(cdz_order_kth_largest(h->x, h->n, k));
    const float bound = cdz_unrank_up(cdz_order_kth_largest(h->max, h->n_blocks, k));
    for (size_t b = 0; b < h->n_blocks; b++) {
        if (h->max[b] < bound) continue;
        const size_t first = b * BLOCK, last = first + block_len(h, b);
        for (size_t i = first; i < last; i++)
            if (h->x[i] >= bound) spare[count++] = h->x[i];
    }
    return cdz_unrank_up(cdz_order_kth_largest(spare, count, k));
}

static float kth_largest(const float *x, size_t n, size_t k, void *scratch)
{
    float *const max = scratch;

    if (n == 0 || k == 0 || k > n) return NAN;
    const heights h = measure(x, n, max);
    return kth_of(&h, k, max + h.n_blocks);
}

/* ids alone, so that 16 * n bytes of scratch suffice. k <= n. */
static void topk_ids(const float *x, size_t n, size_t k, int32_t *ids, void *scratch)
{
    cdz_ranked *const a = scratch;

    if (k == 0) return;
    const heights h = measure(x, n, (float *)(void *)(a + n));
    const float t = kth_of(&h, k, (float *)(void *)a);
    const size_t n_found = h.nan ? 0 : gather(&h, t, k, a);
    cdz_order_topk_ids(x, n, k, n_found, a, ids);
}

static void topk(const float *x, size_t n, size_t k, float *values, int32_t *ids, void *scratch)
{
    if (k > n) k = n;
    topk_ids(x, n, k, ids, scratch);
    for (size_t i = 0; i < k; i++) values[i] = x[ids[i]];
}

static void sort(const float *x, size_t n, bool descending, float *values, int32_t *ids,
                 void *scratch)
{
    cdz_ranked *const a = scratch;

    for (int attempt = 0; attempt < 2; attempt++) {
        for (size_t i = 0; i < n; i++)
            a[i] = (cdz_ranked){descending ? cdz_rank_down(x[i]) : cdz_rank_up(x[i]), (int32_t)i};
        if (attempt == 0 && !cdz_order_distinct(a, a + n, n)) break;
        if (attempt == 1) cdz_order_sort(a, n);
    }
    for (size_t i = 0; i < n; i++) ids[i] = a[i].id;
    for (size_t i = 0; i < n; i++) values[i] = x[ids[i]];
}

#endif
