/* think.c - channels of keys go, not positions: those that the last queries hardly use become 0. Xu et al. 2024.
 *
 * No memory is freed by it; what comes after the prompt keeps all channels. */
#include "presses.h"

typedef struct {
    double key_channel_compression_ratio;
    int64_t window_size;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, key_channel_compression_ratio, 0.0, 0.0, 1.0,
             "the share of each key's numbers that become 0"),
    CDZ_INT(settings, window_size, 32, 1, 4096, "queries that are asked, the latest"),
};

/* [engine] */
static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    const settings *p = step->params;
    out->what = CDZ_PRESS_KEYS | CDZ_PRESS_QUERIES;
    out->window = (uint32_t)p->window_size;
    out->free_count = true;
    return CDZ_OK;
}

/* The mean square of a channel over rows of d numbers. */
static double mean_square(const float *rows, uint32_t n, uint32_t d, uint32_t channel)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double x = (double)rows[(size_t)i * d + channel];
        sum += x * x;
    }
    return n ? sum / n : 0;
}

/* How much a channel adds to the scores of a head's queries. */
static double use_of(const cdz_press_view *view, uint32_t g, uint32_t channel)
{
    const uint32_t group = heads_a_group(view), d = view->head_dim;
    double queries = 0;
    for (uint32_t h = g * group; h < (g + 1) * group; h++)
        queries += mean_square(view->queries + (size_t)h * view->n_queries * d, view->n_queries, d,
                               channel) /
                   group;
    return queries * mean_square(entry_of(view, view->keys, g, 0), view->counts[g], d, channel);
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    const uint32_t d = view->head_dim, gone = (uint32_t)(d * p->key_channel_compression_ratio);
    worth *channels = cdz_scratch(step, d * sizeof *channels);
    if (!channels) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for a head's channels");
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        choice->counts[g] = view->counts[g];
        for (uint32_t c = 0; c < d; c++) channels[c] = (worth){(float)-use_of(view, g, c), 0, c};
        qsort(channels, d, sizeof *channels, by_worth);
        for (uint32_t c = 0; c < gone; c++) choice->zeroed[(size_t)g * d + channels[c].at] = 1;
    }
    return CDZ_OK;
}

static const cdz_press think = {
    .base = {CDZ_PRESS_BASE, .id = "think", .version = "1.0.0",
             .summary = "Set channels of keys to 0 that queries hardly use",
             CDZ_PARAMS(settings, params)},
    .needs = needs,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&think.base)
