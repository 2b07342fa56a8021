/* snapkv.c - what the prompt's last queries look at stays, and so do they. Li et al. 2024. */
#include "window.h"

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t window_size, kernel_size;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    WINDOW_PARAMS(settings),
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

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    return score_by_window(step, view, choice, (uint32_t)p->window_size, (uint32_t)p->kernel_size);
}

static const cdz_press snapkv = {
    .base = {CDZ_PRESS_BASE, .id = "snapkv", .version = "1.0.0",
             .summary = "Keep what the prompt's last queries look at", CDZ_PARAMS(settings, params)},
    .create = create,
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&snapkv.base)
