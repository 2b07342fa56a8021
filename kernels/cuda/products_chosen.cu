/* products_chosen.cu - own products of rows whose weights the device has chosen. */
#include "products_launch.cuh"

void cuda_products_chosen(cuda_backend *b, cdz_dtype dtype, const product_call &call)
{
    switch (dtype) {
#define CASE(D)                                                                                    \
    case D: products_of_choice<D>(b, call); break;
        CDZ_EACH_MADE_TYPE(CASE)
#undef CASE
    default: cuda_note(b, "%s: no product for weights of type %s", b->name, cdz_dtype_name(dtype));
    }
}
