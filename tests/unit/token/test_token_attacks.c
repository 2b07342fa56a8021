/* test_token_attacks.c - broken, lying and hostile tokenizer.json files and texts: each ends in
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

/* The parts of a file that differ from the default; NULL is the default. */
typedef struct parts {
    const char *added, *normalizer, *pre_tokenizer, *post_processor, *decoder, *vocab, *merges,
        *more;
} parts;

#define VOCAB "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"\\u0120\":5,\"?\":6}"

static const char *or_default(const char *part, const char *otherwise)
{
    return part ? part : otherwise;
}

static void assemble(const parts *p, cdz_buf *out)
{
    cdz_buf_printf(out, "{\"added_tokens\":%s,\"normalizer\":%s,", or_default(p->added, "[]"),
                   or_default(p->normalizer, "null"));
    cdz_buf_printf(
        out, "\"pre_tokenizer\":%s,\"post_processor\":%s,",
        or_default(p->pre_tokenizer,
                   "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"),
        or_default(p->post_processor, "null"));
    cdz_buf_printf(out, "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":%s,\"merges\":%s%s}}",
                   or_default(p->decoder, "{\"type\":\"ByteLevel\"}"), or_default(p->vocab, VOCAB),
                   or_default(p->merges, "[\"a b\",\"ab c\"]"), or_default(p->more, ""));
    assert_false(out->failed);
}

static cdz_status parse(const parts *p, cdz_tokenizer **tok, cdz_error *err)
{
    cdz_buf text = {0};
    assemble(p, &text);
    const cdz_status st = cdz_tokenizer_parse(text.data, text.len, NULL, 0, "x.json", tok, err);
    cdz_buf_free(&text);
    return st;
}

/* --- files that are refused ------------------------------------------------------------------- */

#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"

static const struct {
    const char *name;
    parts parts;
    const char *sentence; /* is part of what is said */
} refused[] = {
    {"negative id", {.vocab = "{\"a\":-1}"}, "the id of \"a\" must be a whole number"},
    {"id 2^31", {.vocab = "{\"a\":0,\"b\":2147483648}"}, "the id 2147483648 of \"b\" is far past"},
    {"id 2^31-1", {.vocab = "{\"a\":0,\"b\":2147483647}"}, "is far past the 2 tokens"},
    {"id 2^64", {.vocab = "{\"a\":18446744073709551616}"}, "must be a whole number"},
    {"id with a point", {.vocab = "{\"a\":1.0}"}, "must be a whole number"},
    {"id is text", {.vocab = "{\"a\":\"0\"}"}, "must be a whole number"},
    {"two tokens of one id",
     {.vocab = "{\"a\":0,\"b\":0,\"ab\":1,\"c\":2,\"abc\":3}"},
     "have the same id 0"},
    {"one token twice", {.vocab = "{\"a\":0,\"a\":1}"}, "already in this object"},
    {"vocab is a list", {.vocab = "[\"a\"]"}, "model.vocab is an array"},
    {"no vocab", {.vocab = "null"}, "model.vocab is null"},
    {"merge of nothing", {.merges = "[\"\"]"}, "model.merges: entry 0"},
    {"merge of one", {.merges = "[\"a\"]"}, "model.merges: entry 0"},
    {"merge of three", {.merges = "[\"a b c\"]"}, "model.merges: entry 0"},
    {"merge of three in a list", {.merges = "[[\"a\",\"b\",\"c\"]]"}, "model.merges: entry 0"},
    {"merge of numbers", {.merges = "[[1,2]]"}, "model.merges: entry 0"},
    {"merge of an unknown token", {.merges = "[\"a b\",\"z a\"]"}, "\"z\" is not in the vocabulary"},
    {"merge into an unknown token", {.merges = "[\"b a\"]"}, "\"ba\" is not in the vocabulary"},
    {"merge with nothing", {.merges = "[[\"\",\"a\"]]"}, "\"\" is not in the vocabulary"},
    {"merges are missing", {.merges = "null"}, "model.merges is null"},
    {"dropout", {.more = ",\"dropout\":0.1"}, "\"dropout\""},
    {"unknown unk", {.more = ",\"unk_token\":\"zz\""}, "so is the \"unk_token\" \"zz\""},
    {"switch that is a number", {.more = ",\"ignore_merges\":1"}, "\"ignore_merges\" is an integer"},
    {"added token without content", {.added = "[{\"id\":9}]"}, "without a \"content\""},
    {"added token is a number", {.added = "[7]"}, "an entry is an integer"},
    {"added tokens are an object", {.added = "{}"}, "added_tokens is an object"},
    {"flag is text", {.added = "[{\"content\":\"x\",\"lstrip\":\"no\"}]"}, "\"lstrip\" is a string"},
    {"empty literal",
     {.pre_tokenizer =
          "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}"},
     "that is not empty"},
    {"unknown behavior",
     {.pre_tokenizer =
          "{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":\"Sideways\"}"},
     "needs a \"behavior\""},
    {"normalizer is a list", {.normalizer = "[]"}, "normalizer is an array"},
    {"template token without ids",
     {.post_processor =
          "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}],"
          "\"special_tokens\":{}}"},
     "the special token \"<s>\""},
    {"template id 2^31",
     {.post_processor =
          "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}],"
          "\"special_tokens\":{\"s\":{\"ids\":[2147483648]}}}"},
     "an id is an integer, expected"},
    {"unknown post-processor", {.post_processor = "{\"type\":\"Roberto\"}"}, "\"Roberto\""},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        cdz_tokenizer *tok = NULL;
        cdz_error err = {0};
        const cdz_status st = parse(&refused[i].parts, &tok, &err);
        if (st == CDZ_OK || tok || !strstr(err.text, refused[i].sentence) ||
            strncmp(err.text, "x.json:", 7) != 0)
            fail_msg("%s: status %d: \"%s\"", refused[i].name, (int)st, err.text);
    }
}

