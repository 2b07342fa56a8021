/* order.c - std::sort, std::nth_element and std::partial_sort as permutations, ties included.
 *
 * Written from docs/reference/internals/processors.md, appendix A, alone. Ranges are half-open [f, l); "before" is a smaller
 * key. Quadratic inputs are cut off by a depth limit and finished by heap, as there. */
#include "vec/order.h"

static inline bool before(cdz_ranked x, cdz_ranked y)
{
    return x.key < y.key;
}

static inline void swap(cdz_ranked *x, cdz_ranked *y)
{
    const cdz_ranked t = *x;
    *x = *y;
    *y = t;
}

/* --- insertion -------------------------------------------------------------------------------------------- */

/* Walks a[i] back to its place; something that does not come after it lies before. */
static void insert_unguarded(cdz_ranked *a, size_t i)
{
    const cdz_ranked v = a[i];
    for (; before(v, a[i - 1]); i--) a[i] = a[i - 1];
    a[i] = v;
}

static void insertion(cdz_ranked *a, size_t f, size_t l)
{
    for (size_t i = f + 1; i < l; i++) {
        const cdz_ranked v = a[i];
        if (before(v, a[f])) {
            memmove(a + f + 1, a + f, (i - f) * sizeof *a);
            a[f] = v;
        } else {
            insert_unguarded(a, i);
        }
    }
}

/* --- partition -------------------------------------------------------------------------------------------- */

static size_t median(const cdz_ranked *a, size_t x, size_t y, size_t z)
{
    if (before(a[x], a[y])) {
        if (before(a[y], a[z])) return y;
        return before(a[x], a[z]) ? z : x;
    }
    if (before(a[x], a[z])) return x;
    return before(a[y], a[z]) ? z : y;
}

/* The median goes to f; returns where the part of what does not come before it begins. */
static size_t partition(cdz_ranked *a, size_t f, size_t l)
{
    swap(&a[f], &a[median(a, f + 1, f + (l - f) / 2, l - 1)]);
    size_t i = f + 1, j = l;
    for (;; i++) {
        while (before(a[i], a[f])) i++;
        j--;
        while (before(a[f], a[j])) j--;
        if (i >= j) return i;
        swap(&a[i], &a[j]);
    }
}

/* 2 * floor(log2(n)) */
static unsigned depth_limit(size_t n)
{
    unsigned log = 0;
    while (n > 1) {
        n >>= 1;
        log++;
    }
    return 2 * log;
}

/* --- heap: the element that goes last is on top -------------------------------------------------------------- */

