/* test_tokenizer.c - every recorded case of the reference: ids, offsets, decoding, streams,
 * look-ups; and the texts and features the records do not reach. */
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

/* --- one folder of recorded cases ------------------------------------------------------------- */

typedef struct fixture {
    const char *name;
    cdz_tokenizer *tok;
    cdz_tokenizer_scratch *scratch;
    cdz_encoding enc;
    cdz_arena arena;
    cdz_json cases, facts;
    size_t n_checked, n_failed;
} fixture;

static void read_json(cdz_arena *arena, const char *folder, const char *file, cdz_json *out)
{
    cdz_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/%s/%s", CADENZA_TEST_DATA, folder, file);
    if (cdz_json_read_file(path, 0, NULL, arena, out, &err) != CDZ_OK) fail_msg("%s", err.text);
}

static void open_fixture(fixture *f, const char *name)
{
    char path[512];
    cdz_error err = {0};
    *f = (fixture){.name = name, .scratch = cdz_tokenizer_scratch_new()};
    snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, name);
    if (cdz_tokenizer_open(path, &f->tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    read_json(&f->arena, name, "cases.json", &f->cases);
    read_json(&f->arena, name, "facts.json", &f->facts);
}

static void close_fixture(fixture *f)
{
    cdz_encoding_free(&f->enc);
    cdz_tokenizer_scratch_free(f->scratch);
    cdz_tokenizer_free(f->tok);
    cdz_arena_free(&f->arena);
}

/* Counts a comparison and names it when it came out wrong. */
static void check(fixture *f, bool ok, size_t index, const char *what)
{
    f->n_checked++;
    if (ok) return;
    f->n_failed++;
    if (f->n_failed <= 20) print_error("%s: case %zu: %s differ\n", f->name, index, what);
}

static bool same_ids(const cdz_json *want, const int32_t *ids, size_t n)
{
    if (want->len != n) return false;
    for (size_t i = 0; i < n; i++)
        if (want->items[i].integer != ids[i]) return false;
    return true;
}

static bool same_offsets(const cdz_json *want, const cdz_token_span *spans, size_t n)
{
    if (want->len != n) return false;
    for (size_t i = 0; i < n; i++) {
        const cdz_json *pair = want->items[i].items;
        if (pair[0].integer != spans[i].begin || pair[1].integer != spans[i].end) return false;
    }
    return true;
}

static bool same_text(const cdz_json *want, const char *text, size_t len)
{
    return cdz_json_is(want, CDZ_JSON_STRING) && want->len == len &&
           memcmp(want->string, text, len) == 0;
}

static int32_t *ids_of(const cdz_json *list)
{
    int32_t *ids = malloc((list->len + 1u) * sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < list->len; i++) ids[i] = (int32_t)list->items[i].integer;
    return ids;
}

static void check_encode(fixture *f, const cdz_json *c, size_t i, unsigned flags, const char *key)
{
    const cdz_json *text = cdz_json_get(c, "text");
    cdz_error err = {0};
    if (cdz_tokenizer_encode(f->tok, f->scratch, text->string, text->len, flags, &f->enc, &err) !=
        CDZ_OK)
        fail_msg("%s: case %zu: %s", f->name, i, err.text);
    check(f, same_ids(cdz_json_get(c, key), f->enc.ids, f->enc.n), i, key);
}

static void check_decode(fixture *f, const cdz_json *c, size_t i, unsigned flags, const char *key)
{
    const cdz_json *list = cdz_json_get(c, "ids"), *want = cdz_json_get(c, key);
    int32_t *ids = ids_of(list);
    cdz_buf out = {0};
    assert_int_equal(cdz_tokenizer_decode(f->tok, ids, list->len, flags, &out, NULL), CDZ_OK);
    check(f, same_text(want, out.data ? out.data : "", out.len), i, key);
    cdz_buf_free(&out);
    free(ids);
}

/* want: per id the new text, null for none. */
static void check_stream(fixture *f, const cdz_json *list, const cdz_json *want, size_t i,
                         bool skip_special)
{
    cdz_text_stream s = {.tok = f->tok, .skip_special = skip_special};
    bool ok = list->len == want->len;
    for (uint32_t k = 0; ok && k < list->len; k++) {
        const cdz_json *w = &want->items[k];
        const char *text;
        size_t len;
        assert_int_equal(
            cdz_text_stream_feed(&s, (int32_t)list->items[k].integer, &text, &len, NULL), CDZ_OK);
        ok = cdz_json_is(w, CDZ_JSON_NULL) ? len == 0 : same_text(w, text, len);
    }
    check(f, ok, i, "stream");
    cdz_text_stream_free(&s);
}

static void check_case(fixture *f, const cdz_json *c, size_t i)
{
    const cdz_json *offsets = cdz_json_get(c, "offsets"), *stream = cdz_json_get(c, "stream");
    check_encode(f, c, i, CDZ_ENCODE_SPECIAL, "ids");
    check_encode(f, c, i, 0, "ids_no_special");
    check_encode(f, c, i, CDZ_ENCODE_OFFSETS, "ids_no_special");
    if (offsets) check(f, same_offsets(offsets, f->enc.offsets, f->enc.n), i, "offsets");
    check_decode(f, c, i, 0, "decoded");
    check_decode(f, c, i, CDZ_DECODE_SKIP_SPECIAL, "decoded_skip_special");
    if (cdz_json_get(c, "decoded_skip_special_cleaned"))
        check_decode(f, c, i, CDZ_DECODE_SKIP_SPECIAL | CDZ_DECODE_CLEAN_UP,
                     "decoded_skip_special_cleaned");
    if (stream) check_stream(f, cdz_json_get(c, "ids_no_special"), stream, i, false);
}

static void check_facts(fixture *f)
{
    const cdz_json *facts = &f->facts, *tokens = cdz_json_get(facts, "tokens"),
                   *edge = cdz_json_get(facts, "decode_edge");
    const cdz_json *added = cdz_json_get(facts, "num_special_tokens_to_add");
    check(f, cdz_json_get(facts, "vocab_size")->integer == cdz_tokenizer_n_tokens(f->tok), 0,
          "vocab_size");
    check(f,
          cdz_json_get(facts, "vocab_size_without_added")->integer ==
              cdz_tokenizer_n_model_tokens(f->tok),
          0, "vocab_size_without_added");
    check(f, added->items[0].integer == cdz_tokenizer_n_special_added(f->tok), 0,
          "num_special_tokens_to_add");
    for (uint32_t i = 0; i < tokens->len; i++) {
        const cdz_json_member *m = &tokens->members[i];
        const int64_t want = cdz_json_is(&m->value, CDZ_JSON_INT) ? m->value.integer : -1;
        check(f, want == cdz_tokenizer_id(f->tok, m->key, m->key_len), i, "tokens");
    }
    for (uint32_t i = 0; i < edge->len; i++) {
        const cdz_json *c = &edge->items[i], *stream = cdz_json_get(c, "stream_skip_special");
        check_decode(f, c, i, 0, "decoded");
        check_decode(f, c, i, CDZ_DECODE_SKIP_SPECIAL, "decoded_skip_special");
        if (stream) check_stream(f, cdz_json_get(c, "ids"), stream, i, true);
    }
}

static void check_folder(const char *name, size_t n_cases)
{
    fixture f;
    open_fixture(&f, name);
    assert_int_equal(f.cases.len, n_cases);
    for (uint32_t i = 0; i < f.cases.len; i++) check_case(&f, &f.cases.items[i], i);
    check_facts(&f);
    print_message("%s: %zu comparisons, %zu differ\n", name, f.n_checked, f.n_failed);
    const size_t n_failed = f.n_failed;
    close_fixture(&f);
    assert_int_equal(n_failed, 0);
}

static void test_gpt2(void **state)
{
    (void)state;
    check_folder("gpt2", 528);
}

static void test_llama3(void **state)
{
    (void)state;
    check_folder("llama3", 582);
}

static void test_qwen2(void **state)
{
    (void)state;
    check_folder("qwen2", 596);
}

static void test_deepseek(void **state)
{
    (void)state;
    check_folder("deepseek", 570);
}

static void test_o200k(void **state)
{
    (void)state;
    check_folder("o200k", 569);
}

static void test_llama2(void **state)
{
    (void)state;
    check_folder("llama2", 555);
}

static void test_phi3(void **state)
{
    (void)state;
    check_folder("phi3", 594);
}

static void test_t5(void **state)
{
    (void)state;
    check_folder("t5", 581);
}

/* Folders without a tokenizer.json. */
static void test_sentencepiece(void **state)
{
    (void)state;
    check_folder("sentencepiece_llama", 360);
    check_folder("sentencepiece_llama_old", 399);
    check_folder("sentencepiece_gemma", 392);
    check_folder("sentencepiece_t5", 399);
    check_folder("sentencepiece_mbart", 399);
    check_folder("sentencepiece_mbart50", 399);
    check_folder("sentencepiece_pegasus", 399);
    check_folder("sentencepiece_nllb", 399);
    check_folder("sentencepiece_nllb_old", 399);
}

/* What was not written by a tokenizer that knows offsets and streams. */
static void check_plain_folder(const char *name, size_t n_cases, bool decoded)
{
    fixture f = {.name = name, .scratch = cdz_tokenizer_scratch_new()};
    char folder[256];
    cdz_error err = {0};
    snprintf(folder, sizeof folder, "%s/tokenizers/%s", CADENZA_TEST_DATA, name);
    if (cdz_tokenizer_open(folder, &f.tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    read_json(&f.arena, f.name, "cases.json", &f.cases);
    assert_int_equal(f.cases.len, n_cases);
    for (uint32_t i = 0; i < f.cases.len; i++) {
        const cdz_json *c = &f.cases.items[i];
        check_encode(&f, c, i, CDZ_ENCODE_SPECIAL, "ids");
        check_encode(&f, c, i, 0, "ids_no_special");
        check_decode(&f, c, i, CDZ_DECODE_SKIP_SPECIAL, "decoded_skip_special");
        if (decoded) check_decode(&f, c, i, 0, "decoded");
    }
    const size_t n_failed = f.n_failed;
    close_fixture(&f);
    assert_int_equal(n_failed, 0);
}

/* A pair of SentencePiece models, one of them for decoding alone, whose tokens vocab.json numbers. Written by Python's own
 * tokenizer class. */
static void test_marian(void **state)
{
    (void)state;
    check_plain_folder("marian", 344, false);
}

/* One model that vocab.json numbers, with languages behind. Written by Python's own tokenizer class. */
static void test_m2m100(void **state)
{
    (void)state;
    check_plain_folder("m2m100_bpe", 364, true);
    check_plain_folder("m2m100_unigram", 364, true);
    check_plain_folder("m2m100_wmt21", 364, true);
}

/* Folders with vocab.json and merges.txt alone. */
static void test_byte_pairs(void **state)
{
    (void)state;
    check_plain_folder("pairs_blenderbot", 399, true);
    check_plain_folder("pairs_bart", 399, true);
    check_plain_folder("pairs_opt", 399, true);
    check_plain_folder("pairs_qwen2", 399, true);
}

/* The same files with words of characters, lower-cased, whose inner tokens end in @@. Written by Python's own tokenizer class. */
static void test_words(void **state)
{
    (void)state;
    check_plain_folder("words_blenderbot_small", 430, true);
}

/* Mistral's own file, its cases written by tiktoken's rule. */
static void test_tekken(void **state)
{
    (void)state;
    check_plain_folder("tekken", 459, true);
}

static void test_bert(void **state)
{
    (void)state;
    check_folder("bert", 576);
}

static void test_wordlevel(void **state)
{
    (void)state;
    check_folder("wordlevel", 568);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),          cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_qwen2),         cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_o200k),         cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_phi3),          cmocka_unit_test(test_t5),
        cmocka_unit_test(test_sentencepiece), cmocka_unit_test(test_marian),
        cmocka_unit_test(test_m2m100),        cmocka_unit_test(test_byte_pairs),
        cmocka_unit_test(test_words),         cmocka_unit_test(test_tekken),
        cmocka_unit_test(test_bert),          cmocka_unit_test(test_wordlevel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
