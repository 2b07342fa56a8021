/* pair.h - one text or two to the ids that a model reads together: the post-processor's template round them, what is
 * too long cut off, what is too short filled up. The reference's encode with truncation and padding set; what a
 * tokenizer.json says of these two is left to the caller, as with the reference's model classes. */
#ifndef CDZ_HOST_TOKEN_PAIR_H
#define CDZ_HOST_TOKEN_PAIR_H

#include "base/arena.h"
#include "token/tokenizer.h"

typedef enum cdz_truncation {
    CDZ_TRUNCATE_NONE,
    CDZ_TRUNCATE_LONGEST_FIRST, /* the longer text first, then both */
    CDZ_TRUNCATE_FIRST,
    CDZ_TRUNCATE_SECOND,
} cdz_truncation;

/* Zeroed: the texts as they are, without special tokens. */
typedef struct cdz_pair_options {
    bool special; /* add what the post-processor adds */
    cdz_truncation truncation;
    uint32_t max_length; /* ids, added ones included */
    uint32_t stride;     /* ids that what was cut off has in common with what is before it */
    bool truncate_left;  /* the end stays, not the beginning */
    bool pad;
    uint32_t pad_length;   /* 0: only to the multiple */
    uint32_t pad_multiple; /* 0: any length */
    int32_t pad_id;
    uint32_t pad_type;
    bool pad_left;
} cdz_pair_options;

typedef struct cdz_pair_token {
    int32_t id;
    uint32_t type;       /* type_ids */
    int8_t text;         /* 0, 1; -1: of neither */
    bool special;        /* added round the texts, padding too */
    bool pad;            /* hidden by the attention mask */
    cdz_token_span span; /* of its text; 0 to 0 for one of neither */
} cdz_pair_token;

typedef struct cdz_pair_ids {
    cdz_pair_token *at;
    size_t n;
} cdz_pair_ids;

/* Zeroed: nothing. */
typedef struct cdz_encoding_pair {
    cdz_arena arena;
    cdz_pair_ids
        *all; /* the first is the encoding, the others what was cut off, in the reference's order */
    size_t n;
} cdz_encoding_pair;

/* second: NULL for one text. *out is freed by the caller on success. */
cdz_status cdz_tokenizer_encode_pair(const cdz_tokenizer *tok, const char *first, size_t first_len,
                                     const char *second, size_t second_len,
                                     const cdz_pair_options *options, cdz_encoding_pair *out,
                                     cdz_error *err);
void cdz_encoding_pair_free(cdz_encoding_pair *encoding); /* zeroed is fine */

#endif
