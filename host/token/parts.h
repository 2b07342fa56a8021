/* parts.h - what a tokenizer is made of; for the files of this folder. */
#ifndef CDZ_HOST_TOKEN_PARTS_H
#define CDZ_HOST_TOKEN_PARTS_H

#include "token/bpe.h"
#include "token/nfc.h"
#include "token/pretok.h"
#include "token/tokenizer.h"
#include "token/vocab.h"

/* One element of a template: ids of a special token, or the text. */
typedef struct cdz_template_part {
    const int32_t *ids; /* NULL: the text goes here */
    uint32_t n_ids;
} cdz_template_part;

typedef struct cdz_postproc {
    cdz_template_part *parts; /* NULL: the text alone */
    uint32_t n_parts;
    uint32_t n_special;    /* ids the template adds to one text */
    bool trim_offsets;     /* offsets leave out the whitespace of a token */
    bool add_prefix_space; /* one space that begins the first token stays in its offsets */
} cdz_postproc;

typedef struct cdz_named_template {
    const char *name, *text;
} cdz_named_template;

struct cdz_tokenizer {
    cdz_arena arena; /* tokenizer lifetime: everything below that is not freed by its own part */
    bool nfc;        /* the normalizer */
    cdz_vocab vocab;
    cdz_pretok pretok;
    cdz_bpe bpe;
    cdz_postproc postproc;
    cdz_tokenizer_config config;
    cdz_named_template *templates; /* of a config with several */
    uint32_t n_templates;
};

/* --- the readers of the parts ----------------------------------------------------------------- */

cdz_status cdz_bpe_read(cdz_bpe *bpe, const cdz_json *model, const cdz_vocab *vocab,
                        cdz_arena *arena, cdz_error *err);
cdz_status cdz_postproc_read(const cdz_json *part, cdz_postproc *out, cdz_arena *arena,
                             cdz_error *err);
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

struct cdz_token_scratch {
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
};

#endif
