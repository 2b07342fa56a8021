/* encode.c - runs the encoder of a pair over prompts, and makes of its output the keys and values that the decoder's
 * layers will read.
 *
 * Every position sees every other one, so all of a prompt goes through a layer before any of it goes through the next:
 * activations of whole prompts are kept, and the sublayers work on at most CDZ_PASS_ROWS rows of them at a time. Keys
 * and values of the encoder's own attention live for one layer. Several prompts run together where there is room; a
 * row's bits hang on its own prompt alone. */
#include <stdlib.h>
#include <string.h>

#include "run/pass/layers.h"
#include "run/pass/sequence.h"

enum { LEAST_BLOCKS = CDZ_PASS_ROWS / CDZ_KV_BLOCK };

struct cdz_encoder {
    cdz_layer_stack stack;
    cdz_relative relative;
    uint32_t cap; /* blocks; the arrays have room for as many positions */

    float *x;             /* (n, D) */
    const float **embeds; /* (n) in place of the id's embedding, or NULL */
    int32_t *ids;         /* (n) */
    uint32_t *positions;  /* (n) */
    cdz_kv_row *rows;     /* (n) in the encoder's store */
    cdz_kv_row *targets;  /* (n) in the decoder's */
    seen_row *seen;       /* (n) */
    bool any_seen;
    int32_t *blocks;      /* (cap) 0, 1, 2, ... */
    uint32_t n, n_blocks; /* taken by the prompts that run */
};

cdz_status cdz_encoder_create(cdz_layers *f, cdz_error *err)
{
    cdz_encoder *e = calloc(1, sizeof *e);
    if (!e) return cdz_err_memory(err, "the encoder");
    e->stack = (cdz_layer_stack){.arch = f->own.arch->encoder,
                                 .layers = f->weights->encoder.layers,
                                 .one_layer = true,
                                 .relative = &e->relative};
    f->encoder = e;
    return CDZ_OK;
}

static void free_room(cdz_layers *f)
{
    cdz_encoder *e = f->encoder;
    cdz_backend *b = f->backend;
    if (e->stack.store) b->api->kv_destroy(b, e->stack.store);
    if (e->x) b->api->free(b, e->x);
    e->stack.store = NULL;
    e->x = NULL;
    free(e->ids);
    free(e->embeds);
    free(e->positions);
    free(e->rows);
    free(e->targets);
    free(e->seen);
    free(e->blocks);
    e->ids = NULL;
    e->embeds = NULL;
    e->positions = NULL;
    e->rows = e->targets = NULL;
    e->seen = NULL;
    e->blocks = NULL;
    e->cap = 0;
}

void cdz_encoder_free(cdz_layers *f)
{
    if (!f->encoder) return;
    free_room(f);
    cdz_relative_free(&f->encoder->relative, f->backend);
    free(f->encoder);
}

static bool make_room(cdz_layers *f, uint32_t cap)
{
    cdz_encoder *e = f->encoder;
    cdz_backend *b = f->backend;
    const cdz_arch *a = e->stack.arch;
    const size_t n = (size_t)cap * CDZ_KV_BLOCK;
    const cdz_kv_shape shape = {1, a->n_kv_heads, a->head_dim, CDZ_F32, 0};
    size_t bytes;
    if (__builtin_mul_overflow(n, a->hidden * sizeof(float), &bytes)) return false;
    e->x = b->api->alloc(b, bytes);
    e->stack.store = b->api->kv_create(b, &shape, cap);
    e->ids = calloc(n, sizeof *e->ids);
    e->embeds = calloc(n, sizeof *e->embeds);
    e->positions = calloc(n, sizeof *e->positions);
    e->rows = calloc(n, sizeof *e->rows);
    e->targets = calloc(n, sizeof *e->targets);
    e->seen = calloc(n, sizeof *e->seen);
    e->blocks = calloc(cap, sizeof *e->blocks);
    if (!e->x || !e->stack.store || !e->ids || !e->embeds || !e->positions || !e->rows ||
        !e->targets || !e->seen || !e->blocks)
        return false;
    for (uint32_t i = 0; i < cap; i++) e->blocks[i] = (int32_t)i;
    e->cap = cap;
    return true;
}

cdz_status cdz_layers_expect(cdz_layers *f, const cdz_encoded *source, cdz_error *err)
{
    cdz_encoder *e = f->encoder;
    const uint32_t need = cdz_kv_blocks_for(source->n_visible);
    if (e->stack.arch->buckets.n)
        CDZ_TRY(cdz_relative_reach(&e->relative, f->backend, e->stack.arch,
                                   &f->weights->encoder.relative, true, source->n_visible, err));
    if (need <= e->cap) return CDZ_OK;
    free_room(f);
    if (make_room(f, need > LEAST_BLOCKS ? need : LEAST_BLOCKS)) return CDZ_OK;
    free_room(f);
    return cdz_err(err, CDZ_E_NOMEM, "out of memory to encode a prompt of %u tokens",
                   (unsigned)source->n_visible);
}

/* --- gathering ---------------------------------------------------------------------------------------------------- */

