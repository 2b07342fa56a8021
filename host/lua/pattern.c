/* pattern.c - a matcher for Lua patterns (reference manual, 6.4.1), with the limits of the stock one (32 captures, 200
 * levels) and two more: every step is charged to the script's budget, and character classes are ASCII's, not the
 * locale's. */
#include "lua/pattern.h"

#include <string.h>

#include "lua/session.h"

#define MAX_DEPTH   200
#define STEPS_A_FEE 1024

static void count_step(cdz_matcher *m)
{
    if (++m->steps < STEPS_A_FEE) return;
    m->steps = 0;
    cdz_lua_charge_elements(m->L, CDZ_LUA_BIG_OP); /* 257 instructions and a look at the clock */
}

void cdz_matcher_init(cdz_matcher *m, lua_State *L, const char *subject, size_t n_subject,
                      const char *pattern, size_t n_pattern)
{
    m->L = L;
    m->subject = subject;
    m->subject_end = subject + n_subject;
    m->pattern_end = pattern + n_pattern;
    m->depth = m->steps = m->n_captures = 0;
}

/* --- one character ------------------------------------------------------------------------------------- */

static bool is_alpha(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool in_class(int c, int letter)
{
    const int lower = letter | 0x20;
    bool yes;

    if (!is_alpha(letter)) return letter == c;
    switch (lower) {
    case 'a': yes = is_alpha(c); break;
    case 'c': yes = c < 32 || c == 127; break;
    case 'd': yes = is_digit(c); break;
    case 'g': yes = c > 32 && c < 127; break;
    case 'l': yes = c >= 'a' && c <= 'z'; break;
    case 'p': yes = c > 32 && c < 127 && !is_alpha(c) && !is_digit(c); break;
    case 's': yes = c == ' ' || (c >= 9 && c <= 13); break;
    case 'u': yes = c >= 'A' && c <= 'Z'; break;
    case 'w': yes = is_alpha(c) || is_digit(c); break;
    case 'x': yes = is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f' && is_alpha(c)); break;
    default: return letter == c;
    }
    return lower == letter ? yes : !yes;
}

/* The end of the single-character pattern that begins at p. */
static const char *class_end(cdz_matcher *m, const char *p)
{
    const char c = *p++;

    if (c == '%') {
        if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 1;
    }
    if (c != '[') return p;
    if (p < m->pattern_end && *p == '^') p++;
    do { /* a ']' that comes first is an ordinary character */
        if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p++ == '%') {
            if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
            p++;
        }
    } while (p == m->pattern_end || *p != ']');
    return p + 1;
}

/* Does c belong to the set [p, last], where *p is '[' and *last is ']'? */
static bool in_set(int c, const char *p, const char *last)
{
    const bool wanted = p[1] != '^';

    if (!wanted) p++;
    while (++p < last) {
        if (*p == '%') {
            p++;
            if (in_class(c, (unsigned char)*p)) return wanted;
        } else if (p[1] == '-' && p + 2 < last) {
            if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2]) return wanted;
            p += 2;
        } else if ((unsigned char)*p == c) {
            return wanted;
        }
    }
    return !wanted;
}

/* Does the character at s match the single-character pattern [p, end)? */
static bool single(cdz_matcher *m, const char *s, const char *p, const char *end)
{
    count_step(m);
    if (s >= m->subject_end) return false;
    const int c = (unsigned char)*s;
    switch (*p) {
    case '.': return true;
    case '%': return in_class(c, (unsigned char)p[1]);
    case '[': return in_set(c, p, end - 1);
    default: return (unsigned char)*p == c;
    }
}

/* --- items ------------------------------------------------------------------------------------------------ */

static const char *match_balanced(cdz_matcher *m, const char *s, const char *p)
{
    int open = 1;

    if (p + 1 >= m->pattern_end) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    if (s >= m->subject_end || *s != p[0]) return NULL;
    while (++s < m->subject_end) {
        count_step(m);
        if (*s == p[1]) {
            if (--open == 0) return s + 1;
        } else if (*s == p[0]) {
            open++;
        }
    }
    return NULL;
}

static const char *match_longest(cdz_matcher *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;

    while (single(m, s + n, p, end)) n++;
    for (; n >= 0; n--) {
        const char *e = cdz_match(m, s + n, end + 1);
        if (e) return e;
    }
    return NULL;
}

static const char *match_shortest(cdz_matcher *m, const char *s, const char *p, const char *end)
{
    for (;;) {
        const char *e = cdz_match(m, s, end + 1);
        if (e) return e;
        if (!single(m, s, p, end)) return NULL;
        s++;
    }
}

static const char *open_capture(cdz_matcher *m, const char *s, const char *p, ptrdiff_t what)
{
    if (m->n_captures >= CDZ_PATTERN_CAPTURES) luaL_error(m->L, "too many captures");
    m->capture[m->n_captures].at = s;
    m->capture[m->n_captures].len = what;
    m->n_captures++;
    const char *e = cdz_match(m, s, p);
    if (!e) m->n_captures--;
    return e;
}

static const char *close_capture(cdz_matcher *m, const char *s, const char *p)
{
    int i = m->n_captures;

    while (--i >= 0 && m->capture[i].len != CDZ_CAPTURE_OPEN) continue;
    if (i < 0) luaL_error(m->L, "invalid pattern capture");
    m->capture[i].len = s - m->capture[i].at;
    const char *e = cdz_match(m, s, p);
    if (!e) m->capture[i].len = CDZ_CAPTURE_OPEN;
    return e;
}

