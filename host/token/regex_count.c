/* regex_count.c - rewriting a pattern so that its retries count its rounds: what is repeated, X, becomes (?:(?!)b|X), whose
 * first half always fails. It is a list, since an alternative that is (?!) alone cannot be repeated. */
#include "token/regex_count.h"

#include <string.h>

#include "base/ascii.h"

#define FAILS_OR  "(?:(?!)b|"
#define MAX_DEPTH 64

typedef struct group {
    size_t begin; /* in the output */
    bool looks;   /* forward or behind */
} group;

typedef struct reader {
    const char *p;
    size_t n, i;
    cdz_buf *out;
    group open[MAX_DEPTH];
    unsigned depth, behind; /* groups that look behind, among the open ones */
} reader;

static bool is_at(const reader *r, const char *text)
{
    const size_t n = strlen(text);
    return r->n - r->i >= n && memcmp(r->p + r->i, text, n) == 0;
}

static char ahead(const reader *r, size_t k)
{
    return r->i + k < r->n ? r->p[r->i + k] : '\0';
}

static bool copy(reader *r, size_t n)
{
    if (n > r->n - r->i) return false;
    cdz_buf_add(r->out, r->p + r->i, n);
    r->i += n;
    return true;
}

static bool copy_through(reader *r, char last)
{
    const char *at = memchr(r->p + r->i, last, r->n - r->i);
    return at && copy(r, (size_t)(at - (r->p + r->i)) + 1);
}

static bool copy_char(reader *r)
{
    size_t n = 1;
    while (r->i + n < r->n && ((unsigned char)r->p[r->i + n] & 0xC0) == 0x80) n++;
    return copy(r, n);
}

/* --- atoms ---------------------------------------------------------------------------------------- */

static bool copy_hex(reader *r)
{
    if (ahead(r, 2) == '{') return copy_through(r, '}');
    /* Bytes from 0x80 are parts of characters. */
    return cdz_hex_digit(ahead(r, 2)) >= 0 && cdz_hex_digit(ahead(r, 3)) >= 0 &&
           ahead(r, 2) < '8' && copy(r, 4);
}

static bool copy_escape(reader *r)
{
    switch (ahead(r, 1)) {
    case 'x': return copy_hex(r);
    case 'u': return copy(r, 6);
    case 'p':
    case 'P': return ahead(r, 2) == '{' && copy_through(r, '}');
    default: break;
    }
    /* References, calls, controls, the start of the match moved. */
    if (ahead(r, 1) == '\0' || cdz_byte_in(ahead(r, 1), "0123456789kgKcCMoQE")) return false;
    return copy(r, 1) && copy_char(r);
}

static bool copy_class(reader *r)
{
    unsigned depth = 0;
    if (ahead(r, 1) == ']' || (ahead(r, 1) == '^' && ahead(r, 2) == ']')) return false;
    while (r->i < r->n) {
        const char c = r->p[r->i];
        if (c == '\\' && !copy(r, 1)) return false;
        if (!copy_char(r)) return false;
        if (c == '[') depth++;
        if (c == ']' && --depth == 0) return true;
    }
    return false;
}

/* --- groups --------------------------------------------------------------------------------------- */

/* (?i) and (?i: are copied; free spacing is not read. *opens: a group is open now. */
static bool copy_options(reader *r, bool *opens)
{
    size_t k = 2;
    while (cdz_byte_in(ahead(r, k), "ims-")) k++;
    *opens = ahead(r, k) == ':';
    return (*opens || ahead(r, k) == ')') && copy(r, k + 1);
}

static bool open_group(reader *r)
{
    group g = {.begin = r->out->len};
    bool opens = true, ok;
    if (is_at(r, "(*")) return false;
    if (!is_at(r, "(?")) {
        ok = copy(r, 1);
    } else if (is_at(r, "(?<=") || is_at(r, "(?<!")) {
        g.looks = true;
        r->behind++;
        ok = copy(r, 4);
    } else if (is_at(r, "(?<")) {
        ok = copy_through(r, '>');
    } else if (is_at(r, "(?=") || is_at(r, "(?!")) {
        g.looks = true;
        ok = copy(r, 3);
    } else if (is_at(r, "(?>")) {
        ok = copy(r, 3);
    } else {
        ok = copy_options(r, &opens);
    }
    if (!ok || (opens && r->depth == MAX_DEPTH)) return false;
    if (opens) r->open[r->depth++] = g;
    return true;
}

/* --- repetitions ---------------------------------------------------------------------------------- */

/* The bytes of a quantifier here, or 0. *many: it may go round more often than a constant says. */
static size_t quantifier(const reader *r, bool *many)
{
    size_t k = 1;
    const char c = ahead(r, 0);
    *many = c == '*' || c == '+';
    if (*many || c == '?') return 1;
    if (c != '{') return 0;
    while (ahead(r, k) >= '0' && ahead(r, k) <= '9') k++;
    const bool from = k > 1, comma = ahead(r, k) == ',';
    const size_t to = k + comma;
    k = to;
    while (comma && ahead(r, k) >= '0' && ahead(r, k) <= '9') k++;
    *many = comma && k == to;
    return ahead(r, k) == '}' && (from || k > to) ? k + 1 : 0;
}

static void insert(cdz_buf *out, size_t at, const char *text)
{
    const size_t n = strlen(text), after = out->len - at;
    cdz_buf_puts(out, text);
    if (out->failed) return;
    memmove(out->data + at + n, out->data + at, after);
    memcpy(out->data + at, text, n);
}

/* What may follow an atom that begins at `begin` of the output. */
static bool copy_quantifiers(reader *r, size_t begin, bool looks)
{
    bool many, endless = false;
    size_t n = quantifier(r, &many);
    if (n == 0) return true;
    if (looks) return false;
    if (r->behind == 0) {
        insert(r->out, begin, FAILS_OR);
        cdz_buf_putc(r->out, ')');
    }
    for (; n > 0; n = quantifier(r, &many)) {
        endless |= many;
        copy(r, n);
        if (ahead(r, 0) == '?' || ahead(r, 0) == '+') copy(r, 1);
    }
    return !endless || r->behind == 0;
}

static bool close_group(reader *r)
{
    if (r->depth == 0) return false;
    const group g = r->open[--r->depth];
    const bool behind = g.looks && r->out->data && r->out->data[g.begin + 2] == '<';
    copy(r, 1);
    if (behind) r->behind--;
    return copy_quantifiers(r, g.begin, g.looks);
}

static bool next_part(reader *r)
{
    const size_t begin = r->out->len;
    switch (r->p[r->i]) {
    case '(': return open_group(r);
    case ')': return close_group(r);
    case '|':
    case '^':
    case '$': return copy(r, 1);
    case '*':
    case '+':
    case '?': return false;
    case '[': return copy_class(r) && copy_quantifiers(r, begin, false);
    case '\\': return copy_escape(r) && copy_quantifiers(r, begin, false);
    default: return copy_char(r) && copy_quantifiers(r, begin, false);
    }
}

bool cdz_regex_count(const char *pattern, size_t len, cdz_buf *out)
{
    reader r = {.p = pattern, .n = len, .out = out};
    while (r.i < r.n && !out->failed)
        if (!next_part(&r)) return false;
    return r.depth == 0;
}
