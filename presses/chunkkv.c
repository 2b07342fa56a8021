/* chunkkv.c - chunks of neighbouring positions stay or go as a whole, the same for all heads. Liu et al. 2025. */
#include "presses.h"

typedef struct {
    int64_t chunk_length;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, chunk_length, 20, 1, 1e6, "positions of a chunk"),
};

/* Of all heads together, over its length. */
static float mean_of(const cdz_press_view *view, const cdz_press_choice *choice, uint32_t first,
                     uint32_t n)
{
    double sum = 0;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = first; i < first + n; i++) sum += (double)scores_of(view, choice, g)[i];
    return (float)(sum / n);
}

/* What stays of chunks [0, n), which are sorted, becomes the best of all. */
static uint32_t keep(const cdz_press_view *view, const cdz_press_choice *choice,
                     const worth *chunks, uint32_t n, uint32_t all, uint32_t length)
{
    uint32_t kept = 0;
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        for (uint32_t i = 0; i < all; i++) scores_of(view, choice, g)[i] = 0.0f;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t first = chunks[k].at * length, end = first + length;
        for (uint32_t i = first; i < end && i < all; i++, kept++)
            for (uint32_t g = 0; g < view->n_kv_heads; g++) scores_of(view, choice, g)[i] = 1.0f;
    }
    return kept;
}

/* [engine] */
static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    const settings *p = step->params;
    const uint32_t all = view->counts[0], length = (uint32_t)p->chunk_length;
    if (all < length) return CDZ_OK; /* no chunk is whole: the scores stand */
    for (uint32_t g = 0; g < view->n_kv_heads; g++)
        if (view->counts[g] != all)
            return cdz_fail(step, CDZ_E_INPUT,
                            "heads hold %u and %u positions: chunks are the same for all heads",
                            all, view->counts[g]);
    const uint32_t n = (all + length - 1) / length;
    worth *chunks = cdz_scratch(step, n * sizeof *chunks);
    if (!chunks) return cdz_fail(step, CDZ_E_NOMEM, "out of memory for chunks");
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t first = k * length, rest = all - first;
        chunks[k] = (worth){mean_of(view, choice, first, rest < length ? rest : length), 0, k};
    }
    qsort(chunks, n, sizeof *chunks, by_worth);
    const uint32_t kept = keep(view, choice, chunks, left_of(n, view->ratio), all, length);
    for (uint32_t g = 0; g < view->n_kv_heads; g++) choice->counts[g] = kept;
    return CDZ_OK;
}

static const cdz_press chunkkv = {
    .base = {CDZ_PRESS_BASE, .id = "chunkkv", .version = "1.0.0",
             .summary = "Keep whole chunks, by the scores of the press before",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_PRESS_WRAPS,
    .press = press,
};
CDZ_EXPORT_PLUGINS(&chunkkv.base)
