/* expression.c - reads a regular expression into an automaton, without recursion: open groups lie on a stack, and what a
 * quantifier repeats is the stretch of nodes and edges that was added last. */
#include "grammar/expression.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "grammar/grow.h"
#include "grammar/property.h"

enum { MAX_GROUPS = 1000, MAX_COUNT = 100000 };

/* What stands between two nodes, and where it began. */
typedef struct expression_part {
    uint32_t in, out, node_lo, edge_lo;
} expression_part;

typedef struct expression_group {
    uint32_t in, out, at;              /* at: where the present alternative has come to */
    uint32_t node_lo, edge_lo;         /* of the group itself */
    bool fold, dot_all, swap, verbose; /* flags as they were before */
} expression_group;

typedef struct expression_reader {
    const char *text;
    size_t len, pos;
    const char *what;
    cdz_chars *nfa;
    expression_group *groups;
    uint32_t n_groups, groups_cap;
    expression_part last; /* what a quantifier would repeat */
    bool has_last, ascii, fold, dot_all, verbose;
    cdz_error *err;
} expression_reader;

static cdz_status wrong_at(const expression_reader *r, size_t pos, const char *text)
{
    return cdz_err(r->err, CDZ_E_INPUT, "%s: %s at byte %zu", r->what, text, pos + 1);
}

static cdz_status wrong(const expression_reader *r, const char *text)
{
    return wrong_at(r, r->pos, text);
}

static cdz_status refuse(const expression_reader *r, const char *text)
{
    return cdz_err(r->err, CDZ_E_UNSUPPORTED, "%s: %s at byte %zu is not supported", r->what, text,
                   r->pos + 1);
}

static int peek(const expression_reader *r, size_t ahead)
{
    return r->pos + ahead < r->len ? (uint8_t)r->text[r->pos + ahead] : -1;
}

static bool take(expression_reader *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->len - r->pos < n || memcmp(r->text + r->pos, text, n) != 0) return false;
    r->pos += n;
    return true;
}

static expression_group *group(expression_reader *r)
{
    return &r->groups[r->n_groups - 1];
}

/* --- parts ---------------------------------------------------------------------------------------- */

static void append(expression_reader *r, expression_part part)
{
    cdz_chars_edge_add(r->nfa, group(r)->at, part.in, CDZ_CHARS_NOTHING);
    group(r)->at = part.out;
    r->last = part;
    r->has_last = true;
}

static expression_part begin_part(expression_reader *r)
{
    expression_part part = {.node_lo = r->nfa->n_nodes, .edge_lo = r->nfa->n_edges};
    part.in = cdz_chars_node(r->nfa);
    part.out = cdz_chars_node(r->nfa);
    return part;
}

static void append_takes(expression_reader *r, uint32_t takes)
{
    const expression_part part = begin_part(r);
    cdz_chars_edge_add(r->nfa, part.in, part.out, takes);
    append(r, part);
}

/* Takes the set over. */
static void append_set(expression_reader *r, cdz_charset *set)
{
    if (r->fold) cdz_charset_fold(set);
    append_takes(r, cdz_chars_set(r->nfa, set));
}

static void append_code(expression_reader *r, uint32_t code)
{
    cdz_charset set = {0};
    cdz_charset_add(&set, code, code);
    append_set(r, &set);
}

/* --- escapes -------------------------------------------------------------------------------------- */

static bool hex_digits(expression_reader *r, size_t n, uint32_t *code)
{
    *code = 0;
    for (size_t i = 0; i < n; i++) {
        const int v = cdz_hex_digit(peek(r, i));
        if (v < 0 || *code > CDZ_CODE_MAX) return false;
        *code = *code * 16 + (uint32_t)v;
    }
    r->pos += n;
    return *code <= CDZ_CODE_MAX;
}

