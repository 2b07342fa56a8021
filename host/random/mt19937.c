/* mt19937.c - the recurrence s[i] = s[i + 397] ^ twist(s[i], s[i + 1]), indices mod 624.
 *
 * In three runs whose reads never meet their own writes, so that the compiler makes vectors of them: skipping the
 * 300,000 words of one sampled row of a large vocabulary takes some 0.1 ms. */
#include "random/mt19937.h"

enum { N = CDZ_MT_WORDS, M = 397 };

void cdz_mt_init(uint32_t state[N], uint32_t seed)
{
    state[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
}

static inline uint32_t twist(uint32_t u, uint32_t v)
{
    const uint32_t y = (u & 0x80000000u) | (v & 0x7fffffffu);
    return (y >> 1) ^ ((0u - (v & 1u)) & 0x9908b0dfu);
}

void cdz_mt_next(uint32_t s[N])
{
    uint32_t fresh[N];

    for (int i = 0; i < N - M; i++) fresh[i] = s[i + M] ^ twist(s[i], s[i + 1]);
    for (int i = N - M; i < 2 * (N - M); i++) fresh[i] = fresh[i - (N - M)] ^ twist(s[i], s[i + 1]);
    for (int i = 2 * (N - M); i < N - 1; i++) fresh[i] = fresh[i - (N - M)] ^ twist(s[i], s[i + 1]);
    fresh[N - 1] = fresh[M - 1] ^ twist(s[N - 1], fresh[0]);
    for (int i = 0; i < N; i++) s[i] = fresh[i];
}
