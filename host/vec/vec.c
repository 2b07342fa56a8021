/* vec.c - which table this machine gets. */
#include "vec/vec.h"

#include "vec/variants.h"

#include <string.h>

static const cdz_vec *avx2_here(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return cdz_vec_avx2();
#endif
    return NULL;
}

const cdz_vec *cdz_vec_table_of(const char *variant)
{
    if (strcmp(variant, "scalar") == 0) return cdz_vec_scalar();
    if (strcmp(variant, "avx2") == 0) return avx2_here();
    return NULL;
}

const cdz_vec *cdz_vec_table(void)
{
    const cdz_vec *best = avx2_here();
    return best ? best : cdz_vec_scalar();
}

cdz_expr_runner cdz_expr_runner_of(const char *variant)
{
    if (strcmp(variant, "scalar") == 0) return cdz_expr_scalar();
    return strcmp(variant, "avx2") == 0 && avx2_here() ? cdz_expr_avx2() : NULL;
}

void cdz_expr_run(const cdz_expr *e, const cdz_expr_arg *args, float *x, size_t n, void *scratch)
{
    const cdz_expr_runner best = avx2_here() ? cdz_expr_avx2() : cdz_expr_scalar();
    best(e, args, x, n, scratch);
}
