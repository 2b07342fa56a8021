/* parts.h - what a tokenizer is made of; for the files of this folder. */
#ifndef CDZ_HOST_TOKEN_PARTS_H
#define CDZ_HOST_TOKEN_PARTS_H

#include "token/bpe.h"
#include "token/decoder.h"
#include "token/model.h"
#include "token/pretok.h"
#include "token/tokenizer.h"
#include "token/vocab.h"

/* Of a text to encode, and of tokens to decode: offsets and places fit 32 bits with room to grow in NFC. */
#define CDZ_TEXT_MAX_BYTES ((size_t)1 << 30)

/* One element of a template: ids of a special token, or a text. */
typedef struct cdz_template_part {
    const int32_t *ids; /* NULL: a text goes here */
    uint32_t n_ids;
    uint32_t type; /* what type_ids say of it */
    bool second;   /* the second text of a pair */
} cdz_template_part;

typedef struct cdz_postproc {
    cdz_template_part *parts; /* NULL: the text alone */
    uint32_t n_parts;
    uint32_t n_special;            /* ids the template adds to one text */
    cdz_template_part *pair_parts; /* for two texts; NULL: one after the other */
    uint32_t n_pair_parts, n_pair_special;
    bool trim_offsets;     /* offsets leave out the whitespace of a token */
    bool add_prefix_space; /* one space that begins the first token stays in its offsets */
} cdz_postproc;

typedef struct cdz_named_template {
    const char *name, *text;
} cdz_named_template;

struct cdz_tokenizer {
    cdz_arena arena; /* tokenizer lifetime: everything below that is not freed by its own part */
    cdz_regex *regexes;
    cdz_vocab vocab;
    cdz_normalizer normalizer;
    cdz_cutter cutter;
    cdz_tok_model model;
    cdz_bpe bpe;
    cdz_tok_decoder decoder;
    bool over_bytes;    /* byte-level BPE: normalizer, cutter and model have a faster way */
    bool nfc;           /* the normalizer of that way */
    cdz_pretok pretok;  /* the cuts of that way */
    int32_t *stop_base; /* ids of the text that cdz_tokenizer_text_alone puts a token after */
    uint32_t n_stop_base;
    cdz_postproc postproc;
    cdz_tokenizer_config config;
    cdz_named_template *templates; /* of a config with several */
    uint32_t n_templates;
};

/* --- the readers of the parts ----------------------------------------------------------------- */

/* over_bytes: the tokens are bytes in their printable alphabet and nothing else. */
cdz_status cdz_bpe_read(cdz_bpe *bpe, const cdz_json *model, bool over_bytes,
                        const cdz_vocab *vocab, cdz_arena *arena, cdz_error *err);
/* Whether every byte has a token in its printable alphabet. */
bool cdz_bpe_has_bytes(const cdz_vocab *vocab);
cdz_status cdz_postproc_read(const cdz_json *part, cdz_postproc *out, cdz_arena *arena,
                             cdz_error *err);
cdz_status cdz_tokenizer_read_stop_base(cdz_tokenizer *tok, cdz_error *err);
cdz_status cdz_tokenizer_read_config(cdz_tokenizer *tok, const char *json, size_t len,
                                     const char *name, cdz_error *err);

/* --- working memory --------------------------------------------------------------------------- */

#define CDZ_CACHE_SLOTS (1u << 14)
#define CDZ_CACHE_BYTES 30 /* longest piece kept */
#define CDZ_CACHE_IDS   7  /* most ids kept */

/* One cache line: a piece and its ids. n_bytes 0: free. */
typedef struct cdz_cached_piece {
    uint8_t n_bytes, n_ids;
    uint8_t bytes[CDZ_CACHE_BYTES];
    int32_t ids[CDZ_CACHE_IDS];
    uint32_t spare;
} cdz_cached_piece;

/* For tokenizers that are not byte-level BPE. */
typedef struct cdz_char_work {
    cdz_norm_work norm;
    cdz_cut_work cut;
    cdz_tok_model_work model;
} cdz_char_work;

struct cdz_tokenizer_scratch {
    const cdz_tokenizer *tok; /* whose pieces the cache holds */
    cdz_cached_piece *cache;  /* CDZ_CACHE_SLOTS of them; made at first use */
    cdz_bpe_work bpe;
    cdz_nfc nfc;
    uint8_t *prefixed; /* a piece with the space that add_prefix_space puts before it */
    size_t prefixed_cap;
    uint32_t *chars; /* per byte of the text, the character it belongs to; only for offsets */
    size_t chars_cap;
    uint32_t *begins; /* per token of a piece, its first byte; only for offsets */
    size_t begins_cap;
    cdz_char_work by_chars;
    cdz_meter meter; /* of the call */
};

/* --- one encoding ----------------------------------------------------------------------------- */

typedef struct cdz_encode_job {
    const cdz_tokenizer *tok;
    cdz_tokenizer_scratch *scratch;
    cdz_encoding *out;
    bool plain, offsets;
} cdz_encode_job;

/* Room for more ids, and spans when they are wanted; false when memory is out. */
bool cdz_encoding_reserve(cdz_encoding *e, size_t more, bool offsets);

/* Leaves the whitespace at a token's ends out of its span, as the reference's ByteLevel does: it
 * counts the characters of the token's text, and keeps one space at the very beginning, which
 * may be a prefix. */
cdz_token_span cdz_trim_span(const cdz_postproc *post, bool first, cdz_token_span span,
                             uint32_t leading, uint32_t trailing);
/* Counts the whitespace at the ends of text for this, U+0120 included. */
void cdz_count_spaces(const uint8_t *text, size_t n, uint32_t *leading, uint32_t *trailing);

/* Appends the ids of valid UTF-8 for a tokenizer that is not over bytes. For spans
 * scratch->chars holds the character of each byte. */
cdz_status cdz_encode_by_chars(const cdz_encode_job *job, const uint8_t *text, size_t len,
                               cdz_error *err);

#endif
