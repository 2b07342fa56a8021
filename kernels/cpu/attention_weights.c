/* attention_weights.c - the weights that attention gives to positions, for those who want to see them. One row at a
 * time, in plain C: ref_attention.c's scores and softmax, divided by their sum. */
#include <math.h>
#include <string.h>

#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"
#include "ref/kv_packed.h"

/* A row and the head of its sequence that is looked at. */
typedef struct looked_at {
    const cdz_kv *kv;
    const cdz_kv_row *row;
    size_t head; /* of all layers */
    const cdz_kv *packed;
    const int32_t *packed_blocks;
    size_t n_packed;
} looked_at;

static float key_at(const looked_at *l, size_t p, size_t d)
{
    const cdz_kv_shape *shape = &l->kv->shape;
    if (p >= l->n_packed) {
        const char *block = (const char *)l->kv->memory +
                            (size_t)l->row->blocks[p / CDZ_KV_BLOCK] * l->kv->block_bytes;
        return cdz_kv_read(shape->type, block + l->head * l->kv->head_bytes,
                           cdz_kv_key(shape->type, shape->head_dim, p % CDZ_KV_BLOCK, d));
    }
    const size_t span = cdz_kv_span(&l->packed->packing), dim = shape->head_dim;
    const cdz_packed_side side = cdz_packed_keys(&l->packed->packing, dim);
    const char *block = (const char *)l->packed->memory +
                        (size_t)l->packed_blocks[p / span] * l->packed->block_bytes;
    return cdz_packed_read(&l->packed->packing, &side, block + l->head * l->packed->head_bytes,
                           cdz_packed_key(&side, span, dim, p % span, d));
}

static float score(const looked_at *l, const float *q, size_t p)
{
    float s = 0.0f;
    for (size_t d = 0; d < l->kv->shape.head_dim; d++) s = fmaf(key_at(l, p, d), q[d], s);
    return s;
}

/* The weight of a sink, where there is one, goes to no position. */
static void softmax(float *s, size_t n, const float *sink)
{
    float largest = s[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++) largest = s[i] > largest ? s[i] : largest;
    if (sink && *sink > largest) largest = *sink;
    for (size_t i = 0; i < n; i++) sum += s[i] = cdz_exp(s[i] - largest);
    if (sink) sum += cdz_exp(*sink - largest);
    for (size_t i = 0; i < n; i++) s[i] /= sum;
}

void cdz_cpu_attention_weights(cdz_backend *b, float *out, size_t ldo, const float *q,
                               const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                               const cdz_attention *how)
{
    (void)b;
    const size_t dim = kv->shape.head_dim, group = how->n_heads / kv->shape.n_kv_heads;
    looked_at l = {.kv = kv, .row = row, .packed = how->packed};
    if (how->packed) {
        l.packed_blocks = how->packed_blocks[0];
        l.n_packed = cdz_kv_packed_before(&how->packed->packing, row->position);
    }
    for (size_t h = 0; h < how->n_heads; h++) {
        const size_t at = cdz_cpu_entry(kv, layer, h / group, row), end = at + 1 + row->ahead;
        const size_t begin = how->window && at + 1 > how->window ? at + 1 - how->window : 0;
        l.head = layer * kv->shape.n_kv_heads + h / group;
        float *to = out + h * ldo;
        memset(to, 0, begin * sizeof *to);
        for (size_t p = begin; p < end; p++) {
            float s = score(&l, q + h * dim, p) * how->scale;
            if (how->bias) s += how->bias[h * how->bias_stride + how->bias_zero + p - at];
            to[p] = how->soft_cap != 0.0f ? cdz_soft_cap(s, how->soft_cap) : s;
        }
        softmax(to + begin, end - begin, how->sinks ? how->sinks + h : NULL);
    }
}
