/* limits.h - what this machine can do at best: how fast its threads read memory, and how many multiply-adds they do.
 *
 * Measured on a backend's own threads, so that a figure of that backend is a fraction of them. A shared machine drifts:
 * measure limits and figures in turns, and compare within one run. */
#ifndef CDZ_HOST_RUN_PASS_LIMITS_H
#define CDZ_HOST_RUN_PASS_LIMITS_H

#include "kernels.h"

enum { CDZ_LIMIT_WAYS = 2 }; /* to read, in turns */

typedef struct cdz_limit_reads {
    double bytes, seconds;
} cdz_limit_reads;

/* Memory that is read in turns, a part of it each time, so that the figure comes from the same moments as those that it is
 * compared with. Zeroed to begin with; freed by cdz_limit_reader_free. One thread at a time. */
typedef struct cdz_limit_reader {
    struct cdz_limit_chunk *chunks; /* (n) */
    size_t n, cap, next;            /* next: where the next turn begins */
    size_t turns;
    cdz_limit_reads ways[CDZ_LIMIT_WAYS];
    double bytes, seconds; /* of all turns since the fields were last zeroed */
    double highest_gbs;    /* of one turn */
} cdz_limit_reader;

/* More of it; the memory stays the caller's, and stays there. False: out of memory. */
bool cdz_limit_reader_add(cdz_limit_reader *r, const void *data, size_t bytes);
/* A turn: reads at most 64 MiB on the backend's threads, a word of each line, each chunk as two or, every other turn, four
 * streams far apart that are asked for ahead, as the kernels do: a plain summing loop reads at two thirds of that. What a
 * thread is kept from by other programs, another one reads again, as chunks of matrices are. */
void cdz_limit_reader_turn(cdz_limit_reader *r, cdz_backend *backend);
/* Gigabytes per second of all turns of the faster way; 0: there was none. */
double cdz_limit_reader_gbs(const cdz_limit_reader *r);
void cdz_limit_reader_free(cdz_limit_reader *r);

/* Billions of float32 multiply-adds per second in the registers of the backend's variant; 0 where it has no vectors. */
double cdz_limit_gmacs(cdz_backend *backend);

#endif
