/* kv.c - the memory of the paged key-value store and writing to it. attention.c reads it.
 *
 * A late worker may still read a layer after its attention has returned; so whoever writes to
 * that layer, or frees it, first waits for readers. One writes to a layer a whole pass after
 * reading it: nobody ever waits long. */
#include <stdlib.h>
#include <string.h>

#include "cpu/aligned.h"
#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"

enum { ALONE_FLOATS = 32768 };

#define F16_MOST 65504.0f

static const uint64_t whole_store = ~(uint64_t)0 << 32;

size_t cdz_cpu_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape)
{
    size_t n;
    (void)b;
    if (shape->type >= CDZ_N_KV || shape->head_dim % cdz_dtype_block(shape->type)) return 0;
    if (__builtin_mul_overflow(shape->n_layers, shape->n_kv_heads, &n)) return 0;
    if (__builtin_mul_overflow(n, shape->head_dim, &n)) return 0;
    if (shape->value_dim > shape->head_dim || (shape->value_dim && shape->type >= CDZ_N_PLAIN))
        return 0;
    if (__builtin_mul_overflow(n, (size_t)(shape->value_dim ? 1 : 2) * CDZ_KV_BLOCK, &n)) return 0;
    return n > SIZE_MAX / sizeof(float) ? 0 : cdz_row_bytes(shape->type, n);
}

cdz_kv *cdz_cpu_open_store(cdz_backend *b, cdz_kv *kv, size_t bytes, size_t positions)
{
    cpu_backend *cpu = cdz_cpu(b);
    size_t scores, scratch = (2 * CDZ_ATTEND_QUERIES + CDZ_KV_BLOCK) * kv->shape.head_dim;
    if (__builtin_mul_overflow(positions, CDZ_ATTEND_FEW, &scores)) scores = SIZE_MAX;
    if (scores < CDZ_ATTEND_SCORES) scores = CDZ_ATTEND_SCORES;
    if (__builtin_add_overflow(scratch, scores, &scratch) ||
        __builtin_mul_overflow(scratch, sizeof(float), &scratch))
        scratch = 0;
    if (scratch) kv->memory = cdz_aligned_zeroed(bytes);
    if (kv->memory) cdz_cpu_spread_pages(b, kv->memory, bytes);
    if (kv->memory && cdz_pool_reserve(cpu->pool, scratch)) return kv;
    cdz_aligned_free(kv->memory);
    free(kv);
    return NULL;
}

cdz_kv *cdz_cpu_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks)
{
    const size_t block_bytes = cdz_cpu_kv_block_bytes(b, shape);
    size_t bytes;
    if (block_bytes == 0 || n_blocks == 0 || n_blocks > INT32_MAX) return NULL;
    if (__builtin_mul_overflow(block_bytes, n_blocks, &bytes)) return NULL;

    cdz_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv->n_blocks = n_blocks;
    kv->block_bytes = block_bytes;
    kv->head_bytes = (shape->value_dim ? 1u : 2u) * cdz_kv_keys_bytes(shape->type, shape->head_dim);
    kv->name = (uint64_t)++cdz_cpu(b)->n_kv << 32;
    return cdz_cpu_open_store(b, kv, bytes, n_blocks * CDZ_KV_BLOCK);
}

void cdz_cpu_kv_destroy(cdz_backend *b, cdz_kv *kv)
{
    if (!kv) return;
    /* Who reads a packed one goes by the name of the plain one beside it. */
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name, kv->packing.bits ? 0 : whole_store);
    cdz_aligned_free(kv->memory);
    free(kv);
}

void cdz_cpu_kv_copy(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name, whole_store);
    char *memory = kv->memory;
    memcpy(memory + (size_t)to * kv->block_bytes, memory + (size_t)from * kv->block_bytes,
           kv->block_bytes);
}

void cdz_cpu_kv_read(cdz_backend *b, const cdz_kv *kv, int32_t block, void *to)
{
    (void)b;
    memcpy(to, (const char *)kv->memory + (size_t)block * kv->block_bytes, kv->block_bytes);
}

void cdz_cpu_kv_restore(cdz_backend *b, cdz_kv *kv, int32_t block, const void *from)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name, whole_store);
    memcpy((char *)kv->memory + (size_t)block * kv->block_bytes, from, kv->block_bytes);
}

