/* away.h - rows of scores that stay where a device made them.
 *
 * A greedy step wants to know of a row of scores which token is the best, and a row is half a megabyte. So rows stay on
 * the device, the pass tells the best of each, and they come over only when somebody reads them: then the request is
 * known to read its rows, and later ones come with their passes. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_AWAY_H
#define CDZ_HOST_RUN_AWAY_H

#include "kernels.h"

typedef struct cdz_away {
    cdz_backend *device;
    float *rows; /* (n_rows, n_vocab) of the device; NULL: everything is at home */
    uint32_t n_rows;
    size_t n_vocab;
    int32_t *best; /* (n_rows) the best token of those that are there */
    bool *there;   /* (n_rows) the newest scores are in `rows`, not at home */
    bool on;       /* the next pass's rows stay there */
    bool asked;    /* somebody read a row that was there */
} cdz_away;

/* Makes room, once, where the device can tell what is best and has memory to spare; else rows stays NULL. */
void cdz_away_begin(cdz_away *away, cdz_backend *device, uint32_t n_rows, size_t n_vocab);
void cdz_away_free(cdz_away *away); /* one of zeros is fine */

static inline bool cdz_away_has(const cdz_away *away, uint32_t row)
{
    return row < away->n_rows && away->there[row];
}

/* Those of the rows [first, first + n) that are there, to their places in home (n_rows, n_vocab); returns how many. */
uint32_t cdz_away_fetch(cdz_away *away, float *home, uint32_t first, uint32_t n);
/* Row `row` becomes a copy of another one that is there. */
void cdz_away_repeat(cdz_away *away, uint32_t row, uint32_t other);

#endif
