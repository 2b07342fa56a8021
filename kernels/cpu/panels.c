/* panels.c - rows brought into panels by all threads, a few panels at a time. */
#include "cpu/cpu_backend.h"

enum { PIECE = 4 }; /* panels */

typedef struct job {
    const cdz_kernel_set *set;
    cdz_dtype dtype;
    char *to;
    const char *rows;
    size_t panels, k, row_bytes;
} job;

static void some_panels(void *arg, size_t i)
{
    const job *j = arg;
    const size_t bytes = j->row_bytes * CDZ_PANEL_ROWS, from = i * PIECE,
                 last = j->panels - from < PIECE ? j->panels : from + PIECE;
    for (size_t p = from; p < last; p++)
        j->set->to_panel(j->dtype, j->to + p * bytes, j->rows + p * bytes, j->row_bytes, j->k,
                         p + 1 < j->panels ? bytes : 0);
}

void cdz_cpu_to_panels(cdz_backend *b, cdz_dtype dtype, void *to, const void *rows, size_t n,
                       size_t k)
{
    job j = {cdz_cpu(b)->set, dtype, to, rows, n / CDZ_PANEL_ROWS, k, cdz_row_bytes(dtype, k)};
    cdz_pool_tasks(cdz_cpu(b)->pool, some_panels, &j, (j.panels + PIECE - 1) / PIECE);
}
