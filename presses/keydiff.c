/* keydiff.c - keys that differ most from the mean direction of all stay. Park et al. 2025. */
#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
} settings;

static const cdz_param params[] = {COMPRESSION_RATIO(settings)};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_KEYS;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

static double norm_of(const float *x, uint32_t n, double least)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return fmax(sqrt(sum), least);
}

/* The mean of a head's keys, each of length one. */
static void find_anchor(const cdz_press_view *view, uint32_t g, float *anchor)
{
    const uint32_t n = view->counts[g];
    for (uint32_t d = 0; d < view->head_dim; d++) anchor[d] = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        const float *key = entry_of(view, view->keys, g, i);
        const double length = norm_of(key, view->head_dim, 1e-12);
        for (uint32_t d = 0; d < view->head_dim; d++)
            anchor[d] += (float)((double)key[d] / length / n);
    }
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    float *anchor = cdz_scratch(step, view->head_dim * sizeof *anchor);
    if (!anchor) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a mean key");
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        find_anchor(view, g, anchor);
        const double length = norm_of(anchor, view->head_dim, 1e-8);
        for (uint32_t i = 0; i < view->counts[g]; i++) {
            const float *key = entry_of(view, view->keys, g, i);
            const double product = (double)dot(key, anchor, view->head_dim);
            scores_of(view, choice, g)[i] =
                (float)(-product / (norm_of(key, view->head_dim, 1e-8) * length));
        }
    }
    return CDZ_OK;
}

static const cdz_press keydiff = {
    .base = {CDZ_PRESS_BASE, .id = "keydiff", .version = "1.0.0",
             .summary = "Keep positions whose keys are unlike the others",
             CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&keydiff.base)
