/* vocab.h - the vocabulary cut into parts, each a trie. Inside grammar/ only.
 *
 * Where all characters of a kind lead to one state, the tokens of such characters may come at once, by their number of
 * characters: masks hold them. Other tokens are walked, by the parts they are in. */
#ifndef CDZ_HOST_GRAMMAR_VOCAB_H
#define CDZ_HOST_GRAMMAR_VOCAB_H

#include "grammar/grammar.h"
#include "grammar/states.h"

typedef struct cdz_vocab_node {
    uint32_t child, n_children; /* nodes of the bytes that may follow, side by side */
    uint32_t ids, n_ids;        /* tokens that end here */
    uint32_t ids_past;          /* behind those and the ones below */
    uint16_t below; /* the kind of all bytes below, the narrowest; CDZ_N_WAYS: some are not plain ASCII */
    uint16_t height; /* bytes of the longest way down */
} cdz_vocab_node;

/* A trie of some of the tokens. The bytes of brothers, which a walk looks at, lie side by side, and what lies below them
 * behind them. */
typedef struct cdz_vocab_trie {
    cdz_vocab_node *nodes; /* the first n_roots are those of first bytes */
    uint8_t *bytes;        /* of the nodes */
    uint32_t n_nodes, cap, bytes_cap, n_roots;
    uint16_t root_of[257]; /* the first root of a byte or a greater one */
    uint32_t *ids;         /* of the tokens in order of their bytes */
    uint8_t *chars;        /* of each: plain characters before the bytes that are in the trie */
    uint32_t n_ids;
} cdz_vocab_trie;

enum { CDZ_VOCAB_CHARS = 24 }; /* tokens of more characters are walked */

/* Parts of the vocabulary. A token is in the last that takes it. */
enum cdz_vocab_part {
    CDZ_PART_REST,
    CDZ_PART_PLAIN, /* whole characters of a kind, as cdz_net_way has them */
    CDZ_PART_SOLID,
    CDZ_PART_WORD,
    CDZ_PART_LETTERS,
    CDZ_PART_SMALL,
    CDZ_PART_SPACED, /* the same from CDZ_PART_SOLID on behind a space, which their tries leave out */
    CDZ_PART_BLANK = CDZ_PART_SPACED + 4, /* JSON's whitespace */
    CDZ_N_PARTS,
};

/* Tokens of the rest and the blank once more, by what comes behind their plain characters. */
typedef struct cdz_vocab_tails {
    cdz_vocab_trie quotes;                     /* from the first quote on */
    cdz_vocab_trie others;                     /* from another byte on that is not plain */
    cdz_vocab_trie after[CDZ_VOCAB_CHARS + 1]; /* those others by the number of characters before */
    cdz_vocab_trie odd;                        /* what is neither, whole: bytes that are no UTF-8 */
    cdz_vocab_trie longs;                      /* plain ones of more characters, whole */
    uint32_t *long_chars;                      /* theirs, by place in longs.ids */
} cdz_vocab_tails;

/* Tokens of the rest, the plain, the solid and the word once more, by what comes behind their letters of ASCII. */
typedef struct cdz_vocab_letters {
    cdz_vocab_trie after[CDZ_VOCAB_CHARS + 1]; /* by the number of letters before */
    cdz_vocab_trie odd;                        /* of more, whole */
} cdz_vocab_letters;

struct cdz_grammar_vocab {
    char *bytes;
    uint32_t *begin; /* of a token's bytes; n_ids + 1 of them */
    uint32_t n_ids, n_words, depth;
    cdz_vocab_trie tries[CDZ_N_PARTS];
    cdz_vocab_tails tails;
    cdz_vocab_letters letters;
    cdz_vocab_trie
        solids; /* others of the rest and the plain once more, without the solid characters that they begin with */
    /* Tokens of at most 0, 1, 2, ... characters, n_words of each; those of the plain and the solid may end inside a character.
     * NULL: the part has none. */
    uint64_t *masks[CDZ_N_PARTS];
    int32_t *ends;
    uint32_t n_ends;
};

static inline void cdz_vocab_set(uint64_t *mask, uint32_t id)
{
    mask[id / 64] |= (uint64_t)1 << (id % 64);
}

#endif
