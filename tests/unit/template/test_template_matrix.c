/* test_template_matrix.c - every filter, test, method, global and operator over odd values and arguments, as Jinja2 has
 * them: templates/matrix.json, made by templates/gen/make_matrix.py. Outputs are the same to the byte; where Jinja2 has an
 * error there is one here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/documents.h"
#include "template/template.h"

enum { SHOWN = 20 };

static const char *only; /* rows whose form has this in it; NULL: all */

typedef struct table {
    const cdz_json *values, *arguments;
    unsigned compared, failed;
    unsigned differ, shown; /* of the row */
} table;

static cdz_status render(const char *text, cdz_buf *out, cdz_error *err)
{
    cdz_template *tpl = NULL;
    cdz_status status = cdz_template_compile(text, strlen(text), "t", &tpl, err);
    if (status == CDZ_OK) status = cdz_template_render(tpl, NULL, NULL, out, err);
    cdz_template_free(tpl);
    return status;
}

static void put_form(cdz_buf *text, const char *form, const char *value, const char *argument)
{
    cdz_buf_printf(text, "{%% set v = %s %%}", value);
    if (argument) cdz_buf_printf(text, "{%% set a = %s %%}", argument);
    for (; *form; form++) {
        const bool place = form[0] == '%' && (form[1] == 'V' || form[1] == 'A');
        if (place)
            cdz_buf_puts(text, *++form == 'V' ? "v" : "a");
        else
            cdz_buf_putc(text, *form);
    }
}

/* Forms of which so many expressions differ, no more and no fewer: docs/departures.md has them in words (arguments of another
 * type than theirs, numbers past 64 bits, urlize). */
static const struct {
    const char *form;
    unsigned differ;
} known[] = {
    {"{% set j = joiner(%V) %}{{ j() }}{{ j() }}", 1},
    {"{{ %V is filter }}", 6},
    {"{{ %V is test }}", 6},
    {"{{ %V | batch | list }}", 14},
    {"{{ %V | batch(%A) | list }}", 126},
    {"{{ %V | batch(%A, 'a') | list }}", 50},
    {"{{ %V | batch('a', %A) | list }}", 66},
    {"{{ %V | dictsort('a', %A) }}", 2},
    {"{{ %V | dictsort(2, %A) }}", 2},
    {"{{ %V | filesizeformat }}", 1},
    {"{{ %V | filesizeformat(%A) }}", 14},
    {"{{ %V | groupby(%A) }}", 11},
    {"{{ %V | groupby(%A, 'a') }}", 130},
    {"{{ %V | groupby('a', %A) }}", 99},
    {"{{ %V | groupby(2, %A) }}", 110},
    {"{{ %V | groupby(attribute=%A) }}", 11},
    {"{{ %V | groupby(attribute='a', default=%A) }}", 99},
    {"{{ %V | int(%A, 'a') }}", 70},
    {"{{ %V | int('a', %A) }}", 45},
    {"{{ %V | int(2, %A) }}", 45},
    {"{{ %V | join(%A) }}", 10},
    {"{{ %V | join(%A, 'a') }}", 10},
    {"{{ %V | map(attribute=%A) | list }}", 10},
    {"{{ %V | pprint }}", 1},
    {"{{ %V | rejectattr(%A) | list }}", 10},
    {"{{ %V | round }}", 1},
    {"{{ %V | round(%A) }}", 11},
    {"{{ %V | round(2, %A) }}", 6},
    {"{{ %V | selectattr(%A) | list }}", 10},
    {"{{ %V | slice(%A) | list }}", 14},
    {"{{ %V | slice(%A, 'a') | list }}", 36},
    {"{{ %V | slice(2, %A) | list }}", 104},
    {"{{ %V | sort(%A) }}", 110},
    {"{{ %V | sort(attribute=%A) }}", 115},
    {"{{ %V | sum(%A, 'a') }}", 71},
    {"{{ %V | sum('a', %A) }}", 12},
    {"{{ %V | sum(2, %A) }}", 12},
    {"{{ %V | tojson('a', %A) }}", 30},
    {"{{ %V | tojson(2, %A) }}", 30},
    {"{{ %V | urlize }}", 21},
    {"{{ %V | urlize(%A) }}", 294},
    {"{{ %V | wordwrap }}", 1},
    {"{{ %V | wordwrap(%A) }}", 15},
    {"{{ %V | wordwrap(%A, 'a') }}", 15},
    {"{{ %V | wordwrap('a', %A) }}", 14},
    {"{{ %V | wordwrap(2, %A) }}", 23},
    {"{{ (%V) * (%A) }}", 4},
    {"{{ (%V) ** (%A) }}", 2},
    {"{{ (%V) + (%A) }}", 5},
    {"{{ (%V) - (%A) }}", 2},
    {"{{ (%V).center() }}", 5},
    {"{{ (%V).count(%A) }}", 14},
    {"{{ (%V).count() }}", 5},
    {"{{ (%V).encode(%A) }}", 5},
    {"{{ (%V).format_map(%A) }}", 65},
    {"{{ (%V).get() }}", 2},
    {"{{ (%V).index(%A) }}", 3},
    {"{{ (%V).is_integer() }}", 5},
    {"{{ (%V).ljust() }}", 5},
    {"{{ (%V).removeprefix(%A) }}", 5},
    {"{{ (%V).removeprefix() }}", 5},
    {"{{ (%V).removesuffix(%A) }}", 5},
    {"{{ (%V).removesuffix() }}", 5},
    {"{{ (%V).rjust() }}", 5},
    {"{{ (%V).splitlines(%A) }}", 50},
    {"{{ (%V).translate(%A) }}", 33},
    {"{{ (%V).zfill() }}", 5},
    {"{{ (%V)[::%A] }}", 1},
    {"{{ dict(%V) is defined }}", 1},
    {"{{ namespace(%V) is defined }}", 1},
};

