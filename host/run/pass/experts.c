/* experts.c - feed-forwards of which each row takes a few: chosen by the device where it can for a few rows, and by the host
 * otherwise, which then waits for every layer's choice. */
#include "run/pass/layers.h"
#include "run/pass/route.h"

#include <stdlib.h>
#include <string.h>

/* --- where experts are ---------------------------------------------------------------------------------------- */

static const cdz_linear *part_of(const cdz_feed_forward *w, int part)
{
    return part == CDZ_EXPERT_GATE ? &w->gate : part == CDZ_EXPERT_UP ? &w->up : &w->down;
}

static bool alike(const cdz_linear *a, const cdz_linear *b)
{
    return !a->w.data == !b->w.data && a->w.dtype == b->w.dtype && a->w.n == b->w.n &&
           a->w.k == b->w.k && !a->bias.data == !b->bias.data && a->bias.dtype == b->bias.dtype;
}

/* Matrices of a layer, then biases. */
static size_t layer_entries(const cdz_arch *a)
{
    return (size_t)a->n_experts * CDZ_EXPERT_PARTS * 2;
}

/* A layer's part of the table; false: its experts differ in more than their numbers. */
static bool fill_table(const void **table, const cdz_layer_weights *w, uint32_t n_experts)
{
    const void **biases = table + (size_t)n_experts * CDZ_EXPERT_PARTS;
    for (uint32_t e = 0; e < n_experts; e++)
        for (int p = 0; p < CDZ_EXPERT_PARTS; p++) {
            const cdz_linear *l = part_of(&w->experts[e], p);
            const size_t at = (size_t)e * CDZ_EXPERT_PARTS + (size_t)p;
            if (!alike(l, part_of(&w->experts[0], p))) return false;
            table[at] = l->w.data;
            biases[at] = l->bias.data;
        }
    return true;
}

bool cdz_layers_place_experts(cdz_layers *f)
{
    const cdz_arch *a = f->own.arch;
    cdz_backend *b = f->backend;
    const size_t n = layer_entries(a);
    if (!b->api->experts) return true;
    const void **table = calloc(a->n_layers, n * sizeof *table);
    if (!table) return false;
    bool fits = true, room = true;
    for (uint32_t i = 0; i < a->n_layers && fits; i++)
        if (f->own.layers[i].experts)
            fits = fill_table(table + i * n, &f->own.layers[i], a->n_experts);
    if (fits) {
        const size_t bytes = a->n_layers * n * sizeof *table;
        f->expert_table = b->api->alloc(b, bytes);
        room = f->expert_table;
        if (room) b->api->upload(b, f->expert_table, table, bytes);
    }
    free(table);
    return room;
}

/* --- the device chooses --------------------------------------------------------------------------------------- */

static bool feed_there(cdz_layers *f, uint32_t layer, const float *x, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const size_t D = a->hidden;
    if (!f->expert_table || a != f->own.arch || !cdz_layers_routes_plainly(a)) return false;
    const void **table = f->expert_table + layer * layer_entries(a);
    cdz_experts experts = {.at = table,
                           .bias_at = table + layer_entries(a) / 2,
                           .n = a->n_experts,
                           .n_active = a->n_active,
                           .normalise = a->router.normalise,
                           .clamped = a->activation == CDZ_ACT_CLAMPED,
                           .curve = cdz_layers_curve(a)};
    for (int p = 0; p < CDZ_EXPERT_PARTS; p++) {
        const cdz_linear *first = part_of(&f->stack.layers[layer].experts[0], p);
        experts.part[p] = first->w;
        experts.bias[p] = first->bias;
    }
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    return f->backend->api->experts(f->backend, given, D, &experts, f->route_scores, a->n_experts,
                                    x, D, f->m);
}

/* --- the choice ----------------------------------------------------------------------------------------------- */

bool cdz_layers_routes_plainly(const cdz_arch *a)
{
    const cdz_router *r = &a->router;
    return r->score == CDZ_ROUTE_SOFTMAX && !r->biased && r->n_groups < 2 && r->scale == 1.0f &&
           !r->into_inputs && r->sum_add == 0.0f && r->sum_least == 0.0f;
}

/* --- the host chooses ----------------------------------------------------------------------------------------- */

/* Rows that chose an expert, and how much they take of it; returns their number. */
static uint32_t rows_of_expert(cdz_layers *f, int32_t expert)
{
    const uint32_t k = f->stack.arch->n_active;
    uint32_t n = 0;
    for (uint32_t r = 0; r < f->m; r++)
        for (uint32_t j = 0; j < k; j++)
            if (f->route_ids[(size_t)r * k + j] == expert) {
                f->picked[n] = (int32_t)r;
                f->shares[n++] = f->route_weights[(size_t)r * k + j];
            }
    return n;
}

