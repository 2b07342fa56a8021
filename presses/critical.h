/* critical.h - scores times what an entry's value adds to the layer's output. */
#ifndef CADENZA_PRESSES_CRITICAL_H
#define CADENZA_PRESSES_CRITICAL_H

#include "presses.h"

/* Of a struct that has both as doubles; share: of what the first stage's is. */
#define CRITICAL_PARAMS(T, share)                                                                  \
    CDZ_REAL(T, epsilon, 1e-4, 0.0, 1e6, "added to scores before values count"),                   \
        CDZ_REAL(T, first_stage_ratio, 0.5, 0.0, 1.0,                                              \
                 "the share of " share " that is chosen by score alone")

/* [engine] */
static inline cdz_status needs_output(const cdz_step *step, cdz_press_needs *out)
{
    (void)step;
    out->what = CDZ_PRESS_OUTPUT;
    return CDZ_OK;
}

static inline void weigh_outputs(const cdz_press_view *view, const cdz_press_choice *choice,
                                 uint32_t g, double epsilon)
{
    const uint32_t group = heads_a_group(view);
    float *scores = scores_of(view, choice, g);
    for (uint32_t i = 0; i < view->counts[g]; i++) {
        double mean = 0;
        for (uint32_t h = g * group; h < (g + 1) * group; h++)
            mean += (double)view->output[(size_t)h * view->n + i] / group;
        scores[i] = (float)(((double)scores[i] + epsilon) * mean);
    }
}

#endif
