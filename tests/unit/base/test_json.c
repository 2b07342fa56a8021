/* test_json.c - the strict reader against tables, attacks and jansson; the writer against
 * itself. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/utf8.h"

#ifdef CADENZA_HAVE_JANSSON
#include <jansson.h>
#endif

#define COUNT(table) (sizeof(table) / sizeof *(table))
/* Text with its length, so that it may hold NUL bytes. */
#define TEXT(s) s, sizeof(s) - 1

/* Parses an exact heap copy, so that a sanitizer sees a read past the end. */
static cdz_status parse(const char *text, size_t len, const cdz_json_limits *limits,
                        cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    cdz_status st = cdz_json_parse(copy, len, "t.json", limits, arena, out, err);
    free(copy);
    return st;
}

static char *written(const cdz_json *value)
{
    cdz_buf buf = {0};
    cdz_json_write(&buf, value);
    assert_false(buf.failed);
    return buf.data;
}

/* --- what is accepted ------------------------------------------------------------------------ */

static const struct {
    const char *name, *text;
    size_t len;
    const char *again; /* as the writer gives it back */
} good[] = {
    {"null", TEXT("null"), "null"},
    {"true", TEXT(" true\n"), "true"},
    {"false", TEXT("\t\r\nfalse "), "false"},
    {"empty array", TEXT("[ ]"), "[]"},
    {"empty object", TEXT("{\n}"), "{}"},
    {"nested", TEXT("[[],{\"a\":[1,{}]}]"), "[[], {\"a\": [1, {}]}]"},
    {"an integer", TEXT("-12"), "-12"},
    {"largest int64", TEXT("9223372036854775807"), "9223372036854775807"},
    {"smallest int64", TEXT("-9223372036854775808"), "-9223372036854775808"},
    {"past int64 is a real", TEXT("9223372036854775808"), "9.223372036854776e+18"},
    {"2^53 + 1 stays exact", TEXT("9007199254740993"), "9007199254740993"},
    {"minus zero, an integer", TEXT("-0"), "0"},
    {"minus zero, a real", TEXT("-0.0"), "-0.0"},
    {"one as a real", TEXT("1.0"), "1.0"},
    {"an exponent makes a real", TEXT("1E2"), "100.0"},
    {"signed exponents", TEXT("[1e+2,1e-2]"), "[100.0, 0.01]"},
    {"a tenth", TEXT("0.1"), "0.1"},
    {"sixteen digits are needed", TEXT("0.30000000000000004"), "0.30000000000000004"},
    {"smallest real", TEXT("5e-324"), "4.94065645841247e-324"},
    {"largest real", TEXT("1.7976931348623157e308"), "1.7976931348623157e+308"},
    {"too small becomes zero", TEXT("1e-400"), "0.0"},
    {"short escapes", TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
    {"unicode escapes", TEXT("\"\\u0041\\u00e9\\u20AC\""), "\"A\xC3\xA9\xE2\x82\xAC\""},
    {"a surrogate pair", TEXT("\"\\uD83D\\uDE00\""), "\"\xF0\x9F\x98\x80\""},
    {"NUL escaped", TEXT("\"a\\u0000b\""), "\"a\\u0000b\""},
    {"NUL in a name", TEXT("{\"a\\u0000b\":1,\"a\":2}"), "{\"a\\u0000b\": 1, \"a\": 2}"},
    {"DEL", TEXT("\"\x7f\""), "\"\\u007f\""},
    {"last code point", TEXT("\"\xF4\x8F\xBF\xBF\""), "\"\xF4\x8F\xBF\xBF\""},
    {"empty name", TEXT("{\"\":0}"), "{\"\": 0}"},
};

static void accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        cdz_arena arena = {0};
        cdz_json value;
        cdz_error err = {0};
        if (parse(good[i].text, good[i].len, NULL, &arena, &value, &err) != CDZ_OK)
            fail_msg("%s: %s", good[i].name, err.text);
        char *again = written(&value);
        if (strcmp(again, good[i].again) != 0) fail_msg("%s: written as %s", good[i].name, again);
        free(again);
        cdz_arena_free(&arena);
    }
}

