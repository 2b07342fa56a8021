/* test_token_text.c - what the recorded cases do not reach: tokens alone, streams to their end,
 * clean-up, the configuration file, working memory, threads, the shipped model's prompts, and
 * the tokenize command. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "token/tokenizer.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static cdz_tokenizer *open_folder(const char *name)
{
    char path[512];
    cdz_tokenizer *tok;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, name);
    if (cdz_tokenizer_open(path, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    return tok;
}

static int32_t id_of(const cdz_tokenizer *tok, const char *token)
{
    return cdz_tokenizer_id(tok, token, strlen(token));
}

/* --- tokens ----------------------------------------------------------------------------------- */

static const struct {
    const char *name, *token, *text;
} alone[] = {
    {"a word with its space",
     "\xC4\xA0"
     "for",
     " for"},
    {"a letter", "a", "a"},
    {"a special token is its own text", "<|im_end|>", "<|im_end|>"},
    {"an added token", "<think>", "<think>"},
    {"one byte of a character", "\xC3\xA3", "\xEF\xBF\xBD"},
};

static void test_text_alone(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_folder("qwen2");
    for (size_t i = 0; i < COUNT(alone); i++) {
        cdz_buf out = {0};
        assert_true(cdz_tokenizer_text_alone(tok, id_of(tok, alone[i].token), &out));
        if (strcmp(out.data, alone[i].text) != 0) fail_msg("%s: \"%s\"", alone[i].name, out.data);
        cdz_buf_free(&out);
    }
    cdz_buf none = {0};
    assert_false(cdz_tokenizer_text_alone(tok, -1, &none));
    assert_false(cdz_tokenizer_text_alone(tok, (int32_t)cdz_tokenizer_n_ids(tok), &none));
    cdz_tokenizer_free(tok);
}

static void test_tokens(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_folder("qwen2");
    const int32_t end = id_of(tok, "<|im_end|>"), call = id_of(tok, "<tool_call>"),
                  a = id_of(tok, "a");
    size_t len;
    assert_string_equal(cdz_tokenizer_token(tok, end, &len), "<|im_end|>");
    assert_int_equal(len, 10);
    assert_true(cdz_tokenizer_is_special(tok, end) && cdz_tokenizer_is_added(tok, end));
    assert_true(!cdz_tokenizer_is_special(tok, call) && cdz_tokenizer_is_added(tok, call));
    assert_true(!cdz_tokenizer_is_special(tok, a) && !cdz_tokenizer_is_added(tok, a));
    assert_null(cdz_tokenizer_token(tok, -1, NULL));
    assert_null(cdz_tokenizer_token(tok, 1 << 30, NULL));
    assert_int_equal(cdz_tokenizer_n_ids(tok), 1507);
    cdz_tokenizer_free(tok);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* Feeds single bytes; the chunks are joined with | and the end is marked. */
static void stream_bytes(const cdz_tokenizer *tok, const char *bytes, cdz_buf *out)
{
    cdz_text_stream s = {.tok = tok};
    const char *text;
    size_t len;
    for (; *bytes; bytes++) {
        char spelt[4] = {*bytes, 0};
        /* In the byte alphabet 0x80 to 0xA0 are U+0122 and on, bytes from 0xC0 on the character
         * of that number. */
        const unsigned b = (unsigned char)*bytes, code = b >= 0xC0 ? b : 0x122 + (b - 0x80);
        if (b >= 0x80)
            snprintf(spelt, sizeof spelt, "%c%c", (int)(0xC0 | code >> 6),
                     (int)(0x80 | (code & 63)));
        assert_int_equal(cdz_text_stream_feed(&s, id_of(tok, spelt), &text, &len, NULL), CDZ_OK);
        cdz_buf_printf(out, "%s|", text);
    }
    assert_int_equal(cdz_text_stream_end(&s, &text, &len, NULL), CDZ_OK);
    cdz_buf_printf(out, "end %s", text);
    cdz_text_stream_free(&s);
}

#define BAD "\xEF\xBF\xBD"

static const struct {
    const char *name, *bytes, *chunks;
} streams[] = {
    {"letters", "ab", "a|b|end "},
    {"a character in three parts", "\xE3\x81\x82", "||\xE3\x81\x82|end "},
    {"a character cut off", "a\xE3\x81", "a|||end " BAD},
    {"a broken character",
     "\xE3\x81"
     "b",
     "||" BAD "b|end "},
    {"bad bytes wait for what follows",
     "\xC0\xC0"
     "b",
     "||" BAD BAD "b|end "},
    {"bad bytes at the end", "a\xC0\xC0", "a|||end " BAD BAD},
    {"a begin after a begin", "\xE3\xE3\x81\x82", "|||" BAD "\xE3\x81\x82|end "},
    {"four bytes", "\xF0\x9F\x98\x80", "|||\xF0\x9F\x98\x80|end "},
    {"not after all",
     "\xF0\x9F\x98"
     "c",
     "|||" BAD "c|end "},
};

static void test_streams(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_folder("gpt2");
    for (size_t i = 0; i < COUNT(streams); i++) {
        cdz_buf out = {0};
        stream_bytes(tok, streams[i].bytes, &out);
        if (strcmp(out.data, streams[i].chunks) != 0) fail_msg("%s: %s", streams[i].name, out.data);
        cdz_buf_free(&out);
    }
    cdz_tokenizer_free(tok);
}

/* A stream is as new after its end. */
static void test_stream_again(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_folder("gpt2");
    cdz_text_stream s = {.tok = tok};
    const char *text;
    size_t len;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(cdz_text_stream_feed(&s, id_of(tok, "\xC3\xA3"), &text, &len, NULL),
                         CDZ_OK);
        assert_int_equal(len, 0);
        assert_int_equal(cdz_text_stream_end(&s, &text, &len, NULL), CDZ_OK);
        assert_string_equal(text, BAD);
    }
    assert_int_equal(cdz_text_stream_feed(&s, id_of(tok, "a"), &text, NULL, NULL), CDZ_OK);
    assert_string_equal(text, "a");
    cdz_text_stream_free(&s);
    cdz_tokenizer_free(tok);
}

