/* knorm.c - keys of small norm stay: queries look at those most. Devoto et al. 2024. */
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

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    (void)step;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++) {
            const float *key = entry_of(view, view->keys, g, i);
            scores_of(view, choice, g)[i] = -sqrtf(dot(key, key, view->head_dim));
        }
    return CDZ_OK;
}

static const cdz_press knorm = {
    .base = {CDZ_PRESS_BASE, .id = "knorm", .version = "1.0.0",
             .summary = "Keep positions whose keys are small", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&knorm.base)