static const char *match_reference(cdz_matcher *m, const char *s, int digit)
{
    const int i = digit - '1';

    if (i < 0 || i >= m->n_captures || m->capture[i].len == CDZ_CAPTURE_OPEN)
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    const ptrdiff_t len = m->capture[i].len;
    if (len < 0) return NULL; /* a position has no text */
    count_step(m);
    if (m->subject_end - s < len || memcmp(m->capture[i].at, s, (size_t)len) != 0) return NULL;
    return s + len;
}

/* %f[set]: between a character outside the set and one inside; the ends of the subject count as '\0'. */
static bool at_frontier(cdz_matcher *m, const char *s, const char *set, const char *end)
{
    const int before = s == m->subject ? 0 : (unsigned char)s[-1];
    const int after = s < m->subject_end ? (unsigned char)*s : 0;

    return !in_set(before, set, end - 1) && in_set(after, set, end - 1);
}

/* --- sequences -------------------------------------------------------------------------------------------- */

/* What an item did: how the loop of cdz_match goes on. */
typedef enum item { ITEM_PLAIN, ITEM_NEXT, ITEM_DONE } item;

/* Items that begin with '%' and are no single characters. Advances *s and *p on ITEM_NEXT; *s NULL: no match. */
static item match_special(cdz_matcher *m, const char **s, const char **p)
{
    const char *q = *p + 1;

    if (q == m->pattern_end) return ITEM_PLAIN;
    if (*q == 'b') {
        *s = match_balanced(m, *s, q + 1);
        *p += 4;
        return ITEM_NEXT;
    }
    if (*q == 'f') {
        if (q + 1 == m->pattern_end || q[1] != '[')
            luaL_error(m->L, "missing '[' after '%%f' in pattern");
        const char *end = class_end(m, q + 1);
        if (!at_frontier(m, *s, q + 1, end)) *s = NULL;
        *p = end;
        return ITEM_NEXT;
    }
    if (is_digit((unsigned char)*q)) {
        *s = match_reference(m, *s, *q);
        *p += 2;
        return ITEM_NEXT;
    }
    return ITEM_PLAIN;
}

/* A single-character pattern with what follows it. ITEM_DONE: *s is the result of the rest, too. */
static item match_single(cdz_matcher *m, const char **s, const char **p)
{
    const char *end = class_end(m, *p);
    const char suffix = end < m->pattern_end ? *end : '\0';

    switch (suffix) {
    case '*': *s = match_longest(m, *s, *p, end); return ITEM_DONE;
    case '-': *s = match_shortest(m, *s, *p, end); return ITEM_DONE;
    case '+':
        *s = single(m, *s, *p, end) ? match_longest(m, *s + 1, *p, end) : NULL;
        return ITEM_DONE;
    case '?':
        if (single(m, *s, *p, end)) {
            const char *e = cdz_match(m, *s + 1, end + 1);
            if (e) {
                *s = e;
                return ITEM_DONE;
            }
        }
        *p = end + 1;
        return ITEM_NEXT;
    default:
        *s = single(m, *s, *p, end) ? *s + 1 : NULL;
        *p = end;
        return ITEM_NEXT;
    }
}

static item match_item(cdz_matcher *m, const char **s, const char **p)
{
    const char *q = *p;

    if (*q == '(') {
        const bool position = q + 1 < m->pattern_end && q[1] == ')';
        *s = open_capture(m, *s, position ? q + 2 : q + 1,
                          position ? CDZ_CAPTURE_POSITION : CDZ_CAPTURE_OPEN);
        return ITEM_DONE;
    }
    if (*q == ')') {
        *s = close_capture(m, *s, q + 1);
        return ITEM_DONE;
    }
    if (*q == '$' && q + 1 == m->pattern_end) {
        if (*s != m->subject_end) *s = NULL;
        return ITEM_DONE;
    }
    if (*q == '%') {
        const item done = match_special(m, s, p);
        if (done != ITEM_PLAIN) return done;
    }
    return match_single(m, s, p);
}

const char *cdz_match(cdz_matcher *m, const char *s, const char *p)
{
    if (++m->depth > MAX_DEPTH) luaL_error(m->L, "pattern too complex");
    count_step(m);
    while (s && p < m->pattern_end)
        if (match_item(m, &s, &p) == ITEM_DONE) break;
    m->depth--;
    return s;
}

/* --- captures ------------------------------------------------------------------------------------------------ */

void cdz_push_capture(cdz_matcher *m, int i, const char *s, const char *e)
{
    if (i >= m->n_captures) {
        if (i > 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
        lua_pushlstring(m->L, s, (size_t)(e - s));
        return;
    }
    const ptrdiff_t len = m->capture[i].len;
    if (len == CDZ_CAPTURE_OPEN) luaL_error(m->L, "unfinished capture");
    if (len == CDZ_CAPTURE_POSITION)
        lua_pushinteger(m->L, (lua_Integer)(m->capture[i].at - m->subject) + 1);
    else
        lua_pushlstring(m->L, m->capture[i].at, (size_t)len);
}

int cdz_push_captures(cdz_matcher *m, const char *s, const char *e)
{
    const int n = m->n_captures == 0 && s ? 1 : m->n_captures;

    luaL_checkstack(m->L, n, "too many captures");
    for (int i = 0; i < n; i++) cdz_push_capture(m, i, s, e);
    return n;
}
