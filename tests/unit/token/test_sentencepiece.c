/* test_sentencepiece.c - SentencePiece models that are no such, cut at every byte, or made for another class: each ends in a
 * sentence. What whole ones give is test_tokenizer.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "token/sentencepiece.h"

#define FOLDERS CADENZA_TEST_DATA "/tokenizers/sentencepiece_"

static const cdz_json *parsed(cdz_arena *arena, cdz_json *root, const char *text)
{
    if (!text) return NULL;
    assert_int_equal(cdz_json_parse(text, strlen(text), "config", NULL, arena, root, NULL), CDZ_OK);
    return root;
}

static cdz_status convert_numbered(const void *bytes, size_t len, const char *config,
                                   const char *numbers, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json roots[2];
    cdz_buf out = {0};
    *err = (cdz_error){0};
    const cdz_status status = cdz_tokenizer_json_of_sentencepiece(
        bytes, len, parsed(&arena, &roots[0], config), parsed(&arena, &roots[1], numbers),
        "a.model", &out, err);
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
    return status;
}

static cdz_status convert(const void *bytes, size_t len, const char *config, cdz_error *err)
{
    return convert_numbered(bytes, len, config, NULL, err);
}

static char *read_model(const char *name, size_t *len)
{
    char *bytes;
    cdz_error err = {0};
    if (cdz_file_read(name, 1 << 20, &bytes, len, &err) != CDZ_OK) fail_msg("%s", err.text);
    return bytes;
}

static void refuses(const void *bytes, size_t len, const char *config, const char *sentence)
{
    cdz_error err;
    assert_int_not_equal(convert(bytes, len, config, &err), CDZ_OK);
    if (!strstr(err.text, sentence)) fail_msg("'%s', expected '%s'", err.text, sentence);
}

static void test_sentences(void **state)
{
    size_t bpe_len, unigram_len;
    char *bpe = read_model(FOLDERS "llama/tokenizer.model", &bpe_len);
    char *unigram = read_model(FOLDERS "t5/spiece.model", &unigram_len);
    static const char twice[] = "\x0A\x03\x0A\x01"
                                "a"
                                "\x0A\x03\x0A\x01"
                                "a";
    static const char latin[] = "\x0A\x03\x0A\x01\xE9";
    static const char endless[] = "\x0A\x08\x0A\x01"
                                  "a"
                                  "\x15\x00\x00\x80\x7F";
    (void)state;
    refuses("", 0, NULL, "is not a SentencePiece model");
    refuses("IQ== 0\nIg== 1\n", 14, NULL, "is not a SentencePiece model"); /* tiktoken's */
    refuses(twice, sizeof twice - 1, NULL, "piece 1 is there twice");
    refuses(latin, sizeof latin - 1, NULL, "piece 0 is not a text");
    refuses(endless, sizeof endless - 1, NULL, "a score that is no number");
    refuses(bpe, bpe_len, "{\"tokenizer_class\": \"XLNetTokenizer\"}", "XLNetTokenizer");
    refuses(bpe, bpe_len, "{\"tokenizer_class\": \"PegasusTokenizer\"}",
            "its kind is BPE, expected Unigram");
    refuses(unigram, unigram_len, "{\"tokenizer_class\": \"NllbTokenizer\"}",
            "its kind is Unigram, expected BPE");
    refuses(bpe, bpe_len, "{\"tokenizer_class\": \"NllbTokenizer\", \"src_lang\": \"de\"}",
            "\"src_lang\" \"de\" is no language of it");
    refuses(unigram, unigram_len, "{\"tokenizer_class\": \"PegasusTokenizer\", \"offset\": 1}",
            "\"offset\" must be 0 or from 2 to 1000");
    refuses(twice, 5, "{\"tokenizer_class\": \"PegasusTokenizer\"}",
            "PegasusTokenizer's models have padding and end in front");
    refuses(bpe, bpe_len, "{\"tokenizer_class\": \"T5Tokenizer\"}",
            "its kind is BPE, expected Unigram");
    refuses(unigram, unigram_len, "{\"tokenizer_class\": \"LlamaTokenizer\"}",
            "its kind is Unigram, expected BPE");
    refuses(unigram, unigram_len, "{\"extra_ids\": -1}", "\"extra_ids\" must be from 0 to 1000");
    refuses(bpe, bpe_len, "{\"added_tokens_decoder\": {\"7\": {\"content\": \"<s>\"}}}",
            "gives \"<s>\" the id 7, its own is 1");
    refuses(bpe, bpe_len, "{\"added_tokens_decoder\": {\"1\": {}}}", "has no \"content\"");
    free(bpe);
    free(unigram);
}

