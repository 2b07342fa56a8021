/* test_template_cost.c - what a rendering may cost: every filter, test, method and operator over odd values ends in a
 * value or a sentence, operations are counted by what they go through, and a template of few steps that each cost
 * megabytes ends in a sentence. Cost is counted, never timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "template/template.h"
#include "template/value.h" /* before cmocka, which makes a macro of fail */

#include <cmocka.h>

/* Forms are this file's own. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static cdz_status render(const char *text, cdz_template_options *options, cdz_buf *out,
                         cdz_error *err)
{
    cdz_template *tpl = NULL;
    cdz_status status = cdz_template_compile(text, strlen(text), "t", &tpl, err);
    if (status == CDZ_OK) status = cdz_template_render(tpl, NULL, options, out, err);
    cdz_template_free(tpl);
    return status;
}

/* --- every row over odd values ---------------------------------------------------------------------------- */

static const char *const odd[] = {
    "none",
    "gone",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "(-9223372036854775807 - 1)",
    "99999999999999999999999",
    "1e308",
    "''",
    "'a\\u03a3 <b'",
    "('ab ' * 500)",
    "[]",
    "[1, [2, [none]], gone]",
    "(1, (2,))",
    "{'a': [1], 'b': {'c': none}}",
    "range(3)",
    "range(-9223372036854775807, 9223372036854775807, 9223372036854775807)",
};

/* No odd expression may cost more than this, which is a small part of the budgets. */
enum { MOST_STEPS = 300000, MOST_TOUCHED = 32 << 20 };

static unsigned walked;

static void walk_one(const char *text)
{
    cdz_buf out = {0};
    cdz_error err = {0};
    cdz_template_options options = {0};
    const cdz_status status = render(text, &options, &out, &err);
    if (status != CDZ_OK && !err.text[0]) fail_msg("%s: fails without a sentence", text);
    if (options.steps > MOST_STEPS || options.touched > MOST_TOUCHED)
        fail_msg("%s: %llu steps, %llu touched", text, (unsigned long long)options.steps,
                 (unsigned long long)options.touched);
    cdz_buf_free(&out);
    walked++;
}

/* form has three places: a value, a name, arguments. */
static void walk_row(const char *form, const char *name)
{
    char text[512], both[256];
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(text, sizeof text, form, odd[i], name, "");
        walk_one(text);
        for (size_t k = 0; k < COUNT(odd); k++) {
            snprintf(text, sizeof text, form, odd[i], name, odd[k]);
            walk_one(text);
            snprintf(both, sizeof both, "%s, %s", odd[k], odd[(i + k) % COUNT(odd)]);
            snprintf(text, sizeof text, form, odd[i], name, both);
            walk_one(text);
        }
    }
}

static void every_filter(void **unused)
{
    (void)unused;
    const builtin_row *const tables[] = {tpl_text_filters, tpl_list_filters, tpl_number_filters,
                                         tpl_select_filters};
    for (size_t t = 0; t < COUNT(tables); t++)
        for (const builtin_row *row = tables[t]; row->name; row++)
            walk_row("{{ %s | %s(%s) }}", row->name);
    print_message("%u expressions\n", walked);
}

static void every_test(void **unused)
{
    (void)unused;
    for (const builtin_row *row = tpl_compare_tests; row->name; row++)
        if (row->name[0] >= 'a') walk_row("{{ %s is %s(%s) }}", row->name);
}

static void every_method(void **unused)
{
    (void)unused;
    static const char *const others[] = {"get",   "keys",       "values",     "items", "copy",
                                         "index", "bit_length", "is_integer", "count"};
    for (const builtin_row *row = tpl_string_methods; row->name; row++)
        walk_row("{{ %s.%s(%s) }}", row->name);
    for (const builtin_row *row = tpl_string_more_methods; row->name; row++)
        walk_row("{{ %s.%s(%s) }}", row->name);
    for (size_t i = 0; i < COUNT(others); i++) walk_row("{{ (%s).%s(%s) }}", others[i]);
}

