/* test_token_cost.c - what a tokenizer may cost: texts and files that are made for each other end in a sentence, by a count
 * of steps; ordinary ones take few, and the steps grow as the text does. Cost is counted, never timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/memory_meter.h"
#include "token/parts.h"
#include "token/regex_count.h"
#include "token/word_stream.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void repeat(cdz_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) cdz_buf_puts(out, text);
}

/* --- files, part by part -------------------------------------------------------------------------- */

static void word_level(cdz_buf *out)
{
    cdz_buf_puts(out, "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0}}");
}

/* One letter, and a thousand of it with another at the end: each place goes through a thousand. */
static void unigram(cdz_buf *out)
{
    cdz_buf_puts(out, "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],"
                      "[\"b\",-1],[\" \",-1],[\"");
    repeat(out, "a", 1000);
    cdz_buf_puts(out, "z\",-2]]}");
}

static void wordpiece(cdz_buf *out)
{
    cdz_buf_puts(out, "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"max_input_chars_per_"
                      "word\":4000000000,\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"##b\":3,\"##");
    repeat(out, "a", 1000);
    cdz_buf_puts(out, "z\":4}}");
}

static void added_prefix(cdz_buf *out)
{
    cdz_buf_puts(out, "\"added_tokens\":[{\"content\":\"a\"},{\"content\":\"");
    repeat(out, "a", 1000);
    cdz_buf_puts(out, "z\"}],");
    word_level(out);
}

/* Tokens that are prefixes of each other, with many ways to go on at each place. */
static void added_siblings(cdz_buf *out)
{
    cdz_buf_puts(out, "\"added_tokens\":[{\"content\":\"a\"}");
    for (int k = 1; k < 600; k++)
        for (char c = 'b'; c <= 'm'; c++) {
            cdz_buf_puts(out, ",{\"content\":\"");
            repeat(out, "a", (size_t)k);
            cdz_buf_printf(out, "%c\"}", c);
        }
    cdz_buf_puts(out, "],");
    word_level(out);
}

/* Each space takes in all that follow, and each of those is found again. */
static void added_space(cdz_buf *out)
{
    cdz_buf_puts(out, "\"added_tokens\":[{\"content\":\" \",\"rstrip\":true}],");
    word_level(out);
}

/* A text of some size before each of many stretches. */
static void prepended(cdz_buf *out)
{
    cdz_buf_puts(out, "\"added_tokens\":[{\"content\":\"a\"}],\"normalizer\":{\"type\":\"Prepend\","
                      "\"prepend\":\"");
    repeat(out, "x", 1000000);
    cdz_buf_puts(out, "\"},");
    word_level(out);
}

static void long_prefix(cdz_buf *out)
{
    cdz_buf_puts(out, "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0},"
                      "\"merges\":[],\"continuing_subword_prefix\":\"");
    repeat(out, "#", 1000);
    cdz_buf_puts(out, "\"}");
}

#define SPLIT(name, pattern)                                                                       \
    static void name(cdz_buf *out)                                                                 \
    {                                                                                              \
        cdz_buf_puts(out, "\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","       \
                          "\"pattern\":{\"Regex\":\"" pattern "\"}},");                            \
        word_level(out);                                                                           \
    }
SPLIT(atomic, "(?>a+)b|x")
SPLIT(atomic_from_search, "\\\\G(?>a+)b|x")
SPLIT(made_atomic, "a+b|x")
SPLIT(looks_ahead, "(?=[a ]*z)a|x")
SPLIT(lazy, "[a ]+?z|x")
SPLIT(refers, "(a+)\\\\1z|x")
SPLIT(words, "\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\s+")

static void replaced(cdz_buf *out)
{
    cdz_buf_puts(out,
                 "\"normalizer\":{\"type\":\"Replace\",\"content\":\"_\",\"pattern\":{\"Regex\":"
                 "\"(?>a+)b\"}},");
    word_level(out);
}

typedef void (*part_fn)(cdz_buf *out);

static cdz_tokenizer *must_parse(part_fn parts)
{
    cdz_buf text = {0};
    cdz_tokenizer *tok;
    cdz_error err = {0};
    cdz_buf_puts(&text, "{");
    parts(&text);
    cdz_buf_puts(&text, "}");
    assert_false(text.failed);
    const cdz_status st = cdz_tokenizer_parse(text.data, text.len, NULL, 0, "x.json", &tok, &err);
    cdz_buf_free(&text);
    if (st == CDZ_E_UNSUPPORTED && strstr(err.text, "no regex engine")) skip();
    if (st != CDZ_OK) fail_msg("%s", err.text);
    return tok;
}

/* --- texts ---------------------------------------------------------------------------------------- */

static cdz_status encode(const cdz_tokenizer *tok, const cdz_buf *text, unsigned flags,
                         uint64_t *steps, cdz_error *err)
{
    cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
    cdz_encoding out = {0};
    cdz_meter all;
    assert_non_null(scratch);
    const cdz_status st =
        cdz_tokenizer_encode(tok, scratch, text->data, text->len, flags, &out, err);
    cdz_meter_begin(&all, text->len);
    *steps = all.left - scratch->meter.left;
    cdz_encoding_free(&out);
    cdz_tokenizer_scratch_free(scratch);
    return st;
}

static const struct {
    const char *name;
    part_fn parts;
    const char *unit, *sentence;
} hostile[] = {
    {"Unigram", unigram, "a", "the model takes too many steps"},
    {"WordPiece", wordpiece, "a", "the model takes too many steps"},
    {"an added token that nearly matches", added_prefix, "a", "search for added tokens takes too"},
    {"added tokens with many ways on", added_siblings, "a", "search for added tokens takes too"},
    {"added whitespace that takes in whitespace", added_space, " ", "search for added tokens takes"},
    {"a text before each stretch", prepended, "ab", "the normalizer makes more than"},
    {"a long prefix", long_prefix, "b", "what is put around characters may make"},
    {"a pattern with an atomic group", atomic, "a", "pattern takes too long"},
    {"a pattern with \\G", atomic_from_search, "a", "pattern takes too long"},
    {"a pattern that the engine makes atomic", made_atomic, "a", "pattern takes too long"},
    {"a pattern that looks ahead", looks_ahead, "a ", "pattern takes too long"},
    {"a lazy pattern", lazy, "a ", "pattern takes too long"},
    {"a pattern with a reference", refers, "a", "pattern takes too long"},
    {"a pattern of the normalizer", replaced, "a", "the normalizer's pattern takes too long"},
};

static void test_hostile(void **state)
{
    (void)state;
    static const size_t sizes[] = {200000, 600000};
    for (size_t i = 0; i < COUNT(hostile); i++) {
        cdz_tokenizer *tok = must_parse(hostile[i].parts);
        for (size_t s = 0; s < COUNT(sizes); s++) {
            cdz_buf text = {0};
            cdz_error err = {0};
            uint64_t steps;
            repeat(&text, hostile[i].unit, sizes[s] / strlen(hostile[i].unit));
            if (encode(tok, &text, 0, &steps, &err) != CDZ_E_LIMIT ||
                !strstr(err.text, hostile[i].sentence))
                fail_msg("%s, %zu bytes: \"%s\"", hostile[i].name, sizes[s], err.text);
            cdz_buf_free(&text);
        }
        cdz_tokenizer_free(tok);
    }
}

/* The same files read ordinary text: a few steps a byte, and eight times as many for eight times the text. What a
 * pattern takes is known to a factor of two. */
static void test_ordinary(void **state)
{
    (void)state;
    static const part_fn files[] = {unigram,     wordpiece, added_prefix, added_siblings,
                                    added_space, atomic,    made_atomic,  looks_ahead,
                                    lazy,        replaced,  words,        atomic_from_search};
    for (size_t i = 0; i < COUNT(files); i++) {
        cdz_tokenizer *tok = must_parse(files[i]);
        uint64_t once, more;
        cdz_error err = {0};
        cdz_buf text = {0};
        repeat(&text, "aab baab bab aaaab ", 4000);
        if (encode(tok, &text, CDZ_ENCODE_OFFSETS, &once, &err) != CDZ_OK)
            fail_msg("%zu: %s", i, err.text);
        repeat(&text, "aab baab bab aaaab ", 28000);
        assert_int_equal(encode(tok, &text, 0, &more, &err), CDZ_OK);
        if (more > 32 * text.len || more > once * 17 + 100000)
            fail_msg("%zu: %llu steps, then %llu", i, (unsigned long long)once,
                     (unsigned long long)more);
        cdz_buf_free(&text);
        cdz_tokenizer_free(tok);
    }
}

/* --- patterns that count -------------------------------------------------------------------------- */

static void test_twins(void **state)
{
    (void)state;
#define F "(?:(?!)b|"
    static const struct {
        const char *pattern, *twin; /* NULL: none */
    } cases[] = {
        {"abc", "abc"},
        {"a+b", F "a)+b"},
        {"a*?|b++", F "a)*?|" F "b)++"},
        {"(?>a+)b", "(?>" F "a)+)b"},
        {"(?:ab+)*", F "(?:a" F "b)+))*"},
        {"[^\\]a[b]]{2,}x", F "[^\\]a[b]]){2,}x"},
        {"\\p{L}{1,3}+\\s?", F "\\p{L}){1,3}+" F "\\s)?"},
        {"\\x{4e00}+\\u4e00*\\x41+", F "\\x{4e00})+" F "\\u4e00)*" F "\\x41)+"},
        {"(?i:'s|'t)|(?=b+)c", "(?i:'s|'t)|(?=" F "b)+)c"},
        {"(?<n>a)+(?<=b{2})c", F "(?<n>a))+(?<=b{2})c"},
        {"\xC3\xA9+{,}a{", F "\xC3\xA9)+{,}a{"},
        {"(a)\\1", NULL},
        {"(?<n>a)\\k<n>", NULL},
        {"(?x) a +", NULL},
        {"(?~ab)", NULL},
        {"(?<=a+)b", NULL},
        {"(?=a)+b", NULL},
        {"\\xE4\\xB8\\x80+", NULL},
        {"(*FAIL)", NULL},
    };
#undef F
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_buf twin = {0};
        const bool ok = cdz_regex_count(cases[i].pattern, strlen(cases[i].pattern), &twin);
        if (ok != (cases[i].twin != NULL) || (ok && strcmp(twin.data, cases[i].twin) != 0))
            fail_msg("%s: %s", cases[i].pattern, twin.data ? twin.data : "");
        cdz_buf_free(&twin);
    }
}

