/* vec_scalar.c - the vector operations in plain C: what the bits are. */
#include "vec/body_expr.h"
#include "vec/table.h"
#include "vec/variants.h"

const cdz_vec *cdz_vec_scalar(void)
{
    return &table;
}

cdz_expr_runner cdz_expr_scalar(void)
{
    return run_expr;
}

const cdz_fuser *cdz_fuser_scalar(void)
{
    return &fuser;
}
