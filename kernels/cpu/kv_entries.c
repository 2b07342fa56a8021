/* kv_entries.c - what pressing asks of the store: entries of one layer and head are read, and moved together.
 *
 * An entry is moved as it lies, in the store's type: what stays has the bits that it had. */
#include <string.h>

#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"

/* Where an entry's first number lies of its keys, one of CDZ_POSITION_GROUP, and of its values, behind one another. */
typedef struct entry {
    char *key, *value;
} entry;

static entry plain_entry(const cdz_kv *kv, size_t layer, size_t head, const int32_t *blocks,
                         size_t i)
{
    const cdz_dtype type = kv->shape.type;
    const size_t dim = kv->shape.head_dim, within = i % CDZ_KV_BLOCK;
    char *at = cdz_cpu_kv_head(kv, layer, head, blocks, i);
    return (entry){at + cdz_kv_key(type, dim, within, 0).at,
                   at + cdz_kv_value(type, dim, within, 0).at};
}

static void get_f32(float *k, float *v, entry from, size_t dim)
{
    const size_t step = CDZ_POSITION_GROUP * sizeof *k;
    for (size_t d = 0; d < dim; d++) memcpy(&k[d], from.key + d * step, sizeof *k);
    if (v) memcpy(v, from.value, dim * sizeof *v);
}

static void get_any(cdz_dtype type, float *k, float *v, const char *head, size_t within, size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        k[d] = cdz_kv_read(type, head, cdz_kv_key(type, dim, within, d));
    for (size_t d = 0; v && d < dim; d++)
        v[d] = cdz_kv_read(type, head, cdz_kv_value(type, dim, within, d));
}

void cdz_cpu_kv_get(cdz_backend *b, const cdz_kv *kv, size_t layer, size_t head,
                    const int32_t *blocks, size_t n, float *k, float *v)
{
    const size_t dim = kv->shape.head_dim;
    (void)b;
    for (size_t i = 0; i < n; i++) {
        float *key = k + i * dim, *value = v ? v + i * dim : NULL;
        if (kv->shape.type == CDZ_F32)
            get_f32(key, value, plain_entry(kv, layer, head, blocks, i), dim);
        else
            get_any(kv->shape.type, key, value, cdz_cpu_kv_head(kv, layer, head, blocks, i),
                    i % CDZ_KV_BLOCK, dim);
    }
}

/* bytes: of a number, 4 or 2. */
static void move_plain(entry to, entry from, size_t dim, size_t bytes)
{
    const size_t step = CDZ_POSITION_GROUP * bytes;
    for (size_t d = 0; d < dim; d++)
        if (bytes == sizeof(float))
            memcpy(to.key + d * step, from.key + d * step, sizeof(float));
        else
            memcpy(to.key + d * step, from.key + d * step, sizeof(uint16_t));
    memcpy(to.value, from.value, dim * bytes);
}

/* A byte of numbers, and their factor. */
static void move_byte(char *to, cdz_kv_place there, const char *from, cdz_kv_place here)
{
    to[there.at] = from[here.at];
    memcpy(to + there.factor, from + here.factor, 2);
}

static void move_blocks(cdz_dtype type, char *to, size_t there, const char *from, size_t here,
                        size_t dim)
{
    for (size_t run = 0; run < dim; run += CDZ_KV_RUN)
        for (size_t d = run; d < run + cdz_kv_run_bytes(type); d++) {
            move_byte(to, cdz_kv_key(type, dim, there, d), from, cdz_kv_key(type, dim, here, d));
            move_byte(to, cdz_kv_value(type, dim, there, d), from, cdz_kv_value(type, dim, here, d));
        }
}

void cdz_cpu_kv_keep(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head, const int32_t *blocks,
                     const uint32_t *from, size_t n)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name | (layer + 1), ~(uint64_t)0);
    const cdz_dtype type = kv->shape.type;
    const size_t dim = kv->shape.head_dim;
    for (size_t i = 0; i < n; i++) {
        if (from[i] == i) continue;
        if (type >= CDZ_N_PLAIN)
            move_blocks(type, cdz_cpu_kv_head(kv, layer, head, blocks, i), i % CDZ_KV_BLOCK,
                        cdz_cpu_kv_head(kv, layer, head, blocks, from[i]), from[i] % CDZ_KV_BLOCK,
                        dim);
        else
            move_plain(plain_entry(kv, layer, head, blocks, i),
                       plain_entry(kv, layer, head, blocks, from[i]), dim, cdz_dtype_bytes(type));
    }
}
