/* json_write.c - values to text. Numbers read back as what they were; strings come out as valid
 * UTF-8 whatever went in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

/* printf writes the decimal point of the program's locale, which may be several bytes; JSON
 * wants '.'. */
static void fix_point(char *text)
{
    size_t plain = strspn(text, "-0123456789");
    size_t other = strcspn(text + plain, "e0123456789");
    if (other == 0) return;
    text[plain] = '.';
    memmove(text + plain + 1, text + plain + other, strlen(text + plain + other) + 1);
}

/* Not numbers in JSON: written as strings. true when value was one of them. */
static bool write_special(cdz_buf *out, double value)
{
    if (isfinite(value)) return false;
    cdz_buf_puts(out, isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"");
    return true;
}

/* A real stays a real: 1 is written 1.0. */
static void write_digits(cdz_buf *out, char *text)
{
    fix_point(text);
    cdz_buf_puts(out, text);
    if (!strpbrk(text, ".e")) cdz_buf_puts(out, ".0");
}

void cdz_json_write_member(cdz_buf *out, const char *name, const char *text, size_t len)
{
    cdz_buf_printf(out, ",\"%s\":", name);
    if (text)
        cdz_json_write_string(out, text, len);
    else
        cdz_buf_puts(out, "null");
}

void cdz_json_write_real(cdz_buf *out, double value)
{
    char text[40];
    if (write_special(out, value)) return;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (back == value) break; /* zeros and signs are written by "%g" itself */
    }
    write_digits(out, text);
}

void cdz_json_write_f32(cdz_buf *out, float value)
{
    char text[40];
    if (write_special(out, (double)value)) return;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        float back = strtof(text, NULL);
        if (back == value) break;
    }
    write_digits(out, text);
}

/* How a byte must be escaped, or NULL. */
static const char *escape_of(unsigned char c, char buf[8])
{
    switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
    }
    if (c >= 0x20 && c != 0x7F) return NULL;
    snprintf(buf, 8, "\\u%04x", c);
    return buf;
}

void cdz_json_write_string(cdz_buf *out, const char *text, size_t len)
{
    size_t done = 0; /* bytes before this are written; text[done .. at) is written as it stands */
    cdz_buf_putc(out, '"');
    for (size_t at = 0; at < len;) {
        char buf[8];
        uint32_t code;
        size_t n = cdz_utf8_decode(text + at, len - at, &code);
        const char *instead = n == 0   ? CDZ_UTF8_REPLACEMENT
                              : n == 1 ? escape_of((unsigned char)text[at], buf)
                                       : NULL;
        if (n == 0) n = cdz_utf8_bad(text + at, len - at, NULL);
        if (instead) {
            cdz_buf_add(out, text + done, at - done);
            cdz_buf_puts(out, instead);
            done = at + n;
        }
        at += n;
    }
    cdz_buf_add(out, text + done, len - done);
    cdz_buf_putc(out, '"');
}

static void write_array(cdz_buf *out, const cdz_json *value)
{
    cdz_buf_putc(out, '[');
    for (uint32_t i = 0; i < value->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write(out, &value->items[i]);
    }
    cdz_buf_putc(out, ']');
}

static void write_object(cdz_buf *out, const cdz_json *value)
{
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < value->len; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_string(out, value->members[i].key, value->members[i].key_len);
        cdz_buf_puts(out, ": ");
        cdz_json_write(out, &value->members[i].value);
    }
    cdz_buf_putc(out, '}');
}

void cdz_json_write(cdz_buf *out, const cdz_json *value)
{
    switch ((cdz_json_type)value->type) {
    case CDZ_JSON_NULL: cdz_buf_puts(out, "null"); break;
    case CDZ_JSON_BOOL: cdz_buf_puts(out, value->boolean ? "true" : "false"); break;
    case CDZ_JSON_INT: cdz_buf_printf(out, "%lld", (long long)value->integer); break;
    case CDZ_JSON_REAL: cdz_json_write_real(out, value->real); break;
    case CDZ_JSON_STRING: cdz_json_write_string(out, value->string, value->len); break;
    case CDZ_JSON_ARRAY: write_array(out, value); break;
    case CDZ_JSON_OBJECT: write_object(out, value); break;
    }
}
