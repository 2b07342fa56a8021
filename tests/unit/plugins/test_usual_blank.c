/* test_usual_blank.c - the whitespace that the drafter `forced` expects in a text such as JSON, by what the text has so far. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../drafters/forced/usual.h"

static void whitespace_is_as_the_text_has_it(void **unused)
{
    static const struct {
        const char *text;
        char next;
        const char *blank;
    } rows[] = {
        {"", '{', ""},
        /* nothing was seen: as JSON is mostly written */
        {"{", '"', ""},
        {"{\"a\"", ':', ""},
        {"{\"a\":", '"', " "},
        {"{\"a\": 1,", '"', " "},
        {"{\"a\": [", '{', ""},
        {"{\"a\": 1", '}', ""},
        /* between the same two bytes */
        {"{\"a\" : 1,\t\"b\"", ':', " "},
        {"{\"a\" : 1,\t\"b\" : 2,", '"', "\t"},
        {"{\"a\":\"x\",\"b\":", '"', ""},
        {"{ \"a\": 1, \"b\": {", '"', " "},
        /* behind the same two */
        {"{\"a\":  \"x\", \"b\":", '[', "  "},
        {"{\"a\":[1,22],\"b\":[3,22]", ',', ""},
        /* no space behind a colon, none behind a comma */
        {"{\"a\":\"x\"", ',', ""},
        {"{\"a\":\"x\",", '"', ""},
        {"{\"at\": \"10:30\",", '"', " "},
        /* lines: a step deeper behind what opens, less before what closes */
        {"{\n  \"a\": 1,", '"', "\n  "},
        {"{\n  \"a\": {", '"', "\n    "},
        {"{\n  \"a\": {\n    \"b\": 1", '}', "\n  "},
        {"{\n  \"a\": {\n    \"b\": 1\n  }", '}', "\n"},
        {"{\n  \"a\": {\n    \"b\": 1\n  },", '"', "\n  "},
        {"{\n\t\"a\": {", '"', "\n\t\t"},
        {"{\n   \"a\": [\n      {", '"', "\n         "},
        {"{\n  \"a\": [", ']', ""},
        {"{\n\"a\": 1,", '"', "\n"},
        {"{\n  \"a\": [1, 2,", '3', "\n  "},
        {"{\n  \"a\": [1, 3,", '3', " "},
        /* some of it stands there */
        {"{\"a\": 1, ", '"', ""},
        {"{\n  \"a\": 1,\n", '"', "  "},
        {"{\n  \"a\": 1,\n ", '"', " "},
        {"{\n  \"a\": 1,\n  ", '"', ""},
        {"{\n  \"a\": 1,\n   ", '"', ""},
        {"{\"a\": \t", '1', ""},
        {" \n", '{', ""},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[USUAL_MOST + 1];
        const size_t n = usual_blank(rows[i].text, strlen(rows[i].text), rows[i].next, out);
        out[n] = '\0';
        if (strcmp(out, rows[i].blank) != 0)
            fail_msg("before %c of %s: \"%s\", expected \"%s\"", rows[i].next, rows[i].text, out,
                     rows[i].blank);
    }
}

/* What is too long is left out, and any bytes are taken. */
static void any_text_is_taken(void **unused)
{
    enum { N = 300 };
    char text[2 * N + 2], out[USUAL_MOST];
    uint32_t random = 1;
    (void)unused;
    memset(text, ' ', sizeof text);
    text[0] = text[N] = ',';
    text[N - 1] = '"';
    assert_int_equal(usual_blank(text, N + 1, '"', out), 0);
    for (size_t round = 0; round < 20000; round++) {
        static const char bytes[] = "{}[]:,\"a1 \t\n\r\\";
        const size_t n = round % 40;
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = bytes[(random >> 16) % (sizeof bytes - 1)];
        }
        const char next = bytes[(random >> 8) % (sizeof bytes - 1)];
        const size_t len = usual_blank(text, n, next, out);
        assert_true(len <= USUAL_MOST);
        for (size_t i = 0; i < len; i++) assert_non_null(memchr(" \t\n\r", out[i], 4));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whitespace_is_as_the_text_has_it),
        cmocka_unit_test(any_text_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