typedef struct kv_rows {
    const cdz_kv *kv;
    size_t layer;
    const float *k, *v;
    size_t ldk, ldv;
    const cdz_kv_row *rows;
} kv_rows;

static float clamp(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* Stores stay finite: what float16 cannot hold becomes its largest number. */
static void put(cdz_dtype type, void *to, float x)
{
    if (type == CDZ_F16) x = clamp(x, F16_MOST);
    cdz_quantise(type, to, &x, 1);
}

enum { MOST_BLOCK = 2 + CDZ_KV_RUN }; /* bytes */

/* A run of dims as a block of the type, whose factor stays finite likewise; a factor that is not a number stands for a
 * number among them that is none. */
static void to_block(cdz_dtype type, uint8_t block[MOST_BLOCK], const float *x)
{
    const float most = F16_MOST * (type == CDZ_Q8_0 ? 127.0f : 8.0f);
    float kept[CDZ_KV_RUN];
    bool numbers = true;
    for (size_t i = 0; i < CDZ_KV_RUN; i++) {
        kept[i] = clamp(x[i], most);
        numbers = numbers && !isnan(x[i]);
    }
    cdz_quantise(type, block, kept, CDZ_KV_RUN);
    if (!numbers) memcpy(block, &(const uint16_t){0x7e00}, 2);
}

typedef cdz_kv_place place_fn(cdz_dtype type, size_t dim, size_t within, size_t d);

static void put_blocks(cdz_dtype type, char *head, place_fn *place, size_t dim, size_t within,
                       const float *x)
{
    uint8_t block[MOST_BLOCK];
    for (size_t d = 0; d < dim; d += CDZ_KV_RUN) {
        to_block(type, block, x + d);
        const cdz_kv_place first = place(type, dim, within, d);
        const size_t step = place(type, dim, within, d + 1).at - first.at;
        memcpy(head + first.factor, block, 2);
        for (size_t i = 0; i < cdz_kv_run_bytes(type); i++)
            head[first.at + i * step] = (char)block[2 + i];
    }
}

/* v NULL: the keys alone. */
static void put_row(const cdz_kv_shape *shape, char *head, size_t within, const float *k,
                    const float *v)
{
    const size_t dim = shape->head_dim;
    if (shape->type >= CDZ_N_PLAIN) {
        put_blocks(shape->type, head, cdz_kv_key, dim, within, k);
        if (v) put_blocks(shape->type, head, cdz_kv_value, dim, within, v);
        return;
    }
    const size_t bytes = cdz_dtype_bytes(shape->type);
    char *key = head + cdz_kv_key(shape->type, dim, within, 0).at,
         *value = head + cdz_kv_value(shape->type, dim, within, 0).at;
    if (shape->type == CDZ_F32) {
        for (size_t d = 0; d < dim; d++)
            memcpy(key + d * CDZ_POSITION_GROUP * sizeof *k, &k[d], sizeof *k);
        if (v) memcpy(value, v, dim * sizeof *v);
        return;
    }
    for (size_t d = 0; d < dim; d++) put(shape->type, key + d * CDZ_POSITION_GROUP * bytes, k[d]);
    for (size_t d = 0; v && d < dim; d++) put(shape->type, value + d * bytes, v[d]);
}

static void write_row(void *arg, size_t i)
{
    const kv_rows *w = arg;
    const cdz_kv *kv = w->kv;
    const size_t dim = kv->shape.head_dim, n_heads = kv->shape.n_kv_heads;
    const cdz_kv_row *row = &w->rows[i];
    for (size_t h = 0; h < n_heads; h++) {
        const size_t position = cdz_cpu_entry(kv, w->layer, h, row);
        put_row(&kv->shape, cdz_cpu_kv_head(kv, w->layer, h, row->blocks, position),
                position % CDZ_KV_BLOCK, w->k + i * w->ldk + h * dim,
                w->v ? w->v + i * w->ldv + h * dim : NULL);
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

void cdz_cpu_kv_put_keys(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head,
                         const int32_t *blocks, size_t n, const float *k)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name | (layer + 1), ~(uint64_t)0);
    for (size_t i = 0; i < n; i++)
        put_row(&kv->shape, cdz_cpu_kv_head(kv, layer, head, blocks, i), i % CDZ_KV_BLOCK,
                k + i * kv->shape.head_dim, NULL);
}
