/* test_token_pairs.c - one text or two, cut and filled up, as the reference recorded them: ids, types, masks, which
 * text an id is of, and what was cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "token/pair.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const folders[] = {"gpt2",   "llama3", "qwen2", "o200k", "deepseek",
                                      "llama2", "phi3",   "t5",    "bert",  "wordlevel"};

static uint32_t number(const cdz_json *object, const char *key)
{
    const cdz_json *v = cdz_json_get(object, key);
    return cdz_json_is(v, CDZ_JSON_INT) ? (uint32_t)v->integer : 0;
}

static cdz_pair_options options_of(const cdz_json *row)
{
    const cdz_json *truncation = cdz_json_get(row, "truncation"),
                   *padding = cdz_json_get(row, "padding");
    cdz_pair_options o = {.special = true};
    if (cdz_json_is(truncation, CDZ_JSON_OBJECT)) {
        const cdz_json *strategy = cdz_json_get(truncation, "strategy");
        o.truncation = cdz_json_eq(strategy, "longest_first") ? CDZ_TRUNCATE_LONGEST_FIRST
                       : cdz_json_eq(strategy, "only_first")  ? CDZ_TRUNCATE_FIRST
                                                              : CDZ_TRUNCATE_SECOND;
        o.max_length = number(truncation, "max_length");
        o.stride = number(truncation, "stride");
        o.truncate_left = cdz_json_eq(cdz_json_get(truncation, "direction"), "left");
    }
    if (cdz_json_is(padding, CDZ_JSON_OBJECT)) {
        o.pad = true;
        o.pad_length = number(padding, "length");
        o.pad_multiple = number(padding, "pad_to_multiple_of");
        o.pad_left = cdz_json_eq(cdz_json_get(padding, "direction"), "left");
    }
    return o;
}

static bool same_column(const cdz_json *want, const cdz_pair_ids *ids, char column)
{
    if (!cdz_json_is(want, CDZ_JSON_ARRAY) || want->len != ids->n) return false;
    for (size_t i = 0; i < ids->n; i++) {
        const cdz_pair_token *t = &ids->at[i];
        const cdz_json *v = &want->items[i];
        const int64_t found = column == 'i'   ? t->id
                              : column == 't' ? (int64_t)t->type
                              : column == 'm' ? !t->pad
                              : column == 's' ? t->special
                                              : t->text;
        if ((cdz_json_is(v, CDZ_JSON_NULL) ? -1 : v->integer) != found) return false;
    }
    return true;
}

static bool same(const cdz_json *row, const cdz_encoding_pair *e)
{
    const cdz_json *over = cdz_json_get(row, "overflowing");
    const cdz_pair_ids *own = &e->all[0];
    bool ok = same_column(cdz_json_get(row, "ids"), own, 'i') &&
              same_column(cdz_json_get(row, "type_ids"), own, 't') &&
              same_column(cdz_json_get(row, "attention_mask"), own, 'm') &&
              same_column(cdz_json_get(row, "special_tokens_mask"), own, 's') &&
              same_column(cdz_json_get(row, "sequence_ids"), own, 'q') && over->len == e->n - 1;
    for (uint32_t i = 0; ok && i < over->len; i++)
        ok = same_column(&over->items[i], &e->all[i + 1], 'i');
    return ok;
}

static bool check_row(const cdz_tokenizer *tok, const cdz_json *row)
{
    const cdz_json *a = cdz_json_get(row, "a"), *b = cdz_json_get(row, "b");
    const bool two = cdz_json_is(b, CDZ_JSON_STRING), refused = cdz_json_get(row, "error");
    const cdz_pair_options options = options_of(row);
    cdz_encoding_pair e;
    cdz_error err = {0};
    const cdz_status st = cdz_tokenizer_encode_pair(tok, a->string, a->len, two ? b->string : NULL,
                                                    two ? b->len : 0, &options, &e, &err);
    if (refused) return st == CDZ_E_USAGE && strncmp(err.text, "truncation: ", 12) == 0;
    const bool ok = st == CDZ_OK && same(row, &e);
    if (st == CDZ_OK) cdz_encoding_pair_free(&e);
    return ok;
}

static void recorded_pairs(void **state)
{
    (void)state;
    size_t n = 0, n_wrong = 0;
    for (size_t f = 0; f < COUNT(folders); f++) {
        char path[512];
        cdz_arena arena = {0};
        cdz_json rows;
        cdz_tokenizer *tok;
        cdz_error err = {0};
        snprintf(path, sizeof path, CADENZA_TEST_DATA "/tokenizers/%s", folders[f]);
        if (cdz_tokenizer_open(path, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
        snprintf(path, sizeof path, CADENZA_TEST_DATA "/tokenizers/%s/pairs.json", folders[f]);
        if (cdz_json_read_file(path, 0, NULL, &arena, &rows, &err) != CDZ_OK)
            fail_msg("%s", err.text);
        for (uint32_t i = 0; i < rows.len; i++, n++)
            if (!check_row(tok, &rows.items[i]) && n_wrong++ < 20)
                print_error("%s: pair %u differs\n", folders[f], i);
        cdz_arena_free(&arena);
        cdz_tokenizer_free(tok);
    }
    print_message("%zu pairs, %zu differ\n", n, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n, 4500);
}

/* --- what the records do not reach ---------------------------------------------------------- */

