/* test_gguf_tokenizer.c - tokenizers inside GGUF files: two small ones made from those of
 * tests/tokenizers, and, where they lie beside the project, published vocabularies with recorded ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "support/gguf_bytes.h"
#include "template/chat.h"
#include "token/gguf.h"
#include "token/tokenizer.h"

static const char published[] = CADENZA_SOURCE_DIR "/../shared/tokenizers/gguf/";

static cdz_tokenizer *open_tokenizer(const char *path)
{
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    if (cdz_tokenizer_open(path, &tok, &err) != CDZ_OK) fail_msg("%s", err.text);
    return tok;
}

static void read_json(const char *path, cdz_arena *arena, cdz_json *out)
{
    cdz_error err = {0};
    if (cdz_json_read_file(path, 0, NULL, arena, out, &err) != CDZ_OK) fail_msg("%s", err.text);
}

/* --- one text against its ids ----------------------------------------------------------------- */

typedef struct comparison {
    const char *name;
    cdz_tokenizer *tok;
    cdz_tokenizer_scratch *scratch;
    cdz_encoding encoding;
    size_t n, n_wrong;
} comparison;

static void differ(comparison *c, const char *what, const char *text)
{
    if (c->n_wrong++ < 5) print_message("%s: %s: \"%.60s\"\n", c->name, what, text);
}

static void check_ids(comparison *c, const char *text, size_t len, unsigned flags,
                      const int32_t *ids, size_t n)
{
    cdz_error err = {0};
    c->n++;
    if (cdz_tokenizer_encode(c->tok, c->scratch, text, len, flags, &c->encoding, &err) != CDZ_OK)
        fail_msg("%s: %s", c->name, err.text);
    if (c->encoding.n != n || (n && memcmp(c->encoding.ids, ids, n * sizeof *ids) != 0))
        differ(c, "other ids", text);
}

static void check_text(comparison *c, const int32_t *ids, size_t n, const cdz_json *text)
{
    cdz_buf out = {0};
    cdz_error err = {0};
    cdz_buf_add(&out, "", 0);
    if (cdz_tokenizer_decode(c->tok, ids, n, 0, &out, &err) != CDZ_OK) fail_msg("%s", err.text);
    if (out.len != text->len || memcmp(out.data, text->string, text->len) != 0)
        differ(c, "other text", text->string);
    cdz_buf_free(&out);
}

static int32_t *ids_of(const cdz_json *list)
{
    int32_t *ids = calloc(list->len + 1, sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < list->len; i++) ids[i] = (int32_t)list->items[i].integer;
    return ids;
}

/* "decoded" is the text of "ids" where that is recorded, else of "ids_no_special". */
static void check_case(comparison *c, const cdz_json *one)
{
    const cdz_json *text = cdz_json_get(one, "text"), *plain = cdz_json_get(one, "ids_no_special"),
                   *all = cdz_json_get(one, "ids");
    int32_t *ids = ids_of(plain);
    check_ids(c, text->string, text->len, 0, ids, plain->len);
    if (!all) check_text(c, ids, plain->len, cdz_json_get(one, "decoded"));
    free(ids);
    if (!all) return;
    ids = ids_of(all);
    check_ids(c, text->string, text->len, CDZ_ENCODE_SPECIAL, ids, all->len);
    check_text(c, ids, all->len, cdz_json_get(one, "decoded"));
    free(ids);
}

static comparison compare_cases(const char *name, const char *gguf, const char *cases)
{
    comparison c = {
        .name = name, .tok = open_tokenizer(gguf), .scratch = cdz_tokenizer_scratch_new()};
    cdz_arena arena = {0};
    cdz_json list;
    read_json(cases, &arena, &list);
    for (uint32_t i = 0; i < list.len; i++) check_case(&c, &list.items[i]);
    cdz_arena_free(&arena);
    return c;
}

static void finish(comparison *c)
{
    cdz_encoding_free(&c->encoding);
    cdz_tokenizer_scratch_free(c->scratch);
    cdz_tokenizer_free(c->tok);
    if (c->n_wrong) fail_msg("%s: %zu of %zu differ", c->name, c->n_wrong, c->n);
    assert_true(c->n > 0);
}

