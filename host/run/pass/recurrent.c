/* recurrent.c - the recurrent mixers: what they read of x, the convolution over a sequence's newest inputs, the state that goes on
 * row by row, and the gate.
 *
 * A device reads taps, biases and the numbers of heads in a table there, made once; what a pass says of its runs is the same in
 * every layer. */
#include <string.h>

#include "run/pass/layers.h"

/* Where a layer's window lies in a state; its matrices lie cdz_recurrent_window behind that. */
static size_t place_of(const cdz_arch *a, uint32_t layer)
{
    return (size_t)a->state_place[layer] * cdz_recurrent_floats(a);
}

/* --- the vectors, where the backend reads them -------------------------------------------------------------------- */

enum { TAPS, TAP_BIAS, RATE, SHIFT, SKIP, N_VECTORS };

typedef struct vectors {
    const float *at[N_VECTORS]; /* NULL: there are none */
} vectors;

static vectors vectors_here(const cdz_recurrent_weights *w)
{
    return (vectors){{w->taps, w->tap_bias, w->rate, w->shift, w->skip}};
}

/* Each of them has its place in a layer's part of the table, whether it is there or not. */
static size_t sizes_of(const cdz_arch *a, size_t *sizes)
{
    const size_t channels = cdz_recurrent_channels(a), heads = a->recurrent.heads;
    const size_t all[N_VECTORS] = {channels * a->recurrent.taps, channels, heads, heads, heads};
    memcpy(sizes, all, sizeof all);
    return all[0] + all[1] + all[2] + all[3] + all[4];
}

static vectors vectors_of(const cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    vectors v = vectors_here(&f->stack.layers[layer].recurrent);
    size_t sizes[N_VECTORS];
    const float *at = f->mix_vectors;
    if (!at) return v;
    at += (size_t)a->state_place[layer] * sizes_of(a, sizes);
    for (size_t i = 0; i < N_VECTORS; at += sizes[i++])
        if (v.at[i]) v.at[i] = at;
    return v;
}

bool cdz_layers_place_vectors(cdz_layers *f)
{
    const cdz_arch *a = f->own.arch;
    cdz_backend *b = f->backend;
    if (b->api->host_memory || !a->recurrent.kind) return true;
    const uint64_t n = cdz_arch_state_floats(a) / cdz_recurrent_floats(a);
    size_t sizes[N_VECTORS];
    const size_t each = sizes_of(a, sizes);
    f->mix_vectors = b->api->alloc(b, n * each * sizeof *f->mix_vectors);
    if (!f->mix_vectors) return false;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (!cdz_arch_mixes(a, i, CDZ_MIX_RECURRENT)) continue;
        const vectors v = vectors_here(&f->own.layers[i].recurrent);
        float *at = f->mix_vectors + (size_t)a->state_place[i] * each;
        for (size_t k = 0; k < N_VECTORS; at += sizes[k++])
            if (v.at[k]) b->api->upload(b, at, v.at[k], sizes[k] * sizeof *at);
    }
    return true;
}

/* --- the mixers --------------------------------------------------------------------------------------------------- */

static void convolve(cdz_layers *f, uint32_t layer, const vectors *v, float *y, bool gated)
{
    const cdz_arch *a = f->stack.arch;
    const size_t channels = cdz_recurrent_channels(a);
    const cdz_conv how = {.channels = channels,
                          .taps = a->recurrent.taps,
                          .at = place_of(a, layer),
                          .w = v->at[TAPS],
                          .bias = v->at[TAP_BIAS],
                          .in_gate = gated ? f->mix_share : NULL,
                          .out_gate = gated ? f->mix_gate : NULL,
                          .silu = !gated};
    f->backend->api->conv(f->backend, y, channels, f->mix_in, channels, f->runs, f->n_runs, &how);
}

/* All groups of all rows of keys, or of queries. A call takes a group of all rows, or all groups of a row, whichever makes fewer
 * calls. */
static void norm_part(cdz_layers *f, float *part, const cdz_weight *w, float eps)
{
    const cdz_arch *a = f->stack.arch;
    const size_t rows = a->recurrent.rows, groups = a->recurrent.groups, m = f->m,
                 channels = cdz_recurrent_channels(a);
    cdz_backend *b = f->backend;
    for (size_t r = 0; m < groups && r < m; r++, part += channels)
        b->api->rmsnorm(b, part, rows, part, rows, groups, w, eps, 0.0f);
    for (size_t g = 0; m >= groups && g < groups; g++, part += rows)
        b->api->rmsnorm(b, part, channels, part, channels, m, w, eps, 0.0f);
}

/* Keys and queries, each divided by the root of its squares' sum: mean and sum differ by a factor, and so do what is added to
 * them. */
static void norm_keys(cdz_layers *f, const cdz_recurrent_weights *w)
{
    const cdz_recurrent *r = &f->stack.arch->recurrent;
    const float eps = 1e-6f / (float)r->rows;
    norm_part(f, f->mix_conv, &w->q_norm, eps);
    norm_part(f, f->mix_conv + (size_t)r->groups * r->rows, &w->k_norm, eps);
}