/* --- decoding --------------------------------------------------------------------------------- */

static void test_clean_up(void **state)
{
    (void)state;
    static const char text[] = "we do n't , I 'm he 's we 've they 're ' x ' . ? !",
                      cleaned[] = "we don't, I'm he's we've they're'x '.?!";
    cdz_tokenizer *tok = open_folder("gpt2");
    cdz_encoding enc = {0};
    cdz_buf out = {0};
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text, strlen(text), 0, &enc, NULL), CDZ_OK);
    cdz_buf_puts(&out, "kept . ");
    assert_int_equal(cdz_tokenizer_decode(tok, enc.ids, enc.n, CDZ_DECODE_CLEAN_UP, &out, NULL),
                     CDZ_OK);
    assert_memory_equal(out.data, "kept . ", 7);
    assert_string_equal(out.data + 7, cleaned);
    cdz_buf_free(&out);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
}

/* --- tokenizer_config.json -------------------------------------------------------------------- */

static cdz_tokenizer *parse_with_config(const char *config, cdz_status want, const char *sentence)
{
    char path[512];
    char *json;
    size_t len;
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s/tokenizers/qwen2/tokenizer.json", CADENZA_TEST_DATA);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_non_null(json = malloc(1 << 20));
    len = fread(json, 1, 1 << 20, f);
    fclose(f);
    const cdz_status st =
        cdz_tokenizer_parse(json, len, config, strlen(config), "m/tokenizer.json", &tok, &err);
    free(json);
    if (st != want || (sentence && !strstr(err.text, sentence))) fail_msg("%s", err.text);
    return tok;
}

static void test_config(void **state)
{
    (void)state;
    cdz_tokenizer *tok =
        parse_with_config("{\"bos_token\":{\"content\":\"<|im_start|>\",\"lstrip\":false},"
                          "\"eos_token\":\"<|im_end|>\",\"pad_token\":null,\"unk_token\":\"<nope>\","
                          "\"add_bos_token\":true,\"clean_up_tokenization_spaces\":true,"
                          "\"chat_template\":\"{{ x }}\",\"other\":[1]}",
                          CDZ_OK, NULL);
    const cdz_tokenizer_config *c = cdz_tokenizer_get_config(tok);
    assert_string_equal(c->bos_token, "<|im_start|>");
    assert_int_equal(c->bos_id, 1501);
    assert_int_equal(c->eos_id, 1502);
    assert_null(c->pad_token);
    assert_int_equal(c->pad_id, -1);
    assert_string_equal(c->unk_token, "<nope>");
    assert_int_equal(c->unk_id, -1);
    assert_true(c->add_bos_token && c->clean_up_tokenization_spaces);
    assert_string_equal(c->chat_template, "{{ x }}");
    cdz_tokenizer_free(tok);
}

