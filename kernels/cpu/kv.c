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

/* Elements of a block; 0 when the shape is empty, of blocks, or does not fit. */
static size_t block_size(const cdz_kv_shape *shape)
{
    size_t n;
    if (shape->type >= CDZ_N_PLAIN) return 0;
    if (__builtin_mul_overflow(shape->n_layers, shape->n_kv_heads, &n)) return 0;
    if (__builtin_mul_overflow(n, shape->head_dim, &n)) return 0;
    if (__builtin_mul_overflow(n, (size_t)2 * CDZ_KV_BLOCK, &n)) return 0;
    return n > SIZE_MAX / sizeof(float) ? 0 : n;
}

size_t cdz_cpu_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape)
{
    (void)b;
    const size_t size = block_size(shape);
    return size ? size * cdz_dtype_bytes(shape->type) : 0;
}

cdz_kv *cdz_cpu_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks)
{
    cpu_backend *cpu = cdz_cpu(b);
    const size_t block_bytes = cdz_cpu_kv_block_bytes(b, shape);
    size_t bytes, scratch;
    if (block_bytes == 0 || n_blocks == 0 || n_blocks > INT32_MAX) return NULL;
    if (__builtin_mul_overflow(block_bytes, n_blocks, &bytes)) return NULL;
    if (__builtin_mul_overflow(n_blocks + shape->head_dim,
                               sizeof(float) * CDZ_KV_BLOCK * CDZ_ATTEND_QUERIES, &scratch))
        return NULL;

    cdz_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv->n_blocks = n_blocks;
    kv->bytes = cdz_dtype_bytes(shape->type);
    kv->block_size = block_size(shape);
    kv->head_size = (size_t)2 * CDZ_KV_BLOCK * shape->head_dim;
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
    const size_t bytes = kv->block_size * kv->bytes;
    memcpy((char *)kv->memory + (size_t)to * bytes, (char *)kv->memory + (size_t)from * bytes,
           bytes);
}

typedef struct kv_rows {
    const cdz_kv *kv;
    size_t layer;
    const float *k, *v;
    size_t ldk, ldv;
    const cdz_kv_row *rows;
} kv_rows;

/* Stores stay finite: what float16 cannot hold becomes its largest number. */
static void put(const cdz_kv *kv, size_t at, float x)
{
    const float most = 65504.0f;
    void *to = (char *)kv->memory + at * kv->bytes;
    if (kv->shape.type == CDZ_F16) x = x > most ? most : x < -most ? -most : x;
    cdz_quantise(kv->shape.type, to, &x, 1);
}

static void put_row(const cdz_kv *kv, size_t head, size_t within, const float *k, const float *v)
{
    const size_t dim = kv->shape.head_dim;
    const size_t keys =
        head + within / CDZ_POSITION_GROUP * dim * CDZ_POSITION_GROUP + within % CDZ_POSITION_GROUP;
    const size_t values = head + (CDZ_KV_BLOCK + within) * dim;
    if (kv->shape.type == CDZ_F32) {
        float *memory = kv->memory;
        for (size_t d = 0; d < dim; d++) memory[keys + d * CDZ_POSITION_GROUP] = k[d];
        memcpy(memory + values, v, dim * sizeof *v);
        return;
    }
    for (size_t d = 0; d < dim; d++) put(kv, keys + d * CDZ_POSITION_GROUP, k[d]);
    for (size_t d = 0; d < dim; d++) put(kv, values + d, v[d]);
}

static void write_row(void *arg, size_t i)
{
    const kv_rows *w = arg;
    const cdz_kv *kv = w->kv;
    const size_t dim = kv->shape.head_dim, n_heads = kv->shape.n_kv_heads;
    const size_t position = w->rows[i].position;
    const size_t first = (size_t)w->rows[i].blocks[position / CDZ_KV_BLOCK] * kv->block_size +
                         w->layer * n_heads * kv->head_size;
    for (size_t h = 0; h < n_heads; h++)
        put_row(kv, first + h * kv->head_size, position % CDZ_KV_BLOCK, w->k + i * w->ldk + h * dim,
                w->v + i * w->ldv + h * dim);
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