static unsigned known_of(const char *form)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].form, form) == 0) return known[i].differ;
    return 0;
}

/* expected is the output, or a number where there is an error; null is not compared. */
static void check(table *t, const char *form, const char *value, const char *argument,
                  const cdz_json *expected)
{
    cdz_buf text = {0}, out = {0};
    cdz_error err = {0};
    if (cdz_json_is(expected, CDZ_JSON_NULL)) return;
    put_form(&text, form, value, argument);
    const cdz_status status = render(text.data, &out, &err);
    const bool fails = !cdz_json_is(expected, CDZ_JSON_STRING);
    const bool same = fails
                          ? status != CDZ_OK
                          : status == CDZ_OK && out.len == expected->len &&
                                (out.len == 0 || memcmp(out.data, expected->string, out.len) == 0);
    t->compared++;
    if (!same && t->differ++ < t->shown)
        print_message("%s\n   is '%s'\n   not '%s'\n", text.data,
                      fails ? "an error" : expected->string,
                      status == CDZ_OK ? (out.data ? out.data : "") : err.text);
    cdz_buf_free(&text);
    cdz_buf_free(&out);
}

static void check_outcomes(table *t, const char *form, const cdz_json *out)
{
    t->differ = 0;
    for (uint32_t v = 0; v < out->len; v++) {
        const cdz_json *outcome = &out->items[v];
        const char *value = t->values->items[v].string;
        if (!cdz_json_is(outcome, CDZ_JSON_ARRAY)) check(t, form, value, NULL, outcome);
        for (uint32_t a = 0; cdz_json_is(outcome, CDZ_JSON_ARRAY) && a < outcome->len; a++)
            check(t, form, value, t->arguments->items[a].string, &outcome->items[a]);
    }
}

/* Where the count is another than is known, the row is gone through again, and shown. */
static void check_row(table *t, const cdz_json *row)
{
    const char *form = cdz_json_get(row, "form")->string;
    t->shown = only ? SHOWN : 0;
    check_outcomes(t, form, cdz_json_get(row, "out"));
    if (t->differ == known_of(form)) return;
    print_message("%s: %u differ, %u are known\n", form, t->differ, known_of(form));
    t->failed++;
    t->shown = SHOWN;
    check_outcomes(t, form, cdz_json_get(row, "out"));
}

static void matrix(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    table t = {0};
    const cdz_json *root = document_in(&arena, CADENZA_TEST_DATA "/templates/matrix.json");
    t.values = cdz_json_get(root, "values");
    t.arguments = cdz_json_get(root, "arguments");
    const cdz_json *rows = cdz_json_get(root, "rows");
    for (uint32_t i = 0; i < rows->len; i++)
        if (!only || strstr(cdz_json_get(&rows->items[i], "form")->string, only))
            check_row(&t, &rows->items[i]);
    print_message("%u expressions; %u forms differ otherwise than is known\n", t.compared, t.failed);
    assert_int_equal(t.failed, 0);
    cdz_arena_free(&arena);
}

/* test_template_matrix [PART OF A FORM] */
int main(int argc, char **argv)
{
    if (argc > 1) only = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
