/* ext/vec.h - "cadenza.vec/1": bulk operations on score rows, the ones the built-in processors and Lua use.
 *
 * const cdz_vec *vec = cdz_get_vec(step);          NULL only on a host without the extension
 * vec->div(row, n, temperature);
 *
 * Semantics. IEEE float32, in place where a pointer is called x. Every + - * / rounds on its own. Sums run in 8
 * lanes (element i to lane i mod 8), lanes added as halves, pairs, neighbours: the reference's order. exp is one
 * routine for all machines, so the bits do not depend on the instruction set. Comparisons with NaN are false.
 * Sorting and top-k order ties as the reference does (libstdc++'s sort, as torch on a CPU), not lowest id first; argmax
 * gives the lowest id of ties, and the first NaN before everything.
 * scratch: at least cdz_vec_scratch(n) bytes, 64-byte aligned, from cdz_scratch. Thread: [any]; no allocation. */
#ifndef CADENZA_EXT_VEC_H
#define CADENZA_EXT_VEC_H

#include "../plugin.h"

#define CDZ_EXT_VEC "cadenza.vec/1"

static inline size_t cdz_vec_scratch(size_t n)
{
    return 24 * n + 8192;
}

typedef struct cdz_vec {
    uint32_t size;

    /* elementwise, in place on x[n] */
    void (*fill)(float *x, size_t n, float a);
    void (*add)(float *x, size_t n, float a);
    void (*mul)(float *x, size_t n, float a);
    void (*div)(float *x, size_t n, float a); /* true division, as torch's scores / t */
    void (*clamp)(float *x, size_t n, float lo, float hi);
    void (*exp)(float *x, size_t n);
    void (*log)(float *x, size_t n);
    void (*abs)(float *x, size_t n);
    void (*pow)(float *x, size_t n, float a);
    void (*add_v)(float *x, const float *v, size_t n);
    void (*sub_v)(float *x, const float *v, size_t n);
    void (*mul_v)(float *x, const float *v, size_t n);
    void (*div_v)(float *x, const float *v, size_t n);
    void (*max_v)(float *x, const float *v, size_t n);
    void (*min_v)(float *x, const float *v, size_t n);
    void (*axpy)(float *x, const float *v, size_t n, float a); /* x += a * v (two roundings) */
    void (*lerp)(float *x, const float *v, size_t n, float t); /* x += t * (v - x) */

    /* masks: -inf in place */
    void (*mask_below)(float *x, size_t n, float t); /* where x < t */
    void (*mask_ids)(float *x, size_t n, const int32_t *ids,
                     size_t n_ids); /* ids outside [0, n) are ignored */
    void (*mask_except)(float *x, size_t n, const int32_t *ids, size_t n_ids, void *scratch);

    /* reductions */
    float (*max)(const float *x, size_t n);
    float (*min)(const float *x, size_t n);
    int32_t (*argmax)(const float *x, size_t n);
    float (*sum)(const float *x, size_t n);
    float (*dot)(const float *x, const float *y, size_t n);
    float (*logsumexp)(const float *x, size_t n);
    float (*entropy)(const float *x, size_t n); /* of softmax(x), natural log; skips p = 0 */
    size_t (*count_above)(const float *x, size_t n, float t);
    bool (*any_nan)(const float *x, size_t n);

    /* distributions */
    void (*softmax)(float *out, const float *x, size_t n);     /* out may be x */
    void (*log_softmax)(float *out, const float *x, size_t n); /* out may be x */
    void (*cumsum)(float *out, const float *x, size_t n); /* double inside, each rounded to float */
    /* torch.topk(x, k): k ids and values, descending. k <= n. */
    void (*topk)(const float *x, size_t n, size_t k, float *values, int32_t *ids, void *scratch);
    /* torch.sort(x, descending): the whole permutation. values and ids: n each. */
    void (*sort)(const float *x, size_t n, bool descending, float *values, int32_t *ids,
                 void *scratch);
    float (*kth_largest)(const float *x, size_t n, size_t k, void *scratch); /* k from 1 */
    /* The filters of transformers' warpers, in place; keep is min_tokens_to_keep. */
    void (*keep_topk)(float *x, size_t n, size_t k, void *scratch); /* ties with the k-th survive */
    void (*keep_topp)(float *x, size_t n, double p, size_t keep, void *scratch);
    void (*keep_minp)(float *x, size_t n, double p, size_t keep, void *scratch);
    void (*keep_typical)(float *x, size_t n, double mass, size_t keep, void *scratch);
    void (*keep_epsilon)(float *x, size_t n, double e, size_t keep, void *scratch);
    void (*keep_eta)(float *x, size_t n, double e, size_t keep, void *scratch);

    /* history */
    /* s < 0 ? s * p : s / p once per distinct id; ids outside [0, n) are ignored. */
    void (*penalize)(float *x, size_t n, const int32_t *ids, size_t n_ids, float p, void *scratch);
    /* Masks every id that would complete an n-gram of size g already in ids. */
    void (*ban_ngrams)(float *x, size_t n, const int32_t *ids, size_t n_ids, size_t g);
} cdz_vec;

static inline const cdz_vec *cdz_get_vec(const cdz_step *step)
{
    return (const cdz_vec *)step->host->extension(CDZ_EXT_VEC);
}

#endif
