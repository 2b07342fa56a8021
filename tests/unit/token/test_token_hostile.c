/* test_token_hostile.c - broken and hostile files with other parts than byte-level BPE: each ends in
 * a sentence or in the right ids, soon and in bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "token/tokenizer.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- a small tokenizer, part by part ---------------------------------------------------------- */

/* The parts of a file; NULL is the default. */
typedef struct parts {
    const char *normalizer, *pre_tokenizer, *post_processor, *decoder, *model;
} parts;

#define LEVEL   "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"aa\":2}}"
#define UNIGRAM "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1.5],[\"aa\",-2]]}"

static const char *or_default(const char *part, const char *otherwise)
{
    return part ? part : otherwise;
}

static cdz_status parse(const parts *p, cdz_tokenizer **tok, cdz_error *err)
{
    cdz_buf text = {0};
    cdz_buf_printf(&text, "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,",
                   or_default(p->normalizer, "null"), or_default(p->pre_tokenizer, "null"),
                   or_default(p->post_processor, "null"));
    cdz_buf_printf(&text, "\"decoder\":%s,\"model\":%s}", or_default(p->decoder, "null"),
                   or_default(p->model, LEVEL));
    assert_false(text.failed);
    const cdz_status st = cdz_tokenizer_parse(text.data, text.len, NULL, 0, "x.json", tok, err);
    cdz_buf_free(&text);
    return st;
}

