/* simlayerkv.c - a layer that looks at the first and the latest positions alone keeps these alone. Zhang et al. 2024. */
#include "presses.h"

typedef struct {
    double lazy_threshold;
    int64_t n_last, n_recent, n_initial;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, lazy_threshold, 1.0, 0.0, 1.0,
             "a layer is lazy whose last queries give more than this to those positions; 1: none is"),
    CDZ_INT(settings, n_last, 1, 1, 4096, "queries that are asked, the latest"),
    CDZ_INT(settings, n_recent, 1024, 1, 1e6, "latest positions that a lazy layer keeps"),
    CDZ_INT(settings, n_initial, 4, 0, 1e6, "first positions that a lazy layer keeps"),
};

/* [load] */
static cdz_status create(const cdz_step *step)
{
    const settings *p = step->params;
    if (p->n_recent > p->n_last) return CDZ_OK;
    return cdz_fail(step, CDZ_E_USAGE, "n_recent is %lld, expected more than n_last, which is %lld",
                    (long long)p->n_recent, (long long)p->n_last);
}

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_ATTENTION;
    out->window = (uint32_t)p->n_last;
    out->free_count = true;
    return CDZ_OK;
}

/* What the last queries give to the first positions and the latest before them, on average. */
static double laziness(const cdz_press_view *view, const settings *p, uint32_t n)
{
    const uint32_t end = n - (uint32_t)p->n_last;
    double sum = 0;
    for (uint32_t h = 0; h < view->n_heads; h++)
        for (uint32_t q = view->n_queries - (uint32_t)p->n_last; q < view->n_queries; q++) {
            const float *row = view->attention + ((size_t)h * view->n_queries + q) * view->n;
            for (uint32_t i = 0; i < end; i++)
                if (i < p->n_initial || i >= end - p->n_recent) sum += (double)row[i];
        }
    return sum / ((double)view->n_heads * (double)p->n_last);
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    const uint32_t n = view->counts[0];
    bool lazy = p->lazy_threshold < 1 && view->n_queries >= p->n_last &&
                n > p->n_initial + p->n_recent + p->n_last;
    for (uint32_t g = 0; g < view->n_kv_heads; g++) lazy = lazy && view->counts[g] == n;
    lazy = lazy && laziness(view, p, n) > p->lazy_threshold;
    const uint32_t late = (uint32_t)(p->n_recent - p->n_last);
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        choice->counts[g] = lazy ? (uint32_t)p->n_initial + late : view->counts[g];
        for (uint32_t i = 0; i < view->counts[g]; i++)
            scores_of(view, choice, g)[i] = i < p->n_initial || i >= n - late ? 1.0f : 0.0f;
    }
    return CDZ_OK;
}

static const cdz_press simlayerkv = {
    .base = {CDZ_PRESS_BASE, .id = "simlayerkv", .version = "1.0.0",
             .summary = "Keep the first and the latest positions of layers that look at no others",
             CDZ_PARAMS(settings, params)},
    .create = create,
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&simlayerkv.base)
