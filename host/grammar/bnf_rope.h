/* bnf_rope.h - expressions of GBNF while they are put together: lists of pieces, so that joining two costs nothing however
 * long they are. A rope is used once: what it is joined to takes its pieces. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_BNF_ROPE_H
#define CDZ_HOST_GRAMMAR_BNF_ROPE_H

#include "base/buf.h"
#include "grammar/charset.h"

typedef enum cdz_bnf_level {
    CDZ_BNF_ITEM,     /* a class, a name, a group: may be repeated as it is */
    CDZ_BNF_REPEATED, /* an item with its repetition */
    CDZ_BNF_SEQUENCE, /* or one character, which stands in a text */
    CDZ_BNF_CHOICE,
} cdz_bnf_level;

typedef struct cdz_bnf_rope {
    uint32_t first, last; /* pieces; 0: nothing is taken */
    cdz_bnf_level level;
    bool nullable;
} cdz_bnf_rope;

typedef struct cdz_bnf_piece {
    uint32_t next, kind, a, b;
} cdz_bnf_piece;

typedef struct cdz_bnf_ropes {
    cdz_bnf_piece *pieces; /* 0: none */
    cdz_code_span *spans;  /* of classes */
    uint32_t n_pieces, pieces_cap, n_spans, spans_cap;
    bool failed;
} cdz_bnf_ropes;

extern const cdz_bnf_rope cdz_bnf_rope_nothing;

void cdz_bnf_ropes_free(cdz_bnf_ropes *ropes); /* zeroed is fine */
/* One character of ranges that ascend. */
cdz_bnf_rope cdz_bnf_rope_set(cdz_bnf_ropes *ropes, const cdz_code_span *at, uint32_t n);
/* A rule of the output: of a rule of the network, part UINT32_MAX, or of a node within it. */
cdz_bnf_rope cdz_bnf_rope_name(cdz_bnf_ropes *ropes, uint32_t rule, uint32_t part, bool nullable);
/* The rule that the i-th piece names; UINT32_MAX: it names none. */
uint32_t cdz_bnf_rope_named(const cdz_bnf_ropes *ropes, uint32_t i);
cdz_bnf_rope cdz_bnf_rope_then(cdz_bnf_ropes *ropes, cdz_bnf_rope a, cdz_bnf_rope b);
cdz_bnf_rope cdz_bnf_rope_or(cdz_bnf_ropes *ropes, cdz_bnf_rope a, cdz_bnf_rope b);
/* max UINT32_MAX: without an end. */
cdz_bnf_rope cdz_bnf_rope_repeat(cdz_bnf_ropes *ropes, cdz_bnf_rope of, uint32_t min, uint32_t max);

/* Takes a rope's text; a name is written by write_name. */
typedef void cdz_bnf_write_name(void *user, uint32_t rule, uint32_t part, cdz_buf *out);
void cdz_bnf_rope_write(const cdz_bnf_ropes *ropes, cdz_bnf_rope rope,
                        cdz_bnf_write_name *write_name, void *user, cdz_buf *out);

#endif
