/* experts.c - mixtures of experts: which experts a row goes to, and adding what they give. */
#include "cpu/cpu_backend.h"
#include "ref/ref.h"

enum { ALONE_ROWS_FLOATS = 32768 }; /* outputs that the caller computes by itself */

void cdz_cpu_route(cdz_backend *b, float *weights, int32_t *ids, size_t k, const float *scores,
                   size_t lds, size_t m, size_t n, bool normalise)
{
    (void)b;
    for (size_t r = 0; r < m; r++)
        cdz_ref_route(weights + r * k, ids + r * k, k, scores + r * lds, n, normalise);
}

typedef struct scaled_rows {
    const cdz_kernel_set *set;
    float *y;
    size_t ldy;
    const int32_t *to;
    const float *factors, *x;
    size_t ldx, n;
} scaled_rows;

static void add_scaled_row(void *arg, size_t i)
{
    const scaled_rows *r = arg;
    r->set->add_scaled(r->y + (size_t)r->to[i] * r->ldy, r->x + i * r->ldx, r->factors[i], r->n);
}

void cdz_cpu_add_scaled(cdz_backend *b, float *y, size_t ldy, const int32_t *to,
                        const float *factors, const float *x, size_t ldx, size_t m, size_t n)
{
    scaled_rows r = {cdz_cpu(b)->set, y, ldy, to, factors, x, ldx, n};
    if (m > 1 && m * n > ALONE_ROWS_FLOATS)
        cdz_pool_tasks(cdz_cpu(b)->pool, add_scaled_row, &r, m);
    else
        for (size_t i = 0; i < m; i++) add_scaled_row(&r, i);
}