/* --- what is refused, and where -------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    size_t len;
    const char *sentence; /* part of it */
} bad[] = {
    {"nothing", TEXT(""), "t.json:1:1: expected a value, found the end of the text"},
    {"only spaces", TEXT("  \n "), "t.json:2:2: expected a value, found the end"},
    {"byte order mark", TEXT("\xEF\xBB\xBF{}"), "t.json:1:1: begins with a byte order mark"},
    {"two documents", TEXT("{} {}"), "t.json:1:4: expected the end of the text, found '{'"},
    {"trailing junk", TEXT("1x"), "t.json:1:2: expected the end of the text, found 'x'"},
    {"trailing NUL", TEXT("{}\0"), "t.json:1:3: expected the end of the text, found byte 0x00"},
    {"NaN", TEXT("[NaN]"), "t.json:1:2: NaN is not JSON"},
    {"Infinity", TEXT("Infinity"), "Infinity is not JSON"},
    {"minus Infinity", TEXT("-Infinity"), "t.json:1:2: expected a digit, found 'I'"},
    {"comment", TEXT("// x\n1"), "JSON has no comments"},
    {"comment inside", TEXT("[1,/* x */2]"), "t.json:1:4: JSON has no comments"},
    {"hash comment", TEXT("#"), "expected a value, found '#'"},
    {"single quotes", TEXT("{'a':1}"), "t.json:1:2: expected a name in double quotes, found '''"},
    {"Python's True", TEXT("True"), "expected true, found True"},
    {"a word cut", TEXT("tru"), "expected true, false or null"},
    {"comma before ]", TEXT("[1,]"), "t.json:1:4: a comma before ']'"},
    {"comma before }", TEXT("{\"a\":1,\n}"), "t.json:2:1: a comma before '}'"},
    {"two commas", TEXT("[1,,2]"), "t.json:1:4: expected a value, found ','"},
    {"missing comma", TEXT("[1 2]"), "t.json:1:4: expected ',' or ']', found '2'"},
    {"missing colon", TEXT("{\"a\" 1}"), "t.json:1:6: expected ':' after a name, found '1'"},
    {"missing value", TEXT("{\"a\":}"), "t.json:1:6: expected a value, found '}'"},
    {"wrong bracket", TEXT("[1}"), "expected ',' or ']', found '}'"},
    {"a number as name", TEXT("{1:2}"), "expected a name in double quotes, found '1'"},
    {"open array", TEXT("[1"), "expected ',' or ']', found the end of the text"},
    {"open string", TEXT("[\"ab"), "t.json:1:2: this string has no closing quote"},
    {"leading zero", TEXT("01"), "t.json:1:1: a number may not begin with 0"},
    {"leading plus", TEXT("+1"), "expected a value, found '+'"},
    {"no digit before point", TEXT(".5"), "expected a value, found '.'"},
    {"no digit after point", TEXT("1."), "t.json:1:3: expected a digit after the point"},
    {"no digits in exponent", TEXT("1E+"), "t.json:1:4: expected a digit in the exponent"},
    {"hexadecimal", TEXT("0x10"), "found 'x'"},
    {"1e400", TEXT("[1e400]"), "t.json:1:2: the number 1e400 is too large"},
    {"line break in a string", TEXT("\"a\nb\""), "t.json:1:3: control character 0x0A"},
    {"NUL in a string", TEXT("\"a\0b\""), "control character 0x00"},
    {"unknown escape", TEXT("\"\\x41\""), "t.json:1:2: there is no escape of a backslash and 'x'"},
    {"escape at the end", TEXT("\"\\"), "no closing quote"},
    {"escaped line break", TEXT("\"\\\n\""), "control character 0x0A"},
    {"three hex digits", TEXT("\"\\u123\""), "t.json:1:2: \\u needs four hexadecimal digits"},
    {"bad hex digits", TEXT("\"\\u12g4\""), "\\u needs four hexadecimal digits"},
    {"lone first half", TEXT("\"\\ud800\""), "first half of a surrogate pair"},
    {"first half and a letter", TEXT("\"\\ud800\\u0041\""), "first half of a surrogate pair"},
    {"lone second half", TEXT("\"\\udc00\""), "second half of a surrogate pair"},
    {"stray continuation", TEXT("\"\x80\""), "t.json:1:2: invalid UTF-8 in a string (byte 0x80)"},
    {"overlong slash", TEXT("\"\xC0\xAF\""), "invalid UTF-8"},
    {"overlong euro", TEXT("\"\xF0\x82\x82\xAC\""), "invalid UTF-8"},
    {"surrogate in UTF-8", TEXT("\"\xED\xA0\x80\""), "invalid UTF-8"},
    {"past U+10FFFF", TEXT("\"\xF4\x90\x80\x80\""), "invalid UTF-8"},
    {"cut character", TEXT("\"\xE2\x82\""), "invalid UTF-8"},
    {"Latin-1", TEXT("\"caf\xE9\""), "t.json:1:5: invalid UTF-8 in a string (byte 0xE9)"},
    {"bad byte in a name", TEXT("{\"\xFF\":1}"), "invalid UTF-8"},
    {"form feed as space", TEXT("\f1"), "found byte 0x0C"},
    {"no-break space",
     TEXT("\xC2\xA0"
          "1"),
     "found byte 0xC2"},
    {"a name twice", TEXT("{\"a\":1,\n \"a\":2}"),
     "t.json:2:6: the name \"a\" is already in this object, with the value at line 1, column 6"},
    {"a name twice by escape", TEXT("{\"a\":1,\"\\u0061\":2}"), "the name \"a\" is already"},
    {"65 deep", TEXT("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
     "t.json:1:65: nested too deeply"},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        cdz_arena arena = {0};
        cdz_json value;
        cdz_error err = {0};
        cdz_status st = parse(bad[i].text, bad[i].len, NULL, &arena, &value, &err);
        if (st == CDZ_OK) fail_msg("%s: was accepted", bad[i].name);
        assert_int_equal(st, err.code);
        if (!strstr(err.text, bad[i].sentence)) fail_msg("%s: %s", bad[i].name, err.text);
        cdz_arena_free(&arena);
    }
}

