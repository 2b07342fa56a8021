/* lex.c - source to tokens. Follows jinja2/lexer.py rule by rule; the whitespace rules are its
 * tokeniter's, with trim_blocks and lstrip_blocks on and keep_trailing_newline off. */
#include "template/lex.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "template/value.h"

enum { BALANCE_DEPTH = 1000 };

typedef struct lexer {
    const char *s; /* newlines are LF */
    size_t len, at;
    const char *name;
    cdz_arena *arena;
    token_list *out;
    cdz_error *err;
    size_t counted; /* the place that line and column stand for; they only go forward */
    uint32_t line, column;
    bool line_starting; /* the last tag swallowed the newline before what follows */
    char open[BALANCE_DEPTH];
    size_t n_open;
} lexer;

/* --- places and failing --------------------------------------------------------------------- */

/* Places only move forward, so counting goes on from the last one: a template of one long line is counted once. */
static void locate(lexer *lx, size_t at, uint32_t *line, uint32_t *column)
{
    while (lx->counted < at) {
        const char *from = lx->s + lx->counted;
        const char *newline = memchr(from, '\n', at - lx->counted);
        const size_t n = newline ? (size_t)(newline - from) + 1 : at - lx->counted;
        lx->line += newline != NULL;
        lx->column = newline ? 1 : lx->column + (uint32_t)cdz_utf8_count(from, n);
        lx->counted += n;
    }
    *line = lx->line;
    *column = lx->column;
}

static cdz_status lex_fail(lexer *lx, size_t at, const char *what)
{
    uint32_t line, column;
    locate(lx, at, &line, &column);
    return cdz_err(lx->err, CDZ_E_INPUT, "%s:%u:%u: %s", lx->name, line, column, what);
}

static cdz_status add_token(lexer *lx, token_kind kind, size_t at, const char *text, size_t len)
{
    token_list *out = lx->out;
    if (out->n == out->cap) {
        const size_t cap = out->cap ? out->cap * 2 : 256;
        token *grown = cdz_arena_array(lx->arena, cap, sizeof *grown);
        if (!grown) return cdz_err_memory_in(lx->err, lx->name);
        if (out->n) memcpy(grown, out->at, out->n * sizeof *grown);
        out->at = grown;
        out->cap = cap;
    }
    char *copy = cdz_arena_strndup(lx->arena, text, len);
    if (!copy) return cdz_err_memory_in(lx->err, lx->name);
    token *t = &out->at[out->n++];
    *t = (token){.kind = (uint8_t)kind, .len = (uint32_t)len, .text = copy};
    locate(lx, at, &t->line, &t->column);
    return CDZ_OK;
}

/* --- whitespace ------------------------------------------------------------------------------- */

static size_t skip_space(const lexer *lx, size_t at)
{
    while (at < lx->len) {
        size_t next = at;
        if (!tpl_is_space(tpl_next_code(lx->s, lx->len, &next))) break;
        at = next;
    }
    return at;
}

/* The end of s[from, to) without trailing whitespace. */
static size_t trim_end(const lexer *lx, size_t from, size_t to)
{
    while (to > from) {
        size_t begin = to - 1;
        while (begin > from && ((unsigned char)lx->s[begin] & 0xC0) == 0x80) begin--;
        size_t next = begin;
        if (!tpl_is_space(tpl_next_code(lx->s, to, &next))) break;
        to = begin;
    }
    return to;
}

/* Where the text before a tag ends: sign is '-', '+' or 0; strips: the tag is not a {{. */
static size_t text_end(const lexer *lx, size_t from, size_t to, char sign, bool strips)
{
    if (sign == '-') return trim_end(lx, from, to);
    if (sign == '+' || !strips) return to;
    size_t line = to;
    while (line > from && lx->s[line - 1] != '\n') line--;
    if (line == from && !lx->line_starting) return to;
    return trim_end(lx, line, to) == line ? line : to;
}

static char sign_at(const lexer *lx, size_t at)
{
    return at < lx->len && (lx->s[at] == '-' || lx->s[at] == '+') ? lx->s[at] : 0;
}

static bool starts(const lexer *lx, size_t at, const char *what)
{
    const size_t n = strlen(what);
    return lx->len - at >= n && memcmp(lx->s + at, what, n) == 0;
}

/* If a tag ends at `at` ("-%}", "+%}", "%}"; close is "%}" or "#}"), moves behind it and what it
 * swallows. */
