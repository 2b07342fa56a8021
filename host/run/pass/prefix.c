/* prefix.c - keys of KV blocks in buckets, and the line of blocks that rest.
 *
 * Owns: which block is listed under which key. Not: who holds a block (kv.c), nor what is in it (the backend).
 * Invariant: cdz_prefix_check, which the census of the pool asks after each tick. Thread: [engine]. */
#include "run/pass/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernels.h"

enum { NONE = -1 };

typedef struct entry {
    uint64_t serial, before, hash; /* serial 0: not listed */
    uint32_t kind;
    int32_t next;         /* in its bucket */
    int32_t older, newer; /* in the line of those that rest */
    bool rests;
    int32_t ids[CDZ_KV_BLOCK];
    uint8_t salt[CDZ_PREFIX_SALT];
} entry;

struct cdz_prefix_list {
    entry *entries;   /* (n) by block; read and written only where a block has been listed */
    int32_t *buckets; /* (n_buckets) first block, plus one: zeroed memory is empty */
    uint32_t n, n_buckets;
    uint64_t last_serial;
    int32_t oldest, newest; /* of the line */
    uint32_t n_resting;
};

cdz_prefix_list *cdz_prefix_create(uint32_t n_blocks)
{
    cdz_prefix_list *list = calloc(1, sizeof *list);
    if (!list) return NULL;
    list->n = n_blocks;
    list->n_buckets = 1;
    while (list->n_buckets < n_blocks) list->n_buckets *= 2;
    list->oldest = list->newest = NONE;
    list->entries = calloc(n_blocks, sizeof *list->entries);
    list->buckets = calloc(list->n_buckets, sizeof *list->buckets);
    if (list->entries && list->buckets) return list;
    cdz_prefix_free(list);
    return NULL;
}

void cdz_prefix_free(cdz_prefix_list *list)
{
    if (!list) return;
    free(list->entries);
    free(list->buckets);
    free(list);
}

/* --- keys --- */

