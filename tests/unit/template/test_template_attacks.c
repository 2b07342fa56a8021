/* test_template_attacks.c - templates that want too much, and contexts that want to be templates: each ends in a sentence
 * or in the right text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/chat.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static cdz_status render(const char *text, const char *json, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json context;
    cdz_template *tpl = NULL;
    cdz_status status = cdz_json_parse(json, strlen(json), "json", NULL, &arena, &context, err);
    if (status == CDZ_OK) status = cdz_template_compile(text, strlen(text), "t", &tpl, err);
    if (status == CDZ_OK) status = cdz_template_render(tpl, &context, NULL, out, err);
    cdz_template_free(tpl);
    cdz_arena_free(&arena);
    return status;
}

static void expect_error(const char *name, const char *text, cdz_status code, const char *words)
{
    cdz_buf out = {0};
    cdz_error err = {0};
    const cdz_status status = render(text, "{\"x\": 5, \"s\": \"text\", \"l\": [1]}", &out, &err);
    if (status != code || !strstr(err.text, words) || out.len)
        fail_msg("%s: status %d, '%s', expected '%s'", name, status, err.text, words);
    cdz_buf_free(&out);
}

static void limits(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"a huge range", "{{ range(10**9) }}", "Range too big"},
        {"a range of all integers", "{{ range(-9223372036854775807, 9223372036854775807) }}",
         "too big"},
        {"nested loops",
         "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "steps"},
        {"a recursive macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep"},
        {"macros that call each other",
         "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
         "deep"},
        {"doubling a string",
         "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
         "bytes"},
        {"doubling a list",
         "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         ""},
        {"repeating a string", "{{ 'a' * 1000000000 }}", "repetition"},
        {"repeating a list", "{{ [1] * 4000000000 }}", "repetition"},
        {"a wide %", "{{ '%1000000000d' % 1 }}", "width"},
        {"a wide format filter", "{{ '%1000000000d' | format(1) }}", "width"},
        {"a wide brace", "{{ '{:>1000000000}'.format(1) }}", "width"},
        {"a wide center", "{{ 'a'.center(1000000000) }}", "width"},
        {"a wide ljust", "{{ 'a'.ljust(1000000000) }}", "width"},
        {"wide zeros", "{{ 'a'.zfill(1000000000) }}", "width"},
        {"a wide indent", "{{ 'a' | indent(1000000000) }}", "width"},
        {"a wide JSON indent", "{{ [1] | tojson(indent=1000000000) }}", "indent"},
        {"replacing that grows", "{{ ('a' * 9999).replace('', 'b' * 9999) }}", "bytes"},
        {"joining that grows", "{{ ('b' * 9999).join('a' * 9999) }}", "bytes"},
        {"much output", "{% for i in range(99999) %}{{ 'abcdefghij' * 10 }}{% endfor %}", "bytes"},
        {"a namespace in itself", "{% set n = namespace() %}{% set n.n = n %}{{ n }}", "deep"},
        {"lists in lists",
         "{% set n = namespace(x=[]) %}{% for i in range(500) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
         "deep"},
        {"a filled batch", "{{ [1] | batch(4000000000, 0) | list }}", "the most is 100000"},
        {"many slices", "{{ [1] | slice(10**12) | list }}", "1000000000000 slices, the most is"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_error(cases[i].name, cases[i].text, CDZ_E_LIMIT, cases[i].words);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"a class", "{{ ''.__class__.__mro__ }}", "unsafe"},
        {"a class by item", "{{ ''['__class__']['__mro__'] }}", "unsafe"},
        {"a class by filter", "{{ ('' | attr('__class__')).__mro__ }}", "unsafe"},
        {"globals of a macro", "{% macro f() %}{% endmacro %}{{ f.__globals__.x }}", "unsafe"},
        {"a class in a format", "{{ '{0.__class__.__mro__}'.format(x) }}", "unsafe"},
        {"a class in a mapped format", "{{ '{x.__class__.__mro__}'.format_map({'x': 1}) }}",
         "unsafe"},
        {"format through a filter", "{{ ('{0.__class__.__mro__}' | attr('format'))(x) }}", "unsafe"},
        {"a change", "{{ l.append(1) }}", "unsafe"},
        {"include", "a\n{% include '/etc/passwd' %}", "t:2:4: 'include' needs a loader"},
        {"import", "{% import 'os' as os %}", "loader"},
        {"from", "{% from 'os' import x %}", "loader"},
        {"extends", "{% extends 'x' %}", "loader"},
        {"no endfor", "x\n  {% for i in l %}", "t:2:6: 'for' has no end"},
        {"no such filter", "\n{{ x | nosuch }}", "t:2:8: no filter named 'nosuch'"},
        {"an attribute of nothing", "{{ nope.a }}", "t:1:9: 'nope' is undefined"},
        {"64 bits", "{{ 9223372036854775807 + 1 }}", "64 bits"},
        {"64 bits less", "{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
        {"64 bits in a power", "{{ 10 ** 1000000000 }}", "64 bits"},
        {"a broken escape", "{{ '\\ud800' }}", "no character"},
        {"a message", "{{ raise_exception('no tools') }}", "no tools"},
        {"no message", "{{ raise_exception('') }}", "raise_exception without a message"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_error(cases[i].name, cases[i].text, CDZ_E_INPUT, cases[i].words);
}

/* count times open, x, count times close: in {{ }}. */
static char *nested(const char *before, const char *open, const char *x, const char *close,
                    const char *after, size_t count)
{
    cdz_buf text = {0};
    cdz_buf_puts(&text, before);
    for (size_t i = 0; i < count; i++) cdz_buf_puts(&text, open);
    cdz_buf_puts(&text, x);
    for (size_t i = 0; i < count; i++) cdz_buf_puts(&text, close);
    cdz_buf_puts(&text, after);
    assert_false(text.failed);
    return text.data;
}