/* --- published vocabularies ------------------------------------------------------------------- */

/* Texts between lines __ggml_vocab_test__, a line of ids each. */
static void check_pairs(comparison *c, const char *path)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char *texts, *answers, name[600];
    size_t n_texts, n_answers;
    cdz_error err = {0};
    snprintf(name, sizeof name, "%s.inp", path);
    if (cdz_file_read(name, 1 << 20, &texts, &n_texts, &err) != CDZ_OK) fail_msg("%s", err.text);
    snprintf(name, sizeof name, "%s.out", path);
    if (cdz_file_read(name, 1 << 20, &answers, &n_answers, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    char *line = answers;
    char *text = texts;
    while (line && text) {
        char *end = memmem(text, n_texts - (size_t)(text - texts), mark, sizeof mark - 1);
        const size_t len = end ? (size_t)(end - text) : n_texts - (size_t)(text - texts);
        int32_t ids[256];
        size_t n = 0;
        char *stop = strchr(line, '\n');
        if (stop) *stop = '\0';
        for (char *at = line, *next; n < 256; at = next) {
            const long id = strtol(at, &next, 10);
            if (next == at) break;
            ids[n++] = (int32_t)id;
        }
        check_ids(c, text, len, 0, ids, n);
        text = end ? end + sizeof mark - 1 : NULL;
        line = stop ? stop + 1 : NULL;
    }
    free(texts);
    free(answers);
}

static void published_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2",          "llama-bpe", "qwen2",
                                        "deepseek-coder", "llama-spm", "phi-3"};
    if (access(published, R_OK) != 0) {
        print_message("skipped: no published vocabularies in %s\n", published);
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char gguf[512], cases[512];
        snprintf(gguf, sizeof gguf, "%sggml-vocab-%s.gguf", published, names[i]);
        snprintf(cases, sizeof cases, "%s%s.cases.json", published, names[i]);
        comparison c = compare_cases(names[i], gguf, cases);
        check_pairs(&c, gguf);
        print_message("%s: %zu texts\n", names[i], c.n);
        finish(&c);
    }
}

/* --- small files ------------------------------------------------------------------------------ */

/* The GGUF file and the folder it was made from agree on every recorded case. */
static void small_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2", "llama2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char gguf[512], cases[512];
        snprintf(gguf, sizeof gguf, CADENZA_TEST_DATA "/gguf/vocab_%s.gguf", names[i]);
        snprintf(cases, sizeof cases, CADENZA_TEST_DATA "/tokenizers/%s/cases.json", names[i]);
        comparison c = compare_cases(names[i], gguf, cases);
        finish(&c);
    }
}

static void roles_and_what_is_added(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_tokenizer(CADENZA_TEST_DATA "/gguf/vocab_llama2.gguf");
    const cdz_tokenizer_config *config = cdz_tokenizer_get_config(tok);
    cdz_encoding e = {0};
    cdz_error err = {0};
    assert_string_equal(config->bos_token, "<s>");
    assert_string_equal(config->eos_token, "</s>");
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, "a", 1, CDZ_ENCODE_SPECIAL, &e, &err), CDZ_OK);
    assert_true(e.n > 1);
    assert_int_equal(e.ids[0], config->bos_id);
    assert_true(cdz_tokenizer_is_special(tok, config->eos_id));
    cdz_encoding_free(&e);
    cdz_tokenizer_free(tok);
}

/* Rows of the embedding that no token has: their names, "[PAD200]", are no texts, neither way. */
static void fillers_have_no_text(void **state)
{
    (void)state;
    cdz_tokenizer *tok = open_tokenizer(CADENZA_TEST_DATA "/gguf/converted/ministral3.gguf");
    static const int32_t ids[] = {15, 200, 15, 255};
    cdz_encoding e = {0};
    cdz_buf out = {0};
    cdz_error err = {0};
    assert_int_equal(cdz_tokenizer_decode(tok, ids, 4, 0, &out, &err), CDZ_OK);
    assert_int_equal(out.len, strlen("thethe"));
    assert_memory_equal(out.data, "thethe", out.len);
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, "[PAD200]", 8, 0, &e, &err), CDZ_OK);
    for (size_t i = 0; i < e.n; i++) assert_int_not_equal(e.ids[i], 200);
    cdz_encoding_free(&e);
    cdz_buf_free(&out);
    cdz_tokenizer_free(tok);
}

