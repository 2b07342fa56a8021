/* latent.c - latent attention (MLA) in its absorbed form: what is kept of a position is one key for all heads, whose beginning
 * is its value too, and a head's own maps of it are applied to queries and results instead.
 *
 *   kept    = (norm(c), rotated key)          c and the key from kv_a
 *   query   = (k_up[h] q_plain, rotated q)    scores are what the expanded form has, in another order of rounding
 *   value   = v_up[h] (sum of weights * c)
 *
 * Prompts are read in the same form as single tokens: bits hang on nothing but positions. */
#include "run/pass/layers.h"

enum { AT_ONCE = 4 }; /* heads of one set of products */

/* Of the norms inside, whatever the model's own is. */
static const float INNER_EPS = 1e-6f;

size_t cdz_latent_width(const cdz_arch *a)
{
    return (size_t)a->n_heads * a->latent.kv_rank;
}

static void norm(cdz_layers *f, float *x, size_t ldx, const cdz_norm *norm)
{
    cdz_backend *b = f->backend;
    b->api->rmsnorm(b, x, ldx, x, ldx, f->m, &norm->w, INNER_EPS, 0.0f);
}

static void keep(cdz_layers *f, uint32_t layer, const float *x)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_latent_weights *w = f->stack.layers[layer].latent;
    const size_t wide = a->head_dim;
    cdz_backend *b = f->backend;
    const cdz_product kept = cdz_layers_product(&w->kv_a, f->k);
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    b->api->matmul(b, &kept, 1, x, a->hidden, f->m);
    cdz_profile_mark(f->profile, CDZ_WORK_NORM);
    norm(f, f->k, wide, &w->kv_a_norm);
    cdz_layers_rotate(f, f->k + a->latent.kv_rank, wide, 1, a->latent.rotated,
                      cdz_arch_rope(a, layer));
    cdz_profile_mark(f->profile, CDZ_WORK_ATTENTION);
    b->api->kv_write(b, f->stack.store, cdz_layers_store(f, layer), f->k, wide, NULL, 0, f->rows,
                     f->m);
}

/* The parts of heads' queries that rotate, to their places; the others side by side, where attention's results will be. */
static void split_queries(cdz_layers *f, const cdz_latent_weights *w, const float *x, size_t ldx)
{
    const cdz_arch *a = f->stack.arch;
    const size_t wide = (size_t)a->n_heads * a->head_dim, plain = a->latent.plain;
    for (size_t first = 0; first < a->n_heads; first += AT_ONCE) {
        cdz_product set[2 * AT_ONCE];
        size_t n = 0;
        for (size_t h = first; h < a->n_heads && h < first + AT_ONCE; h++) {
            set[n] = cdz_layers_product(&w->q_plain[h], f->mixed + h * plain);
            set[n++].ldy = a->n_heads * plain;
            set[n] =
                cdz_layers_product(&w->q_rotated[h], f->q + h * a->head_dim + a->latent.kv_rank);
            set[n++].ldy = wide;
        }
        f->backend->api->matmul(f->backend, set, n, x, ldx, f->m);
    }
}

static void ask(cdz_layers *f, uint32_t layer, const float *x)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_latent_weights *w = f->stack.layers[layer].latent;
    const size_t wide = (size_t)a->n_heads * a->head_dim, plain = a->latent.plain;
    size_t ldx = a->hidden;
    cdz_backend *b = f->backend;
    cdz_profile_mark(f->profile, CDZ_WORK_MATMUL);
    if (w->q_a.w.data) {
        const cdz_product narrow = cdz_layers_product(&w->q_a, f->v);
        b->api->matmul(b, &narrow, 1, x, ldx, f->m);
        ldx = a->latent.q_rank;
        norm(f, f->v, ldx, &w->q_a_norm);
        x = f->v;
    }
    split_queries(f, w, x, ldx);
    cdz_layers_rotate(f, f->q + a->latent.kv_rank, wide, a->n_heads, a->head_dim,
                      cdz_arch_rope(a, layer));
    for (size_t h = 0; h < a->n_heads; h++) {
        cdz_product up = cdz_layers_product(&w->k_up[h], f->q + h * a->head_dim);
        up.ldy = wide;
        b->api->matmul(b, &up, 1, f->mixed + h * plain, a->n_heads * plain, f->m);
    }
}

void cdz_latent_project(cdz_layers *f, uint32_t layer, const float *x, bool queries, bool keys)
{
    if (queries) ask(f, layer, x);
    if (keys) keep(f, layer, x);
}

size_t cdz_latent_values(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = f->stack.arch;
    const cdz_latent_weights *w = f->stack.layers[layer].latent;
    const size_t rank = a->latent.kv_rank, wide = (size_t)a->n_heads * a->latent.value;
    for (size_t h = 0; h < a->n_heads; h++) {
        cdz_product up = cdz_layers_product(&w->v_up[h], f->q + h * a->latent.value);
        up.ldy = wide;
        f->backend->api->matmul(f->backend, &up, 1, f->mixed + h * rank, a->n_heads * rank, f->m);
    }
    return wide;
}