/* v sinks from hole to the bottom of h[0, n) and rises from there to its place, not above where it began. */
static void sift(cdz_ranked *h, size_t hole, size_t n, cdz_ranked v)
{
    const size_t start = hole;

    while (hole < (n - 1) / 2) {
        size_t child = 2 * hole + 2;
        if (before(h[child], h[child - 1])) child--;
        h[hole] = h[child];
        hole = child;
    }
    if (n % 2 == 0 && hole == (n - 2) / 2) {
        h[hole] = h[2 * hole + 1];
        hole = 2 * hole + 1;
    }
    while (hole > start && before(h[(hole - 1) / 2], v)) {
        h[hole] = h[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    h[hole] = v;
}

/* The m first of [f, l), as a heap in [f, m). */
static void heap_select(cdz_ranked *a, size_t f, size_t m, size_t l)
{
    const size_t n = m - f;

    for (size_t parent = n < 2 ? 0 : (n - 2) / 2 + 1; parent-- > 0;)
        sift(a + f, parent, n, a[f + parent]);
    for (size_t i = m; i < l; i++) {
        if (!before(a[i], a[f])) continue;
        const cdz_ranked v = a[i];
        a[i] = a[f];
        sift(a + f, 0, n, v);
    }
}

static void heap_sort(cdz_ranked *a, size_t f, size_t l)
{
    while (l - f > 1) {
        l--;
        const cdz_ranked v = a[l];
        a[l] = a[f];
        sift(a + f, 0, l - f, v);
    }
}

static void partial(cdz_ranked *a, size_t f, size_t m, size_t l)
{
    if (m == f) return;
    heap_select(a, f, m, l);
    heap_sort(a, f, m);
}

/* --- the three algorithms ------------------------------------------------------------------------------------ */

enum { SMALL = 16 };

/* Leaves runs of at most SMALL elements whose order among each other is right. Recursion is as deep as the limit. */
static void sort_coarsely(cdz_ranked *a, size_t f, size_t l, unsigned depth)
{
    while (l - f > SMALL) {
        if (depth == 0) {
            partial(a, f, l, l);
            return;
        }
        depth--;
        const size_t cut = partition(a, f, l);
        sort_coarsely(a, cut, l, depth);
        l = cut;
    }
}

void cdz_order_sort(cdz_ranked *a, size_t n)
{
    sort_coarsely(a, 0, n, depth_limit(n));
    insertion(a, 0, n > SMALL ? SMALL : n);
    for (size_t i = SMALL; i < n; i++) insert_unguarded(a, i);
}

/* Puts the element of rank nth there, the ones before it before it. */
static void nth_element(cdz_ranked *a, size_t nth, size_t n)
{
    size_t f = 0, l = n;
    unsigned depth = depth_limit(n);

    while (l - f > 3) {
        if (depth == 0) {
            heap_select(a, f, nth + 1, l);
            swap(&a[f], &a[nth]);
            return;
        }
        depth--;
        const size_t cut = partition(a, f, l);
        if (cut <= nth)
            f = cut;
        else
            l = cut;
    }
    insertion(a, f, l);
}

void cdz_order_topk(cdz_ranked *a, size_t n, size_t k)
{
    if (k == 0) return;
    if (k <= n / 64) {
        partial(a, 0, k, n);
        return;
    }
    nth_element(a, k - 1, n);
    cdz_order_sort(a, k - 1);
}

/* --- where no tie can show ------------------------------------------------------------------------------------ */

enum { DIGITS = 3, DIGIT_BITS = 11, BINS = 1 << DIGIT_BITS, RADIX_FROM = 1024 };

static inline uint32_t digit_of(uint32_t key, unsigned shift)
{
    return (key >> shift) & (BINS - 1);
}

/* Counts become the first position of each bin. */
static void starts_of(uint32_t *bins)
{
    uint32_t at = 0;
    for (size_t b = 0; b < BINS; b++) {
        const uint32_t count = bins[b];
        bins[b] = at;
        at += count;
    }
}

static void radix(cdz_ranked *a, cdz_ranked *spare, size_t n)
{
    uint32_t bins[BINS];
    cdz_ranked *from = a, *to = spare;

    for (unsigned digit = 0; digit < DIGITS; digit++) {
        const unsigned shift = digit * DIGIT_BITS;
        memset(bins, 0, sizeof bins);
        for (size_t i = 0; i < n; i++) bins[digit_of(from[i].key, shift)]++;
        starts_of(bins);
        for (size_t i = 0; i < n; i++) to[bins[digit_of(from[i].key, shift)]++] = from[i];
        cdz_ranked *const t = from;
        from = to;
        to = t;
    }
    if (from != a) memcpy(a, from, n * sizeof *a);
}

bool cdz_order_distinct(cdz_ranked *a, cdz_ranked *spare, size_t n)
{
    if (n < RADIX_FROM)
        cdz_order_sort(a, n);
    else
        radix(a, spare, n);
    for (size_t i = 1; i < n; i++)
        if (a[i - 1].key == a[i].key) return true;
    return false;
}

void cdz_order_radix_keys(uint32_t *a, uint32_t *spare, size_t n)
{
    uint32_t bins[BINS];
    uint32_t *from = a, *to = spare;

    for (unsigned digit = 0; digit < DIGITS; digit++) {
        const unsigned shift = digit * DIGIT_BITS;
        memset(bins, 0, sizeof bins);
        for (size_t i = 0; i < n; i++) bins[digit_of(from[i], shift)]++;
        starts_of(bins);
        for (size_t i = 0; i < n; i++) to[bins[digit_of(from[i], shift)]++] = from[i];
        uint32_t *const t = from;
        from = to;
        to = t;
    }
    if (from != a && n > 0) memcpy(a, from, n * sizeof *a);
}

/* Fixes the key from its high digit down: in each pass only elements that share the digits found so far count. */
uint32_t cdz_order_kth_largest(const float *x, size_t n, size_t k)
{
    uint32_t bins[BINS];
    uint32_t prefix = 0, known = 0; /* known: mask of the bits that are fixed */

    for (unsigned digit = DIGITS; digit-- > 0;) {
        const unsigned shift = digit * DIGIT_BITS;
        memset(bins, 0, sizeof bins);
        for (size_t i = 0; i < n; i++) {
            const uint32_t key = cdz_rank_up(x[i]);
            if ((key & known) == prefix) bins[digit_of(key, shift)]++;
        }
        uint32_t b = BINS - 1;
        while (bins[b] < k) k -= bins[b--];
        prefix |= b << shift;
        known |= (uint32_t)(BINS - 1) << shift;
    }
    return prefix;
}

void cdz_order_topk_ids(const float *x, size_t n, size_t k, size_t n_found, cdz_ranked *a,
                        int32_t *ids)
{
    if (n_found != k || cdz_order_distinct(a, a + n, k)) {
        for (size_t i = 0; i < n; i++) a[i] = (cdz_ranked){cdz_rank_down(x[i]), (int32_t)i};
        cdz_order_topk(a, n, k);
    }
    for (size_t i = 0; i < k; i++) ids[i] = a[i].id;
}
