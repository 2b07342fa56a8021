/* mt19937.c - seeding; the recurrence itself is in body_wide.h. */
#include "random/mt19937.h"

#include "random/wide.h"

void cdz_mt_init(uint32_t state[CDZ_MT_WORDS], uint32_t seed)
{
    state[0] = seed;
    for (uint32_t i = 1; i < CDZ_MT_WORDS; i++)
        state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
}

void cdz_mt_next(uint32_t state[CDZ_MT_WORDS])
{
    cdz_wide_here()->next(state);
}
