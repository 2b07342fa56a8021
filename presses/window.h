/* window.h - what the newest queries look at: snapkv's scores, which pyramidkv has too. */
#ifndef CADENZA_PRESSES_WINDOW_H
#define CADENZA_PRESSES_WINDOW_H

#include "presses.h"

/* Of a struct that has both as int64_t. */
#define WINDOW_PARAMS(T)                                                                           \
    CDZ_INT(T, window_size, 64, 1, 4096, "queries that are asked, the latest"),                    \
        CDZ_INT(T, kernel_size, 5, 1, 1023, "positions that scores are averaged over; odd")

/* mean[i]: of what the queries of a head's group give to entry i of the first n, added up row by row; sum: room for it. */
static inline void mean_attention(const cdz_press_view *view, uint32_t h, uint32_t n, double *sum,
                                  float *mean)
{
    const float *row = view->attention + (size_t)h * view->n_queries * view->n;
    for (uint32_t i = 0; i < n; i++) sum[i] = 0;
    for (uint32_t q = 0; q < view->n_queries; q++, row += view->n)
        for (uint32_t i = 0; i < n; i++) sum[i] += (double)row[i];
    for (uint32_t i = 0; i < n; i++) mean[i] = (float)(sum[i] / view->n_queries);
}

/* Adds a moving average, `kernel` wide, that takes what lies outside for 0. */
static inline void add_pooled(const float *mean, uint32_t n, uint32_t kernel, float share,
                              float *out)
{
    const int64_t half = kernel / 2;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = i - half; j <= i + half; j++)
            if (j >= 0 && j < n) sum += (double)mean[j];
        out[i] += share * (float)(sum / kernel);
    }
}

/* The window itself stays. */
static inline void keep_window(const cdz_press_view *view, const cdz_press_choice *choice,
                               uint32_t window)
{
    const float most = largest_score(view, choice) + 1.0f;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < window; i++)
            scores_of(view, choice, g)[view->counts[g] - 1 - i] = most;
}

static inline cdz_status score_by_window(const cdz_step *step, const cdz_press_view *view,
                                         const cdz_press_choice *choice, uint32_t window,
                                         uint32_t kernel)
{
    const uint32_t group = heads_a_group(view);
    float *mean = cdz_scratch(step, view->n * sizeof *mean);
    double *sum = cdz_scratch(step, view->n * sizeof *sum);
    if (!mean || !sum) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a layer's scores");
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const uint32_t n = view->counts[g];
        if (n <= window)
            return cdz_fail(step, CDZ_E_INPUT,
                            "there are %u positions to press, expected more than window_size, which "
                            "is %u",
                            n, window);
        for (uint32_t h = g * group; h < (g + 1) * group; h++) {
            mean_attention(view, h, n - window, sum, mean);
            add_pooled(mean, n - window, kernel, 1.0f / (float)group, scores_of(view, choice, g));
        }
    }
    keep_window(view, choice, window);
    return CDZ_OK;
}

/* An even kernel has no middle. */
static inline cdz_status check_kernel(const cdz_step *step, int64_t kernel)
{
    if (kernel % 2) return CDZ_OK;
    return cdz_fail(step, CDZ_E_USAGE, "kernel_size is %lld, expected an odd number",
                    (long long)kernel);
}

static inline cdz_status want_window(cdz_press_needs *out, int64_t window, const cdz_opt_real *ratio)
{
    out->what = CDZ_PRESS_ATTENTION;
    out->window = (uint32_t)window;
    want_ratio(out, ratio);
    return CDZ_OK;
}

#endif
