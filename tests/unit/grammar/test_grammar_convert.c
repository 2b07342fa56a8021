/* test_grammar_convert.c - grammars written as GBNF and read again: the same language, or a refusal with a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "grammar/grammar.h"

enum { MOST_PAIRS = 80, SLOTS = 256, MOST_SHOWN = 10, SAMPLED_BYTES = 40000 };

static uint32_t n_wrong, n_converted, n_refused;

static void wrong(const char *id, const char *what, const char *text)
{
    if (n_wrong++ < MOST_SHOWN) print_message("%s: %s: %s\n", id, what, text ? text : "");
}

/* --- both at once ------------------------------------------------------------------------------------- */

typedef struct twin {
    uint32_t a, b;
} twin;

/* Notes a pair that is met first. */
static void meet(twin *pairs, uint32_t *n, uint32_t *slots, twin next)
{
    uint32_t at = (next.a * 31 + next.b) % SLOTS;
    while (slots[at] && (pairs[slots[at] - 1].a != next.a || pairs[slots[at] - 1].b != next.b))
        at = (at + 1) % SLOTS;
    if (slots[at] || *n == MOST_PAIRS) return;
    pairs[*n] = next;
    slots[at] = ++*n;
}

/* Walks both outwards, byte by byte: each pair of states is dead together, and accepts together. */
static void compare_walks(const char *id, cdz_grammar *a, cdz_grammar *b)
{
    static twin pairs[MOST_PAIRS];
    uint32_t slots[SLOTS] = {0}, n = 0;
    meet(pairs, &n, slots, (twin){cdz_grammar_start(a), cdz_grammar_start(b)});
    for (uint32_t i = 0; i < n; i++) {
        if (cdz_grammar_accepts(a, pairs[i].a) != cdz_grammar_accepts(b, pairs[i].b)) {
            wrong(id, "one accepts and the other does not", NULL);
            return;
        }
        for (uint32_t byte = 0; byte < 256; byte++) {
            const char c = (char)byte;
            const twin next = {cdz_grammar_feed(a, pairs[i].a, &c, 1),
                               cdz_grammar_feed(b, pairs[i].b, &c, 1)};
            if (!next.a != !next.b) {
                wrong(id, "one goes on and the other does not", NULL);
                return;
            }
            if (next.a) meet(pairs, &n, slots, next);
        }
    }
}

static void compare_samples(const char *id, cdz_grammar *from, cdz_grammar *with)
{
    uint64_t draws = 11;
    for (int i = 0; i < 2; i++) {
        cdz_buf text = {0};
        if (cdz_grammar_sample(from, &draws, &text, NULL) == CDZ_OK &&
            !cdz_grammar_accepts(
                with, cdz_grammar_feed(with, cdz_grammar_start(with), text.data, text.len)))
            wrong(id, "a member of one is none of the other", text.data);
        cdz_buf_free(&text);
    }
}

static cdz_grammar *converted(const char *id, cdz_grammar *g)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_grammar *again = NULL;
    const cdz_status st = cdz_grammar_to_gbnf(g, &text, &err);
    if (st == CDZ_OK) {
        n_converted++;
        if (cdz_grammar_from_gbnf(text.data, text.len, NULL, &again, &err) != CDZ_OK)
            wrong(id, err.text, text.data);
    } else {
        n_refused++;
        if (st != CDZ_E_UNSUPPORTED || strncmp(err.text, "GBNF cannot say it: ", 20) != 0)
            wrong(id, "refused without its reason", err.text);
    }
    cdz_buf_free(&text);
    return again;
}

/* --- the recorded cases ---------------------------------------------------------------------------------- */

static cdz_status compile(const cdz_json *row, cdz_grammar **out)
{
    const cdz_json *c = cdz_json_get(row, "constraint");
    cdz_buf text = {0};
    if (cdz_json_eq(cdz_json_get(row, "kind"), "regex"))
        return cdz_grammar_from_regex(c->string, c->len, NULL, out, NULL);
    cdz_json_write(&text, c);
    const cdz_status st = cdz_grammar_from_schema(text.data, text.len, NULL, out, NULL);
    cdz_buf_free(&text);
    return st;
}

