/* spread.c - see spread.h. */
#include "base/spread.h"

#include <stdlib.h>

static int rising(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

cdz_spread cdz_spread_of(double *values, size_t n)
{
    if (n == 0) return (cdz_spread){0};
    qsort(values, n, sizeof *values, rising);
    return (cdz_spread){values[n / 2], values[0], values[n - 1]};
}
