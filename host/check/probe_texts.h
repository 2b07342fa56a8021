/* probe_texts.h - the words and the text of made-up requests: what a tokenizer of the kit's own knows, and a few kilobytes of
 * real and broken text that rows are filled with. */
#ifndef CDZ_HOST_CHECK_PROBE_TEXTS_H
#define CDZ_HOST_CHECK_PROBE_TEXTS_H

#include "cadenza/base.h"

/* Ids in order: letters, bytes, words, numbers; the last three of a vocabulary are special or no token at all. */
enum {
    CDZ_TEXT_LETTERS = 26,
    CDZ_TEXT_BYTES = CDZ_TEXT_LETTERS,     /* the first of 256 */
    CDZ_TEXT_WORDS = CDZ_TEXT_BYTES + 256, /* the first word */
    CDZ_TEXT_SPECIALS = 3, /* from the end: no token, the end of a text, its beginning */
    CDZ_TEXT_LEAST = 64,   /* smaller vocabularies have no special ones */
};

/* What token id of a vocabulary of n_vocab adds to a text; {NULL, 0}: nothing. Any thread. */
cdz_string cdz_probe_text_of_token(uint32_t n_vocab, int32_t id);
bool cdz_probe_text_is_special(uint32_t n_vocab, int32_t id);
/* The token that a text begins with, and in *bytes how much of it that is. len > 0. */
int32_t cdz_probe_text_first_token(uint32_t n_vocab, const char *text, size_t len, size_t *bytes);

/* The kit's text: prose, code, tables, many scripts, and bytes that are no UTF-8. */
cdz_string cdz_probe_text_corpus(void);

#endif