static cdz_tokenizer *must_parse(const parts *p)
{
    cdz_tokenizer *tok;
    cdz_error err = {0};
    if (parse(p, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    return tok;
}

static void repeat(cdz_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) cdz_buf_puts(out, text);
}

static void expect_refusal(const char *name, const parts *p, const char *sentence)
{
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    const cdz_status st = parse(p, &tok, &err);
    if (st == CDZ_OK || tok || !strstr(err.text, sentence) || strncmp(err.text, "x.json:", 7) != 0)
        fail_msg("%s: status %d: \"%s\"", name, (int)st, err.text);
}

/* --- files that are refused ------------------------------------------------------------------- */

#define MODEL(type, more) "{\"type\":\"" type "\"," more "}"
#define CHARSMAP(base64)  "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"" base64 "\"}"
#define META(more)        "{\"type\":\"Metaspace\",\"replacement\":\"_\"" more "}"

static const struct {
    const char *name;
    parts parts;
    const char *sentence; /* is part of what is said */
} refused[] = {
    {"unknown model",
     {.model = MODEL("Markov", "\"vocab\":{}")},
     "model of type \"Markov\"; supported:"},
    {"Unigram with an object",
     {.model = MODEL("Unigram", "\"vocab\":{}")},
     "expected a list of tokens"},
    {"score that is text",
     {.model = MODEL("Unigram", "\"vocab\":[[\"a\",\"-1\"]]")},
     "entry 0 is an array, expected [\"token\", score]"},
    {"score missing",
     {.model = MODEL("Unigram", "\"vocab\":[[\"a\"]]")},
     "expected [\"token\", score]"},
    {"score too large", {.model = MODEL("Unigram", "\"vocab\":[[\"a\",1e999]]")}, "x.json"},
    {"token that is a number",
     {.model = MODEL("Unigram", "\"vocab\":[[1,1]]")},
     "expected [\"token\""},
    {"unk past the vocabulary",
     {.model = MODEL("Unigram", "\"unk_id\":1,\"vocab\":[[\"a\",0]]")},
     "one of the 1 tokens"},
    {"unk below 0",
     {.model = MODEL("Unigram", "\"unk_id\":-1,\"vocab\":[[\"a\",0]]")},
     "one of the 1"},
    {"unk of no vocabulary",
     {.model = MODEL("Unigram", "\"unk_id\":0,\"vocab\":[]")},
     "one of the 0"},
    {"words of -1 characters",
     {.model = MODEL("WordPiece", "\"max_input_chars_per_word\":-1,\"vocab\":{}")},
     "a whole number from 0"},
    {"prefix that is a number",
     {.model = MODEL("WordPiece", "\"continuing_subword_prefix\":1,\"vocab\":{}")},
     "is an integer, expected a string"},
    {"merge shorter than the prefix",
     {.model = MODEL("BPE", "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"a\":0,\"b\":1},"
                            "\"merges\":[\"a b\"]")},
     "shorter than the continuing_subword_prefix"},
    {"charsmap of nothing", {.normalizer = CHARSMAP("AAA=")}, "cut off"},
    {"charsmap that is not base64", {.normalizer = CHARSMAP("A!AA")}, "not base64"},
    {"charsmap with a trie past its end", {.normalizer = CHARSMAP("/////w==")}, "cut off"},
    {"charsmap without a trie", {.normalizer = CHARSMAP("AAAAAA==")}, "not a whole number of units"},
    {"charsmap with half a unit",
     {.normalizer = CHARSMAP("BgAAAAAAAAAAAA==")},
     "whole number of units"},
    {"charsmap with texts that are not UTF-8", {.normalizer = CHARSMAP("BAAAAAAAAAD/")}, "not UTF-8"},
    {"charsmap that is a number",
     {.normalizer = "{\"type\":\"Precompiled\",\"precompiled_charsmap\":1}"},
     "is an integer, expected a string"},
    {"unknown normalizer", {.normalizer = "{\"type\":\"Upper\"}"}, "normalizer of type \"Upper\""},
    {"Replace of nothing",
     {.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"x\"}"},
     "that is not empty"},
    {"Replace without content",
     {.normalizer = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"},
     "\"content\" is"},
    {"Metaspace of two characters",
     {.pre_tokenizer = "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}"},
     "must be one character"},
    {"Metaspace scheme",
     {.pre_tokenizer = META(",\"prepend_scheme\":\"last\"")},
     "\"prepend_scheme\""},
    {"Metaspace against itself",
     {.pre_tokenizer = META(",\"prepend_scheme\":\"first\",\"add_prefix_space\":false")},
     "contradict each other"},
    {"pieces of 0", {.pre_tokenizer = "{\"type\":\"FixedLength\",\"length\":0}"}, "of 1 or more"},
    {"delimiter of nothing",
     {.pre_tokenizer = "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"\"}"},
     "must be one character"},
    {"cls without an id",
     {.post_processor = "{\"type\":\"BertProcessing\",\"cls\":[\"a\"],\"sep\":[\"a\",1]}"},
     "\"cls\" must be"},
    {"sep of 2^31",
     {.post_processor = "{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":[\"a\",2147483648]}"},
     "\"sep\" must be"},
    {"unknown decoder", {.decoder = "{\"type\":\"Morse\"}"}, "decoder of type \"Morse\"; supported:"},
    {"Strip of -1",
     {.decoder = "{\"type\":\"Strip\",\"content\":\" \",\"start\":-1,\"stop\":0}"},
     "a whole number from 0"},
    {"Strip of two characters",
     {.decoder = "{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}"},
     "one character"},
    {"suffix of nothing",
     {.decoder = "{\"type\":\"BPEDecoder\",\"suffix\":\"\"}"},
     "empty \"suffix\""},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++)
        expect_refusal(refused[i].name, &refused[i].parts, refused[i].sentence);
}

/* Patterns: without an engine all are refused, with one the broken ones. */
static void test_patterns(void **state)
{
    (void)state;
    static const char *const broken[] = {"[", "(?<=a*)b", "(", "\\\\p{Nonsense}", "a{2,1}{"};
    for (size_t i = 0; i < COUNT(broken); i++) {
        char part[200];
        cdz_tokenizer *tok;
        cdz_error err = {0};
        snprintf(part, sizeof part,
                 "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}}",
                 broken[i]);
        const cdz_status st = parse(&(parts){.pre_tokenizer = part}, &tok, &err);
        if (st == CDZ_OK)
            cdz_tokenizer_free(tok);
        else
            assert_true(st == CDZ_E_INPUT || st == CDZ_E_UNSUPPORTED);
        if (i == 0) assert_int_not_equal(st, CDZ_OK);
    }
}

/* --- texts ------------------------------------------------------------------------------------ */

static cdz_status encode(const cdz_tokenizer *tok, const char *text, size_t len, cdz_encoding *enc,
                         cdz_error *err)
{
    const cdz_status st = cdz_tokenizer_encode(tok, NULL, text, len, CDZ_ENCODE_OFFSETS, enc, err);
    for (size_t i = 0; st == CDZ_OK && i < enc->n; i++)
        assert_true(enc->offsets[i].begin <= enc->offsets[i].end && enc->offsets[i].end <= len);
    return st;
}

/* (a+)+$ on a run of letters: an answer or a refusal, but soon. */
static void test_pattern_that_backtracks(void **state)
{
    (void)state;
    cdz_tokenizer *tok;
    cdz_error err = {0};
    cdz_encoding enc = {0};
    cdz_buf text = {0};
    const parts p = {.pre_tokenizer = "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":"
                                      "{\"Regex\":\"(a|aa)+$\"}}"};
    const cdz_status st = parse(&p, &tok, &err);
    if (st == CDZ_E_UNSUPPORTED) skip();
    assert_int_equal(st, CDZ_OK);
    repeat(&text, "a", 60);
    cdz_buf_puts(&text, "b");
    assert_int_equal(encode(tok, text.data, text.len, &enc, &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "takes too long"));
    cdz_buf_free(&text);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
}

/* What a template may add to a text. */
static void test_template_that_repeats(void **state)
{
    (void)state;
    cdz_buf post = {0}, text = {0};
    cdz_buf_puts(&post, "{\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":[");
    for (int i = 0; i < 2000; i++)
        cdz_buf_printf(&post, "%s{\"Sequence\":{\"id\":\"A\"}}", i ? "," : "");
    cdz_buf_puts(&post, "]}");
    cdz_tokenizer *tok = must_parse(
        &(parts){.pre_tokenizer = "{\"type\":\"Whitespace\"}", .post_processor = post.data});
    cdz_encoding enc = {0};
    cdz_error err = {0};
    repeat(&text, "a ", 20000);
    const cdz_status st =
        cdz_tokenizer_encode(tok, NULL, text.data, text.len, CDZ_ENCODE_SPECIAL, &enc, &err);
    assert_int_equal(st, CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "makes 40000000 ids of 20000"));
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
    cdz_buf_free(&post);
    cdz_buf_free(&text);
}

/* An engine that walks to the end from each place without a retry; the same cuts as in a short text. */
static void test_pattern_without_retries(void **state)
{
    (void)state;
    cdz_tokenizer *tok = must_parse(&(parts){
        .pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?>a+)b|x\"},\"behavior\":"
                         "\"Removed\",\"invert\":false}"});
    cdz_encoding enc = {0};
    cdz_error err = {0};
    cdz_buf text = {0};
    repeat(&text, "axaaab", 4000); /* longer than what is searched in one call */
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text.data, text.len, 0, &enc, &err), CDZ_OK);
    assert_int_equal(enc.n, 4000);
    assert_int_equal(enc.ids[3999], 1);
    cdz_buf_clear(&text);
    repeat(&text, "a", 2000000);
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text.data, text.len, 0, &enc, &err),
                     CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "takes too long"));
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
    cdz_buf_free(&text);
}

