/* text_format.c - Python's two ways to format: '%5.1f' % x and '{:>5}'.format(x). Widths and
 * precisions are bounded, and attributes in braces go through the sandbox's look-up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "template/value.h"

typedef struct spec {
    value fill;
    char align, sign, type; /* 0: not given */
    bool alternate, zero, comma;
    int64_t width, precision; /* -1: not given */
} spec;

/* --- one value by a spec ----------------------------------------------------------------------------------- */

static void put_padded(state *st, cdz_buf *to, const spec *s, value text, char align)
{
    tpl_touch(st, (uint64_t)text.len * PER_CODE);
    const int64_t missing = s->width - (int64_t)tpl_count_codes(text);
    int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    if (left < 0) left = 0;
    for (int64_t i = 0; i < left; i++) tpl_put(st, to, s->fill.s, s->fill.len);
    tpl_put(st, to, text.s, text.len);
    for (int64_t i = left; i < missing; i++) tpl_put(st, to, s->fill.s, s->fill.len);
}

/* Puts a sign in front of digits, commas between them and zeros before them. */
static void put_digits(state *st, cdz_buf *to, const spec *s, bool negative, const char *prefix,
                       value digits)
{
    cdz_buf text = {0};
    const char *sign = negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
    size_t whole = 0;
    while (whole < digits.len && digits.s[whole] >= '0' && digits.s[whole] <= '9') whole++;
    tpl_put(st, &text, sign, strlen(sign));
    tpl_put(st, &text, prefix, strlen(prefix));
    if (s->zero && !s->align)
        for (int64_t n = (int64_t)(text.len + digits.len); n < s->width; n++)
            tpl_put(st, &text, "0", 1);
    for (size_t i = 0; i < digits.len; i++) {
        if (s->comma && i && i < whole && (whole - i) % 3 == 0) tpl_put(st, &text, ",", 1);
        tpl_put(st, &text, digits.s + i, 1);
    }
    value v = tpl_take_text(st, &text);
    put_padded(st, to, s, v, s->align ? s->align : '>');
}

static void put_float_spec(state *st, cdz_buf *to, const spec *s, double d)
{
    const int precision = s->precision < 0 ? 6 : (int)s->precision;
    const size_t room =
        (size_t)precision + 400; /* 309 digits before the point, a sign, an exponent */
    char *text = tpl_take(st, room, 1);
    if (!text || !tpl_touch(st, room + PER_FLOAT)) return;
    const double size = fabs(d) * (s->type == '%' ? 100 : 1);
    switch (s->type) {
    case 'e': snprintf(text, room, "%.*e", precision, size); break;
    case 'E': snprintf(text, room, "%.*E", precision, size); break;
    case 'g': snprintf(text, room, "%.*g", precision, size); break;
    case 'G': snprintf(text, room, "%.*G", precision, size); break;
    case '%': snprintf(text, room, "%.*f%%", precision, size); break;
    case 0:
        if (s->precision < 0)
            tpl_format_double(size, text);
        else
            snprintf(text, room, "%.*g", precision ? precision : 1, size);
        break;
    default: snprintf(text, room, "%.*f", precision, size); break;
    }
    put_digits(st, to, s, signbit(d) && !isnan(d), "", tpl_v_literal(text));
}

static void put_int_spec(state *st, cdz_buf *to, const spec *s, int64_t i)
{
    char text[80];
    const unsigned long long size = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
    const char *prefix = "";
    switch (s->type) {
    case 'x':
        snprintf(text, sizeof text, "%llx", size);
        prefix = "0x";
        break;
    case 'X':
        snprintf(text, sizeof text, "%llX", size);
        prefix = "0X";
        break;
    case 'o':
        snprintf(text, sizeof text, "%llo", size);
        prefix = "0o";
        break;
    case 'b': {
        size_t n = 0;
        for (int bit = 63; bit >= 0; bit--)
            if (size >> bit & 1 || n || bit == 0) text[n++] = (char)('0' + (size >> bit & 1));
        text[n] = '\0';
        prefix = "0b";
        break;
    }
    default: snprintf(text, sizeof text, "%llu", size); break;
    }
    put_digits(st, to, s, i < 0, s->alternate ? prefix : "", tpl_v_literal(text));
}

