/* cutter.h - the "pre_tokenizer" part of a tokenizer.json: text cut into the pieces that the model
 * sees one by one. */
#ifndef CDZ_HOST_TOKEN_CUTTER_H
#define CDZ_HOST_TOKEN_CUTTER_H

#include "token/atext.h"
#include "token/split.h"

typedef enum cdz_cut_kind {
    CDZ_CUT_SPLIT,
    CDZ_CUT_SCRIPTS,    /* between characters of different scripts */
    CDZ_CUT_FIXED,      /* every `length` characters */
    CDZ_CUT_METASPACE,  /* spaces are written out and cut at */
    CDZ_CUT_BYTE_LEVEL, /* bytes in their printable alphabet */
} cdz_cut_kind;

typedef enum cdz_prepend_scheme {
    CDZ_PREPEND_ALWAYS,
    CDZ_PREPEND_FIRST, /* to the piece that begins the original text */
    CDZ_PREPEND_NEVER,
} cdz_prepend_scheme;

typedef struct cdz_cut {
    cdz_cut_kind kind;
    cdz_split split; /* of SPLIT; of METASPACE (a literal, the replacement) and BYTE_LEVEL too */
    bool cuts_first; /* BYTE_LEVEL and METASPACE: split is made */
    bool prefix;     /* BYTE_LEVEL: add_prefix_space */
    cdz_prepend_scheme scheme;
    uint32_t length;
} cdz_cut;

#define CDZ_CUTTER_MAX 16

typedef struct cdz_cutter {
    cdz_cut cuts[CDZ_CUTTER_MAX];
    uint32_t n;
} cdz_cutter;

cdz_status cdz_cutter_read(const cdz_json *part, cdz_cutter *out, cdz_arena *arena,
                           cdz_regex **regexes, cdz_error *err);
/* Of a Metaspace, which is a decoder too. The replacement is split's literal. */
cdz_status cdz_metaspace_read(const cdz_json *part, const char *what, cdz_cut *out,
                              cdz_arena *arena, cdz_error *err);

typedef struct cdz_piece {
    size_t begin, end; /* bytes of the text */
} cdz_piece;

typedef struct cdz_pieces {
    cdz_piece *items;
    size_t n, cap;
} cdz_pieces;

/* Zeroed is ready. */
typedef struct cdz_cut_work {
    const cdz_atext *text; /* what the pieces are of, after cdz_cutter_run */
    cdz_pieces pieces;
    cdz_atext made[2]; /* text that cuts rewrote */
    cdz_pieces spare;
    cdz_meter *meter; /* of the call */
} cdz_cut_work;

void cdz_cut_work_free(cdz_cut_work *work);

/* Cuts text[begin, end), which may be empty, into work->pieces. work->meter is set. */
cdz_status cdz_cutter_run(const cdz_cutter *cutter, cdz_cut_work *work, const cdz_atext *text,
                          size_t begin, size_t end, cdz_error *err);

#endif
