/* json_table.c - open addressing on SipHash. */
#include "base/json_table.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Directly before the members; the slots are directly before it. */
typedef struct head {
    uint64_t key[2];
    uint64_t n_slots; /* a power of two, at least twice the members */
} head;

enum { FEWEST_SLOTS = 32 };

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein). */
static uint64_t hash_of(const uint64_t key[2], const char *text, size_t len)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    size_t at = 0;
    for (uint64_t word; len - at >= 8; at += 8) {
        memcpy(&word, text + at, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; at + i < len; i++) last |= (uint64_t)(unsigned char)text[at + i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void cdz_json_table_key(uint64_t key[2])
{
    if (getrandom(key, 2 * sizeof *key, GRND_NONBLOCK) == (ssize_t)(2 * sizeof *key)) return;
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    key[0] = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u;
    key[1] = (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)key;
}

bool cdz_json_name_is(const cdz_json_member *member, const char *name, size_t len)
{
    return member->key_len == len && memcmp(member->key, name, len) == 0;
}

cdz_json_member *cdz_json_table_create(cdz_arena *arena, size_t n, const uint64_t key[2])
{
    size_t n_slots = FEWEST_SLOTS;
    while (n_slots < 2 * n) n_slots *= 2;
    char *block = cdz_arena_alloc(arena, n_slots * sizeof(uint32_t) + sizeof(head) +
                                             n * sizeof(cdz_json_member));
    if (!block) return NULL;
    head *h = (head *)(void *)(block + n_slots * sizeof(uint32_t));
    memcpy(h->key, key, sizeof h->key);
    h->n_slots = n_slots;
    return (cdz_json_member *)(void *)(h + 1);
}

/* Where the name is, or the free slot where it would go. */
static uint64_t probe(const head *h, const uint32_t *slots, const cdz_json_member *members,
                      const char *name, size_t len)
{
    uint64_t mask = h->n_slots - 1, at = hash_of(h->key, name, len) & mask;
    while (slots[at] && !cdz_json_name_is(&members[slots[at] - 1], name, len)) at = (at + 1) & mask;
    return at;
}

uint32_t *cdz_json_table_slot(cdz_json_member *members, const char *name, size_t len)
{
    head *h = (head *)(void *)members - 1;
    uint32_t *slots = (uint32_t *)(void *)h - h->n_slots;
    return &slots[probe(h, slots, members, name, len)];
}

const cdz_json_member *cdz_json_table_find(const cdz_json_member *members, const char *name,
                                           size_t len)
{
    const head *h = (const head *)(const void *)members - 1;
    const uint32_t *slots = (const uint32_t *)(const void *)h - h->n_slots;
    uint32_t found = slots[probe(h, slots, members, name, len)];
    return found ? &members[found - 1] : NULL;
}
