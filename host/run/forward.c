/* forward.c - gathers rows of wants into one pass, runs the layers, delivers the scores.
 *
 * Shapes: m rows in the pass; D hidden, H query heads, G key-value heads, d head_dim, F intermediate, V vocabulary. */
#include "run/forward.h"

#include <stdlib.h>
#include <string.h>

#include "run/model.h"
#include "run/sequence.h"

enum {
    HEAD_ROWS = 32, /* score rows made at a time when they go to different places */
    SHORT = 8,      /* a want with no more rows than this is served before prompts */
};

/* Where one row's scores go. */
typedef struct head_row {
    uint32_t row; /* of the pass */
    float *to;    /* (V) */
} head_row;

struct cdz_layers {
    cdz_backend *backend;
    const cdz_weights *weights;
    cdz_kv *store;

    float *x, *normed; /* (m, D) the residual stream; what a sublayer reads or gives */
    float *q, *mixed;  /* (m, H d) */
    float *k, *v;      /* (m, G d) */
    float *gate, *up;  /* (m, F) */
    float *ends;       /* (HEAD_ROWS, D) rows whose scores are wanted, side by side */
    float *scores;     /* (HEAD_ROWS, V) */
    int32_t ids[CDZ_PASS_ROWS];
    uint32_t positions[CDZ_PASS_ROWS];
    cdz_kv_row rows[CDZ_PASS_ROWS];
    head_row heads[CDZ_PASS_ROWS];
    uint32_t m, n_heads;
};

static float *floats(cdz_backend *b, size_t rows, size_t columns)
{
    size_t n;
    if (__builtin_mul_overflow(rows, columns, &n) || n > SIZE_MAX / sizeof(float)) return NULL;
    return b->api->alloc(b, n * sizeof(float));
}

cdz_status cdz_layers_create(cdz_backend *backend, const cdz_weights *weights, cdz_kv_pool *pool,
                             cdz_layers **out, cdz_error *err)
{
    const cdz_arch *a = &weights->arch;
    const size_t m = CDZ_PASS_ROWS, wide = (size_t)a->n_heads * a->head_dim;
    const size_t narrow = (size_t)a->n_kv_heads * a->head_dim;
    cdz_layers *f = calloc(1, sizeof *f);
    if (!f) return cdz_err(err, CDZ_E_NOMEM, "out of memory for activations");
    f->backend = backend;
    f->weights = weights;
    f->store = cdz_kv_pool_store(pool);
    f->x = floats(backend, m, a->hidden);
    f->normed = floats(backend, m, a->hidden);
    f->q = floats(backend, m, wide);
    f->mixed = floats(backend, m, wide);
    f->k = floats(backend, m, narrow);
    f->v = floats(backend, m, narrow);
    f->gate = floats(backend, m, a->intermediate);
    f->up = floats(backend, m, a->intermediate);
    f->ends = floats(backend, HEAD_ROWS, a->hidden);
    f->scores = floats(backend, HEAD_ROWS, a->n_vocab);
    if (!f->x || !f->normed || !f->q || !f->mixed || !f->k || !f->v || !f->gate || !f->up ||
        !f->ends || !f->scores) {
        cdz_layers_free(f);
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for activations of %d rows", CDZ_PASS_ROWS);
    }
    *out = f;
    return CDZ_OK;
}

void cdz_layers_free(cdz_layers *f)
{
    if (!f) return;
    float *const all[] = {f->x, f->normed, f->q,  f->mixed, f->k,
                          f->v, f->gate,   f->up, f->ends,  f->scores};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) f->backend->api->free(f->backend, all[i]);
    free(f);
}

/* --- gathering ------------------------------------------------------------------------------------------ */

void cdz_want_begin(cdz_want *want)
{
    want->at = 0;
    want->rows_left = 0;
    for (uint32_t i = 0; i < want->n_seqs; i++) {
        const cdz_seq *seq = want->seqs[i].seq;
        want->rows_left += cdz_seq_visible(seq) - seq->computed;
    }
}

/* Notes where position p of a sequence sends its scores, if anywhere. */
static void want_scores(cdz_layers *f, const cdz_want *want, const cdz_want_seq *ws, uint32_t p,
                        uint32_t visible)
{
    if (want->positions == CDZ_POSITIONS_NONE) return;
    if (want->positions == CDZ_POSITIONS_LAST && p + 1 != visible) return;
    int64_t row = ws->row0;
    if (want->positions == CDZ_POSITIONS_ALL) row += want->by_index ? cdz_seq_index(ws->seq, p) : p;
    f->heads[f->n_heads++] = (head_row){f->m, want->out + (size_t)row * want->stride};
}

/* Takes up to the pass's room of a sequence's missing positions. Its cache counts them at once: nothing reads the
 * count before the pass has run. True when none is missing any more. */
static bool take_rows(cdz_layers *f, cdz_want *want, const cdz_want_seq *ws)
{
    cdz_seq *seq = ws->seq;
    const uint32_t visible = cdz_seq_visible(seq);
    uint32_t index = seq->computed < visible ? cdz_seq_index(seq, seq->computed) : 0;
    while (seq->computed < visible && f->m < CDZ_PASS_ROWS) {
        const uint32_t p = seq->computed++;
        while (index < seq->mask_len && !seq->mask[index]) index++;
        f->ids[f->m] = seq->ids[index++];
        f->positions[f->m] = p;
        f->rows[f->m] = (cdz_kv_row){seq->blocks, p};
        want_scores(f, want, ws, p, visible);
        f->m++;
        want->rows_left--;
    }
    return seq->computed == visible;
}

