/* wide.h - the two loops that a draw spends its time in, compiled plainly and for AVX2: the same words either way. */
#ifndef CDZ_HOST_RANDOM_WIDE_H
#define CDZ_HOST_RANDOM_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The upper bits of noise u = r / 2^53 are the low bits of the first of its two words: u is at least those over
 * CDZ_WIDE_NOISE, and less than one more of them. */
#define CDZ_WIDE_MASK  0x1fffffu
#define CDZ_WIDE_NOISE 0x1p21

typedef struct cdz_wide {
    /* The 624 words that follow these. */
    void (*next)(uint32_t *state);
    /* Which of n elements are still in the race for the largest p / q: maybe[i] is 0 when p[i] is 0, or when best is
     * out of its reach whatever the lower bits of q are. words: (2 * n) of the state, untempered, two for each
     * element; its noise is at least the upper 21 bits of the first. */
    void (*screen)(const uint32_t *words, const float *p, size_t n, float best, uint32_t *maybe);
    /* The smallest of n elements' upper bits, words as above. */
    uint32_t (*least)(const uint32_t *words, size_t n);
    /* As bit patterns: what processors masked. */
    bool (*all_zero)(const float *p, size_t n);
} cdz_wide;

const cdz_wide *cdz_wide_plain(void);
const cdz_wide *cdz_wide_avx2(void); /* NULL when it was not compiled */
const cdz_wide *cdz_wide_here(void); /* the best for this machine */

#endif
