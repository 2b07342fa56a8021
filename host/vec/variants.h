/* variants.h - the tables of each instruction set, for the choice in vec.c. */
#ifndef CDZ_HOST_VEC_VARIANTS_H
#define CDZ_HOST_VEC_VARIANTS_H

#include "vec/expr.h"
#include "vec/fused.h"
#include "vec/vec.h"

const cdz_vec *cdz_vec_scalar(void);
const cdz_vec *cdz_vec_avx2(void); /* NULL when it was not compiled */

const cdz_fuser *cdz_fuser_scalar(void);
const cdz_fuser *cdz_fuser_avx2(void); /* NULL when it was not compiled */

cdz_expr_runner cdz_expr_scalar(void);
cdz_expr_runner cdz_expr_avx2(void); /* NULL when it was not compiled */

#endif