/* A file of three tokens, the last called so, and an embedding of two rows. */
static void make_short(const char *path, const char *last)
{
    const char *const texts[] = {"a", "b", last};
    cdz_buf out = {0};
    gguf_head(&out, 1, 4);
    gguf_word(&out, "tokenizer.ggml.model", "gpt2");
    gguf_word(&out, "tokenizer.ggml.pre", "gpt-2");
    gguf_key(&out, "tokenizer.ggml.tokens", GGUF_ARRAY);
    gguf_number(&out, GGUF_STRING, 4);
    gguf_number(&out, 3, 8);
    for (size_t i = 0; i < 3; i++) gguf_string(&out, texts[i], strlen(texts[i]));
    gguf_key(&out, "tokenizer.ggml.token_type", GGUF_ARRAY);
    gguf_number(&out, GGUF_I32, 4);
    gguf_number(&out, 3, 8);
    for (uint64_t i = 0; i < 3; i++) gguf_number(&out, i < 2 ? 1 : 5, 4);
    gguf_string(&out, "token_embd.weight", strlen("token_embd.weight"));
    gguf_number(&out, 2, 4);
    gguf_number(&out, 1, 8);
    gguf_number(&out, 2, 8);
    gguf_number(&out, 0, 4);
    gguf_number(&out, 0, 8);
    while (out.len % 32) cdz_buf_putc(&out, 0);
    gguf_number(&out, 0, 8);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
    fclose(f);
    cdz_buf_free(&out);
}

/* The converter rounds the number of some models' tokens up. */
static void fillers_need_no_rows(void **state)
{
    (void)state;
    char path[] = "/tmp/cadenza-rows-XXXXXX";
    const int fd = mkstemp(path);
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    assert_true(fd >= 0);
    make_short(path, "[PAD2]");
    cdz_tokenizer_free(open_tokenizer(path));
    make_short(path, "c");
    assert_int_equal(cdz_tokenizer_open(path, &tok, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "has 3 tokens, but token_embd.weight only 2 rows"));
    close(fd);
    unlink(path);
}

/* --- ways of cutting -------------------------------------------------------------------------- */

/* A file whose tokens are all pieces of a text, and whose merges make every piece one token: ids tell where the text was cut. */
typedef struct pieces {
    cdz_buf file;
    char at[64][8]; /* what stands for each byte of the text */
    size_t n;
} pieces;

/* GPT-2's letters for bytes. */
static void letter_of(unsigned char byte, char out[8])
{
    unsigned code = byte, others = 0;
    const bool own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    for (unsigned b = 0; b < byte; b++) others += b < 33 || (b > 126 && b < 161) || b == 173;
    if (!own) code = 256 + others;
    snprintf(out, 8, code < 128 ? "%c" : "%c%c", code < 128 ? (int)code : (int)(0xC0 | code >> 6),
             (int)(0x80 | (code & 63)));
}

/* Bytes [from, to) of the text, as letters. */
static size_t spell(const pieces *p, size_t from, size_t to, char *out)
{
    size_t len = 0;
    for (size_t i = from; i < to; i++) len += (size_t)snprintf(out + len, 8, "%s", p->at[i]);
    return len;
}

/* Tokens, or ways to put them together: one for every begin and end, and every middle. */
static uint64_t put_pieces(const pieces *p, cdz_buf *to, bool merges)
{
    uint64_t n = 0;
    char text[600];
    for (size_t len = 1; len <= p->n; len++)
        for (size_t i = 0; i + len <= p->n; i++)
            for (size_t k = i + 1; k < i + (merges ? len : 2); k++) {
                size_t n_text = spell(p, i, merges ? k : i + len, text);
                if (merges) {
                    text[n_text++] = ' ';
                    n_text += spell(p, k, i + len, text + n_text);
                }
                gguf_string(to, text, n_text);
                n++;
            }
    return n;
}

