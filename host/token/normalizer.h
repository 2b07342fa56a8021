/* normalizer.h - the "normalizer" part of a tokenizer.json: a chain of steps that rewrite text and
 * keep its offsets. */
#ifndef CDZ_HOST_TOKEN_NORMALIZER_H
#define CDZ_HOST_TOKEN_NORMALIZER_H

#include "token/atext.h"
#include "token/charsmap.h"
#include "token/pattern.h"
#include "token/text_class.h"

typedef enum cdz_tok_norm_kind {
    CDZ_NORM_FORM,     /* a Unicode normalisation form */
    CDZ_NORM_LOWER,    /* character by character: no final sigma */
    CDZ_NORM_DROP,     /* characters of a class go */
    CDZ_NORM_BLANK,    /* characters of a class become spaces */
    CDZ_NORM_CHINESE,  /* a space before and after each */
    CDZ_NORM_STRIP,    /* whitespace at the ends goes */
    CDZ_NORM_REPLACE,  /* each match becomes the content */
    CDZ_NORM_PREPEND,  /* the content goes before text that is not empty */
    CDZ_NORM_CHARSMAP, /* Precompiled */
    CDZ_NORM_BYTES,    /* bytes in their printable alphabet */
} cdz_tok_norm_kind;

typedef struct cdz_norm_step {
    cdz_tok_norm_kind kind;
    cdz_tok_form form;
    cdz_text_class text_class;
    bool left, right; /* of STRIP */
    cdz_pattern pattern;
    const char *content; /* tokenizer lifetime */
    uint32_t content_len;
    cdz_charsmap map;
    bool longest; /* CHARSMAP: what SentencePiece itself does, which only our own reader says */
} cdz_norm_step;

#define CDZ_NORM_MAX_STEPS 64

typedef struct cdz_normalizer {
    cdz_norm_step *steps;
    uint32_t n;
} cdz_normalizer;

/* Zeroed is ready. */
typedef struct cdz_norm_work {
    cdz_atext text, spare;
    cdz_nfc nfc;
    cdz_meter *meter; /* of the call */
} cdz_norm_work;

void cdz_norm_work_free(cdz_norm_work *work);

cdz_status cdz_normalizer_read(const cdz_json *part, cdz_normalizer *out, cdz_arena *arena,
                               cdz_regex **regexes, cdz_error *err);

/* Writes the normal form of valid UTF-8, whose first byte is byte `base` of the original, to
 * work->text. work->meter is set. */
cdz_status cdz_normalizer_run(const cdz_normalizer *norm, cdz_norm_work *work, const uint8_t *text,
                              size_t n, size_t base, cdz_error *err);

#endif