static void test_config_templates(void **state)
{
    (void)state;
    cdz_tokenizer *tok =
        parse_with_config("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},"
                          "{\"name\":\"default\",\"template\":\"D\"}]}",
                          CDZ_OK, NULL);
    assert_string_equal(cdz_tokenizer_get_config(tok)->chat_template, "D");
    assert_string_equal(cdz_tokenizer_chat_template(tok, "tool_use"), "T");
    assert_null(cdz_tokenizer_chat_template(tok, "rag"));
    cdz_tokenizer_free(tok);
}

static void test_config_refused(void **state)
{
    (void)state;
    assert_null(parse_with_config("{\"eos_token\":3}", CDZ_E_INPUT,
                                  "m/tokenizer_config.json: line 1: \"eos_token\""));
    assert_null(
        parse_with_config("[]", CDZ_E_INPUT, "m/tokenizer_config.json: the file is an array"));
    assert_null(parse_with_config("{", CDZ_E_INPUT, "m/tokenizer_config.json:1:"));
    assert_null(
        parse_with_config("{\"chat_template\":[{}]}", CDZ_E_INPUT, "\"chat_template\": entry 0"));
}

static void test_no_folder(void **state)
{
    (void)state;
    cdz_tokenizer *tok;
    cdz_error err = {0};
    assert_int_equal(cdz_tokenizer_open(CADENZA_TEST_DATA "/no-such-folder", &tok, &err),
                     CDZ_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "no-such-folder: neither tokenizer.json"));
    assert_null(tok);
}

/* --- working memory --------------------------------------------------------------------------- */

static void test_scratch_of_another(void **state)
{
    (void)state;
    cdz_tokenizer *one = open_folder("gpt2"), *two = open_folder("qwen2");
    cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
    cdz_encoding enc = {0};
    cdz_error err = {0};
    assert_int_equal(cdz_tokenizer_encode(one, scratch, "a", 1, 0, &enc, &err), CDZ_OK);
    assert_int_equal(cdz_tokenizer_encode(two, scratch, "a", 1, 0, &enc, &err), CDZ_E_USAGE);
    cdz_encoding_free(&enc);
    cdz_tokenizer_scratch_free(scratch);
    cdz_tokenizer_free(one);
    cdz_tokenizer_free(two);
}

/* --- threads ---------------------------------------------------------------------------------- */

static const char shared_text[] =
    "Hello <|im_end|> e\xCC\x81 12345 we'll see\n\n  \xE4\xB8\xAD\xE6\x96\x87";

typedef struct worker {
    const cdz_tokenizer *tok;
    const cdz_encoding *want;
    pthread_t thread;
    bool same;
} worker;

static void *encode_often(void *user)
{
    worker *w = user;
    cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
    cdz_encoding enc = {0};
    w->same = true;
    for (int i = 0; i < 200 && w->same; i++)
        w->same = cdz_tokenizer_encode(w->tok, scratch, shared_text, strlen(shared_text),
                                       i % 2 ? CDZ_ENCODE_OFFSETS : 0, &enc, NULL) == CDZ_OK &&
                  enc.n == w->want->n &&
                  memcmp(enc.ids, w->want->ids, enc.n * sizeof *enc.ids) == 0;
    cdz_encoding_free(&enc);
    cdz_tokenizer_scratch_free(scratch);
    return NULL;
}

/* One tokenizer, four threads, working memory of their own. */
static void test_threads(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_folder("qwen2");
    cdz_encoding want = {0};
    worker workers[4];
    assert_int_equal(
        cdz_tokenizer_encode(tok, NULL, shared_text, strlen(shared_text), 0, &want, NULL), CDZ_OK);
    for (size_t i = 0; i < COUNT(workers); i++) {
        workers[i] = (worker){.tok = tok, .want = &want};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, encode_often, &workers[i]), 0);
    }
    for (size_t i = 0; i < COUNT(workers); i++) pthread_join(workers[i].thread, NULL);
    for (size_t i = 0; i < COUNT(workers); i++) assert_true(workers[i].same);
    cdz_encoding_free(&want);
    cdz_tokenizer_free(tok);
}

/* --- the shipped model ------------------------------------------------------------------------ */

