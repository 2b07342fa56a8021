/* dtype.c - what an element type weighs. */
#include "kernels.h"

size_t cdz_dtype_bytes(cdz_dtype dtype)
{
    return dtype == CDZ_F32 ? 4 : 2;
}
