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
static uint32_t *find_slot(const cdz_strmap *map, const char *text, size_t len, uint32_t hash)
{
    for (uint32_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        uint32_t *slot = &map->slots[i];
        if (*slot == 0) return slot;
        const cdz_strmap_entry *e = &map->entries[*slot - 1];
        if (e->hash == hash && e->len == len && memcmp(e->text, text, len) == 0) return slot;
    }
}

cdz_strmap_entry *cdz_strmap_put(cdz_strmap *map, const char *text, uint32_t len, int32_t id,
                                 bool *found)
{
    const uint32_t hash = (uint32_t)(cdz_hash(text, len, map->seed) >> 32);
    uint32_t *slot = find_slot(map, text, len, hash);
    *found = *slot != 0;
    if (!*found) {
        map->entries[map->n] = (cdz_strmap_entry){text, len, hash, id};
        *slot = ++map->n;
    }
    return &map->entries[*slot - 1];
}

int32_t cdz_strmap_get(const cdz_strmap *map, const char *text, size_t len)
{
    if (!map->slots) return -1;
    const uint32_t hash = (uint32_t)(cdz_hash(text, len, map->seed) >> 32);
    const uint32_t slot = *find_slot(map, text, len, hash);
    return slot ? map->entries[slot - 1].id : -1;
}
