/* test_memory.c - what reading a file may cost: at most 4 times its size and 64 MiB, before weights are mapped. Each
 * case is a file of little values that grow when read; whether it is accepted or refused is another test's concern. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/ini.h"
#include "load/gguf.h"
#include "load/model_files.h"
#include "load/npy.h"
#include "template/chat.h"
#include "token/tokenizer.h"

#include "support/folder.h"
#include "support/memory_meter.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char *folder;

static int begin(void **state)
{
    (void)state;
    folder = folder_make("memory");
    return 0;
}

static int end(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

static void write_file(const char *name, const cdz_buf *text)
{
    FILE *f = fopen(folder_path(name), "wb");
    assert_false(text->failed);
    assert_non_null(f);
    assert_int_equal(fwrite(text->data, 1, text->len, f), text->len);
    assert_int_equal(fclose(f), 0);
}

/* --- readers ------------------------------------------------------------------------------- */

static cdz_status read_weights(const char *path, cdz_error *err)
{
    cdz_weights *weights;
    (void)path;
    const cdz_status st = cdz_weights_open(folder, &weights, err);
    if (st == CDZ_OK) cdz_weights_close(weights);
    return st;
}

static cdz_status read_gguf_model(const char *path, cdz_error *err)
{
    cdz_weights *weights;
    const cdz_status st = cdz_weights_open(path, &weights, err);
    if (st == CDZ_OK) cdz_weights_close(weights);
    return st;
}

static cdz_status read_tensors(const char *path, cdz_error *err)
{
    cdz_tensors tensors;
    const cdz_status st = cdz_tensors_open(path, &tensors, err);
    cdz_tensors_close(&tensors);
    return st;
}

static cdz_status read_shards(const char *path, cdz_error *err)
{
    cdz_tensors tensors;
    const cdz_status st = cdz_tensors_open_shards(path, &tensors, err);
    cdz_tensors_close(&tensors);
    return st;
}

static cdz_status read_gguf(const char *path, cdz_error *err)
{
    cdz_gguf gguf;
    const cdz_status st = cdz_gguf_open(path, &gguf, err);
    cdz_gguf_close(&gguf);
    return st;
}

static cdz_status read_tokenizer(const char *path, cdz_error *err)
{
    cdz_tokenizer *tok;
    const bool gguf = strstr(path, ".gguf") != NULL;
    const cdz_status st = cdz_tokenizer_open(gguf ? path : folder, &tok, err);
    if (st == CDZ_OK) cdz_tokenizer_free(tok);
    return st;
}

static cdz_status read_templates(const char *path, cdz_error *err)
{
    cdz_chat_template *chat;
    const bool alone = strstr(path, ".gguf") || strstr(path, ".jinja");
    cdz_status st = cdz_chat_template_open(alone ? path : folder, &chat, err);
    if (st != CDZ_OK) return st;
    st = cdz_chat_template_choose(chat, NULL, false, err);
    cdz_chat_template_free(chat);
    return st;
}

static cdz_status read_ini(const char *path, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_ini ini;
    char *text;
    size_t len;
    CDZ_TRY(cdz_file_read(path, (size_t)64 << 20, &text, &len, err));
    const cdz_status st = cdz_ini_read(text, len, path, &arena, &ini, err);
    cdz_arena_free(&arena);
    free(text);
    return st;
}

static cdz_status read_npy(const char *path, cdz_error *err)
{
    cdz_npy npy;
    const cdz_status st = cdz_npy_open(path, &npy, err);
    cdz_npy_close(&npy);
    return st;
}

/* --- files of much of the same ------------------------------------------------------------- */

/* before, n times each with its number where it has %zu, after. */
typedef struct many {
    const char *before, *each, *after;
    size_t n;
} many;

static void put_numbered(cdz_buf *out, const char *each, size_t number)
{
    for (const char *at = each; *at; at++)
        if (*at == '#')
            cdz_buf_printf(out, "%zx", number);
        else
            cdz_buf_putc(out, *at);
}

static void put_many(cdz_buf *out, const many *m)
{
    cdz_buf_puts(out, m->before);
    for (size_t i = 0; i < m->n; i++) put_numbered(out, m->each, i);
    cdz_buf_puts(out, m->after);
}

