/* lane_turns.h - the order in which a tile's 16 lanes are summed, so that the written tree over them (l + 8, then l + 4, then l + 1,
 * then l + 2) grows meanwhile: a turn ends as many of its pairs as its number has ones at its end, and what it ends is kept for
 * a later one. */
#ifndef CDZ_CPU_LANE_TURNS_H
#define CDZ_CPU_LANE_TURNS_H

#include "kernel_set.h"

enum { CDZ_LANES_PENDING = 4 }; /* sums that are kept at a time */

static const uint8_t cdz_lane_of_turn[CDZ_LANES] = {0, 8,  4, 12, 1, 9,  5, 13,
                                                    2, 10, 6, 14, 3, 11, 7, 15};

/* The last turn ends four, and its sum, which is all of it, takes the first one's place. */
static inline unsigned cdz_pairs_ended(unsigned turn)
{
    return (unsigned)__builtin_ctz(~turn);
}

#endif