static void truncated_at_every_byte(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"a\": [1, -2.5e+3, \"x\\u00e9\\n\xE2\x82\xAC\"], \"b\": {\"c\": null},"
        " \"d\": true, \"e\": [false, {}, []]}";
    for (size_t len = 0; len < sizeof whole; len++) {
        cdz_arena arena = {0};
        cdz_json value;
        cdz_error err = {0};
        cdz_status st = parse(whole, len, NULL, &arena, &value, &err);
        assert_int_equal(st, len == sizeof whole - 1 ? CDZ_OK : CDZ_E_INPUT);
        cdz_arena_free(&arena);
    }
}

/* --- attacks that need generated text -------------------------------------------------------- */

static cdz_status parse_repeated(const char *head, const char *unit, size_t times, const char *tail,
                                 cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    size_t h = strlen(head), u = strlen(unit), t = strlen(tail), len = h + u * times + t;
    char *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, head, h);
    for (size_t i = 0; i < times; i++) memcpy(text + h + i * u, unit, u);
    memcpy(text + h + u * times, tail, t + 1);
    cdz_status st = cdz_json_parse(text, len, "t.json", NULL, arena, out, err);
    free(text);
    return st;
}

static const struct {
    const char *name, *head, *unit;
    size_t times;
    const char *tail;
    cdz_status status;
    const char *sentence;
} floods[] = {
    {"200,000 open arrays", "", "[", 200000, "", CDZ_E_INPUT, "nested too deeply"},
    {"200,000 open objects", "", "{\"a\":", 200000, "", CDZ_E_INPUT, "nested too deeply"},
    {"a number of 10 MB", "", "9", 10000000, "", CDZ_E_INPUT,
     "999999999999999999999999... is too large"},
    {"a fraction of 10 MB", "0.", "1", 10000000, "", CDZ_OK, ""},
    {"an exponent of 1 MB", "1e", "9", 1000000, "", CDZ_E_INPUT, "is too large"},
    {"100 MB of spaces", "", "          ", 10000000, "", CDZ_E_INPUT, "found the end of the text"},
    {"a string of 50 MB", "\"", "abcdefghij", 5000000, "\"", CDZ_OK, ""},
    {"a million escapes", "\"", "\\u0001", 1000000, "\"", CDZ_OK, ""},
    {"a million items", "[0", ",0", 1000000, "]", CDZ_OK, ""},
};

