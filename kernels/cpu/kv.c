/* kv.c - the memory of the paged key-value store and writing to it. attention.c reads it.
 *
 * A late worker may still read a layer after its attention has returned; so whoever writes to
 * that layer, or frees it, first waits for readers. One writes to a layer a whole pass after
 * reading it: nobody ever waits long. */
#include <stdlib.h>
#include <string.h>

#include "cpu/aligned.h"
#include "cpu/cpu_backend.h"

enum { ALONE_FLOATS = 32768 };

static const uint64_t whole_store = ~(uint64_t)0 << 32;

/* Floats of a block; 0 when the shape is empty or does not fit. */
static size_t block_floats(const cdz_kv_shape *shape)
{
    size_t n;
    if (__builtin_mul_overflow(shape->n_layers, shape->n_kv_heads, &n)) return 0;
    if (__builtin_mul_overflow(n, shape->head_dim, &n)) return 0;
    if (__builtin_mul_overflow(n, (size_t)2 * CDZ_KV_BLOCK, &n)) return 0;
    return n > SIZE_MAX / sizeof(float) ? 0 : n;
}

size_t cdz_cpu_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape)
{
    (void)b;
    return block_floats(shape) * sizeof(float);
}

cdz_kv *cdz_cpu_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks)
{
    cpu_backend *cpu = cdz_cpu(b);
    const size_t floats = block_floats(shape);
    size_t bytes, scratch;
    if (floats == 0 || n_blocks == 0 || n_blocks > INT32_MAX) return NULL;
    if (__builtin_mul_overflow(floats * sizeof(float), n_blocks, &bytes)) return NULL;
    if (__builtin_mul_overflow(n_blocks + shape->head_dim,
                               sizeof(float) * CDZ_KV_BLOCK * CDZ_ATTEND_QUERIES, &scratch))
        return NULL;

    cdz_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv->n_blocks = n_blocks;
    kv->block_floats = floats;
    kv->head_floats = (size_t)2 * CDZ_KV_BLOCK * shape->head_dim;
    kv->name = (uint64_t)++cpu->n_kv << 32;
    kv->memory = cdz_aligned_zeroed(bytes);
    if (kv->memory && cdz_pool_reserve(cpu->pool, scratch)) return kv;
    cdz_aligned_free(kv->memory);
    free(kv);
    return NULL;
}

void cdz_cpu_kv_destroy(cdz_backend *b, cdz_kv *kv)
{
    if (!kv) return;
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name, whole_store);
    cdz_aligned_free(kv->memory);
    free(kv);
}

void cdz_cpu_kv_copy(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name, whole_store);
    memcpy(kv->memory + (size_t)to * kv->block_floats, kv->memory + (size_t)from * kv->block_floats,
           kv->block_floats * sizeof(float));
}

typedef struct kv_rows {
    const cdz_kv *kv;
    size_t layer;
    const float *k, *v;
    size_t ldk, ldv;
    const cdz_kv_row *rows;
} kv_rows;

static void write_row(void *arg, size_t i)
{
    const kv_rows *w = arg;
    const size_t dim = w->kv->shape.head_dim, n_heads = w->kv->shape.n_kv_heads;
    const size_t position = w->rows[i].position, within = position % CDZ_KV_BLOCK;
    float *head = w->kv->memory +
                  (size_t)w->rows[i].blocks[position / CDZ_KV_BLOCK] * w->kv->block_floats +
                  w->layer * n_heads * w->kv->head_floats;

    for (size_t h = 0; h < n_heads; h++, head += w->kv->head_floats) {
        float *keys = head + within / CDZ_POSITION_GROUP * dim * CDZ_POSITION_GROUP +
                      within % CDZ_POSITION_GROUP;
        const float *k = w->k + i * w->ldk + h * dim;
        for (size_t d = 0; d < dim; d++) keys[d * CDZ_POSITION_GROUP] = k[d];
        memcpy(head + (CDZ_KV_BLOCK + within) * dim, w->v + i * w->ldv + h * dim,
               dim * sizeof(float));
    }
}

void cdz_cpu_kv_write(cdz_backend *b, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                      const float *v, size_t ldv, const cdz_kv_row *rows, size_t m)
{
    cdz_pool *pool = cdz_cpu(b)->pool;
    kv_rows w = {kv, layer, k, v, ldk, ldv, rows};
    cdz_pool_await_readers(pool, kv->name | (layer + 1), ~(uint64_t)0);
    if (m > 1 && m * kv->shape.n_kv_heads * kv->shape.head_dim > ALONE_FLOATS)
        cdz_pool_tasks(pool, write_row, &w, m);
    else
        for (size_t i = 0; i < m; i++) write_row(&w, i);
}
