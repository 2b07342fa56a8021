/* decoder.h - the "decoder" part of a tokenizer.json: a chain of steps from the tokens' texts to
 * the text. A lone ByteLevel decoder is not run by this: see decode.c. */
#ifndef CDZ_HOST_TOKEN_DECODER_H
#define CDZ_HOST_TOKEN_DECODER_H

#include "token/cutter.h"
#include "token/strmap.h"

typedef enum cdz_dec_kind {
    CDZ_DEC_BYTE_LEVEL,
    CDZ_DEC_REPLACE,
    CDZ_DEC_BYTE_FALLBACK,
    CDZ_DEC_FUSE,
    CDZ_DEC_STRIP,
    CDZ_DEC_METASPACE,
    CDZ_DEC_WORDPIECE,
    CDZ_DEC_BPE,
    CDZ_DEC_CTC,
    CDZ_DEC_STRETCHES, /* as SentencePiece does, each stretch between some tokens alone: written by our own reader */
    CDZ_DEC_JOIN, /* no decoder: a space between tokens */
} cdz_dec_kind;

typedef struct cdz_dec_step {
    cdz_dec_kind kind;
    cdz_pattern pattern;   /* REPLACE; METASPACE: the replacement */
    const char *text;      /* what REPLACE puts, STRIP takes off, WORDPIECE's prefix, BPE's suffix,
                            CTC's pad token */
    const char *delimiter; /* CTC */
    size_t text_len, delimiter_len;
    size_t start, stop; /* STRIP: at most so many characters */
    bool cleanup;       /* WORDPIECE, CTC */
    cdz_strmap between; /* STRETCHES: the tokens between them */
    bool keeps_first;   /* METASPACE: the first token keeps its spaces */
} cdz_dec_step;

#define CDZ_DECODER_MAX 16

typedef struct cdz_tok_decoder {
    cdz_dec_step steps[CDZ_DECODER_MAX];
    uint32_t n;
    bool byte_level;    /* a ByteLevel and nothing else */
    bool byte_fallback; /* some step is */
} cdz_tok_decoder;

cdz_status cdz_decoder_read(const cdz_json *part, cdz_tok_decoder *out, cdz_arena *arena,
                            cdz_regex **regexes, cdz_error *err);

/* Strings one after another. Zeroed: none. */
typedef struct cdz_strings {
    cdz_buf bytes;
    size_t *ends; /* of each string, in bytes */
    size_t n, cap;
} cdz_strings;

void cdz_strings_free(cdz_strings *list);
/* Ends the string of what was added to bytes since the last; sets bytes.failed when memory is out. */
void cdz_strings_close(cdz_strings *list);
void cdz_strings_add(cdz_strings *list, const char *text, size_t n);

/* Turns the tokens' texts into what the chain makes of them; the text is all of them joined. */
/* The meter is the run's own. */
cdz_status cdz_decoder_run(const cdz_tok_decoder *decoder, cdz_strings *list, cdz_error *err);

/* The byte that a token like <0x41> stands for, or -1. */
int cdz_fallback_byte(const char *text, size_t n);

#endif