static void every_operator(void **unused)
{
    (void)unused;
    static const char *const forms[] = {
        "{{ %s + %s }}",
        "{{ %s - %s }}",
        "{{ %s * %s }}",
        "{{ %s / %s }}",
        "{{ %s // %s }}",
        "{{ %s %% %s }}",
        "{{ %s ** %s }}",
        "{{ %s ~ %s }}",
        "{{ %s == %s }}",
        "{{ %s < %s }}",
        "{{ %s in %s }}",
        "{{ (%s)[%s] }}",
        "{{ (%s)[%s:] }}",
        "{{ (%s)[::%s] }}",
        "{{ {%s: %s} }}",
        "{{ range(%s, 5, %s) | list }}",
        "{{ '%%*d' %% (%s, %s) }}",
        "{{ '{:{}}'.format(%s, %s) }}",
        "{{ [%s] | tojson(indent=%s) }}",
    };
    char text[512];
    for (size_t f = 0; f < COUNT(forms); f++)
        for (size_t i = 0; i < COUNT(odd); i++)
            for (size_t k = 0; k < COUNT(odd); k++) {
                snprintf(text, sizeof text, forms[f], odd[i], odd[k]);
                walk_one(text);
            }
}

/* --- cost grows as the text does ---------------------------------------------------------------------------- */

static uint64_t touched_by(const char *form, unsigned n)
{
    char text[512];
    cdz_buf out = {0};
    cdz_error err = {0};
    cdz_template_options options = {.max_touched = UINT64_MAX};
    snprintf(text, sizeof text, form, n);
    if (render(text, &options, &out, &err) != CDZ_OK) fail_msg("%s: %s", text, err.text);
    cdz_buf_free(&out);
    return options.touched;
}

static void linear(void **unused)
{
    (void)unused;
    static const char *const forms[] = {
        "{{ ('<' * %u) | striptags | length }}",
        "{{ ('<!--' * %u) | striptags | length }}",
        "{{ ('\\u03a3' * %u) | lower | length }}",
        "{{ ('a' * %u) | replace('a', 'bb') | length }}",
        "{{ ('a b ' * %u).split() | length }}",
        "{{ ('a b ' * %u).rsplit(' ') | length }}",
        "{{ ('a ' * %u) | wordwrap(7) | length }}",
        "{{ ('a' * %u) | tojson | length }}",
        "{{ ('\\x01' * %u) | tojson | length }}",
        "{{ ('a\\n' * %u) | indent | length }}",
        "{{ ('a' * %u) | urlencode | length }}",
        "{{ ('ab' * %u).rfind('zb') }}",
        "{{ 'b' in ('a' * %u) }}",
        "{{ ('a' * %u) is lower }}",
        "{{ [1] * %u == [1] * 3 }}",
        "{%% for c in 'a' * %u %%}{{ c }}{%% endfor %%}",
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        const uint64_t once = touched_by(forms[i], 20000), twice = touched_by(forms[i], 40000);
        if (once < 20000 || twice > once * 21 / 10)
            fail_msg("%s: %llu units, then %llu of twice the text", forms[i],
                     (unsigned long long)once, (unsigned long long)twice);
    }
}

/* --- few steps, much work ----------------------------------------------------------------------------------- */