#define BPE_OF(vocab, merges)                                                                      \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
#define SIZES                                                                                      \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,"                        \
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"vocab_size\":100"

static const struct {
    const char *name, *file;
    cdz_status (*read)(const char *path, cdz_error *err);
    many text;
} texts[] = {
    {"config.json: little values", "config.json", read_weights, {"{\"x\":[0", ",0", "]}", 2000000}},
    {"config.json: empty lists", "config.json", read_weights, {"{\"x\":[0", ",[]", "]}", 1300000}},
    {"config.json: keys", "config.json", read_weights, {"{\"x\":0", ",\"#\":0", "}", 300000}},
    {"config.json: layer types",
     "config.json",
     read_weights,
     {"{" SIZES ",\"layer_types\":[\"full_attention\"", ",\"full_attention\"", "]}", 240000}},
    {"config.json: many layers",
     "config.json",
     read_weights,
     {"{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":100,"
      "\"num_attention_heads\":4,\"num_hidden_layers\":2147483647",
      "", "}", 0}},
    {"config.json: many experts",
     "config.json",
     read_weights,
     {"{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":100,"
      "\"num_attention_heads\":4,\"num_hidden_layers\":100,\"num_local_experts\":65535",
      "", "}", 0}},
    {"config.json: positions of marian",
     "config.json",
     read_weights,
     {"{\"model_type\":\"marian\",\"d_model\":65536,\"vocab_size\":100,\"encoder_layers\":1,"
      "\"decoder_layers\":1,\"encoder_attention_heads\":1,\"decoder_attention_heads\":1,"
      "\"encoder_ffn_dim\":8,\"decoder_ffn_dim\":8,\"max_position_embeddings\":1000000",
      "", "}", 0}},
    {"config.json: a width of 2^31",
     "config.json",
     read_weights,
     {"{\"model_type\":\"llama\",\"hidden_size\":2147483648,\"intermediate_size\":96,"
      "\"vocab_size\":100,\"num_attention_heads\":1,\"num_hidden_layers\":1",
      "", "}", 0}},
    {"index.json: little values", "i.json", read_shards, {"{\"x\":[0", ",0", "]}", 10000000}},
    {"index.json: many shards",
     "i.json",
     read_shards,
     {"{\"weight_map\":{\"x\":\"x.safetensors\"", ",\"#\":\"#.safetensors\"", "}}", 500000}},
    {"tokenizer.json: little values",
     "tokenizer.json",
     read_tokenizer,
     {"{\"x\":[0", ",0", "]}", 10000000}},
    {"tokenizer.json: empty objects",
     "tokenizer.json",
     read_tokenizer,
     {"{\"x\":[0", ",{}", "]}", 6000000}},
    {"tokenizer.json: keys", "tokenizer.json", read_tokenizer, {"{\"x\":0", ",\"#\":0", "}", 2000000}},
    {"tokenizer.json: merges of nothing",
     "tokenizer.json",
     read_tokenizer,
     {BPE_OF("{\"a\":0}", "[0"), ",0", "]}}", 8000000}},
    {"tokenizer.json: a vocabulary",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0", ",\"#\":1", "}}}", 2000000}},
    {"tokenizer.json: lists as merges",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\",\"a\"]",
      ",[\"a\",\"a\"]", "]}}", 2000000}},
    {"tokenizer.json: texts as merges",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\"", ",\"a a\"",
      "]}}", 3000000}},
    {"tokenizer.json: scores",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]", ",[\"#\",0]", "]}}", 1500000}},
    {"tokenizer.json: words",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0", ",\"#\":0",
      "}}}", 2000000}},
    {"tokenizer.json: added tokens",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":["
      "{\"content\":\"x\"}",
      ",{\"content\":\"#\"}", "]}", 1000000}},
    {"tokenizer.json: empty added tokens",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{}", ",{}",
      "]}", 4000000}},
    {"tokenizer.json: normalizers",
     "tokenizer.json",
     read_tokenizer,
     {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}",
      ",{\"type\":\"NFC\"}", "]}}", 1000000}},
    {"tokenizer.json: a template of nothing",
     "tokenizer.json",
     read_tokenizer,
     {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"post_processor\":{"
      "\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":[{\"Sequence\":{}}",
      ",{\"Sequence\":{}}", "]}}", 1000000}},
    {"tokenizer_config.json: little values",
     "tokenizer_config.json",
     read_templates,
     {"{\"x\":[0", ",0", "]}", 10000000}},
    {"tokenizer_config.json: templates",
     "tokenizer_config.json",
     read_templates,
     {"{\"chat_template\":[{\"name\":\"a\",\"template\":\"x\"}",
      ",{\"name\":\"#\",\"template\":\"x\"}", "]}", 500000}},
    {"template: outputs", "t.jinja", read_templates, {"", "{{a}}", "", 200000}},
    {"template: literals", "t.jinja", read_templates, {"{{[0", ",0", "]}}", 500000}},
    {"template: sums", "t.jinja", read_templates, {"{{0", "+0", "}}", 400000}},
    {"template: blocks", "t.jinja", read_templates, {"", "{%if a%}{%endif%}", "", 60000}},
    {"template: texts", "t.jinja", read_templates, {"", "a{##}", "", 200000}},
    {"template: calls", "t.jinja", read_templates, {"{{a", "()", "}}", 400000}},
    {"template: comparisons", "t.jinja", read_templates, {"{{a", "<a", "}}", 400000}},
    {"ini: settings", "p.ini", read_ini, {"[a]\n", "#=1\n", "", 2000000}},
    {"ini: sections", "p.ini", read_ini, {"", "[#]\na=1\n", "", 1000000}},
    {"npy: a long header",
     "a.npy",
     read_npy,
     {"\x93NUMPY\x03\x01\xff\xff\xff\x01{", "((", "}", 17000000}},
};

/* 1 when it took too much. */
static size_t measure(const char *name, const char *path,
                      cdz_status (*read)(const char *path, cdz_error *err))
{
    struct stat info;
    cdz_error err = {0};
    assert_int_equal(stat(path, &info), 0);
    if (!meter_begin()) skip();
    const cdz_status st = read(path, &err);
    const size_t most = meter_most(), allowed = meter_allowed((size_t)info.st_size);
    if (st != CDZ_OK && !err.text[0]) fail_msg("%s: no sentence", name);
    if (getenv("CADENZA_SHOW_MEMORY"))
        print_message("%-45s %9.2f MiB of %9.2f, file %8.2f: %s\n", name, (double)most / 1048576,
                      (double)allowed / 1048576, (double)info.st_size / 1048576, err.text);
    if (most > allowed)
        print_error("%s: took %zu bytes, %zu are allowed for a file of %zu\n", name, most, allowed,
                    (size_t)info.st_size);
    return most > allowed;
}

static void texts_cost_what_they_may(void **state)
{
    (void)state;
    size_t n_over = 0;
    for (size_t i = 0; i < COUNT(texts); i++) {
        cdz_buf text = {0};
        put_many(&text, &texts[i].text);
        write_file(texts[i].file, &text);
        cdz_buf_free(&text);
        char path[256];
        snprintf(path, sizeof path, "%s", folder_path(texts[i].file));
        n_over += measure(texts[i].name, path, texts[i].read);
        unlink(path);
    }
    assert_int_equal(n_over, 0);
}

/* --- binary files -------------------------------------------------------------------------- */

static void put_number(cdz_buf *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) cdz_buf_putc(out, (char)(value >> (8 * i) & 0xFF));
}