static void check_chain(const char *step, size_t n_steps, const char *sentence)
{
    cdz_buf chain = {0};
    cdz_tokenizer *tok;
    cdz_encoding enc = {0};
    cdz_error err = {0};
    cdz_buf_puts(&chain, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (size_t i = 0; i < n_steps; i++) cdz_buf_printf(&chain, "%s%s", i > 0 ? "," : "", step);
    cdz_buf_puts(&chain, "]}");
    cdz_status st = parse(&(parts){.normalizer = chain.data}, &tok, &err);
    if (st == CDZ_OK) {
        st = encode(tok, "aaaaaaaaaaaaaaaaaaaa", 20, &enc, &err);
        cdz_tokenizer_free(tok);
    }
    if (st == CDZ_OK || !strstr(err.text, sentence))
        fail_msg("%zu of %s: %s", n_steps, step, err.text);
    cdz_encoding_free(&enc);
    cdz_buf_free(&chain);
}

static void test_chains(void **state)
{
    (void)state;
    static const char doubling[] =
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}";
    check_chain("{\"type\":\"Lowercase\"}", 10000, "more than 64 steps");
    check_chain(doubling, 10000, "more than 64 steps");
    check_chain(doubling, 60, "makes more than");
    check_chain("{\"type\":\"Prepend\",\"prepend\":\"aaaaaaaaaaaaaaaaaaaa\"},"
                "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaa\"}",
                30, "makes more than");
}

static void test_deep_chain(void **state)
{
    (void)state;
    cdz_buf chain = {0};
    repeat(&chain, "{\"type\":\"Sequence\",\"normalizers\":[", 10000);
    repeat(&chain, "]}", 10000);
    expect_refusal("normalizers", &(parts){.normalizer = chain.data}, "deep");
    expect_refusal("decoders", &(parts){.decoder = chain.data}, "deep");
    cdz_buf_free(&chain);
}

