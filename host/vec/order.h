/* order.h - sorting and selecting score rows with the reference's permutation of ties.
 *
 * A float is looked at as a 32-bit rank whose unsigned order is the wanted one: NaNs are all equal and the largest
 * value, -0 and +0 are equal. Then "comes before" is one integer comparison, ascending or descending alike, and ranks
 * can be sorted by radix wherever no tie makes the permutation matter. */
#ifndef CDZ_HOST_VEC_ORDER_H
#define CDZ_HOST_VEC_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct cdz_ranked {
    uint32_t key; /* the smaller comes first */
    int32_t id;
} cdz_ranked;

static inline uint32_t cdz_rank_up(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return UINT32_MAX;
    if (x == 0.0f) bits = 0;
    return bits ^ ((bits >> 31) != 0 ? UINT32_MAX : 0x80000000u);
}

static inline uint32_t cdz_rank_down(float x)
{
    return ~cdz_rank_up(x);
}

/* The value of an ascending rank; NaN and zero come back as one of their spellings. */
static inline float cdz_unrank_up(uint32_t key)
{
    const uint32_t bits = key ^ ((key >> 31) != 0 ? 0x80000000u : UINT32_MAX);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The permutations of libstdc++, as torch uses them on a CPU: std::sort, and what torch.topk does for the first k. */
void cdz_order_sort(cdz_ranked *a, size_t n);
void cdz_order_topk(cdz_ranked *a, size_t n, size_t k);

/* Sorts by the fastest means; spare: n more. True when two keys are equal: then the order is not the reference's. */
bool cdz_order_distinct(cdz_ranked *a, cdz_ranked *spare, size_t n);
/* Bare keys, ascending, where ties cannot matter; spare: n more. */
void cdz_order_radix_keys(uint32_t *a, uint32_t *spare, size_t n);

/* The rank (ascending) of the k-th largest, k from 1 to n: three passes of counting, no copy. */
uint32_t cdz_order_kth_largest(const float *x, size_t n, size_t k);

/* Ids of torch.topk(x, k), descending. The caller has looked for the elements that are not below the k-th and put the
 * first k of them into a, descending ranks; n_found is how many there were. a: room for 2 * n. */
void cdz_order_topk_ids(const float *x, size_t n, size_t k, size_t n_found, cdz_ranked *a,
                        int32_t *ids);

#endif
