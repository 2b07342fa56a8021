/* limits.h - what this machine can do at best: how fast its threads read memory, and how many multiply-adds they do.
 *
 * Measured on a backend's own threads, so that a figure of that backend is a fraction of them. A shared machine drifts:
 * measure limits and figures in turns, and compare within one run. */
#ifndef CDZ_HOST_RUN_PASS_LIMITS_H
#define CDZ_HOST_RUN_PASS_LIMITS_H

#include "kernels.h"

/* Gigabytes per second of one pass over the memory, four streams per thread, far apart: a plain summing loop reads
 * slower. bytes: several times the last cache, or the cache is what is measured. */
double cdz_limit_read_gbs(cdz_backend *backend, const void *data, size_t bytes);

/* Billions of float32 multiply-adds per second in the registers of the backend's variant; 0 where it has no vectors. */
double cdz_limit_gmacs(cdz_backend *backend);

#endif