static void floods_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(floods); i++) {
        cdz_arena arena = {0};
        cdz_json value;
        cdz_error err = {0};
        cdz_status st = parse_repeated(floods[i].head, floods[i].unit, floods[i].times,
                                       floods[i].tail, &arena, &value, &err);
        if (st != floods[i].status || !strstr(err.text, floods[i].sentence))
            fail_msg("%s: %d %s", floods[i].name, (int)st, err.text);
        cdz_arena_free(&arena);
    }
}

/* {"k0": 0, "k1": 1, ...}, then tail. */
static char *many_names(size_t n, const char *tail)
{
    cdz_buf buf = {0};
    for (size_t i = 0; i < n; i++) cdz_buf_printf(&buf, "%s\"k%zu\":%zu", i ? "," : "{", i, i);
    cdz_buf_puts(&buf, tail);
    assert_false(buf.failed);
    return buf.data;
}

static void a_million_names(void **state)
{
    (void)state;
    const size_t n = 1000000;
    char *text = many_names(n, "}");
    cdz_arena arena = {0};
    cdz_json value;
    assert_int_equal(cdz_json_parse(text, strlen(text), "t.json", NULL, &arena, &value, NULL), 0);
    assert_int_equal(value.len, n);
    for (size_t i = 0; i < n; i += 997) {
        char name[32];
        snprintf(name, sizeof name, "k%zu", i);
        const cdz_json *found = cdz_json_get(&value, name);
        assert_non_null(found);
        assert_int_equal(found->integer, i);
        assert_string_equal(value.members[i].key, name);
    }
    assert_null(cdz_json_get(&value, "k1000000"));
    free(text);
    cdz_arena_free(&arena);
}

static void repeated_name_in_a_large_object(void **state)
{
    (void)state;
    char *text = many_names(5000, ",\n\"k7\":-1}");
    cdz_arena arena = {0};
    cdz_json value;
    cdz_error err;
    assert_int_equal(cdz_json_parse(text, strlen(text), "t.json", NULL, &arena, &value, &err),
                     CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "t.json:2:6: the name \"k7\" is already in this object"));
    free(text);
    cdz_arena_free(&arena);
}

static void last_of_a_repeated_name_wins_when_allowed(void **state)
{
    (void)state;
    const cdz_json_limits limits = {.duplicates = true};
    static const size_t sizes[] = {1, 10, 16, 17, 3000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *text = many_names(sizes[i], ",\"k0\":-1,\"new\":-2,\"k0\":-3}");
        cdz_arena arena = {0};
        cdz_json value;
        assert_int_equal(parse(text, strlen(text), &limits, &arena, &value, NULL), CDZ_OK);
        assert_int_equal(value.len, sizes[i] + 1);
        assert_int_equal(cdz_json_get(&value, "k0")->integer, -3);
        assert_int_equal(cdz_json_get(&value, "new")->integer, -2);
        assert_string_equal(value.members[0].key, "k0");
        assert_string_equal(value.members[sizes[i]].key, "new");
        free(text);
        cdz_arena_free(&arena);
    }
}

/* Past the given size names may repeat, and every one of them is kept in its place. */
static void repeated_names_of_unchecked_objects_stay(void **state)
{
    (void)state;
    const cdz_json_limits limits = {.unchecked = 1000};
    static const struct {
        size_t n;
        bool kept;
    } sizes[] = {{10, false}, {997, false}, {998, true}, {3000, true}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *text = many_names(sizes[i].n, ",\"k0\":-1,\"new\":-2,\"k0\":-3}");
        cdz_arena arena = {0};
        cdz_json value;
        cdz_error err = {0};
        const cdz_status status = parse(text, strlen(text), &limits, &arena, &value, &err);
        assert_int_equal(status, sizes[i].kept ? CDZ_OK : CDZ_E_INPUT);
        if (sizes[i].kept) {
            assert_int_equal(value.len, sizes[i].n + 3);
            assert_int_equal(cdz_json_get(&value, "new")->integer, -2);
            assert_string_equal(value.members[sizes[i].n + 2].key, "k0");
        }
        free(text);
        cdz_arena_free(&arena);
    }
}