static void put_list(const pieces *p, cdz_buf *to, const char *key, bool merges)
{
    cdz_buf items = {0};
    const uint64_t n = put_pieces(p, &items, merges);
    gguf_key(to, key, GGUF_ARRAY);
    gguf_number(to, GGUF_STRING, 4);
    gguf_number(to, n, 8);
    cdz_buf_add(to, items.data, items.len);
    cdz_buf_free(&items);
}

static void make_file(const char *path, const char *pre, const char *text)
{
    pieces p = {.n = strlen(text)};
    cdz_buf out = {0};
    assert_true(p.n < 64);
    for (size_t i = 0; i < p.n; i++) letter_of((unsigned char)text[i], p.at[i]);
    gguf_head(&out, 0, 4);
    gguf_word(&out, "tokenizer.ggml.model", "gpt2");
    gguf_word(&out, "tokenizer.ggml.pre", pre);
    put_list(&p, &out, "tokenizer.ggml.tokens", false);
    put_list(&p, &out, "tokenizer.ggml.merges", true);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(out.data, 1, out.len, f), out.len);
    fclose(f);
    cdz_buf_free(&out);
}

/* A bar before each piece but the first. */
static void cut(const char *path, const char *text, cdz_buf *out)
{
    cdz_tokenizer *tok = open_tokenizer(path);
    cdz_encoding e = {0};
    cdz_error err = {0};
    assert_int_equal(cdz_tokenizer_encode(tok, NULL, text, strlen(text), 0, &e, &err), CDZ_OK);
    for (size_t i = 0; i < e.n; i++) {
        if (i) cdz_buf_putc(out, '|');
        assert_int_equal(cdz_tokenizer_decode(tok, &e.ids[i], 1, 0, out, &err), CDZ_OK);
    }
    cdz_encoding_free(&e);
    cdz_tokenizer_free(tok);
}

/* As llama.cpp cuts these files, but for deepseek-llm's digits, which are apart. */
static void names_say_how_text_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pieces;
    } cases[] = {
        {"falcon", "He|'|ll| |123|45| a|-|b|(|c|).|\n|\n|X"},
        {"deepseek-llm", "He|'|ll| |1|2|3|4|5| a|-|b|(|c|).|\n|\n|X"},
        {"bloom", "He'll| 12345| a-b|(|c|).\n\n|X"},
        {"poro-chat", "He'll| 12345| a-b|(|c|).\n\n|X"},
        {"viking", "He'll| |1|2|3|4|5| a-b|(|c|).\n\n|X"},
        {"gpt3-finnish", "He'll| 12345| a-b|(|c|).\n\n|X"},
        {"seed-coder", "He|'ll| |1|2|3|4|5| a|-b|(c|).|\n\n|X"},
        {"minicpm5", "He|'ll| |123|45| a|-b|(c|).\n\n|X"},
        {"youtu", "He'll| |1|2|3|4|5| a|-b|(c|).\n\n|X"},
        {"kimi-k2", "He'll| |123|45| a|-b|(c|).\n\n|X"},
    };
    static const char text[] = "He'll 12345 a-b(c).\n\nX";
    char path[] = "/tmp/cadenza-cut-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cdz_buf out = {0};
        make_file(path, cases[i].name, text);
        cut(path, text, &out);
        cdz_buf_putc(&out, '\0');
        if (strcmp(out.data, cases[i].pieces) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i].name, out.data, cases[i].pieces);
        cdz_buf_free(&out);
    }
    close(fd);
    unlink(path);
}

