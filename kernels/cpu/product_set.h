/* product_set.h - what the ways to compute a set of products share (matmul.c, matmul_int8.c, matmul_parts.c): how large it is, and
 * its products copied for the threads, numbered in chunks of weight rows. */
#ifndef CDZ_CPU_PRODUCT_SET_H
#define CDZ_CPU_PRODUCT_SET_H

#include <string.h>

#include "cpu/cpu_backend.h"

enum { CDZ_SET_PRODUCTS = 32 }; /* of one dispatch; more make several */

static inline const void *cdz_weight_at(const cdz_weight *w, size_t row, size_t column)
{
    return (const char *)w->data + row * cdz_row_bytes(w->dtype, w->k) +
           cdz_row_bytes(w->dtype, column);
}

static inline size_t cdz_set_bytes(const cdz_product *products, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += products[i].w->n * cdz_row_bytes(products[i].w->dtype, products[i].w->k);
    return bytes;
}

/* Of weights. */
static inline size_t cdz_set_rows(const cdz_product *products, size_t n)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) rows += products[i].w->n;
    return rows;
}

/* Whether the caller alone does it by m activation rows sooner than threads that it calls. */
static inline bool cdz_set_is_small(const cdz_product *products, size_t n, size_t m)
{
    return cdz_set_bytes(products, n) <= CDZ_ALONE_WORK / m;
}

/* The first ones of n products, for activation rows from `row` on; returns how many. */
static inline size_t cdz_set_from_row(cdz_product *to, const cdz_product *products, size_t n,
                                      size_t row)
{
    const size_t count = cdz_smaller(n, CDZ_SET_PRODUCTS);
    for (size_t i = 0; i < count; i++) {
        to[i] = products[i];
        to[i].y += row * products[i].ldy;
    }
    return count;
}

/* A product of a set, copied: the caller's may be gone while a late worker still looks. */
typedef struct cdz_set_part {
    cdz_weight w, bias; /* bias.data NULL: none */
    float *y;           /* (m, n) */
    size_t ldy, first_chunk;
} cdz_set_part;

/* Every `rows` weight rows of a product make `per_block` chunks: how many that are. */
static inline size_t cdz_set_chunks(const cdz_product *products, size_t n, size_t rows,
                                    size_t per_block)
{
    size_t chunks = 0;
    for (size_t i = 0; i < n; i++) chunks += cdz_ceil_div(products[i].w->n, rows) * per_block;
    return chunks;
}

static inline void cdz_set_copy(cdz_set_part *to, const cdz_product *products, size_t n,
                                size_t rows, size_t per_block)
{
    for (size_t i = 0, first = 0; i < n; i++) {
        to[i] = (cdz_set_part){*products[i].w, {0}, products[i].y, products[i].ldy, first};
        if (products[i].bias) to[i].bias = *products[i].bias;
        first += cdz_set_chunks(&products[i], 1, rows, per_block);
    }
}

/* Of n parts the one that a chunk is of. */
static inline const cdz_set_part *cdz_set_part_of(const cdz_set_part *parts, size_t n, size_t chunk)
{
    const cdz_set_part *p = &parts[n - 1];
    while (p->first_chunk > chunk || p->w.n == 0) p--;
    return p;
}

/* Outputs of a chunk, m rows of n, to where they are wanted: short pieces far apart, of which more are on their way when they are
 * asked for than when they are only stored to. */
static inline void cdz_copy_outputs(float *y, size_t ldy, const float *out, size_t ldo, size_t m,
                                    size_t n)
{
    enum { AHEAD = 48, LINE = 64 / sizeof(float), FOR_WRITING = 1, IN_SECOND_LEVEL = 2 };
    for (size_t r = 0; r < m; r++) {
        for (size_t i = 0; r + AHEAD < m && i < n; i += LINE)
            __builtin_prefetch(y + (r + AHEAD) * ldy + i, FOR_WRITING, IN_SECOND_LEVEL);
        memcpy(y + r * ldy, out + r * ldo, n * sizeof *out);
    }
}

#endif
