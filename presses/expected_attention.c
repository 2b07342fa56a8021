/* expected_attention.c - what the queries to come will look at stays, as far as the prompt's queries tell. Devoto et al. 2025.
 *
 * Queries of a head are taken for normally distributed. Mean and covariance before rotation are turned by the mean rotation of
 * the positions to come; a key's expected weight is then exp(mean k / sqrt(d) + k C k / 2d). */
#include <string.h>

#include <cadenza/ext/vec.h>

#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t n_future_positions, n_sink;
    bool use_covariance, use_vnorm;
    double epsilon;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    CDZ_INT(settings, n_future_positions, 512, 1, 1e6, "positions to come that count"),
    CDZ_INT(settings, n_sink, 4, 0, 1e6, "positions at the beginning that stay, and do not count"),
    CDZ_BOOL(settings, use_covariance, true, "take queries for spread, not for their mean alone"),
    CDZ_BOOL(settings, use_vnorm, true, "weights times the length of the value"),
    CDZ_REAL(settings, epsilon, 0.0, 0.0, 1e6, "added to a weight before that"),
};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_KEYS | CDZ_PRESS_MOMENTS | (p->use_vnorm ? CDZ_PRESS_VALUES : 0);
    out->skip = (uint32_t)p->n_sink;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* The mean rotation: of each pair a cosine and a sine. */
typedef struct rotation {
    float *cosine, *sine;
    uint32_t half;
} rotation;

static bool find_rotation(const cdz_step *step, const cdz_press_view *view, uint32_t n,
                          rotation *out)
{
    const uint32_t half = view->n_rotated / 2, first = view->length;
    *out = (rotation){.half = half};
    out->cosine = cdz_scratch(step, (half + 1) * sizeof *out->cosine);
    out->sine = cdz_scratch(step, (half + 1) * sizeof *out->sine);
    if (!out->cosine || !out->sine) return false;
    for (uint32_t i = 0; i < half; i++) {
        double c = 0, s = 0;
        for (uint32_t p = first; p < first + n; p++) {
            const float angle = (float)p * view->inv_freq[i];
            c += (double)(cosf(angle) * view->rope_scale);
            s += (double)(sinf(angle) * view->rope_scale);
        }
        out->cosine[i] = (float)(c / n);
        out->sine[i] = (float)(s / n);
    }
    return true;
}

/* In place; step floats between the numbers of x. */
static void turn(const cdz_press_view *view, const rotation *r, float *x, size_t step)
{
    for (uint32_t i = 0; i < r->half; i++) {
        float *a = x + step * (view->interleaved ? 2 * i : i),
              *b = x + step * (view->interleaved ? 2 * i + 1 : i + r->half);
        const float was = *a;
        *a = was * r->cosine[i] - *b * r->sine[i];
        *b = *b * r->cosine[i] + was * r->sine[i];
    }
}

/* R C R^T: rows, then columns. */
static void turn_matrix(const cdz_press_view *view, const rotation *r, float *c)
{
    const uint32_t d = view->head_dim;
    for (uint32_t i = 0; i < d; i++) turn(view, r, c + i, d);
    for (uint32_t i = 0; i < d; i++) turn(view, r, c + (size_t)i * d, 1);
}

/* The query heads of a KV head, turned. */
typedef struct queries {
    float *mean, *covariance; /* (n, d), (n, d, d); no covariance: no spread */
    uint32_t n;
} queries;

static void turn_queries(const cdz_press_view *view, const rotation *r, uint32_t g, const queries *q)
{
    const size_t d = view->head_dim, first = (size_t)g * q->n;
    memcpy(q->mean, view->mean + first * d, q->n * d * sizeof(float));
    for (uint32_t h = 0; h < q->n; h++) turn(view, r, q->mean + h * d, 1);
    if (!q->covariance) return;
    memcpy(q->covariance, view->covariance + first * d * d, q->n * d * d * sizeof(float));
    for (uint32_t h = 0; h < q->n; h++) turn_matrix(view, r, q->covariance + h * d * d);
}

/* Entries that are weighed at once, and from one number of their keys to the next: apart from a power of two, which would put
 * them into few sets of the processor's cache. */
enum { BLOCK = 512, STRIDE = BLOCK + 16 };

/* out (d, STRIDE): of n entries from `first` on, each number of their keys behind one another. */
static void transpose_keys(const cdz_press_view *view, uint32_t g, uint32_t first, uint32_t n,
                           float *out)
{
    const uint32_t d = view->head_dim;
    for (uint32_t e = 0; e < n; e++) {
        const float *key = entry_of(view, view->keys, g, first + e);
        for (uint32_t i = 0; i < d; i++) out[(size_t)i * STRIDE + e] = key[i];
    }
}

