/* ini.c - the strict scan, then inih; the two must agree. */
#include "base/ini.h"

#include <ini.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"

/* inih's buffer holds 200 bytes with CR, LF and the terminator, its names 50: see ini.h of inih 59. Up to 55 a line that fills
 * it without its LF was split in two, since then it is refused. */
enum { MAX_LINE = 197, MAX_NAME = 48, MAX_SECTIONS = 512, MAX_SETTINGS = 4096 };

typedef struct scan {
    const char *name; /* of the file */
    const char *section;
    cdz_arena *arena;
    cdz_ini *out;
    uint32_t line;
    cdz_error *err;
    uint32_t heard; /* settings inih has delivered */
    bool starved;   /* memory ran out while it delivered */
} scan;

static cdz_status at(scan *s, size_t column, const char *what, const char *name)
{
    return cdz_err(s->err, CDZ_E_INPUT, "%s:%u:%zu: %s%s", s->name, s->line, column + 1, what,
                   name ? name : "");
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The end of what counts in text[from, len): before a comment and the blanks in front of it. */
static size_t content_end(const char *text, size_t from, size_t len)
{
    size_t end = len;
    for (size_t i = from; i < len; i++) {
        if (text[i] == ';' && (i == from || blank(text[i - 1]))) {
            end = i;
            break;
        }
    }
    while (end > from && blank(text[end - 1])) end--;
    return end;
}

/* --- one line -------------------------------------------------------------------------------------------- */

static cdz_status scan_section(scan *s, const char *text, size_t len)
{
    cdz_ini *out = s->out;
    const char *close = memchr(text, ']', len);
    size_t n = close ? (size_t)(close - text) - 1 : 0;

    if (!close) return at(s, 0, "the section is not closed: ']' is missing", NULL);
    if (n == 0) return at(s, 0, "the section has no name", NULL);
    if (n > MAX_NAME)
        return at(s, 0, "a section name of more than 48 bytes; take a short one and write id = ...",
                  NULL);
    if (blank(text[1]) || blank(text[n]) || memchr(text + 1, '[', n) || memchr(text + 1, ';', n))
        return at(s, 0, "a section name holds no '[' or ';' and no blanks at its ends", NULL);
    if (content_end(text, n + 2, len) > n + 2)
        return at(s, n + 2, "only a comment may follow the section", NULL);

    char *name = cdz_arena_strndup(s->arena, text + 1, n);
    if (!name) return cdz_err_memory_in(s->err, s->name);
    for (uint32_t i = 0; i < out->n_sections; i++)
        if (strcmp(out->sections[i].name, name) == 0)
            return cdz_err(s->err, CDZ_E_INPUT, "%s:%u:1: [%s] was begun on line %u already",
                           s->name, s->line, name, out->sections[i].line);
    if (out->n_sections == MAX_SECTIONS) return at(s, 0, "more than 512 sections", NULL);
    out->sections[out->n_sections++] = (cdz_ini_section){name, s->line};
    s->section = name;
    return CDZ_OK;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* The length of the name at the start of the line, when '=' follows it. */
static cdz_status scan_name(scan *s, const char *text, size_t len, size_t *n, size_t *equals)
{
    size_t end = 0;
    while (end < len && name_char(text[end])) end++;
    size_t next = end;
    while (next < len && blank(text[next])) next++;
    if (next == len || text[next] != '=')
        return at(s, next, "expected [section] or name = value", NULL);
    if (end == 0) return at(s, 0, "a name is missing before '='", NULL);
    if (end > MAX_NAME) return at(s, 0, "a name of more than 48 bytes", NULL);
    *n = end;
    *equals = next;
    return CDZ_OK;
}

static cdz_status scan_setting(scan *s, const char *text, size_t len)
{
    cdz_ini *out = s->out;
    size_t n = 0, equals = 0;

    CDZ_TRY(scan_name(s, text, len, &n, &equals));
    size_t start = equals + 1;
    while (start < len && blank(text[start])) start++;
    size_t end = content_end(text, start, len);
    char *name = cdz_arena_strndup(s->arena, text, n);
    if (!name) return cdz_err_memory_in(s->err, s->name);
    if (!s->section) return at(s, 0, "a setting before the first [section]: ", name);
    if (end == start)
        return cdz_err(s->err, CDZ_E_INPUT,
                       "%s:%u:%zu: [%s] %s has no value; write none to unset it", s->name, s->line,
                       start + 1, s->section, name);
    for (uint32_t i = 0; i < out->n_settings; i++)
        if (out->settings[i].section == s->section && strcmp(out->settings[i].name, name) == 0)
            return cdz_err(s->err, CDZ_E_INPUT, "%s:%u:1: [%s] %s was set on line %u already",
                           s->name, s->line, s->section, name, out->settings[i].line);
    if (out->n_settings == MAX_SETTINGS) return at(s, 0, "more than 4096 settings", NULL);
    out->settings[out->n_settings++] =
        (cdz_ini_setting){s->section, name, NULL, s->line, (uint32_t)start + 1};
    return CDZ_OK;
}

static cdz_status check_bytes(scan *s, const char *text, size_t len)
{
    if (len > MAX_LINE) return at(s, MAX_LINE, "the line is longer than 197 bytes", NULL);
    size_t valid = cdz_utf8_valid_prefix(text, len);
    if (valid < len) return at(s, valid, "these bytes are not UTF-8", NULL);
    for (size_t i = 0; i < len; i++) {
        const unsigned char next = i + 1 < len ? (unsigned char)text[i + 1] : 0;
        if (text[i] != '\t' && cdz_is_control((unsigned char)text[i], next))
            return at(s, i, "a control character", NULL);
    }
    return CDZ_OK;
}

static cdz_status scan_line(scan *s, const char *text, size_t len)
{
    size_t start = 0;

    CDZ_TRY(check_bytes(s, text, len));
    while (start < len && blank(text[start])) start++;
    if (start == len || text[start] == ';' || text[start] == '#') return CDZ_OK;
    if (start > 0)
        return at(s, 0, "an indented line; lines are not continued, begin it at the margin", NULL);
    return *text == '[' ? scan_section(s, text, len) : scan_setting(s, text, len);
}

static cdz_status scan_text(scan *s, const char *text, size_t len)
{
    for (size_t from = 0; from < len;) {
        const char *newline = memchr(text + from, '\n', len - from);
        size_t end = newline ? (size_t)(newline - text) : len, content = end;
        if (newline && content > from && text[content - 1] == '\r') content--;
        s->line++;
        CDZ_TRY(scan_line(s, text + from, content - from));
        from = end + 1;
    }
    return CDZ_OK;
}

/* --- inih ------------------------------------------------------------------------------------------------ */

/* Takes the value of the next setting of the scan; anything else than that setting is a disagreement. */
static int hear(void *user, const char *section, const char *name, const char *value)
{
    scan *s = user;
    cdz_ini_setting *next = s->heard < s->out->n_settings ? &s->out->settings[s->heard++] : NULL;
    if (!next || strcmp(next->section, section) != 0 || strcmp(next->name, name) != 0) {
        return 0;
    }
    next->value = cdz_arena_strdup(s->arena, value);
    s->starved |= !next->value;
    return next->value != NULL;
}

static cdz_status parse(scan *s, const char *text)
{
    int bad_line = ini_parse_string(text, hear, s);
    if (s->starved) return cdz_err_memory_in(s->err, s->name);
    if (bad_line == 0 && s->heard == s->out->n_settings) return CDZ_OK;
    return cdz_err(s->err, CDZ_E_INTERNAL, "%s:%d: cannot be read", s->name,
                   bad_line > 0 ? bad_line : 1);
}

static cdz_status allocate(scan *s, size_t len)
{
    /* A setting takes at least 4 bytes with its line end, a section too. */
    const size_t most = len / 4 + 1;
    const size_t settings = most < MAX_SETTINGS ? most : MAX_SETTINGS;
    const size_t sections = most < MAX_SECTIONS ? most : MAX_SECTIONS;
    s->out->settings = cdz_arena_array(s->arena, settings, sizeof *s->out->settings);
    s->out->sections = cdz_arena_array(s->arena, sections, sizeof *s->out->sections);
    return s->out->settings && s->out->sections ? CDZ_OK : cdz_err_memory_in(s->err, s->name);
}

cdz_status cdz_ini_read(const char *text, size_t len, const char *name, cdz_arena *arena,
                        cdz_ini *out, cdz_error *err)
{
    *out = (cdz_ini){0};
    scan s = {.name = name, .arena = arena, .out = out, .err = err};
    if (len > CDZ_INI_MAX_BYTES)
        return cdz_err(err, CDZ_E_INPUT, "%s: %zu bytes; a pipeline file has at most %d", name, len,
                       (int)CDZ_INI_MAX_BYTES);
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3, len -= 3;
    char *copy = cdz_arena_strndup(arena, text, len); /* inih wants a terminator */
    if (!copy) return cdz_err_memory_in(s.err, s.name);
    CDZ_TRY(allocate(&s, len));
    CDZ_TRY(scan_text(&s, copy, len));
    return parse(&s, copy);
}
