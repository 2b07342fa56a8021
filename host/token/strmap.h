/* strmap.h - strings to ids: a flat hash of a size fixed when it is made. The strings are the
 * caller's. */
#ifndef CDZ_HOST_TOKEN_STRMAP_H
#define CDZ_HOST_TOKEN_STRMAP_H

#include <stdint.h>
#include <string.h>

#include "base/arena.h"

typedef struct cdz_strmap_entry {
    const char *text;
    uint32_t len;
    int32_t id;
} cdz_strmap_entry;

typedef struct cdz_strmap_slot {
    uint32_t entry; /* 1 + its index, 0 where free */
    uint32_t hash;
} cdz_strmap_slot;

typedef struct cdz_strmap {
    cdz_strmap_entry *entries;
    cdz_strmap_slot *slots;
    uint32_t n, cap, mask;
    uint64_t seed;
} cdz_strmap;

/* Room for cap entries, in the arena. False when memory is out. */
bool cdz_strmap_init(cdz_strmap *map, cdz_arena *arena, uint32_t cap);
/* The entry of a string, added with `id` when there was none; *found tells which. The map must
 * have room. */
cdz_strmap_entry *cdz_strmap_put(cdz_strmap *map, const char *text, uint32_t len, int32_t id,
                                 bool *found);
/* -1 when there is none. */
int32_t cdz_strmap_get(const cdz_strmap *map, const char *text, size_t len);

/* The same in three steps, for many strings at once: each asks the processor for what the next step of the same string
 * reads, so that the misses of the others overlap. */
uint32_t cdz_strmap_hash(const cdz_strmap *map, const char *text, size_t len);
void cdz_strmap_prefetch(const cdz_strmap *map, uint32_t hash);
/* The entry, or NULL. */
const cdz_strmap_entry *cdz_strmap_find(const cdz_strmap *map, const char *text, size_t len,
                                        uint32_t hash);

#define CDZ_HASH_MUL UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t cdz_hash_mix(uint64_t h)
{
    h *= CDZ_HASH_MUL;
    return h ^ h >> 29;
}

static inline uint64_t cdz_hash_load(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    uint32_t a, b;
    if (n == 8) {
        memcpy(&v, p, 8);
        return v;
    }
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return (uint64_t)a << 32 | b;
    }
    return n == 0 ? 0 : (uint64_t)p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16;
}

/* A hash of bytes, eight at a time; the high bits are the good ones. */
static inline uint64_t cdz_hash(const void *bytes, size_t n, uint64_t seed)
{
    const uint8_t *p = bytes;
    uint64_t h = seed ^ n;
    for (; n > 8; n -= 8, p += 8) h = cdz_hash_mix(h ^ cdz_hash_load(p, 8));
    h = cdz_hash_mix(h ^ cdz_hash_load(p, n));
    return cdz_hash_mix(h ^ h >> 32);
}

#endif