static void test_shipped_prompts(void **state)
{
    (void)state;
    static const char folder[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
    static const char file[] = CADENZA_SOURCE_DIR "/models/examples.json";
    cdz_arena arena = {0};
    cdz_json root;
    cdz_tokenizer *tok;
    cdz_encoding enc = {0};
    cdz_error err = {0};
    if (access(file, R_OK) != 0) {
        print_message("models/examples.json is not there\n");
        skip();
    }
    if (cdz_json_read_file(file, 0, NULL, &arena, &root, &err) != CDZ_OK) fail_msg("%s", err.text);
    if (cdz_tokenizer_open(folder, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    const cdz_json *list = cdz_json_get(&root, "examples");
    assert_true(list->len > 0);
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *prompt = cdz_json_get(&list->items[i], "prompt"),
                       *ids = cdz_json_get(&list->items[i], "ids");
        assert_int_equal(
            cdz_tokenizer_encode(tok, NULL, prompt->string, prompt->len, 0, &enc, NULL), CDZ_OK);
        assert_int_equal(enc.n, ids->len);
        for (size_t k = 0; k < enc.n; k++) assert_int_equal(enc.ids[k], ids->items[k].integer);
    }
    assert_non_null(cdz_tokenizer_get_config(tok)->chat_template);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
    cdz_arena_free(&arena);
}

/* --- cadenza tokenize ------------------------------------------------------------------------- */

static const struct {
    const char *name, *input, *options, *output; /* output: of both streams */
    int status;
} commands[] = {
    {"text from the command line", "", "-p 'a b'", "[1500, 64, 327]\n", 0},
    {"text from standard input", "a b", "--no-special", "[64, 327]\n", 0},
    {"lines", "\"a\"\n\"a b\"\n", "--jsonl --no-special", "[64]\n[64, 327]\n", 0},
    {"no newline at the end", "\"a\"", "--jsonl --no-special", "[64]\n", 0},
    {"no lines", "", "--jsonl", "", 0},
    {"ids from the command line", "", "--decode -p '[1503, 64]'", "\"<|begin_of_text|>a\"\n", 0},
    {"lines of ids", "[1503,64]\n[]\n", "--decode --skip-special --jsonl", "\"a\"\n\"\"\n", 0},
    {"a broken line", "\"a\"\n\"b\n\"c\"\n", "--jsonl --no-special",
     "[64]\ncadenza: standard input:2:1: this string has no closing quote\n", 1},
    {"an empty line", "\"a\"\n\n", "--jsonl --no-special",
     "[64]\ncadenza: standard input:2:1: expected a value, found the end of the text\n", 1},
    {"a line of another kind", "7\n", "--jsonl",
     "cadenza: standard input:1: expected a JSON string, found an integer\n", 1},
    {"ids that are none", "[1, -1]", "--decode",
     "cadenza: standard input: entry 1 is an integer, expected an id: a whole number from 0\n", 1},
    {"text that is not UTF-8", "a\xFF", "",
     "cadenza: standard input: the text is not UTF-8: byte 0xFF at offset 1 begins no valid "
     "character\n",
     1},
    {"options that do not go together", "", "--skip-special", NULL, 2},
    {"an unknown option", "", "--frobnicate", NULL, 2},
};

static void run_command(size_t i)
{
    char line[1024], output[4096], input[] = "/tmp/cadenza-test-XXXXXX";
    const int fd = mkstemp(input);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, commands[i].input, strlen(commands[i].input)),
                     strlen(commands[i].input));
    close(fd);
    snprintf(line, sizeof line, "'%s/bin/cadenza' tokenize '%s/tokenizers/llama3' %s < %s 2>&1",
             CADENZA_BUILD_DIR, CADENZA_TEST_DATA, commands[i].options, input);
    FILE *pipe = popen(
        line, "r"); /* the program's streams are joined in order: it flushes before it speaks */
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    unlink(input);
    if (status != commands[i].status << 8)
        fail_msg("%s: status %d: %s", commands[i].name, status >> 8, output);
    if (commands[i].output && strcmp(output, commands[i].output) != 0)
        fail_msg("%s: %s", commands[i].name, output);
}

static void test_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) run_command(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_alone),       cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_streams),          cmocka_unit_test(test_stream_again),
        cmocka_unit_test(test_clean_up),         cmocka_unit_test(test_config),
        cmocka_unit_test(test_config_templates), cmocka_unit_test(test_config_refused),
        cmocka_unit_test(test_no_folder),        cmocka_unit_test(test_scratch_of_another),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_shipped_prompts),
        cmocka_unit_test(test_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