static bool tag_end(lexer *lx, size_t at, const char *close)
{
    const char sign = sign_at(lx, at);
    if (!starts(lx, at + (sign ? 1 : 0), close)) return false;
    at += (sign ? 1u : 0u) + 2;
    if (sign == '-') at = skip_space(lx, at);
    if (!sign && at < lx->len && lx->s[at] == '\n') at++;
    lx->at = at;
    lx->line_starting = lx->s[at - 1] == '\n';
    return true;
}

/* --- words, numbers, strings ------------------------------------------------------------------- */

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The end of digits with single "_" between them. */
static size_t digits_end(const lexer *lx, size_t at, int (*is)(int))
{
    const size_t from = at;
    while (at < lx->len) {
        if (is((unsigned char)lx->s[at]))
            at++;
        else if (lx->s[at] == '_' && at > from && at + 1 < lx->len &&
                 is((unsigned char)lx->s[at + 1]))
            at++;
        else
            break;
    }
    return at;
}

static int is_binary(int c)
{
    return c == '0' || c == '1';
}
static int is_octal(int c)
{
    return c >= '0' && c <= '7';
}

static cdz_status lex_number(lexer *lx)
{
    const size_t from = lx->at;
    const char *s = lx->s;
    const bool after_dot = from > 0 && s[from - 1] == '.';
    token_kind kind = T_INTEGER;
    const char base = s[from] == '0' && from + 2 < lx->len ? (char)(s[from + 1] | 0x20) : 0;
    size_t end;
    if (base == 'x' && isxdigit((unsigned char)s[from + 2]))
        end = digits_end(lx, from + 2, isxdigit);
    else if (base == 'b' && is_binary(s[from + 2]))
        end = digits_end(lx, from + 2, is_binary);
    else if (base == 'o' && is_octal(s[from + 2]))
        end = digits_end(lx, from + 2, is_octal);
    else {
        end = digits_end(lx, from, isdigit);
        size_t e = end;
        if (!after_dot && e + 1 < lx->len && s[e] == '.' && isdigit((unsigned char)s[e + 1])) {
            end = e = digits_end(lx, e + 1, isdigit);
            kind = T_FLOAT;
        }
        if (!after_dot && e < lx->len && (s[e] | 0x20) == 'e') {
            e += e + 1 < lx->len && (s[e + 1] == '+' || s[e + 1] == '-') ? 2 : 1;
            if (e < lx->len && isdigit((unsigned char)s[e])) {
                end = digits_end(lx, e, isdigit);
                kind = T_FLOAT;
            }
        }
    }
    char *clean = cdz_arena_strndup(lx->arena, s + from, end - from);
    if (!clean) return cdz_err_memory_in(lx->err, lx->name);
    size_t n = 0;
    for (size_t i = from; i < end; i++)
        if (s[i] != '_') clean[n++] = s[i];
    lx->at = end;
    return add_token(lx, kind, from, clean, n);
}

/* \xHH, \uHHHH, \UHHHHHHHH and octal, the reader standing on what follows the backslash; false:
 * no character. */
static bool numbered_escape(const char *s, size_t len, size_t *at, uint32_t *code)
{
    const char c = s[*at];
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    *code = 0;
    if (!digits) {
        for (digits = 0; digits < 3 && *at < len && is_octal(s[*at]); digits++)
            *code = *code * 8 + (uint32_t)(s[(*at)++] - '0');
        return true;
    }
    ++*at;
    for (; digits; digits--, ++*at) {
        if (*at >= len || !isxdigit((unsigned char)s[*at]) || *code > 0x10FFFF) return false;
        *code = *code * 16 + (uint32_t)cdz_hex_digit(s[*at]);
    }
    return true;
}

static bool unescape(const char *s, size_t len, cdz_buf *out)
{
    static const char plain[] = "abfnrtv\\'\"", meant[] = "\a\b\f\n\r\t\v\\'\"";
    for (size_t i = 0; i < len;) {
        if (s[i] != '\\' || i + 1 >= len) {
            cdz_buf_putc(out, s[i++]);
            continue;
        }
        const char c = s[++i];
        const char *known = memchr(plain, c, sizeof plain - 1);
        if (known) {
            cdz_buf_putc(out, meant[known - plain]);
            i++;
        } else if (c == '\n') {
            i++;
        } else if (c == 'x' || c == 'u' || c == 'U' || is_octal(c)) {
            uint32_t code;
            char bytes[4];
            if (!numbered_escape(s, len, &i, &code)) return false;
            const size_t n = cdz_utf8_encode(code, bytes);
            if (!n) return false;
            cdz_buf_add(out, bytes, n);
        } else {
            cdz_buf_putc(out, '\\');
        }
    }
    return true;
}

