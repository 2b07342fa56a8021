/* adakv.c - heads share what stays: one that the scores of the press before favour keeps more. Feng et al. 2024. */
#include "safeguard.h"

typedef struct {
    double alpha_safeguard;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, alpha_safeguard, 0.2, 0.0, 1.0,
             "the share of what it would keep by itself that a head keeps at least"),
};

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    budgets b;
    if (!make_budgets(step, view, &b))
        return cdz_fail(step, CDZ_E_NOMEM, "out of memory for budgets");
    share_out(view, choice, p->alpha_safeguard, &b);
    for (uint32_t g = 0; g < view->n_kv_heads; g++) choice->counts[g] = b.left[g];
    return CDZ_OK;
}

static const cdz_press adakv = {
    .base = {CDZ_PRESS_BASE, .id = "adakv", .version = "1.0.0",
             .summary = "Let heads share what stays, by the scores of the press before",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_PRESS_WRAPS,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&adakv.base)
