/* gbnf.c - grammars as llama.cpp writes them. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/bnf.h"
#include "grammar/states.h"

static bool is_name(int c)
{
    return c == '-' || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Blanks and comments; newlines too, where they do not end a rule. */
static void skip(cdz_bnf *b, bool newlines)
{
    for (int c; (c = cdz_bnf_peek(b, 0)) >= 0; b->pos++) {
        if (c == '#') {
            while (cdz_bnf_peek(b, 1) >= 0 && cdz_bnf_peek(b, 1) != '\n') b->pos++;
            continue;
        }
        if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r'))) break;
    }
}

static cdz_status code_point(cdz_bnf *b, uint32_t *code)
{
    return cdz_bnf_code(b, "nrt\\\"[]", "\n\r\t\\\"[]", code);
}

static cdz_status literal(cdz_bnf *b, cdz_bnf_part *out)
{
    const size_t from = b->pos++;
    *out = cdz_bnf_part_new(b);
    uint32_t at = out->in, code = 0;
    char bytes[4];
    while (!cdz_bnf_take(b, "\"")) {
        if (cdz_bnf_peek(b, 0) < 0) return cdz_bnf_wrong(b, from, "a text without its closing \"");
        CDZ_TRY(code_point(b, &code));
        at = cdz_net_text(b->net, at, bytes, cdz_utf8_encode(code, bytes));
    }
    cdz_net_edge_add(b->net, at, out->out, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

static cdz_status class_members(cdz_bnf *b, size_t from, cdz_charset *set)
{
    const bool but = cdz_bnf_take(b, "^");
    while (!cdz_bnf_take(b, "]")) {
        uint32_t lo = 0, hi;
        if (cdz_bnf_peek(b, 0) < 0) return cdz_bnf_wrong(b, from, "a class without ]");
        CDZ_TRY(code_point(b, &lo));
        hi = lo;
        if (cdz_bnf_peek(b, 0) == '-' && cdz_bnf_peek(b, 1) != ']' && cdz_bnf_peek(b, 1) >= 0) {
            b->pos++;
            CDZ_TRY(code_point(b, &hi));
        }
        if (hi < lo) return cdz_bnf_wrong(b, b->pos, "a range whose end lies before its beginning");
        cdz_charset_add(set, lo, hi);
    }
    cdz_charset_settle(set);
    if (but) cdz_charset_negate(set);
    return CDZ_OK;
}

static cdz_status class(cdz_bnf *b, cdz_bnf_part *out)
{
    cdz_charset set = {0};
    const size_t from = b->pos++;
    *out = cdz_bnf_part_new(b);
    const cdz_status st = class_members(b, from, &set);
    if (st == CDZ_OK) cdz_net_charset(b->net, out->in, out->out, &set, false);
    const bool failed = set.failed;
    cdz_charset_free(&set);
    return failed ? cdz_bnf_no_memory(b) : st;
}

static cdz_status any_code(cdz_bnf *b, cdz_bnf_part *out)
{
    cdz_code_span all = {0, CDZ_CODE_MAX};
    const cdz_charset set = {.at = &all, .n = 1};
    b->pos++;
    *out = cdz_bnf_part_new(b);
    cdz_net_charset(b->net, out->in, out->out, &set, false);
    return CDZ_OK;
}

static cdz_status name(cdz_bnf *b, cdz_bnf_part *out)
{
    const size_t from = b->pos;
    size_t n = 0;
    while (is_name(cdz_bnf_peek(b, n))) n++;
    const uint32_t i = cdz_bnf_rule_named(b, b->text + from, n);
    if (i == UINT32_MAX) return cdz_bnf_no_memory(b);
    b->pos += n;
    *out = cdz_bnf_part_new(b);
    cdz_net_edge_add(b->net, out->in, out->out, CDZ_NET_CALL, b->rules[i].rule);
    return CDZ_OK;
}

/* {m}, {m,}, {m,n} behind the bracket. */
static cdz_status counts(cdz_bnf *b, uint32_t *min, uint32_t *max)
{
    skip(b, false);
    if (!cdz_bnf_number(b, min)) return cdz_bnf_wrong(b, b->pos, "expected a count");
    *max = *min;
    skip(b, false);
    if (cdz_bnf_take(b, ",")) {
        skip(b, false);
        if (!cdz_bnf_number(b, max)) *max = UINT32_MAX;
        skip(b, false);
    }
    if (!cdz_bnf_take(b, "}")) return cdz_bnf_wrong(b, b->pos, "expected }");
    if (*min > *max) return cdz_bnf_wrong(b, b->pos, "a count whose most is less than its least");
    if (*min > CDZ_BNF_MAX_COUNT || (*max != UINT32_MAX && *max > CDZ_BNF_MAX_COUNT))
        return cdz_bnf_wrong(b, b->pos, "a count above 1000000");
    return CDZ_OK;
}

/* Appends a part with what is written behind it. */
static cdz_status append(cdz_bnf *b, cdz_bnf_part part)
{
    const bool inside = cdz_bnf_top(b)->closes != 0;
    for (;;) {
        uint32_t min = 0, max = UINT32_MAX;
        const size_t from = b->pos;
        skip(b, inside);
        if (cdz_bnf_take(b, "+")) {
            min = 1;
        } else if (cdz_bnf_take(b, "?")) {
            max = 1;
        } else if (cdz_bnf_take(b, "{")) {
            CDZ_TRY(counts(b, &min, &max));
        } else if (!cdz_bnf_take(b, "*")) {
            b->pos = from;
            break;
        }
        part = cdz_bnf_repeat(b, part, min, max);
    }
    cdz_bnf_append(b, part);
    return CDZ_OK;
}

static cdz_status item(cdz_bnf *b)
{
    cdz_bnf_part part = {0};
    const int c = cdz_bnf_peek(b, 0);
    switch (c) {
    case '"': CDZ_TRY(literal(b, &part)); break;
    case '[': CDZ_TRY(class(b, &part)); break;
    case '.': CDZ_TRY(any_code(b, &part)); break;
    case '<': CDZ_TRY(cdz_bnf_tokens(b, false, &part)); break;
    case '!':
        b->pos++;
        if (cdz_bnf_peek(b, 0) != '<') return cdz_bnf_wrong(b, b->pos, "expected < behind !");
        CDZ_TRY(cdz_bnf_tokens(b, true, &part));
        break;
    case '(': {
        const cdz_status st = cdz_bnf_open(b, ')');
        b->pos++;
        return st;
    }
    case ')':
        if (!cdz_bnf_top(b)->closes) return cdz_bnf_wrong(b, b->pos, "a ) that closes nothing");
        b->pos++;
        return append(b, cdz_bnf_close(b));
    default:
        if (!is_name(c))
            return cdz_bnf_wrong(b, b->pos, "expected a text, a class, a name or a group");
        CDZ_TRY(name(b, &part));
    }
    return append(b, part);
}

static cdz_status body(cdz_bnf *b)
{
    skip(b, true);
    CDZ_TRY(cdz_bnf_open(b, 0));
    for (;;) {
        skip(b, cdz_bnf_top(b)->closes != 0);
        const int c = cdz_bnf_peek(b, 0);
        if (c == '\n' || c == '\r' || c < 0) break;
        if (c == '|') {
            b->pos++;
            cdz_bnf_next_alternative(b);
            skip(b, true);
        } else {
            CDZ_TRY(item(b));
        }
        if (b->net->status != CDZ_OK) break;
    }
    if (b->n_groups > 1 && b->net->status == CDZ_OK)
        return cdz_bnf_wrong(b, cdz_bnf_top(b)->pos, "a ( without )");
    return CDZ_OK;
}

static cdz_status rule(cdz_bnf *b)
{
    const size_t from = b->pos;
    size_t n = 0;
    while (is_name(cdz_bnf_peek(b, n))) n++;
    if (!n) return cdz_bnf_wrong(b, from, "expected a rule's name");
    uint32_t i;
    CDZ_TRY(cdz_bnf_rule_begin(b, from, n, &i));
    b->pos += n;
    skip(b, false);
    if (!cdz_bnf_take(b, "::=")) return cdz_bnf_wrong(b, b->pos, "expected ::=");
    CDZ_TRY(body(b));
    cdz_bnf_define(b, i, cdz_bnf_close(b));
    return CDZ_OK;
}

static cdz_status read_all(cdz_bnf *b, uint32_t *root)
{
    for (skip(b, true); b->pos < b->len; skip(b, true)) {
        CDZ_TRY(rule(b));
        CDZ_TRY(cdz_bnf_met(b));
    }
    uint32_t i;
    CDZ_TRY(cdz_bnf_root(b, "root", &i));
    *root = b->rules[i].rule;
    return CDZ_OK;
}

cdz_status cdz_grammar_from_gbnf(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err)
{
    cdz_bnf b;
    cdz_net net;
    uint32_t root = 0;
    *out = NULL;
    cdz_status st = cdz_bnf_begin(&b, "GBNF", text, len, &net, options, err);
    if (st == CDZ_OK) st = read_all(&b, &root);
    cdz_bnf_free(&b);
    if (st == CDZ_OK) return cdz_grammar_of_net(&net, root, options, out, err);
    cdz_net_free(&net);
    return st;
}
