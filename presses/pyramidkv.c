/* pyramidkv.c - snapkv's scores; the first layers keep more, the last ones less. Cai et al. 2024. */
#include "window.h"

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t window_size, kernel_size, beta;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    WINDOW_PARAMS(settings),
    CDZ_INT(settings, beta, 20, 1, 1e6, "how steep: the last layer keeps a share of 1 / beta"),
};

/* [load] */
static cdz_status create(const cdz_step *step)
{
    const settings *p = step->params;
    return check_kernel(step, p->kernel_size);
}

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    return want_window(out, p->window_size, &p->compression_ratio);
}

/* How many of n entries a layer keeps: along a line from the first layer to the last, where its ends fit. */
static uint32_t budget(const settings *p, const cdz_press_view *view, double n)
{
    const double w = (double)p->window_size, all = n * (1 - view->ratio), mean = (w + all) - w;
    double least = mean / (double)p->beta, most = 2 * mean - least, left;
    if (most >= n - w) {
        most = n - w;
        least = 2 * mean - most;
    }
    if (n >= most && most >= least && least >= w)
        left = view->n_layers > 1
                   ? nearbyint(most - view->layer * ((most - least) / (view->n_layers - 1)))
                   : nearbyint(most);
    else
        left = nearbyint(all);
    return left < 1 ? 1 : (uint32_t)left;
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    for (uint32_t g = 0; g < view->n_kv_heads && !view->decoding; g++) {
        const uint32_t n = budget(p, view, view->counts[g]);
        choice->counts[g] = n < view->counts[g] ? n : view->counts[g];
    }
    return score_by_window(step, view, choice, (uint32_t)p->window_size, (uint32_t)p->kernel_size);
}

static const cdz_press pyramidkv = {
    .base = {CDZ_PRESS_BASE, .id = "pyramidkv", .version = "1.0.0",
             .summary = "As snapkv, and the first layers keep more than the last",
             CDZ_PARAMS(settings, params)},
    .create = create,
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&pyramidkv.base)
