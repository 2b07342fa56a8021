/* products_plain.cu - own products of weights of plain types. */
#include "products_launch.cuh"

void cuda_products_plain(cuda_backend *b, cdz_dtype dtype, const product_call &call)
{
    switch (dtype) {
#define CASE(D)                                                                                    \
    case D: products_of_type<D>(b, call); break;
        CASE(CDZ_F32)
        CASE(CDZ_F16)
        CASE(CDZ_BF16)
#undef CASE
    default: cuda_note(b, "%s: no product for weights of type %s", b->name, cdz_dtype_name(dtype));
    }
}
