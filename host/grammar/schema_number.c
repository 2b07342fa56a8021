/* schema_number.c - numbers: bounds and multiples as languages of digits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/expression.h"
#include "grammar/grow.h"
#include "grammar/schema.h"

/* |a bound|, as its digits before and behind the point: no zeros at the outer ends, "0" at least before it. */
typedef struct bound_digits {
    char whole[512], part[512];
    size_t n_whole, n_part;
    bool negative, zero;
} bound_digits;

static void digits_of(const cdz_json *value, bound_digits *d)
{
    char text[64], digits[64] = "";
    double x = 0;
    long exponent = 0;
    size_t n = 0;
    *d = (bound_digits){0};
    cdz_json_number(value, &x);
    if (value->type == CDZ_JSON_INT) {
        snprintf(text, sizeof text, "%lld", (long long)value->integer);
    } else {
        for (int precision = 1; precision <= 17; precision++) {
            snprintf(text, sizeof text, "%.*e", precision - 1, x);
            if (strtod(text, NULL) == x) break;
        }
    }
    const char *at = text;
    d->negative = *at == '-';
    at += d->negative;
    for (bool behind = false; *at && *at != 'e'; at++) {
        if (*at == '.') {
            behind = true;
            continue;
        }
        digits[n++] = *at;
        exponent -= behind;
    }
    if (*at == 'e') exponent += strtol(at + 1, NULL, 10);
    /* digits times ten to the exponent */
    const long point = (long)n + exponent;
    for (long i = 0; i < point && d->n_whole < sizeof d->whole - 1; i++)
        d->whole[d->n_whole++] = i < (long)n ? digits[i] : '0';
    for (long i = point; i < (long)n && d->n_part < sizeof d->part - 1; i++)
        d->part[d->n_part++] = i < 0 ? '0' : digits[i];
    size_t lead = 0;
    while (lead < d->n_whole && d->whole[lead] == '0') lead++;
    memmove(d->whole, d->whole + lead, d->n_whole - lead);
    d->n_whole -= lead;
    if (!d->n_whole) d->whole[d->n_whole++] = '0';
    while (d->n_part && d->part[d->n_part - 1] == '0') d->n_part--;
    d->zero = d->n_whole == 1 && d->whole[0] == '0' && !d->n_part;
}

#define WHOLE "(?:0|[1-9][0-9]*)"
#define PART  "(?:\\.[0-9]+)?"

static void alternative(cdz_buf *b)
{
    if (b->len && b->data[b->len - 1] != '(' && b->data[b->len - 1] != ':') cdz_buf_putc(b, '|');
}

static void digits_range(cdz_buf *b, int lo, int hi)
{
    cdz_buf_printf(b, "[%d-%d]", lo, hi);
}

/* What is written like the bound up to a digit, there is greater (or less), and goes on with any digits of the same number. */
static void whole_differs(cdz_buf *b, const bound_digits *d, bool greater)
{
    for (size_t i = 0; i < d->n_whole; i++) {
        const int own = d->whole[i] - '0', least = i == 0 && d->n_whole > 1;
        const int lo = greater ? own + 1 : least, hi = greater ? 9 : own - 1;
        if (lo > hi) continue;
        alternative(b);
        cdz_buf_add(b, d->whole, i);
        digits_range(b, lo, hi);
        cdz_buf_printf(b, "[0-9]{%zu}" PART, d->n_whole - 1 - i);
    }
}