static void refused(void **unused)
{
    (void)unused;
#define LONG "{% set s = 'a' * 4000000 %}{% for i in range(90000) %}{% if "
#define END  " %}{% endif %}{% endfor %}"
    static const struct {
        const char *text, *words;
    } cases[] = {
        {LONG "'b' in s" END, "goes through more than 1024 MiB"},
        {LONG "s == s ~ ''" END, "MiB"},
        {LONG "s is lower" END, "goes through"},
        {LONG "s | length" END, "goes through"},
        {LONG "s.isalpha()" END, "goes through"},
        {LONG "s.startswith(s)" END, "goes through"},
        {LONG "s.count('b')" END, "goes through"},
        {LONG "s.find('b')" END, "goes through"},
        {LONG "s < s" END, "goes through"},
        {LONG "s[9:] is sameas s" END, "goes through"},
        {LONG "s | wordcount" END, "goes through"},
        {"{{ ('a' * 4000000).strip('b' * 2000000 ~ 'a') }}", "goes through"},
        {"{{ ('a' * 4000000).rfind('b' ~ 'a' * 2000000) }}{{ ('a' * 4000000).rfind('a' * 2000000 ~ "
         "'b') }}{{ ('ba' * 2000000).rfind('b' * 2 ~ 'ab' * 900000) }}{{ ('a' * 4000000).rpartition("
         "'a' * 2000000 ~ 'b') }}",
         "goes through"},
        {"{% set n = namespace(x=()) %}{% for i in range(60) %}{% set n.x = (n.x, n.x) %}{% endfor %}"
         "{{ {n.x: 1} }}",
         "steps"},
        {"{% set n = namespace(x=()) %}{% for i in range(9999) %}{% set n.x = (n.x,) %}{% endfor %}"
         "{{ {n.x: 1} }}",
         "nested more than 100 deep"},
        {"{% macro m(n) %}{{ 'a' * 1500000 }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}"
         "{{ m(90) | length }}",
         "MiB"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_buf out = {0};
        cdz_error err = {0};
        const cdz_status status = render(cases[i].text, NULL, &out, &err);
        if (status != CDZ_E_LIMIT || !strstr(err.text, cases[i].words))
            fail_msg("%s: status %d, '%s'", cases[i].text, status, err.text);
        cdz_buf_free(&out);
    }
}

/* --- what is worked out at the edges --------------------------------------------------------------------------- */

static void edges(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{{ [1, 2] | batch(10**12) | list }}", "[[1, 2]]"},
        {"{{ none | select | list }}{{ none | reject('odd') | list }}", "[][]"},
        {"{{ none | selectattr('a') | list }}{{ none | rejectattr('a', 'odd') | list }}", "[][]"},
        {"{{ 0 | select | list }}{{ none | map('upper') | list }}", "[][]"},
        {"{{ [1, 2] | batch(0) | list }}{{ [1, 2] | batch(-1) | list }}", "[[], [1, 2]][[1, 2]]"},
        {"{{ [3, 'x'] | map('upper_'[:5]) | list }}", "['3', 'X']"},
        {"{{ 'a'.center(-9223372036854775807 - 1) }}{{ 'b'.zfill(-9223372036854775807 - 1) }}",
         "ab"},
        {"{{ '%*d|' % (-3, 7) }}", "7  |"},
        {"{{ 1.5 | round(1000) }} {{ 1.5 | round(-1000) }}", "1.5 0.0"},
        {"{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)[-1] }}", "0"},
        {"{{ 5e-324 }} {{ 0.1 }} {{ 123456789012345680.0 }} {{ 2.5e-310 }}",
         "5e-324 0.1 1.2345678901234568e+17 2.5e-310"},
        {"{{ {'b': 1, 'a': 2, 'c': 3} | tojson(sort_keys=true) }}",
         "{\"a\": 2, \"b\": 1, \"c\": 3}"},
        {"{{ '\\u039f\\u03a3 \\u03a3' | lower }}", "\u03bf\u03c2 \u03c3"},
        {"{{ '<a <b> <!-- c' | striptags }}", "<!-- c"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_buf out = {0};
        cdz_error err = {0};
        if (render(cases[i].text, NULL, &out, &err) != CDZ_OK)
            fail_msg("%s: %s", cases[i].text, err.text);
        if (!out.data || strcmp(out.data, cases[i].expected) != 0)
            fail_msg("%s: '%s', expected '%s'", cases[i].text, out.data ? out.data : "",
                     cases[i].expected);
        cdz_buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_filter), cmocka_unit_test(every_test),
        cmocka_unit_test(every_method), cmocka_unit_test(every_operator),
        cmocka_unit_test(linear),       cmocka_unit_test(refused),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