static cdz_status lex_string(lexer *lx)
{
    const char quote = lx->s[lx->at];
    const size_t from = lx->at;
    size_t end = from + 1;
    while (end < lx->len && lx->s[end] != quote) end += lx->s[end] == '\\' ? 2 : 1;
    if (end >= lx->len) return lex_fail(lx, from, "this string has no end");
    cdz_buf text = {0};
    cdz_status status = CDZ_OK;
    if (!unescape(lx->s + from + 1, end - from - 1, &text))
        status = lex_fail(lx, from, "this string holds an escape that is no character");
    else if (text.failed)
        status = cdz_err_memory_in(lx->err, lx->name);
    else
        status = add_token(lx, T_STRING, from, text.len ? text.data : "", text.len);
    cdz_buf_free(&text);
    lx->at = end + 1;
    return status;
}

static cdz_status balance(lexer *lx, char c)
{
    static const char opening[] = "([{", closing[] = ")]}";
    char text[64];
    if (strchr(opening, c)) {
        if (lx->n_open == BALANCE_DEPTH)
            return cdz_err(lx->err, CDZ_E_LIMIT, "%s: more than %d brackets inside each other",
                           lx->name, BALANCE_DEPTH);
        lx->open[lx->n_open++] = closing[strchr(opening, c) - opening];
    } else if (strchr(closing, c)) {
        if (!lx->n_open) {
            snprintf(text, sizeof text, "unexpected '%c'", c);
            return lex_fail(lx, lx->at, text);
        }
        const char expected = lx->open[--lx->n_open];
        if (expected != c) {
            snprintf(text, sizeof text, "unexpected '%c', expected '%c'", c, expected);
            return lex_fail(lx, lx->at, text);
        }
    }
    return CDZ_OK;
}

static cdz_status lex_operator(lexer *lx)
{
    static const char *const twos[] = {"//", "**", "==", "!=", ">=", "<="};
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (starts(lx, lx->at, twos[i])) {
            lx->at += 2;
            return add_token(lx, T_OPERATOR, lx->at - 2, twos[i], 2);
        }
    const char c = lx->s[lx->at];
    if (!cdz_byte_in(c, "+-/*%~[](){}><=.:|,;")) {
        char text[64];
        snprintf(text, sizeof text,
                 isprint((unsigned char)c) ? "unexpected character '%c'" : "unexpected byte %d",
                 isprint((unsigned char)c) ? c : (unsigned char)c);
        return lex_fail(lx, lx->at, text);
    }
    CDZ_TRY(balance(lx, c));
    lx->at++;
    return add_token(lx, T_OPERATOR, lx->at - 1, &c, 1);
}

/* --- inside {{ }} and {% %} ----------------------------------------------------------------------- */

static bool print_end(lexer *lx)
{
    const bool minus = starts(lx, lx->at, "-}}");
    if (!minus && !starts(lx, lx->at, "}}")) return false;
    lx->at += minus ? 3 : 2;
    if (minus) lx->at = skip_space(lx, lx->at);
    lx->line_starting = lx->s[lx->at - 1] == '\n';
    return true;
}

static cdz_status lex_one(lexer *lx)
{
    const char c = lx->s[lx->at];
    if (c == '\'' || c == '"') return lex_string(lx);
    if (isdigit((unsigned char)c)) return lex_number(lx);
    if (!is_name_byte(c)) return lex_operator(lx);
    const size_t from = lx->at;
    while (lx->at < lx->len && is_name_byte(lx->s[lx->at])) lx->at++;
    return add_token(lx, T_NAME, from, lx->s + from, lx->at - from);
}

static cdz_status lex_inside(lexer *lx, bool print)
{
    lx->n_open = 0;
    for (;;) {
        lx->at = skip_space(lx, lx->at);
        if (lx->at >= lx->len) return CDZ_OK; /* the parser says what is missing */
        const size_t from = lx->at;
        if (!lx->n_open && (print ? print_end(lx) : tag_end(lx, lx->at, "%}")))
            return add_token(lx, print ? T_PRINT_END : T_BLOCK_END, from, print ? "}}" : "%}", 2);
        CDZ_TRY(lex_one(lx));
    }
}