static void put_string_spec(state *st, cdz_buf *to, const spec *s, value v)
{
    v = tpl_to_text(st, v);
    if (s->precision >= 0) v = tpl_sub_text(v, 0, tpl_byte_of(v, (size_t)s->precision));
    put_padded(st, to, s, v, s->align ? s->align : '<');
}

static void put_spec(state *st, cdz_buf *to, const spec *s, value v)
{
    if (!tpl_charge(st, 1) || !tpl_touch(st, PER_CONVERSION)) return;
    if (s->width > FORMAT_WIDTH || s->precision > FORMAT_WIDTH) {
        tpl_fail_limit(st, "a width or precision of more than %d", FORMAT_WIDTH);
        return;
    }
    const bool floats = cdz_byte_in(s->type, "eEfFgG%"), ints = cdz_byte_in(s->type, "dxXobiu");
    if ((floats || ints) && !tpl_is_number(v))
        tpl_fail(st, "format '%c' needs a number, not %s", s->type, tpl_type_name(v));
    else if (floats || (v.kind == V_FLOAT && !ints && s->type != 's'))
        put_float_spec(st, to, s, tpl_as_double(v));
    else if (ints && v.kind == V_FLOAT && fabs(v.d) < 9e18)
        put_int_spec(st, to, s, (int64_t)v.d);
    else if (ints && v.kind == V_FLOAT)
        tpl_fail(st, "format '%c': the number has more than 64 bits", s->type);
    else if (ints || (v.kind == V_INT && s->type != 's'))
        put_int_spec(st, to, s, tpl_as_int(v));
    else
        put_string_spec(st, to, s, v);
}

/* Decimal digits; -1: none there. Stops growing at the end of its range, where a limit will refuse it. */
static int64_t read_number(value text, size_t *at)
{
    int64_t n = -1;
    for (; *at < text.len && text.s[*at] >= '0' && text.s[*at] <= '9'; ++*at)
        n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : (n < 0 ? 0 : n) * 10 + (text.s[*at] - '0');
    return n;
}

/* --- % --------------------------------------------------------------------------------------------------------- */

typedef struct percent {
    state *st;
    value format;
    size_t at;
    const args *all;
    uint32_t used;
} percent;

static value next_argument(percent *p)
{
    if (p->used < p->all->n) return p->all->at[p->used++];
    return tpl_fail(p->st, "not enough arguments for format string");
}

/* %(name)s takes from keywords, or from a dictionary that is the only argument. */
static value named_argument(percent *p)
{
    const size_t from = p->at;
    while (p->at < p->format.len && p->format.s[p->at] != ')') p->at++;
    value name = tpl_v_string(p->st, p->format.s + from, p->at - from);
    if (p->at < p->format.len) p->at++;
    for (uint32_t i = 0; i < p->all->n_keywords && tpl_touch(p->st, PER_CODE); i++)
        if (strcmp(p->all->keywords[i].name, name.s) == 0) return p->all->keywords[i].value;
    if (p->all->n == 1 && p->all->at[0].kind == V_DICT) {
        const value *found = tpl_dict_get(p->st, p->all->at[0].dict, name);
        p->used = 1;
        if (found) return *found;
    }
    return tpl_fail(p->st, "the format names '%s', which is not given", name.s);
}

static int64_t star_or_number(percent *p)
{
    if (p->at >= p->format.len || p->format.s[p->at] != '*') return read_number(p->format, &p->at);
    p->at++;
    value v = next_argument(p);
    if (v.kind != V_INT) tpl_fail(p->st, "* wants int");
    return p->st->failed ? -1 : v.i;
}

