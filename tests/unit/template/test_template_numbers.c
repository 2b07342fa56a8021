/* test_template_numbers.c - every filter, test, method, function and operator of templates with numbers at the ends of their
 * types, and with what is no number: a text or a sentence comes of it, within small budgets. The sanitizers watch.
 *
 * CADENZA_NUMBERS_SHOWN=1: every template with what it gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before cmocka, whose fail is a macro. */
#include "template/methods.h"
#include "template/template.h"

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const extremes[] = {
    "0",
    "1",
    "-1",
    "2",
    "-3",
    "64",
    "(-9223372036854775807 - 1)",
    "-9223372036854775807",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "4611686018427387904",
    "9007199254740993",
    "1.5",
    "1e308",
    "-1e308",
    "1e-320",
    "(1e308 * 10)",
    "(1e308 * 10 - 1e308 * 10)",
    "'x'",
    "''",
    "true",
    "none",
    "[]",
    "[1, 2]",
    "{'a': 1}",
    "nowhere",
};

/* Budgets so small that endless work ends at once. */
static void render(const char *text)
{
    static const cdz_json nothing = {.type = CDZ_JSON_OBJECT};
    cdz_template_options options = {.max_steps = 20000,
                                    .max_touched = 4 << 20,
                                    .max_output = 64 << 10,
                                    .clock = "2026-01-15T12:34:56"};
    static int shown = -1;
    cdz_template *tpl = NULL;
    cdz_buf out = {0};
    cdz_error err = {0};
    if (shown < 0) shown = getenv("CADENZA_NUMBERS_SHOWN") != NULL;
    if (shown) fprintf(stderr, "%s: ", text); /* what a sanitizer stops says where */
    cdz_status status = cdz_template_compile(text, strlen(text), "t", &tpl, &err);
    if (status == CDZ_OK) status = cdz_template_render(tpl, &nothing, &options, &out, &err);
    if (shown) fprintf(stderr, "%.80s\n", status != CDZ_OK ? err.text : out.data ? out.data : "");
    if (status != CDZ_OK && !err.text[0]) fail_msg("%s: refused in silence", text);
    if (out.len > options.max_output) fail_msg("%s: %zu bytes", text, out.len);
    cdz_template_free(tpl);
    cdz_buf_free(&out);
}

/* The pattern, with '@' and '$' for extremes: all of both where it has both. */
static void each_extreme(const char *pattern)
{
    cdz_buf text = {0};
    const size_t others = strchr(pattern, '$') ? COUNT(extremes) : 1;
    for (size_t i = 0; i < COUNT(extremes); i++)
        for (size_t k = 0; k < others; k++) {
            cdz_buf_clear(&text);
            for (const char *c = pattern; *c; c++) {
                if (*c == '@' || *c == '$')
                    cdz_buf_puts(&text, extremes[*c == '@' ? i : k]);
                else
                    cdz_buf_putc(&text, *c);
            }
            render(text.data);
        }
    cdz_buf_free(&text);
}

static const char *const subjects[] = {"'ab \xc3\xa9 c ab'", "[3, 1, 2]", "{'a': 1, 'b': 2}", "@",
                                       "range(7)"};
static const char *const arguments[] = {
    "",
    "(@)",
    "(@, @)",
    "(1, @)",
    "('b', @)",
    "(@, 'b')",
    "('b', 'c', @)",
    "('b', @, @)",
    "(1, true, '.', @)",
};

/* before, the subject, between, the name, the arguments, after */
static void each_call(const char *before, const char *between, const char *name, const char *after)
{
    char pattern[256];
    for (size_t s = 0; s < COUNT(subjects); s++)
        for (size_t a = 0; a < COUNT(arguments); a++) {
            snprintf(pattern, sizeof pattern, "%s%s%s%s%s%s", before, subjects[s], between, name,
                     arguments[a], after);
            each_extreme(pattern);
        }
}

static void filters_take_any_number(void **none)
{
    (void)none;
    const builtin_row *const lists[] = {tpl_text_filters, tpl_list_filters, tpl_number_filters,
                                        tpl_select_filters};
    for (size_t i = 0; i < COUNT(lists); i++)
        for (const builtin_row *row = lists[i]; row->name; row++)
            each_call("{{ (", ")|", row->name, "|list|string }}{{ 1 }}");
}

static void tests_take_any_number(void **none)
{
    (void)none;
    for (const builtin_row *row = tpl_compare_tests; row->name; row++)
        if (row->name[0] >= 'a' && row->name[0] <= 'z')
            each_call("{{ (", ") is ", row->name, " }}");
}

static void methods_take_any_number(void **none)
{
    (void)none;
    static const char *const others[] = {"get",        "keys",  "values", "items",
                                         "copy",       "index", "count",  "bit_length",
                                         "is_integer", "next",  "cycle"};
    const builtin_row *const lists[] = {tpl_string_methods, tpl_string_more_methods};
    for (size_t i = 0; i < COUNT(lists); i++)
        for (const builtin_row *row = lists[i]; row->name; row++)
            each_call("{{ (", ").", row->name, " }}");
    for (size_t i = 0; i < COUNT(others); i++) each_call("{{ (", ").", others[i], " }}");
}