/* --- between tags ------------------------------------------------------------------------------------ */

static cdz_status add_text(lexer *lx, size_t from, size_t to)
{
    return to > from ? add_token(lx, T_TEXT, from, lx->s + from, to - from) : CDZ_OK;
}

/* "{%", sign, word: the place behind the word, or 0. */
static size_t keyword_tag(const lexer *lx, size_t at, const char *word)
{
    if (!starts(lx, at, "{%")) return 0;
    at += 2;
    if (sign_at(lx, at)) at++;
    at = skip_space(lx, at);
    return starts(lx, at, word) ? at + strlen(word) : 0;
}

/* The reader stands behind {% raw %}. */
static cdz_status lex_raw(lexer *lx, size_t tag)
{
    const size_t from = lx->at;
    for (size_t at = from; at < lx->len; at++) {
        const size_t word = lx->s[at] == '{' ? keyword_tag(lx, at, "endraw") : 0;
        if (!word || !tag_end(lx, skip_space(lx, word), "%}")) continue;
        const bool starting = lx->line_starting;
        lx->line_starting = false;
        const size_t end = text_end(lx, from, at, sign_at(lx, at + 2), true);
        lx->line_starting = starting;
        return add_text(lx, from, end);
    }
    return lex_fail(lx, tag, "this raw block has no end: expected {% endraw %}");
}

static bool raw_begin(lexer *lx, size_t tag)
{
    size_t at = keyword_tag(lx, tag, "raw");
    if (!at) return false;
    at = skip_space(lx, at);
    const bool minus = starts(lx, at, "-%}");
    if (!minus && !starts(lx, at, "%}")) return false;
    lx->at = minus ? skip_space(lx, at + 3) : at + 2;
    return true;
}

static cdz_status lex_comment(lexer *lx, size_t tag)
{
    for (size_t at = lx->at; at < lx->len; at++)
        if ((lx->s[at] == '#' || lx->s[at] == '-' || lx->s[at] == '+') && tag_end(lx, at, "#}"))
            return CDZ_OK;
    return lex_fail(lx, tag, "this comment has no end: expected #}");
}

static cdz_status lex_tag(lexer *lx, size_t from, size_t tag)
{
    const char what = lx->s[tag + 1];
    const char sign = sign_at(lx, tag + 2);
    const bool print = what == '{';
    CDZ_TRY(add_text(lx, from, text_end(lx, from, tag, sign, !print)));
    lx->line_starting = false;
    if (what == '%' && raw_begin(lx, tag)) return lex_raw(lx, tag);
    lx->at = tag + 2 + (sign ? 1 : 0);
    if (what == '#') return lex_comment(lx, tag);
    CDZ_TRY(add_token(lx, print ? T_PRINT_BEGIN : T_BLOCK_BEGIN, tag, print ? "{{" : "{%", 2));
    return lex_inside(lx, print);
}

static cdz_status lex_all(lexer *lx)
{
    while (lx->at < lx->len) {
        const size_t from = lx->at;
        size_t tag = from;
        while (tag + 1 < lx->len && !(lx->s[tag] == '{' && cdz_byte_in(lx->s[tag + 1], "{%#")))
            tag++;
        if (tag + 1 >= lx->len) {
            CDZ_TRY(add_text(lx, from, lx->len));
            break;
        }
        CDZ_TRY(lex_tag(lx, from, tag));
    }
    return add_token(lx, T_END, lx->len, "", 0);
}

/* A copy with CRLF and CR as LF, and without one newline at the end. */
static char *clean_source(cdz_arena *arena, const char *text, size_t len, size_t *out_len)
{
    char *s = cdz_arena_strndup(arena, text, len);
    if (!s) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const bool cr = text[i] == '\r';
        s[n++] = cr ? '\n' : text[i];
        if (cr && i + 1 < len && text[i + 1] == '\n') i++;
    }
    if (n && s[n - 1] == '\n') n--;
    s[n] = '\0';
    *out_len = n;
    return s;
}

cdz_status cdz_template_lex(const char *text, size_t len, const char *name, cdz_arena *arena,
                            token_list *out, cdz_error *err)
{
    lexer lx = {.name = name, .arena = arena, .out = out, .err = err, .line = 1, .column = 1};
    lx.s = clean_source(arena, text, len, &lx.len);
    if (!lx.s) return cdz_err_memory_in(err, name);
    lx.line_starting = true;
    return lex_all(&lx);
}
