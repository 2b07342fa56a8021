/* tova.c - what the newest query looks at stays, all heads together. Oren et al. 2024. */
#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
} settings;

static const cdz_param params[] = {COMPRESSION_RATIO(settings)};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_ATTENTION;
    out->window = 1;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* By position, since heads may hold different ones. */
static void add_heads(const cdz_press_view *view, float *mean)
{
    const uint32_t group = heads_a_group(view);
    for (uint32_t h = 0; h < view->n_heads; h++) {
        const size_t newest = (size_t)h * view->n_queries + view->n_queries - 1;
        const float *row = view->attention + newest * view->n;
        for (uint32_t i = 0; i < view->counts[h / group]; i++)
            mean[position_of(view, h / group, i)] += row[i] / (float)view->n_heads;
    }
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    float *mean = cdz_scratch(step, view->seen * sizeof *mean), most = 0;
    if (!mean) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a layer's scores");
    for (uint32_t p = 0; p < view->seen; p++) mean[p] = 0.0f;
    add_heads(view, mean);
    for (uint32_t p = 0; p + 1 < view->seen; p++) most = fmaxf(most, mean[p]);
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++) {
            const bool newest = i + 1 == view->counts[g];
            scores_of(view, choice, g)[i] = newest ? most + 1 : mean[position_of(view, g, i)];
        }
    return CDZ_OK;
}

static const cdz_press tova = {
    .base = {CDZ_PRESS_BASE, .id = "tova", .version = "1.0.0",
             .summary = "Keep what the newest query looks at", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&tova.base)