/* The bound's own digits before the point, and behind it what is greater, or less, or the same. */
static void part_differs(cdz_buf *b, const bound_digits *d, bool greater, bool strict)
{
    for (size_t i = 0; i < d->n_part; i++) {
        const int own = d->part[i] - '0', lo = greater ? own + 1 : 0, hi = greater ? 9 : own - 1;
        if (!greater) { /* ending here is less, as more digits follow in the bound */
            alternative(b);
            cdz_buf_add(b, d->whole, d->n_whole);
            if (i) cdz_buf_puts(b, "\\.");
            cdz_buf_add(b, d->part, i);
        }
        if (lo > hi) continue;
        alternative(b);
        cdz_buf_add(b, d->whole, d->n_whole);
        cdz_buf_puts(b, "\\.");
        cdz_buf_add(b, d->part, i);
        digits_range(b, lo, hi);
        cdz_buf_puts(b, "[0-9]*");
    }
    if (!greater && strict) return;
    alternative(b);
    cdz_buf_add(b, d->whole, d->n_whole);
    if (d->n_part) {
        cdz_buf_puts(b, "\\.");
        cdz_buf_add(b, d->part, d->n_part);
        cdz_buf_puts(b, !greater ? "0*" : strict ? "[0-9]*[1-9][0-9]*" : "[0-9]*");
    } else {
        cdz_buf_puts(b, !greater ? "(?:\\.0+)?" : strict ? "\\.[0-9]*[1-9][0-9]*" : PART);
    }
}

/* Numbers without a sign that are at least, or at most, |bound|. */
static void unsigned_bound(cdz_buf *b, const bound_digits *d, bool greater, bool strict)
{
    cdz_buf_puts(b, "(?:");
    if (greater) {
        cdz_buf_printf(b, "[1-9][0-9]{%zu,}" PART, d->n_whole);
    } else if (d->n_whole > 1) {
        cdz_buf_printf(b, "(?:0|[1-9][0-9]{0,%zu})" PART, d->n_whole - 2);
    }
    whole_differs(b, d, greater);
    part_differs(b, d, greater, strict);
    cdz_buf_puts(b, ")");
}

/* All numbers on one side of a bound. An empty language is a class that nothing is in. */
static void bound_regex(cdz_buf *b, const bound_digits *d, bool lower, bool strict)
{
    const bool below = d->negative && !d->zero;
    if (lower && !below && d->zero && !strict) {
        cdz_buf_puts(b, WHOLE PART);
    } else if (lower && !below) {
        unsigned_bound(b, d, true, strict);
    } else if (lower) {
        cdz_buf_puts(b, WHOLE PART "|-");
        unsigned_bound(b, d, false, strict);
    } else if (below || (d->zero && strict)) {
        cdz_buf_puts(b, "-");
        unsigned_bound(b, d, true, strict);
    } else {
        cdz_buf_puts(b, "-" WHOLE PART "|");
        unsigned_bound(b, d, false, strict);
    }
}

/* --- automata ------------------------------------------------------------------------------------------ */

/* Cuts what has been found so far down by a regex. */
static cdz_status narrow(const cdz_schema *s, const char *regex, cdz_chars_dfa *dfa, bool *bounded)
{
    static const cdz_expression_style style = {.ascii = true};
    cdz_chars nfa;
    cdz_chars_dfa own, both;
    CDZ_TRY(cdz_expression_read(regex, strlen(regex), &style, "a bound", &nfa, s->err));
    cdz_status st = cdz_chars_determine(&nfa, &own, s->err);
    cdz_chars_free(&nfa);
    if (st != CDZ_OK) return st;
    if (!*bounded) {
        *dfa = own;
        *bounded = true;
        return CDZ_OK;
    }
    st = cdz_chars_combine(dfa, &own, CDZ_CHARS_AND, &both, s->err);
    cdz_chars_dfa_free(&own);
    if (st != CDZ_OK) return st;
    cdz_chars_dfa_free(dfa);
    *dfa = both;
    return CDZ_OK;
}

const cdz_json *cdz_schema_bound(const cdz_json *schema, const char *keyword)
{
    const bool strict = keyword[0] == 'e', lower = keyword[strict ? 10 : 1] == 'i';
    const cdz_json *own = cdz_json_get(schema, keyword);
    const cdz_json *flag = cdz_json_get(schema, lower ? "exclusiveMinimum" : "exclusiveMaximum");
    if (!cdz_json_is(flag, CDZ_JSON_BOOL)) return own;
    return flag->boolean == strict ? cdz_json_get(schema, lower ? "minimum" : "maximum") : NULL;
}