/* --- limits and places ----------------------------------------------------------------------- */

static void limits_hold(void **state)
{
    (void)state;
    cdz_json value;
    cdz_error err;
    cdz_arena arena = {0};
    const cdz_json_limits shallow = {.depth = 2}, few = {.nodes = 3}, deep = {.depth = 100000};
    assert_int_equal(parse(TEXT("[[1]]"), &shallow, &arena, &value, &err), CDZ_OK);
    assert_int_equal(parse(TEXT("[[[1]]]"), &shallow, &arena, &value, &err), CDZ_E_INPUT);
    assert_int_equal(parse(TEXT("[1,2]"), &few, &arena, &value, &err), CDZ_OK);
    assert_int_equal(parse(TEXT("[1,2,3]"), &few, &arena, &value, &err), CDZ_E_LIMIT);
    char brackets[2002];
    memset(brackets, '[', 1001);
    memset(brackets + 1001, ']', 1001);
    assert_int_equal(parse(brackets + 1, 2000, &deep, &arena, &value, &err), CDZ_OK);
    assert_int_equal(parse(brackets, 2002, &deep, &arena, &value, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "too deeply"));
    cdz_arena_free(&arena);
}

static void a_limited_arena_is_a_sentence(void **state)
{
    (void)state;
    char *text = many_names(2000, "}");
    cdz_json value;
    cdz_error err;
    for (size_t limit = 1000; limit < 200000; limit += 7919) {
        cdz_arena arena = {.limit = limit};
        cdz_status st = cdz_json_parse(text, strlen(text), "t.json", NULL, &arena, &value, &err);
        assert_true(arena.used <= limit);
        if (st != CDZ_OK) {
            assert_int_equal(st, CDZ_E_LIMIT);
            assert_non_null(strstr(err.text, "t.json:1: the document needs more than"));
        }
        cdz_arena_free(&arena);
    }
    free(text);
}

static void places_are_lines_and_columns(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json value;
    assert_int_equal(parse(TEXT("{\n  \"a\": [1,\n    2]\n}"), NULL, &arena, &value, NULL), CDZ_OK);
    assert_int_equal(value.line, 1);
    const cdz_json *a = cdz_json_get(&value, "a");
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 8);
    assert_int_equal(a->items[1].line, 3);
    assert_int_equal(a->items[1].column, 5);
    cdz_arena_free(&arena);
}

/* --- questions ------------------------------------------------------------------------------- */

static void questions(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json v;
    assert_int_equal(parse(TEXT("{\"i\":3,\"r\":2.5,\"s\":\"x\\u0000y\",\"n\":null,\"b\":true,"
                                "\"a\":[],\"o\":{}}"),
                           NULL, &arena, &v, NULL),
                     CDZ_OK);
    double d = 0;
    assert_true(cdz_json_number(cdz_json_get(&v, "i"), &d) && d == 3.0);
    assert_true(cdz_json_number(cdz_json_get(&v, "r"), &d) && d == 2.5);
    assert_false(cdz_json_number(cdz_json_get(&v, "s"), &d));
    assert_false(cdz_json_number(NULL, &d));
    assert_false(cdz_json_eq(cdz_json_get(&v, "s"), "x")); /* it goes on after the NUL */
    assert_null(cdz_json_get(&v, "absent"));
    assert_null(cdz_json_get(NULL, "i"));
    assert_null(cdz_json_get(cdz_json_get(&v, "a"), "i"));
    assert_false(cdz_json_is(NULL, CDZ_JSON_NULL));
    static const char *const kinds[] = {"an integer", "a number", "a string", "null",
                                        "true",       "an array", "an object"};
    for (uint32_t i = 0; i < v.len; i++)
        assert_string_equal(cdz_json_type_name(&v.members[i].value), kinds[i]);
    assert_string_equal(cdz_json_type_name(NULL), "nothing");
    cdz_arena_free(&arena);
}

