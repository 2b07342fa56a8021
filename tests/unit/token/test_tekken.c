/* test_tekken.c - tekken.json files that are none, or whose counts, ranks or bytes do not fit: each ends in a sentence. What whole
 * ones give is test_tokenizer.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "token/tekken.h"
#include "token/tokenizer.h"

static char *read_whole(size_t *len)
{
    char *text;
    cdz_error err = {0};
    if (cdz_file_read(CADENZA_TEST_DATA "/tokenizers/tekken/tekken.json", 1 << 20, &text, len,
                      &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return text;
}

static cdz_status convert(const char *text, size_t len, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json root;
    *err = (cdz_error){0};
    cdz_status st = cdz_json_parse(text, len, "a.json", NULL, &arena, &root, err);
    if (st == CDZ_OK) st = cdz_tokenizer_json_of_tekken(&root, "a.json", out, err);
    cdz_arena_free(&arena);
    return st;
}

/* The whole file with `with` in place of the first `old`. */
static char *changed(const char *old, const char *with, size_t *len)
{
    size_t n;
    char *text = read_whole(&n), *at = strstr(text, old);
    if (!at) fail_msg("there is no '%s'", old);
    *len = n - strlen(old) + strlen(with);
    char *out = malloc(*len + 1);
    assert_non_null(out);
    const size_t before = (size_t)(at - text);
    memcpy(out, text, before);
    memcpy(out + before, with, strlen(with));
    memcpy(out + before + strlen(with), at + strlen(old), n - before - strlen(old) + 1);
    free(text);
    return out;
}

static void test_sentences(void **state)
{
    static const struct {
        const char *old, *with, *sentence;
    } all[] = {
        {"\"vocab\":", "\"tokens\":", "is not a tekken.json"},
        {"\"pattern\":", "\"regex\":", "config: \"pattern\" must be"},
        {"\"num_vocab_tokens\": 1040", "\"num_vocab_tokens\": 1041",
         "\"num_vocab_tokens\" is 1041, \"vocab\" has 1040 entries"},
        {"\"default_vocab_size\": 1000", "\"default_vocab_size\": 1061",
         "\"default_vocab_size\" is 1061, expected from 276 to 1060"},
        {"\"default_vocab_size\": 1000", "\"default_vocab_size\": 275", "is 275, expected from 276"},
        {"\"default_vocab_size\": 1000", "\"default_vocab_size\": \"1000\"",
         "\"default_vocab_size\" must be a number"},
        {"\"default_num_special_tokens\": 20", "\"default_num_special_tokens\": 5",
         "\"<pad>\" has rank 5, expected 0 to 4"},
        {"\"default_num_special_tokens\": 20", "\"default_num_special_tokens\": 0",
         "\"default_num_special_tokens\" must be a number from 1"},
        {"\"token_bytes\": \"AQ==\"", "\"token_bytes\": \"A*==\"",
         "entry 1 has \"token_bytes\" that"},
        {"\"token_bytes\": \"AQ==\"", "\"token_bytes\": \"A\"", "entry 1 has \"token_bytes\" that"},
        {"\"token_bytes\": \"AQ==\"", "\"token_bytes\": \"\"",
         "entry 1 has \"token_bytes\" of none"},
        {"\"token_bytes\": \"AQ==\"", "\"token_bytes\": \"Ag==\"",
         "entry 1 is not the byte of its rank"},
        {"\"token_bytes\": \"AQ==\"", "\"bytes\": \"AQ==\"", "entry 1 lacks a \"rank\" or"},
        {"\"rank\": 300,", "\"rank\": 301,", "entry 300 has rank 301, expected 300"},
        {"\"special_tokens\": [", "\"special_tokens\": [7, ", "entry 0 lacks a \"rank\" or"},
        {"\"</s>\"", "\"<s>\"", "special_tokens: \"<s>\" is there twice"},
        {"\"<s>\"", "\"<begin>\"", "there is no \"<s>\""},
        {"\"special_tokens\": [", "\"special_tokens\": 7, \"more\": [",
         "is an integer, expected a list"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t len;
        cdz_error err;
        cdz_buf out = {0};
        char *text = changed(all[i].old, all[i].with, &len);
        assert_int_equal(convert(text, len, &out, &err), CDZ_E_INPUT);
        if (!strstr(err.text, all[i].sentence))
            fail_msg("'%s', expected '%s'", err.text, all[i].sentence);
        cdz_buf_free(&out);
        free(text);
    }
}

static cdz_tokenizer *opened(const char *old, const char *with)
{
    size_t len;
    cdz_error err;
    cdz_buf out = {0};
    cdz_tokenizer *tok = NULL;
    char *text = changed(old, with, &len);
    if (convert(text, len, &out, &err) != CDZ_OK ||
        cdz_tokenizer_parse(out.data, out.len, cdz_tekken_config, strlen(cdz_tekken_config),
                            "a.json", &tok, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_buf_free(&out);
    free(text);
    return tok;
}

/* Old files have no list; what they name is known, the rest is filled up. */
static void test_without_specials(void **state)
{
    cdz_tokenizer *tok = opened("\"special_tokens\":", "\"others\":");
    (void)state;
    assert_int_equal(cdz_tokenizer_id(tok, "[TOOL_CONTENT]", 14), 19);
    assert_int_equal(cdz_tokenizer_id(tok, "<pad>", 5), 11);
    assert_int_equal(cdz_tokenizer_n_ids(tok), 1000);
    cdz_tokenizer_free(tok);
}

static void test_roles(void **state)
{
    cdz_tokenizer *tok = opened("\"v7\"", "\"v8\"");
    const cdz_tokenizer_config *c = cdz_tokenizer_get_config(tok);
    (void)state;
    assert_int_equal(c->bos_id, 1);
    assert_int_equal(c->eos_id, 2);
    assert_int_equal(c->unk_id, 0);
    assert_int_equal(c->pad_id, 5);
    assert_true(cdz_tokenizer_is_special(tok, 19));
    assert_string_equal(cdz_tokenizer_token(tok, 19, NULL), "<SPECIAL_19>");
    assert_int_equal(cdz_tokenizer_n_special_added(tok), 1);
    cdz_tokenizer_free(tok);
}

/* A token spelt as a special one cannot come of a text: the special one is cut out of it. */
static void test_special_text(void **state)
{
    cdz_tokenizer *tok = opened("\"[INST]\"", "\"the\"");
    cdz_encoding ids = {0};
    (void)state;
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, "other", 5, 0, &ids, NULL), CDZ_OK);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[1], 3);
    cdz_encoding_free(&ids);
    cdz_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_without_specials),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_special_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
