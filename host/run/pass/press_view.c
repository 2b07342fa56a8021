/* press_view.c - what a press is shown of a layer: parts of the cache, and what was noted while positions were read. */
#include "run/pass/press_view.h"

#include <math.h>
#include <string.h>

#include "run/pass/model.h"
#include "run/pass/press_notes.h"

/* The subset's rows of an array (G, n, wide). */
static const void *gather(cdz_press_look *l, const cdz_press_subset *s, const void *array,
                          size_t wide)
{
    if (s->whole) return array;
    char *out = cdz_arena_array(&l->arena, (size_t)l->G * s->n, wide);
    for (uint32_t g = 0; out && g < l->G; g++)
        for (uint32_t i = 0; i < s->counts[g]; i++)
            memcpy(out + ((size_t)g * s->n + i) * wide,
                   (const char *)array + ((size_t)g * l->n + s->at[(size_t)g * s->n + i]) * wide,
                   wide);
    return out;
}

/* Positions that the view is about. */
static uint32_t length_of(const cdz_press_look *l, const cdz_press_subset *s)
{
    const cdz_press_notes *notes = l->seq->notes;
    return cdz_press_piece_end(notes, s->piece) - s->piece * notes->piece;
}

/* --- queries of the window ---------------------------------------------------------------------------------------- */

static const float *noted_rows(const cdz_press_look *l, const cdz_press_subset *s,
                               const float *array, size_t wide, uint32_t n)
{
    const cdz_press_notes *notes = l->seq->notes;
    const uint32_t all = cdz_press_piece_queries(notes, s->piece);
    const size_t first = ((size_t)l->layer * notes->n_pieces + s->piece) * notes->window;
    return array + (first + all - n) * wide;
}

/* (H, n, d) of what was noted as (n, H, d). */
static float *queries_of(cdz_press_look *l, const cdz_press_subset *s, uint32_t n)
{
    const float *rows = noted_rows(l, s, l->seq->notes->queries, l->H * l->d, n);
    float *out = cdz_arena_array(&l->arena, (size_t)l->H * n, l->d * sizeof *out);
    for (uint32_t h = 0; out && h < l->H; h++)
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + ((size_t)h * n + i) * l->d, rows + ((size_t)i * l->H + h) * l->d,
                   l->d * sizeof *out);
    return out;
}

/* Entries that the query at a position sees; they rise. */
static uint32_t seen_by(const uint32_t *positions, uint32_t n, uint32_t position)
{
    while (n && positions[n - 1] > position) n--;
    return n;
}

/* Weights (H, n_queries, n) of queries (H, n_queries, d), the last of which is that of the subset's last position. */
static float *attention_of(cdz_press_look *l, const cdz_press_subset *s, const cdz_press_view *view,
                           const float *keys)
{
    const uint32_t m = view->n_queries;
    cdz_attention how = cdz_layers_attention(l->f, l->layer);
    how.sinks = l->f->stack.layers[l->layer].sinks; /* read here */
    const uint32_t last = cdz_press_piece_end(l->seq->notes, s->piece) - 1;
    float *out = cdz_arena_array(&l->arena, (size_t)l->H * m, s->n * sizeof *out);
    for (uint32_t h = 0; out && h < l->H; h++) {
        const uint32_t g = h * l->G / l->H, n = s->counts[g];
        const uint32_t *positions = view->positions + (size_t)g * s->n;
        const uint32_t first = seen_by(positions, n, last + 1 - m);
        const bool steady = first + m - 1 == n;
        for (uint32_t i = 0; i < m; i += steady ? m : 1) {
            cdz_weighing w = {.backend = l->f->backend,
                              .how = &how,
                              .head = h,
                              .dim = l->d,
                              .q = view->queries + ((size_t)h * m + i) * l->d,
                              .ldq = l->d,
                              .m = steady ? m : 1,
                              .keys = keys + (size_t)g * s->n * l->d,
                              .n = n,
                              .sees = steady ? first : seen_by(positions, n, last + 1 - m + i),
                              .ldo = s->n,
                              .out = out + ((size_t)h * m + i) * s->n};
            if (w.sees) cdz_press_weigh(&w);
        }
    }
    return out;
}