/* mix_y = what the states give. Behind the convolution lie, of the delta rule, queries, keys and values; of SSD values, keys (B) and
 * queries (C). */
static void step_states(cdz_layers *f, uint32_t layer, const cdz_recurrent_weights *w,
                        const vectors *v)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t channels = cdz_recurrent_channels(a), width = cdz_recurrent_width(a),
                 keys = (size_t)r->groups * r->rows;
    const bool delta = r->kind == CDZ_MIX_DELTA;
    if (delta) norm_keys(f, w);
    const cdz_recurrence how = {.heads = r->heads,
                                .groups = r->groups,
                                .rows = r->rows,
                                .columns = r->columns,
                                .at = place_of(a, layer) + cdz_recurrent_window(a),
                                .corrects = delta,
                                .groups_alternate = r->groups_alternate,
                                .rate = v->at[RATE],
                                .shift = v->at[SHIFT],
                                .skip = v->at[SKIP],
                                .low = r->low,
                                .high = r->high,
                                .q = f->mix_conv + (delta ? 0 : width + keys),
                                .k = f->mix_conv + (delta ? keys : width),
                                .ldk = channels,
                                .v = f->mix_conv + (delta ? 2 * keys : 0),
                                .ldv = channels,
                                .a = f->mix_decay,
                                .b = delta ? f->mix_share : NULL};
    f->backend->api->recur(f->backend, f->mix_y, width, f->runs, f->n_runs, &how);
}

static void norm_groups(cdz_layers *f, const cdz_norm *norm, size_t n)
{
    const cdz_arch *a = f->stack.arch;
    const size_t width = cdz_recurrent_width(a), each = width / n;
    for (size_t g = 0; g < n; g++) {
        cdz_weight part = norm->w;
        part.data = (const char *)norm->w.data + cdz_row_bytes(norm->w.dtype, g * each);
        part.k = each;
        f->backend->api->rmsnorm(f->backend, f->mix_y + g * each, width, f->mix_y + g * each, width,
                                 f->m, &part, a->norm_eps, 0.0f);
    }
}

/* The gate, and the norm before or behind it, whose weights count from zero whatever the model's other norms do. */
static void gate_rows(cdz_layers *f, const cdz_norm *norm)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t width = cdz_recurrent_width(a);
    cdz_backend *b = f->backend;
    if (r->norm == CDZ_GATED_HEADS)
        b->api->rmsnorm(b, f->mix_y, r->columns, f->mix_y, r->columns, (size_t)f->m * r->heads,
                        &norm->w, a->norm_eps, 0.0f);
    if (r->norm == CDZ_GATED_FIRST) norm_groups(f, norm, r->groups);
    b->api->silu_mul(b, f->mix_y, width, f->mix_gate, f->mix_y, width, f->m, width);
    if (r->norm == CDZ_GATED_WHOLE) norm_groups(f, norm, 1);
    if (r->norm == CDZ_GATED_GROUPS) norm_groups(f, norm, r->groups);
}

static void scale_part(cdz_layers *f, float *x, size_t ld, size_t n, float factor)
{
    if (factor != 1.0f) f->backend->api->scale(f->backend, x, ld, f->m, n, factor);
}

static void scale_parts(cdz_layers *f)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t channels = cdz_recurrent_channels(a), width = cdz_recurrent_width(a),
                 keys = (size_t)r->groups * r->rows;
    scale_part(f, f->mix_gate, width, width, r->part_scale[0]);
    scale_part(f, f->mix_in, channels, width, r->part_scale[1]);
    scale_part(f, f->mix_in + width, channels, keys, r->part_scale[2]);
    scale_part(f, f->mix_in + width + keys, channels, keys, r->part_scale[3]);
    scale_part(f, f->mix_decay, r->heads, r->heads, r->part_scale[4]);
}

void cdz_layers_recur(cdz_layers *f, uint32_t layer, const float *x, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_recurrent *r = &a->recurrent;
    const cdz_recurrent_weights *w = &f->stack.layers[layer].recurrent;
    const size_t D = a->hidden, width = cdz_recurrent_width(a);
    cdz_backend *b = f->backend;
    const cdz_product in[] = {
        cdz_layers_product(&w->value, f->mix_in), cdz_layers_product(&w->gate, f->mix_gate),
        cdz_layers_product(&w->share, f->mix_share), cdz_layers_product(&w->decay, f->mix_decay)};
    const cdz_product out = cdz_layers_product(&w->out, given);
    const bool conv = r->kind == CDZ_MIX_CONV;
    const vectors v = vectors_of(f, layer);
    cdz_product used[4];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        if (in[i].w->data) used[n++] = in[i];
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, used, n, cdz_layers_scaled(f, given, x, r->in_scale), D, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    scale_parts(f);
    convolve(f, layer, &v, conv ? f->mix_y : f->mix_conv, conv);
    if (!conv) {
        step_states(f, layer, w, &v);
        gate_rows(f, &w->norm);
    }
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &out, 1, f->mix_y, width, f->m);
    if (r->out_scale != 1.0f) b->api->scale(b, given, D, f->m, D, r->out_scale);
}
