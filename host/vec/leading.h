/* leading.h - the best scores of a row that is elsewhere, after some of its scores have changed. */
#ifndef CDZ_HOST_VEC_LEADING_H
#define CDZ_HOST_VEC_LEADING_H

#include "vec/fused.h"

/* Roundings that a sum over a row, as a device tells it, may be off by. */
#define CDZ_LEADING_OFF 16.0

/* Scores that changed, and perhaps some that did not. */
typedef struct cdz_changes {
    const int32_t *ids; /* (n) rising */
    const float *was;   /* (n) */
    const float *is;    /* (n) */
    size_t n;
    float divisor; /* of the scores that the mass is for; 0: there is no mass */
} cdz_changes;

/* The leaders with these changes, with the same bound: the others were below it and have not changed. ids and x: room for
 * both numbers of scores, where the new list goes. False: a score became NaN, or none is left. */
bool cdz_leading_change(cdz_leading *leaders, const cdz_changes *changes, int32_t *ids, float *x);

#endif