static void put_text(cdz_buf *out, const char *text, size_t len)
{
    put_number(out, len, 8);
    cdz_buf_add(out, text, len);
}

enum { GGUF_U8 = 0, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9 };

static void put_head(cdz_buf *out, uint64_t n_tensors, uint64_t n_keys)
{
    cdz_buf_puts(out, "GGUF");
    put_number(out, 3, 4);
    put_number(out, n_tensors, 8);
    put_number(out, n_keys, 8);
}

static void put_key(cdz_buf *out, const char *key, uint32_t type)
{
    put_text(out, key, strlen(key));
    put_number(out, type, 4);
}

static void put_array(cdz_buf *out, const char *key, uint32_t type, uint64_t n)
{
    put_key(out, key, GGUF_ARRAY);
    put_number(out, type, 4);
    put_number(out, n, 8);
}

static void gguf_keys(cdz_buf *out)
{
    enum { N = 65536 };
    put_head(out, 0, N);
    for (size_t i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "%zx", i);
        put_key(out, key, GGUF_U8);
        put_number(out, 0, 1);
    }
}

static void gguf_tensors(cdz_buf *out)
{
    enum { N = 65536 };
    put_head(out, N, 0);
    for (size_t i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zx", i);
        put_text(out, name, strlen(name));
        put_number(out, 1, 4);
        put_number(out, 8, 8);
        put_number(out, 0, 4);
        put_number(out, 32 * i, 8);
    }
    for (size_t i = out->len; i < ((out->len + 31) & ~(size_t)31); i++) cdz_buf_putc(out, 0);
    for (size_t i = 0; i < (size_t)8 * N; i++) put_number(out, 0, 4);
}