/* z: mean k / sqrt(d) + k C k / 2d of n entries. Above its diagonal a number of C, which is symmetric, counts twice.
 * sum: room for n. */
static void weigh(const cdz_vec *vec, const float *mean, const float *covariance, uint32_t d,
                  const float *keys, uint32_t n, float *sum, float *z)
{
    const float root = (float)sqrt(d);
    vec->fill(z, n, 0);
    for (uint32_t i = 0; i < d; i++) {
        const float *own = keys + (size_t)i * STRIDE,
                    *c = covariance ? covariance + (size_t)i * d : NULL;
        vec->fill(sum, n, mean[i] / root);
        if (c) vec->axpy(sum, own, n, c[i] / (float)d / 2);
        for (uint32_t j = i + 1; c && j < d; j++)
            vec->axpy(sum, keys + (size_t)j * STRIDE, n, c[j] / (float)d);
        vec->mul_v(sum, own, n);
        vec->add_v(z, sum, n);
    }
}

/* What each KV head is weighed in. */
typedef struct room {
    float *keys, *sum, *z; /* (d, STRIDE), (BLOCK), (query heads, n) */
} room;

/* Adds to the scores from the sinks on the mean of the heads' weights. */
static void score_head(const cdz_step *step, const cdz_press_view *view, uint32_t g,
                       const queries *q, const room *in, float *scores)
{
    const settings *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);
    const uint32_t d = view->head_dim, sinks = (uint32_t)p->n_sink, n = view->counts[g] - sinks;
    for (uint32_t at = 0; at < n; at += BLOCK) {
        const uint32_t some = n - at < BLOCK ? n - at : BLOCK;
        transpose_keys(view, g, sinks + at, some, in->keys);
        for (size_t h = 0; h < q->n; h++)
            weigh(vec, q->mean + h * d, q->covariance ? q->covariance + h * d * d : NULL, d,
                  in->keys, some, in->sum, in->z + h * n + at);
    }
    for (size_t h = 0; h < q->n; h++) {
        vec->softmax(in->z + h * n, in->z + h * n, n);
        vec->axpy(scores + sinks, in->z + h * n, n, 1.0f / (float)q->n);
    }
}

static void weigh_values(const cdz_press_view *view, const settings *p, uint32_t g, float *scores)
{
    for (uint32_t i = (uint32_t)p->n_sink; i < view->counts[g]; i++) {
        const float *value = entry_of(view, view->values, g, i);
        scores[i] = (scores[i] + (float)p->epsilon) * sqrtf(dot(value, value, view->head_dim));
    }
}

/* Behind the largest of all others. */
static void keep_sinks(const cdz_press_view *view, const settings *p, const cdz_press_choice *choice)
{
    float most = -INFINITY;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = (uint32_t)p->n_sink; i < view->counts[g]; i++)
            most = fmaxf(most, scores_of(view, choice, g)[i]);
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < p->n_sink; i++) scores_of(view, choice, g)[i] = most + 1;
}

static cdz_status score_heads(const cdz_step *step, const cdz_press_view *view,
                              const cdz_press_choice *choice)
{
    const settings *p = step->params;
    const size_t d = view->head_dim, n = heads_a_group(view);
    rotation r;
    const queries q = {
        .mean = cdz_scratch(step, n * d * sizeof(float)),
        .covariance = p->use_covariance ? cdz_scratch(step, n * d * d * sizeof(float)) : NULL,
        .n = (uint32_t)n,
    };
    const room in = {.keys = cdz_scratch(step, d * STRIDE * sizeof(float)),
                     .sum = cdz_scratch(step, BLOCK * sizeof(float)),
                     .z = cdz_scratch(step, n * view->n * sizeof(float))};
    if (!q.mean || (p->use_covariance && !q.covariance) || !in.keys || !in.sum || !in.z ||
        !find_rotation(step, view, (uint32_t)p->n_future_positions, &r))
        return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a head's queries");
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        turn_queries(view, &r, g, &q);
        score_head(step, view, g, &q, &in, scores_of(view, choice, g));
    }
    return CDZ_OK;
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        if (view->counts[g] <= p->n_sink)
            return cdz_fail(step, CDZ_E_INPUT,
                            "there are %u positions to press, expected more than n_sink, which is "
                            "%lld",
                            view->counts[g], (long long)p->n_sink);
    const cdz_status status = score_heads(step, view, choice);
    if (status != CDZ_OK) return status;
    for (uint32_t g = 0; g < view->n_kv_heads && p->use_vnorm; g++)
        weigh_values(view, p, g, scores_of(view, choice, g));
    keep_sinks(view, p, choice);
    return CDZ_OK;
}

static const cdz_press expected_attention = {
    .base = {CDZ_PRESS_BASE, .id = "expected_attention", .version = "1.0.0",
             .summary = "Keep what queries to come are expected to look at",
             CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&expected_attention.base)