static void templates_by_name(void **state)
{
    (void)state;
    static const char path[] = CADENZA_TEST_DATA "/gguf/vocab_llama2.gguf";
    static const char context[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    static const struct {
        const char *name, *text;
    } cases[] = {{NULL, "<s>user: hi"}, {"default", "<s>user: hi"}, {"tool_use", "tools: hi"}};
    cdz_arena arena = {0};
    cdz_json root;
    cdz_error err = {0};
    assert_int_equal(
        cdz_json_parse(context, sizeof context - 1, "context", NULL, &arena, &root, &err), CDZ_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cdz_chat_template *chat;
        cdz_template_options options = {0};
        cdz_buf out = {0};
        if (cdz_chat_template_open(path, &chat, &err) != CDZ_OK ||
            cdz_chat_template_choose(chat, cases[i].name, false, &err) != CDZ_OK ||
            cdz_chat_template_render(chat, &root, &options, &out, &err) != CDZ_OK)
            fail_msg("%s", err.text);
        assert_string_equal(out.data, cases[i].text);
        cdz_buf_free(&out);
        cdz_chat_template_free(chat);
    }
    cdz_arena_free(&arena);
}

/* --- lies ------------------------------------------------------------------------------------- */

static const struct {
    const char *file;
    cdz_status status;
    const char *sentence;
} lies[] = {
    {"vocab_none", CDZ_E_NOT_FOUND, "has no tokenizer"},
    {"vocab_kind", CDZ_E_UNSUPPORTED, "\"rwkv\" is not supported; supported are gpt2, llama"},
    {"vocab_pre", CDZ_E_UNSUPPORTED, "\"nowhere\" names a way of cutting text"},
    {"vocab_no_tokens", CDZ_E_INPUT, "tokenizer.ggml.tokens has 0 entries"},
    {"vocab_types_short", CDZ_E_INPUT,
     "tokenizer.ggml.token_type has 1 entries, there are 3 tokens"},
    {"vocab_scores_long", CDZ_E_INPUT, "tokenizer.ggml.scores has 4 entries, there are 3 tokens"},
    {"vocab_no_scores", CDZ_E_INPUT, "tokenizer.ggml.scores is missing"},
    {"vocab_types_float", CDZ_E_INPUT,
     "tokenizer.ggml.token_type is an array of float32, expected an array of int32"},
    {"vocab_utf8", CDZ_E_INPUT, "token 1 is not UTF-8"},
    {"vocab_long_token", CDZ_E_LIMIT, "token 1 has 5000 bytes, at most 1024 are possible"},
    {"vocab_eos", CDZ_E_INPUT, "tokenizer.ggml.eos_token_id is 3, there are 3 tokens"},
    {"vocab_rows", CDZ_E_INPUT, "has 3 tokens, but token_embd.weight only 2 rows"},
    {"vocab_merge_absent", CDZ_E_INPUT, "\"b\" is not in the vocabulary"},
    {"vocab_merge_one", CDZ_E_INPUT, "entry 0 is not two tokens and a space"},
};

static void lying_vocabularies_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char path[512];
        cdz_tokenizer *tok = NULL;
        cdz_error err = {0};
        snprintf(path, sizeof path, CADENZA_TEST_DATA "/attacks/gguf/%s.gguf", lies[i].file);
        const cdz_status st = cdz_tokenizer_open(path, &tok, &err);
        if (st != lies[i].status || !strstr(err.text, lies[i].sentence))
            fail_msg("%s: %d %s", lies[i].file, (int)st, err.text);
        assert_null(tok);
    }
}

/* Tokens that look like bytes and are none, names given twice, no token at all of a byte: all of
 * it is text. */
static void odd_tokens_are_text(void **state)
{
    (void)state;
    static const char *const files[] = {"vocab_bytes", "vocab_twice"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        cdz_encoding e = {0};
        cdz_error err = {0};
        snprintf(path, sizeof path, CADENZA_TEST_DATA "/attacks/gguf/%s.gguf", files[i]);
        cdz_tokenizer *tok = open_tokenizer(path);
        assert_int_equal(cdz_tokenizer_encode(tok, NULL,
                                              "<0x-1>\xFF"
                                              "a",
                                              6, 0, &e, &err),
                         CDZ_OK);
        cdz_encoding_free(&e);
        cdz_tokenizer_free(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vocabularies),
        cmocka_unit_test(small_vocabularies),
        cmocka_unit_test(roles_and_what_is_added),
        cmocka_unit_test(templates_by_name),
        cmocka_unit_test(lying_vocabularies_are_sentences),
        cmocka_unit_test(odd_tokens_are_text),
        cmocka_unit_test(fillers_have_no_text),
        cmocka_unit_test(fillers_need_no_rows),
        cmocka_unit_test(names_say_how_text_is_cut),
    };
    return cmocka_run_group_tests_name("gguf tokenizers", tests, NULL, NULL);
}
