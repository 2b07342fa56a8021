/* my_press.c - what has small keys stays, and the newest positions stay whatever their keys are. */
#include <cadenza/press.h>

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t newest;
} settings;

static const cdz_param params[] = {
    CDZ_OPT_REAL(settings, compression_ratio, CDZ_GENERATION | CDZ_BELOW_MAX, 0, 1,
                 "the share of the cache that goes"),
    CDZ_INT(settings, newest, 4, 0, 4096, "positions at the end that stay"),
};

/* [engine] Asked once a request: what costs nothing to show need not be asked for. */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;

    out->what = CDZ_PRESS_KEYS;
    if (p->compression_ratio.set) out->ratio = p->compression_ratio.value;
    return CDZ_OK;
}

/* The negative square of a key's length. */
static float score_of(const float *key, uint32_t n)
{
    float sum = 0;

    for (uint32_t i = 0; i < n; i++) sum -= key[i] * key[i];
    return sum;
}

/* [engine] Of each layer: a score for each entry of each head. The host keeps the best, as many as the ratio leaves. */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;

    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < view->counts[g]; i++) {
            const size_t at = (size_t)g * view->n + i;
            const int is_new = view->counts[g] - i <= p->newest;
            choice->scores[at] =
                is_new ? 1.0f : score_of(view->keys + at * view->head_dim, view->head_dim);
        }
    return CDZ_OK;
}

static const cdz_press my_press = {
    .base = {CDZ_PRESS_BASE, .id = "org.example.my-press", .version = "0.1.0",
             .summary = "Keep small keys and the newest positions", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&my_press.base)