/* --- ids to text ---------------------------------------------------------------------------------- */

static void removed(cdz_buf *out)
{
    cdz_buf_puts(out,
                 "\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
                 "\"\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":"
                 "0,\"a\":1,\"b\":2}}");
}

static void said_once(cdz_buf *out)
{
    cdz_buf_puts(out,
                 "\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"WordLevel\",\"unk_token\":"
                 "\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2}}");
}

/* A decoder that holds text back is not asked with every id, and nothing is lost. */
static void test_held_streams(void **state)
{
    (void)state;
    static const part_fn files[] = {removed, said_once};
    static const char *const whole[] = {"bbb", "abbb"};
    for (size_t f = 0; f < COUNT(files); f++) {
        cdz_tokenizer *tok = must_parse(files[f]);
        cdz_text_stream s = {.tok = tok};
        cdz_buf all = {0};
        const char *text;
        size_t len, asked = 0;
        for (int i = 0; i < 200000; i++) {
            const size_t before = s.look_at;
            assert_int_equal(cdz_text_stream_feed(&s, 1, &text, &len, NULL), CDZ_OK);
            cdz_buf_add(&all, text, len);
            asked += s.look_at != before;
        }
        assert_true(asked < 400);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(cdz_text_stream_feed(&s, i == 1 ? 1 : 2, &text, &len, NULL), CDZ_OK);
            cdz_buf_add(&all, text, len);
        }
        assert_int_equal(cdz_text_stream_end(&s, &text, &len, NULL), CDZ_OK);
        cdz_buf_add(&all, text, len);
        assert_true(all.len <= strlen(whole[f]) + 1 && strstr(all.data, "b"));
        cdz_buf_free(&all);
        cdz_text_stream_free(&s);
        cdz_tokenizer_free(tok);
    }
}