static void check_lines(const char *id, const cdz_json *lines, cdz_grammar *g, cdz_grammar *again)
{
    for (uint32_t i = 0; i < lines->len; i++) {
        const cdz_json *text = cdz_json_get(&lines->items[i], "text");
        if (!cdz_json_is(text, CDZ_JSON_STRING)) continue;
        const uint32_t a = cdz_grammar_feed(g, cdz_grammar_start(g), text->string, text->len);
        const uint32_t b =
            cdz_grammar_feed(again, cdz_grammar_start(again), text->string, text->len);
        if (!a != !b || cdz_grammar_accepts(g, a) != cdz_grammar_accepts(again, b))
            wrong(id, "they differ about a text", text->string);
    }
}

static void check_row(const cdz_json *row)
{
    const char *id = cdz_json_get(row, "id")->string;
    cdz_grammar *g = NULL;
    if (compile(row, &g) != CDZ_OK) return;
    cdz_grammar *again = converted(id, g);
    if (again) {
        check_lines(id, cdz_json_get(row, "lines"), g, again);
        compare_walks(id, g, again);
        if (cdz_grammar_bytes(g) < SAMPLED_BYTES) { /* the way to an end is long in large ones */
            compare_samples(id, g, again);
            compare_samples(id, again, g);
        }
    }
    cdz_grammar_free(again);
    cdz_grammar_free(g);
}

static void check_file(const char *name)
{
    char path[512];
    char *text;
    size_t len;
    cdz_error err = {0};
    cdz_arena arena = {0};
    n_wrong = n_converted = n_refused = 0;
    snprintf(path, sizeof path, "%s/grammar/%s.jsonl", CADENZA_TEST_DATA, name);
    if (cdz_file_read(path, 64 << 20, &text, &len, &err) != CDZ_OK) fail_msg("%s", err.text);
    for (char *at = text, *end; *at; at = end + 1) {
        cdz_json row;
        end = strchr(at, '\n');
        assert_non_null(end);
        cdz_arena_reset(&arena);
        if (cdz_json_parse(at, (size_t)(end - at), path, NULL, &arena, &row, &err) != CDZ_OK)
            fail_msg("%s", err.text);
        check_row(&row);
    }
    free(text);
    cdz_arena_free(&arena);
    print_message("%s: %u converted, %u refused\n", name, n_converted, n_refused);
    if (n_wrong) fail_msg("%s: %u are wrong", name, n_wrong);
    assert_true(n_converted > 9 * n_refused);
}

static void recorded_cases_keep_their_language(void **state)
{
    static const char *const files[] = {"regex", "schema_text", "schema_more", "schema_real",
                                        "schema_suite"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) check_file(files[i]);
}

/* --- what GBNF cannot say ----------------------------------------------------------------------------------- */

static void refused(cdz_grammar *g, const char *reason)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    if (cdz_grammar_to_gbnf(g, &text, &err) != CDZ_E_UNSUPPORTED) fail_msg("%s", text.data);
    if (!strstr(err.text, reason)) fail_msg("%s", err.text);
    cdz_buf_free(&text);
    cdz_grammar_free(g);
}

static void what_gbnf_cannot_say_is_named(void **state)
{
    static const char *const broken[] = {"fine", "\xC3"};
    static const char schema[] = "{\"type\": \"string\", \"maxLength\": 2001}";
    static const char email[] = "{\"format\": \"email\", \"maxLength\": 255}";
    static const char *const gbnf[][2] = {
        {"root ::= root \"a\" | \"b\"", "a rule that begins with itself"},
        {"root ::= a\na ::= b* a | \"c\"\nb ::= \"x\"", "a rule that begins with itself"},
        {"root ::= \"a\" (b \"c\"? | b)*\nb ::= \"x\"?", "a repetition of what may be empty"},
        {"root ::= \"a\" <[7]>", "tokens by their number"},
    };
    cdz_grammar *g;
    (void)state;
    assert_int_equal(cdz_grammar_from_schema(schema, sizeof schema - 1, NULL, &g, NULL), CDZ_OK);
    refused(g, "a count of 2001 (by maxLength");
    assert_int_equal(cdz_grammar_from_schema(email, sizeof email - 1, NULL, &g, NULL), CDZ_OK);
    refused(g, "a length (maxLength or minLength) beside a pattern");
    assert_int_equal(cdz_grammar_from_choice(broken, 2, NULL, &g, NULL), CDZ_OK);
    refused(g, "a text that is not UTF-8");
    for (size_t i = 0; i < sizeof gbnf / sizeof *gbnf; i++) {
        assert_int_equal(cdz_grammar_from_gbnf(gbnf[i][0], strlen(gbnf[i][0]), NULL, &g, NULL),
                         CDZ_OK);
        refused(g, gbnf[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gbnf_cannot_say_is_named),
        cmocka_unit_test(recorded_cases_keep_their_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