static void test_other_documents(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "[]", "null", "{}", "{\"model\":3}", "{\"model\":{\"type\":\"Unigram\"}}", "{"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        cdz_tokenizer *tok;
        cdz_error err = {0};
        assert_int_not_equal(
            cdz_tokenizer_parse(texts[i], strlen(texts[i]), NULL, 0, "x.json", &tok, &err), CDZ_OK);
        assert_true(strlen(err.text) > 10);
    }
}

/* --- odd files that mean something ------------------------------------------------------------ */

#define MAX_IDS 8

static const struct {
    const char *name;
    parts parts;
    const char *text;
    unsigned flags;
    int32_t ids[MAX_IDS];
    size_t n;
} accepted[] = {
    {"as it is", {0}, "abc ab", 0, {4, 5, 3}, 3},
    {"no merges", {.merges = "[]"}, "abc", 0, {0, 1, 2}, 3},
    {"a later merge of the same pair counts",
     {.merges = "[\"a b\",\"ab c\",\"a b\"]"},
     "abc",
     0,
     {4},
     1},
    {"merges that lead back to one token",
     {.vocab = "{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"aba\":4}",
      .merges = "[\"a b\",\"b a\",\"ab a\",\"a ba\"]"},
     "aba",
     0,
     {4},
     1},
    {"bytes without a token are dropped", {0}, "azb", 0, {3}, 1},
    {"bytes without a token are unk", {.more = ",\"unk_token\":\"?\""}, "azzb", 0, {0, 6, 6, 1}, 4},
    {"neighbouring unks are one",
     {.more = ",\"unk_token\":\"?\",\"fuse_unk\":true"},
     "azzb",
     0,
     {0, 6, 1},
     3},
    {"a whole piece before its merges",
     {.merges = "[]", .more = ",\"ignore_merges\":true"},
     "abc",
     0,
     {4},
     1},
    {"holes in the vocabulary",
     {.vocab = "{\"a\":0,\"b\":1000}", .merges = "[]"},
     "ab",
     0,
     {0, 1000},
     2},
    {"an empty vocabulary", {.vocab = "{}", .merges = "[]"}, "abc", 0, {0}, 0},
    {"an empty added token", {.added = "[{\"content\":\"\"}]"}, "abc", 0, {4}, 1},
    {"an added token twice",
     {.added = "[{\"content\":\"<x>\"},{\"content\":\"<x>\"}]"},
     "<x>a<x>",
     0,
     {7, 0, 7},
     3},
    {"an added token of the vocabulary",
     {.added = "[{\"id\":77,\"content\":\"b\"}]"},
     "abc",
     0,
     {0, 1, 2},
     3},
    {"ids of the file do not count",
     {.added = "[{\"id\":500,\"content\":\"<x>\"},{\"id\":3,\"content\":\"<y>\"}]"},
     "<y><x>",
     0,
     {8, 7},
     2},
    {"a template with the text twice",
     {.post_processor = "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},"
                        "{\"SpecialToken\":{\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}],"
                        "\"special_tokens\":{\"s\":{\"ids\":[6,9999]}}}"},
     "ab",
     CDZ_ENCODE_SPECIAL | CDZ_ENCODE_OFFSETS,
     {3, 6, 9999, 3},
     4},
    {"a template of nothing",
     {.post_processor = "{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}}"},
     "ab",
     CDZ_ENCODE_SPECIAL,
     {0},
     0},
};