static cdz_status narrow_by_bound(const cdz_schema *s, const cdz_json *value, const char *keyword,
                                  cdz_chars_dfa *dfa, bool *bounded)
{
    bound_digits d;
    double x;
    cdz_buf regex = {0};
    const bool strict = keyword[0] == 'e', lower = keyword[strict ? 10 : 1] == 'i';
    if (!cdz_json_number(value, &x))
        return cdz_schema_wrong(s, value, keyword, "expected a number");
    digits_of(value, &d);
    if (d.n_whole > CDZ_SCHEMA_MAX_DIGITS || d.n_part > CDZ_SCHEMA_MAX_DIGITS)
        return cdz_schema_refuse(s, value, keyword, "a bound of more than 60 digits");
    bound_regex(&regex, &d, lower, strict);
    const cdz_status st =
        regex.failed ? cdz_schema_no_memory(s) : narrow(s, regex.data, dfa, bounded);
    cdz_buf_free(&regex);
    return st;
}

/* Cuts what has been found down by an automaton, or by all but it. Frees it. */
static cdz_status narrow_by_nfa(const cdz_schema *s, cdz_chars *nfa, bool but, cdz_chars_dfa *dfa)
{
    cdz_chars_dfa own, both;
    cdz_status st = cdz_chars_determine(nfa, &own, s->err);
    cdz_chars_free(nfa);
    if (st != CDZ_OK) return st;
    st = cdz_chars_combine(dfa, &own, but ? CDZ_CHARS_WITHOUT : CDZ_CHARS_AND, &both, s->err);
    cdz_chars_dfa_free(&own);
    if (st != CDZ_OK) return st;
    cdz_chars_dfa_free(dfa);
    *dfa = both;
    return CDZ_OK;
}

/* Numbers by their remainder, counted in units of the last of `places` digits behind the point: for each number of digits
 * read there, a node for each remainder. */
