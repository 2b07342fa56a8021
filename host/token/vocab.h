/* vocab.h - the tokens: the model's vocabulary, the added tokens over it, and what bytes each
 * stands for. */
#ifndef CDZ_HOST_TOKEN_VOCAB_H
#define CDZ_HOST_TOKEN_VOCAB_H

#include "base/json.h"
#include "token/added.h"
#include "token/normalizer.h"
#include "token/strmap.h"

typedef struct cdz_token {
    const char *text;  /* as the vocabulary spells it, NUL-terminated; NULL: the id means nothing */
    const char *bytes; /* what it decodes to; equal to text where the byte alphabet does not apply */
    uint32_t len, n_bytes;
    int32_t added; /* index of the added token, or -1 */
    bool special;  /* dropped by skip_special */
} cdz_token;

typedef struct cdz_vocab {
    cdz_token *tokens; /* by id */
    uint32_t n_ids;
    uint32_t n_model;     /* tokens of the model, spelt alike or not */
    const double *scores; /* by id, of a vocabulary that is a list of tokens and scores */
    uint32_t n_scored;
    cdz_strmap_entry *spelt; /* by id, of such a vocabulary; NULL: all are in `model` */
    cdz_strmap model;        /* the model's tokens by text */
    cdz_strmap added_ids;    /* added tokens by text */
    cdz_added_token *added;  /* in file order, without empty ones */
    uint32_t n_added;
    cdz_trie raw;        /* added tokens looked for in the text as it is */
    cdz_trie normalized; /* those looked for after normalisation */
} cdz_vocab;

#define CDZ_VOCAB_MAX_HOLES                                                                        \
    (1u << 20) /* unused ids a file may leave: bounds memory by the file's size */

/* Reads model.vocab: an object of tokens and ids. */
cdz_status cdz_vocab_read_model(cdz_vocab *vocab, const cdz_json *tokens, cdz_arena *arena,
                                cdz_error *err);

/* The same from a list of tokens and scores, where the place is the id. Of tokens spelt alike the
 * last one is found. */
cdz_status cdz_vocab_read_scored(cdz_vocab *vocab, const cdz_json *list, cdz_arena *arena,
                                 cdz_error *err);

/* n_known of the model part, which only our own SentencePiece reader writes: ids from there on are found in a text, and are
 * unknown; no look-up has them. */
cdz_status cdz_vocab_read_known(cdz_vocab *vocab, const cdz_json *model, cdz_error *err);
/* Reads the list of added tokens and gives them ids as the reference does: the id of the same
 * text in the vocabulary, else the next free one; the ids written in the file do not count.
 * Fills vocab->tokens. */
cdz_status cdz_vocab_read_added(cdz_vocab *vocab, const cdz_json *list,
                                const cdz_normalizer *normalizer, cdz_arena *arena, cdz_error *err);
void cdz_vocab_free(cdz_vocab *vocab); /* what is not in the arena */

int32_t cdz_vocab_id(const cdz_vocab *vocab, const char *text, size_t len); /* -1: none */
const cdz_token *cdz_vocab_token(const cdz_vocab *vocab, int32_t id);       /* NULL: none */

/* --- the byte alphabet: a printable character for every byte ---------------------------------- */

uint32_t cdz_byte_to_code(uint8_t byte);
/* The byte a character stands for, or -1. */
int cdz_code_to_byte(uint32_t code);
/* The bytes that byte-level text stands for; false (and nothing useful in out) when some
 * character is not of the alphabet. out has room for len bytes. */
bool cdz_byte_level_decode(const char *text, size_t len, char *out, size_t *n_out);

#endif
