/* charsmap.h - sentencepiece's table of replacements: a double-array trie of byte strings, and the
 * texts they become. */
#ifndef CDZ_HOST_TOKEN_CHARSMAP_H
#define CDZ_HOST_TOKEN_CHARSMAP_H

#include "base/json.h"

typedef struct cdz_charsmap {
    const uint32_t *units; /* of the trie; tokenizer lifetime */
    uint32_t n_units;
    const char *texts; /* NUL-terminated, one after another; ends in a NUL of its own */
    size_t n_texts;    /* bytes */
} cdz_charsmap;

/* Reads the base64 text of "precompiled_charsmap". */
cdz_status cdz_charsmap_read(const cdz_json *text, cdz_charsmap *out, cdz_arena *arena,
                             cdz_error *err);

/* What the shortest entry that n bytes begin with becomes, or NULL when they begin with none. */
const char *cdz_charsmap_find(const cdz_charsmap *map, const uint8_t *bytes, size_t n);
/* The same of the longest entry; *len: its bytes. Entries of more than CDZ_CHARSMAP_MAX bytes are not found. */
#define CDZ_CHARSMAP_MAX 256
const char *cdz_charsmap_find_longest(const cdz_charsmap *map, const uint8_t *bytes, size_t n,
                                      size_t *len);

#endif