/* Behind \x, \u or \U. */
static cdz_status hex_code(expression_reader *r, size_t digits, uint32_t *code)
{
    if (peek(r, 0) == '{') {
        size_t n = 1;
        while (peek(r, n) >= 0 && peek(r, n) != '}') n++;
        r->pos++;
        if (n < 2 || n > 9 || !hex_digits(r, n - 1, code) || !take(r, "}"))
            return wrong(r, "expected hexadecimal digits and }");
        return CDZ_OK;
    }
    if (!hex_digits(r, digits, code)) return wrong(r, "expected hexadecimal digits");
    uint32_t low;
    if (digits == 4 && *code >= 0xD800 && *code < 0xDC00 && take(r, "\\u") &&
        hex_digits(r, 4, &low) && low >= 0xDC00 && low < 0xE000)
        *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return CDZ_OK;
}

static cdz_status property(expression_reader *r, bool negated, cdz_charset *set)
{
    cdz_charset own = {0};
    size_t n = 1;
    const char *name = r->text + r->pos;
    if (peek(r, 0) == '{') {
        name++;
        while (peek(r, n) >= 0 && peek(r, n) != '}') n++;
        if (peek(r, n) < 0) return wrong(r, "a property without }");
        r->pos += n + 1;
        n--;
        if (n && *name == '^') {
            negated = !negated;
            name++;
            n--;
        }
    } else {
        r->pos++;
    }
    if (r->pos > r->len || !cdz_charset_add_property(&own, name, n)) {
        r->pos -= r->pos > r->len;
        return refuse(
            r,
            "this \\p property (general categories, scripts, and Alphabetic, Uppercase, Lowercase, "
            "White_Space, Emoji, Ideographic are known)");
    }
    cdz_charset_settle(&own);
    if (negated) cdz_charset_negate(&own);
    cdz_charset_add_set(set, &own);
    cdz_charset_free(&own);
    return CDZ_OK;
}

