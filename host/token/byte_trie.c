/* byte_trie.c - the trie of a vocabulary as a flat hash of edges. */
#include "token/model.h"

static uint64_t slot_of(const cdz_byte_trie *trie, uint64_t key)
{
    uint64_t i = cdz_hash_mix(key ^ trie->seed) >> 20 & trie->mask;
    while (trie->keys[i] != 0 && trie->keys[i] != key) i = (i + 1) & trie->mask;
    return i;
}

uint32_t cdz_byte_trie_child(const cdz_byte_trie *trie, uint32_t node, uint8_t byte)
{
    return trie->children[slot_of(trie, (uint64_t)node << 8 | byte)]; /* 0 in a free slot */
}

static void add_word(cdz_byte_trie *trie, const char *text, uint32_t len, int32_t id)
{
    uint32_t node = CDZ_TRIE_ROOT;
    for (uint32_t i = 0; i < len; i++) {
        const uint64_t key = (uint64_t)node << 8 | (uint8_t)text[i], slot = slot_of(trie, key);
        if (trie->keys[slot] == 0) {
            trie->keys[slot] = key;
            trie->ids[trie->n] = -1;
            trie->children[slot] = trie->n++;
        }
        node = trie->children[slot];
    }
    trie->ids[node] = id;
}

cdz_status cdz_byte_trie_build(cdz_byte_trie *trie, const cdz_strmap *words, cdz_arena *arena,
                               cdz_error *err)
{
    size_t bytes = 0, n_slots = 16;
    for (uint32_t i = 0; i < words->n; i++) {
        if (words->entries[i].len > CDZ_TRIE_MAX_BYTES)
            return cdz_err(
                err, CDZ_E_LIMIT,
                "model.vocab: a token of %u bytes (\"%.40s...\"); at most %d are supported",
                words->entries[i].len, words->entries[i].text, CDZ_TRIE_MAX_BYTES);
        bytes += words->entries[i].len;
    }
    while (n_slots < bytes * 2) n_slots *= 2;
    trie->keys = cdz_arena_array(arena, n_slots, sizeof *trie->keys);
    trie->children = cdz_arena_array(arena, n_slots, sizeof *trie->children);
    trie->ids = cdz_arena_array(arena, bytes + 2, sizeof *trie->ids);
    if (!trie->keys || !trie->children || !trie->ids || bytes > UINT32_MAX - 2)
        return cdz_err_memory(err, "the vocabulary's trie");
    trie->mask = n_slots - 1;
    trie->seed = (uint64_t)(uintptr_t)trie->keys * CDZ_HASH_MUL; /* differs from run to run */
    trie->n = CDZ_TRIE_ROOT + 1;
    trie->ids[CDZ_TRIE_ROOT] = -1; /* an empty token is never found in text */
    for (uint32_t i = 0; i < words->n; i++)
        if (words->entries[i].len > 0)
            add_word(trie, words->entries[i].text, words->entries[i].len, words->entries[i].id);
    return CDZ_OK;
}