static cdz_tokenizer *open_bert(void)
{
    cdz_tokenizer *tok;
    assert_int_equal(cdz_tokenizer_open(CADENZA_TEST_DATA "/tokenizers/bert", &tok, NULL), CDZ_OK);
    return tok;
}

static const struct {
    const char *name;
    cdz_pair_options options;
    const char *sentence;
} refusals[] = {
    {"no room for what is added",
     {.special = true, .truncation = CDZ_TRUNCATE_FIRST, .max_length = 2},
     "at most 2 ids, but 3 special tokens are added"},
    {"a stride as long as the window",
     {.truncation = CDZ_TRUNCATE_FIRST, .max_length = 6, .stride = 5},
     "a stride of 5, expected less than the 5 ids"},
    {"too much to leave out",
     {.truncation = CDZ_TRUNCATE_SECOND, .max_length = 3},
     "the second text has 1 ids, too few to leave out 5"},
};

static void refused_with_a_sentence(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_bert();
    const int32_t id = cdz_tokenizer_id(tok, "and", 3);
    assert_true(id >= 0);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        cdz_encoding_pair e;
        cdz_error err = {0};
        const cdz_status st = cdz_tokenizer_encode_pair(tok, "and and and and and and and", 27,
                                                        "and", 3, &refusals[i].options, &e, &err);
        if (st != CDZ_E_USAGE || !strstr(err.text, refusals[i].sentence))
            fail_msg("%s: %d %s", refusals[i].name, (int)st, err.text);
    }
    cdz_tokenizer_free(tok);
}

/* Windows that share all but one id, of both texts: refused before it is tried. */
static void too_many_pieces(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_bert();
    cdz_buf text = {0};
    cdz_encoding_pair e;
    cdz_error err = {0};
    const cdz_pair_options options = {
        .truncation = CDZ_TRUNCATE_LONGEST_FIRST, .max_length = 6, .stride = 2};
    for (int i = 0; i < 20000; i++) cdz_buf_puts(&text, "and ");
    assert_int_equal(cdz_tokenizer_encode_pair(tok, text.data, text.len, text.data, text.len,
                                               &options, &e, &err),
                     CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "too many pieces"));
    cdz_buf_free(&text);
    cdz_tokenizer_free(tok);
}

static void spans_are_of_their_text(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_bert();
    cdz_encoding_pair e;
    cdz_error err = {0};
    const cdz_pair_options options = {.special = true};
    assert_int_equal(cdz_tokenizer_encode_pair(tok, "x and", 5, "and", 3, &options, &e, &err),
                     CDZ_OK);
    assert_int_equal(e.n, 1);
    assert_int_equal(e.all[0].n, 6); /* cls x and sep and sep */
    assert_int_equal(e.all[0].at[2].span.begin, 2);
    assert_int_equal(e.all[0].at[2].span.end, 5);
    assert_int_equal(e.all[0].at[4].span.begin, 0);
    assert_int_equal(e.all[0].at[4].span.end, 3);
    assert_int_equal(e.all[0].at[5].span.end, 0);
    cdz_encoding_pair_free(&e);
    cdz_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_pairs),
        cmocka_unit_test(refused_with_a_sentence),
        cmocka_unit_test(too_many_pieces),
        cmocka_unit_test(spans_are_of_their_text),
    };
    return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
