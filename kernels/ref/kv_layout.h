/* kv_layout.h - where the keys and values of one head lie in a block of the CPU's store, and how one of them is read.
 *
 * Plain types: keys [4 groups][head_dim][8], then values [32][head_dim].
 * Q8_0: 32 dims of a position share a factor, as in a row of ggml's blocks. Keys
 * [4 groups][head_dim / 32]{ f16 d[8]; int8 q[32][8] }, then values { f16 d[head_dim / 32][32]; int8 q[32][head_dim] }.
 * The product of factor and number is exact in float32. */
#ifndef CDZ_KV_LAYOUT_H
#define CDZ_KV_LAYOUT_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

enum {
    CDZ_Q8_RUN = 32,                                       /* dims that share a factor */
    CDZ_Q8_FACTORS = 2 * CDZ_POSITION_GROUP,               /* bytes before the keys of a run */
    CDZ_Q8_KEYS = CDZ_Q8_FACTORS + 32 * CDZ_POSITION_GROUP /* bytes of a run of eight keys */
};

/* Bytes from the head's beginning: of the number, and of its factor where there is one. */
typedef struct cdz_kv_place {
    size_t at, factor;
} cdz_kv_place;

/* Of the keys of a head in a block; as many are the values'. */
static inline size_t cdz_kv_keys_bytes(cdz_dtype type, size_t dim)
{
    return CDZ_KV_BLOCK * cdz_row_bytes(type, dim);
}

static inline cdz_kv_place cdz_kv_key(cdz_dtype type, size_t dim, size_t within, size_t d)
{
    const size_t group = within / CDZ_POSITION_GROUP, lane = within % CDZ_POSITION_GROUP;
    if (type != CDZ_Q8_0)
        return (cdz_kv_place){
            ((group * dim + d) * CDZ_POSITION_GROUP + lane) * cdz_dtype_bytes(type), 0};
    const size_t run = (group * (dim / CDZ_Q8_RUN) + d / CDZ_Q8_RUN) * CDZ_Q8_KEYS;
    return (cdz_kv_place){run + CDZ_Q8_FACTORS + d % CDZ_Q8_RUN * CDZ_POSITION_GROUP + lane,
                          run + 2 * lane};
}

static inline cdz_kv_place cdz_kv_value(cdz_dtype type, size_t dim, size_t within, size_t d)
{
    const size_t values = cdz_kv_keys_bytes(type, dim);
    if (type != CDZ_Q8_0)
        return (cdz_kv_place){values + (within * dim + d) * cdz_dtype_bytes(type), 0};
    return (cdz_kv_place){values + 2 * dim + within * dim + d,
                          values + 2 * (d / CDZ_Q8_RUN * CDZ_KV_BLOCK + within)};
}

static inline float cdz_kv_read(cdz_dtype type, const void *head, cdz_kv_place place)
{
    const char *at = (const char *)head + place.at;
    uint16_t half;
    float x;
    if (type == CDZ_F32) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&half, type == CDZ_Q8_0 ? (const char *)head + place.factor : at, sizeof half);
    if (type == CDZ_BF16) return cdz_widen_bf16(half);
    x = cdz_widen_f16(half);
    return type == CDZ_F16 ? x : (float)(int8_t)*at * x;
}

#endif