static void read_flags(percent *p, spec *s)
{
    for (; p->at < p->format.len; p->at++) {
        switch (p->format.s[p->at]) {
        case '-': s->align = '<'; break;
        case '+': s->sign = '+'; break;
        case ' ': s->sign = s->sign ? s->sign : ' '; break;
        case '#': s->alternate = true; break;
        case '0': s->zero = true; break;
        default: return;
        }
    }
}

static void put_percent(percent *p, cdz_buf *to)
{
    spec s = {.fill = tpl_v_literal(" "), .precision = -1};
    bool named = p->at < p->format.len && p->format.s[p->at] == '(';
    value v = tpl_v_none();
    if (named) {
        p->at++;
        v = named_argument(p);
    }
    read_flags(p, &s);
    s.width = star_or_number(p);
    if (s.width < -1) { /* a negative * is the flag '-' and its size */
        s.align = '<';
        s.width = s.width < -INT32_MAX ? INT32_MAX : -s.width;
    }
    if (p->at < p->format.len && p->format.s[p->at] == '.') {
        p->at++;
        s.precision = star_or_number(p);
        if (s.precision < 0) s.precision = 0;
    }
    s.type = p->at < p->format.len ? p->format.s[p->at++] : '\0';
    if (s.type == '%') {
        tpl_put(p->st, to, "%", 1);
        return;
    }
    if (!named) v = next_argument(p);
    if (s.type == 'r' || s.type == 'a') {
        cdz_buf text = {0};
        tpl_put_repr(p->st, &text, v);
        v = tpl_take_text(p->st, &text);
        s.type = 's';
    }
    if (!cdz_byte_in(s.type, "diuoxXeEfFgGs")) {
        tpl_fail(p->st, "unsupported format character '%c'", s.type ? s.type : '?');
        return;
    }
    if (s.type == 's' && !s.align) s.align = '>';
    put_spec(p->st, to, &s, v);
}

value tpl_format_percent(state *st, value format, const args *all, bool maps)
{
    percent p = {.st = st, .format = format, .all = all};
    cdz_buf out = {0};
    while (p.at < format.len && !st->failed) {
        const char *mark = memchr(format.s + p.at, '%', format.len - p.at);
        const size_t end = mark ? (size_t)(mark - format.s) : format.len;
        tpl_put(st, &out, format.s + p.at, end - p.at);
        p.at = end + 1;
        if (mark) put_percent(&p, &out);
    }
    /* What has items could be a mapping, whose keys need not all be used. */
    if (p.used < all->n && !maps)
        tpl_fail(st, "not all arguments converted during string formatting");
    return tpl_take_text(st, &out);
}

/* --- braces ------------------------------------------------------------------------------------------------------- */

static bool is_align(value text, size_t at)
{
    return at < text.len && cdz_byte_in(text.s[at], "<>^=");
}

static bool take_char(value text, size_t *at, char c)
{
    const bool is = *at < text.len && text.s[*at] == c;
    *at += is;
    return is;
}

static spec parse_spec(state *st, value text)
{
    spec s = {.fill = tpl_v_literal(" "), .precision = -1};
    size_t at = 0, second = 0;
    if (text.len) tpl_next_code(text.s, text.len, &second);
    if (text.len && is_align(text, second)) {
        s.fill = tpl_sub_text(text, 0, second);
        at = second;
    }
    if (is_align(text, at)) s.align = text.s[at++];
    if (at < text.len && (text.s[at] == '+' || text.s[at] == '-' || text.s[at] == ' '))
        s.sign = text.s[at++];
    s.alternate = take_char(text, &at, '#');
    s.zero = take_char(text, &at, '0');
    s.width = read_number(text, &at);
    s.comma = take_char(text, &at, ',');
    if (take_char(text, &at, '.')) s.precision = read_number(text, &at);
    if (at < text.len) s.type = text.s[at++];
    if (at < text.len || (s.type && !cdz_byte_in(s.type, "sdxXobeEfFgG%")))
        tpl_fail(st, "invalid format specifier '%.*s'", (int)text.len, text.s);
    if (s.align == '=') {
        s.align = 0;
        s.zero = true;
    }
    return s;
}

