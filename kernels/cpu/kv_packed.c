/* kv_packed.c - the memory of a packed key-value store and packing into it. attention.c reads it.
 *
 * It needs no waiting of its own: whoever reads it late goes by the name of the plain store beside it, and kv_write has waited for
 * the readers of a layer there before that layer is packed. */
#include <stdlib.h>

#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"
#include "ref/kv_packed.h"

enum { ALONE_FLOATS = 8192 };

static bool groups_fit(const cdz_kv_grouping *g, size_t dim)
{
    if (g->positions == 0 || g->positions > CDZ_KV_SPAN_MOST || g->dims == 0) return false;
    return dim % g->dims == 0 && (g->dims == 1 ? g->positions : g->dims) % CDZ_PACKED_RUN == 0;
}

static bool packing_fits(const cdz_kv_shape *shape, const cdz_kv_packing *p)
{
    const bool bits = (p->bits >= 1 && p->bits <= 4) || p->bits == 8;
    if (!bits || shape->type != CDZ_F32 || shape->head_dim % CDZ_PACKED_RUN) return false;
    return groups_fit(&p->keys, shape->head_dim) && groups_fit(&p->values, shape->head_dim) &&
           cdz_kv_span(p) <= CDZ_KV_SPAN_MOST;
}

static size_t head_bytes(const cdz_kv_shape *shape, const cdz_kv_packing *packing)
{
    return cdz_packed_values(packing, shape->head_dim).end;
}

size_t cdz_cpu_packed_block_bytes(cdz_backend *b, const cdz_kv_shape *shape,
                                  const cdz_kv_packing *packing)
{
    size_t n;
    /* What is packed is never larger than two plain spans of eight bytes a number. */
    if (cdz_cpu_kv_block_bytes(b, shape) == 0 || !packing_fits(shape, packing)) return 0;
    if (shape->head_dim > SIZE_MAX / (16 * CDZ_KV_SPAN_MOST)) return 0;
    if (__builtin_mul_overflow(shape->n_layers, shape->n_kv_heads, &n)) return 0;
    return __builtin_mul_overflow(n, head_bytes(shape, packing), &n) ? 0 : n;
}

cdz_kv *cdz_cpu_packed_create(cdz_backend *b, const cdz_kv_shape *shape,
                              const cdz_kv_packing *packing, size_t n_blocks)
{
    const size_t block_bytes = cdz_cpu_packed_block_bytes(b, shape, packing);
    size_t bytes;
    if (block_bytes == 0 || n_blocks == 0 || n_blocks > INT32_MAX) return NULL;
    if (__builtin_mul_overflow(block_bytes, n_blocks, &bytes)) return NULL;

    cdz_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv->packing = *packing;
    kv->n_blocks = n_blocks;
    kv->block_bytes = block_bytes;
    kv->head_bytes = head_bytes(shape, packing);
    return cdz_cpu_open_store(b, kv, bytes, n_blocks * cdz_kv_span(packing));
}

typedef struct pack_spans {
    cdz_kv *packed;
    const cdz_kv *kv;
    size_t layer, span;
    const cdz_kv_row *rows;
    const int32_t *const *packed_blocks;
    size_t m;
} pack_spans;

static bool ends_span(const pack_spans *p, size_t row)
{
    return (p->rows[row].position + 1) % p->span == 0;
}

static void pack_head(const pack_spans *p, size_t row, size_t head)
{
    const size_t n_heads = p->kv->shape.n_kv_heads, at = p->layer * n_heads + head;
    const size_t first = p->rows[row].position / p->span * p->span;
    const int32_t *blocks = p->rows[row].blocks + first / CDZ_KV_BLOCK;
    cdz_packed_source from = {.dim = p->kv->shape.head_dim};
    for (size_t i = 0; i < p->span / CDZ_KV_BLOCK; i++)
        from.blocks[i] = (const float *)(const void *)((const char *)p->kv->memory +
                                                       (size_t)blocks[i] * p->kv->block_bytes +
                                                       at * p->kv->head_bytes);
    char *to = (char *)p->packed->memory +
               (size_t)p->packed_blocks[row][first / p->span] * p->packed->block_bytes +
               at * p->packed->head_bytes;
    cdz_pack_span(&p->packed->packing, to, &from);
}

static void pack_row(void *arg, size_t i)
{
    const pack_spans *p = arg;
    const size_t n_heads = p->kv->shape.n_kv_heads;
    if (ends_span(p, i / n_heads)) pack_head(p, i / n_heads, i % n_heads);
}

void cdz_cpu_kv_pack(cdz_backend *b, cdz_kv *packed, const cdz_kv *kv, size_t layer,
                     const cdz_kv_row *rows, const int32_t *const *packed_blocks, size_t m)
{
    pack_spans p = {packed, kv, layer, cdz_kv_span(&packed->packing), rows, packed_blocks, m};
    const size_t n_heads = kv->shape.n_kv_heads;
    size_t floats = 0;
    for (size_t r = 0; r < m; r++)
        if (ends_span(&p, r)) floats += p.span * n_heads * kv->shape.head_dim;
    if (floats > ALONE_FLOATS)
        cdz_pool_tasks(cdz_cpu(b)->pool, pack_row, &p, m * n_heads);
    else
        for (size_t i = 0; floats && i < m * n_heads; i++) pack_row(&p, i);
}
