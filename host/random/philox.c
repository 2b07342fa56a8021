/* philox.c - Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): noise for processors,
 * keyed by the request's seed and counted by (row, position, plugin), so that no draw depends on any other. */
#include "random/torch_rng.h"

enum { ROUNDS = 10 };

static void one_round(uint32_t c[4], const uint32_t key[2])
{
    const uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
    const uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ key[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ key[1];
    c[3] = (uint32_t)p0;
}

void cdz_philox(uint64_t seed, uint64_t plugin_key, uint32_t row, uint32_t position, uint32_t out[4])
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    out[0] = row;
    out[1] = position;
    out[2] = (uint32_t)plugin_key;
    out[3] = (uint32_t)(plugin_key >> 32);
    for (int i = 0; i < ROUNDS; i++) {
        one_round(out, key);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
}

uint64_t cdz_philox_key(const char *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *id; id++) hash = (hash ^ (uint8_t)*id) * UINT64_C(0x100000001b3);
    return hash;
}
