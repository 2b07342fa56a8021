/* mt19937.h - the Mersenne Twister's state, 624 words at a time (Matsumoto and Nishimura, 1998). */
#ifndef CDZ_HOST_RANDOM_MT19937_H
#define CDZ_HOST_RANDOM_MT19937_H

#include <stdint.h>

enum { CDZ_MT_WORDS = 624 };

void cdz_mt_init(uint32_t state[CDZ_MT_WORDS], uint32_t seed); /* init_genrand */
void cdz_mt_next(uint32_t state[CDZ_MT_WORDS]);                /* the following 624 words */

static inline uint32_t cdz_mt_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

#endif
