/* rest.h - how long to leave out what was no help: one turn, then two, four and so on, until it helps again. */
#ifndef CDZ_HOST_BASE_REST_H
#define CDZ_HOST_BASE_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Zeros are one that leaves out nothing. */
typedef struct cdz_rest {
    uint32_t length, left; /* turns: of the newest rest; of it still to come */
} cdz_rest;

static inline void cdz_rest_note(cdz_rest *rest, bool helped, uint32_t longest)
{
    const uint32_t longer = rest->length ? 2 * rest->length : 1;
    rest->length = helped ? 0 : longer < longest ? longer : longest;
    rest->left = rest->length;
}

/* Is this turn left out? Then it is one less. */
static inline bool cdz_rest_goes_on(cdz_rest *rest)
{
    if (rest->left == 0) return false;
    rest->left--;
    return true;
}

#endif
