/* numbers.h - numbers at the ends of their types, and texts in which one number after the other is replaced by them. */
#ifndef CDZ_TESTS_SUPPORT_NUMBERS_H
#define CDZ_TESTS_SUPPORT_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

/* As JSON, ini and the others write them; the last ones are no numbers where one is expected. */
static const char *const numbers[] = {
    "0",
    "1",
    "-1",
    "2",
    "64",
    "65536",
    "-2147483649",
    "-2147483648",
    "2147483646",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "-9007199254740993",
    "9007199254740993",
    "-9223372036854775809",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1.5",
    "-0.0",
    "1e-320",
    "3.5e38",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "\"x\"",
    "[]",
    "null",
};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

/* Where a number stands in a text. */
typedef struct number_place {
    size_t begin, end;
} number_place;

static inline bool number_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The numbers of a text, at most `most` of them: where there are more, some of each part. json: not those in strings. */
static inline size_t numbers_in(const char *text, size_t len, bool json, number_place *out,
                                size_t most)
{
    size_t n = 0, seen = 0;
    for (int pass = 0; pass < 2; pass++) {
        const size_t step = pass ? (seen + most - 1) / most : 1;
        size_t index = 0;
        for (size_t i = 0; i < len; i++) {
            if (json && text[i] == '"') {
                for (i++; i < len && text[i] != '"'; i++) i += text[i] == '\\';
                continue;
            }
            const size_t begin = i;
            if (text[i] == '-' && i + 1 < len && number_digit(text[i + 1])) i++;
            if (!number_digit(text[i])) continue;
            while (i + 1 < len && (number_digit(text[i + 1]) || strchr(".eE", text[i + 1]) ||
                                   (strchr("+-", text[i + 1]) && strchr("eE", text[i]))))
                i++;
            if (pass && index % step == 0 && n < most) out[n++] = (number_place){begin, i + 1};
            index++;
        }
        seen = index;
        if (!seen) break;
    }
    return n;
}

/* The text with `by` in that place. */
static inline void put_instead(cdz_buf *out, const char *text, size_t len, number_place at,
                               const char *by)
{
    cdz_buf_clear(out);
    cdz_buf_add(out, text, at.begin);
    cdz_buf_puts(out, by);
    cdz_buf_add(out, text + at.end, len - at.end);
}

/* The text with `by` for every '@'. */
static inline void put_for_marks(cdz_buf *out, const char *text, const char *by)
{
    cdz_buf_clear(out);
    for (; *text; text++) {
        if (*text == '@')
            cdz_buf_puts(out, by);
        else
            cdz_buf_putc(out, *text);
    }
}

/* Bits of fields that are so many bytes wide: integers of both signs, and floats. */
static const uint64_t number_bits[] = {
    0,
    1,
    2,
    3,
    32,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    0x7f7fffff, /* FLT_MAX */
    0x7f800000, /* inf */
    0x7fc00000, /* nan */
    0xff800000, /* -inf */
    0xbf800000, /* -1.0f */
    0x7ffffffe, /* INT32_MAX - 1 */
    0x7fffffff,
    0x80000000,
    0x80000001,
    0xfffffffe,
    0xffffffff,
    0x100000000,
    0x20000000000001,   /* 2^53 + 1 */
    0x3ff8000000000000, /* 1.5 */
    0x3fffffffffffffff,
    0x4000000000000000, /* 2^62, and 2.0 */
    0x7fe0000000000000, /* about 1e308 */
    0x7ff8000000000000, /* nan */
    0x7fffffffffffffff,
    0x8000000000000000,
    0xffffffffffffffe0,
    0xffffffffffffffff,
};
enum { N_NUMBER_BITS = sizeof number_bits / sizeof *number_bits };

/* False: more bits than the field has, so that another entry is the same there. */
static inline bool number_fits(uint64_t bits, size_t width)
{
    return width >= 8 || bits >> (8 * width) == 0;
}

static inline void put_bits(void *to, uint64_t bits, size_t width)
{
    for (size_t b = 0; b < width; b++) ((uint8_t *)to)[b] = (uint8_t)(bits >> (8 * b));
}

#endif
