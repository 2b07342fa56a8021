/* criticalkv.c - some are chosen by the scores of the press before, the others by what their values add as well.
 * Feng et al. 2025. */
#include <float.h>

#include "critical.h"

typedef struct {
    double epsilon, first_stage_ratio;
} settings;

static const cdz_param params[] = {
    CRITICAL_PARAMS(settings, "what stays"),
};

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    worth *head = cdz_scratch(step, view->n * sizeof *head);
    if (!head) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a head's scores");
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const uint32_t n = view->counts[g];
        const uint32_t first = left_of(n * p->first_stage_ratio, view->ratio);
        for (uint32_t i = 0; i < n; i++) head[i] = (worth){scores_of(view, choice, g)[i], g, i};
        qsort(head, n, sizeof *head, by_worth);
        weigh_outputs(view, choice, g, p->epsilon);
        for (uint32_t i = 0; i < n && i < first; i++)
            scores_of(view, choice, g)[head[i].at] = FLT_MAX;
    }
    return CDZ_OK;
}

static const cdz_press criticalkv = {
    .base = {CDZ_PRESS_BASE, .id = "criticalkv", .version = "1.0.0",
             .summary = "Let values count beside the scores of the press before",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_PRESS_WRAPS,
    .needs = needs_output,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&criticalkv.base)
