/* ref_attention.c - attention of one query head over a paged sequence, the definition.
 *
 * score(p) = (sum over d ascending, by fused multiply-add from +0, of k[p][d] * q[d]) * scale,
 *            plus bias[p] where there is one, drawn into (-cap, cap) by tanh(score / cap) * cap where there is a soft cap
 * weight(p) = exp(score(p) - largest score), a sink's score counting too
 * sum = 8 lanes, lane p mod 8 takes its positions ascending, folded 8->4 and (s0+s1)+(s2+s3)
 *       then exp(sink - largest score) where there is a sink
 * out[d] = (sum over p ascending, by fused multiply-add from +0, of weight(p) * v[p][d]) / sum,
 *          as a product with 1 / sum
 *
 * k and v are what the store holds, widened exactly, and v the beginning of k where only keys are kept; of positions below n_packed what the packed store says (kernels.h).
 * Lanes and order hang on absolute positions only. */
#include "ref/kv_layout.h"
#include "ref/kv_packed.h"
#include "ref/ref.h"
#include "ref/scalar_math.h"

/* This layer's and kv head's part of the block that holds a position. */
static const void *head_of(const cdz_attend *tile, size_t position)
{
    return (const char *)tile->base +
           (size_t)tile->blocks[position / CDZ_KV_BLOCK] * tile->block_stride;
}

/* Likewise of the packed span that holds a position. */
static const char *packed_head(const cdz_attend *tile, size_t position)
{
    return (const char *)tile->packed_base +
           (size_t)tile->packed_blocks[position / tile->span] * tile->packed_stride;
}

static float key_at(const cdz_attend *tile, size_t position, size_t d)
{
    const size_t dim = tile->head_dim;
    if (position >= tile->n_packed)
        return cdz_kv_read(tile->type, head_of(tile, position),
                           cdz_kv_key(tile->type, dim, position % CDZ_KV_BLOCK, d));
    const cdz_packed_side side = cdz_packed_keys(tile->packing, dim);
    return cdz_packed_read(tile->packing, &side, packed_head(tile, position),
                           cdz_packed_key(&side, tile->span, dim, position % tile->span, d));
}

static float value_at(const cdz_attend *tile, size_t position, size_t d)
{
    const size_t dim = tile->head_dim;
    if (tile->latents) return key_at(tile, position, d);
    if (position >= tile->n_packed)
        return cdz_kv_read(tile->type, head_of(tile, position),
                           cdz_kv_value(tile->type, dim, position % CDZ_KV_BLOCK, d));
    const cdz_packed_side side = cdz_packed_values(tile->packing, dim);
    return cdz_packed_read(tile->packing, &side, packed_head(tile, position),
                           cdz_packed_value(&side, dim, position % tile->span, d));
}

static float score(const cdz_attend *tile, const cdz_attend_query *query, size_t position)
{
    float s = 0.0f;
    for (size_t d = 0; d < tile->head_dim; d++) s = fmaf(key_at(tile, position, d), query->q[d], s);
    s *= tile->scale;
    if (query->bias) s += query->bias[position];
    return tile->soft_cap != 0.0f ? cdz_soft_cap(s, tile->soft_cap) : s;
}

/* Scores to weights, in place; returns 1 / sum. Element i is position begin + i. */
static float softmax(float *s, const float *sink, size_t begin, size_t n)
{
    float largest = s[0], lanes[CDZ_POSITION_GROUP] = {0};
    for (size_t i = 1; i < n; i++) largest = s[i] > largest ? s[i] : largest;
    if (sink && *sink > largest) largest = *sink;
    for (size_t i = 0; i < n; i++) {
        s[i] = cdz_exp(s[i] - largest);
        lanes[(begin + i) % CDZ_POSITION_GROUP] += s[i];
    }
    for (size_t l = 0; l < 4; l++) lanes[l] += lanes[l + 4];
    const float sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    return 1.0f / (sink ? sum + cdz_exp(*sink - largest) : sum);
}

static void attend_one(const cdz_attend *tile, const cdz_attend_query *query)
{
    const size_t n = query->end - query->begin, dim = tile->value_dim;
    float *weights = tile->scores, *out = query->out;

    for (size_t i = 0; i < n; i++) weights[i] = score(tile, query, query->begin + i);
    const float inverse = softmax(weights, query->sink, query->begin, n);

    for (size_t d = 0; d < dim; d++) out[d] = 0.0f;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < dim; d++)
            out[d] = fmaf(weights[i], value_at(tile, query->begin + i, d), out[d]);
    for (size_t d = 0; d < dim; d++) out[d] *= inverse;
}

void cdz_ref_attend(const cdz_attend *tile)
{
    for (size_t i = 0; i < tile->n_queries; i++) attend_one(tile, &tile->query[i]);
}