/* A vocabulary of n tokens that become 6 bytes each where they are written as JSON. */
static void put_vocabulary(cdz_buf *out, size_t n, bool scored)
{
    put_key(out, "tokenizer.ggml.model", GGUF_STRING);
    put_text(out, scored ? "llama" : "gpt2", scored ? 5 : 4);
    put_array(out, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        char token[4];
        size_t len = 0;
        for (size_t rest = i; rest || len == 0; rest /= 31) token[len++] = (char)(1 + rest % 31);
        put_text(out, token, len);
    }
}

static void gguf_tokens(cdz_buf *out)
{
    put_head(out, 0, 3);
    put_vocabulary(out, 500000, false);
    put_key(out, "tokenizer.ggml.pre", GGUF_STRING);
    put_text(out, "gpt-2", 5);
}

static void gguf_scored(cdz_buf *out)
{
    enum { N = 500000 };
    put_head(out, 0, 3);
    put_vocabulary(out, N, true);
    put_array(out, "tokenizer.ggml.scores", GGUF_F32, N);
    for (size_t i = 0; i < N; i++) put_number(out, 0, 4);
}

static void gguf_merges(cdz_buf *out)
{
    enum { N = 1 << 20 };
    put_head(out, 0, 4);
    put_key(out, "tokenizer.ggml.model", GGUF_STRING);
    put_text(out, "gpt2", 4);
    put_key(out, "tokenizer.ggml.pre", GGUF_STRING);
    put_text(out, "gpt-2", 5);
    put_array(out, "tokenizer.ggml.tokens", GGUF_STRING, 2);
    put_text(out, "a", 1);
    put_text(out, "aa", 2);
    put_array(out, "tokenizer.ggml.merges", GGUF_STRING, N);
    for (size_t i = 0; i < N; i++) put_text(out, "a a", 3);
}

static void gguf_template(cdz_buf *out)
{
    enum { BYTES = 20 << 20 };
    put_head(out, 0, 1);
    put_key(out, "tokenizer.chat_template", GGUF_STRING);
    put_number(out, BYTES, 8);
    for (size_t i = 0; i < BYTES; i++) cdz_buf_putc(out, '\x01');
}

/* Each of these is halved in as many ways as it has letters, and each way spells it anew. */
static void gguf_halves(cdz_buf *out)
{
    enum { N = 1020 };
    put_head(out, 0, 3);
    put_key(out, "tokenizer.ggml.model", GGUF_STRING);
    put_text(out, "llama", 5);
    put_array(out, "tokenizer.ggml.tokens", GGUF_STRING, N);
    for (size_t i = 1; i <= N; i++) {
        put_number(out, i, 8);
        for (size_t k = 0; k < i; k++) cdz_buf_putc(out, 'a');
    }
    put_array(out, "tokenizer.ggml.scores", GGUF_F32, N);
    for (size_t i = 0; i < N; i++) put_number(out, 0, 4);
}

static void put_u32(cdz_buf *out, const char *key, uint32_t value)
{
    put_key(out, key, 4);
    put_number(out, value, 4);
}