/* Fields may be left out, so some beginnings are models too. */
static void test_cuts(void **state)
{
    size_t len, n_good = 0;
    char *bytes = read_model(FOLDERS "t5/spiece.model", &len);
    cdz_error err;
    (void)state;
    for (size_t cut = 0; cut <= len; cut += cut < 400 || len - cut < 400 ? 1 : 37) {
        char *copy = malloc(cut + 1); /* of that size: a sanitizer sees what is read behind it */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        if (convert(copy, cut, NULL, &err) == CDZ_OK)
            n_good++;
        else
            assert_true(err.text[0]);
        free(copy);
    }
    assert_true(n_good > 0 && n_good < 200);
    free(bytes);
}

/* vocab.json of MarianTokenizer. */
static void test_numbers(void **state)
{
    static const struct {
        const char *config, *numbers, *sentence;
    } all[] = {{NULL, "[]", "is not an object of 1 to"},
               {NULL, "{}", "is not an object of 1 to"},
               {NULL, "{\"a\": 0, \"b\": 2}", "\"b\" must have a number of its own from 0 to 1"},
               {NULL, "{\"a\": 0, \"b\": 0}", "\"b\" must have a number of its own"},
               {NULL, "{\"a\": -1}", "\"a\" must have a number of its own"},
               {NULL, "{\"a\": \"0\"}", "\"a\" must have a number of its own"},
               {NULL, "{\"a\": 0}", "has no token for what is unknown"},
               {"{\"tokenizer_class\": \"T5Tokenizer\"}", "{\"<unk>\": 0}",
                "its tokens are numbered by vocab.json"},
               {"{\"tokenizer_class\": \"MarianTokenizer\"}", NULL,
                "MarianTokenizer reads source.spm and vocab.json"},
               {"{\"tokenizer_class\": \"M2M100Tokenizer\"}", NULL,
                "M2M100Tokenizer reads sentencepiece.bpe.model and vocab.json, which is not there"},
               {"{\"tokenizer_class\": \"M2M100Tokenizer\", \"src_lang\": \"xx\"}",
                "{\"<unk>\": 1, \"</s>\": 0}", "\"src_lang\" \"xx\" is no language of it"},
               {"{\"tokenizer_class\": \"M2M100Tokenizer\"}", "{\"<unk>\": 1, \"__de__\": 0}",
                "\"__de__\" is there twice"},
               {"{\"tokenizer_class\": \"MBartTokenizer\", \"src_lang\": \"af_ZA\"}", NULL,
                "\"src_lang\" \"af_ZA\" is no language of it"}};
    size_t len;
    (void)state;
    char *unigram = read_model(FOLDERS "t5/spiece.model", &len);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cdz_error err;
        assert_int_not_equal(convert_numbered(unigram, len, all[i].config, all[i].numbers, &err),
                             CDZ_OK);
        if (!strstr(err.text, all[i].sentence))
            fail_msg("'%s', expected '%s'", err.text, all[i].sentence);
    }
    cdz_error err;
    assert_int_equal(convert_numbered(unigram, len, NULL, "{\"<unk>\": 1, \"</s>\": 0}", &err),
                     CDZ_OK);
    free(unigram);
}

/* Special tokens that a model lacks get their ids in the reference's order. */
static void test_roles(void **state)
{
    static const char config[] =
        "{\"tokenizer_class\": \"LlamaTokenizer\", \"unk_token\": \"<u>\", \"bos_token\": \"<b>\", "
        "\"eos_token\": \"<e>\", \"pad_token\": \"<p>\", \"mask_token\": \"<m>\", \"sep_token\": \"<se>\", "
        "\"cls_token\": \"<c>\", \"additional_special_tokens\": [\"<x>\"]}";
    static const char *const expected[] = {"<b>", "<e>", "<u>", "<se>", "<p>", "<c>", "<m>", "<x>"};
    cdz_arena arena = {0};
    cdz_json root;
    cdz_buf out = {0};
    cdz_error err = {0};
    size_t len;
    (void)state;
    char *bytes = read_model(FOLDERS "llama/tokenizer.model", &len);
    assert_int_equal(cdz_tokenizer_json_of_sentencepiece(bytes, len, parsed(&arena, &root, config),
                                                         NULL, "a.model", &out, &err),
                     CDZ_OK);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"id\":%d,\"content\":\"%s\"", 1000 + (int)i, expected[i]);
        if (!strstr(out.data, text)) fail_msg("there is no %s", text);
    }
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
