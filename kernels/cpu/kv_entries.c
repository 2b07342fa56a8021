/* kv_entries.c - what pressing asks of the store: entries of one layer and head are read, and moved together.
 *
 * An entry is moved as it lies, in the store's type: what stays has the bits that it had. */
#include <string.h>

#include "cpu/cpu_backend.h"
#include "ref/kv_layout.h"

void cdz_cpu_kv_get(cdz_backend *b, const cdz_kv *kv, size_t layer, size_t head,
                    const int32_t *blocks, size_t n, float *k, float *v)
{
    const cdz_dtype type = kv->shape.type;
    const size_t dim = kv->shape.head_dim;
    (void)b;
    for (size_t i = 0; i < n; i++) {
        const char *from = cdz_cpu_kv_head(kv, layer, head, blocks, i);
        const size_t within = i % CDZ_KV_BLOCK;
        for (size_t d = 0; d < dim; d++)
            k[i * dim + d] = cdz_kv_read(type, from, cdz_kv_key(type, dim, within, d));
        for (size_t d = 0; v && d < dim; d++)
            v[i * dim + d] = cdz_kv_read(type, from, cdz_kv_value(type, dim, within, d));
    }
}

/* A number, with its factor where it has one. */
static void move(cdz_dtype type, char *to, cdz_kv_place there, const char *from, cdz_kv_place here)
{
    const size_t bytes = type == CDZ_Q8_0 ? 1 : cdz_dtype_bytes(type);
    memmove(to + there.at, from + here.at, bytes);
    if (type == CDZ_Q8_0) memmove(to + there.factor, from + here.factor, 2);
}

static void move_entry(const cdz_kv_shape *shape, char *to, size_t there, const char *from,
                       size_t here)
{
    const cdz_dtype type = shape->type;
    const size_t dim = shape->head_dim;
    for (size_t d = 0; d < dim; d++) {
        move(type, to, cdz_kv_key(type, dim, there, d), from, cdz_kv_key(type, dim, here, d));
        move(type, to, cdz_kv_value(type, dim, there, d), from, cdz_kv_value(type, dim, here, d));
    }
}

void cdz_cpu_kv_keep(cdz_backend *b, cdz_kv *kv, size_t layer, size_t head, const int32_t *blocks,
                     const uint32_t *from, size_t n)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, kv->name | (layer + 1), ~(uint64_t)0);
    for (size_t i = 0; i < n; i++)
        if (from[i] != i)
            move_entry(&kv->shape, cdz_cpu_kv_head(kv, layer, head, blocks, i), i % CDZ_KV_BLOCK,
                       cdz_cpu_kv_head(kv, layer, head, blocks, from[i]), from[i] % CDZ_KV_BLOCK);
}