static void test_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        cdz_tokenizer *tok;
        cdz_error err = {0};
        cdz_encoding enc = {0};
        const char *text = accepted[i].text;
        if (parse(&accepted[i].parts, &tok, &err) != CDZ_OK)
            fail_msg("%s: %s", accepted[i].name, err.text);
        assert_int_equal(
            cdz_tokenizer_encode(tok, NULL, text, strlen(text), accepted[i].flags, &enc, &err),
            CDZ_OK);
        if (enc.n != accepted[i].n ||
            (enc.n && memcmp(enc.ids, accepted[i].ids, enc.n * sizeof *enc.ids) != 0))
            fail_msg("%s: other ids", accepted[i].name);
        cdz_encoding_free(&enc);
        cdz_tokenizer_free(tok);
    }
}

/* --- many and deep ---------------------------------------------------------------------------- */

static void repeat(cdz_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) cdz_buf_puts(out, text);
}

static void expect_refusal(const parts *p, const char *sentence)
{
    cdz_tokenizer *tok;
    cdz_error err = {0};
    assert_int_not_equal(parse(p, &tok, &err), CDZ_OK);
    if (!strstr(err.text, sentence)) fail_msg("%s", err.text);
}

static void test_deep_normalizers(void **state)
{
    (void)state;
    cdz_buf chain = {0};
    repeat(&chain, "{\"type\":\"Sequence\",\"normalizers\":[", 10000);
    repeat(&chain, "]}", 10000);
    expect_refusal(&(parts){.normalizer = chain.data}, "deep");
    cdz_buf_free(&chain);
}

static void test_many_normalizers(void **state)
{
    (void)state;
    cdz_buf chain = {0};
    cdz_tokenizer *tok;
    cdz_buf_puts(&chain, "{\"type\":\"Sequence\",\"normalizers\":[");
    repeat(&chain, "{\"type\":\"NFC\"},", 9999);
    cdz_buf_puts(&chain, "{\"type\":\"NFC\"}]}");
    assert_int_equal(parse(&(parts){.normalizer = chain.data}, &tok, NULL), CDZ_OK);
    cdz_tokenizer_free(tok);
    cdz_buf_free(&chain);
}

/* A vocabulary too large for the reader of JSON to look for repeated names. */
static void test_token_twice_among_many(void **state)
{
    (void)state;
    cdz_buf vocab = {0};
    cdz_buf_puts(&vocab, "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,");
    for (int i = 5; i < 2000; i++) cdz_buf_printf(&vocab, "\"k%d\":%d,", i, i);
    cdz_buf_puts(&vocab, "\"ab\":2000}");
    expect_refusal(&(parts){.vocab = vocab.data}, "model.vocab: \"ab\" is there twice");
    cdz_buf_free(&vocab);
}

