/* test_grammar_cases.c - recorded cases: what a constraint accepts, what is viable, which tokens are allowed. */
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
#include "base/sha256.h"
#include "grammar/grammar.h"

enum { MOST_TOKENIZERS = 16, MOST_SHOWN = 10 };

static struct {
    char name[64];
    cdz_tokenizer *tok;
    cdz_grammar_vocab *vocab;
} vocabs[MOST_TOKENIZERS];

static uint32_t n_wrong;

static const char *text_of(const cdz_json *row, const char *name)
{
    const cdz_json *v = cdz_json_get(row, name);
    return cdz_json_is(v, CDZ_JSON_STRING) ? v->string : NULL;
}

static void wrong(const cdz_json *row, uint32_t line, const char *what)
{
    if (n_wrong++ < MOST_SHOWN) print_message("%s, line %u: %s\n", text_of(row, "id"), line, what);
}

static uint32_t vocab_named(const char *name)
{
    uint32_t i = 0;
    char path[512];
    cdz_error err = {0};
    while (vocabs[i].tok && strcmp(vocabs[i].name, name) != 0) i++;
    if (vocabs[i].tok) return i;
    snprintf(vocabs[i].name, sizeof vocabs[i].name, "%s", name);
    snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, name);
    if (cdz_tokenizer_open(path, &vocabs[i].tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    const int32_t end = cdz_tokenizer_get_config(vocabs[i].tok)->eos_id;
    if (cdz_grammar_vocab_new(vocabs[i].tok, &end, 1, &vocabs[i].vocab, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return i;
}

static cdz_status compile(const cdz_json *row, const cdz_tokenizer *tok, cdz_grammar **out,
                          cdz_error *err)
{
    const cdz_grammar_options options = {.tokenizer = tok};
    const char *kind = text_of(row, "kind");
    const cdz_json *c = cdz_json_get(row, "constraint");
    if (strcmp(kind, "regex") == 0)
        return cdz_grammar_from_regex(c->string, c->len, &options, out, err);
    if (strcmp(kind, "gbnf") == 0)
        return cdz_grammar_from_gbnf(c->string, c->len, &options, out, err);
    if (strcmp(kind, "lark") == 0)
        return cdz_grammar_from_lark(c->string, c->len, &options, out, err);
    cdz_buf text = {0};
    cdz_json_write(&text, c);
    const cdz_status st = cdz_grammar_from_schema(text.data, text.len, &options, out, err);
    cdz_buf_free(&text);
    return st;
}

static bool one_of(const cdz_json *sets, uint32_t n, const char *hex)
{
    for (uint32_t i = 0; i < sets->len; i++) {
        const cdz_json *count = cdz_json_get(&sets->items[i], "n");
        if (count->integer == (int64_t)n &&
            cdz_json_eq(cdz_json_get(&sets->items[i], "sha256"), hex))
            return true;
    }
    return false;
}

static void check_allowed(const cdz_json *row, uint32_t i, const cdz_json *sets, cdz_grammar *g,
                          const cdz_grammar_vocab *vocab, uint32_t state)
{
    const uint64_t *mask;
    cdz_error err = {0};
    cdz_buf ids = {0};
    char hex[CDZ_SHA256_HEX];
    uint32_t n = 0;
    if (cdz_grammar_allowed(g, vocab, state, &mask, &err) != CDZ_OK) fail_msg("%s", err.text);
    for (uint32_t id = 0; id < cdz_grammar_vocab_size(vocab); id++)
        if (mask[id / 64] >> (id % 64) & 1) cdz_buf_printf(&ids, n++ ? ",%u" : "%u", id);
    cdz_sha256_hex(ids.data ? ids.data : "", ids.len, hex);
    if (!one_of(sets, n, hex)) wrong(row, i, "other tokens are allowed");
    cdz_buf_free(&ids);
}

static void check_line(const cdz_json *row, uint32_t i, cdz_grammar *g,
                       const cdz_grammar_vocab *vocab)
{
    const cdz_json *line = &cdz_json_get(row, "lines")->items[i], *text = cdz_json_get(line, "text");
    const cdz_json *ids = cdz_json_get(line, "ids"), *viable = cdz_json_get(line, "viable");
    const cdz_json *allowed = cdz_json_get(line, "allowed");
    uint32_t state = cdz_grammar_start(g);
    if (cdz_json_get(line, "lenient")) return;
    if (text) state = cdz_grammar_feed(g, state, text->string, text->len);
    for (uint32_t k = 0; ids && k < ids->len; k++)
        state = cdz_grammar_feed_token(g, vocab, state, (int32_t)ids->items[k].integer);
    if (cdz_grammar_accepts(g, state) != cdz_json_get(line, "accepts")->boolean)
        wrong(row, i, text ? text->string : "accepts");
    if (viable && (state != 0) != viable->boolean) wrong(row, i, text ? text->string : "viable");
    if (allowed) check_allowed(row, i, allowed, g, vocab, state);
}

static void check_row(const cdz_json *row)
{
    const char *tokenizer = text_of(row, "tokenizer"), *refuse = text_of(row, "refuse");
    const uint32_t v = tokenizer ? vocab_named(tokenizer) : 0;
    cdz_grammar *g = NULL;
    cdz_error err = {0};
    if (compile(row, tokenizer ? vocabs[v].tok : NULL, &g, &err) != CDZ_OK) {
        if (!refuse && !text_of(row, "may_refuse")) wrong(row, 0, err.text);
        if (!err.text[0]) wrong(row, 0, "a refusal without a sentence");
        return;
    }
    if (refuse && !strstr(refuse, "may be accepted")) wrong(row, 0, "is not refused");
    const cdz_json *lines = cdz_json_get(row, "lines");
    for (uint32_t i = 0; i < lines->len; i++)
        check_line(row, i, g, tokenizer ? vocabs[v].vocab : NULL);
    cdz_grammar_free(g);
}

static void check_file(const char *name)
{
    char path[512];
    char *text;
    size_t len;
    cdz_error err = {0};
    cdz_arena arena = {0};
    uint32_t rows = 0;
    n_wrong = 0;
    snprintf(path, sizeof path, "%s/grammar/%s.jsonl", CADENZA_TEST_DATA, name);
    if (cdz_file_read(path, 64 << 20, &text, &len, &err) != CDZ_OK) fail_msg("%s", err.text);
    for (char *at = text, *end; *at; at = end + 1, rows++) {
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
    assert_true(rows > 9);
    if (n_wrong) fail_msg("%s: %u answers are wrong", name, n_wrong);
}

static void regex(void **state)
{
    (void)state;
    check_file("regex");
}

static void tokens_regex(void **state)
{
    (void)state;
    check_file("tokens_regex");
}

static void gbnf(void **state)
{
    (void)state;
    check_file("gbnf");
}

static void lark(void **state)
{
    (void)state;
    check_file("lark");
}

static void tokens_gbnf(void **state)
{
    (void)state;
    check_file("tokens_gbnf");
}

static void schema_more(void **state)
{
    (void)state;
    check_file("schema_more");
}

static void schema_text(void **state)
{
    (void)state;
    check_file("schema_text");
}

static void schema_real(void **state)
{
    (void)state;
    check_file("schema_real");
}

static void schema_suite(void **state)
{
    (void)state;
    check_file("schema_suite");
}

static void tokens_schema(void **state)
{
    (void)state;
    check_file("tokens_schema");
}

static int close_vocabs(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MOST_TOKENIZERS; i++) {
        cdz_grammar_vocab_free(vocabs[i].vocab);
        cdz_tokenizer_free(vocabs[i].tok);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regex),        cmocka_unit_test(gbnf),
        cmocka_unit_test(lark),         cmocka_unit_test(schema_text),
        cmocka_unit_test(schema_more),  cmocka_unit_test(schema_real),
        cmocka_unit_test(schema_suite), cmocka_unit_test(tokens_regex),
        cmocka_unit_test(tokens_gbnf),  cmocka_unit_test(tokens_schema),
    };
    return cmocka_run_group_tests(tests, NULL, close_vocabs);
}
