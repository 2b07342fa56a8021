/* bnf.c - what the readers of grammars by rules have in common. */
#include "grammar/bnf.h"

#include <stdio.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "grammar/grow.h"

cdz_status cdz_bnf_begin(cdz_bnf *b, const char *language, const char *text, size_t len,
                         cdz_net *net, const cdz_grammar_options *options, cdz_error *err)
{
    *b = (cdz_bnf){.language = language, .text = text, .len = len, .net = net, .err = err};
    b->tokenizer = options ? options->tokenizer : NULL;
    cdz_net_begin(net, options ? &options->limits : NULL);
    if (len <= net->limits.max_bytes) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT,
                   "the %s grammar has %zu bytes, the limit is %u (grammar_max_bytes)", language,
                   len, net->limits.max_bytes);
}

void cdz_bnf_free(cdz_bnf *b)
{
    free(b->rules);
    free(b->table.at);
    free(b->groups);
}

static void place(const cdz_bnf *b, size_t pos, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < pos && i < b->len; i++) {
        ++*column;
        if (b->text[i] != '\n') continue;
        ++*line;
        *column = 1;
    }
}

cdz_status cdz_bnf_wrong(const cdz_bnf *b, size_t pos, const char *text)
{
    size_t line, column;
    place(b, pos, &line, &column);
    return cdz_err(b->err, CDZ_E_INPUT, "%s:%zu:%zu: %s", b->language, line, column, text);
}

cdz_status cdz_bnf_refuse(const cdz_bnf *b, size_t pos, const char *text)
{
    size_t line, column;
    place(b, pos, &line, &column);
    return cdz_err(b->err, CDZ_E_UNSUPPORTED, "%s:%zu:%zu: %s is not supported", b->language, line,
                   column, text);
}

cdz_status cdz_bnf_no_memory(const cdz_bnf *b)
{
    return cdz_err(b->err, CDZ_E_NOMEM, "out of memory for a %s grammar", b->language);
}

cdz_status cdz_bnf_met(const cdz_bnf *b)
{
    size_t line, column;
    const cdz_status st = b->net->status;
    if (st != CDZ_E_LIMIT) return st == CDZ_OK ? st : cdz_bnf_no_memory(b);
    place(b, b->pos, &line, &column);
    return cdz_err(b->err, st, "%s:%zu:%zu: %s", b->language, line, column, b->net->error.text);
}

/* --- reading -------------------------------------------------------------------------------------- */

int cdz_bnf_peek(const cdz_bnf *b, size_t ahead)
{
    return b->pos + ahead < b->len ? (uint8_t)b->text[b->pos + ahead] : -1;
}

bool cdz_bnf_take(cdz_bnf *b, const char *text)
{
    const size_t n = strlen(text);
    if (b->len - b->pos < n || memcmp(b->text + b->pos, text, n) != 0) return false;
    b->pos += n;
    return true;
}

bool cdz_bnf_number(cdz_bnf *b, uint32_t *out)
{
    uint64_t n = 0;
    const size_t from = b->pos;
    for (int c; (c = cdz_bnf_peek(b, 0)) >= '0' && c <= '9'; b->pos++)
        if (n <= UINT32_MAX) n = n * 10 + (uint64_t)(c - '0');
    *out = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX - 1; /* UINT32_MAX: no end */
    return b->pos > from;
}

static bool hex(cdz_bnf *b, size_t digits, uint32_t *code)
{
    *code = 0;
    for (size_t i = 0; i < digits; i++) {
        const int v = cdz_hex_digit(cdz_bnf_peek(b, i));
        if (v < 0 || *code > CDZ_CODE_MAX) return false;
        *code = *code * 16 + (uint32_t)v;
    }
    b->pos += digits;
    return *code <= CDZ_CODE_MAX;
}

cdz_status cdz_bnf_code(cdz_bnf *b, const char *letters, const char *values, uint32_t *code)
{
    const size_t from = b->pos;
    if (!cdz_bnf_take(b, "\\")) {
        const size_t size = cdz_utf8_decode(b->text + b->pos, b->len - b->pos, code);
        b->pos += size;
        return size ? CDZ_OK : cdz_bnf_wrong(b, from, "invalid UTF-8");
    }
    const int c = cdz_bnf_peek(b, 0);
    const char *letter = c > 0 ? strchr(letters, c) : NULL;
    b->pos++;
    if (letter) {
        *code = (uint8_t)values[letter - letters];
        return CDZ_OK;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits) return cdz_bnf_wrong(b, from, "unknown escape");
    return hex(b, digits, code) ? CDZ_OK : cdz_bnf_wrong(b, from, "expected hexadecimal digits");
}

/* --- rules ---------------------------------------------------------------------------------------- */

static uint32_t name_hash(const char *name, size_t len)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t rule_hash(const void *of, uint32_t number)
{
    const cdz_bnf *b = of;
    return name_hash(b->rules[number - 1].name, b->rules[number - 1].len);
}

