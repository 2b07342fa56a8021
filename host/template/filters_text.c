/* filters_text.c - filters that make text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "template/methods.h"

bool tpl_given(value v)
{
    return v.kind != V_MISSING && v.kind != V_NONE;
}

bool tpl_flag_or(state *st, value v, bool otherwise)
{
    return v.kind == V_MISSING ? otherwise : tpl_truth(st, v);
}

int64_t tpl_int_or(state *st, value v, int64_t otherwise)
{
    if (v.kind == V_MISSING) return otherwise;
    if (v.kind == V_INT || v.kind == V_BOOL) return tpl_as_int(v);
    tpl_fail(st, "expected an integer, found %s", tpl_type_name(v));
    return otherwise;
}

value tpl_text_or(state *st, value v, const char *otherwise)
{
    if (!tpl_given(v)) return tpl_v_literal(otherwise);
    if (!tpl_is_string(v)) tpl_fail(st, "expected a string, found %s", tpl_type_name(v));
    return tpl_is_string(v) ? v : tpl_v_literal(otherwise);
}

/* --- case, spaces ------------------------------------------------------------------------------------------- */

#define CASE_FILTER(name, how)                                                                     \
    static value name(state *st, value x, const value *p, const args *all)                         \
    {                                                                                              \
        (void)p;                                                                                   \
        (void)all;                                                                                 \
        return tpl_change_case(st, tpl_to_text(st, x), how);                                       \
    }
CASE_FILTER(f_upper, TO_UPPER)
CASE_FILTER(f_lower, TO_LOWER)
CASE_FILTER(f_capitalize, TO_CAPITAL)

/* Words begin after a dash, a space or an opening bracket, unlike those of str.title. */
/* The first character in upper, not title case: "\u00df" becomes "SS". */
static void put_titled(state *st, cdz_buf *out, value word)
{
    size_t first = 0;
    if (word.len == 0) return;
    tpl_next_code(word.s, word.len, &first);
    value upper = tpl_change_case(st, tpl_sub_text(word, 0, first), TO_UPPER);
    value lower = tpl_change_case(st, tpl_sub_text(word, first, word.len), TO_LOWER);
    tpl_put(st, out, upper.s, upper.len);
    tpl_put(st, out, lower.s, lower.len);
}

static value f_title(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    value text = tpl_to_text(st, x);
    cdz_buf out = {0};
    for (size_t at = 0; at < text.len && !st->failed;) {
        const size_t from = at;
        uint32_t code = 0;
        bool separator = false;
        while (at < text.len && !separator) {
            size_t next = at;
            code = tpl_next_code(text.s, text.len, &next);
            separator = tpl_is_space(code) || (code < 0x80 && cdz_byte_in((int)code, "-({[<"));
            if (!separator) at = next;
        }
        put_titled(st, &out, tpl_sub_text(text, from, at));
        if (separator) {
            const size_t begin = at;
            tpl_next_code(text.s, text.len, &at);
            tpl_put(st, &out, text.s + begin, at - begin);
        }
    }
    return tpl_take_text(st, &out);
}

static value f_trim(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (tpl_given(p[0]) && !tpl_is_string(p[0]))
        return tpl_fail(st, "trim: expected characters, found %s", tpl_type_name(p[0]));
    return tpl_strip(st, tpl_to_text(st, x), p[0], true, true);
}

value tpl_replace_text(state *st, value text, value old, value by, int64_t count)
{
    cdz_buf out = {0};
    size_t at = 0;
    tpl_touch(st, text.len);
    for (int64_t n = 0; (count < 0 || n < count) && !st->failed; n++) {
        const size_t found = tpl_find_text(text, old, at);
        if (found == SIZE_MAX) break;
        size_t end = found + old.len;
        tpl_put(st, &out, text.s + at, found - at);
        tpl_put(st, &out, by.s, by.len);
        if (old.len == 0) { /* between all characters, and at both ends */
            if (found >= text.len) {
                at = text.len;
                break;
            }
            tpl_next_code(text.s, text.len, &end);
            tpl_put(st, &out, text.s + found, end - found);
        }
        at = end;
    }
    tpl_put(st, &out, text.s + at, text.len - at);
    return tpl_take_text(st, &out);
}