/* --- of all positions --------------------------------------------------------------------------------------------- */

/* (H, n): what an entry got, over the queries that could see it. */
static float *sums_of(cdz_press_look *l, const cdz_press_subset *s, const uint32_t *positions)
{
    const cdz_press_notes *notes = l->seq->notes;
    float *out = cdz_arena_array(&l->arena, (size_t)l->H * s->n, sizeof *out);
    for (uint32_t h = 0; out && h < l->H; h++) {
        const uint32_t g = h / (l->H / l->G);
        const double *sums = notes->sums + ((size_t)l->layer * l->H + h) * notes->to;
        for (uint32_t i = 0; i < s->counts[g]; i++) {
            const uint32_t p = positions[(size_t)g * s->n + i];
            out[(size_t)h * s->n + i] = (float)(sums[p] / (notes->to - p));
        }
    }
    return out;
}

static bool show_moments(cdz_press_look *l, const cdz_press_subset *s, cdz_press_view *view)
{
    const cdz_press_notes *notes = l->seq->notes;
    const size_t d = l->d, at = ((size_t)l->layer * notes->n_pieces + s->piece) * l->H;
    const uint32_t length = length_of(l, s);
    const double n = length > notes->skip ? length - notes->skip : 1;
    float *mean = cdz_arena_array(&l->arena, l->H * d, sizeof *mean),
          *covariance = cdz_arena_array(&l->arena, l->H * d, d * sizeof *covariance);
    if (!mean || !covariance) return false;
    for (size_t h = 0; h < l->H; h++) {
        const double *sum = notes->mean + (at + h) * d, *square = notes->square + (at + h) * d * d;
        for (size_t i = 0; i < d; i++) {
            mean[h * d + i] = (float)(sum[i] / n);
            for (size_t j = 0; j < d; j++)
                covariance[(h * d + i) * d + j] =
                    (float)((i > j ? square[i * d + j] : square[j * d + i]) / n -
                            sum[i] / n * (sum[j] / n));
        }
    }
    view->mean = mean;
    view->covariance = covariance;
    return true;
}

/* --- what values add ---------------------------------------------------------------------------------------------- */

/* Sums of absolute values of W_o times each value of a head, alone: the other heads' numbers are 0. */
static void add_output(const cdz_press_look *l, uint32_t h, const float *values, uint32_t n,
                       float *wide, float *given, float *out)
{
    const cdz_linear *o = &l->f->own.layers[l->layer].o;
    const size_t W = l->H * l->d, D = o->w.n;
    const cdz_product product = {&o->w, NULL, given, D};
    cdz_backend *b = l->f->backend;
    for (uint32_t first = 0; first < n; first += CDZ_WEIGH_ROWS) {
        const uint32_t m = n - first < CDZ_WEIGH_ROWS ? n - first : CDZ_WEIGH_ROWS;
        memset(wide, 0, m * W * sizeof *wide);
        for (uint32_t i = 0; i < m; i++)
            memcpy(wide + i * W + h * l->d, values + (size_t)(first + i) * l->d,
                   l->d * sizeof *wide);
        b->api->matmul(b, &product, 1, wide, W, m);
        b->api->sync(b);
        for (uint32_t i = 0; i < m; i++) {
            double sum = 0;
            for (size_t k = 0; k < D; k++) sum += fabs((double)given[i * D + k]);
            out[first + i] = (float)sum;
        }
    }
}

