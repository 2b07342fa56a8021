/* pattern.c - reading a pattern and walking over its matches. */
#include "token/pattern.h"

#include <string.h>

#include "base/ascii.h"

/* --- patterns of Replace that are too common to need an engine -------------------------------- */

static size_t two_spaces(const uint8_t *t, size_t n, size_t i)
{
    size_t end = i;
    while (end < n && t[end] == ' ') end++;
    return end - i >= 2 ? end : i;
}

static size_t spaces(const uint8_t *t, size_t n, size_t i)
{
    size_t size;
    for (; i < n && cdz_uc_at(t + i, &size) & CDZ_UC_SPACE; i += size) continue;
    return i;
}

static cdz_match_fn find_match(const char *pattern, size_t len)
{
    static const struct {
        const char *pattern;
        cdz_match_fn match;
    } own[] = {{" {2,}", two_spaces}, {"\\s+", spaces}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (cdz_is_word(pattern, len, own[i].pattern)) return own[i].match;
    return cdz_scanner_find(pattern, len);
}

cdz_status cdz_pattern_read(const cdz_json *part, const char *what, cdz_pattern *out,
                            cdz_arena *arena, cdz_regex **regexes, cdz_error *err)
{
    const cdz_json *pattern = cdz_json_get(part, "pattern");
    const cdz_json *literal = cdz_json_get(pattern, "String"),
                   *regex = cdz_json_get(pattern, "Regex");
    if (cdz_json_is(literal, CDZ_JSON_STRING) && literal->len > 0) {
        out->literal = cdz_arena_strndup(arena, literal->string, literal->len);
        out->literal_len = literal->len;
        return out->literal ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
    }
    if (!cdz_json_is(regex, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT,
                       "line %u: %s needs a \"pattern\" with a \"Regex\" or a \"String\" that is not "
                       "empty",
                       part->line, what);
    out->match = find_match(regex->string, regex->len);
    if (out->match) return CDZ_OK;
    const cdz_status st = cdz_regex_add(regexes, regex->string, regex->len, regex->line, err);
    if (st != CDZ_OK) return cdz_err_prefix(err, "%s", what);
    out->regex = *regexes;
    return CDZ_OK;
}

/* --- matches ---------------------------------------------------------------------------------- */

static bool found(cdz_pattern_walk *w, size_t begin, size_t end)
{
    w->begin = begin;
    w->from = w->end = end;
    w->any = true;
    return true;
}

static bool next_literal(cdz_pattern_walk *w)
{
    const cdz_pattern *p = w->pattern;
    if (w->from >= w->n) return false;
    const uint8_t *at = memmem(w->text + w->from, w->n - w->from, p->literal, p->literal_len);
    if (!at) return false;
    const size_t begin = (size_t)(at - w->text);
    return found(w, begin, begin + p->literal_len);
}

static bool next_scanned(cdz_pattern_walk *w)
{
    size_t size;
    for (size_t i = w->from; i < w->n; i += size) {
        const size_t end = w->pattern->match(w->text, w->n, i);
        if (end > i) return found(w, i, end);
        cdz_uc_code(w->text + i, &size);
    }
    return false;
}

/* Matches of nothing count, except right after a match, as in the reference. */
static bool next_regex(cdz_pattern_walk *w)
{
    size_t begin, end, size;
    while (w->from <= w->n) {
        const cdz_regex_found f =
            cdz_regex_search(w->pattern->regex, w->text, w->n, w->from, w->meter, &begin, &end);
        w->gave_up = f == CDZ_REGEX_GAVE_UP;
        if (f != CDZ_REGEX_MATCH) return false;
        if (begin != end || !w->any || end != w->end) return found(w, begin, end);
        if (w->from == w->n) return false;
        cdz_uc_code(w->text + w->from, &size);
        w->from += size;
    }
    return false;
}

bool cdz_pattern_next(cdz_pattern_walk *w)
{
    if (w->pattern->literal) return next_literal(w);
    return w->pattern->match ? next_scanned(w) : next_regex(w);
}