static void gather(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    f->m = f->n_heads = 0;
    for (int prompts = 0; prompts < 2; prompts++)
        for (uint32_t i = 0; i < n && f->m < CDZ_PASS_ROWS; i++) {
            cdz_want *want = wants[i];
            if (!prompts && want->rows_left > SHORT) continue;
            while (want->at < want->n_seqs && take_rows(f, want, &want->seqs[want->at])) want->at++;
        }
}

/* --- the layers ----------------------------------------------------------------------------------------- */

static cdz_product product(const cdz_linear *l, float *y)
{
    return (cdz_product){&l->w, l->bias.data ? &l->bias : NULL, y, l->w.n};
}

/* x += o(attention(rope(q), rope(k), v)) of the normed x. */
static void attend(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = &f->weights->arch;
    const cdz_layer_weights *w = &f->weights->layers[layer];
    cdz_backend *b = f->backend;
    const cdz_backend_api *api = b->api;
    const size_t D = a->hidden, wide = (size_t)a->n_heads * a->head_dim;
    const size_t narrow = (size_t)a->n_kv_heads * a->head_dim, m = f->m;

    api->rmsnorm(b, f->normed, D, f->x, D, m, &w->attn_norm, a->norm_eps, a->norm_offset);
    const cdz_product qkv[] = {product(&w->q, f->q), product(&w->k, f->k), product(&w->v, f->v)};
    api->matmul(b, qkv, 3, f->normed, D, m);
    api->rope(b, f->q, wide, m, a->n_heads, a->head_dim, f->positions, &a->rope);
    api->rope(b, f->k, narrow, m, a->n_kv_heads, a->head_dim, f->positions, &a->rope);
    api->kv_write(b, f->store, layer, f->k, narrow, f->v, narrow, f->rows, m);
    api->attention(b, f->mixed, wide, f->q, wide, f->store, layer, f->rows, m, a->n_heads,
                   a->attention_scale, 0.0f, a->window[layer]);
    const cdz_product o = product(&w->o, f->normed);
    api->matmul(b, &o, 1, f->mixed, wide, m);
    api->add(b, f->x, D, f->normed, D, m, D);
}

/* x += down(silu(gate) * up) of the normed x. */
static void feed(cdz_layers *f, uint32_t layer)
{
    const cdz_arch *a = &f->weights->arch;
    const cdz_layer_weights *w = &f->weights->layers[layer];
    cdz_backend *b = f->backend;
    const cdz_backend_api *api = b->api;
    const size_t D = a->hidden, F = a->intermediate, m = f->m;

    api->rmsnorm(b, f->normed, D, f->x, D, m, &w->mlp_norm, a->norm_eps, a->norm_offset);
    const cdz_product halves[] = {product(&w->gate, f->gate), product(&w->up, f->up)};
    api->matmul(b, halves, 2, f->normed, D, m);
    api->silu_mul(b, f->gate, F, f->gate, f->up, F, m, F);
    const cdz_product down = product(&w->down, f->normed);
    api->matmul(b, &down, 1, f->gate, F, m);
    api->add(b, f->x, D, f->normed, D, m, D);
}

/* --- scores --------------------------------------------------------------------------------------------- */

/* True when n rows go to evenly spaced places, *ld floats apart: then the product may write there itself. */
static bool evenly_spaced(const head_row *heads, uint32_t n, size_t n_vocab, size_t *ld)
{
    *ld = n_vocab;
    if (n == 1) return true;
    const ptrdiff_t step = heads[1].to - heads[0].to;
    if (step < (ptrdiff_t)n_vocab) return false;
    for (uint32_t i = 2; i < n; i++)
        if (heads[i].to - heads[i - 1].to != step) return false;
    *ld = (size_t)step;
    return true;
}

/* Final norm and head of n <= HEAD_ROWS rows. */
static void score_rows(cdz_layers *f, const head_row *heads, uint32_t n)
{
    const cdz_arch *a = &f->weights->arch;
    cdz_backend *b = f->backend;
    const size_t D = a->hidden, V = a->n_vocab;
    for (uint32_t i = 0; i < n; i++)
        memcpy(f->ends + i * D, f->x + heads[i].row * D, D * sizeof(float));
    b->api->rmsnorm(b, f->ends, D, f->ends, D, n, &f->weights->final_norm, a->norm_eps,
                    a->norm_offset);
    size_t ld;
    const bool direct = evenly_spaced(heads, n, V, &ld);
    cdz_product head = product(&f->weights->head, direct ? heads[0].to : f->scores);
    head.ldy = ld;
    b->api->matmul(b, &head, 1, f->ends, D, n);
    b->api->sync(b);
    for (uint32_t i = 0; !direct && i < n; i++)
        memcpy(heads[i].to, f->scores + i * V, V * sizeof(float));
}

uint32_t cdz_layers_pass(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    const cdz_arch *a = &f->weights->arch;
    gather(f, wants, n);
    if (f->m == 0) return 0;
    f->backend->api->embed(f->backend, f->x, a->hidden, &f->weights->embed, f->ids, f->m);
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        attend(f, layer);
        feed(f, layer);
    }
    for (uint32_t i = 0; i < f->n_heads; i += HEAD_ROWS) {
        const uint32_t left = f->n_heads - i;
        score_rows(f, f->heads + i, left < HEAD_ROWS ? left : HEAD_ROWS);
    }
    return f->m;
}