static value f_replace(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (p[0].kind == V_MISSING || p[1].kind == V_MISSING)
        return tpl_fail(st, "replace needs an old and a new text");
    return tpl_replace_text(st, tpl_to_text(st, x), tpl_to_text(st, p[0]), tpl_to_text(st, p[1]),
                            tpl_given(p[2]) ? tpl_int_or(st, p[2], -1) : -1);
}

static value f_string(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    return tpl_to_text(st, x);
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static bool is_line_end(uint32_t code)
{
    return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

value tpl_lines_of(state *st, value text, bool keep_ends)
{
    value lines = tpl_v_seq(st, V_LIST, 4);
    tpl_touch(st, (uint64_t)text.len * PER_CODE);
    for (size_t at = 0; at < text.len && tpl_charge(st, 1);) {
        const size_t from = at;
        size_t end = at;
        while (at < text.len) {
            const uint32_t code = tpl_next_code(text.s, text.len, &at);
            if (is_line_end(code)) {
                if (code == '\r' && at < text.len && text.s[at] == '\n') at++;
                if (keep_ends) end = at;
                break;
            }
            end = at;
        }
        tpl_seq_add(st, lines, tpl_sub_text(text, from, end));
    }
    return lines;
}

static value spaces(state *st, int64_t n)
{
    if (n > FORMAT_WIDTH) return tpl_fail_limit(st, "a width of more than %d", FORMAT_WIDTH);
    char *text = tpl_take(st, n > 0 ? (size_t)n + 1 : 1, 1);
    if (!text || n <= 0) return tpl_v_borrow("", 0);
    memset(text, ' ', (size_t)n);
    return tpl_v_borrow(text, (size_t)n);
}

/* What the reference's filter calls a method of strings on. */
static value needs_string(state *st, value x, const char *filter)
{
    if (x.kind == V_UNDEFINED) return tpl_use_undefined(st, x);
    return tpl_fail(st, "%s: expected a string, found %s", filter, tpl_type_name(x));
}

static value f_indent(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!tpl_is_string(x)) return needs_string(st, x, "indent");
    value step = tpl_is_string(p[0]) ? p[0] : spaces(st, tpl_int_or(st, p[0], 4));
    const bool first = tpl_flag_or(st, p[1], false), blank = tpl_flag_or(st, p[2], false);
    cdz_buf out = {0};
    value text = tpl_to_text(st, x);
    tpl_put(st, &out, text.s, text.len);
    tpl_put(st, &out, "\n", 1); /* so that a newline at the end survives */
    value lines = tpl_lines_of(st, tpl_take_text(st, &out), false);
    for (uint32_t i = 0; i < lines.seq->n && !st->failed; i++) {
        value line = lines.seq->at[i];
        if (i) tpl_put(st, &out, "\n", 1);
        if (i ? blank || line.len : first) tpl_put(st, &out, step.s, step.len);
        tpl_put(st, &out, line.s, line.len);
    }
    return tpl_take_text(st, &out);
}

/* Greedy filling of each line; a word that is too long is cut. */
static void wrap_line(state *st, cdz_buf *out, value line, size_t width, value newline, bool cut)
{
    size_t used = 0;
    for (size_t at = 0; at < line.len && !st->failed;) {
        size_t gap = at;
        while (gap < line.len && line.s[gap] == ' ') gap++;
        size_t end = gap;
        while (end < line.len && line.s[end] != ' ') end++;
        value word = tpl_sub_text(line, gap, end);
        tpl_touch(st, (uint64_t)(end - at) * 2 * PER_CODE);
        const size_t before = used ? gap - at : 0, length = tpl_count_codes(word);
        at = end;
        if (used && used + before + length > width) {
            tpl_put(st, out, newline.s, newline.len);
            used = 0;
        } else {
            for (size_t i = 0; i < before; i++) tpl_put(st, out, " ", 1);
            used += before;
        }
        size_t rest = length;
        while (cut && rest > width && !st->failed) {
            const size_t piece = tpl_byte_of(word, width);
            tpl_put(st, out, word.s, piece);
            tpl_put(st, out, newline.s, newline.len);
            word = tpl_sub_text(word, piece, word.len);
            rest -= width;
        }
        tpl_put(st, out, word.s, word.len);
        used += rest;
    }
}

static value f_wordwrap(state *st, value x, const value *p, const args *all)
{
    (void)all;
    if (!tpl_is_string(x)) return needs_string(st, x, "wordwrap");
    const int64_t width = tpl_int_or(st, p[0], 79);
    value newline = tpl_text_or(st, p[2], "\n"), lines = tpl_lines_of(st, tpl_to_text(st, x), false);
    cdz_buf out = {0};
    if (width < 1) tpl_fail(st, "wordwrap: the width must be above 0");
    for (uint32_t i = 0; i < lines.seq->n && !st->failed; i++) {
        if (i) tpl_put(st, &out, newline.s, newline.len);
        wrap_line(st, &out, lines.seq->at[i], (size_t)width, newline, tpl_flag_or(st, p[1], true));
    }
    return tpl_take_text(st, &out);
}

static value f_wordcount(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    value text = tpl_to_text(st, x);
    int64_t n = 0;
    bool inside = false;
    if (!tpl_touch(st, (uint64_t)text.len * PER_CODE)) return tpl_v_none();
    for (size_t at = 0; at < text.len;) {
        const uint32_t code = tpl_next_code(text.s, text.len, &at);
        const bool word = code == '_' || tpl_is_alpha(code) || tpl_is_decimal(code);
        n += word && !inside;
        inside = word;
    }
    return tpl_v_int(n);
}

static value f_truncate(state *st, value x, const value *p, const args *all)
{
    (void)all;
    uint64_t length_of;
    if (x.kind != V_UNDEFINED && !tpl_has_length(x, &length_of))
        return tpl_fail(st, "object of type '%s' has no len()", tpl_type_name(x));
    value text = tpl_to_text(st, x), end = tpl_text_or(st, p[2], "...");
    const int64_t length = tpl_int_or(st, p[0], 255),
                  leeway = tpl_given(p[3]) ? tpl_int_or(st, p[3], 5) : 5;
    if (!tpl_touch(st, ((uint64_t)text.len + end.len) * 2 * PER_CODE)) return tpl_v_none();
    const int64_t ending = (int64_t)tpl_count_codes(end);
    if (length < ending)
        return tpl_fail(st, "truncate: expected length >= %lld", (long long)ending);
    if (leeway < 0) return tpl_fail(st, "truncate: expected leeway >= 0");
    if ((int64_t)tpl_count_codes(text) - leeway <= length) return text;
    value kept = tpl_sub_text(text, 0, tpl_byte_of(text, (size_t)(length - ending)));
    if (!tpl_flag_or(st, p[1], false))
        for (size_t i = kept.len; i > 0; i--)
            if (kept.s[i - 1] == ' ') {
                kept = tpl_sub_text(kept, 0, i - 1);
                break;
            }
    cdz_buf out = {0};
    tpl_put(st, &out, kept.s, kept.len);
    tpl_put(st, &out, end.s, end.len);
    return tpl_take_text(st, &out);
}

/* align: '<' '>' or '^', where an odd space goes as Python's str.center puts it. */
value tpl_center_text(state *st, value text, int64_t width, value fill, char align)
{
    if (!tpl_touch(st, (uint64_t)text.len * PER_CODE)) return text;
    const int64_t n = (int64_t)tpl_count_codes(text), missing = width > n ? width - n : 0;
    if (width > FORMAT_WIDTH && missing > 0)
        return tpl_fail_limit(st, "a width of more than %d", FORMAT_WIDTH);
    if (tpl_count_codes(fill) != 1) return tpl_fail(st, "the fill must be one character");
    if (missing <= 0) return text;
    const int64_t left = align == '<'   ? 0
                         : align == '>' ? missing
                                        : missing / 2 + (missing & width & 1);
    cdz_buf out = {0};
    for (int64_t i = 0; i < left; i++) tpl_put(st, &out, fill.s, fill.len);
    tpl_put(st, &out, text.s, text.len);
    for (int64_t i = left; i < missing; i++) tpl_put(st, &out, fill.s, fill.len);
    return tpl_take_text(st, &out);
}

static value f_center(state *st, value x, const value *p, const args *all)
{
    (void)all;
    return tpl_center_text(st, tpl_to_text(st, x), tpl_int_or(st, p[0], 80), tpl_v_literal(" "),
                           '^');
}

/* --- HTML, URLs ----------------------------------------------------------------------------------------------------- */

static value f_safe(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    value v = tpl_to_text(st, x);
    v.safe = true;
    return v;
}

static value f_forceescape(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    value text = tpl_to_text(st, x);
    cdz_buf out = {0};
    tpl_put_escaped(st, &out, text.s, text.len);
    value v = tpl_take_text(st, &out);
    v.safe = true;
    return v;
}

static value f_escape(state *st, value x, const value *p, const args *all)
{
    return tpl_is_string(x) && x.safe ? x : f_forceescape(st, x, p, all);
}

/* Tags and comments go, runs of whitespace become one space, the five entities characters. */
static value f_striptags(state *st, value x, const value *p, const args *all)
{
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;", "&quot;"};
    static const char meant[] = "&<>'\"\"";
    (void)p;
    (void)all;
    value text = tpl_to_text(st, x);
    cdz_buf out = {0};
    bool gap = false, endless[2] = {false}; /* no tag, no comment ends from here on */
    tpl_touch(st, (uint64_t)text.len * PER_CODE);
    for (size_t at = 0; at < text.len && !st->failed;) {
        const bool comment = text.len - at > 3 && memcmp(text.s + at, "<!--", 4) == 0;
        if (text.s[at] == '<' && !endless[comment]) {
            const size_t end = tpl_find_text(text, tpl_v_literal(comment ? "-->" : ">"), at);
            if (end != SIZE_MAX) {
                at = end + (comment ? 3 : 1);
                continue;
            }
            endless[comment] = true;
        }
        const size_t from = at;
        if (tpl_is_space(tpl_next_code(text.s, text.len, &at))) {
            gap = out.len > 0;
            continue;
        }
        if (gap) tpl_put(st, &out, " ", 1);
        gap = false;
        size_t e = 0;
        while (e < 6 && (text.len - from < strlen(entities[e]) ||
                         memcmp(text.s + from, entities[e], strlen(entities[e])) != 0))
            e++;
        if (e < 6) at = from + strlen(entities[e]);
        tpl_put(st, &out, e < 6 ? meant + e : text.s + from, e < 6 ? 1 : at - from);
    }
    return tpl_take_text(st, &out);
}

static void put_quoted(state *st, cdz_buf *out, value text, bool form)
{
    for (size_t i = 0; i < text.len && !st->failed; i++) {
        const unsigned char c = (unsigned char)text.s[i];
        static const char digits[] = "0123456789ABCDEF";
        const char hex[3] = {'%', digits[c >> 4], digits[c & 15]};
        if ((c < 0x80 && isalnum(c)) || cdz_byte_in(c, "_.-~") || (c == '/' && !form))
            tpl_put(st, out, text.s + i, 1);
        else if (form && c == ' ')
            tpl_put(st, out, "+", 1);
        else
            tpl_put(st, out, hex, 3);
    }
}

static value f_urlencode(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    cdz_buf out = {0};
    const value *items;
    uint32_t n;
    if (x.kind == V_DICT) x = (value){.kind = V_VIEW, .len = VIEW_ITEMS, .dict = x.dict};
    if (tpl_is_string(x) || x.kind == V_NONE || tpl_is_number(x)) {
        put_quoted(st, &out, tpl_to_text(st, x), false);
        return tpl_take_text(st, &out);
    }
    if (!tpl_items_of(st, x, &items, &n)) return x;
    for (uint32_t i = 0; i < n && !st->failed; i++) {
        const value *two;
        uint32_t n_two;
        if (!tpl_items_of(st, items[i], &two, &n_two)) break;
        if (n_two != 2) {
            tpl_fail(st, "urlencode: expected pairs");
            break;
        }
        if (i) tpl_put(st, &out, "&", 1);
        put_quoted(st, &out, tpl_to_text(st, two[0]), true);
        tpl_put(st, &out, "=", 1);
        put_quoted(st, &out, tpl_to_text(st, two[1]), true);
    }
    return tpl_take_text(st, &out);
}

static value f_xmlattr(state *st, value x, const value *p, const args *all)
{
    (void)all;
    cdz_buf out = {0};
    if (x.kind != V_DICT)
        return tpl_fail(st, "xmlattr: expected a mapping, found %s", tpl_type_name(x));
    for (uint32_t i = 0; i < x.dict->n && tpl_charge(st, 1); i++) {
        value item = x.dict->values[i], key = tpl_to_text(st, x.dict->keys[i]);
        if (item.kind == V_NONE || item.kind == V_UNDEFINED) continue;
        tpl_touch(st, (uint64_t)key.len * PER_CODE);
        for (size_t k = 0; k < key.len; k++)
            if (cdz_byte_in(key.s[k], " \t\n\f\r/>="))
                return tpl_fail(st, "xmlattr: an invalid name");
        item = tpl_to_text(st, item);
        if (out.len || tpl_flag_or(st, p[0], true)) tpl_put(st, &out, " ", 1);
        tpl_put_escaped(st, &out, key.s, key.len);
        tpl_put(st, &out, "=\"", 2);
        tpl_put_escaped(st, &out, item.s, item.len);
        tpl_put(st, &out, "\"", 1);
    }
    return tpl_take_text(st, &out);
}

/* --- formats --------------------------------------------------------------------------------------------------------- */

static value f_format(state *st, value x, const value *p, const args *all)
{
    (void)p;
    if (all->n && all->n_keywords)
        return tpl_fail(st, "format takes positional or keyword arguments, not both");
    return tpl_format_percent(st, tpl_to_text(st, x), all, false);
}

static value f_tojson(state *st, value x, const value *p, const args *all)
{
    (void)all;
    cdz_buf out = {0};
    tpl_put_json(st, &out, x, tpl_flag_or(st, p[0], false), p[1], p[2],
                 tpl_flag_or(st, p[3], false));
    return tpl_take_text(st, &out);
}

static value f_pprint(state *st, value x, const value *p, const args *all)
{
    (void)p;
    (void)all;
    cdz_buf out = {0};
    tpl_put_repr(st, &out, x);
    return tpl_take_text(st, &out);
}

static value f_filesizeformat(state *st, value x, const value *p, const args *all)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    (void)all;
    if (!tpl_is_number(x))
        return tpl_fail(st, "filesizeformat: expected a number, found %s", tpl_type_name(x));
    const bool two = tpl_flag_or(st, p[0], false);
    const double base = two ? 1024 : 1000, bytes = tpl_as_double(x);
    char text[64];
    if (bytes == 1) return tpl_v_literal("1 Byte");
    if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
        return tpl_v_string(st, text, strlen(text));
    }
    size_t i = 0;
    double unit = base * base;
    for (; i < 7 && bytes >= unit; i++) unit *= base;
    snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, two ? binary[i] : decimal[i]);
    return tpl_v_string(st, text, strlen(text));
}

const builtin_row tpl_text_filters[] = {
    {"upper", f_upper, ""},
    {"lower", f_lower, ""},
    {"capitalize", f_capitalize, ""},
    {"title", f_title, ""},
    {"trim", f_trim, "chars"},
    {"replace", f_replace, "old new count"},
    {"string", f_string, ""},
    {"indent", f_indent, "width first blank"},
    {"wordwrap", f_wordwrap, "width break_long_words wrapstring break_on_hyphens"},
    {"wordcount", f_wordcount, ""},
    {"truncate", f_truncate, "length killwords end leeway"},
    {"center", f_center, "width"},
    {"safe", f_safe, ""},
    {"escape", f_escape, ""},
    {"e", f_escape, ""},
    {"forceescape", f_forceescape, ""},
    {"striptags", f_striptags, ""},
    {"urlencode", f_urlencode, ""},
    {"xmlattr", f_xmlattr, "autospace"},
    {"format", f_format, "*"},
    {"tojson", f_tojson, "ensure_ascii indent separators sort_keys"},
    {"pprint", f_pprint, ""},
    {"filesizeformat", f_filesizeformat, "binary"},
    {0},
};
