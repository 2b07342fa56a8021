/* capture.c - writes down hidden states and attention weights of a pass's rows, for those who want to see them.
 *
 * A pass knows positions, whoever looks counts slots: places that a mask hides stay as they were, which is zero. */
#include <string.h>

#include "run/layers.h"
#include "run/sequence.h"

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
        memcpy(c->hidden[index] + ((size_t)c->row * c->n_queries + f->seen[r].query) * D, x + r * D,
               D * sizeof *x);
    }
}

/* From positions to slots: the p-th visible slot takes weights[p]. */
static void spread(float *to, const float *weights, const uint8_t *mask, uint32_t n_masked,
                   uint32_t n_slots)
{
    for (uint32_t slot = 0, p = 0; slot < n_slots; slot++)
        if (!mask || slot >= n_masked || mask[slot]) to[slot] = weights[p++];
}

/* The place of a row's head in (rows, heads, n_queries, n_keys). */
static float *place_of(const seen_row *seen, float *tensor, size_t n_heads, size_t head,
                       size_t n_keys)
{
    const cdz_capture *c = seen->capture;
    return tensor + ((c->row * n_heads + head) * c->n_queries + seen->query) * n_keys;
}

void cdz_layers_see_attention(cdz_layers *f, uint32_t layer, const cdz_attention *how)
{
    const size_t wide = how->n_heads * f->stack.arch->head_dim;
    for (uint32_t r = 0; r < f->m; r++) {
        const seen_row *seen = &f->seen[r];
        const cdz_capture *c = seen->capture;
        if (!c || !c->attentions) continue;
        const size_t ld = (size_t)f->rows[r].position + 1 + f->rows[r].ahead;
        f->backend->api->attention_weights(f->backend, c->room, ld, f->q + r * wide, f->stack.store,
                                           f->stack.one_layer ? 0 : layer, &f->rows[r], how);
        for (size_t h = 0; h < how->n_heads; h++)
            spread(place_of(seen, c->attentions[layer], how->n_heads, h, c->n_keys),
                   c->room + h * ld, seen->mask, seen->n_masked, seen->n_slots);
    }
}

void cdz_layers_see_cross(cdz_layers *f, uint32_t layer, const cdz_attention *how)
{
    const size_t wide = how->n_heads * f->stack.arch->head_dim;
    for (uint32_t r = 0; r < f->m; r++) {
        const seen_row *seen = &f->seen[r];
        const cdz_capture *c = seen->capture;
        if (!c || !c->cross) continue;
        const cdz_encoded *source = seen->source;
        const size_t ld = source->n_visible;
        f->backend->api->attention_weights(f->backend, c->room, ld, f->q + r * wide, f->stack.store,
                                           layer, &f->sources[r], how);
        for (size_t h = 0; h < how->n_heads; h++)
            spread(place_of(seen, c->cross[layer], how->n_heads, h, source->n), c->room + h * ld,
                   source->mask, source->n, source->n);
    }
}
