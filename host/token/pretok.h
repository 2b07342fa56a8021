/* pretok.h - pre-tokenizers: text cut into the pieces that the model sees one by one. */
#ifndef CDZ_HOST_TOKEN_PRETOK_H
#define CDZ_HOST_TOKEN_PRETOK_H

#include "base/json.h"
#include "token/scanner.h"

/* What becomes of the matches of a Split: see the reference's SplitDelimiterBehavior. */
typedef enum cdz_split_behavior {
    CDZ_SPLIT_ISOLATED,
    CDZ_SPLIT_REMOVED,
    CDZ_SPLIT_CONTIGUOUS,
    CDZ_SPLIT_MERGED_WITH_PREVIOUS,
    CDZ_SPLIT_MERGED_WITH_NEXT,
} cdz_split_behavior;

/* One cut: spans that match and spans between them, joined or dropped as the behavior says. */
typedef struct cdz_split {
    cdz_match_fn match;  /* NULL: literal */
    const char *literal; /* not empty; tokenizer lifetime */
    size_t literal_len;
    cdz_split_behavior behavior;
    bool invert; /* the text between matches is what counts as matching */
} cdz_split;

#define CDZ_PRETOK_MAX 16

/* A chain of cuts; the last part of the chain is ByteLevel, whose own cut (if any) is the last
 * of these. */
typedef struct cdz_pretok {
    cdz_split splits[CDZ_PRETOK_MAX];
    uint32_t n;
    uint32_t n_before_prefix; /* cuts made before add_prefix_space acts on each piece */
    bool add_prefix_space;
    bool byte_level; /* the chain was closed by a ByteLevel */
} cdz_pretok;

/* Reads the "pre_tokenizer" part. Literals are copied to the arena. */
cdz_status cdz_pretok_read(const cdz_json *part, cdz_pretok *out, cdz_arena *arena, cdz_error *err);

/* Takes the pieces of text[begin, end) after one cut, in order. Returns false to stop. */
typedef bool (*cdz_piece_fn)(void *context, const uint8_t *text, size_t begin, size_t end);

/* Cuts text[begin, end); false when the callback said so. Empty pieces are never given. */
bool cdz_split_run(const cdz_split *split, const uint8_t *text, size_t begin, size_t end,
                   cdz_piece_fn piece, void *context);

#endif