uint32_t cdz_bnf_rule_named(cdz_bnf *b, const char *name, size_t len)
{
    cdz_item_table *t = &b->table;
    if (!cdz_item_table_room(t, b->n_rules, rule_hash, b)) return UINT32_MAX;
    uint32_t at = name_hash(name, len) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (b->rules[i - 1].len == len && memcmp(b->rules[i - 1].name, name, len) == 0)
            return i - 1;
    if (!cdz_grow(&b->rules, &b->rules_cap, (size_t)b->n_rules + 1, sizeof *b->rules))
        return UINT32_MAX;
    b->rules[b->n_rules] = (cdz_bnf_rule){.name = name, .len = len, .used = b->pos};
    b->rules[b->n_rules].rule = cdz_net_rule_new(b->net);
    t->at[at] = b->n_rules + 1;
    return b->n_rules++;
}

cdz_status cdz_bnf_rule_begin(cdz_bnf *b, size_t from, size_t len, uint32_t *rule)
{
    *rule = cdz_bnf_rule_named(b, b->text + from, len);
    if (*rule == UINT32_MAX) return cdz_bnf_no_memory(b);
    if (b->rules[*rule].defined) return cdz_bnf_wrong(b, from, "a rule of this name stands above");
    b->rules[*rule].at = from;
    cdz_net_mark_add(b->net, *rule, NULL);
    return CDZ_OK;
}

