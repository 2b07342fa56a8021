/* test_byte_pairs.c - vocab.json and merges.txt that are no such or made for a class that is not known, and the small files
 * beside them: each fault ends in a sentence. What whole ones give is test_tokenizer.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "token/byte_pairs.h"
#include "token/settings.h"

static const cdz_json *parsed(cdz_arena *arena, cdz_json *root, const char *text)
{
    if (!text) return NULL;
    assert_int_equal(cdz_json_parse(text, strlen(text), "a file", NULL, arena, root, NULL), CDZ_OK);
    return root;
}

/* The files of a folder; NULL: not there. */
typedef struct folder {
    const char *vocab, *merges, *config, *special_map, *added, *model;
    const char *says; /* the sentence, or a part of the tokenizer.json */
} folder;

static cdz_status convert(const folder *f, cdz_buf *out, cdz_buf *config, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json roots[5], settings;
    const cdz_tokenizer_sources from = {.config = parsed(&arena, &roots[0], f->config),
                                        .special_map = parsed(&arena, &roots[1], f->special_map),
                                        .added = parsed(&arena, &roots[2], f->added),
                                        .model = parsed(&arena, &roots[3], f->model)};
    cdz_status status = cdz_tokenizer_settings(&from, &arena, &settings, err);
    if (status == CDZ_OK) {
        const cdz_byte_pairs pairs = {.vocab = parsed(&arena, &roots[4], f->vocab),
                                      .merges = f->merges,
                                      .merges_len = strlen(f->merges),
                                      .settings = &settings,
                                      .folder = "a"};
        status = cdz_tokenizer_json_of_byte_pairs(&pairs, out, config, err);
    }
    cdz_arena_free(&arena);
    return status;
}

static void check(const folder *f, bool good)
{
    cdz_buf out = {0}, config = {0};
    cdz_error err = {0};
    const cdz_status status = convert(f, &out, &config, &err);
    if ((status == CDZ_OK) != good) fail_msg("status %d: %s", (int)status, err.text);
    const char *text = good ? out.data : err.text;
    const bool said = strstr(text, f->says) || (good && strstr(config.data, f->says));
    if (!said) fail_msg("'%s', expected '%s'", text, f->says);
    cdz_buf_free(&out);
    cdz_buf_free(&config);
}

#define GPT2 "{\"tokenizer_class\": \"GPT2Tokenizer\"}"