/* A byte says of a layer whether it slides, which are twenty of a config.json. */
static void gguf_sliding(cdz_buf *out)
{
    enum { N = 20 << 20 };
    put_head(out, 1, 9);
    put_key(out, "general.architecture", GGUF_STRING);
    put_text(out, "gemma2", 6);
    put_u32(out, "gemma2.context_length", 64);
    put_u32(out, "gemma2.embedding_length", 64);
    put_u32(out, "gemma2.block_count", 2);
    put_u32(out, "gemma2.feed_forward_length", 64);
    put_u32(out, "gemma2.attention.head_count", 4);
    put_u32(out, "gemma2.attention.head_count_kv", 4);
    put_u32(out, "gemma2.attention.sliding_window", 4);
    put_array(out, "gemma2.attention.sliding_window_pattern", 7, N);
    for (size_t i = 0; i < N; i++) cdz_buf_putc(out, 1);
    put_text(out, "token_embd.weight", 17);
    put_number(out, 2, 4);
    put_number(out, 64, 8);
    put_number(out, 8, 8);
    put_number(out, 0, 4);
    put_number(out, 0, 8);
    while (out->len % 32) cdz_buf_putc(out, 0);
    for (size_t i = 0; i < (size_t)64 * 8; i++) put_number(out, 0, 4);
}

static void put_header(cdz_buf *out, const many *m)
{
    cdz_buf text = {0};
    put_many(&text, m);
    put_number(out, text.len, 8);
    cdz_buf_add(out, text.data, text.len);
    cdz_buf_free(&text);
}

static void tensors_of_one_range(cdz_buf *out)
{
    put_header(out, &(many){"{\"x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}",
                            ",\"#\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}", "}",
                            800000});
    cdz_buf_putc(out, 0);
}

static void tensors_of_nothing(cdz_buf *out)
{
    put_header(out, &(many){"{\"x\":0", ",\"#\":0", "}", 5000000});
}

static void tensors_of_many_sizes(cdz_buf *out)
{
    put_header(out, &(many){"{\"x\":{\"shape\":[1", ",1", "]}}", 20000000});
}

static const struct {
    const char *name, *file;
    cdz_status (*read)(const char *path, cdz_error *err);
    void (*write)(cdz_buf *out);
} binaries[] = {
    {"gguf: keys", "m.gguf", read_gguf, gguf_keys},
    {"gguf: tensors", "m.gguf", read_gguf, gguf_tensors},
    {"gguf: tokens", "m.gguf", read_tokenizer, gguf_tokens},
    {"gguf: tokens with scores", "m.gguf", read_tokenizer, gguf_scored},
    {"gguf: merges", "m.gguf", read_tokenizer, gguf_merges},
    {"gguf: halves of long tokens", "h.gguf", read_tokenizer, gguf_halves},
    {"gguf: layers that slide", "l.gguf", read_gguf_model, gguf_sliding},
    {"gguf: a long template", "m.gguf", read_templates, gguf_template},
    {"safetensors: one range", "m.safetensors", read_tensors, tensors_of_one_range},
    {"safetensors: little values", "m.safetensors", read_tensors, tensors_of_nothing},
    {"safetensors: many sizes", "m.safetensors", read_tensors, tensors_of_many_sizes},
};

static void binary_files_cost_what_they_may(void **state)
{
    (void)state;
    size_t n_over = 0;
    for (size_t i = 0; i < COUNT(binaries); i++) {
        cdz_buf bytes = {0};
        binaries[i].write(&bytes);
        write_file(binaries[i].file, &bytes);
        cdz_buf_free(&bytes);
        char path[256];
        snprintf(path, sizeof path, "%s", folder_path(binaries[i].file));
        n_over += measure(binaries[i].name, path, binaries[i].read);
        unlink(path);
    }
    assert_int_equal(n_over, 0);
}

/* The meter itself: it counts, and it forgets what was given back. */
static void the_meter_counts(void **state)
{
    (void)state;
    if (!meter_begin()) skip();
    for (int i = 0; i < 3; i++) {
        char *volatile memory = malloc(1 << 20);
        free(memory);
    }
    assert_in_range(meter_most(), 1 << 20, 2 << 20);
    char *volatile grown = realloc(calloc(1, 1 << 20), 3 << 20);
    assert_in_range(meter_most(), 3 << 20, 5 << 20);
    free(grown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_meter_counts),
        cmocka_unit_test(texts_cost_what_they_may),
        cmocka_unit_test(binary_files_cost_what_they_may),
    };
    return cmocka_run_group_tests_name("memory", tests, begin, end);
}
