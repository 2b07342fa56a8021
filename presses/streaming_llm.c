/* streaming_llm.c - the first positions stay, and the latest. Xiao et al. 2023. */
#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t n_sink;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    CDZ_INT(settings, n_sink, 4, 0, 1e6, "positions at the beginning that stay"),
};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* [engine] What goes lies behind the sinks. */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const uint32_t n = view->counts[g], gone = n - choice->counts[g];
        if (n <= p->n_sink)
            return cdz_fail(step, CDZ_E_INPUT,
                            "there are %u positions to press, expected more than n_sink, which is "
                            "%lld",
                            n, (long long)p->n_sink);
        for (uint32_t i = 0; i < n; i++)
            scores_of(view, choice, g)[i] = i < p->n_sink || i >= p->n_sink + gone ? 1.0f : 0.0f;
    }
    return CDZ_OK;
}

static const cdz_press streaming_llm = {
    .base = {CDZ_PRESS_BASE, .id = "streaming_llm", .version = "1.0.0",
             .summary = "Keep the first positions and the latest", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&streaming_llm.base)