/* --- writing --------------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    size_t len;
    const char *out;
} strings[] = {
    {"plain", TEXT("abc"), "\"abc\""},
    {"nothing", TEXT(""), "\"\""},
    {"NUL and quotes", TEXT("\0\"\\"), "\"\\u0000\\\"\\\\\""},
    {"bad byte alone", TEXT("\xFF"), "\"\xEF\xBF\xBD\""},
    {"cut character at the end", TEXT("a\xE2\x82"), "\"a\xEF\xBF\xBD\""},
    {"cut character before text", TEXT("\xF0\x9F\x98z"), "\"\xEF\xBF\xBDz\""},
    {"surrogate bytes, three parts", TEXT("\xED\xA0\x80"),
     "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
};

static void strings_are_written_valid(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(strings); i++) {
        cdz_buf buf = {0};
        cdz_json_write_string(&buf, strings[i].text, strings[i].len);
        if (strcmp(buf.data, strings[i].out) != 0) fail_msg("%s: %s", strings[i].name, buf.data);
        cdz_buf_free(&buf);
    }
}

static const struct {
    double value;
    const char *real, *f32; /* NULL: not tried */
} numbers[] = {
    {0.0, "0.0", "0.0"},
    {-0.0, "-0.0", "-0.0"},
    {1.0, "1.0", "1.0"},
    {0.1, "0.1", "0.1"},
    {1.0 / 3.0, "0.3333333333333333", "0.33333334"},
    {1e22, "1e+22", "1e+22"},
    {123456789.0, "123456789.0", "1.2345679e+08"},
    {16777216.0, "16777216.0", "16777216.0"},
    {2.2250738585072014e-308, "2.2250738585072014e-308", NULL},
};

static void numbers_are_written_short(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        cdz_buf buf = {0};
        cdz_json_write_real(&buf, numbers[i].value);
        assert_string_equal(buf.data, numbers[i].real);
        cdz_buf_clear(&buf);
        if (numbers[i].f32) {
            cdz_json_write_f32(&buf, (float)numbers[i].value);
            assert_string_equal(buf.data, numbers[i].f32);
        }
        cdz_buf_free(&buf);
    }
}

static void no_numbers_are_strings(void **state)
{
    (void)state;
    cdz_buf buf = {0};
    cdz_json_write_real(&buf, (double)NAN);
    cdz_json_write_f32(&buf, INFINITY);
    cdz_json_write_real(&buf, -(double)INFINITY);
    assert_string_equal(buf.data, "\"nan\"\"inf\"\"-inf\"");
    cdz_buf_free(&buf);
}

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Every bit pattern must come back, through our own reader. */
static void random_numbers_come_back(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double value, back;
        float narrow;
        uint32_t low = (uint32_t)bits;
        memcpy(&value, &bits, sizeof value);
        memcpy(&narrow, &low, sizeof narrow);
        if (!isfinite(value) || !isfinite(narrow)) continue;

        cdz_buf buf = {0};
        cdz_arena arena = {0};
        cdz_json read;
        cdz_json_write_real(&buf, value);
        assert_int_equal(cdz_json_parse(buf.data, buf.len, "t", NULL, &arena, &read, NULL), CDZ_OK);
        assert_int_equal(read.type, CDZ_JSON_REAL);
        assert_memory_equal(&read.real, &value, sizeof value);
        cdz_buf_clear(&buf);
        cdz_json_write_f32(&buf, narrow);
        assert_int_equal(cdz_json_parse(buf.data, buf.len, "t", NULL, &arena, &read, NULL), CDZ_OK);
        back = read.real;
        assert_true((float)back == narrow);
        cdz_buf_free(&buf);
        cdz_arena_free(&arena);
    }
}

/* A program may have set a locale whose decimal point is a comma. */
static void locale_does_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < COUNT(names) && !set; i++) set = setlocale(LC_ALL, names[i]);
    if (!set) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    cdz_arena arena = {0};
    cdz_json value;
    assert_int_equal(parse(TEXT("[0.5,1e3]"), NULL, &arena, &value, NULL), CDZ_OK);
    char *text = written(&value);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "[0.5, 1000.0]");
    free(text);
    cdz_arena_free(&arena);
}

/* --- UTF-8 ----------------------------------------------------------------------------------- */

