/* usual.c - usual whitespace: a place is like another that stands between the same two bytes, or behind the same two. Lines are
 * indented as the line before, and a step more or less where a bracket opens or closes.
 *
 * Knows nothing of grammars: a guess, which the model judges. Any thread. */
#include "usual.h"

#include <cadenza/base.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool opens(char c)
{
    return c == '{' || c == '[';
}

static bool closes(char c)
{
    return c == '}' || c == ']';
}

/* The length without whitespace at the end. */
static size_t cut_blank(const char *text, size_t n)
{
    while (n && is_blank(text[n - 1])) n--;
    return n;
}

/* --- places seen before --------------------------------------------------------------------------------------- */

static bool seen_between(const char *text, size_t n, char before, char next, cdz_string *out)
{
    for (size_t i = n; i-- > 0;) {
        if (text[i] != next) continue;
        const size_t from = cut_blank(text, i);
        if (!from || text[from - 1] != before) continue;
        *out = (cdz_string){text + from, (uint32_t)(i - from)};
        return true;
    }
    return false;
}

/* Behind the two bytes that the text ends with. */
static bool seen_behind(const char *text, size_t n, cdz_string *out)
{
    for (size_t i = n - 1; n > 1 && i-- > 1;) {
        size_t past = i + 1;
        if (text[i] != text[n - 1] || text[i - 1] != text[n - 2]) continue;
        while (is_blank(text[past])) past++; /* the last byte is none */
        *out = (cdz_string){text + i + 1, (uint32_t)(past - i - 1)};
        return true;
    }
    return false;
}

/* Whether nothing stood behind the last colon of a key. */
static bool is_dense(const char *text, size_t n)
{
    size_t i = n > 1 ? n - 2 : 0; /* of a quote, a colon and another byte */
    while (i > 0 && (text[i - 1] != '"' || text[i] != ':')) i--;
    return i > 0 && !is_blank(text[i + 1]);
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

static bool is_in_lines(const char *text, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (text[i] == '\n' && opens(text[i - 1])) return true;
    return false;
}

/* What the line that ends at n begins with. */
static cdz_string indent_of(const char *text, size_t n)
{
    size_t from = n, past;
    while (from && text[from - 1] != '\n') from--;
    for (past = from; past < n && (text[past] == ' ' || text[past] == '\t');) past++;
    return (cdz_string){text + from, (uint32_t)(past - from)};
}

/* The shortest indentation. */
static cdz_string step_of(const char *text, size_t n)
{
    cdz_string step = {NULL, 0};
    for (size_t i = 0; i <= n; i++) {
        if (i < n && text[i] != '\n') continue;
        const cdz_string own = indent_of(text, i);
        if (own.len && (!step.at || own.len < step.len)) step = own;
    }
    return step.at ? step : (cdz_string){"  ", 2};
}

static size_t new_line(const char *text, size_t n, char next, char *out)
{
    const cdz_string step = step_of(text, n);
    size_t len = indent_of(text, n).len;
    if (opens(text[n - 1]) && closes(next)) return 0;
    if (opens(text[n - 1])) len += step.len;
    if (closes(next)) len = len > step.len ? len - step.len : 0;
    if (len >= USUAL_MOST) return 0;
    out[0] = '\n';
    memset(out + 1, step.at[0], len);
    return len + 1;
}

/* --- a place ------------------------------------------------------------------------------------------------------ */

static size_t as_seen(const char *text, size_t n, char next, cdz_string seen, char *out)
{
    if (seen.len && memchr(seen.at, '\n', seen.len)) return new_line(text, n, next, out);
    if (seen.len > USUAL_MOST) return 0;
    memcpy(out, seen.at, seen.len);
    return seen.len;
}

/* Between a text, which ends with no whitespace, and a byte. */
static size_t whole_blank(const char *text, size_t n, char next, char *out)
{
    cdz_string seen;
    if (!n) return 0;
    const char before = text[n - 1];
    const bool parts = before == ',' || opens(before), sets_off = parts || before == ':';
    if (seen_between(text, n, before, next, &seen) || (sets_off && seen_behind(text, n, &seen)))
        return as_seen(text, n, next, seen, out);
    if ((parts || closes(next)) && is_in_lines(text, n)) return new_line(text, n, next, out);
    out[0] = ' ';
    return (before == ',' || before == ':') && !is_dense(text, n);
}

size_t usual_blank(const char *text, size_t n, char next, char out[USUAL_MOST])
{
    const size_t solid = cut_blank(text, n), had = n - solid;
    const size_t len = whole_blank(text, solid, next, out);
    if (had > len || memcmp(out, text + solid, had) != 0) return 0;
    memmove(out, out + had, len - had);
    return len - had;
}
