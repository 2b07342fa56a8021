/* expected_attention.c - what the queries to come will look at stays, as far as the prompt's queries tell. Devoto et al. 2025.
 *
 * Queries of a head are taken for normally distributed. Mean and covariance before rotation are turned by the mean rotation of
 * the positions to come; a key's expected weight is then exp(mean k / sqrt(d) + k C k / 2d). */
#include <string.h>

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

/* k C k of a symmetric C: what lies above its diagonal counts twice. row: room for d sums, to which four rows of C are added at once. */
static double spread_of(const float *c, const float *key, uint32_t d, float *restrict row)
{
    double sum = 0;
    memset(row, 0, d * sizeof *row);
    for (uint32_t i = 0; i < d; i += 4) {
        const uint32_t end = i + 4 < d ? i + 4 : d;
        const float *own = c + (size_t)i * d;
        for (uint32_t a = i; a < end; a++)
            for (uint32_t j = a + 1; j < end; j++) row[j] += key[a] * c[(size_t)a * d + j];
        for (uint32_t j = end; j < d; j++)
            row[j] += key[i] * own[j] + key[i + 1] * own[d + j] + key[i + 2] * own[2 * d + j] +
                      key[i + 3] * own[3 * d + j];
    }
    for (uint32_t i = 0; i < d; i++)
        sum += (double)key[i] * (double)(c[(size_t)i * d + i] * key[i] + 2 * row[i]);
    return sum;
}

/* Weights of a query head over the entries from the sinks on, added to the scores of its kv head. */
static void add_head(const cdz_step *step, const cdz_press_view *view, uint32_t g, const float *mean,
                     const float *covariance, float share, float *row, float *z, float *scores)
{
    const settings *p = step->params;
    const uint32_t n = view->counts[g], d = view->head_dim, sinks = (uint32_t)p->n_sink;
    const double root = sqrt(d);
    float most = -INFINITY;
    double sum = 0;
    for (uint32_t i = sinks; i < n; i++) {
        const float *key = entry_of(view, view->keys, g, i);
        double value = (double)dot(mean, key, d) / root;
        if (p->use_covariance) value += spread_of(covariance, key, d, row) / d / 2;
        z[i] = (float)value;
        most = fmaxf(most, z[i]);
    }
    for (uint32_t i = sinks; i < n; i++) sum += (double)(z[i] = expf(z[i] - most));
    for (uint32_t i = sinks; i < n; i++) scores[i] += share * (float)((double)z[i] / sum);
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
    const uint32_t d = view->head_dim, group = heads_a_group(view);
    rotation r;
    float *mean = cdz_scratch(step, d * sizeof *mean),
          *covariance = cdz_scratch(step, (size_t)d * d * sizeof *covariance),
          *row = cdz_scratch(step, d * sizeof *row), *z = cdz_scratch(step, view->n * sizeof *z);
    if (!mean || !covariance || !row || !z ||
        !find_rotation(step, view, (uint32_t)p->n_future_positions, &r))
        return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a head's queries");
    for (uint32_t h = 0; h < view->n_heads; h++) {
        memcpy(mean, view->mean + (size_t)h * d, d * sizeof *mean);
        memcpy(covariance, view->covariance + (size_t)h * d * d, (size_t)d * d * sizeof *covariance);
        turn(view, &r, mean, 1);
        turn_matrix(view, &r, covariance);
        add_head(step, view, h / group, mean, covariance, 1.0f / (float)group, row, z,
                 scores_of(view, choice, h / group));
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