static void clear(cdz_layers *f, float *y, size_t n)
{
    f->backend->api->clear(f->backend, y, n * sizeof *y);
}

/* Every row's experts and their weights. */
static void choose(cdz_layers *f, const cdz_layer_weights *w)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const size_t n = a->n_experts, k = a->n_active;
    if (cdz_layers_routes_plainly(a)) {
        b->api->route(b, f->route_weights, f->route_ids, k, f->route_scores, n, f->m, n,
                      a->router.normalise);
        return;
    }
    b->api->download(b, f->route_home, f->route_scores, f->m * n * sizeof *f->route_home);
    for (uint32_t r = 0; r < f->m; r++)
        cdz_route_row(&a->router, w->router_bias, f->route_home + r * n, n, k,
                      f->route_weights + r * k, f->route_ids + r * k);
}

/* The rows of one expert, as it reads them: times their weights, where those go into the inputs. */
static void gather_rows(cdz_layers *f, const float *x, size_t D, uint32_t n)
{
    if (!f->stack.arch->router.into_inputs) {
        cdz_layers_pick(f, f->gathered, x, D, n);
        return;
    }
    int32_t places[CDZ_PASS_ROWS];
    cdz_layers_pick(f, f->expert_gives, x, D, n);
    clear(f, f->gathered, n * D);
    for (uint32_t i = 0; i < n; i++) places[i] = (int32_t)i;
    f->backend->api->add_scaled(f->backend, f->gathered, D, places, f->shares, f->expert_gives, D,
                                n, D);
    for (uint32_t i = 0; i < n; i++) f->shares[i] = 1.0f;
}

/* given += the shared expert's, or as much of it as its own router says. */
static void feed_shared(cdz_layers *f, const cdz_layer_weights *w, const float *x, float *given)
{
    cdz_backend *b = f->backend;
    const size_t D = f->stack.arch->hidden;
    if (!w->shared.up.w.data) return;
    cdz_layers_feed(f, &w->shared, x, f->m, f->expert_gives);
    if (!w->shared_router.w.data) {
        b->api->add(b, given, D, f->expert_gives, D, f->m, D);
        return;
    }
    const cdz_product share = cdz_layers_product(&w->shared_router, f->route_scores);
    b->api->matmul(b, &share, 1, x, D, f->m);
    b->api->download(b, f->shares, f->route_scores, f->m * sizeof *f->shares);
    for (uint32_t r = 0; r < f->m; r++) {
        f->shares[r] = cdz_route_sigmoid(f->shares[r]);
        f->picked[r] = (int32_t)r;
    }
    b->api->add_scaled(b, given, D, f->picked, f->shares, f->expert_gives, D, f->m, D);
}

/* given = the chosen experts' of x, both D wide. */
static void feed_here(cdz_layers *f, const cdz_layer_weights *w, const float *x, size_t D,
                      float *given)
{
    const cdz_arch *a = f->stack.arch;
    cdz_backend *b = f->backend;
    const size_t m = f->m;
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    choose(f, w);
    clear(f, given, m * D);
    for (uint32_t e = 0; e < a->n_experts; e++) {
        const uint32_t n = rows_of_expert(f, (int32_t)e);
        if (n == 0) continue;
        gather_rows(f, x, D, n);
        cdz_layers_feed(f, &w->experts[e], f->gathered, n, f->expert_gives);
        cdz_profile_mark(f->profile, CDZ_WORK_NORM);
        b->api->add_scaled(b, given, D, f->picked, f->shares, f->expert_gives, D, n, D);
    }
}

/* The same where experts have a width of their own. */
static void feed_narrow(cdz_layers *f, const cdz_layer_weights *w, const float *x, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_product in = cdz_layers_product(&w->latent_in, f->latent),
                      out = cdz_layers_product(&w->latent_out, given);
    f->backend->api->matmul(f->backend, &in, 1, x, a->hidden, f->m);
    feed_here(f, w, f->latent, a->expert_width, f->latent_gives);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    f->backend->api->matmul(f->backend, &out, 1, f->latent_gives, a->expert_width, f->m);
}

void cdz_layers_feed_experts(cdz_layers *f, uint32_t layer, const float *x, float *given)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_layer_weights *w = &f->stack.layers[layer];
    const cdz_product route = cdz_layers_product(&w->router, f->route_scores);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    f->backend->api->matmul(f->backend, &route, 1, x, a->hidden, f->m);
    if (a->expert_width)
        feed_narrow(f, w, x, given);
    else if (!feed_there(f, layer, x, given))
        feed_here(f, w, x, a->hidden, given);
    feed_shared(f, w, x, given);
}
