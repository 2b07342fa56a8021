/* bnf.h - what the readers of grammars by rules have in common: a text with places, rules by name, open brackets on a
 * stack, and repetition. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_BNF_H
#define CDZ_HOST_GRAMMAR_BNF_H

#include "grammar/grow.h"
#include "grammar/net.h"

typedef struct cdz_bnf_rule {
    const char *name;     /* in the source */
    size_t len, used, at; /* used: where it is named first; at: where it is defined */
    uint32_t rule;
    bool defined;
    uint8_t seen; /* while looking for circles */
} cdz_bnf_rule;

/* Between two nodes that nothing else leads to or from. */
typedef struct cdz_bnf_part {
    uint32_t in, out;
} cdz_bnf_part;

typedef struct cdz_bnf_group {
    cdz_bnf_part part;
    uint32_t at; /* where the present alternative has come to */
    size_t pos;  /* of the bracket */
    char closes; /* the bracket that ends it; 0: a whole rule */
} cdz_bnf_group;

typedef struct cdz_bnf {
    const char *language; /* "GBNF", "Lark" */
    const char *text;
    size_t len, pos;
    cdz_net *net;
    const cdz_tokenizer *tokenizer;
    cdz_bnf_rule *rules;
    uint32_t n_rules, rules_cap;
    cdz_item_table table; /* rules by name */
    cdz_bnf_group *groups;
    uint32_t n_groups, groups_cap;
    cdz_error *err;
} cdz_bnf;

enum { CDZ_BNF_MAX_GROUPS = 10000, CDZ_BNF_MAX_COUNT = 1000000 };

cdz_status cdz_bnf_begin(cdz_bnf *b, const char *language, const char *text, size_t len,
                         cdz_net *net, const cdz_grammar_options *options, cdz_error *err);
void cdz_bnf_free(cdz_bnf *b);
/* A sentence with line and column; CDZ_E_INPUT, or CDZ_E_UNSUPPORTED for what is understood and refused. */
cdz_status cdz_bnf_wrong(const cdz_bnf *b, size_t pos, const char *text);
cdz_status cdz_bnf_refuse(const cdz_bnf *b, size_t pos, const char *text);
cdz_status cdz_bnf_no_memory(const cdz_bnf *b);
/* What the network has met, a limit with the place that is being read. */
cdz_status cdz_bnf_met(const cdz_bnf *b);

int cdz_bnf_peek(const cdz_bnf *b, size_t ahead); /* a byte, or -1 */
bool cdz_bnf_take(cdz_bnf *b, const char *text);
bool cdz_bnf_number(cdz_bnf *b, uint32_t *out);
/* A character of a text, perhaps by an escape: \xHH, \uHHHH, \UHHHHHHHH, or one of letters, which stands for the same place
 * of values; the end of values: NUL. */
cdz_status cdz_bnf_code(cdz_bnf *b, const char *letters, const char *values, uint32_t *code);

/* The rule of a name, made when it is new; index into rules, UINT32_MAX: no memory. */
uint32_t cdz_bnf_rule_named(cdz_bnf *b, const char *name, size_t len);
/* The rule of the name that stands at `from`, to be defined now; one that is defined already is refused. */
cdz_status cdz_bnf_rule_begin(cdz_bnf *b, size_t from, size_t len, uint32_t *rule);
/* Gives it its body. */
void cdz_bnf_define(cdz_bnf *b, uint32_t rule, cdz_bnf_part part);
/* The rule that all begins with. Where there is none, or one that was used and never defined, that is refused. */
cdz_status cdz_bnf_root(cdz_bnf *b, const char *name, uint32_t *rule);

cdz_status cdz_bnf_open(cdz_bnf *b, char closes);
void cdz_bnf_next_alternative(cdz_bnf *b);
cdz_bnf_part cdz_bnf_close(cdz_bnf *b);
static inline cdz_bnf_group *cdz_bnf_top(cdz_bnf *b)
{
    return &b->groups[b->n_groups - 1];
}

cdz_bnf_part cdz_bnf_part_new(cdz_bnf *b);
void cdz_bnf_append(cdz_bnf *b, cdz_bnf_part part);
/* The part, min to max times; max UINT32_MAX: without an end. */
cdz_bnf_part cdz_bnf_repeat(cdz_bnf *b, cdz_bnf_part part, uint32_t min, uint32_t max);

/* <name>, <[1,5-7]>, <[^3]>, <[*]> from "<" on; but: all tokens except these. */
cdz_status cdz_bnf_tokens(cdz_bnf *b, bool but, cdz_bnf_part *out);

#endif