static void every_code_point_comes_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x110000; code++) {
        char bytes[4];
        uint32_t back = 0;
        size_t n = cdz_utf8_encode(code, bytes);
        bool scalar = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        assert_int_equal(n != 0, scalar);
        if (!n) continue;
        assert_int_equal(cdz_utf8_decode(bytes, n, &back), n);
        assert_int_equal(back, code);
        assert_int_equal(cdz_utf8_decode(bytes, n - 1, &back), 0);
    }
}

static const struct {
    const char *name, *text;
    size_t len, bad, prefix, count;
    bool cut;
} parts[] = {
    {"lone lead of two", TEXT("\xC3"), 1, 0, 1, true},
    {"two of three", TEXT("\xE2\x82"), 2, 0, 1, true},
    {"three of four", TEXT("\xF0\x9F\x98"), 3, 0, 1, true},
    {"two of three, then a letter", TEXT("\xE2\x82z"), 2, 0, 2, false},
    {"impossible second byte", TEXT("\xE0\x80\x80"), 1, 0, 3, false},
    {"byte that never occurs", TEXT("\xF5\x80\x80\x80"), 1, 0, 4, false},
    {"continuation first", TEXT("\x80\x80"), 1, 0, 2, false},
};

static void malformed_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(parts); i++) {
        bool cut = false;
        size_t n = cdz_utf8_bad(parts[i].text, parts[i].len, &cut);
        if (n != parts[i].bad || cut != parts[i].cut) fail_msg("%s: %zu", parts[i].name, n);
        assert_int_equal(cdz_utf8_valid_prefix(parts[i].text, parts[i].len), parts[i].prefix);
        assert_int_equal(cdz_utf8_count(parts[i].text, parts[i].len), parts[i].count);
    }
    assert_true(cdz_utf8_valid(TEXT("twelve ascii letters \xE2\x82\xAC and more than eight")));
    assert_int_equal(cdz_utf8_valid_prefix(TEXT("12345678abcdefgh\xFFz")), 16);
    assert_int_equal(cdz_utf8_count(TEXT("a\xC3\xA9\xF0\x9F\x98\x80")), 3);
}

/* --- against jansson ------------------------------------------------------------------------- */

#ifdef CADENZA_HAVE_JANSSON

static bool same(const cdz_json *a, const json_t *b);

static bool same_object(const cdz_json *a, const json_t *b)
{
    if (json_object_size(b) != a->len) return false;
    for (uint32_t i = 0; i < a->len; i++)
        if (!same(&a->members[i].value, json_object_get(b, a->members[i].key))) return false;
    return true;
}

static bool same(const cdz_json *a, const json_t *b)
{
    if (!b) return false;
    switch ((cdz_json_type)a->type) {
    case CDZ_JSON_NULL: return json_is_null(b);
    case CDZ_JSON_BOOL: return json_is_boolean(b) && json_is_true(b) == a->boolean;
    case CDZ_JSON_INT: return json_is_integer(b) && json_integer_value(b) == a->integer;
    case CDZ_JSON_REAL: return json_is_real(b) && json_real_value(b) == a->real;
    case CDZ_JSON_STRING:
        return json_is_string(b) && json_string_length(b) == a->len &&
               memcmp(json_string_value(b), a->string, a->len) == 0;
    case CDZ_JSON_ARRAY:
        if (!json_is_array(b) || json_array_size(b) != a->len) return false;
        for (uint32_t i = 0; i < a->len; i++)
            if (!same(&a->items[i], json_array_get(b, i))) return false;
        return true;
    case CDZ_JSON_OBJECT: return json_is_object(b) && same_object(a, b);
    }
    return false;
}

/* jansson refuses integers past int64 and NUL in names, and takes numbers that underflow as
 * errors on some builds: these are ours alone. */
