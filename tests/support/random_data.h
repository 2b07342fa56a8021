/* random_data.h - what the kernel tests of every backend share: numbers that look random and are the
 * same each time, memory, comparison of floats. No test framework, so that it serves on a bare machine
 * too. */
#ifndef CDZ_TESTS_SUPPORT_RANDOM_DATA_H
#define CDZ_TESTS_SUPPORT_RANDOM_DATA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rng {
    uint32_t state; /* not 0 */
} rng;

static inline uint32_t next_word(rng *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 17;
    r->state ^= r->state << 5;
    return r->state;
}

/* In (-1, 1), of very different sizes, so that the order of a sum shows. */
static inline float next_float(rng *r)
{
    const float f = (float)(int32_t)next_word(r) * 0x1p-31f;
    return f * ldexpf(1.0f, -(int)(next_word(r) % 8));
}

static inline void *must_alloc(size_t bytes)
{
    void *p = calloc(1, bytes + 1);
    if (p) return p;
    fprintf(stderr, "out of memory\n");
    exit(2);
}

static inline float *random_floats(rng *r, size_t n)
{
    float *x = must_alloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = next_float(r);
    return x;
}

/* Same bits, or both NaN. */
static inline bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

#endif