static uint64_t stir(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_of(const cdz_prefix_key *key)
{
    uint64_t h = stir(key->kind, key->before), word;
    for (uint32_t i = 0; i < CDZ_PREFIX_SALT; i += sizeof word) {
        memcpy(&word, key->salt + i, sizeof word);
        h = stir(h, word);
    }
    for (uint32_t i = 0; i < CDZ_KV_BLOCK; i++) h = stir(h, (uint32_t)key->ids[i]);
    return h;
}

static bool is_of(const entry *e, uint64_t hash, const cdz_prefix_key *key)
{
    return e->hash == hash && e->before == key->before && e->kind == key->kind &&
           memcmp(e->ids, key->ids, sizeof e->ids) == 0 &&
           memcmp(e->salt, key->salt, sizeof e->salt) == 0;
}

static int32_t *bucket_of(const cdz_prefix_list *list, uint64_t hash)
{
    return &list->buckets[(hash ^ hash >> 32) & (list->n_buckets - 1)];
}

int32_t cdz_prefix_find(const cdz_prefix_list *list, const cdz_prefix_key *key)
{
    const uint64_t hash = hash_of(key);
    int32_t at = *bucket_of(list, hash) - 1;
    while (at != NONE && !is_of(&list->entries[at], hash, key)) at = list->entries[at].next;
    return at;
}

void cdz_prefix_add(cdz_prefix_list *list, int32_t block, const cdz_prefix_key *key)
{
    entry *e = &list->entries[block];
    cdz_assert(e->serial == 0 && cdz_prefix_find(list, key) == NONE);
    *e = (entry){.serial = ++list->last_serial,
                 .before = key->before,
                 .hash = hash_of(key),
                 .kind = key->kind,
                 .older = NONE,
                 .newer = NONE};
    memcpy(e->ids, key->ids, sizeof e->ids);
    memcpy(e->salt, key->salt, sizeof e->salt);
    int32_t *bucket = bucket_of(list, e->hash);
    e->next = *bucket - 1;
    *bucket = block + 1;
}

void cdz_prefix_remove(cdz_prefix_list *list, int32_t block)
{
    entry *e = &list->entries[block];
    cdz_assert(e->serial && !e->rests);
    int32_t *bucket = bucket_of(list, e->hash);
    if (*bucket - 1 == block) {
        *bucket = e->next + 1;
    } else {
        int32_t at = *bucket - 1;
        while (list->entries[at].next != block) at = list->entries[at].next;
        list->entries[at].next = e->next;
    }
    e->serial = 0;
}

uint64_t cdz_prefix_serial(const cdz_prefix_list *list, int32_t block)
{
    return list->entries[block].serial;
}

/* --- the line --- */

void cdz_prefix_rest(cdz_prefix_list *list, int32_t block)
{
    entry *e = &list->entries[block];
    cdz_assert(e->serial && !e->rests);
    e->rests = true;
    e->older = list->newest;
    e->newer = NONE;
    if (list->newest == NONE)
        list->oldest = block;
    else
        list->entries[list->newest].newer = block;
    list->newest = block;
    list->n_resting++;
}

void cdz_prefix_rest_last(cdz_prefix_list *list, int32_t block)
{
    entry *e = &list->entries[block];
    cdz_assert(e->serial && !e->rests);
    e->rests = true;
    e->newer = list->oldest;
    e->older = NONE;
    if (list->oldest == NONE)
        list->newest = block;
    else
        list->entries[list->oldest].older = block;
    list->oldest = block;
    list->n_resting++;
}

void cdz_prefix_wake(cdz_prefix_list *list, int32_t block)
{
    entry *e = &list->entries[block];
    cdz_assert(e->rests && list->n_resting > 0);
    if (e->older == NONE)
        list->oldest = e->newer;
    else
        list->entries[e->older].newer = e->newer;
    if (e->newer == NONE)
        list->newest = e->older;
    else
        list->entries[e->newer].older = e->older;
    e->rests = false;
    list->n_resting--;
}

bool cdz_prefix_rests(const cdz_prefix_list *list, int32_t block)
{
    return list->entries[block].rests;
}

uint32_t cdz_prefix_n_resting(const cdz_prefix_list *list)
{
    return list->n_resting;
}

int32_t cdz_prefix_give(cdz_prefix_list *list)
{
    const int32_t block = list->oldest;
    if (block == NONE) return NONE;
    cdz_prefix_wake(list, block);
    cdz_prefix_remove(list, block);
    return block;
}

/* --- all of them --- */

cdz_prefix_key cdz_prefix_key_of(const cdz_prefix_list *list, int32_t block)
{
    const entry *e = &list->entries[block];
    cdz_assert(e->serial);
    return (cdz_prefix_key){.salt = e->salt, .before = e->before, .kind = e->kind, .ids = e->ids};
}

typedef struct listed {
    uint64_t serial;
    int32_t block;
} listed;

static int by_serial(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return (x->serial > y->serial) - (x->serial < y->serial);
}

/* A serial is always above that of the block before. */
static uint32_t order_held(const cdz_prefix_list *list, uint32_t n, int32_t *blocks)
{
    uint32_t n_held = 0;
    for (uint32_t b = 0; b < n; b++)
        if (list->entries[b].serial && !list->entries[b].rests) blocks[n_held++] = (int32_t)b;
    listed *held = malloc((n_held ? n_held : 1) * sizeof *held);
    if (!held) return 0;
    for (uint32_t i = 0; i < n_held; i++)
        held[i] = (listed){list->entries[blocks[i]].serial, blocks[i]};
    qsort(held, n_held, sizeof *held, by_serial);
    for (uint32_t i = 0; i < n_held; i++) blocks[i] = held[i].block;
    free(held);
    return n_held;
}

uint32_t cdz_prefix_order(const cdz_prefix_list *list, uint32_t n, int32_t *blocks)
{
    uint32_t at = order_held(list, n, blocks);
    for (int32_t b = list->newest; b != NONE; b = list->entries[b].older) blocks[at++] = b;
    return at;
}

#ifdef CDZ_CHECKED

/* --- what is promised of it --- */

/* How many are listed and how many of them rest, each found by its key. */
static void check_entries(const cdz_prefix_list *list, uint32_t n, uint32_t *n_listed,
                          uint32_t *n_resting)
{
    *n_listed = *n_resting = 0;
    for (uint32_t b = 0; b < n; b++) {
        const entry *e = &list->entries[b];
        cdz_assert(e->serial || !e->rests);
        if (!e->serial) continue;
        const cdz_prefix_key key = cdz_prefix_key_of(list, (int32_t)b);
        cdz_assert(e->serial <= list->last_serial && e->before < e->serial);
        cdz_assert(e->hash == hash_of(&key) && cdz_prefix_find(list, &key) == (int32_t)b);
        ++*n_listed;
        *n_resting += e->rests;
    }
}

static void check_buckets(const cdz_prefix_list *list, uint32_t n, uint32_t n_listed)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < list->n_buckets; i++)
        for (int32_t at = list->buckets[i] - 1; at != NONE; at = list->entries[at].next) {
            cdz_assert((uint32_t)at < n && list->entries[at].serial && found < n_listed);
            cdz_assert(bucket_of(list, list->entries[at].hash) == &list->buckets[i]);
            found++;
        }
    cdz_assert(found == n_listed);
}

static void check_line(const cdz_prefix_list *list, uint32_t n_resting)
{
    uint32_t n = 0;
    int32_t older = NONE;
    for (int32_t at = list->oldest; at != NONE; at = list->entries[at].newer, n++) {
        cdz_assert(list->entries[at].rests && list->entries[at].older == older && n < n_resting);
        older = at;
    }
    cdz_assert(older == list->newest && n == n_resting && n == list->n_resting);
}

void cdz_prefix_check(const cdz_prefix_list *list, uint32_t n)
{
    uint32_t n_listed, n_resting;
    check_entries(list, n, &n_listed, &n_resting);
    check_buckets(list, n, n_listed);
    check_line(list, n_resting);
}

#else

void cdz_prefix_check(const cdz_prefix_list *list, uint32_t n)
{
    (void)list, (void)n;
}

#endif