static void test_refusals(void **state)
{
    static const folder all[] = {
        {"{\"a\": 0}", "", NULL, NULL, NULL, NULL,
         "what a tokenizer without a \"tokenizer_class\" makes of vocab.json"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"ClipTokenizer\"}", NULL, NULL, NULL,
         "what ClipTokenizer makes of vocab.json"},
        {"{\"a\": 0}", "#version: 0.2\na\n", NULL, NULL, NULL,
         "{\"model_type\": \"blenderbot-small\"}", "a/merges.txt: line 2: \"a\" is no merge"},
        {"[]", "", GPT2, NULL, NULL, NULL, "a/vocab.json: is not an object of 1 to"},
        {"{}", "", GPT2, NULL, NULL, NULL, "a/vocab.json: is not an object of 1 to"},
        {"{\"a\":\n-1}", "", GPT2, NULL, NULL, NULL, "a/vocab.json: line 2: the id of \"a\""},
        {"{\"a\": \"0\"}", "", GPT2, NULL, NULL, NULL, "the id of \"a\" must be from 0"},
        {"{\"a\": 0}", "#version: 0.2\na\n", GPT2, NULL, NULL, NULL,
         "a/merges.txt: line 2: \"a\" is no merge"},
        {"{\"a\": 0}", "a a a\n", GPT2, NULL, NULL, NULL, "line 1: \"a a a\" is no merge"},
        {"{\"a\": 0}", "\n", GPT2, NULL, NULL, NULL, "line 1: \"\" is no merge"},
        {"{\"a\": 0}", "a a\n", GPT2, NULL, NULL, NULL, "\"a a\" names or makes a token that"},
        {"{\"<|endoftext|\": 0, \">\": 1}", "<|endoftext| >", GPT2, NULL, NULL, NULL,
         "makes a token that vocab.json lacks"},
        {"{\"a\": 0}", "",
         "{\"tokenizer_class\": \"GPT2Tokenizer\", \"added_tokens_decoder\": {\"7\": "
         "{\"content\": \"<x>\"}}}",
         NULL, NULL, NULL, "give \"<x>\" the id 7, its own is 1"},
        {"{\"a\": 0}", "",
         "{\"tokenizer_class\": \"GPT2Tokenizer\", \"added_tokens_decoder\": {\"1\": {}}}", NULL,
         NULL, NULL, "added token 1 of its settings has no \"content\""},
        {"{\"a\": 0}", "", GPT2, NULL, "{\"<x>\": \"1\"}", NULL,
         "added_tokens.json: line 1: \"<x>\" must have a number"},
        {"{\"a\": 0}", "", GPT2, "[]", NULL, NULL, "special_tokens_map.json is an array"},
        {"{\"a\": 0}", "", "[]", NULL, NULL, NULL, "tokenizer_config.json is an array"},
        {"{\"a\": 0}", "", GPT2, NULL, "3", NULL, "added_tokens.json is an integer"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"BartTokenizer\", \"sep_token\": null}", NULL,
         NULL, NULL, "BartTokenizer puts a \"sep_token\" around texts, it is null"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"BlenderbotTokenizer\", \"eos_token\": null}",
         NULL, NULL, NULL, "puts a \"eos_token\" around texts"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"GPT2Tokenizer\", \"eos_token\": \"a\\u0000b\"}",
         NULL, NULL, NULL, "has a NUL in it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i], false);
}

/* Which file counts where two say something; the ends of lines of Windows. */
static void test_settings(void **state)
{
    static const folder all[] = {
        {"{\"a\": 0, \"aa\": 1}", "#version: 0.2\r\na a\r\n", GPT2, NULL, NULL, NULL,
         "\"merges\":[\"a a\"]"},
        {"{\"a\": 0}", "", GPT2, NULL, NULL, NULL, "\"bos_token\":\"<|endoftext|>\""},
        {"{\"a\": 0}", "", NULL, NULL, NULL, "{\"model_type\": \"bart\"}", "RobertaProcessing"},
        {"{\"a\": 0}", "", NULL, NULL, NULL,
         "{\"model_type\": \"bart\", \"tokenizer_class\": \"GPT2Tokenizer\"}", "<|endoftext|>"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"BartTokenizerFast\"}", NULL, NULL,
         "{\"model_type\": \"gpt2\"}", "RobertaProcessing"},
        {"{\"a\": 0}", "", "{\"tokenizer_class\": \"GPT2Tokenizer\", \"eos_token\": \"<x>\"}",
         "{\"eos_token\": \"<y>\"}", NULL, NULL, "{\"id\":2,\"content\":\"<y>\",\"special\":true"},
        {"{\"a\": 0}", "",
         "{\"tokenizer_class\": \"GPT2Tokenizer\", \"eos_token\": \"<x>\", "
         "\"added_tokens_decoder\": {}}",
         "{\"eos_token\": \"<y>\"}", NULL, NULL, "{\"id\":2,\"content\":\"<x>\",\"special\":true"},
        {"{\"__unk__\": 0, \"h@@\": 1, \"i\": 2, \"hi\": 3}", "a b\nh i</w>\nq z</w>\nh q", NULL,
         NULL, NULL, "{\"model_type\": \"blenderbot-small\"}",
         "\"q@@\":7,\"z\":8,\"qz\":9},\"n_known\":4,\"merges\":[[\"h@@\",\"i\"],[\"q@@\",\"z\"]]}}"},
        {"{\"a\": 0}", "", GPT2, NULL, "{\"<y>\": 2, \"<x>\": 1}", NULL,
         "{\"id\":2,\"content\":\"<y>\",\"special\":false"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check(&all[i], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
