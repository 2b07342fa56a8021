/* products_launch.cuh - launches of the kernel of products.cuh. Compiling it for every type takes longest of
 * all, so plain types and blocks have a source each. */
#ifndef CDZ_CUDA_PRODUCTS_LAUNCH_CUH
#define CDZ_CUDA_PRODUCTS_LAUNCH_CUH

#include "cuda_backend.h"
#include "products.cuh"

void cuda_products_plain(cuda_backend *b, cdz_dtype dtype, const product_call &call);
void cuda_products_blocks(cuda_backend *b, cdz_dtype dtype, const product_call &call);

static inline size_t products_ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

template <int D, unsigned R>
static inline void products_launch(cuda_backend *b, const product_call &call)
{
    const size_t chunks = products_ceil_div(call.k, PRODUCT_CHUNK);
    const size_t warps = chunks < PRODUCT_WARPS ? chunks : (size_t)PRODUCT_WARPS;
    const gpu_shape shape = {call.blocks * products_ceil_div(call.m, R), warps * GPU_WARP,
                             chunks * R * PRODUCT_ROWS * sizeof(float)};
    gpu_launch(b->g, "products", products<D, R>, shape, call);
}

/* The rows that share one reading of the weights, as far as their sums fit. Blocks cost more to unpack than
 * to read: they have fewer heights. */
template <int D> static inline void products_of_type(cuda_backend *b, const product_call &call)
{
    constexpr size_t most_shared = 48 << 10;
    const size_t row_sums = products_ceil_div(call.k, PRODUCT_CHUNK) * PRODUCT_ROWS * sizeof(float);
    if (row_sums > most_shared) {
        cuda_note(b, "%s: a product over %zu columns is too wide", b->name, call.k);
    } else if (call.m == 1 || row_sums * 4 > most_shared) {
        products_launch<D, 1>(b, call);
    } else {
        if constexpr (D < CDZ_N_PLAIN)
            if (call.m > 4 && row_sums * 8 <= most_shared) {
                products_launch<D, 8>(b, call);
                return;
            }
        products_launch<D, 4>(b, call);
    }
}

#endif