static void take(cdz_encoder *e, cdz_encoded *source)
{
    const int32_t *blocks = e->blocks + e->n_blocks;
    uint32_t p = 0, placed = 0;
    for (uint32_t i = 0; i < source->n; i++) {
        const uint32_t place = placed;
        placed +=
            !source->ids || source->embeds || source->ids[i] != e->stack.arch->placing.unplaced;
        if (source->mask && !source->mask[i]) continue;
        e->ids[e->n] = source->ids ? source->ids[i] : 0;
        e->embeds[e->n] = source->embeds ? source->embeds + (size_t)i * e->stack.arch->hidden : NULL;
        e->positions[e->n] = e->stack.arch->hidden_count ? place : p;
        e->rows[e->n] = (cdz_kv_row){blocks, p, source->n_visible - 1 - p, NULL};
        e->targets[e->n] = (cdz_kv_row){source->blocks, p, 0, NULL};
        e->seen[e->n] = (seen_row){source->capture, i, source->n, source->mask, source->n, NULL};
        e->any_seen |= source->capture != NULL;
        e->n++;
        p++;
    }
    e->n_blocks += cdz_kv_blocks_for(source->n_visible);
    source->ready = true;
}

/* Takes what fits of the prompts that are still to be encoded; false: there are none. */
static bool gather(cdz_encoder *e, cdz_want *const *wants, uint32_t n)
{
    e->n = e->n_blocks = 0;
    e->any_seen = false;
    for (uint32_t w = 0; w < n; w++)
        for (uint32_t i = 0; i < wants[w]->n_seqs; i++) {
            cdz_encoded *source = wants[w]->seqs[i].seq->source;
            if (!source || source->ready) continue;
            if (cdz_kv_blocks_for(source->n_visible) <= e->cap - e->n_blocks) take(e, source);
        }
    return e->n > 0;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* The layers work on rows from `first` on. */
static void load(cdz_layers *f, uint32_t first)
{
    const cdz_encoder *e = f->encoder;
    f->m = e->n - first < CDZ_PASS_ROWS ? e->n - first : CDZ_PASS_ROWS;
    f->x = e->x + (size_t)first * e->stack.arch->hidden;
    memcpy(f->ids, e->ids + first, f->m * sizeof *f->ids);
    memcpy(f->embeds, e->embeds + first, f->m * sizeof *f->embeds);
    f->any_embeds = true;
    memcpy(f->positions, e->positions + first, f->m * sizeof *f->positions);
    memcpy(f->rows, e->rows + first, f->m * sizeof *f->rows);
    memcpy(f->seen, e->seen + first, f->m * sizeof *f->seen);
    f->any_seen = e->any_seen;
    f->any_edited = false;
}

/* Keys and values of all rows first: any row may read any of its prompt. */
static void run_layer(cdz_layers *f, uint32_t layer)
{
    const uint32_t n = f->encoder->n;
    const bool apart = n > CDZ_PASS_ROWS;
    for (uint32_t i = 0; apart && i < n; i += CDZ_PASS_ROWS) {
        load(f, i);
        cdz_layers_project(f, layer, false, true);
    }
    for (uint32_t i = 0; i < n; i += CDZ_PASS_ROWS) {
        load(f, i);
        if (f->any_seen) cdz_layers_see_hidden(f, layer, f->x);
        cdz_layers_project(f, layer, true, !apart);
        cdz_layers_finish(f, layer);
    }
}

/* The keys and values that the decoder's layers read, of the rows from `first` on. */
static void deliver(cdz_layers *f, uint32_t first)
{
    const cdz_arch *a = f->own.arch;
    const size_t narrow = (size_t)a->n_kv_heads * a->head_dim;
    cdz_backend *b = f->backend;
    load(f, first);
    if (f->weights->encoder.final_norm.w.data)
        cdz_layers_norm(f, f->x, f->x, f->m, &f->weights->encoder.final_norm);
    if (f->any_seen) cdz_layers_see_hidden(f, f->stack.arch->n_layers, f->x);
    for (uint32_t layer = 0; layer < a->n_layers; layer++) {
        const cdz_layer_weights *w = &f->own.layers[layer];
        const cdz_product kv[] = {cdz_layers_product(&w->cross_k, f->k),
                                  cdz_layers_product(&w->cross_v, f->v)};
        b->api->matmul(b, kv, 2, f->x, a->hidden, f->m);
        b->api->kv_write(b, f->own.store, layer, f->k, narrow, f->v, narrow,
                         f->encoder->targets + first, f->m);
    }
}

static void encode(cdz_layers *f)
{
    const cdz_encoder_weights *w = &f->weights->encoder;
    const uint32_t n = f->encoder->n;
    float *own_x = f->x;
    f->stack = f->encoder->stack;
    for (uint32_t i = 0; i < n; i += CDZ_PASS_ROWS) {
        load(f, i);
        cdz_layers_embed(f, &w->embed, &w->positions, &w->embed_norm);
    }
    for (uint32_t layer = 0; layer < f->stack.arch->n_layers; layer++) run_layer(f, layer);
    for (uint32_t i = 0; i < n; i += CDZ_PASS_ROWS) deliver(f, i);
    f->stack = f->own;
    f->x = own_x;
}

uint32_t cdz_encoder_run(cdz_layers *f, cdz_want *const *wants, uint32_t n)
{
    uint32_t total = 0;
    while (gather(f->encoder, wants, n)) {
        total += f->encoder->n;
        encode(f);
    }
    return total;
}