/* One word that does not end is searched for a space once. */
static void test_word_without_end(void **state)
{
    (void)state;
    cdz_word_stream s = {0};
    size_t n;
    for (int i = 0; i < 3000000; i++) {
        assert_non_null(cdz_word_stream_feed(&s, "a", 1, &n));
        assert_int_equal(n, 0);
    }
    assert_non_null(cdz_word_stream_feed(&s, "a b", 3, &n));
    assert_int_equal(n, 3000002);
    assert_non_null(cdz_word_stream_end(&s, &n));
    assert_int_equal(n, 1);
    cdz_word_stream_free(&s);
}

/* Tokens may be as long as their file: what many of them come to is bounded. */
static void long_token(cdz_buf *out)
{
    cdz_buf_puts(out, "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"");
    repeat(out, "a", 1 << 20);
    cdz_buf_puts(out, "\":1}}");
}

static void test_long_text(void **state)
{
    (void)state;
    cdz_tokenizer *tok = must_parse(long_token);
    int32_t *ids = malloc(2000 * sizeof *ids);
    cdz_buf out = {0};
    cdz_error err = {0};
    assert_non_null(ids);
    for (int i = 0; i < 2000; i++) ids[i] = 1;
    assert_int_equal(cdz_tokenizer_decode(tok, ids, 2000, 0, &out, &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "the tokens of 2000 ids have 2097152000 bytes"));
    free(ids);
    cdz_buf_free(&out);
    cdz_tokenizer_free(tok);
}

/* Steps that each make 60 of one: what one of them makes is bounded by what went in, not by what the last one made. */
static void growing(cdz_buf *out)
{
    cdz_buf step = {0};
    cdz_buf_puts(&step, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"");
    repeat(&step, "a", 60);
    cdz_buf_puts(&step, "\"}");
    cdz_buf_printf(out, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s,%s,%s]},", step.data,
                   step.data, step.data);
    cdz_buf_puts(out, "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,"
                      "\"a\":1}}");
    cdz_buf_free(&step);
}

