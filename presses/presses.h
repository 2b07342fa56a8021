/* presses.h - what the presses share: the parameter that all of them have, rows of views, and sorting. */
#ifndef CADENZA_PRESSES_PRESSES_H
#define CADENZA_PRESSES_PRESSES_H

#include <math.h>
#include <stdlib.h>

#include <cadenza/press.h>

#define COMPRESSION_RATIO(T)                                                                       \
    CDZ_OPT_REAL(T, compression_ratio, CDZ_GENERATION | CDZ_BELOW_MAX, 0, 1,                       \
                 "the share of the cache that goes; 0.5: half of it")

/* Query heads that read one KV head. */
static inline uint32_t heads_a_group(const cdz_press_view *view)
{
    return view->n_kv_heads ? view->n_heads / view->n_kv_heads : 1;
}

static inline void want_ratio(cdz_press_needs *out, const cdz_opt_real *ratio)
{
    if (ratio->set) out->ratio = ratio->value;
}

/* Row (g, i) of an array (G, n, d). */
static inline const float *entry_of(const cdz_press_view *view, const float *array, uint32_t g,
                                    uint32_t i)
{
    return array + ((size_t)g * view->n + i) * view->head_dim;
}

static inline float *scores_of(const cdz_press_view *view, const cdz_press_choice *choice,
                               uint32_t g)
{
    return choice->scores + (size_t)g * view->n;
}

static inline uint32_t position_of(const cdz_press_view *view, uint32_t g, uint32_t i)
{
    return view->positions[(size_t)g * view->n + i];
}

static inline float dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

/* max(1, int(n (1 - ratio))), in doubles. */
static inline uint32_t left_of(double n, double ratio)
{
    const double left = floor(n * (1.0 - ratio));
    return left < 1 ? 1 : (uint32_t)left;
}

/* The largest of all heads' scores, from an entry's number on that each head has. */
static inline float largest_score(const cdz_press_view *view, const cdz_press_choice *choice)
{
    float most = -INFINITY;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++)
            most = fmaxf(most, scores_of(view, choice, g)[i]);
    return most;
}

/* Entries in the order of their worth. */
typedef struct worth {
    float score;
    uint32_t head, at;
} worth;

/* By falling score, the lower position first among equals: as the host chooses. */
static inline int by_worth(const void *a, const void *b)
{
    const worth *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->head < y->head ? -1 : x->head > y->head;
}

#endif
