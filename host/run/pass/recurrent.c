/* recurrent.c - the recurrent mixers: what they read of x, the convolution over a sequence's newest inputs, the state that goes on
 * row by row, and the gate.
 *
 * Only on backends whose memory is the host's; the engine refuses such models elsewhere. */
#include "run/pass/layers.h"

/* Where the pass's sequences have what this layer keeps, its window first; past: how far behind that. */
static const cdz_state_run *runs_of(cdz_layers *f, uint32_t layer, size_t past)
{
    const cdz_arch *a = f->stack.arch;
    const size_t at = (size_t)a->state_place[layer] * cdz_recurrent_floats(a) + past;
    for (uint32_t i = 0; i < f->n_runs; i++) {
        f->layer_runs[i] = f->runs[i];
        f->layer_runs[i].state += at;
    }
    return f->layer_runs;
}

static void convolve(cdz_layers *f, uint32_t layer, const cdz_recurrent_weights *w, float *y,
                     bool gated)
{
    const cdz_arch *a = f->stack.arch;
    const size_t channels = cdz_recurrent_channels(a);
    const cdz_conv how = {.channels = channels,
                          .taps = a->recurrent.taps,
                          .w = w->taps,
                          .bias = w->tap_bias,
                          .in_gate = gated ? f->mix_share : NULL,
                          .out_gate = gated ? f->mix_gate : NULL,
                          .silu = !gated};
    f->backend->api->conv(f->backend, y, channels, f->mix_in, channels, runs_of(f, layer, 0),
                          f->n_runs, &how);
}

/* Groups of keys and queries, each divided by the root of its squares' sum: mean and sum differ by a factor, and so do what is
 * added to them. */
static void norm_keys(cdz_layers *f, const cdz_recurrent_weights *w)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_recurrent *r = &a->recurrent;
    const size_t channels = cdz_recurrent_channels(a);
    const float eps = 1e-6f / (float)r->rows;
    cdz_backend *b = f->backend;
    for (uint32_t g = 0; g < 2 * r->groups; g++) {
        float *part = f->mix_conv + (size_t)g * r->rows;
        b->api->rmsnorm(b, part, channels, part, channels, f->m,
                        g < r->groups ? &w->q_norm : &w->k_norm, eps, 0.0f);
    }
}

/* mix_y = what the states give. Behind the convolution lie, of the delta rule, queries, keys and values; of SSD values, keys (B) and
 * queries (C). */
static void step_states(cdz_layers *f, uint32_t layer, const cdz_recurrent_weights *w)
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
                                .corrects = delta,
                                .groups_alternate = r->groups_alternate,
                                .rate = w->rate,
                                .shift = w->shift,
                                .skip = w->skip,
                                .low = r->low,
                                .high = r->high,
                                .q = f->mix_conv + (delta ? 0 : width + keys),
                                .k = f->mix_conv + (delta ? keys : width),
                                .ldk = channels,
                                .v = f->mix_conv + (delta ? 2 * keys : 0),
                                .ldv = channels,
                                .a = f->mix_decay,
                                .b = delta ? f->mix_share : NULL};
    f->backend->api->recur(f->backend, f->mix_y, width, runs_of(f, layer, cdz_recurrent_window(a)),
                           f->n_runs, &how);
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
    cdz_product used[4];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        if (in[i].w->data) used[n++] = in[i];
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, used, n, cdz_layers_scaled(f, given, x, r->in_scale), D, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    scale_parts(f);
    convolve(f, layer, w, conv ? f->mix_y : f->mix_conv, conv);
    if (!conv) {
        step_states(f, layer, w);
        gate_rows(f, &w->norm);
    }
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &out, 1, f->mix_y, width, f->m);
    if (r->out_scale != 1.0f) b->api->scale(b, given, D, f->m, D, r->out_scale);
}
