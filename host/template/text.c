/* text.c - values as text, as Python's str() and repr() print them, and pieces of strings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "template/ast.h"

/* --- code points -------------------------------------------------------------------------------------- */

uint32_t tpl_next_code(const char *text, size_t len, size_t *at)
{
    uint32_t code = (unsigned char)text[*at];
    if (code < 0x80) {
        ++*at;
        return code;
    }
    const size_t n = cdz_utf8_decode(text + *at, len - *at, &code);
    *at += n ? n : 1;
    return n ? code : 0xFFFD;
}

size_t tpl_count_codes(value text)
{
    return text.len ? cdz_utf8_count(text.s, text.len) : 0;
}

size_t tpl_byte_of(value text, size_t code)
{
    size_t at = 0;
    while (at < text.len && code--) tpl_next_code(text.s, text.len, &at);
    return at;
}

value tpl_sub_text(value text, size_t begin, size_t end)
{
    return tpl_v_borrow(text.s + begin, end > begin ? end - begin : 0);
}

size_t tpl_find_text(value in, value what, size_t from)
{
    if (from > in.len) return SIZE_MAX;
    if (what.len == 0) return from;
    const char *found = memmem(in.s + from, in.len - from, what.s, what.len);
    return found ? (size_t)(found - in.s) : SIZE_MAX;
}

bool tpl_same_text(value v, const char *word)
{
    return tpl_is_string(v) && v.len == strlen(word) && memcmp(v.s, word, v.len) == 0;
}

static bool in_set(state *st, uint32_t code, value chars)
{
    if (st) tpl_touch(st, PER_CODE);
    if (chars.kind != V_STRING) return tpl_is_space(code);
    size_t at = 0;
    bool found = false;
    while (at < chars.len && !found) found = tpl_next_code(chars.s, chars.len, &at) == code;
    if (!st) return found; /* a constant text of ours */
    tpl_touch(st, (uint64_t)at * PER_CODE);
    return found && !st->failed;
}

value tpl_strip(state *st, value text, value chars, bool left, bool right)
{
    size_t begin = 0, end = text.len;
    while (left && begin < end) {
        size_t next = begin;
        if (!in_set(st, tpl_next_code(text.s, end, &next), chars)) break;
        begin = next;
    }
    while (right && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)text.s[last] & 0xC0) == 0x80) last--;
        size_t next = last;
        if (!in_set(st, tpl_next_code(text.s, end, &next), chars)) break;
        end = last;
    }
    return tpl_sub_text(text, begin, end);
}

/* --- writing --------------------------------------------------------------------------------------------- */

void tpl_put(state *st, cdz_buf *to, const char *text, size_t len)
{
    if (st->failed || !len) return;
    if (len > st->max_output || to->len > st->max_output - len) {
        tpl_fail_limit(st, "a text of more than %zu bytes", st->max_output);
        return;
    }
    st->buffered += len;
    if (st->buffered > BUFFER_BYTES)
        tpl_fail_limit(st, "texts inside each other of more than %d MiB", BUFFER_BYTES >> 20);
    if (tpl_touch(st, len + PER_CODE)) cdz_buf_add(to, text, len);
}

static void put_text(state *st, cdz_buf *to, const char *text)
{
    tpl_put(st, to, text, strlen(text));
}

value tpl_take_text(state *st, cdz_buf *from)
{
    if (from->failed) tpl_fail_memory(st);
    st->buffered -= from->len < st->buffered ? from->len : st->buffered;
    value v = from->len ? tpl_v_string(st, from->data, from->len) : tpl_v_borrow("", 0);
    cdz_buf_free(from);
    return v;
}

value tpl_to_text(state *st, value v)
{
    if (tpl_is_string(v)) return v;
    cdz_buf text = {0};
    tpl_put_value(st, &text, v);
    return tpl_take_text(st, &text);
}