static void test_growing_text(void **state)
{
    (void)state;
    enum { N = 500000 };
    cdz_tokenizer *tok = must_parse(growing);
    int32_t *ids = malloc(N * sizeof *ids);
    cdz_buf out = {0};
    cdz_error err = {0};
    assert_non_null(ids);
    for (int i = 0; i < N; i++) ids[i] = 1;
    meter_begin();
    assert_int_equal(cdz_tokenizer_decode(tok, ids, N, 0, &out, &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "more than 64 bytes of each"));
    assert_true(meter_most() < 400L << 20);
    free(ids);
    cdz_buf_free(&out);
    cdz_tokenizer_free(tok);
}

/* --- files whose hashes would all collide --------------------------------------------------------- */

#define N_TOKENS 1000
#define N_BYTES  1000
#define N_SLOTS  (1u << 21)

/* Tokens whose edges, were the hash the same in every process, would all lie in a fiftieth of the table. Node numbers are
 * those of the trie: one for each new byte, in order. */
static void colliding(cdz_buf *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t next = CDZ_TRIE_ROOT + 1;
    cdz_buf_puts(out, "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[");
    for (unsigned t = 0; t < N_TOKENS; t++) {
        next += t % 62 == 0; /* the first byte is new */
        uint64_t node;
        cdz_buf_printf(out, "%s[\"%c%c", t ? "," : "", letters[t / 62], letters[t % 62]);
        node = next++;
        for (unsigned i = 2; i < N_BYTES; i++) {
            unsigned k = 0;
            while (k < 61 && (cdz_hash_mix(node << 8 | (uint8_t)letters[k]) >> 20 & (N_SLOTS - 1)) >
                                 N_SLOTS / 50)
                k++;
            cdz_buf_putc(out, letters[k]);
            node = next++;
        }
        cdz_buf_puts(out, "\",-1]");
    }
    cdz_buf_puts(out, "]}");
}

static void test_colliding_edges(void **state)
{
    (void)state;
    cdz_tokenizer *tok = must_parse(colliding);
    const cdz_byte_trie *trie = &tok->model.trie;
    uint64_t longest = 0, run = 0;
    assert_int_equal(trie->mask, N_SLOTS - 1);
    for (uint64_t i = 0; i <= trie->mask; i++) {
        run = trie->keys[i] ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    if (longest > 10000) fail_msg("%llu edges in a row", (unsigned long long)longest);
    cdz_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_ordinary),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_held_streams),
        cmocka_unit_test(test_word_without_end),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_growing_text),
        cmocka_unit_test(test_colliding_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