static void operators_and_functions_take_any_number(void **none)
{
    (void)none;
    static const char *const patterns[] = {
        "{{ @ + $ }}",
        "{{ @ - $ }}",
        "{{ @ * $ }}",
        "{{ @ / $ }}",
        "{{ @ // $ }}",
        "{{ @ % $ }}",
        "{{ @ ** $ }}",
        "{{ @ ~ $ }}",
        "{{ @ < $ }}{{ @ == $ }}{{ @ in $ }}",
        "{{ -@ }}{{ +@ }}{{ not @ }}",
        "{{ 'abc' * @ }}",
        "{{ [1, 2] * @ }}",
        "{{ 'abc'[@] }}",
        "{{ [1, 2][@] }}",
        "{{ range(5)[@] }}",
        "{{ {1: 2}[@] }}",
        "{{ 'abcdef'[@:$] }}",
        "{{ [1, 2, 3, 4][@:$] }}",
        "{{ 'abcdef'[::@] }}",
        "{{ 'abcdef'[@::$] }}",
        "{{ [1, 2, 3, 4][:@:$] }}",
        "{{ range(@)|length }}",
        "{{ range(@, $)|list|length }}",
        "{{ range(0, @, $)|list }}{{ range(0, @, $) }}",
        "{{ range(@, $, 4611686018427387904)|list }}",
        "{{ range(@, $, 4611686018427387904)[1:] }}",
        "{{ range(-9223372036854775807, 9223372036854775807, 4611686018427387904)[@:$] }}",
        "{{ range(-9223372036854775807, 9223372036854775807, 4611686018427387904)[::@]|list }}",
        "{{ range(9)[@:$:@]|list }}",
        "{{ '%d|%5d|%x|%o|%f|%e|%g|%s' % (@, @, @, @, @, @, @, @) }}",
        "{{ '%*d' % (@, $) }}",
        "{{ '%.*f' % (@, $) }}",
        "{{ '%-*.*f' % (@, $, 2) }}",
        "{{ '{:d}{:b}{:x}{:,}{:.3f}{:%}'.format(@, @, @, @, @, @) }}",
        "{{ '{:9223372036854775807}'.format(@) }}{{ '{:.9223372036854775807f}'.format(@) }}",
        "{{ '{99999999999999999999}'.format(@) }}",
        "{{ '{0[99999999999999999999]}'.format(@) }}",
        "{{ '{:>18446744073709551616}'.format(@) }}",
        "{{ @.real }}{{ @['real'] }}",
        "{{ lipsum(@) }}",
        "{{ dict(a=@) }}{{ namespace(a=@).a }}",
        "{{ cycler(@, $).next() }}{{ joiner(@)() }}",
        "{{ strftime_now(@) }}",
        "{% for i in @ %}{{ loop.index }}{{ loop.cycle(@, $) }}{% endfor %}",
        "{% for i in range(3) %}{{ loop.cycle(@) }}{{ loop.changed(@) }}{% endfor %}",
        "{% set n = namespace(a=@) %}{% for i in range(3) %}{% set n.a = n.a * $ %}{% endfor %}{{ n.a }}",
        "{% macro f(a, b=@) %}{{ a * b }}{% endmacro %}{{ f($) }}",
        "{{ [@, $]|sort }}{{ [@, $]|sum }}{{ [@, $]|max }}{{ [@, $]|unique|list }}",
        "{{ [[@, 1], [$, 2]]|map(attribute=@)|list }}",
        "{{ [{'a': @}, {'a': $}]|groupby('a') }}",
        "{{ @ if $ else 1 }}",
    };
    for (size_t i = 0; i < COUNT(patterns); i++) each_extreme(patterns[i]);
}

/* Where slices of ranges leave 64 bits, and where they do not. */
static void slices_of_ranges_are_right_or_refused(void **none)
{
#define WIDE "range(-9223372036854775807 - 1, 9223372036854775807, 4611686018427387904)"
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{{ " WIDE "[1:3]|list }}", "[-4611686018427387904, 0]"},
        {"{{ " WIDE "[::2]|list }}", "more than 64 bits"}, /* the step is 2 ** 63 */
        {"{{ " WIDE "[::3]|list }}", "more than 64 bits"},
        {"{{ range(0, 9223372036854775807, 4611686018427387904)[:9] }}", "more than 64 bits"},
        {"{{ range(10)[::3]|list }}{{ range(10)[::-4]|list }}", "[0, 3, 6, 9][9, 5, 1]"},
        {"{{ range(10)[2:5] }}", "range(2, 5)"},
        {"{{ '{0[4294967296]}'.format({4294967296: 'far'}) }}", "far"},
    };
#undef WIDE
    (void)none;
    for (size_t i = 0; i < COUNT(cases); i++) {
        static const cdz_json nothing = {.type = CDZ_JSON_OBJECT};
        cdz_template *tpl = NULL;
        cdz_buf out = {0};
        cdz_error err = {0};
        const char *text = cases[i].text;
        if (cdz_template_compile(text, strlen(text), "t", &tpl, &err) == CDZ_OK)
            (void)cdz_template_render(tpl, &nothing, NULL, &out, &err);
        const char *found = out.data && !err.text[0] ? out.data : err.text;
        if (!strstr(found, cases[i].expected)) fail_msg("%s: %s", text, found);
        cdz_template_free(tpl);
        cdz_buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_ranges_are_right_or_refused),
        cmocka_unit_test(operators_and_functions_take_any_number),
        cmocka_unit_test(filters_take_any_number),
        cmocka_unit_test(tests_take_any_number),
        cmocka_unit_test(methods_take_any_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