typedef struct braces {
    state *st;
    const args *all;
    uint32_t next;
} braces;

static value first_of_field(braces *b, value name)
{
    size_t at = 0;
    const int64_t number = read_number(name, &at);
    if (name.len == 0 || (number >= 0 && at == name.len)) {
        const int64_t i = name.len ? number : b->next++;
        if (i < (int64_t)b->all->n) return b->all->at[i];
        return tpl_fail(b->st, "replacement index %lld is out of range", (long long)i);
    }
    for (uint32_t i = 0; i < b->all->n_keywords && tpl_touch(b->st, PER_CODE); i++)
        if (strlen(b->all->keywords[i].name) == name.len &&
            memcmp(b->all->keywords[i].name, name.s, name.len) == 0)
            return b->all->keywords[i].value;
    return tpl_fail(b->st, "the format names '%.*s', which is not given", (int)name.len, name.s);
}

/* name.attribute[key]... */
static value field_value(braces *b, value field)
{
    size_t at = 0;
    while (at < field.len && field.s[at] != '.' && field.s[at] != '[') at++;
    value v = first_of_field(b, tpl_sub_text(field, 0, at));
    while (at < field.len && !b->st->failed) {
        const bool item = field.s[at] == '[';
        const size_t from = ++at;
        while (at < field.len &&
               (item ? field.s[at] != ']' : field.s[at] != '.' && field.s[at] != '['))
            at++;
        value name = tpl_v_string(b->st, field.s + from, at - from);
        size_t digits = 0;
        const int64_t number = read_number(name, &digits);
        if (item) at++;
        if (item && number >= 0 && digits == name.len)
            v = tpl_get_item(b->st, v, tpl_v_int(number));
        else
            v = item ? tpl_get_item(b->st, v, name) : tpl_get_attribute(b->st, v, name);
    }
    return v;
}

static void put_field(braces *b, cdz_buf *to, value field)
{
    const char *colon = field.len ? memchr(field.s, ':', field.len) : NULL;
    size_t end = colon ? (size_t)(colon - field.s) : field.len;
    const spec s =
        parse_spec(b->st, colon ? tpl_sub_text(field, end + 1, field.len) : tpl_v_borrow("", 0));
    char conversion = 0;
    if (end >= 2 && field.s[end - 2] == '!') {
        conversion = field.s[end - 1];
        end -= 2;
    }
    value v = field_value(b, tpl_sub_text(field, 0, end));
    if (conversion == 'r' || conversion == 'a') {
        cdz_buf text = {0};
        tpl_put_repr(b->st, &text, v);
        v = tpl_take_text(b->st, &text);
    } else if (conversion) {
        v = tpl_to_text(b->st, v);
    }
    if (colon && colon + 1 < field.s + field.len) {
        if (v.kind == V_BOOL) v = tpl_v_int(v.b);
        if (!tpl_is_string(v) && !tpl_is_number(v))
            tpl_fail(b->st, "a format such as '>4' needs a string or a number, not %s",
                     tpl_type_name(v));
    }
    put_spec(b->st, to, &s, v);
}

value tpl_format_braces(state *st, value format, const args *all)
{
    braces b = {.st = st, .all = all};
    cdz_buf out = {0};
    for (size_t at = 0; at < format.len && !st->failed;) {
        const char c = format.s[at];
        if ((c == '{' || c == '}') && at + 1 < format.len && format.s[at + 1] == c) {
            tpl_put(st, &out, &c, 1);
            at += 2;
        } else if (c == '}') {
            tpl_fail(st, "single '}' in a format string");
        } else if (c == '{') {
            const char *end = memchr(format.s + at, '}', format.len - at);
            if (!end) {
                tpl_fail(st, "expected '}' before the end of a format string");
                break;
            }
            put_field(&b, &out, tpl_sub_text(format, at + 1, (size_t)(end - format.s)));
            at = (size_t)(end - format.s) + 1;
        } else {
            tpl_put(st, &out, &c, 1);
            at++;
        }
    }
    return tpl_take_text(st, &out);
}