static bool theirs_alone(json_error_t *why)
{
    enum json_error_code code = json_error_code(why);
    return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

static void agree(const char *text, size_t len)
{
    cdz_arena arena = {0};
    cdz_json ours;
    cdz_error err = {0};
    json_error_t why;
    json_t *theirs =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    cdz_status st = parse(text, len, NULL, &arena, &ours, &err);
    bool agreed = theirs ? st == CDZ_OK && same(&ours, theirs) : st != CDZ_OK || theirs_alone(&why);
    if (!agreed) fail_msg("%.*s: ours: %s, theirs: %s", (int)len, text, err.text, why.text);
    json_decref(theirs);
    cdz_arena_free(&arena);
}

/* Random text of what JSON is made of; most is wrong, much is nearly right. */
static size_t random_text(uint64_t *seed, char *out)
{
    static const char *const pieces[] = {
        "{",     "}",       "[",     "]",           ",",
        ":",     "\"a\"",   "\"b\"", "\"\\u00e9\"", "1",
        "-0",    "0.5",     "1e5",   "true",        "null",
        " ",     "\n",      "\"",    "\\",          "\xC3\xA9",
        "\t",    "01",      "1.5E",  "\x80",        "\\ud83d\\ude00",
        "falsy", "\"\\n\"", "[1,2]", "{\"k\":0}",
    };
    size_t len = 0, n = 1 + next_random(seed) % 9;
    for (size_t i = 0; i < n; i++) {
        const char *piece = pieces[next_random(seed) % COUNT(pieces)];
        memcpy(out + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static void agrees_with_jansson(void **state)
{
    (void)state;
    char text[256];
    uint64_t seed = 1234567;
    for (size_t i = 0; i < COUNT(good); i++) agree(good[i].text, good[i].len);
    for (size_t i = 0; i < COUNT(bad); i++) agree(bad[i].text, bad[i].len);
    for (int i = 0; i < 60000; i++) agree(text, random_text(&seed, text));
}

/* One byte of a good document changed at a time. */
static void agrees_with_jansson_on_changed_bytes(void **state)
{
    (void)state;
    char text[] = "{\"a\": [1, -2.5e+3, \"x\\u00e9\\n\xE2\x82\xAC\"], \"b\": {\"c\": null}}";
    static const char changes[] = "\0\"\\{}[],:0-e. \x1f\x80\xC3\xFFu";
    for (size_t at = 0; at < sizeof text - 1; at++) {
        char old = text[at];
        for (size_t c = 0; c < sizeof changes - 1; c++) {
            text[at] = changes[c];
            agree(text, sizeof text - 1);
        }
        text[at] = old;
    }
}

#else

static void agrees_with_jansson(void **state)
{
    (void)state;
    print_message("built without jansson: nothing to compare with\n");
    skip();
}

#endif

/* Python's word, where the caller takes it; nowhere else, and no other of its words. */
static void infinity_is_a_word(void **state)
{
    (void)state;
    const cdz_json_limits python = {.infinity = true};
    static const char text[] = "[0.0, Infinity]", *const others[] = {"[NaN]", "[-Infinity]",
                                                                     "[Inf]"};
    cdz_arena arena = {0};
    cdz_json v;
    cdz_error err = {0};
    assert_int_equal(cdz_json_parse(text, strlen(text), "t.json", &python, &arena, &v, &err),
                     CDZ_OK);
    assert_int_equal(v.len, 2);
    assert_true(cdz_json_eq(&v.items[1], "Infinity"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(
            cdz_json_parse(others[i], strlen(others[i]), "t.json", &python, &arena, &v, &err),
            CDZ_E_INPUT);
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infinity_is_a_word),
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(truncated_at_every_byte),
        cmocka_unit_test(floods_end),
        cmocka_unit_test(a_million_names),
        cmocka_unit_test(repeated_name_in_a_large_object),
        cmocka_unit_test(last_of_a_repeated_name_wins_when_allowed),
        cmocka_unit_test(repeated_names_of_unchecked_objects_stay),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_limited_arena_is_a_sentence),
        cmocka_unit_test(places_are_lines_and_columns),
        cmocka_unit_test(questions),
        cmocka_unit_test(strings_are_written_valid),
        cmocka_unit_test(numbers_are_written_short),
        cmocka_unit_test(no_numbers_are_strings),
        cmocka_unit_test(random_numbers_come_back),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(every_code_point_comes_back),
        cmocka_unit_test(malformed_parts),
        cmocka_unit_test(agrees_with_jansson),
#ifdef CADENZA_HAVE_JANSSON
        cmocka_unit_test(agrees_with_jansson_on_changed_bytes),
#endif
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
