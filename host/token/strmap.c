/* strmap.c - strings to ids: open addressing over 32-bit indices into a dense list of entries. */
#include "token/strmap.h"

bool cdz_strmap_init(cdz_strmap *map, cdz_arena *arena, uint32_t cap)
{
    size_t n_slots = 8;
    while (n_slots < (size_t)cap * 2) n_slots *= 2;
    *map = (cdz_strmap){.cap = cap, .mask = (uint32_t)(n_slots - 1)};
    map->entries = cdz_arena_array(arena, cap ? cap : 1, sizeof *map->entries);
    map->slots = cdz_arena_array(arena, n_slots, sizeof *map->slots);
    /* An address differs from run to run, so a file cannot be made whose strings all collide. */
    map->seed = (uint64_t)(uintptr_t)map->slots;
    return map->entries && map->slots;
}

/* The slot that holds the string or the free one where it belongs. */
static cdz_strmap_slot *find_slot(const cdz_strmap *map, const char *text, size_t len, uint32_t hash)
{
    for (uint32_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        cdz_strmap_slot *slot = &map->slots[i];
        if (slot->entry == 0) return slot;
        if (slot->hash != hash) continue;
        const cdz_strmap_entry *e = &map->entries[slot->entry - 1];
        if (e->len == len && memcmp(e->text, text, len) == 0) return slot;
    }
}

uint32_t cdz_strmap_hash(const cdz_strmap *map, const char *text, size_t len)
{
    const uint32_t hash = (uint32_t)(cdz_hash(text, len, map->seed) >> 32);
    if (map->slots) __builtin_prefetch(&map->slots[hash & map->mask]);
    return hash;
}

/* Only the first slot is looked at: nearly always the string is there or nowhere. */
void cdz_strmap_prefetch(const cdz_strmap *map, uint32_t hash)
{
    if (!map->slots) return;
    const cdz_strmap_slot *slot = &map->slots[hash & map->mask];
    if (slot->entry && slot->hash == hash) __builtin_prefetch(&map->entries[slot->entry - 1]);
}

const cdz_strmap_entry *cdz_strmap_find(const cdz_strmap *map, const char *text, size_t len,
                                        uint32_t hash)
{
    if (!map->slots) return NULL;
    const uint32_t entry = find_slot(map, text, len, hash)->entry;
    return entry ? &map->entries[entry - 1] : NULL;
}

cdz_strmap_entry *cdz_strmap_put(cdz_strmap *map, const char *text, uint32_t len, int32_t id,
                                 bool *found)
{
    const uint32_t hash = cdz_strmap_hash(map, text, len);
    cdz_strmap_slot *slot = find_slot(map, text, len, hash);
    *found = slot->entry != 0;
    if (!*found) {
        map->entries[map->n] = (cdz_strmap_entry){text, len, id};
        *slot = (cdz_strmap_slot){++map->n, hash};
    }
    return &map->entries[slot->entry - 1];
}

int32_t cdz_strmap_get(const cdz_strmap *map, const char *text, size_t len)
{
    const cdz_strmap_entry *e = cdz_strmap_find(map, text, len, cdz_strmap_hash(map, text, len));
    return e ? e->id : -1;
}
