/* critical.h - scores times what an entry's value adds to the layer's output. */
#ifndef CADENZA_PRESSES_CRITICAL_H
#define CADENZA_PRESSES_CRITICAL_H

#include "presses.h"

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
