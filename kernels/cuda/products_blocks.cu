/* products_blocks.cu - own products of weights of types of blocks. */
#include "products_launch.cuh"

void cuda_products_blocks(cuda_backend *b, cdz_dtype dtype, const product_call &call)
{
    switch (dtype) {
#define CASE(D)                                                                                    \
    case D: products_of_type<D>(b, call); break;
        CDZ_EACH_BLOCK_TYPE(CASE)
#undef CASE
    default: cuda_note(b, "%s: no product for weights of type %s", b->name, cdz_dtype_name(dtype));
    }
}
