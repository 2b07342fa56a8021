/* lane_turns.h - the order in which a tile's 16 lanes are summed, so that the written tree over them (l + 8, then l + 4, then l + 1,
 * then l + 2) grows meanwhile: a turn ends as many of its pairs as its number has ones at its end, and what it ends is kept for
 * a later one. */
#ifndef CDZ_CPU_LANE_TURNS_H
#define CDZ_CPU_LANE_TURNS_H

#include "kernel_set.h"

enum { CDZ_LANES_PENDING = 4 }; /* sums that are kept at a time */

/* Lanes lie in packed weights and activations as their turns come, so that both are read from one end to the other. */
static const uint8_t cdz_turn_of_lane[CDZ_LANES] = {0, 4, 8, 12, 2, 6, 10, 14,
                                                    1, 5, 9, 13, 3, 7, 11, 15};

/* The last turn ends four, and its sum, which is all of it, takes the first one's place. */
static inline unsigned cdz_pairs_ended(unsigned turn)
{
    return (unsigned)__builtin_ctz(~turn);
}

#endif