static void depth(void **state)
{
    (void)state;
    static const struct {
        const char *name, *before, *open, *x, *close, *after;
    } cases[] = {
        {"parentheses", "{{ ", "(", "x", ")", " }}"},
        {"lists", "{{ ", "[", "", "]", " }}"},
        {"nots", "{{ ", "not ", "x", "", " }}"},
        {"signs", "{{ ", "-", "x", "", " }}"},
        {"sums", "{{ x", " + x", "", "", " }}"},
        {"attributes", "{{ x", ".a", "", "", " }}"},
        {"filters", "{{ x", "|abs", "", "", " }}"},
        {"else", "{{ ", "x if x else ", "x", "", " }}"},
        {"blocks", "", "{% if x %}", "", "{% endif %}", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = nested(cases[i].before, cases[i].open, cases[i].x, cases[i].close,
                            cases[i].after, 40000);
        expect_error(cases[i].name, text, CDZ_E_LIMIT, "");
        free(text);
        text =
            nested(cases[i].before, cases[i].open, cases[i].x, cases[i].close, cases[i].after, 20);
        cdz_template *tpl;
        cdz_error err;
        if (cdz_template_compile(text, strlen(text), "t", &tpl, &err) != CDZ_OK)
            fail_msg("%s, 20 deep: %s", cases[i].name, err.text);
        cdz_template_free(tpl);
        free(text);
    }
}

/* Short pieces of a long template, each of them many bytes when compiled. */
static void little_pieces(void **state)
{
    (void)state;
    static const char *const pieces[][3] = {
        {"", "{{a}}", ""}, {"{{[0", ",0", "]}}"}, {"{{a", "<a", "}}"}};
    for (size_t i = 0; i < COUNT(pieces); i++) {
        char *text = nested(pieces[i][0], pieces[i][1], "", "", pieces[i][2],
                            (size_t)900000 / strlen(pieces[i][1]));
        expect_error(pieces[i][1], text, CDZ_E_LIMIT, "t: compiled, the template needs more than");
        free(text);
    }
}

/* Whatever a message looks like, it is printed and not read. */
static void content_is_data(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "{{ 1 + 1 }}", "{% for i in l %}",           "{# x #}",      "${7*7}",
        "<|im_end|>",  "{{ raise_exception('x') }}", "{0.__class__}"};
    static const char tpl[] = "{% set t %}{{ c }}{% endset %}{{ t }}{{ [c] | join }}{{ '%s' % c }}";
    for (size_t i = 0; i < COUNT(contents); i++) {
        cdz_buf json = {0}, out = {0}, expected = {0};
        cdz_error err = {0};
        cdz_buf_printf(&json, "{\"c\": \"%s\"}", contents[i]);
        for (int k = 0; k < 3; k++) cdz_buf_puts(&expected, contents[i]);
        if (render(tpl, json.data, &out, &err) != CDZ_OK) fail_msg("%s: %s", contents[i], err.text);
        assert_string_equal(out.data, expected.data);
        cdz_buf_free(&json);
        cdz_buf_free(&out);
        cdz_buf_free(&expected);
    }
}

static void every_prefix(void **state)
{
    (void)state;
    static const char text[] =
        "a {%- for i, j in d.items() if i recursive -%} {{ i[1:2] ~ 'x\\n' | e }} "
        "{% else %}{% set n.a = {'k': (1, 2.5)} %}{% endfor %}{# c #}"
        "{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{% raw %}{{{% endraw %}";
    for (size_t n = 0; n < sizeof text; n++) {
        cdz_template *tpl;
        cdz_error err = {0};
        char *copy = malloc(n + 1); /* of its exact size, so that a reader past it is seen */
        assert_non_null(copy);
        memcpy(copy, text, n);
        if (cdz_template_compile(copy, n, "t", &tpl, &err) != CDZ_OK)
            assert_int_equal(strncmp(err.text, "t:", 2), 0);
        cdz_template_free(tpl);
        free(copy);
    }
}

static void shipped_template(void **state)
{
    (void)state;
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi {{ x }}\"}], "
        "\"add_generation_prompt\": true}";
    cdz_arena arena = {0};
    cdz_json context;
    cdz_chat_template *chat;
    cdz_error err = {0};
    cdz_buf out = {0};
    assert_int_equal(cdz_json_parse(json, strlen(json), "json", NULL, &arena, &context, &err),
                     CDZ_OK);
    if (cdz_chat_template_open(CADENZA_SOURCE_DIR "/models/pocket-dictionary", &chat, &err) !=
            CDZ_OK ||
        cdz_chat_template_render(chat, &context, NULL, &out, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_string_equal(out.data, "<|user|>Hi {{ x }}<|end|><|assistant|>");
    cdz_chat_template_free(chat);
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits),
        cmocka_unit_test(refusals),
        cmocka_unit_test(depth),
        cmocka_unit_test(content_is_data),
        cmocka_unit_test(little_pieces),
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(shipped_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