/* Merges are read in blocks: one that is wrong is named wherever it stands, and the first one of several. */
static void test_wrong_merge_among_many(void **state)
{
    (void)state;
    static const struct {
        const char *wrong, *found; /* what is said of it after its number; NULL: see token */
        const char *token;         /* what is said not to be in the vocabulary */
    } cases[] = {{"\"ab\"", "is a string", NULL},
                 {"7", "is an integer", NULL},
                 {"\"c b\"", NULL, "cb"},
                 {"\"x b\"", NULL, "x"}};
    static const size_t places[] = {0, 31, 32, 33, 63, 64, 100};
    for (size_t c = 0; c < COUNT(cases); c++)
        for (size_t p = 0; p < COUNT(places); p++) {
            char sentence[100];
            cdz_buf merges = {0};
            cdz_buf_puts(&merges, "[");
            repeat(&merges, "\"a b\",", places[p]);
            cdz_buf_puts(&merges, cases[c].wrong);
            repeat(&merges, ",\"a b\"", 50);
            cdz_buf_puts(&merges, ",null]");
            if (cases[c].found)
                snprintf(sentence, sizeof sentence, "entry %zu %s", places[p], cases[c].found);
            else
                snprintf(sentence, sizeof sentence, "\"%s\" is not in the voc", cases[c].token);
            expect_refusal(&(parts){.merges = merges.data}, sentence);
            cdz_buf_free(&merges);
        }
}

static void test_many_cuts(void **state)
{
    (void)state;
    cdz_buf chain = {0};
    cdz_buf_puts(&chain, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    repeat(&chain, "{\"type\":\"Digits\"},", 1000);
    cdz_buf_puts(&chain, "{\"type\":\"ByteLevel\"}]}");
    expect_refusal(&(parts){.pre_tokenizer = chain.data}, "more than 16 cuts");
    cdz_buf_free(&chain);
}

static void test_long_pattern(void **state)
{
    (void)state;
    cdz_buf part = {0};
    cdz_buf_puts(&part, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":\"");
    repeat(&part, "(a|", 1 << 18);
    cdz_buf_puts(&part, "\"}}");
    expect_refusal(&(parts){.pre_tokenizer = part.data}, "a pattern of 786432 bytes");
    cdz_buf_free(&part);
}

static void test_pattern_not_utf8(void **state)
{
    (void)state;
    expect_refusal(&(parts){.pre_tokenizer = SPLIT("[\xFF]")}, "UTF-8");
}

static void test_long_added_token(void **state)
{
    (void)state;
    cdz_buf part = {0};
    cdz_buf_puts(&part, "[{\"content\":\"");
    repeat(&part, "a", 1 << 20);
    cdz_buf_puts(&part, "\"}]");
    expect_refusal(&(parts){.added = part.data}, "a token of 1048576 bytes");
    cdz_buf_free(&part);
}

static void put_added_tokens(cdz_buf *part, int n)
{
    cdz_buf_puts(part, "[{\"content\":\"<0>\"}");
    for (int i = 1; i < n; i++) cdz_buf_printf(part, ",{\"content\":\"<%d>\"}", i);
    cdz_buf_puts(part, "]");
}

/* So many short ones would take more than 4 times their file and 64 MiB. */
static void test_million_added_tokens(void **state)
{
    (void)state;
    cdz_buf part = {0};
    put_added_tokens(&part, 1000000);
    expect_refusal(&(parts){.added = part.data}, "the tokenizer needs more than the ");
    cdz_buf_free(&part);
}

static void test_many_added_tokens(void **state)
{
    (void)state;
    cdz_buf part = {0};
    cdz_tokenizer *tok;
    cdz_encoding enc = {0};
    cdz_error err = {0};
    const char *text = "<199999>ab<0>";
    put_added_tokens(&part, 200000);
    if (parse(&(parts){.added = part.data}, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    cdz_buf_free(&part);
    assert_int_equal(cdz_tokenizer_n_tokens(tok), 200007);
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text, strlen(text), 0, &enc, NULL), CDZ_OK);
    assert_int_equal(enc.n, 3);
    assert_int_equal(enc.ids[0], 200006);
    assert_int_equal(enc.ids[1], 3);
    assert_int_equal(enc.ids[2], 7);
    cdz_encoding_free(&enc);
    cdz_tokenizer_free(tok);
}

/* A file cut off anywhere is refused. */
static void test_truncated(void **state)
{
    (void)state;
    cdz_buf text = {0};
    assemble(&(parts){.added = "[{\"content\":\"<x>\",\"special\":true}]"}, &text);
    for (size_t n = 0; n < text.len; n++) {
        cdz_tokenizer *tok;
        char *copy = malloc(n ? n : 1); /* of its own, so that reading past its end is found */
        assert_non_null(copy);
        memcpy(copy, text.data, n);
        assert_int_not_equal(cdz_tokenizer_parse(copy, n, NULL, 0, "x.json", &tok, NULL), CDZ_OK);
        free(copy);
    }
    cdz_buf_free(&text);
}

/* --- hostile texts ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *unit;
} monotonous[] = {
    {"one letter", "a"},
    {"spaces", " "},
    {"newlines and spaces", "\n "},
    {"combining marks out of order", "\xCC\x81\xCC\xA3"},
    {"Hangul parts", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"},
    {"the begin of an added token", "<|im_"},
    {"an added token", "<|im_start|>"},
    {"a letter that is upper and lower", "\xC2\xAA"
                                         "B"},
    {"a character that NFKC would write with 18", "\xEF\xB7\xBA"},
    {"U+FFFF", "\xEF\xBF\xBF"},
};

/* A megabyte of one thing: the text must come back from its ids. */
static void check_monotonous(const cdz_tokenizer *tok, const char *name, const char *unit,
                             bool exact)
{
    cdz_buf text = {0}, back = {0};
    cdz_encoding enc = {0};
    repeat(&text, unit, ((size_t)1 << 20) / strlen(unit));
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text.data, text.len, 0, &enc, NULL), CDZ_OK);
    assert_int_equal(cdz_tokenizer_decode(tok, enc.ids, enc.n, 0, &back, NULL), CDZ_OK);
    if (exact && (back.len != text.len || memcmp(back.data, text.data, text.len) != 0))
        fail_msg("%s", name);
    const size_t n = enc.n;
    assert_int_equal(
        cdz_tokenizer_encode(tok, NULL, text.data, text.len, CDZ_ENCODE_OFFSETS, &enc, NULL),
        CDZ_OK);
    assert_int_equal(enc.n, n);
    cdz_encoding_free(&enc);
    cdz_buf_free(&text);
    cdz_buf_free(&back);
}

