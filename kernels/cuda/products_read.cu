/* products_read.cu - own products of weights of types that are read and never made: MXFP4, GGUF's IQ4 types, float8. */
#include "products_launch.cuh"

template <int D> static void of_type(cuda_backend *b, const product_call &call)
{
    if (call.choice.at)
        products_of_choice<D>(b, call);
    else
        products_of_type<D>(b, call);
}

void cuda_products_read(cuda_backend *b, cdz_dtype dtype, const product_call &call)
{
    switch (dtype) {
#define CASE(D)                                                                                    \
    case D: of_type<D>(b, call); break;
        CDZ_EACH_READ_TYPE(CASE)
#undef CASE
    default: cuda_note(b, "%s: no product for weights of type %s", b->name, cdz_dtype_name(dtype));
    }
}
