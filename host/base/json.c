/* json.c - the strict reader.
 *
 * One pass over the text. Children of an open array or object collect on one growing stack and
 * move to the arena in one piece when it closes, so there is no allocation per node. Repeated
 * names are found by comparing each with each, or, past a few, by the table of json_table.h.
 * Columns count bytes. Questions are in json_value.c, writing in json_write.c. */
#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/json_table.h"
#include "base/utf8.h"

enum {
    DEFAULT_DEPTH = 64,
    LARGEST_DEPTH = 1000, /* the reader recurses: this bounds its stack */
    BIG_STACK = 1 << 20,  /* bytes from which it no longer doubles */
    SMALL_OBJECT = 16,    /* members up to which comparing each with each is quicker than hashing */
};
static const uint64_t DEFAULT_NODES = 50000000;
static const size_t DEFAULT_FILE_BYTES = (size_t)256 << 20;

typedef struct reader {
    const char *at, *end, *line_start;
    uint32_t line, depth_left;
    uint64_t nodes_left;
    bool duplicates, keyed, infinity;
    size_t unchecked;
    uint64_t key[2];
    const char *name;
    cdz_arena *arena;
    char *stack; /* children of the open containers: cdz_json or cdz_json_member */
    size_t stack_len, stack_cap;
    cdz_error *err;
} reader;

/* --- sentences ----------------------------------------------------------------------------- */

#define FAIL_AT(r, where, ...)                                                                     \
    fail((r), CDZ_E_INPUT, (r)->line, (size_t)((where) - (r)->line_start) + 1, __VA_ARGS__)

static cdz_status fail(reader *r, cdz_status code, uint32_t line, size_t column, const char *fmt,
                       ...) CDZ_PRINTF(5, 6);

static cdz_status fail(reader *r, cdz_status code, uint32_t line, size_t column, const char *fmt,
                       ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return cdz_err(r->err, code, "%s:%u:%zu: %s", r->name, (unsigned)line, column, what);
}

static cdz_status no_memory(reader *r)
{
    if (r->arena->limit)
        return cdz_err(r->err, CDZ_E_LIMIT,
                       "%s:%u: the document needs more than the %zu bytes it may have in memory",
                       r->name, (unsigned)r->line, r->arena->limit + r->stack_cap);
    return cdz_err_memory_in(r->err, r->name);
}

/* What stands at a place, for "found ...". */
static const char *found(const char *at, const char *end, char buf[16])
{
    if (at >= end) return "the end of the text";
    unsigned char c = (unsigned char)*at;
    snprintf(buf, 16, c > ' ' && c < 0x7F ? "'%c'" : "byte 0x%02X", c);
    return buf;
}

static cdz_status expected(reader *r, const char *what)
{
    char buf[16];
    return FAIL_AT(r, r->at, "expected %s, found %s", what, found(r->at, r->end, buf));
}

/* --- the stack of open containers ---------------------------------------------------------- */

/* What the stack takes, the arena may not: both are there until the document is read. */
static bool grow_stack(reader *r)
{
    const size_t more = r->stack_cap < BIG_STACK ? r->stack_cap + 4096 : r->stack_cap / 2;
    size_t *limit = &r->arena->limit;
    if (*limit && (more >= *limit || r->arena->used > *limit - more)) return false;
    char *grown = realloc(r->stack, r->stack_cap + more);
    if (!grown) return false;
    r->stack = grown;
    r->stack_cap += more;
    if (*limit) *limit -= more;
    return true;
}

static void *push(reader *r, size_t bytes)
{
    if (r->stack_cap - r->stack_len < bytes && !grow_stack(r)) return NULL;
    void *slot = r->stack + r->stack_len;
    r->stack_len += bytes;
    return slot;
}

/* --- white space, literals, numbers -------------------------------------------------------- */

static void skip_space(reader *r)
{
    const char *at = r->at;
    for (; at < r->end; at++) {
        if (*at == '\n') {
            r->line++;
            r->line_start = at + 1;
        } else if (*at != ' ' && *at != '\t' && *at != '\r') {
            break;
        }
    }
    r->at = at;
}

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