static float *output_of(cdz_press_look *l, const cdz_press_subset *s, const float *values)
{
    const size_t D = l->f->own.layers[l->layer].o.w.n;
    float *out = cdz_arena_array(&l->arena, (size_t)l->H * s->n, sizeof *out),
          *wide = cdz_arena_array(&l->arena, CDZ_WEIGH_ROWS * l->H, l->d * sizeof *wide),
          *given = cdz_arena_array(&l->arena, CDZ_WEIGH_ROWS, D * sizeof *given);
    if (!out || !wide || !given) return NULL;
    for (uint32_t h = 0; h < l->H; h++) {
        const uint32_t g = h / (l->H / l->G);
        add_output(l, h, values + (size_t)g * s->n * l->d, s->counts[g], wide, given,
                   out + (size_t)h * s->n);
    }
    return out;
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

static void show_rotation(const cdz_press_look *l, cdz_press_view *view)
{
    const cdz_rope *rope = cdz_arch_rope(l->f->own.arch, l->layer);
    if (!rope) return;
    view->inv_freq = rope->inv_freq;
    view->n_rotated = (uint32_t)rope->n_rotated;
    view->interleaved = rope->interleaved;
    view->rope_scale = rope->scale;
}

static double ratio_of(const cdz_press_look *l, const cdz_press_step *step)
{
    const cdz_press_plan *plan = l->seq->press;
    if (!l->decoding) return plan->ratios ? plan->ratios[l->layer] : step->ratio;
    if (!isnan(plan->target_ratio)) return plan->target_ratio;
    return l->n > plan->target_size ? 1.0 - (double)plan->target_size / l->n : 0;
}

/* What the step alone has asked for. */
static bool show_noted(cdz_press_look *l, const cdz_press_step *step, const cdz_press_subset *s,
                       cdz_press_view *view, const float *keys)
{
    const cdz_press_notes *notes = l->seq->notes;
    bool ok = true;
    if (step->what & CDZ_PRESS_OF_WINDOW) {
        const uint32_t all = cdz_press_piece_queries(notes, s->piece);
        view->n_queries = step->window < all ? step->window : all;
        if (step->what & CDZ_PRESS_HIDDEN)
            view->hidden = noted_rows(l, s, notes->hidden, view->hidden_dim, view->n_queries);
        if (step->what & (CDZ_PRESS_QUERIES | CDZ_PRESS_ATTENTION))
            ok = (view->queries = queries_of(l, s, view->n_queries)) != NULL;
        if (ok && step->what & CDZ_PRESS_ATTENTION)
            ok = (view->attention = attention_of(l, s, view, keys)) != NULL;
    }
    if (ok && step->what & CDZ_PRESS_SUMS)
        ok = (view->sums = sums_of(l, s, view->positions)) != NULL;
    if (ok && step->what & CDZ_PRESS_MOMENTS) ok = show_moments(l, s, view);
    return ok;
}

bool cdz_press_show(cdz_press_look *l, const cdz_press_step *step, const cdz_press_subset *s,
                    cdz_press_view *view)
{
    const cdz_arch *a = l->f->own.arch;
    const size_t row = l->d * sizeof(float);
    *view = (cdz_press_view){.size = sizeof *view,
                             .layer = l->layer,
                             .n_layers = a->n_layers,
                             .n_heads = l->H,
                             .n_kv_heads = l->G,
                             .head_dim = (uint32_t)l->d,
                             .hidden_dim = a->hidden,
                             .n = s->n,
                             .counts = s->counts,
                             .seen = l->seq->computed,
                             .length = length_of(l, s),
                             .decoding = l->decoding,
                             .ratio = ratio_of(l, step),
                             .window = step->window,
                             .scale = cdz_layers_attention(l->f, l->layer).scale};
    show_rotation(l, view);
    view->positions = gather(l, s, l->positions, sizeof *l->positions);
    const float *keys = gather(l, s, l->keys, row);
    const bool wants_values = step->what & (CDZ_PRESS_VALUES | CDZ_PRESS_OUTPUT);
    const float *values = wants_values ? gather(l, s, l->values, row) : NULL;
    if (!view->positions || !keys || (wants_values && !values)) return false;
    if (step->what & CDZ_PRESS_KEYS) view->keys = keys;
    if (step->what & CDZ_PRESS_VALUES) view->values = values;
    if (step->what & CDZ_PRESS_OUTPUT && !(view->output = output_of(l, s, values))) return false;
    return show_noted(l, step, s, view, keys);
}
