/* critical_adakv.c - adakv's budgets; within a head some are chosen by score, the others by what their values add as well.
 * Feng et al. 2025. */
#include <float.h>

#include "critical.h"
#include "safeguard.h"

typedef struct {
    double alpha_safeguard, epsilon, first_stage_ratio;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, alpha_safeguard, 0.2, 0.0, 1.0,
             "the share of what it would keep by itself that a head keeps at least"),
    CRITICAL_PARAMS(settings, "a head's budget"),
};

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    budgets b;
    if (!make_budgets(step, view, &b))
        return cdz_fail(step, CDZ_E_NOMEM, "out of memory for budgets");
    share_out(view, choice, p->alpha_safeguard, &b);
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const uint32_t first = (uint32_t)(b.left[g] * p->first_stage_ratio);
        sort_head(view, choice, g, b.head);
        weigh_outputs(view, choice, g, p->epsilon);
        for (uint32_t i = 0; i < view->counts[g] && (i < first || i < b.safe[g]); i++)
            scores_of(view, choice, g)[b.head[i].at] = FLT_MAX;
        choice->counts[g] = b.left[g];
    }
    return CDZ_OK;
}

static const cdz_press critical_adakv = {
    .base = {CDZ_PRESS_BASE, .id = "critical_adakv", .version = "1.0.0",
             .summary = "As adakv, and values count as well", CDZ_PARAMS(settings, params)},
    .caps = CDZ_PRESS_WRAPS,
    .needs = needs_output,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&critical_adakv.base)
