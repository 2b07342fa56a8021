/* lagkv.c - a partition's positions stay that differ most from how the next partition is spread. Liang et al. 2025. */
#include "presses.h"

typedef struct {
    cdz_opt_real compression_ratio;
    int64_t n_sink, lag_size;
    bool cross_scoring;
} settings;

static const cdz_param params[] = {
    COMPRESSION_RATIO(settings),
    CDZ_INT(settings, n_sink, 4, 0, 1e6, "positions at the beginning that stay"),
    CDZ_INT(settings, lag_size, 128, 2, 1e6, "positions of a partition"),
    CDZ_BOOL(settings, cross_scoring, false,
             "compare scores of all partitions, not ranks within each"),
};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_KEYS | CDZ_PRESS_VALUES;
    want_ratio(out, &p->compression_ratio);
    return CDZ_OK;
}

/* Room for one partition. */
typedef struct bench {
    float *least, *most; /* (d) */
    float *spread;       /* (lag) */
    worth *ranks;        /* (lag) */
} bench;

static void find_range(const cdz_press_view *view, const float *array, uint32_t g, uint32_t first,
                       uint32_t lag, bench *b)
{
    for (uint32_t d = 0; d < view->head_dim; d++) {
        b->least[d] = INFINITY;
        b->most[d] = -INFINITY;
    }
    for (uint32_t i = first; i < first + lag; i++) {
        const float *x = entry_of(view, array, g, i);
        for (uint32_t d = 0; d < view->head_dim; d++) {
            b->least[d] = fminf(b->least[d], x[d]);
            b->most[d] = fmaxf(b->most[d], x[d]);
        }
    }
}

/* The standard deviation over dims of what x is within the range. */
static float deviation(const float *x, uint32_t n, const bench *b)
{
    double sum = 0, squares = 0;
    for (uint32_t d = 0; d < n; d++)
        sum += ((double)x[d] - (double)b->least[d]) / ((double)b->most[d] - (double)b->least[d]);
    for (uint32_t d = 0; d < n; d++) {
        const double u =
            ((double)x[d] - (double)b->least[d]) / ((double)b->most[d] - (double)b->least[d]);
        squares += (u - sum / n) * (u - sum / n);
    }
    return (float)sqrt(squares / (n - 1));
}

/* Adds half of the softmax of deviations to the partition's scores. */
static void add_half(const cdz_press_view *view, const float *array, uint32_t g, uint32_t first,
                     uint32_t lag, bench *b, float *scores)
{
    double sum = 0;
    float most = -INFINITY;
    find_range(view, array, g, first + lag, lag, b);
    for (uint32_t i = 0; i < lag; i++) {
        b->spread[i] = deviation(entry_of(view, array, g, first + i), view->head_dim, b);
        most = fmaxf(most, b->spread[i]);
    }
    for (uint32_t i = 0; i < lag; i++) sum += exp((double)b->spread[i] - (double)most);
    for (uint32_t i = 0; i < lag; i++)
        scores[i] += (float)(exp((double)b->spread[i] - (double)most) / sum / 2);
}

/* Scores become places within the partition, the worst 0. */
static void rank(uint32_t lag, bench *b, float *scores)
{
    for (uint32_t i = 0; i < lag; i++) b->ranks[i] = (worth){scores[i], 0, i};
    qsort(b->ranks, lag, sizeof *b->ranks, by_worth);
    for (uint32_t i = 0; i < lag; i++) scores[b->ranks[i].at] = (float)(lag - 1 - i) / (float)lag;
}

/* Too few for two partitions: the latest stay. */
static void score_short(uint32_t n, uint32_t sinks, float *scores)
{
    for (uint32_t i = 0; i < n; i++)
        scores[i] = i < sinks ? 1.0f : (float)(i - sinks) / (float)(n - sinks);
}

static void score_head(const cdz_press_view *view, const settings *p, uint32_t g, bench *b,
                       float *scores)
{
    const uint32_t n = view->counts[g], sinks = (uint32_t)p->n_sink, lag = (uint32_t)p->lag_size;
    if (n < sinks + (uint64_t)2 * lag) {
        score_short(n, sinks, scores);
        return;
    }
    const uint32_t parts = (n - sinks) / lag;
    for (uint32_t i = 0; i < n; i++)
        scores[i] = i < sinks || i >= sinks + (parts - 1) * lag ? 1.0f : 0.0f;
    for (uint32_t k = 0; k + 1 < parts; k++) {
        const uint32_t first = sinks + k * lag;
        add_half(view, view->keys, g, first, lag, b, scores + first);
        add_half(view, view->values, g, first, lag, b, scores + first);
        if (!p->cross_scoring) rank(lag, b, scores + first);
    }
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    const size_t lag = p->lag_size < view->n ? (size_t)p->lag_size : view->n;
    bench b = {.least = cdz_scratch(step, view->head_dim * sizeof *b.least),
               .most = cdz_scratch(step, view->head_dim * sizeof *b.most),
               .spread = cdz_scratch(step, lag * sizeof *b.spread),
               .ranks = cdz_scratch(step, lag * sizeof *b.ranks)};
    if (!b.least || !b.most || !b.spread || !b.ranks)
        return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a partition");
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        score_head(view, p, g, &b, scores_of(view, choice, g));
    return CDZ_OK;
}

static const cdz_press lagkv = {
    .base = {CDZ_PRESS_BASE, .id = "lagkv", .version = "1.0.0",
             .summary = "Keep what is unlike the partition after it", CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&lagkv.base)
