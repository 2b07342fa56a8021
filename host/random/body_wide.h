/* body_wide.h - the loops of wide.h, written so that the compiler makes vectors of them. Included once per instruction
 * set; everything is static. */
#ifndef CDZ_HOST_RANDOM_BODY_WIDE_H
#define CDZ_HOST_RANDOM_BODY_WIDE_H

#include "random/mt19937.h"
#include "random/wide.h"

#include <string.h>

enum { N = CDZ_MT_WORDS, M = 397 };

static inline uint32_t twist(uint32_t u, uint32_t v)
{
    const uint32_t y = (u & 0x80000000u) | (v & 0x7fffffffu);
    return (y >> 1) ^ ((0u - (v & 1u)) & 0x9908b0dfu);
}

/* s[i] = s[i + 397] ^ twist(s[i], s[i + 1]), indices mod 624, in place: each word is read before it is written. */
static void next_words(uint32_t *s)
{
    for (int i = 0; i < N - M; i++) s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
    for (int i = N - M; i < N - 1; i++) s[i] = s[i - (N - M)] ^ twist(s[i], s[i + 1]);
    s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
}

/* u = r / 2^53 with the low 21 bits of the first word on top of r, so u is at least those bits alone, and the noise q at
 * least u. Both factors are floats: if p < best * u as rounded, then p / q does not exceed best as rounded either. */
static void screen_words(const uint32_t *words, const float *p, size_t n, float best,
                         uint32_t *maybe)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t top = cdz_mt_temper(words[2 * i]) & CDZ_WIDE_MASK;
        const float least = best * ((float)(int32_t)top * 0x1p-21f);
        maybe[i] = (uint32_t)(p[i] > 0.0f) & (uint32_t)(p[i] >= least);
    }
}

static uint32_t least_noise(const uint32_t *words, size_t n)
{
    uint32_t least = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        const uint32_t top = cdz_mt_temper(words[2 * i]) & CDZ_WIDE_MASK;
        least = top < least ? top : least;
    }
    return least;
}

static bool all_zero(const float *p, size_t n)
{
    uint32_t any = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, p + i, sizeof bits);
        any |= bits;
    }
    return any == 0;
}

static const cdz_wide wide = {next_words, screen_words, least_noise, all_zero};

#endif
