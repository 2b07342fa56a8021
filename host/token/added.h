/* added.h - added tokens: found in text as wholes before anything else looks at it, leftmost
 * first, longest first. */
#ifndef CDZ_HOST_TOKEN_ADDED_H
#define CDZ_HOST_TOKEN_ADDED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "token/meter.h"

typedef struct cdz_added_token {
    const char *text;
    uint32_t len;
    int32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
    bool searched; /* in a trie; another entry of the same text may stand for it */
} cdz_added_token;

typedef struct cdz_trie_node {
    uint32_t child, sibling; /* nodes; 0 is none */
    int32_t token;           /* index of the added token that ends here, or -1 */
    uint8_t byte;
} cdz_trie_node;

/* The tokens of one search. Zeroed: none. */
typedef struct cdz_trie {
    cdz_trie_node *nodes;
    size_t n, cap;
    uint32_t first[256]; /* node by first byte, 0: no token begins so */
} cdz_trie;

#define CDZ_ADDED_MAX_BYTES 1024 /* of one token */

/* False when memory is out. Of equal texts the first one added counts. */
bool cdz_trie_add(cdz_trie *trie, const char *text, size_t len, int32_t token);
void cdz_trie_free(cdz_trie *trie);

typedef struct cdz_added_match {
    size_t begin, end; /* bytes, with the whitespace that lstrip and rstrip take in */
    int32_t token;     /* index of the added token */
} cdz_added_match;

/* The next match in valid UTF-8 of n bytes. *from is where to search, *done where the last match
 * ended: both 0 at first, moved on by the call. plain: special tokens do not count. Also false when the meter, which
 * counts nodes of the trie and the whitespace around tokens, is spent. */
bool cdz_added_next(const cdz_trie *trie, const cdz_added_token *tokens, const uint8_t *text,
                    size_t n, bool plain, cdz_meter *meter, size_t *from, size_t *done,
                    cdz_added_match *out);

/* The sentence of a meter that was spent so. */
cdz_status cdz_added_spent(size_t n, cdz_error *err);

#endif
