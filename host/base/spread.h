/* spread.h - what repeated measurements of one thing come to. */
#ifndef CDZ_HOST_BASE_SPREAD_H
#define CDZ_HOST_BASE_SPREAD_H

#include <stddef.h>

typedef struct cdz_spread {
    double median, low, high;
} cdz_spread;

/* Of n values, which are sorted in place; the upper one of the two in the middle. n 0: zeros. */
cdz_spread cdz_spread_of(double *values, size_t n);

#endif
