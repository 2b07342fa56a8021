/* lark.c - grammars in a subset of Lark. Rules in small letters, terminals in capitals; what %ignore names may stand between
 * two terminals, not before the first and not after the last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "grammar/bnf.h"
#include "grammar/expression.h"
#include "grammar/ignore.h"
#include "grammar/regular.h"
#include "grammar/schema.h"
#include "grammar/states.h"
#include "grammar/substring.h"

/* What is known of a group beside what all readers know. */
typedef struct lark_group {
    uint32_t from;     /* where what follows the last | or & begins */
    cdz_bnf_part left; /* what stood before that & */
    size_t both;       /* where it stands, + 1; 0: nowhere */
    size_t but;        /* where ~ stands before the bracket, + 1; 0: nowhere */
} lark_group;

typedef struct lark_reader {
    cdz_bnf b;
    bool in_terminal; /* the rule being read is one */
    uint32_t own;     /* index of the rule being read */
    uint32_t ignore;  /* rule of what is ignored, + 1; 0: nothing is */
    cdz_ignore_rules terminals;
    cdz_bnf_sets sets;
    lark_group *groups; /* as many as b has open */
    uint32_t groups_cap;
} lark_reader;

static bool is_name(int c)
{
    return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool is_terminal(const char *name, size_t len)
{
    size_t i = 0;
    while (i + 1 < len && name[i] == '_') i++;
    return name[i] >= 'A' && name[i] <= 'Z';
}

/* Blanks and comments. */
static void skip(cdz_bnf *b, bool newlines)
{
    for (int c; (c = cdz_bnf_peek(b, 0)) >= 0; b->pos++) {
        if (c == '#' || (c == '/' && cdz_bnf_peek(b, 1) == '/')) {
            while (cdz_bnf_peek(b, 1) >= 0 && cdz_bnf_peek(b, 1) != '\n') b->pos++;
            continue;
        }
        if (c != ' ' && c != '\t' && c != '\r' && !(newlines && c == '\n')) break;
    }
}

/* A newline ends a rule unless an alternative follows it. */
static bool at_end(cdz_bnf *b)
{
    const size_t from = b->pos;
    if (cdz_bnf_peek(b, 0) < 0) return true;
    if (cdz_bnf_peek(b, 0) != '\n') return false;
    skip(b, true);
    if (cdz_bnf_peek(b, 0) == '|') return false;
    b->pos = from;
    return true;
}

/* --- terminals ------------------------------------------------------------------------------------- */

/* A part that is a terminal of its own: what is ignored may stand before it. */
static cdz_status as_terminal(lark_reader *l, cdz_bnf_part part, cdz_bnf_part *out)
{
    *out = part;
    if (l->in_terminal) return CDZ_OK;
    const uint32_t rule = cdz_net_rule_of(l->b.net, part.in, part.out);
    if (!cdz_ignore_add_terminal(&l->terminals, rule)) return cdz_bnf_no_memory(&l->b);
    *out = cdz_bnf_part_new(&l->b);
    cdz_net_edge_add(l->b.net, out->in, out->out, CDZ_NET_CALL, rule);
    return CDZ_OK;
}

/* A failure of a part's own reader, with the place where the part begins. */
static cdz_status placed(const cdz_bnf *b, size_t pos, cdz_status st, const cdz_error *err)
{
    if (st == CDZ_E_NOMEM) return cdz_bnf_no_memory(b);
    if (st != CDZ_OK) cdz_bnf_wrong(b, pos, err->text);
    return st;
}

static cdz_status put_pattern(lark_reader *l, const char *text, size_t len,
                              const cdz_expression_style *style, size_t pos, cdz_bnf_part *out)
{
    cdz_chars nfa;
    cdz_error err = {0};
    const cdz_status st = cdz_expression_read(text, len, style, "regex", &nfa, &err);
    if (st != CDZ_OK) return placed(&l->b, pos, st, &err);
    *out = cdz_bnf_part_new(&l->b);
    cdz_net_chars(l->b.net, out->in, out->out, &nfa, false);
    cdz_chars_free(&nfa);
    return CDZ_OK;
}

/* Refuses the name at this place, of so many bytes with what stands before it. */
static cdz_status refuse_named(const cdz_bnf *b, size_t pos, const char *before, size_t n)
{
    char what[100];
    snprintf(what, sizeof what, "%s%.*s", before, (int)(n < 60 ? n : 60), b->text + pos);
    return cdz_bnf_refuse(b, pos, what);
}

/* /regex/imslux */
static cdz_status regex(lark_reader *l, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    cdz_expression_style style = {0};
    cdz_buf text = {0};
    const size_t from = b->pos++;
    bool in_class = false;
    for (int c; (c = cdz_bnf_peek(b, 0)) != '/' || in_class; b->pos++) {
        if (c < 0 || c == '\n') {
            cdz_buf_free(&text);
            return cdz_bnf_wrong(b, from, "a regular expression without its closing /");
        }
        if (c == '\\' && cdz_bnf_peek(b, 1) == '/') { /* the slash alone */
            b->pos++;
        } else if (c == '\\') {
            cdz_buf_putc(&text, (char)c);
            b->pos++;
        }
        cdz_buf_putc(&text, b->pos < b->len ? b->text[b->pos] : '\\');
    }
    b->pos++;
    for (int c; (c = cdz_bnf_peek(b, 0)) >= 'a' && c <= 'z'; b->pos++) {
        style.fold |= c == 'i';
        style.dot_all |= c == 's';
        style.verbose |= c == 'x';
        if (c == 'i' || c == 's' || c == 'x' || c == 'u') continue;
        cdz_buf_free(&text);
        return refuse_named(b, b->pos, "a regular expression's flag ", 1);
    }
    cdz_status st = text.failed ? cdz_bnf_no_memory(b) : CDZ_OK;
    if (st == CDZ_OK) st = put_pattern(l, text.data ? text.data : "", text.len, &style, from, out);
    cdz_buf_free(&text);
    return st;
}

static cdz_status code_point(cdz_bnf *b, uint32_t *code)
{
    return cdz_bnf_code(b, "nrtfvb\\\"'/0", "\n\r\t\f\v\b\\\"'/", code);
}

static void put_code(cdz_bnf *b, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi, bool fold)
{
    cdz_charset set = {0};
    cdz_charset_add(&set, lo, hi);
    if (fold) cdz_charset_fold(&set);
    cdz_net_charset(b->net, from, to, &set, false);
    if (set.failed) cdz_net_fail(b->net, CDZ_E_NOMEM, "out of memory for a text of the grammar");
    cdz_charset_free(&set);
}

/* The characters of "..." into codes; how many, or the failure. */
static cdz_status quoted(cdz_bnf *b, cdz_buf *codes)
{
    const size_t from = b->pos++;
    while (!cdz_bnf_take(b, "\"")) {
        uint32_t code = 0;
        if (cdz_bnf_peek(b, 0) < 0 || cdz_bnf_peek(b, 0) == '\n')
            return cdz_bnf_wrong(b, from, "a text without its closing \"");
        CDZ_TRY(code_point(b, &code));
        cdz_buf_add(codes, &code, sizeof code);
    }
    return codes->failed ? cdz_bnf_no_memory(b) : CDZ_OK;
}

static uint32_t code_at(const cdz_buf *codes, size_t i)
{
    uint32_t code;
    memcpy(&code, codes->data + i * sizeof code, sizeof code);
    return code;
}

/* "a".."z", behind the dots. */
static cdz_status range(lark_reader *l, uint32_t lo, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    cdz_buf codes = {0};
    const size_t from = b->pos;
    skip(b, false);
    cdz_status st = cdz_bnf_peek(b, 0) == '"' ? quoted(b, &codes) : CDZ_E_INPUT;
    const bool one = st == CDZ_OK && codes.len == sizeof(uint32_t);
    if (st != CDZ_E_NOMEM && (!one || code_at(&codes, 0) < lo))
        st = cdz_bnf_wrong(b, from, "expected \"a\"..\"z\", one character each, in order");
    else if (st == CDZ_OK)
        put_code(b, out->in, out->out, lo, code_at(&codes, 0), false);
    cdz_buf_free(&codes);
    return st;
}

static cdz_status literal(lark_reader *l, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    cdz_buf codes = {0};
    cdz_status st = quoted(b, &codes);
    const size_t n = codes.len / sizeof(uint32_t);
    *out = cdz_bnf_part_new(b);
    if (st == CDZ_OK && n == 1 && cdz_bnf_take(b, "..")) {
        st = range(l, code_at(&codes, 0), out);
    } else if (st == CDZ_OK) {
        const bool fold = cdz_bnf_peek(b, 0) == 'i' && !is_name(cdz_bnf_peek(b, 1));
        uint32_t at = out->in;
        b->pos += fold;
        for (size_t i = 0; i < n; i++) {
            const uint32_t to = cdz_net_node(b->net);
            put_code(b, at, to, code_at(&codes, i), code_at(&codes, i), fold);
            at = to;
        }
        cdz_net_edge_add(b->net, at, out->out, CDZ_NET_NOTHING, 0);
    }
    cdz_buf_free(&codes);
    return st;
}

/* --- common.NAME ------------------------------------------------------------------------------------ */

#define INT_      "[0-9]+"
#define DECIMAL_  "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXPONENT_ "[eE][+-]?[0-9]+"
#define FLOAT_    "(?:" INT_ EXPONENT_ "|" DECIMAL_ "(?:" EXPONENT_ ")?)"

static const struct {
    const char *name, *regex;
} commons[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", INT_},
    {"SIGNED_INT", "[+-]?" INT_},
    {"DECIMAL", DECIMAL_},
    {"FLOAT", FLOAT_},
    {"SIGNED_FLOAT", "[+-]?" FLOAT_},
    {"NUMBER", FLOAT_ "|" INT_},
    {"SIGNED_NUMBER", "[+-]?(?:" FLOAT_ "|" INT_ ")"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[a-zA-Z]"},
    {"WORD", "[a-zA-Z]+"},
    {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

/* The name at this place, whose length is returned; 0: there is none. */
static size_t name_len(const cdz_bnf *b)
{
    size_t n = 0;
    while (is_name(cdz_bnf_peek(b, n))) n++;
    return n;
}

static cdz_status import_one(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    const char *name = b->text + b->pos, *as = name;
    const size_t from = b->pos, n = name_len(b);
    size_t as_len = n;
    static const cdz_expression_style style = {0};
    cdz_bnf_part part;
    b->pos += n;
    skip(b, false);
    if (cdz_bnf_take(b, "->")) {
        skip(b, false);
        as = b->text + b->pos;
        as_len = name_len(b);
        b->pos += as_len;
    }
    for (size_t i = 0; i < sizeof commons / sizeof *commons; i++) {
        if (strlen(commons[i].name) != n || memcmp(commons[i].name, name, n) != 0) continue;
        const uint32_t rule = cdz_bnf_rule_named(b, as, as_len);
        if (rule == UINT32_MAX) return cdz_bnf_no_memory(b);
        CDZ_TRY(put_pattern(l, commons[i].regex, strlen(commons[i].regex), &style, from, &part));
        cdz_bnf_define(b, rule, part);
        return CDZ_OK;
    }
    if (!n) return cdz_bnf_wrong(b, from, "expected a name to import");
    return refuse_named(b, from, "the import of common.", n);
}

/* %import common.NAME, common.NAME -> OTHER, common (A, B) */
static cdz_status import(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    skip(b, false);
    if (!cdz_bnf_take(b, "common"))
        return cdz_bnf_refuse(b, b->pos, "an import from elsewhere than common");
    if (cdz_bnf_take(b, ".")) return import_one(l);
    skip(b, false);
    if (!cdz_bnf_take(b, "(")) return cdz_bnf_wrong(b, b->pos, "expected . or ( behind common");
    do {
        skip(b, true);
        CDZ_TRY(import_one(l));
        skip(b, true);
    } while (cdz_bnf_take(b, ","));
    return cdz_bnf_take(b, ")") ? CDZ_OK : cdz_bnf_wrong(b, b->pos, "expected )");
}

/* --- items ----------------------------------------------------------------------------------------- */

static cdz_status name(lark_reader *l, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    const size_t n = name_len(b);
    const bool terminal = is_terminal(b->text + b->pos, n);
    if (l->in_terminal && !terminal)
        return cdz_bnf_wrong(b, b->pos, "a terminal names a rule: only terminals may stand in it");
    const uint32_t i = cdz_bnf_rule_named(b, b->text + b->pos, n);
    if (i == UINT32_MAX) return cdz_bnf_no_memory(b);
    if (terminal && !l->in_terminal && !cdz_ignore_add_terminal(&l->terminals, b->rules[i].rule))
        return cdz_bnf_no_memory(b);
    if (terminal && l->in_terminal && !cdz_ignore_add_use(&l->terminals, l->own, i))
        return cdz_bnf_no_memory(b);
    b->pos += n;
    *out = cdz_bnf_part_new(b);
    cdz_net_edge_add(b->net, out->in, out->out, CDZ_NET_CALL, b->rules[i].rule);
    return CDZ_OK;
}

static cdz_status limits(cdz_bnf *b, uint32_t min, uint32_t max)
{
    if (min > max) return cdz_bnf_wrong(b, b->pos, "a count whose most is less than its least");
    if (min > CDZ_BNF_MAX_COUNT || (max != UINT32_MAX && max > CDZ_BNF_MAX_COUNT))
        return cdz_bnf_wrong(b, b->pos, "a count above 1000000");
    return CDZ_OK;
}

/* Whether ~ stands here before a count. Before a part it denies it. */
static bool at_times(const cdz_bnf *b)
{
    size_t n = 1;
    if (cdz_bnf_peek(b, 0) != '~') return false;
    while (cdz_bnf_peek(b, n) == ' ' || cdz_bnf_peek(b, n) == '\t') n++;
    return cdz_bnf_peek(b, n) >= '0' && cdz_bnf_peek(b, n) <= '9';
}

/* ~n, ~n..m and {m,n}; *found false: neither stands here. */
static cdz_status counts(cdz_bnf *b, uint32_t *min, uint32_t *max, bool *found)
{
    *found = true;
    if (at_times(b)) {
        b->pos++;
        skip(b, false);
        (void)cdz_bnf_number(b, min);
        *max = *min;
        if (cdz_bnf_take(b, "..") && !cdz_bnf_number(b, max))
            return cdz_bnf_wrong(b, b->pos, "expected a count");
        return limits(b, *min, *max);
    }
    const size_t from = b->pos;
    *found = cdz_bnf_take(b, "{");
    if (!*found) return CDZ_OK;
    skip(b, false);
    const int c = cdz_bnf_peek(b, 0);
    if (c >= 0 && !cdz_byte_in(c, "0123456789,}")) return cdz_bnf_refuse(b, from, "a template");
    if (!cdz_bnf_number(b, min)) *min = 0;
    *max = *min;
    skip(b, false);
    if (cdz_bnf_take(b, ",")) {
        skip(b, false);
        if (!cdz_bnf_number(b, max)) *max = UINT32_MAX;
        skip(b, false);
    }
    if (!cdz_bnf_take(b, "}")) return cdz_bnf_wrong(b, b->pos, "expected }");
    return limits(b, *min, *max);
}

static cdz_status append(cdz_bnf *b, cdz_bnf_part part)
{
    for (bool more = true; more;) {
        uint32_t min = 0, max = UINT32_MAX;
        skip(b, false);
        if (cdz_bnf_take(b, "+"))
            min = 1;
        else if (cdz_bnf_take(b, "?"))
            max = 1;
        else if (!cdz_bnf_take(b, "*"))
            CDZ_TRY(counts(b, &min, &max, &more));
        if (more) part = cdz_bnf_repeat(b, part, min, max);
    }
    cdz_bnf_append(b, part);
    return CDZ_OK;
}

/* --- groups ---------------------------------------------------------------------------------------- */

static lark_group *top(const lark_reader *l)
{
    return &l->groups[l->b.n_groups - 1];
}

/* but: where ~ stands before it, + 1. */
static cdz_status open_group(lark_reader *l, char closes, size_t but)
{
    CDZ_TRY(cdz_bnf_open(&l->b, closes));
    if (!cdz_grow(&l->groups, &l->groups_cap, l->b.n_groups, sizeof *l->groups))
        return cdz_bnf_no_memory(&l->b);
    *top(l) = (lark_group){.from = cdz_bnf_top(&l->b)->at, .but = but};
    return CDZ_OK;
}

/* What stands between the last | or & and here, and is also what stood before that &. */
static cdz_status join(lark_reader *l, cdz_bnf_part *out)
{
    lark_group *g = top(l);
    const cdz_bnf_set set = {
        .left = g->left, .right = {g->from, cdz_bnf_top(&l->b)->at}, .pos = g->both - 1};
    *out = set.right;
    return g->both ? cdz_bnf_sets_add(&l->sets, &l->b, set, out) : CDZ_OK;
}

/* Behind &: what stands before it leads nowhere; what both take will stand in place of it. */
static cdz_status both(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    lark_group *g = top(l);
    const size_t pos = b->pos - 1;
    if (!l->in_terminal) return cdz_bnf_refuse(b, pos, "& outside of a terminal");
    CDZ_TRY(join(l, &g->left));
    g->both = pos + 1;
    g->from = cdz_bnf_top(b)->at = cdz_net_node(b->net);
    return CDZ_OK;
}

static cdz_status end_alternative(lark_reader *l)
{
    cdz_bnf_part part;
    cdz_bnf_group *g = cdz_bnf_top(&l->b);
    if (!top(l)->both) return CDZ_OK;
    CDZ_TRY(join(l, &part));
    cdz_net_edge_add(l->b.net, g->part.in, part.in, CDZ_NET_NOTHING, 0);
    g->at = part.out;
    top(l)->both = 0;
    return CDZ_OK;
}

static cdz_status next_alternative(lark_reader *l)
{
    CDZ_TRY(end_alternative(l));
    cdz_bnf_next_alternative(&l->b);
    top(l)->from = cdz_bnf_top(&l->b)->at;
    return CDZ_OK;
}

/* What the part does not take, where ~ stands before it; but: its place + 1. */
static cdz_status deny(lark_reader *l, size_t but, cdz_bnf_part *part)
{
    const cdz_bnf_set set = {.left = *part, .but = true, .pos = but - 1};
    return but ? cdz_bnf_sets_add(&l->sets, &l->b, set, part) : CDZ_OK;
}

static cdz_status close_group(lark_reader *l, cdz_bnf_part *out)
{
    const lark_group g = *top(l);
    const bool optional = cdz_bnf_top(&l->b)->closes == ']';
    CDZ_TRY(end_alternative(l));
    *out = cdz_bnf_close(&l->b);
    if (optional) *out = cdz_bnf_repeat(&l->b, *out, 0, 1);
    return deny(l, g.but, out);
}

static cdz_status bracket(lark_reader *l, int c, size_t but)
{
    cdz_bnf *b = &l->b;
    cdz_bnf_part part;
    if (c == '(' || c == '[') {
        if (but && !l->in_terminal)
            return cdz_bnf_refuse(b, but - 1, "~ before a group outside of a terminal");
        const cdz_status st = open_group(l, c == '(' ? ')' : ']', but);
        b->pos++;
        return st;
    }
    if (but || cdz_bnf_top(b)->closes != c)
        return cdz_bnf_wrong(b, b->pos, "a bracket that closes nothing");
    b->pos++;
    CDZ_TRY(close_group(l, &part));
    return append(b, part);
}

/* --- JSON in a grammar ------------------------------------------------------------------------------ */

/* Bytes of the object that stands here; 0: it has no end. */
static size_t object_len(const char *text, size_t len)
{
    size_t depth = 0;
    bool string = false;
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (string && c == '\\')
            i++;
        else if (c == '"')
            string = !string;
        else if (!string && c == '{')
            depth++;
        else if (!string && c == '}' && --depth == 0)
            return i + 1;
    }
    return 0;
}

static size_t object_here(const cdz_bnf *b)
{
    return cdz_bnf_peek(b, 0) == '{' ? object_len(b->text + b->pos, b->len - b->pos) : 0;
}

/* %regex {"substring_words": ...}, behind %regex. */
static cdz_status substring(lark_reader *l, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    cdz_error err = {0};
    skip(b, true);
    const size_t from = b->pos, n = object_here(b);
    if (!n) return cdz_bnf_wrong(b, from, "expected an object behind %regex");
    *out = cdz_bnf_part_new(b);
    CDZ_TRY(placed(b, from, cdz_net_substring(b->net, b->text + from, n, out->in, out->out, &err),
                   &err));
    b->pos += n;
    return CDZ_OK;
}

/* %json {schema}, behind %json. */
static cdz_status json(lark_reader *l, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    cdz_error err = {0};
    uint32_t rule;
    skip(b, true);
    const size_t from = b->pos, n = object_here(b);
    if (!n) return cdz_bnf_wrong(b, from, "expected a JSON Schema behind %json, an object");
    CDZ_TRY(placed(b, from, cdz_schema_part(b->net, b->text + from, n, &rule, &err), &err));
    b->pos += n;
    *out = cdz_bnf_part_new(b);
    cdz_net_edge_add(b->net, out->in, out->out, CDZ_NET_CALL, rule);
    return CDZ_OK;
}

static bool is_here(const cdz_bnf *b, const char *text)
{
    const size_t n = strlen(text);
    return b->len - b->pos >= n && memcmp(b->text + b->pos, text, n) == 0;
}

/* The directive at this place, by its name. */
static cdz_status refuse_directive(const cdz_bnf *b)
{
    size_t n = 1;
    while (is_name(cdz_bnf_peek(b, n))) n++;
    if (n == 1) return cdz_bnf_wrong(b, b->pos, "expected the name of a directive behind %");
    return refuse_named(b, b->pos, "", n);
}

/* What a % or @ inside a rule may mean besides %json. */
static cdz_status directive_inside(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    if (cdz_bnf_peek(b, 0) == '@') return cdz_bnf_refuse(b, b->pos, "@subgrammar");
    if (is_here(b, "%json")) return cdz_bnf_refuse(b, b->pos, "%json in a terminal");
    return refuse_directive(b);
}

/* How many ~ stand here: an even number of them denies nothing. Returns where the first stands, + 1; 0: nothing is denied. */
static size_t denials(cdz_bnf *b)
{
    const size_t from = b->pos;
    size_t n = 0;
    for (; cdz_bnf_take(b, "~"); n++) skip(b, false);
    return n % 2 ? from + 1 : 0;
}

/* A part that is written where it stands. */
static cdz_status written(lark_reader *l, int c, cdz_bnf_part *out)
{
    cdz_bnf *b = &l->b;
    switch (c) {
    case '"': return literal(l, out);
    case '/': return regex(l, out);
    case '<':
        if (l->in_terminal)
            return cdz_bnf_wrong(b, b->pos, "a terminal cannot hold tokens by number");
        return cdz_bnf_tokens(b, false, out);
    case '%':
        if (cdz_bnf_take(b, "%regex")) return substring(l, out);
        if (l->in_terminal || !cdz_bnf_take(b, "%json")) return directive_inside(l);
        return json(l, out);
    default: return directive_inside(l);
    }
}

static cdz_status item(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    cdz_bnf_part part = {0};
    const size_t but = denials(b);
    const int c = cdz_bnf_peek(b, 0);
    if (cdz_byte_in(c, "()[]")) return bracket(l, c, but);
    if (but && (c == '<' || (c == '%' && !is_here(b, "%regex"))))
        return cdz_bnf_refuse(b, but - 1, c == '<' ? "~ before a token" : "~ before a directive");
    if (cdz_byte_in(c, "\"/<%@")) {
        CDZ_TRY(written(l, c, &part));
        CDZ_TRY(deny(l, but, &part));
        CDZ_TRY(as_terminal(l, part, &part));
        return append(b, part);
    }
    const size_t n = name_len(b);
    if (!n) return cdz_bnf_wrong(b, b->pos, "expected a text, a /regex/, a name or a group");
    if (but && !is_terminal(b->text + b->pos, n))
        return cdz_bnf_refuse(b, but - 1, "~ before a rule");
    CDZ_TRY(name(l, &part));
    if (!but) return append(b, part);
    CDZ_TRY(deny(l, but, &part));
    CDZ_TRY(as_terminal(l, part, &part));
    return append(b, part);
}

/* --- rules ----------------------------------------------------------------------------------------- */

static cdz_status body(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    CDZ_TRY(open_group(l, 0, 0));
    for (;;) {
        const bool inside = cdz_bnf_top(b)->closes != 0;
        skip(b, inside);
        if (!inside && at_end(b)) break;
        if (cdz_bnf_peek(b, 0) < 0) break;
        if (cdz_bnf_take(b, "|")) {
            CDZ_TRY(next_alternative(l));
        } else if (cdz_bnf_take(b, "&")) {
            CDZ_TRY(both(l));
        } else if (cdz_bnf_take(b, "->")) {
            skip(b, false);
            b->pos += name_len(b);
        } else {
            CDZ_TRY(item(l));
        }
        if (b->net->status != CDZ_OK) break;
    }
    if (b->n_groups > 1 && b->net->status == CDZ_OK)
        return cdz_bnf_wrong(b, cdz_bnf_top(b)->pos, "a bracket that is not closed");
    return CDZ_OK;
}

/* [capture], [capture="name"] are read and do nothing; other attributes change the language, and are refused by name. */
static cdz_status attributes(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    if (cdz_bnf_peek(b, 0) == '{') return cdz_bnf_refuse(b, b->pos, "a template");
    if (cdz_bnf_peek(b, 0) == '.') return cdz_bnf_refuse(b, b->pos, "a priority");
    if (!cdz_bnf_take(b, "[")) return CDZ_OK;
    do {
        skip(b, false);
        const size_t from = b->pos, n = name_len(b);
        if (!n) return cdz_bnf_wrong(b, from, "expected the name of an attribute");
        if (n != strlen("capture") || memcmp(b->text + from, "capture", n) != 0)
            return refuse_named(b, from, "the attribute ", n);
        b->pos += n;
        skip(b, false);
        if (!cdz_bnf_take(b, "=")) continue;
        skip(b, false);
        cdz_buf name = {0};
        const cdz_status st = cdz_bnf_peek(b, 0) == '"'
                                  ? quoted(b, &name)
                                  : cdz_bnf_wrong(b, b->pos, "expected a name in quotes");
        cdz_buf_free(&name);
        CDZ_TRY(st);
        skip(b, false);
    } while (cdz_bnf_take(b, ","));
    return cdz_bnf_take(b, "]") ? CDZ_OK : cdz_bnf_wrong(b, b->pos, "expected ]");
}

static cdz_status rule(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    while (cdz_bnf_take(b, "?") || cdz_bnf_take(b, "!")) continue;
    const size_t from = b->pos, n = name_len(b);
    if (!n) return cdz_bnf_wrong(b, from, "expected a rule");
    CDZ_TRY(cdz_bnf_rule_begin(b, from, n, &l->own));
    l->in_terminal = is_terminal(b->text + from, n);
    b->pos += n;
    CDZ_TRY(attributes(l));
    skip(b, false);
    if (!cdz_bnf_take(b, ":")) return cdz_bnf_wrong(b, b->pos, "expected : behind a rule's name");
    cdz_bnf_part part;
    CDZ_TRY(body(l));
    CDZ_TRY(close_group(l, &part));
    cdz_bnf_define(b, l->own, part);
    return CDZ_OK;
}

/* %ignore: any number of these, in any order. */
static cdz_status ignore(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    l->in_terminal = true;
    l->own = UINT32_MAX;
    cdz_bnf_part part;
    CDZ_TRY(body(l));
    CDZ_TRY(close_group(l, &part));
    if (!l->ignore) l->ignore = cdz_net_rule_new(b->net) + 1;
    if (b->net->status != CDZ_OK) return CDZ_OK;
    const cdz_net_rule r = b->net->rules[l->ignore - 1];
    const uint32_t once = cdz_net_rule_of(b->net, part.in, part.out), at = cdz_net_node(b->net);
    cdz_net_edge_add(b->net, r.start, at, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(b->net, at, r.start, CDZ_NET_CALL, once);
    cdz_net_edge_add(b->net, at, r.end, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

static cdz_status statement(lark_reader *l)
{
    cdz_bnf *b = &l->b;
    if (cdz_bnf_peek(b, 0) != '%') return rule(l);
    if (cdz_bnf_take(b, "%ignore")) return ignore(l);
    if (cdz_bnf_take(b, "%import")) return import(l);
    if (b->len - b->pos > 12 && memcmp(b->text + b->pos, "%llguidance ", 12) == 0) {
        b->pos += 12;
        skip(b, false);
        if (cdz_bnf_take(b, "{}")) return CDZ_OK;
        return cdz_bnf_refuse(b, b->pos, "an option of %llguidance");
    }
    return refuse_directive(b);
}

static cdz_status read_all(lark_reader *l, uint32_t *start)
{
    cdz_bnf *b = &l->b;
    for (skip(b, true); b->pos < b->len; skip(b, true)) {
        CDZ_TRY(statement(l));
        CDZ_TRY(cdz_bnf_met(b));
    }
    uint32_t i, circle;
    CDZ_TRY(cdz_bnf_root(b, "start", &i));
    if (!cdz_ignore_circle(&l->terminals, b->n_rules, &circle)) return cdz_bnf_no_memory(b);
    if (circle != UINT32_MAX)
        return cdz_bnf_wrong(b, (size_t)(b->rules[circle].name - b->text),
                             "a terminal that leads back to itself");
    CDZ_TRY(cdz_bnf_sets_fill(&l->sets, b));
    CDZ_TRY(cdz_bnf_met(b));
    *start = b->rules[i].rule;
    if (l->ignore) *start = cdz_ignore_between(b->net, &l->terminals, l->ignore - 1, *start);
    return CDZ_OK;
}

cdz_status cdz_grammar_from_lark(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err)
{
    lark_reader l = {0};
    cdz_net net;
    uint32_t start = 0;
    *out = NULL;
    cdz_status st = cdz_bnf_begin(&l.b, "Lark", text, len, &net, options, err);
    if (st == CDZ_OK) st = read_all(&l, &start);
    cdz_bnf_free(&l.b);
    cdz_ignore_free(&l.terminals);
    cdz_bnf_sets_free(&l.sets);
    free(l.groups);
    if (st == CDZ_OK) return cdz_grammar_of_net(&net, start, options, out, err);
    cdz_net_free(&net);
    return st;
}
