/* kv_layout.h - where the keys and values of one head lie in a block of the CPU's store, and how one of them is read.
 *
 * Plain types: keys [4 groups][head_dim][8], then values [32][head_dim].
 * Q8_0, Q4_0: 32 dims of a position, a run, share a factor, as in a row of ggml's blocks. The numbers of a run lie in n bytes: 32
 * of Q8_0, 16 of Q4_0, whose byte j holds number j below and number j + 16 above, each 8 too great. Keys
 * [4 groups][head_dim / 32]{ f16 d[8]; n bytes [n][8] }, then values { f16 d[head_dim / 32][32]; [32][head_dim / 32] n bytes }.
 * The product of factor and number is exact in float32. */
#ifndef CDZ_KV_LAYOUT_H
#define CDZ_KV_LAYOUT_H

#include "kernel_set.h"
#include "ref/scalar_math.h"

enum {
    CDZ_KV_RUN = 32,                        /* dims that share a factor */
    CDZ_KV_FACTORS = 2 * CDZ_POSITION_GROUP /* bytes before the keys of a run */
};

/* Bytes from the head's beginning: of the number, and of its factor where there is one. Of half a byte the bits below it. */
typedef struct cdz_kv_place {
    size_t at, factor;
    unsigned shift;
} cdz_kv_place;

/* Of the keys of a head in a block; as many are the values'. */
static inline size_t cdz_kv_keys_bytes(cdz_dtype type, size_t dim)
{
    return CDZ_KV_BLOCK * cdz_row_bytes(type, dim);
}

/* Of the numbers of a run at one position. */
static inline size_t cdz_kv_run_bytes(cdz_dtype type)
{
    return type == CDZ_Q4_0 ? CDZ_KV_RUN / 2 : CDZ_KV_RUN;
}

static inline cdz_kv_place cdz_kv_key(cdz_dtype type, size_t dim, size_t within, size_t d)
{
    const size_t group = within / CDZ_POSITION_GROUP, lane = within % CDZ_POSITION_GROUP;
    if (type < CDZ_N_PLAIN)
        return (cdz_kv_place){
            ((group * dim + d) * CDZ_POSITION_GROUP + lane) * cdz_dtype_bytes(type), 0, 0};
    const size_t n = cdz_kv_run_bytes(type), in_run = d % CDZ_KV_RUN;
    const size_t run =
        (group * (dim / CDZ_KV_RUN) + d / CDZ_KV_RUN) * (CDZ_KV_FACTORS + n * CDZ_POSITION_GROUP);
    return (cdz_kv_place){run + CDZ_KV_FACTORS + in_run % n * CDZ_POSITION_GROUP + lane,
                          run + 2 * lane, in_run < n ? 0 : 4};
}

static inline cdz_kv_place cdz_kv_value(cdz_dtype type, size_t dim, size_t within, size_t d)
{
    const size_t values = cdz_kv_keys_bytes(type, dim);
    if (type < CDZ_N_PLAIN)
        return (cdz_kv_place){values + (within * dim + d) * cdz_dtype_bytes(type), 0, 0};
    const size_t n = cdz_kv_run_bytes(type), in_run = d % CDZ_KV_RUN;
    const size_t run = within * (dim / CDZ_KV_RUN) + d / CDZ_KV_RUN;
    return (cdz_kv_place){values + 2 * dim + run * n + in_run % n,
                          values + 2 * (d / CDZ_KV_RUN * CDZ_KV_BLOCK + within), in_run < n ? 0 : 4};
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
    memcpy(&half, type < CDZ_N_PLAIN ? at : (const char *)head + place.factor, sizeof half);
    if (type == CDZ_BF16) return cdz_widen_bf16(half);
    x = cdz_widen_f16(half);
    if (type == CDZ_F16) return x;
    const int number = type == CDZ_Q8_0 ? (int8_t)*at : ((uint8_t)*at >> place.shift & 15) - 8;
    return (float)number * x;
}

#endif
