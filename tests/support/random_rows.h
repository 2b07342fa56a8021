/* random_rows.h - cmocka with what it needs, and a small generator for test rows: the same numbers everywhere. */
#ifndef CDZ_TESTS_SUPPORT_RANDOM_ROWS_H
#define CDZ_TESTS_SUPPORT_RANDOM_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t test_state = 1;

static inline void test_seed(uint64_t seed)
{
    test_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* xorshift64* */
static inline uint32_t test_random(void)
{
    test_state ^= test_state >> 12;
    test_state ^= test_state << 25;
    test_state ^= test_state >> 27;
    return (uint32_t)((test_state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

static inline float test_uniform(void)
{
    return (float)(test_random() >> 8) * 0x1p-24f;
}

/* Mean 0, deviation 1: near enough to a normal one. */
static inline float test_normal(void)
{
    float s = -6.0f;
    for (int i = 0; i < 12; i++) s += test_uniform();
    return s;
}

#endif