static void multiples(cdz_chars *nfa, uint32_t m, uint32_t places)
{
    const uint32_t start = m * (places + 1), end = start + 1, zeros = start + 2;
    cdz_charset sign = {0}, point = {0}, zero = {0};
    uint32_t unit = 1 % m; /* what one of the digits read so far is worth at the end */
    for (uint32_t i = 0; i < zeros + 1; i++) cdz_chars_node(nfa);
    cdz_charset_add(&sign, '-', '-');
    cdz_charset_add(&point, '.', '.');
    cdz_charset_add(&zero, '0', '0');
    const uint32_t minus = cdz_chars_set(nfa, &sign), dot = cdz_chars_set(nfa, &point);
    const uint32_t naught = cdz_chars_set(nfa, &zero);
    for (uint32_t d = 0; d < 10; d++) {
        cdz_charset digit = {0};
        cdz_charset_add(&digit, '0' + d, '0' + d);
        const uint32_t set = cdz_chars_set(nfa, &digit);
        for (uint32_t r = 0; r < m; r++) cdz_chars_edge_add(nfa, r, (10 * r + d) % m, set);
        for (uint32_t k = 1; k <= places; k++)
            for (uint32_t r = 0; r < m; r++)
                cdz_chars_edge_add(nfa, k == 1 ? start + 3 + r : (k - 1) * m + r,
                                   k * m + (10 * r + d) % m, set);
    }
    for (uint32_t r = 0; places && r < m; r++) {
        cdz_chars_node(nfa); /* behind the point */
        cdz_chars_edge_add(nfa, r, start + 3 + r, dot);
    }
    for (uint32_t k = places + 1; k-- > 0; unit = unit * 10 % m)
        for (uint32_t r = 0; r < m; r++)
            if (r * unit % m == 0) cdz_chars_edge_add(nfa, k * m + r, end, CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(nfa, places * m, zeros, places ? naught : dot);
    cdz_chars_edge_add(nfa, zeros, zeros, naught);
    cdz_chars_edge_add(nfa, zeros, end, CDZ_CHARS_NOTHING);
    nfa->start = start;
    nfa->end = end;
    cdz_chars_edge_add(nfa, start, 0, CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(nfa, start, 0, minus);
}

/* Whether all whole numbers are multiples of a fraction: 0.5, 0.04, 1e-8. */
static bool divides_one(const cdz_json *value)
{
    bound_digits d;
    uint64_t part = 0, power = 1;
    digits_of(value, &d);
    if (d.n_whole != 1 || d.whole[0] != '0' || d.n_part > 18) return false;
    for (size_t i = 0; i < d.n_part; i++) {
        part = part * 10 + (uint64_t)(d.part[i] - '0');
        power *= 10;
    }
    return part && power % part == 0;
}

/* A multiple as a whole number of units; false: too large. */
static bool units_of(const cdz_json *value, uint32_t *m, uint32_t *places)
{
    bound_digits d;
    uint64_t n = 0;
    digits_of(value, &d);
    for (size_t i = 0; i < d.n_whole + d.n_part && n <= CDZ_SCHEMA_MAX_MULTIPLE; i++)
        n = n * 10 + (uint64_t)((i < d.n_whole ? d.whole[i] : d.part[i - d.n_whole]) - '0');
    *m = (uint32_t)n;
    *places = (uint32_t)d.n_part;
    return n && n * (d.n_part + 1) <= CDZ_SCHEMA_MAX_MULTIPLE && d.n_part < 10;
}

/* Multiples of a value, or all other numbers. */
static cdz_status narrow_by_multiple(const cdz_schema *s, const cdz_json *value, bool denied,
                                     bool fractions, cdz_chars_dfa *dfa, bool *bounded)
{
    double x;
    uint32_t m, places;
    cdz_chars nfa = {0};
    if (!cdz_json_number(value, &x) || x <= 0)
        return cdz_schema_wrong(s, value, "multipleOf", "expected a number above 0");
    if (!fractions && !denied && divides_one(value)) return CDZ_OK;
    if (!units_of(value, &m, &places))
        return cdz_schema_refuse(s, value, "multipleOf",
                                 "above 5000, or of so many digits (grammar_max_states)");
    CDZ_TRY(narrow(s, places || denied ? "-?" WHOLE PART : "-?" WHOLE, dfa, bounded));
    multiples(&nfa, m, places);
    return narrow_by_nfa(s, &nfa, denied, dfa);
}

/* All numbers but one, without exponents. */
static cdz_status deny_number(const cdz_schema *s, const cdz_json *value, cdz_chars_dfa *dfa,
                              bool *bounded)
{
    static const cdz_expression_style style = {.ascii = true};
    bound_digits d;
    cdz_chars nfa;
    cdz_buf regex = {0};
    digits_of(value, &d);
    if (d.n_whole > CDZ_SCHEMA_MAX_DIGITS || d.n_part > CDZ_SCHEMA_MAX_DIGITS)
        return cdz_schema_refuse(s, value, "not", "around a number of more than 60 digits");
    CDZ_TRY(narrow(s, "-?" WHOLE PART, dfa, bounded));
    if (d.negative || d.zero) cdz_buf_puts(&regex, d.zero ? "-?" : "-");
    cdz_buf_add(&regex, d.whole, d.n_whole);
    if (d.n_part) {
        cdz_buf_puts(&regex, "\\.");
        cdz_buf_add(&regex, d.part, d.n_part);
        cdz_buf_puts(&regex, "0*");
    } else {
        cdz_buf_puts(&regex, "(?:\\.0+)?");
    }
    cdz_status st = regex.failed ? cdz_schema_no_memory(s) : CDZ_OK;
    if (st == CDZ_OK)
        st = cdz_expression_read(regex.data, regex.len, &style, "a number", &nfa, s->err);
    cdz_buf_free(&regex);
    return st == CDZ_OK ? narrow_by_nfa(s, &nfa, true, dfa) : st;
}

static cdz_status deny_numbers(const cdz_schema *s, const cdz_json *schema, cdz_chars_dfa *dfa,
                               bool *bounded)
{
    const cdz_json *many = cdz_schema_denies(schema, "enum"),
                   *one = cdz_schema_denies(schema, "const");
    double x;
    for (uint32_t i = 0; cdz_json_is(many, CDZ_JSON_ARRAY) && i < many->len; i++)
        if (cdz_json_number(&many->items[i], &x))
            CDZ_TRY(deny_number(s, &many->items[i], dfa, bounded));
    return cdz_json_number(one, &x) ? deny_number(s, one, dfa, bounded) : CDZ_OK;
}

static cdz_status narrow_all(const cdz_schema *s, const cdz_schema_list *list, bool fractions,
                             cdz_chars_dfa *dfa, bool *bounded)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum"};
    for (uint32_t i = 0; i < list->n; i++) {
        for (size_t k = 0; k < 4; k++) {
            const cdz_json *v = cdz_schema_bound(list->at[i].schema, names[k]);
            if (v) CDZ_TRY(narrow_by_bound(s, v, names[k], dfa, bounded));
        }
        const cdz_json *m = cdz_json_get(list->at[i].schema, "multipleOf");
        if (m) CDZ_TRY(narrow_by_multiple(s, m, false, fractions, dfa, bounded));
        m = cdz_schema_denies(list->at[i].schema, "multipleOf");
        if (m) CDZ_TRY(narrow_by_multiple(s, m, true, fractions, dfa, bounded));
        CDZ_TRY(deny_numbers(s, list->at[i].schema, dfa, bounded));
    }
    return CDZ_OK;
}

/* Without a bound: the grammar of JSON, straight. */
static void unbounded(cdz_net *net, bool fractions, uint32_t from, uint32_t to)
{
    const uint32_t sign = cdz_net_node(net), whole = cdz_net_node(net), done = cdz_net_node(net);
    cdz_net_edge_add(net, from, sign, CDZ_NET_NOTHING, 0);
    cdz_net_byte(net, from, sign, '-', '-');
    cdz_net_byte(net, sign, done, '0', '0');
    cdz_net_byte(net, sign, whole, '1', '9');
    cdz_net_byte(net, whole, whole, '0', '9');
    cdz_net_edge_add(net, whole, done, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(net, done, to, CDZ_NET_NOTHING, 0);
    if (!fractions) return;
    const uint32_t point = cdz_net_node(net), part = cdz_net_node(net), e = cdz_net_node(net);
    const uint32_t e_sign = cdz_net_node(net), power = cdz_net_node(net);
    cdz_net_byte(net, done, point, '.', '.');
    cdz_net_byte(net, point, part, '0', '9');
    cdz_net_byte(net, part, part, '0', '9');
    cdz_net_edge_add(net, part, to, CDZ_NET_NOTHING, 0);
    for (int i = 0; i < 2; i++) {
        cdz_net_byte(net, i ? done : part, e, 'e', 'e');
        cdz_net_byte(net, i ? done : part, e, 'E', 'E');
    }
    cdz_net_edge_add(net, e, e_sign, CDZ_NET_NOTHING, 0);
    cdz_net_byte(net, e, e_sign, '+', '+');
    cdz_net_byte(net, e, e_sign, '-', '-');
    cdz_net_byte(net, e_sign, power, '0', '9');
    cdz_net_byte(net, power, power, '0', '9');
    cdz_net_edge_add(net, power, to, CDZ_NET_NOTHING, 0);
}

cdz_status cdz_schema_numbers(cdz_schema *s, const cdz_schema_list *list, uint32_t types,
                              uint32_t from, uint32_t to)
{
    const bool fractions = types & CDZ_TYPE_FRACTION;
    cdz_chars_dfa dfa = {0};
    bool bounded = false, any = false;
    cdz_status st = narrow_all(s, list, fractions, &dfa, &bounded);
    if (st == CDZ_OK && bounded && !fractions) st = narrow(s, "-?" WHOLE, &dfa, &bounded);
    if (st == CDZ_OK && !(types & CDZ_TYPE_INTEGER))
        st = narrow(s, "-?" WHOLE "\\.[0-9]*[1-9][0-9]*", &dfa, &bounded);
    if (st == CDZ_OK && bounded) st = cdz_chars_trim(&dfa, &any, s->err);
    if (st == CDZ_OK && any)
        cdz_net_dfa(s->net, from, to, &dfa, false);
    else if (st == CDZ_OK && !bounded)
        unbounded(s->net, fractions, from, to);
    if (bounded) cdz_chars_dfa_free(&dfa);
    return st;
}