static bool is_word(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

static cdz_status read_word(reader *r, const char *word, cdz_json *out, cdz_json_type type)
{
    if (!is_word(r->at, r->end, word)) return expected(r, "true, false or null");
    out->type = (uint8_t)type;
    out->boolean = word[0] == 't';
    r->at += strlen(word);
    return CDZ_OK;
}

/* strtod wants a terminator, and reads the decimal point of the program's locale unless told not
 * to. */
static cdz_status real_of(reader *r, const char *start, size_t len, double *out)
{
    char small[64];
    char *copy = len < sizeof small ? small : malloc(len + 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    cdz_status st = CDZ_OK;
    if (copy && c_locale) {
        memcpy(copy, start, len);
        copy[len] = '\0';
        *out = strtod_l(copy, NULL, c_locale);
    } else {
        st = no_memory(r);
    }
    if (c_locale) freelocale(c_locale);
    if (copy != small) free(copy);
    return st;
}

static cdz_status read_real(reader *r, const char *start, const char *end, cdz_json *out)
{
    out->type = CDZ_JSON_REAL;
    CDZ_TRY(real_of(r, start, (size_t)(end - start), &out->real));
    if (!isfinite(out->real)) {
        int shown = end - start > 24 ? 24 : (int)(end - start);
        return FAIL_AT(r, start, "the number %.*s%s is too large", shown, start,
                       end - start > 24 ? "..." : "");
    }
    return CDZ_OK;
}

/* Reads digits as far as they fit the magnitude of an int64; false when they do not. */
static bool integer_of(const char *at, const char *end, bool negative, int64_t *out)
{
    const uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value = 0;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (value > (limit - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static cdz_status skip_digits(reader *r, const char *what)
{
    if (!is_digit(r->at, r->end)) return expected(r, what);
    while (is_digit(r->at, r->end)) r->at++;
    return CDZ_OK;
}

static cdz_status read_number(reader *r, cdz_json *out)
{
    const char *start = r->at;
    bool negative = *start == '-';
    if (negative) r->at++;
    const char *digits = r->at;
    CDZ_TRY(skip_digits(r, "a digit"));
    if (*digits == '0' && r->at - digits > 1)
        return FAIL_AT(r, start, "a number may not begin with 0");

    const char *end = r->at;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        CDZ_TRY(skip_digits(r, "a digit after the point"));
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        CDZ_TRY(skip_digits(r, "a digit in the exponent"));
    }
    out->type = CDZ_JSON_INT;
    if (r->at == end && integer_of(digits, end, negative, &out->integer)) return CDZ_OK;
    return read_real(r, start, r->at, out);
}

/* --- strings ------------------------------------------------------------------------------- */

/* Four hex digits, or UINT32_MAX. */
static uint32_t hex4(const char *at, const char *end)
{
    if (end - at < 4) return UINT32_MAX;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = cdz_hex_digit(at[i]);
        if (digit < 0) return UINT32_MAX;
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* Decodes \uXXXX, or a surrogate pair of two, at the backslash; *at moves past it. */
static cdz_status read_u(reader *r, const char **at, const char *end, char **to)
{
    const char *start = *at;
    uint32_t code = hex4(start + 2, end);
    if (code == UINT32_MAX) return FAIL_AT(r, start, "\\u needs four hexadecimal digits");
    *at += 6;
    if (code >= 0xDC00 && code <= 0xDFFF)
        return FAIL_AT(r, start, "\\u%.4s is the second half of a surrogate pair without the first",
                       start + 2);
    if (code >= 0xD800 && code <= 0xDBFF) {
        uint32_t low = is_word(*at, end, "\\u") ? hex4(*at + 2, end) : UINT32_MAX;
        if (low < 0xDC00 || low > 0xDFFF)
            return FAIL_AT(r, start,
                           "\\u%.4s is the first half of a surrogate pair without the second",
                           start + 2);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    }
    *to += cdz_utf8_encode(code, *to);
    return CDZ_OK;
}

/* Decodes raw bytes with escapes; the result is never longer than the raw text. */
static cdz_status unescape(reader *r, const char *at, const char *end, char *to, size_t *len)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char *start = to;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
        } else if (at + 1 < end && at[1] == 'u') {
            CDZ_TRY(read_u(r, &at, end, &to));
        } else {
            char buf[16];
            const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
            if (!letter)
                return FAIL_AT(r, at, "there is no escape of a backslash and %s",
                               found(at + 1, r->end, buf));
            *to++ = values[letter - letters];
            at += 2;
        }
    }
    *to = '\0';
    *len = (size_t)(to - start);
    return CDZ_OK;
}

/* Finds the closing quote, checking every byte; r->at is after the opening one and ends on the
 * closing one. */
static cdz_status scan_string(reader *r, bool *escaped)
{
    const char *at = r->at, *const end = r->end, *const open = at - 1;
    for (;;) {
        while (at < end && (unsigned char)*at - 0x20u < 0x60u && *at != '"' && *at != '\\') at++;
        if (at == end) return FAIL_AT(r, open, "this string has no closing quote");
        unsigned char c = (unsigned char)*at;
        uint32_t code;
        size_t n = 1;
        if (c == '"') break;
        if (c == '\\') {
            *escaped = true;
            n = end - at > 1 && (unsigned char)at[1] >= 0x20 && (unsigned char)at[1] < 0x80 ? 2 : 1;
        } else if (c < 0x20) {
            return FAIL_AT(r, at, "control character 0x%02X in a string; write it as \\u%04x", c, c);
        } else {
            n = cdz_utf8_decode(at, (size_t)(end - at), &code);
            if (n == 0) return FAIL_AT(r, at, "invalid UTF-8 in a string (byte 0x%02X)", c);
        }
        at += n;
    }
    r->at = at;
    return CDZ_OK;
}

static cdz_status read_string(reader *r, const char **string, uint32_t *string_len)
{
    const char *start = ++r->at;
    bool escaped = false;
    CDZ_TRY(scan_string(r, &escaped));
    size_t len = (size_t)(r->at - start);
    char *copy = cdz_arena_alloc_aligned(r->arena, len + 1, 1);
    if (!copy) return no_memory(r);
    if (escaped)
        CDZ_TRY(unescape(r, start, r->at, copy, &len));
    else
        memcpy(copy, start, len);
    r->at++;
    *string = copy;
    *string_len = (uint32_t)len;
    return CDZ_OK;
}

/* --- arrays and objects -------------------------------------------------------------------- */

static cdz_status read_value(reader *r, cdz_json *out);

static cdz_status enter(reader *r)
{
    if (r->depth_left == 0) return FAIL_AT(r, r->at, "nested too deeply");
    r->depth_left--;
    r->at++;
    skip_space(r);
    return CDZ_OK;
}

/* After an item: true and past the comma when another must follow, false and past the closing
 * bracket. */
static cdz_status next_item(reader *r, char close, bool *more)
{
    skip_space(r);
    if (r->at < r->end && *r->at == close) {
        r->at++;
        *more = false;
        return CDZ_OK;
    }
    if (r->at == r->end || *r->at != ',')
        return expected(r, close == ']' ? "',' or ']'" : "',' or '}'");
    r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == close) return FAIL_AT(r, r->at, "a comma before '%c'", close);
    *more = true;
    return CDZ_OK;
}

static cdz_status read_array(reader *r, cdz_json *out)
{
    const size_t base = r->stack_len;
    CDZ_TRY(enter(r));
    bool more = r->at == r->end || *r->at != ']';
    if (!more) r->at++;
    while (more) {
        cdz_json item;
        CDZ_TRY(read_value(r, &item));
        void *slot = push(r, sizeof item);
        if (!slot) return no_memory(r);
        memcpy(slot, &item, sizeof item);
        CDZ_TRY(next_item(r, ']', &more));
    }
    r->depth_left++;

    size_t bytes = r->stack_len - base;
    cdz_json *items = cdz_arena_alloc_aligned(r->arena, bytes, _Alignof(cdz_json));
    if (!items) return no_memory(r);
    if (bytes) memcpy(items, r->stack + base, bytes);
    r->stack_len = base;
    out->type = CDZ_JSON_ARRAY;
    out->len = (uint32_t)(bytes / sizeof *items);
    out->items = items;
    return CDZ_OK;
}

/* Adds a member to those already kept, or puts its value in the place of the one of that name. */
static cdz_status keep(reader *r, cdz_json_member *kept, uint32_t *n, cdz_json_member *same,
                       const cdz_json_member *member)
{
    if (!same) {
        kept[(*n)++] = *member;
        return CDZ_OK;
    }
    if (!r->duplicates)
        return fail(
            r, CDZ_E_INPUT, member->value.line, member->value.column,
            "the name \"%.100s\" is already in this object, with the value at line %u, column %u",
            member->key, (unsigned)same->value.line, (unsigned)same->value.column);
    same->value = member->value;
    return CDZ_OK;
}

/* n is of members that the stack holds. */
static cdz_json_member *room_for(cdz_arena *arena, size_t n)
{
    return cdz_arena_alloc_aligned(arena, n * sizeof(cdz_json_member), _Alignof(cdz_json_member));
}

static cdz_status close_small(reader *r, const cdz_json_member *from, size_t n, cdz_json *out)
{
    cdz_json_member *kept = room_for(r->arena, n);
    if (!kept) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        cdz_json_member *same = NULL;
        for (uint32_t k = 0; k < out->len && !same; k++)
            if (cdz_json_name_is(&kept[k], from[i].key, from[i].key_len)) same = &kept[k];
        CDZ_TRY(keep(r, kept, &out->len, same, &from[i]));
    }
    out->members = kept;
    return CDZ_OK;
}

