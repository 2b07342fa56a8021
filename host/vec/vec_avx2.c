/* vec_avx2.c - the vector operations with eight lanes in a register, compiled with -mavx2 -mfma (flags.cmake). */
#include "vec/variants.h"

#if defined(__AVX2__) && defined(__FMA__)
#define CDZ_VEC_AVX2
#include "vec/body_expr.h"
#include "vec/table.h"

const cdz_vec *cdz_vec_avx2(void)
{
    return &table;
}

cdz_expr_runner cdz_expr_avx2(void)
{
    return run_expr;
}

const cdz_fuser *cdz_fuser_avx2(void)
{
    return &fuser;
}
#else
const cdz_vec *cdz_vec_avx2(void)
{
    return NULL;
}

cdz_expr_runner cdz_expr_avx2(void)
{
    return NULL;
}

const cdz_fuser *cdz_fuser_avx2(void)
{
    return NULL;
}
#endif