void tpl_put_escaped(state *st, cdz_buf *to, const char *text, size_t len)
{
    static const char special[] = "&<>'\"";
    static const char *const meant[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    for (size_t i = 0; i < len && !st->failed; i++) {
        const char *found = memchr(special, text[i], sizeof special - 1);
        if (found)
            put_text(st, to, meant[found - special]);
        else
            tpl_put(st, to, text + i, 1);
    }
}

/* --- numbers ------------------------------------------------------------------------------------------------ */

/* digits, a decimal exponent: 1.5 is "15", 0. */
static size_t shortest(double d, char digits[24], int *exponent)
{
    char text[40];
    /* A number of up to 15 digits is what "%.14e" prints, zeros aside; below DBL_MIN / epsilon it is not. */
    for (int precision = d < 1e-290 ? 0 : 14; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, d);
        if (strtod(text, NULL) == d) break;
    }
    size_t n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    *exponent = (int)strtol(p + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = '\0';
    return n;
}

size_t tpl_format_double(double d, char out[40])
{
    if (isnan(d)) return (size_t)snprintf(out, 40, "nan");
    if (isinf(d)) return (size_t)snprintf(out, 40, d < 0 ? "-inf" : "inf");
    char digits[24];
    int exponent;
    const size_t n = shortest(fabs(d), digits, &exponent);
    const char *sign = signbit(d) ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(out, 40, n > 1 ? "%s%c.%se%c%02d" : "%s%c%se%c%02d", sign,
                                digits[0], digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    if (exponent < 0)
        return (size_t)snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    const int whole = exponent + 1;
    if ((int)n <= whole)
        return (size_t)snprintf(out, 40, "%s%s%.*s.0", sign, digits, whole - (int)n,
                                "0000000000000000");
    return (size_t)snprintf(out, 40, "%s%.*s.%s", sign, whole, digits, digits + whole);
}

static void put_number(state *st, cdz_buf *to, value v)
{
    char text[40];
    tpl_touch(st, v.kind == V_FLOAT ? PER_FLOAT : PER_CONVERSION);
    if (v.kind == V_FLOAT)
        tpl_format_double(v.d, text);
    else
        snprintf(text, sizeof text, "%lld", (long long)v.i);
    put_text(st, to, text);
}

/* --- repr() --------------------------------------------------------------------------------------------------- */

static void put_code_repr(state *st, cdz_buf *to, uint32_t code, char quote)
{
    char text[16];
    static const char named[] = "\n\r\t", letters[] = "nrt";
    const char *found = code && code < 0x80 ? strchr(named, (int)code) : NULL;
    if (found || !tpl_is_printable(code)) tpl_touch(st, PER_CONVERSION);
    if (found)
        snprintf(text, sizeof text, "\\%c", letters[found - named]);
    else if (code == '\\' || code == (unsigned char)quote)
        snprintf(text, sizeof text, "\\%c", (char)code);
    else if (tpl_is_printable(code))
        text[cdz_utf8_encode(code, text)] = '\0';
    else
        snprintf(text, sizeof text,
                 code < 0x100     ? "\\x%02x"
                 : code < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                 code);
    put_text(st, to, text);
}

static void put_string_repr(state *st, cdz_buf *to, value v)
{
    const bool single = v.len && memchr(v.s, '\'', v.len),
               twofold = v.len && memchr(v.s, '"', v.len);
    const char quote = single && !twofold ? '"' : '\'';
    if (v.kind == V_BYTES) tpl_put(st, to, "b", 1);
    tpl_put(st, to, &quote, 1);
    for (size_t at = 0; at < v.len && !st->failed;) {
        if (v.kind == V_STRING) {
            put_code_repr(st, to, tpl_next_code(v.s, v.len, &at), quote);
        } else {
            const unsigned char byte = (unsigned char)v.s[at++];
            char text[8];
            snprintf(text, sizeof text, "\\x%02x", byte);
            if (byte < 0x80)
                put_code_repr(st, to, byte, quote);
            else
                put_text(st, to, text);
        }
    }
    tpl_put(st, to, &quote, 1);
}

static void put_repr_at(state *st, cdz_buf *to, value v, uint32_t depth);

static void put_items(state *st, cdz_buf *to, const value *items, uint32_t n, const char *open,
                      const char *close, uint32_t depth)
{
    put_text(st, to, open);
    for (uint32_t i = 0; i < n && tpl_charge(st, 1); i++) {
        if (i) tpl_put(st, to, ", ", 2);
        put_repr_at(st, to, items[i], depth);
    }
    put_text(st, to, close);
}

static void put_dict(state *st, cdz_buf *to, const dict *d, uint32_t depth)
{
    tpl_put(st, to, "{", 1);
    for (uint32_t i = 0; i < d->n && tpl_charge(st, 1); i++) {
        if (i) tpl_put(st, to, ", ", 2);
        put_repr_at(st, to, d->keys[i], depth);
        tpl_put(st, to, ": ", 2);
        put_repr_at(st, to, d->values[i], depth);
    }
    tpl_put(st, to, "}", 1);
}

static void put_view(state *st, cdz_buf *to, value v, uint32_t depth)
{
    const value *items;
    uint32_t n;
    put_text(st, to, tpl_type_name(v));
    if (tpl_items_of(st, v, &items, &n)) put_items(st, to, items, n, "([", "])", depth);
}

static void put_range(state *st, cdz_buf *to, const range *r)
{
    char text[80];
    if (r->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                 (long long)r->stop, (long long)r->step);
    put_text(st, to, text);
}

/* Things without a value: Python prints an address, which nobody can depend on. */
static void put_opaque(state *st, cdz_buf *to, value v)
{
    tpl_put(st, to, "<", 1);
    put_text(st, to, tpl_type_name(v));
    if (v.kind == V_MACRO) {
        tpl_put(st, to, " ", 1);
        put_text(st, to, v.macro->def->text);
    } else {
        put_text(st, to, " object");
    }
    tpl_put(st, to, ">", 1);
}

static void put_repr_at(state *st, cdz_buf *to, value v, uint32_t depth)
{
    if (depth > DATA_DEPTH) {
        tpl_fail_limit(st, "data nested more than %d deep", DATA_DEPTH);
        return;
    }
    if (st->failed) return;
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEFINED: put_text(st, to, "Undefined"); break;
    case V_NONE: put_text(st, to, "None"); break;
    case V_BOOL: put_text(st, to, v.b ? "True" : "False"); break;
    case V_INT:
    case V_FLOAT: put_number(st, to, v); break;
    case V_BIG: tpl_put(st, to, v.s, v.len); break;
    case V_STRING:
    case V_BYTES: put_string_repr(st, to, v); break;
    case V_LIST: put_items(st, to, v.seq->at, v.seq->n, "[", "]", depth + 1); break;
    case V_TUPLE:
        put_items(st, to, v.seq->at, v.seq->n, "(", v.seq->n == 1 ? ",)" : ")", depth + 1);
        break;
    case V_DICT: put_dict(st, to, v.dict, depth + 1); break;
    case V_VIEW: put_view(st, to, v, depth + 1); break;
    case V_RANGE: put_range(st, to, v.range); break;
    case V_NAMESPACE:
        put_text(st, to, "<Namespace ");
        put_dict(st, to, v.dict, depth + 1);
        tpl_put(st, to, ">", 1);
        break;
    default: put_opaque(st, to, v); break;
    }
}

void tpl_put_repr(state *st, cdz_buf *to, value v)
{
    put_repr_at(st, to, v, 0);
}

void tpl_put_value(state *st, cdz_buf *to, value v)
{
    if (tpl_is_string(v))
        tpl_put(st, to, v.s, v.len);
    else if (v.kind != V_UNDEFINED && v.kind != V_MISSING)
        put_repr_at(st, to, v, 0);
    else if (v.undef && v.undef->unsafe && v.kind == V_UNDEFINED)
        return; /* hidden things print as nothing */
}