static cdz_status close_large(reader *r, const cdz_json_member *from, size_t n, cdz_json *out)
{
    if (!r->keyed) cdz_json_table_key(r->key);
    r->keyed = true;
    cdz_json_member *kept = cdz_json_table_create(r->arena, n, r->key);
    if (!kept) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        uint32_t *slot = cdz_json_table_slot(kept, from[i].key, from[i].key_len);
        cdz_json_member *same = *slot ? &kept[*slot - 1] : NULL;
        CDZ_TRY(keep(r, kept, &out->len, same, &from[i]));
        if (!same) *slot = out->len;
    }
    out->members = kept;
    out->indexed = true;
    return CDZ_OK;
}

static cdz_status close_unchecked(reader *r, const cdz_json_member *from, size_t n, cdz_json *out)
{
    cdz_json_member *kept = room_for(r->arena, n);
    if (!kept) return no_memory(r);
    memcpy(kept, from, n * sizeof *kept);
    out->members = kept;
    out->len = (uint32_t)n;
    return CDZ_OK;
}

static cdz_status read_member(reader *r, cdz_json_member *member)
{
    memset(member, 0, sizeof *member);
    if (r->at == r->end || *r->at != '"') return expected(r, "a name in double quotes");
    CDZ_TRY(read_string(r, &member->key, &member->key_len));
    skip_space(r);
    if (r->at == r->end || *r->at != ':') return expected(r, "':' after a name");
    r->at++;
    skip_space(r);
    return read_value(r, &member->value);
}

