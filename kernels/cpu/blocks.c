/* blocks.c - block-quantised weights by way of float32. Where a set has no kernel of its own for a type, they are
 * widened a chunk of the k axis at a time, into memory that stays in the first cache, and go through the float
 * kernels. The bits are those of the widened matrix, in every set and for every number of rows. */
#include "cpu/blocks.h"

enum { ROWS = 6, MANY = 64 }; /* weight rows widened together; activation rows of one call */

/* A chunk of the k axis, of weight rows [0, n): y is set when first and added to otherwise. */
static void add_chunk(const cdz_kernel_set *set, float *y, size_t ldy, const float *w, size_t n,
                      size_t kc, const float *x, size_t ldx, size_t m, bool first)
{
    float part[MANY * ROWS];
    if (first) {
        set->dot[CDZ_F32](y, ldy, w, n, kc, x, ldx, m);
        return;
    }
    set->dot[CDZ_F32](part, n, w, n, kc, x, ldx, m);
    for (size_t r = 0; r < m; r++)
        for (size_t j = 0; j < n; j++) y[r * ldy + j] += part[r * n + j];
}

static void dot_blocks(const cdz_kernel_set *set, cdz_dtype dtype, float *y, size_t ldy,
                       const void *w, size_t n, size_t k, const float *x, size_t ldx, size_t m)
{
    _Alignas(64) float wide[ROWS * CDZ_K_CHUNK];
    const size_t stride = cdz_row_bytes(dtype, k);
    for (size_t j = 0; j < n; j += ROWS) {
        const size_t rows = n - j < ROWS ? n - j : ROWS;
        const char *row = (const char *)w + j * stride;
        for (size_t from = 0; from < k; from += CDZ_K_CHUNK) {
            const size_t kc = k - from < CDZ_K_CHUNK ? k - from : CDZ_K_CHUNK;
            for (size_t r = 0; r < rows; r++)
                set->widen[dtype](wide + r * kc, row + r * stride + cdz_row_bytes(dtype, from), kc);
            add_chunk(set, y + j, ldy, wide, rows, kc, x + from, ldx, m, from == 0);
        }
    }
}

void cdz_dot_rows(const cdz_kernel_set *set, cdz_dtype dtype, float *y, size_t ldy, const void *w,
                  size_t n, size_t k, const float *x, size_t ldx, size_t m)
{
    if (set->dot[dtype]) {
        set->dot[dtype](y, ldy, w, n, k, x, ldx, m);
        return;
    }
    for (size_t r = 0; r < m; r += MANY)
        dot_blocks(set, dtype, y + r * ldy, ldy, w, n, k, x + r * ldx, ldx,
                   m - r < MANY ? m - r : MANY);
}

void cdz_pack_rows(const cdz_kernel_set *set, cdz_dtype dtype, float *packed, const void *w,
                   size_t n, size_t k, size_t kc, float *scratch)
{
    if (dtype < CDZ_N_PLAIN) {
        set->pack_weights[dtype](packed, w, n, k, kc);
        return;
    }
    const size_t stride = cdz_row_bytes(dtype, k);
    const size_t panel = cdz_panel_floats(kc, set->n_tile);
    for (size_t j = 0; j < n; j += set->n_tile, packed += panel) {
        const size_t rows = n - j < set->n_tile ? n - j : set->n_tile;
        const char *row = (const char *)w + j * stride;
        for (size_t r = 0; r < rows; r++) set->widen[dtype](scratch + r * kc, row + r * stride, kc);
        set->pack_weights[CDZ_F32](packed, scratch, rows, kc, kc);
    }
}
