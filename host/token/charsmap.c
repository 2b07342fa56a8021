/* charsmap.c - reading a precompiled charsmap, which may hold any bytes, and looking up in it.
 *
 * Layout: the bytes of the trie as a little-endian 32-bit number, the trie, the texts. A unit of
 * the trie holds a label in its low byte, a leaf flag in bit 8 and the distance to its children
 * (darts-clone). */
#include "token/charsmap.h"

#include <string.h>

#include "base/utf8.h"
#include "token/base64.h"

/* --- reading ---------------------------------------------------------------------------------- */

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static cdz_status broken(const cdz_json *text, const char *how, cdz_error *err)
{
    return cdz_err(err, CDZ_E_INPUT, "line %u: normalizer: the \"precompiled_charsmap\" %s",
                   text->line, how);
}

static cdz_status split_parts(const cdz_json *text, const uint8_t *bytes, size_t n,
                              cdz_charsmap *out, cdz_arena *arena, cdz_error *err)
{
    const uint32_t trie_bytes = n >= 4 ? read_u32(bytes) : 0;
    if (n < 4 || trie_bytes > n - 4) return broken(text, "is cut off", err);
    if (trie_bytes < 4 || trie_bytes % 4 != 0)
        return broken(text, "has a trie that is not a whole number of units", err);
    const uint8_t *texts = bytes + 4 + trie_bytes;
    const size_t n_texts = n - 4 - trie_bytes;
    if (!cdz_utf8_valid((const char *)texts, n_texts))
        return broken(text, "has texts that are not UTF-8", err);
    uint32_t *units = cdz_arena_array(arena, trie_bytes / 4, sizeof *units);
    if (!units) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < trie_bytes / 4; i++) units[i] = read_u32(bytes + 4 + (size_t)i * 4);
    *out = (cdz_charsmap){units, trie_bytes / 4, (const char *)texts, n_texts};
    return CDZ_OK;
}

cdz_status cdz_charsmap_read(const cdz_json *text, cdz_charsmap *out, cdz_arena *arena,
                             cdz_error *err)
{
    uint8_t *bytes = cdz_arena_alloc(arena, (size_t)text->len + 1); /* zeroed: ends in a NUL */
    if (!bytes) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const size_t n = cdz_base64_decode(text->string, text->len, bytes);
    if (n == SIZE_MAX) return broken(text, "is not base64", err);
    return split_parts(text, bytes, n, out, arena, err);
}

/* --- looking up ------------------------------------------------------------------------------- */

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The text of an entry that ends at a node. A place inside a character would give text that is not UTF-8. */
static const char *text_at(const cdz_charsmap *map, uint32_t at)
{
    if (at >= map->n_units) return NULL;
    const uint32_t place = map->units[at] & 0x7FFFFFFF;
    if (place > map->n_texts) return NULL;
    return ((uint8_t)map->texts[place] & 0xC0) == 0x80 ? NULL : map->texts + place;
}

/* Reads nothing outside the trie, whatever its units say. */
static const char *find(const cdz_charsmap *map, const uint8_t *bytes, size_t n, bool longest,
                        size_t *len)
{
    uint32_t at = offset_of(map->units[0]);
    const char *found = NULL;
    for (size_t i = 0; i < n && bytes[i] != 0; i++) {
        at ^= bytes[i];
        if (at >= map->n_units) break;
        const uint32_t unit = map->units[at];
        if ((unit & (1u << 31 | 0xFF)) != bytes[i]) break;
        at ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        const char *text = text_at(map, at);
        if (!text) break;
        found = text;
        *len = i + 1;
        if (!longest) break;
    }
    return found;
}

const char *cdz_charsmap_find(const cdz_charsmap *map, const uint8_t *bytes, size_t n)
{
    size_t len;
    return find(map, bytes, n, false, &len);
}

const char *cdz_charsmap_find_longest(const cdz_charsmap *map, const uint8_t *bytes, size_t n,
                                      size_t *len)
{
    return find(map, bytes, n < CDZ_CHARSMAP_MAX ? n : CDZ_CHARSMAP_MAX, true, len);
}
