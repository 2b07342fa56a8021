/* capture.c - writes down hidden states and attention weights of a pass's rows, for those who want to see them.
 *
 * A pass knows positions, whoever looks counts slots: places that a mask hides stay as they were, which is zero. */
#include "run/pass/layers.h"
#include "run/pass/sequence.h"

void cdz_layers_see_row(cdz_layers *f, const cdz_capture *c, const cdz_seq *seq, uint32_t slot)
{
    const bool seen = c && slot >= c->first && slot - c->first < c->n_queries;
    f->any_seen |= seen;
    f->seen[f->m] = (seen_row){.capture = seen ? c : NULL,
                               .query = seen ? slot - c->first : 0,
                               .n_slots = slot + 1,
                               .mask = seq->mask,
                               .n_masked = seq->mask_len,
                               .source = seq->source};
}

void cdz_layers_see_hidden(cdz_layers *f, uint32_t index, const float *x)
{
    const size_t D = f->stack.arch->hidden;
    for (uint32_t r = 0; r < f->m; r++) {
        const cdz_capture *c = f->seen[r].capture;
        if (!c || !c->hidden) continue;
        f->backend->api->download(
            f->backend, c->hidden[index] + ((size_t)c->row * c->n_queries + f->seen[r].query) * D,
            x + r * D, D * sizeof *x);
    }
}

/* What the rows of a pass are looked at with; a task for each row, on the backend's threads. */
typedef struct looking {
    cdz_layers *f;
    const cdz_attention *how;
    uint32_t layer, store_layer;
    bool cross;
} looking;

/* From positions to slots, in place: the p-th visible slot takes to[p], the others 0. n: visible ones. */
static void spread(float *to, size_t n, const uint8_t *mask, uint32_t n_masked, uint32_t n_slots)
{
    for (uint32_t slot = n_slots; slot-- > 0;)
        to[slot] = !mask || slot >= n_masked || mask[slot] ? to[--n] : 0.0f;
}

/* Weights of a row's heads, into (rows, heads, n_queries, n_keys). */
static void look(void *arg, size_t r)
{
    const looking *l = arg;
    const cdz_layers *f = l->f;
    const seen_row *seen = &f->seen[r];
    const cdz_capture *c = seen->capture;
    if (!c || !(l->cross ? c->cross : c->attentions)) return;
    const cdz_encoded *source = seen->source;
    const cdz_kv_row *row = l->cross ? &f->sources[r] : &f->rows[r];
    const size_t n_keys = l->cross ? source->n : c->n_keys, heads = l->how->n_heads;
    const size_t ld = c->n_queries * n_keys, n_visible = (size_t)row->position + 1 + row->ahead;
    float *tensor = (l->cross ? c->cross : c->attentions)[l->layer];
    if (!tensor) return;
    float *to = tensor + (c->row * heads * c->n_queries + seen->query) * n_keys;
    cdz_attention how = *l->how;
    if (!l->cross) how.window = cdz_layers_window(f, l->layer, (uint32_t)r);
    how.packed = f->any_packed ? f->packed[r] : NULL;
    how.packed_blocks = how.packed ? f->spans_of + r : NULL;
    f->backend->api->attention_weights(f->backend, to, ld,
                                       f->q + r * heads * f->stack.arch->head_dim, f->stack.store,
                                       l->store_layer, row, &how);
    for (size_t h = 0; h < heads && !c->by_entry; h++)
        if (l->cross)
            spread(to + h * ld, n_visible, source->mask, source->n, source->n);
        else
            spread(to + h * ld, n_visible, seen->mask, seen->n_masked, seen->n_slots);
}

/* A device does one thing at a time. */
static void look_all(looking *l)
{
    cdz_backend *b = l->f->backend;
    if (b->api->host_memory)
        b->api->parallel(b, look, l, l->f->m);
    else
        for (uint32_t r = 0; r < l->f->m; r++) look(l, r);
}

void cdz_layers_see_attention(cdz_layers *f, uint32_t layer, const cdz_attention *how)
{
    looking l = {f, how, layer, cdz_layers_store(f, layer), false};
    look_all(&l);
}

void cdz_layers_see_cross(cdz_layers *f, uint32_t layer, const cdz_attention *how)
{
    looking l = {f, how, layer, layer, true};
    look_all(&l);
}
