/* dtype.c - what an element type weighs. */
#include "kernels.h"

static const struct {
    const char *name;
    uint16_t n, bytes; /* a block of n elements */
} types[CDZ_N_DTYPES] = {
    [CDZ_F32] = {"F32", 1, 4},           [CDZ_F16] = {"F16", 1, 2},
    [CDZ_BF16] = {"BF16", 1, 2},         [CDZ_Q8_0] = {"Q8_0", 32, 34},
    [CDZ_Q4_0] = {"Q4_0", 32, 18},       [CDZ_Q4_1] = {"Q4_1", 32, 20},
    [CDZ_Q5_0] = {"Q5_0", 32, 22},       [CDZ_Q5_1] = {"Q5_1", 32, 24},
    [CDZ_Q2_K] = {"Q2_K", 256, 84},      [CDZ_Q3_K] = {"Q3_K", 256, 110},
    [CDZ_Q4_K] = {"Q4_K", 256, 144},     [CDZ_Q5_K] = {"Q5_K", 256, 176},
    [CDZ_Q6_K] = {"Q6_K", 256, 210},     [CDZ_NF4] = {"NF4", 64, 36},
    [CDZ_FP4] = {"FP4", 64, 36},         [CDZ_INT8] = {"INT8", 64, 68},
    [CDZ_MXFP4] = {"MXFP4", 32, 17},     [CDZ_IQ4_NL] = {"IQ4_NL", 32, 18},
    [CDZ_IQ4_XS] = {"IQ4_XS", 256, 136}, [CDZ_FP8] = {"FP8", 64, 68},
};

size_t cdz_dtype_bytes(cdz_dtype dtype)
{
    return types[dtype].bytes;
}

size_t cdz_dtype_block(cdz_dtype dtype)
{
    return types[dtype].n;
}

size_t cdz_row_bytes(cdz_dtype dtype, size_t n)
{
    return (n + types[dtype].n - 1) / types[dtype].n * types[dtype].bytes;
}

const char *cdz_dtype_name(cdz_dtype dtype)
{
    return types[dtype].name;
}