/* U+FDFA is 18 characters in NFKC; and a letter with 400,000 marks out of order. */
static void test_expansion(void **state)
{
    (void)state;
    cdz_tokenizer *tok = must_parse(&(parts){.normalizer = "{\"type\":\"NFKC\"}"});
    cdz_buf text = {0};
    cdz_encoding enc = {0};
    repeat(&text, "\xEF\xB7\xBA", 100000);
    assert_int_equal(encode(tok, text.data, text.len, &enc, NULL), CDZ_OK);
    assert_int_equal(enc.n, 1);
    assert_int_equal(enc.offsets[0].end, 100000);
    cdz_buf_clear(&text);
    cdz_buf_puts(&text, "a");
    repeat(&text, "\xCC\x81\xCC\xA3", 200000);
    assert_int_equal(encode(tok, text.data, text.len, &enc, NULL), CDZ_OK);
    cdz_buf_free(&text);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
}

/* Units that point anywhere. */
static void test_charsmap_units(void **state)
{
    (void)state;
    static const char *const maps[] = {
        "BAAAAP////9hAGIA",         /* one unit, far away from itself */
        "CAAAAAAEAAABAQAAYQA=",     /* a leaf whose value lies outside */
        "DAAAAAAAAABhAQAA/////2EA", /* a place past the texts */
        "DAAAAAAAAABhAgAAAQAAgMOp", /* a place inside a character */
    };
    for (size_t i = 0; i < COUNT(maps); i++) {
        char part[200];
        cdz_encoding enc = {0};
        snprintf(part, sizeof part, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%s\"}",
                 maps[i]);
        cdz_tokenizer *tok = must_parse(&(parts){.normalizer = part});
        for (unsigned c = 1; c < 128; c++) {
            const char text[] = {(char)c, 'a', (char)c};
            assert_int_equal(encode(tok, text, sizeof text, &enc, NULL), CDZ_OK);
        }
        cdz_encoding_free(&enc);
        cdz_tokenizer_free(tok);
    }
}

/* --- models ----------------------------------------------------------------------------------- */

static void check_ids(const char *model, const char *text, size_t len, size_t n, int32_t first)
{
    cdz_tokenizer *tok = must_parse(&(parts){.model = model});
    cdz_encoding enc = {0};
    cdz_error err = {0};
    if (encode(tok, text, len, &enc, &err) != CDZ_OK) fail_msg("%s", err.text);
    assert_int_equal(enc.n, n);
    if (n > 0) assert_int_equal(enc.ids[0], first);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
}

static void test_scores(void **state)
{
    (void)state;
    check_ids(UNIGRAM, "aaaa", 4, 2, 2);
    check_ids(UNIGRAM, "zzza", 4, 2, 0);
    /* sums past the largest double: some way is found all the same */
    check_ids(MODEL("Unigram",
                    "\"unk_id\":0,\"vocab\":[[\"?\",-1.7e308],[\"a\",1.7e308],[\"aa\",-1.7e308]]"),
              "aaaa", 4, 3, 1);
    /* a token twice: the last one counts */
    check_ids(MODEL("Unigram", "\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",1],[\"a\",-1]]"), "a", 1,
              1, 2);
    /* an empty token matches nowhere */
    check_ids(MODEL("Unigram", "\"unk_id\":0,\"vocab\":[[\"\",9],[\"a\",-1]]"), "a", 1, 1, 1);
}

static void test_no_unk(void **state)
{
    (void)state;
    static const char *const models[] = {
        MODEL("Unigram", "\"vocab\":[[\"a\",0]]"),
        MODEL("WordPiece", "\"unk_token\":\"?\",\"vocab\":{\"a\":0}"),
        MODEL("WordLevel", "\"unk_token\":\"?\",\"vocab\":{\"a\":0}"),
    };
    for (size_t i = 0; i < COUNT(models); i++) {
        cdz_tokenizer *tok = must_parse(&(parts){.model = models[i]});
        cdz_encoding enc = {0};
        cdz_error err = {0};
        assert_int_equal(encode(tok, "a", 1, &enc, &err), CDZ_OK);
        assert_int_equal(encode(tok, "b", 1, &enc, &err), CDZ_E_INPUT);
        assert_non_null(strstr(err.text, "not in the vocabulary"));
        cdz_encoding_free(&enc);
        cdz_tokenizer_free(tok);
    }
}

