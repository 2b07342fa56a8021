/* products_launch.cuh - launches of the kernel of products.cuh. Compiling it for every type takes longest of
 * all, so plain types, blocks, rows with a choice, and types that are only read have a source each. */
#ifndef CDZ_CUDA_PRODUCTS_LAUNCH_CUH
#define CDZ_CUDA_PRODUCTS_LAUNCH_CUH

#include "cuda_backend.h"
#include "products.cuh"

void cuda_products_plain(cuda_backend *b, cdz_dtype dtype, const product_call &call);
void cuda_products_blocks(cuda_backend *b, cdz_dtype dtype, const product_call &call);
void cuda_products_chosen(cuda_backend *b, cdz_dtype dtype, const product_call &call);
void cuda_products_read(cuda_backend *b, cdz_dtype dtype, const product_call &call); /* any rows */

/* Own products of the same x, of any types. With a choice m is the rows of y, products have the first id's weights,
 * and choice.at those for the first product. */
void cuda_own_products(cuda_backend *b, const cdz_product *products, size_t n, const float *x,
                       size_t ldx, size_t m, product_choice choice);

static inline size_t products_ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static constexpr size_t PRODUCT_SHARED = 48 << 10; /* most bytes of sums */

/* Bytes of a row's sums over k columns. */
static inline size_t products_row_sums(size_t k)
{
    return products_ceil_div(k, PRODUCT_CHUNK) * PRODUCT_ROWS * sizeof(float);
}

template <int D, unsigned R, bool CHOSEN>
static inline void products_launch(cuda_backend *b, const product_call &call, size_t tiles)
{
    const size_t chunks = products_ceil_div(call.k, PRODUCT_CHUNK);
    const size_t warps = chunks < PRODUCT_WARPS ? chunks : (size_t)PRODUCT_WARPS;
    const gpu_shape shape = {call.blocks * tiles, warps * GPU_WARP,
                             chunks * R * PRODUCT_ROWS * sizeof(float)};
    gpu_launch(b->g, "products", products<D, R, CHOSEN>, shape, call);
}

template <int D, unsigned R>
static inline void products_in_order(cuda_backend *b, const product_call &call)
{
    products_launch<D, R, false>(b, call, products_ceil_div(call.m, R));
}

/* The rows that share one reading of the weights, as far as their sums fit. Blocks cost more to unpack than
 * to read: they have fewer heights. */
template <int D> static inline void products_of_type(cuda_backend *b, const product_call &call)
{
    const size_t row_sums = products_row_sums(call.k);
    if (row_sums > PRODUCT_SHARED) {
        cuda_note(b, "%s: a product over %zu columns is too wide", b->name, call.k);
    } else if (call.m == 1 || row_sums * 4 > PRODUCT_SHARED) {
        products_in_order<D, 1>(b, call);
    } else {
        if constexpr (D < CDZ_N_PLAIN)
            if (call.m > 4 && row_sums * 8 <= PRODUCT_SHARED) {
                products_in_order<D, 8>(b, call);
                return;
            }
        products_in_order<D, 4>(b, call);
    }
}

/* The same for rows with a choice, whose tiles' sums fit. */
template <int D> static inline void products_of_choice(cuda_backend *b, const product_call &call)
{
    if (call.choice.tiles)
        products_launch<D, PRODUCT_TILE, true>(b, call, call.choice.n_tiles);
    else
        products_launch<D, 1, true>(b, call, call.m);
}

#endif