/* What follows a backslash: a set. *single: it is one code point. */
static cdz_status escape(expression_reader *r, bool in_class, cdz_charset *set, bool *single,
                         uint32_t *code)
{
    static const char letters[] = "tnrfva0", values[] = "\t\n\r\f\v\a\0";
    const int c = peek(r, 0);
    *single = true;
    if (c < 0) return wrong(r, "a backslash that nothing follows");
    const char *letter =
        c && (c != '0' || peek(r, 1) < '0' || peek(r, 1) > '9') ? strchr(letters, c) : NULL;
    if (letter) {
        *code = (uint8_t)values[letter - letters];
        r->pos++;
        return CDZ_OK;
    }
    if (cdz_byte_in(c, "dwsDWS")) {
        *single = false;
        r->pos++;
        cdz_charset_add_class(set, (char)c, r->ascii);
        return CDZ_OK;
    }
    if (c == 'p' || c == 'P') {
        *single = false;
        r->pos++;
        return property(r, c == 'P', set);
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        r->pos++;
        return hex_code(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
    }
    if (c == 'b' && in_class) {
        *code = '\b';
        r->pos++;
        return CDZ_OK;
    }
    if (c == 'c' && r->ascii && peek(r, 1) >= 'A') {
        *code = (uint32_t)peek(r, 1) & 31;
        r->pos += 2;
        return CDZ_OK;
    }
    if (c >= '0' && c <= '9') return refuse(r, "a back-reference");
    if (c == 'k') return refuse(r, "a back-reference");
    if (c == 'b' || c == 'B') return refuse(r, "a word boundary");
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return refuse(r, "this escape");
    const size_t size = cdz_utf8_decode(r->text + r->pos, r->len - r->pos, code);
    if (!size) return wrong(r, "invalid UTF-8");
    r->pos += size;
    return CDZ_OK;
}

/* --- classes -------------------------------------------------------------------------------------- */

/* One member of a class, before a possible range. */
static cdz_status class_member(expression_reader *r, cdz_charset *set, bool *single, uint32_t *code)
{
    *single = true;
    if (take(r, "\\")) return escape(r, true, set, single, code);
    if (peek(r, 0) == '[' && peek(r, 1) == ':') {
        const size_t from = r->pos + 2;
        size_t to = from;
        while (to + 1 < r->len && !(r->text[to] == ':' && r->text[to + 1] == ']')) to++;
        const bool but = from < r->len && r->text[from] == '^';
        cdz_charset own = {0};
        *single = false;
        if (to + 1 >= r->len || !cdz_charset_add_posix(&own, r->text + from + but, to - from - but))
            return refuse(r, "this [:class:]");
        if (but) cdz_charset_negate(&own);
        cdz_charset_add_set(set, &own);
        cdz_charset_free(&own);
        r->pos = to + 2;
        return CDZ_OK;
    }
    if (peek(r, 0) == '[' && !r->ascii) return refuse(r, "a class inside a class");
    if (peek(r, 0) == '&' && peek(r, 1) == '&' && !r->ascii) return refuse(r, "&& in a class");
    const size_t size = cdz_utf8_decode(r->text + r->pos, r->len - r->pos, code);
    if (!size) return wrong(r, "invalid UTF-8");
    r->pos += size;
    return CDZ_OK;
}

static cdz_status class_range(expression_reader *r, cdz_charset *set, uint32_t lo)
{
    uint32_t hi = 0;
    bool single;
    r->pos++;
    CDZ_TRY(class_member(r, set, &single, &hi));
    if (!single) { /* [a-\d]: three members */
        cdz_charset_add(set, lo, lo);
        cdz_charset_add(set, '-', '-');
        return CDZ_OK;
    }
    if (hi < lo) return wrong(r, "a range whose end lies before its beginning");
    cdz_charset_add(set, lo, hi);
    return CDZ_OK;
}

static cdz_status class_members(expression_reader *r, size_t from, cdz_charset *set)
{
    const bool negated = take(r, "^");
    for (bool first = true;; first = false) {
        bool single = true;
        uint32_t code = 0;
        if (peek(r, 0) < 0) return wrong_at(r, from, "a class without ]");
        if (peek(r, 0) == ']' && !(first && !r->ascii)) break;
        CDZ_TRY(class_member(r, set, &single, &code));
        if (!single) continue;
        if (peek(r, 0) == '-' && peek(r, 1) != ']' && peek(r, 1) >= 0)
            CDZ_TRY(class_range(r, set, code));
        else
            cdz_charset_add(set, code, code);
    }
    r->pos++;
    cdz_charset_settle(set);
    if (r->fold) cdz_charset_fold(set);
    if (negated) cdz_charset_negate(set);
    return CDZ_OK;
}

static cdz_status class(expression_reader *r)
{
    cdz_charset set = {0};
    const size_t from = r->pos++;
    const cdz_status st = class_members(r, from, &set);
    if (st == CDZ_OK) append_takes(r, cdz_chars_set(r->nfa, &set));
    cdz_charset_free(&set);
    return st;
}

/* --- groups --------------------------------------------------------------------------------------- */

static cdz_status open_group(expression_reader *r)
{
    if (r->n_groups >= MAX_GROUPS) return wrong(r, "groups nested too deeply");
    if (!cdz_grow(&r->groups, &r->groups_cap, (size_t)r->n_groups + 1, sizeof *r->groups))
        return cdz_err_memory(r->err, r->what);
    const expression_part part = begin_part(r);
    expression_group g = {.in = part.in,
                          .out = part.out,
                          .node_lo = part.node_lo,
                          .edge_lo = part.edge_lo,
                          .fold = r->fold,
                          .dot_all = r->dot_all,
                          .verbose = r->verbose};
    g.at = cdz_chars_node(r->nfa);
    cdz_chars_edge_add(r->nfa, g.in, g.at, CDZ_CHARS_NOTHING);
    r->groups[r->n_groups++] = g;
    r->has_last = false;
    return CDZ_OK;
}

static expression_part close_group(expression_reader *r)
{
    const expression_group g = r->groups[--r->n_groups];
    cdz_chars_edge_add(r->nfa, g.at, g.out, CDZ_CHARS_NOTHING);
    r->fold = g.fold;
    r->dot_all = g.dot_all;
    r->verbose = g.verbose;
    return (expression_part){g.in, g.out, g.node_lo, g.edge_lo};
}

static void next_alternative(expression_reader *r)
{
    expression_group *g = group(r);
    cdz_chars_edge_add(r->nfa, g->at, g->out, CDZ_CHARS_NOTHING);
    g->at = cdz_chars_node(r->nfa);
    cdz_chars_edge_add(r->nfa, g->in, g->at, CDZ_CHARS_NOTHING);
    r->has_last = false;
}

/* (?i) and (?i: behind "(?". */
static cdz_status flags(expression_reader *r)
{
    bool on = true, fold = r->fold, dot_all = r->dot_all, verbose = r->verbose;
    for (;; r->pos++) {
        const int c = peek(r, 0);
        if (c == '-')
            on = false;
        else if (c == 'i')
            fold = on;
        else if (c == 's')
            dot_all = on;
        else if (c == 'x')
            verbose = on;
        else if (c == 'u' && on)
            continue;
        else if (c == ')' || c == ':')
            break;
        else
            return refuse(r, "this kind of group");
    }
    if (peek(r, 0) == ':') {
        const size_t at = r->pos;
        CDZ_TRY(open_group(r));
        r->pos = at;
    }
    r->pos++;
    r->fold = fold;
    r->dot_all = dot_all;
    r->verbose = verbose;
    return CDZ_OK;
}

static cdz_status group_begins(expression_reader *r)
{
    r->pos++;
    if (!take(r, "?")) return open_group(r);
    if (take(r, "P<") || (peek(r, 0) == '<' && peek(r, 1) != '=' && peek(r, 1) != '!')) {
        while (peek(r, 0) >= 0 && peek(r, 0) != '>') r->pos++;
        if (!take(r, ">")) return wrong(r, "a group's name without >");
        return open_group(r);
    }
    if (peek(r, 0) == '=' || peek(r, 0) == '!' || peek(r, 0) == '<')
        return refuse(r, "look-around");
    if (peek(r, 0) == '>') return refuse(r, "an atomic group");
    return flags(r);
}

/* --- quantifiers ------------------------------------------------------------------------------------ */

static bool number(expression_reader *r, uint32_t *out)
{
    uint64_t n = 0;
    const size_t from = r->pos;
    while (peek(r, 0) >= '0' && peek(r, 0) <= '9') {
        if (n <= UINT32_MAX) n = n * 10 + (uint64_t)(peek(r, 0) - '0');
        r->pos++;
    }
    *out = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX - 1; /* UINT32_MAX: no end */
    return r->pos > from;
}

/* {m}, {m,}, {m,n}. False: these braces are no quantifier. */
static bool braces(expression_reader *r, uint32_t *min, uint32_t *max)
{
    const size_t from = r->pos++;
    bool good = number(r, min);
    *max = *min;
    if (good && take(r, ",") && !number(r, max)) *max = UINT32_MAX;
    good = good && take(r, "}");
    if (!good) r->pos = from;
    return good;
}

/* The part once more. */
static expression_part again(expression_reader *r, expression_part part, uint32_t node_hi,
                             uint32_t edge_hi)
{
    const uint32_t shift = cdz_chars_copy(r->nfa, part.node_lo, node_hi, part.edge_lo, edge_hi);
    part.in += shift;
    part.out += shift;
    return part;
}

static void note_copies(cdz_chars *nfa, cdz_chars_copies copies)
{
    if (cdz_grow(&nfa->copies, &nfa->copies_cap, (size_t)nfa->n_copies + 1, sizeof *nfa->copies))
        nfa->copies[nfa->n_copies++] = copies;
    else if (nfa->failed == CDZ_OK)
        nfa->failed = CDZ_E_NOMEM;
}

/* The last part becomes min copies and, behind them, optional ones or one that repeats. Where an optional one is left out, so
 * are all behind it: a text stands at one of them, not at each that it might skip to. */
static cdz_status repeat(expression_reader *r, uint32_t min, uint32_t max)
{
    const expression_part one = r->last;
    const uint32_t node_hi = r->nfa->n_nodes, edge_hi = r->nfa->n_edges;
    const uint32_t n = max == UINT32_MAX ? min + 1 : max;
    const cdz_chars_copies copies = {node_hi + 2, node_hi - one.node_lo + 2, n, min};
    if (min > max) return wrong(r, "a count whose most is less than its least");
    if (n > MAX_COUNT) return wrong(r, "a count above 100000");
    r->has_last = false;
    expression_part all = {.node_lo = one.node_lo, .edge_lo = one.edge_lo};
    all.in = cdz_chars_node(r->nfa);
    all.out = cdz_chars_node(r->nfa);
    uint32_t at = all.in;
    /* one itself is the pattern of the copies; it stays where nothing leads to */
    for (uint32_t i = 0; i < n && !r->nfa->failed; i++) {
        const expression_part copy = again(r, one, node_hi, edge_hi);
        const uint32_t in = cdz_chars_node(r->nfa), out = cdz_chars_node(r->nfa);
        cdz_chars_edge_add(r->nfa, in, copy.in, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(r->nfa, copy.out, out, CDZ_CHARS_NOTHING);
        if (i >= min) cdz_chars_edge_add(r->nfa, in, all.out, CDZ_CHARS_NOTHING);
        if (i >= min && max == UINT32_MAX) cdz_chars_edge_add(r->nfa, out, in, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(r->nfa, at, in, CDZ_CHARS_NOTHING);
        at = out;
    }
    cdz_chars_edge_add(r->nfa, at, all.out, CDZ_CHARS_NOTHING);
    r->last = all;
    note_copies(r->nfa, copies);
    return CDZ_OK;
}

/* ?, * and + go round the part itself. */
static void wrap(expression_reader *r, bool optional, bool endless)
{
    expression_part all = {.node_lo = r->last.node_lo, .edge_lo = r->last.edge_lo};
    all.in = cdz_chars_node(r->nfa);
    all.out = cdz_chars_node(r->nfa);
    cdz_chars_edge_add(r->nfa, all.in, r->last.in, CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(r->nfa, r->last.out, all.out, CDZ_CHARS_NOTHING);
    if (optional) cdz_chars_edge_add(r->nfa, all.in, all.out, CDZ_CHARS_NOTHING);
    if (endless) cdz_chars_edge_add(r->nfa, r->last.out, r->last.in, CDZ_CHARS_NOTHING);
    r->last = all;
}

/* A part is followed by its quantifier before it is appended, so that copies are of it alone. */
static cdz_status quantify(expression_reader *r)
{
    uint32_t min = 0, max = 0;
    const int c = peek(r, 0);
    if (c == '{' && !braces(r, &min, &max)) {
        if (r->ascii && peek(r, 1) != ',') return CDZ_OK;
        return wrong(r, "expected {m}, {m,} or {m,n}");
    }
    if (c != '{') r->pos++;
    if (c == '{')
        CDZ_TRY(repeat(r, min, max));
    else
        wrap(r, c != '+', c != '?');
    if (peek(r, 0) == '+') return refuse(r, "a possessive quantifier");
    take(r, "?");
    return CDZ_OK;
}

static bool at_quantifier(const expression_reader *r)
{
    const int c = peek(r, 0);
    if (c != '{') return c == '*' || c == '+' || c == '?';
    return !r->ascii || (peek(r, 1) >= '0' && peek(r, 1) <= '9') || peek(r, 1) == ',';
}

/* The part that was appended last is taken back, repeated, and appended again. */
static cdz_status quantifiers(expression_reader *r, uint32_t before)
{
    if (!at_quantifier(r)) return CDZ_OK;
    if (!r->has_last) return wrong(r, "a quantifier that nothing stands before");
    r->nfa->n_edges--; /* the edge that appended it */
    group(r)->at = before;
    CDZ_TRY(quantify(r));
    if (at_quantifier(r)) return wrong(r, "two quantifiers one after the other");
    append(r, r->last);
    r->has_last = false;
    return CDZ_OK;
}

/* --- the whole -------------------------------------------------------------------------------------- */

/* \A and \z, behind the backslash. */
static bool text_anchor(expression_reader *r)
{
    const bool begin = take(r, "A");
    if (!begin && !take(r, "z")) return false;
    append_takes(r, begin ? CDZ_CHARS_BEGIN : CDZ_CHARS_END);
    r->has_last = false;
    return true;
}

static cdz_status literal(expression_reader *r)
{
    uint32_t code = 0;
    if (take(r, "\\")) {
        cdz_charset set = {0};
        bool single = true;
        if (text_anchor(r)) return CDZ_OK;
        const cdz_status st = escape(r, false, &set, &single, &code);
        if (st == CDZ_OK && single)
            append_code(r, code);
        else if (st == CDZ_OK)
            append_set(r, &set);
        cdz_charset_free(&set);
        return st;
    }
    const size_t size = cdz_utf8_decode(r->text + r->pos, r->len - r->pos, &code);
    if (!size) return wrong(r, "invalid UTF-8");
    r->pos += size;
    append_code(r, code);
    return CDZ_OK;
}

static void any_code(expression_reader *r)
{
    cdz_charset set = {0};
    r->pos++;
    if (!r->dot_all) {
        cdz_charset_add(&set, '\n', '\n');
        if (r->ascii) {
            cdz_charset_add(&set, '\r', '\r');
            cdz_charset_add(&set, 0x2028, 0x2029);
        }
    }
    cdz_charset_negate(&set);
    append_takes(r, cdz_chars_set(r->nfa, &set));
}

static bool skip_blank(expression_reader *r)
{
    if (!r->verbose) return false;
    if (peek(r, 0) == '#') {
        while (peek(r, 0) >= 0 && peek(r, 0) != '\n') r->pos++;
        return true;
    }
    if (peek(r, 0) != ' ' && (peek(r, 0) < '\t' || peek(r, 0) > '\r')) return false;
    r->pos++;
    return true;
}

static cdz_status item(expression_reader *r)
{
    const uint32_t before = group(r)->at;
    const int c = peek(r, 0);
    if (skip_blank(r)) return CDZ_OK;
    switch (c) {
    case '(': return group_begins(r);
    case ')': {
        if (r->n_groups == 1) return wrong(r, "a ) that closes nothing");
        r->pos++;
        const expression_part part = close_group(r);
        const uint32_t outside = group(r)->at;
        append(r, part);
        return quantifiers(r, outside);
    }
    case '|':
        r->pos++;
        next_alternative(r);
        return CDZ_OK;
    case '^':
    case '$':
        r->pos++;
        append_takes(r, c == '^' ? CDZ_CHARS_BEGIN : CDZ_CHARS_END);
        r->has_last = false;
        return CDZ_OK;
    case '*':
    case '+':
    case '?': return wrong(r, "a quantifier that nothing stands before");
    case '{':
        if (at_quantifier(r)) return wrong(r, "a quantifier that nothing stands before");
        break;
    case '[': CDZ_TRY(class(r)); return quantifiers(r, before);
    case '.': any_code(r); return quantifiers(r, before);
    default: break;
    }
    CDZ_TRY(literal(r));
    return quantifiers(r, before);
}

static cdz_status read_all(expression_reader *r)
{
    CDZ_TRY(open_group(r));
    while (r->pos < r->len && !r->nfa->failed) CDZ_TRY(item(r));
    if (r->nfa->failed == CDZ_E_NOMEM) return cdz_err_memory(r->err, r->what);
    if (r->nfa->failed)
        return cdz_err(r->err, CDZ_E_LIMIT,
                       "%s: the pattern needs more than %d states (grammar_max_states), up to byte "
                       "%zu of it",
                       r->what, CDZ_CHARS_MAX_NODES, r->pos);
    if (r->n_groups != 1) return wrong(r, "a ( without )");
    const expression_part part = close_group(r);
    r->nfa->start = part.in;
    r->nfa->end = part.out;
    return CDZ_OK;
}

cdz_status cdz_expression_read(const char *text, size_t len, const cdz_expression_style *style,
                               const char *what, cdz_chars *out, cdz_error *err)
{
    expression_reader r = {.text = text,
                           .len = len,
                           .what = what,
                           .nfa = out,
                           .err = err,
                           .ascii = style->ascii,
                           .fold = style->fold,
                           .dot_all = style->dot_all,
                           .verbose = style->verbose};
    *out = (cdz_chars){0};
    cdz_status st = read_all(&r);
    free(r.groups);
    if (st == CDZ_OK) {
        cdz_chars_settle(out, style->search);
        if (out->failed == CDZ_E_NOMEM)
            st = cdz_err_memory(r.err, r.what);
        else if (out->failed)
            st = cdz_err(err, CDZ_E_LIMIT, "%s: the pattern is too large (grammar_max_states)",
                         what);
    }
    if (st != CDZ_OK) cdz_chars_free(out);
    return st;
}