void cdz_bnf_define(cdz_bnf *b, uint32_t rule, cdz_bnf_part part)
{
    b->rules[rule].defined = true;
    if (b->net->status != CDZ_OK) return; /* told at the end */
    const cdz_net_rule *r = &b->net->rules[b->rules[rule].rule];
    cdz_net_edge_add(b->net, r->start, part.in, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(b->net, part.out, r->end, CDZ_NET_NOTHING, 0);
}

static cdz_status all_defined(const cdz_bnf *b)
{
    char text[160];
    for (uint32_t i = 0; i < b->n_rules; i++) {
        const cdz_bnf_rule *r = &b->rules[i];
        if (r->defined) continue;
        snprintf(text, sizeof text, "the rule '%.*s' is not defined",
                 (int)(r->len < 60 ? r->len : 60), r->name);
        return cdz_bnf_wrong(b, r->used, text);
    }
    return CDZ_OK;
}

/* Refuses what would meet a limit while running: a state of too many places. */
static cdz_status check_crowd(const cdz_bnf *b, uint32_t rule)
{
    cdz_net_mark mark;
    bool found;
    char text[200];
    if (!cdz_net_crowd(b->net, rule, &mark, &found)) return cdz_bnf_no_memory(b);
    if (!found) return CDZ_OK;
    const cdz_bnf_rule *r = &b->rules[mark.number];
    snprintf(text, sizeof text, "the rule '%.*s': " CDZ_NET_CROWDED,
             (int)(r->len < 60 ? r->len : 60), r->name, CDZ_GRAMMAR_MAX_ITEMS);
    (void)cdz_bnf_wrong(b, r->at, text);
    return CDZ_E_LIMIT;
}

cdz_status cdz_bnf_root(cdz_bnf *b, const char *name, uint32_t *rule)
{
    *rule = cdz_bnf_rule_named(b, name, strlen(name));
    if (*rule == UINT32_MAX) return cdz_bnf_no_memory(b);
    if (!b->rules[*rule].defined)
        return cdz_err(b->err, CDZ_E_INPUT, "%s: there is no rule '%s'", b->language, name);
    CDZ_TRY(all_defined(b));
    return check_crowd(b, b->rules[*rule].rule);
}

/* --- parts ---------------------------------------------------------------------------------------- */

cdz_bnf_part cdz_bnf_part_new(cdz_bnf *b)
{
    const uint32_t in = cdz_net_node(b->net);
    return (cdz_bnf_part){in, cdz_net_node(b->net)};
}

cdz_status cdz_bnf_open(cdz_bnf *b, char closes)
{
    if (b->n_groups >= CDZ_BNF_MAX_GROUPS)
        return cdz_bnf_wrong(b, b->pos, "brackets nested too deeply");
    if (!cdz_grow(&b->groups, &b->groups_cap, (size_t)b->n_groups + 1, sizeof *b->groups))
        return cdz_bnf_no_memory(b);
    cdz_bnf_group g = {.part = cdz_bnf_part_new(b), .pos = b->pos, .closes = closes};
    g.at = cdz_net_node(b->net);
    cdz_net_edge_add(b->net, g.part.in, g.at, CDZ_NET_NOTHING, 0);
    b->groups[b->n_groups++] = g;
    return CDZ_OK;
}

void cdz_bnf_next_alternative(cdz_bnf *b)
{
    cdz_bnf_group *g = cdz_bnf_top(b);
    cdz_net_edge_add(b->net, g->at, g->part.out, CDZ_NET_NOTHING, 0);
    g->at = cdz_net_node(b->net);
    cdz_net_edge_add(b->net, g->part.in, g->at, CDZ_NET_NOTHING, 0);
}

cdz_bnf_part cdz_bnf_close(cdz_bnf *b)
{
    const cdz_bnf_group g = b->groups[--b->n_groups];
    cdz_net_edge_add(b->net, g.at, g.part.out, CDZ_NET_NOTHING, 0);
    return g.part;
}

void cdz_bnf_append(cdz_bnf *b, cdz_bnf_part part)
{
    cdz_net_edge_add(b->net, cdz_bnf_top(b)->at, part.in, CDZ_NET_NOTHING, 0);
    cdz_bnf_top(b)->at = part.out;
}

cdz_bnf_part cdz_bnf_repeat(cdz_bnf *b, cdz_bnf_part part, uint32_t min, uint32_t max)
{
    const cdz_bnf_part all = cdz_bnf_part_new(b);
    if (min <= 1 && (max == 1 || max == UINT32_MAX)) {
        cdz_net_edge_add(b->net, all.in, part.in, CDZ_NET_NOTHING, 0);
        cdz_net_edge_add(b->net, part.out, all.out, CDZ_NET_NOTHING, 0);
        if (!min) cdz_net_edge_add(b->net, all.in, all.out, CDZ_NET_NOTHING, 0);
        if (max > 1) cdz_net_edge_add(b->net, part.out, part.in, CDZ_NET_NOTHING, 0);
        return all;
    }
    const uint32_t body = cdz_net_rule_of(b->net, part.in, part.out);
    cdz_net_edge_add(b->net, all.in, all.out, CDZ_NET_CALL, cdz_net_repeat(b->net, body, min, max));
    return all;
}

/* --- tokens by number ------------------------------------------------------------------------------- */

static cdz_status token_list(cdz_bnf *b, cdz_code_span **at, uint32_t *n)
{
    uint32_t cap = 0;
    do {
        cdz_code_span r;
        if (!cdz_bnf_number(b, &r.lo)) return cdz_bnf_wrong(b, b->pos, "expected a token's number");
        r.hi = r.lo;
        if (cdz_bnf_take(b, "-") && !cdz_bnf_number(b, &r.hi))
            return cdz_bnf_wrong(b, b->pos, "expected a token's number");
        if (!cdz_grow(at, &cap, (size_t)*n + 1, sizeof **at)) return cdz_bnf_no_memory(b);
        (*at)[(*n)++] = r;
        while (cdz_bnf_take(b, " ")) continue;
        if (!cdz_bnf_take(b, ",")) break;
        while (cdz_bnf_take(b, " ")) continue;
    } while (true);
    return cdz_bnf_take(b, "]>") ? CDZ_OK : cdz_bnf_wrong(b, b->pos, "expected ]>");
}

static cdz_status token_named(cdz_bnf *b, cdz_code_span **at, uint32_t *n)
{
    const size_t from = b->pos;
    while (cdz_bnf_peek(b, 0) > ' ' && cdz_bnf_peek(b, 0) != '>') b->pos++;
    if (!cdz_bnf_take(b, ">")) return cdz_bnf_wrong(b, from, "a token's name without >");
    if (!b->tokenizer)
        return cdz_bnf_wrong(b, from,
                             "a token is named, but there is no tokenizer to look it up in");
    const int32_t id = cdz_tokenizer_id(b->tokenizer, b->text + from, b->pos - from);
    if (id < 0) return cdz_bnf_wrong(b, from, "this is not one token of the vocabulary");
    *at = malloc(sizeof **at);
    if (!*at) return cdz_bnf_no_memory(b);
    **at = (cdz_code_span){(uint32_t)id, (uint32_t)id};
    *n = 1;
    return CDZ_OK;
}

cdz_status cdz_bnf_tokens(cdz_bnf *b, bool but, cdz_bnf_part *out)
{
    cdz_code_span *at = NULL;
    uint32_t n = 0;
    cdz_status st = CDZ_OK;
    if (cdz_bnf_take(b, "<[*]>")) {
        but = !but;
    } else if (cdz_bnf_take(b, "<[")) {
        if (cdz_bnf_take(b, "^")) but = !but;
        st = token_list(b, &at, &n);
    } else { /* its < and > are of the name */
        st = token_named(b, &at, &n);
    }
    if (st != CDZ_OK) {
        free(at);
        return st;
    }
    const uint32_t set = cdz_net_token_set(b->net, at, n, but);
    *out = cdz_bnf_part_new(b);
    cdz_net_edge_add(b->net, out->in, out->out, CDZ_NET_TOKENS, set);
    return CDZ_OK;
}