/* One word of a million letters goes through every model in time that grows with its length. */
static void test_huge_words(void **state)
{
    (void)state;
    cdz_buf text = {0};
    repeat(&text, "a", 1000000);
    check_ids(LEVEL, text.data, text.len, 1, 0);
    check_ids(UNIGRAM, text.data, text.len, 500000, 2);
    check_ids(MODEL("WordPiece", "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"##a\":2}"),
              text.data, text.len, 1, 0);
    check_ids(MODEL("WordPiece", "\"unk_token\":\"?\",\"max_input_chars_per_word\":4000000000,"
                                 "\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"##aaa\":3}"),
              text.data, text.len, 333334, 1);
    check_ids(MODEL("BPE", "\"byte_fallback\":true,\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},"
                           "\"merges\":[\"a a\",\"aa aa\"]"),
              text.data, text.len, 250000, 2);
    cdz_buf_free(&text);
}

static void test_long_token(void **state)
{
    (void)state;
    cdz_buf model = {0};
    cdz_buf_puts(&model, "{\"type\":\"Unigram\",\"vocab\":[[\"");
    repeat(&model, "a", 100000);
    cdz_buf_puts(&model, "\",0]]}");
    expect_refusal("token of 100,000 letters", &(parts){.model = model.data},
                   "a token of 100000 bytes");
    cdz_buf_free(&model);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* A long run of bytes that are no text costs each step the same, and comes out at the end. */
static void test_stream_of_bad_bytes(void **state)
{
    (void)state;
    const size_t n = 200000;
    cdz_tokenizer *tok = must_parse(&(parts){
        .decoder = "{\"type\":\"ByteFallback\"}",
        .model = MODEL("WordLevel",
                       "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<0xFF>\":1,\"<0x41>\":2}")});
    cdz_text_stream s = {.tok = tok};
    const char *text;
    size_t len;
    assert_int_equal(cdz_text_stream_feed(&s, 2, &text, &len, NULL), CDZ_OK);
    assert_string_equal(text, "A");
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(cdz_text_stream_feed(&s, 1 + (int32_t)(i % 2), &text, &len, NULL), CDZ_OK);
        if (i % 2 == 0) assert_int_equal(len, 0);
    }
    assert_int_equal(cdz_text_stream_feed(&s, 0, &text, &len, NULL), CDZ_OK);
    assert_int_equal(len, 3 * (n + 1) + 1);
    assert_int_equal(cdz_text_stream_end(&s, &text, &len, NULL), CDZ_OK);
    assert_int_equal(len, 0);
    cdz_text_stream_free(&s);
    cdz_tokenizer_free(tok);
}

/* A token alone is what it adds after other text, which a decoder may change; its own text where
 * the model cannot read that other text (wordlevel). */
static void test_text_alone(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *token, *text;
    } cases[] = {
        {"llama2", "\xE2\x96\x81the", " the"},
        {"llama2", "<0x41>", "A"},
        {"llama2", "<0xE2>", "\xEF\xBF\xBD"},
        {"t5", "\xE2\x96\x81", " "},
        {"bert", "##s", "s"},
        {"bert", ".", "."},
        {"bert", "the", " the"},
        {"wordlevel", "the", "the"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[512];
        cdz_tokenizer *tok;
        cdz_buf out = {0};
        snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, cases[i].folder);
        assert_int_equal(cdz_tokenizer_open(path, &tok, NULL), CDZ_OK);
        const int32_t id = cdz_tokenizer_id(tok, cases[i].token, strlen(cases[i].token));
        if (id < 0) fail_msg("%s has no %s", cases[i].folder, cases[i].token);
        assert_true(cdz_tokenizer_text_alone(tok, id, &out));
        assert_string_equal(out.data, cases[i].text);
        cdz_buf_free(&out);
        cdz_tokenizer_free(tok);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    static const char *const kinds[][2] = {{"gpt2", "byte-level BPE"},
                                           {"phi3", "BPE"},
                                           {"t5", "Unigram"},
                                           {"bert", "WordPiece"},
                                           {"wordlevel", "WordLevel"}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char path[512];
        cdz_tokenizer *tok;
        snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, kinds[i][0]);
        assert_int_equal(cdz_tokenizer_open(path, &tok, NULL), CDZ_OK);
        assert_string_equal(cdz_tokenizer_kind(tok), kinds[i][1]);
        cdz_tokenizer_free(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_pattern_that_backtracks),
        cmocka_unit_test(test_template_that_repeats),
        cmocka_unit_test(test_pattern_without_retries),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_deep_chain),
        cmocka_unit_test(test_expansion),
        cmocka_unit_test(test_charsmap_units),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_no_unk),
        cmocka_unit_test(test_huge_words),
        cmocka_unit_test(test_long_token),
        cmocka_unit_test(test_stream_of_bad_bytes),
        cmocka_unit_test(test_text_alone),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