static void test_monotonous_texts(void **state)
{
    (void)state;
    static const char *const folders[] = {"qwen2", "o200k"};
    for (size_t f = 0; f < COUNT(folders); f++) {
        char path[512];
        cdz_tokenizer *tok;
        snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, folders[f]);
        assert_int_equal(cdz_tokenizer_open(path, &tok, NULL), CDZ_OK);
        for (size_t i = 0; i < COUNT(monotonous);
             i++) /* qwen2 normalises: the text that comes back is another */
            check_monotonous(tok, monotonous[i].name, monotonous[i].unit,
                             strcmp(folders[f], "qwen2") != 0);
        cdz_tokenizer_free(tok);
    }
}

static const struct {
    const char *name, *text;
    size_t len;
    const char *sentence;
} bad_texts[] = {
    {"lone continuation", "ab\x80", 3, "byte 0x80 at offset 2"},
    {"cut off", "\xE2\x82", 2, "byte 0xE2 at offset 0"},
    {"overlong", "abc\xC0\x80", 5, "byte 0xC0 at offset 3"},
    {"surrogate", "\xED\xA0\x80", 3, "byte 0xED at offset 0"},
    {"past U+10FFFF", "x\xF4\x90\x80\x80", 5, "byte 0xF4 at offset 1"},
};

static void test_bad_texts(void **state)
{
    (void)state;
    cdz_tokenizer *tok;
    assert_int_equal(parse(&(parts){0}, &tok, NULL), CDZ_OK);
    for (size_t i = 0; i < COUNT(bad_texts); i++) {
        cdz_encoding enc = {0};
        cdz_error err = {0};
        const cdz_status st =
            cdz_tokenizer_encode(tok, NULL, bad_texts[i].text, bad_texts[i].len, 0, &enc, &err);
        if (st != CDZ_E_INPUT || !strstr(err.text, bad_texts[i].sentence))
            fail_msg("%s: %s", bad_texts[i].name, err.text);
        cdz_encoding_free(&enc);
    }
    cdz_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_other_documents),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_deep_normalizers),
        cmocka_unit_test(test_many_normalizers),
        cmocka_unit_test(test_many_cuts),
        cmocka_unit_test(test_long_pattern),
        cmocka_unit_test(test_pattern_not_utf8),
        cmocka_unit_test(test_long_added_token),
        cmocka_unit_test(test_million_added_tokens),
        cmocka_unit_test(test_many_added_tokens),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_monotonous_texts),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_token_twice_among_many),
        cmocka_unit_test(test_wrong_merge_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
