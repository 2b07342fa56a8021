/* attention_weights.c - the weights that attention gives to positions, for those who want to see them. One row at a
 * time, in plain C: ref_attention.c's scores and softmax, divided by their sum. */
#include <math.h>
#include <string.h>

#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"

static float score(const cdz_kv *kv, const void *head, const float *q, size_t within)
{
    const cdz_kv_shape *shape = &kv->shape;
    float s = 0.0f;
    for (size_t d = 0; d < shape->head_dim; d++) {
        const cdz_kv_place key = cdz_kv_key(shape->type, shape->head_dim, within, d);
        s = fmaf(cdz_kv_read(shape->type, head, key), q[d], s);
    }
    return s;
}

static void softmax(float *s, size_t n)
{
    float largest = s[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++) largest = s[i] > largest ? s[i] : largest;
    for (size_t i = 0; i < n; i++) sum += s[i] = cdz_exp(s[i] - largest);
    for (size_t i = 0; i < n; i++) s[i] /= sum;
}

void cdz_cpu_attention_weights(cdz_backend *b, float *out, size_t ldo, const float *q,
                               const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                               const cdz_attention *how)
{
    (void)b;
    const size_t dim = kv->shape.head_dim, group = how->n_heads / kv->shape.n_kv_heads;
    const size_t own = (size_t)row->position + 1, end = own + row->ahead;
    const size_t begin = how->window && own > how->window ? own - how->window : 0;
    for (size_t h = 0; h < how->n_heads; h++) {
        const char *base =
            (const char *)kv->memory + (layer * kv->shape.n_kv_heads + h / group) * kv->head_bytes;
        float *to = out + h * ldo;
        memset(to, 0, begin * sizeof *to);
        for (size_t p = begin; p < end; p++) {
            const void *head = base + (size_t)row->blocks[p / CDZ_KV_BLOCK] * kv->block_bytes;
            float s = score(kv, head, q + h * dim, p % CDZ_KV_BLOCK) * how->scale;
            if (how->bias)
                s += how->bias[h * how->bias_stride + how->bias_zero + p - row->position];
            to[p] = how->soft_cap != 0.0f ? cdz_soft_cap(s, how->soft_cap) : s;
        }
        softmax(to + begin, end - begin);
    }
}
