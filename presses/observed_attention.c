/* observed_attention.c - positions stay that got most attention from all queries after them (H2O). Zhang et al. 2023. */
#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
} settings;

static const cdz_param params[] = {COMPRESSION_RATIO(settings)};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_SUMS;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const uint32_t group = heads_a_group(view);
    (void)step;
    for (uint32_t h = 0; h < view->n_heads; h++)
        for (uint32_t i = 0; i < view->counts[h / group]; i++)
            scores_of(view, choice, h / group)[i] +=
                view->sums[(size_t)h * view->n + i] / (float)group;
    return CDZ_OK;
}

static const cdz_press observed_attention = {
    .base = {CDZ_PRESS_BASE, .id = "observed_attention", .version = "1.0.0",
             .summary = "Keep what got most attention so far", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&observed_attention.base)