static cdz_status read_object(reader *r, cdz_json *out)
{
    const size_t base = r->stack_len;
    CDZ_TRY(enter(r));
    bool more = r->at == r->end || *r->at != '}';
    if (!more) r->at++;
    while (more) {
        cdz_json_member member;
        CDZ_TRY(read_member(r, &member));
        void *slot = push(r, sizeof member);
        if (!slot) return no_memory(r);
        memcpy(slot, &member, sizeof member);
        CDZ_TRY(next_item(r, '}', &more));
    }
    r->depth_left++;

    /* The stack's memory is malloc's and holds whole members below any open arrays' items of
     * 8-byte multiples. */
    size_t n = (r->stack_len - base) / sizeof(cdz_json_member);
    const cdz_json_member *from = n ? (const void *)(r->stack + base) : NULL;
    out->type = CDZ_JSON_OBJECT;
    r->stack_len = base;
    if (n > r->unchecked) return close_unchecked(r, from, n, out);
    return n > SMALL_OBJECT ? close_large(r, from, n, out) : close_small(r, from, n, out);
}

static cdz_status no_value(reader *r)
{
    static const struct {
        const char *start, *why;
    } known[] = {
        {"NaN", "NaN is not JSON"},
        {"Infinity", "Infinity is not JSON"},
        {"//", "JSON has no comments"},
        {"/*", "JSON has no comments"},
        {"'", "strings need double quotes"},
        {"True", "expected true, found True"},
        {"None", "expected null, found None"},
        {"False", "expected false, found False"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_word(r->at, r->end, known[i].start)) return FAIL_AT(r, r->at, "%s", known[i].why);
    return expected(r, "a value");
}

static bool read_infinity(reader *r, cdz_json *out)
{
    static const char word[] = "Infinity";
    if (!r->infinity || !is_word(r->at, r->end, word)) return false;
    r->at += sizeof word - 1;
    out->type = CDZ_JSON_STRING;
    out->string = word;
    out->len = sizeof word - 1;
    return true;
}

static cdz_status read_value(reader *r, cdz_json *out)
{
    memset(out, 0, sizeof *out);
    out->line = r->line;
    out->column = (uint32_t)(r->at - r->line_start) + 1;
    if (r->nodes_left-- == 0)
        return fail(r, CDZ_E_LIMIT, out->line, out->column, "the document has too many values");
    if (r->at == r->end) return no_value(r);
    switch (*r->at) {
    case '{': return read_object(r, out);
    case '[': return read_array(r, out);
    case '"': out->type = CDZ_JSON_STRING; return read_string(r, &out->string, &out->len);
    case 't': return read_word(r, "true", out, CDZ_JSON_BOOL);
    case 'f': return read_word(r, "false", out, CDZ_JSON_BOOL);
    case 'n': return read_word(r, "null", out, CDZ_JSON_NULL);
    case 'I': return read_infinity(r, out) ? CDZ_OK : no_value(r);
    default: return *r->at == '-' || is_digit(r->at, r->end) ? read_number(r, out) : no_value(r);
    }
}

static cdz_status read_document(reader *r, cdz_json *out)
{
    if (is_word(r->at, r->end, "\xEF\xBB\xBF"))
        return FAIL_AT(r, r->at, "begins with a byte order mark; JSON is plain UTF-8 without one");
    skip_space(r);
    CDZ_TRY(read_value(r, out));
    skip_space(r);
    return r->at == r->end ? CDZ_OK : expected(r, "the end of the text");
}

cdz_status cdz_json_parse(const char *text, size_t len, const char *name,
                          const cdz_json_limits *limits, cdz_arena *arena, cdz_json *out,
                          cdz_error *err)
{
    const cdz_json_limits none = {0};
    if (!limits) limits = &none;
    if (len >= UINT32_MAX)
        return cdz_err(err, CDZ_E_LIMIT, "%s: a JSON text of 4 GiB or more", name);
    reader r = {
        .at = text,
        .end = text + len,
        .line_start = text,
        .line = 1,
        .depth_left = limits->depth ? limits->depth : DEFAULT_DEPTH,
        .nodes_left = limits->nodes ? limits->nodes : DEFAULT_NODES,
        .duplicates = limits->duplicates,
        .infinity = limits->infinity,
        .unchecked = limits->unchecked ? limits->unchecked : SIZE_MAX,
        .name = name,
        .arena = arena,
        .err = err,
    };
    if (r.depth_left > LARGEST_DEPTH) r.depth_left = LARGEST_DEPTH;
    cdz_status st = read_document(&r, out);
    free(r.stack);
    if (arena->limit) arena->limit += r.stack_cap;
    return st;
}

size_t cdz_json_allowance(size_t file_bytes, size_t taken)
{
    if (file_bytes > SIZE_MAX / 8) return SIZE_MAX / 2;
    const size_t all = 4 * file_bytes + ((size_t)60 << 20);
    return all > taken ? all - taken : 1;
}

cdz_status cdz_json_read_file(const char *path, size_t max_bytes, const cdz_json_limits *limits,
                              cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    char *text;
    size_t len;
    CDZ_TRY(cdz_file_read(path, max_bytes ? max_bytes : DEFAULT_FILE_BYTES, &text, &len, err));
    const bool limited = arena->limit;
    if (!limited) arena->limit = arena->used + cdz_json_allowance(len, len);
    cdz_status st = cdz_json_parse(text, len, path, limits, arena, out, err);
    if (!limited) arena->limit = 0;
    free(text);
    return st;
}
