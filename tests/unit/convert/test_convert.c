/* test_convert.c - folders to GGUF files and back: the same logits bit by bit, for every golden
 * model that GGUF has words for; the shipped pair, with tokenizer, template and defaults; what
 * cannot be said is a sentence, and nothing is left half-written. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/run_support.h"

#include "cadenza/cadenza.h"
#include "convert/convert.h"
#include "load/gguf.h"
#include "support/opened.h"
#include "token/tokenizer.h"

static const char shipped[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char shipped_draft[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft";

/* --- a folder for what is written ----------------------------------------------------------- */

static char work_dir[64];

static int make_work_dir(void **state)
{
    (void)state;
    snprintf(work_dir, sizeof work_dir, "/tmp/cadenza-convert-XXXXXX");
    return mkdtemp(work_dir) ? 0 : -1;
}

static void remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return;
    DIR *dir = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char inside[512];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        remove_tree(inside);
    }
    if (dir) closedir(dir);
    remove(path);
}

static int remove_work_dir(void **state)
{
    (void)state;
    remove_tree(work_dir);
    return 0;
}

static uint32_t n_files(void)
{
    uint32_t n = 0;
    DIR *dir = opendir(work_dir);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* NAME in the folder, with an ending; in one of four buffers, in turn. */
static const char *in_work_dir(const char *name, const char *ending)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s%s", work_dir, name, ending);
    return path;
}

static cdz_convert_report convert(const char *in, const char *out, cdz_dtype type)
{
    cdz_error err = {0};
    cdz_convert_report report;
    const bool blocks = type >= CDZ_N_PLAIN && type < CDZ_N_DTYPES;
    const cdz_convert_options o = {
        .in = in, .out = out, .type = type, .to_gguf = blocks || !cdz_gguf_is(in)};
    must(cdz_convert(&o, &report, &err), &err);
    return report;
}

/* --- logits --------------------------------------------------------------------------------- */

static float *logits_of(const char *path, size_t *n)
{
    enum { LEN = 40 };
    int32_t ids[LEN];
    for (int i = 0; i < LEN; i++) ids[i] = (7 + 31 * i) % 128;
    cdz_error err = {0};
    cdz_weights *weights;
    must(cdz_weights_open(path, &weights, &err), &err);
    rig r = rig_of(weights);
    float *logits = prompt_logits_of(&r, ids, LEN, n);
    rig_close(&r);
    return logits;
}

static void same_logits(const char *what, const char *path, const float *expected, size_t n,
                        float tolerance)
{
    size_t n_got;
    float *got = logits_of(path, &n_got);
    assert_int_equal(n, n_got);
    for (size_t i = 0; i < n; i++)
        if (tolerance > 0 ? !(fabsf(got[i] - expected[i]) <= tolerance)
                          : memcmp(&got[i], &expected[i], sizeof *got) != 0)
            fail_msg("%s: logit %zu is %.9g, the folder's %.9g", what, i, (double)got[i],
                     (double)expected[i]);
    free(got);
}

/* tolerance: llama3's divisors do not all give the very frequencies back. */
static const struct {
    const char *name;
    float tolerance;
} models[] = {{"llama_gqa", 0},         {"llama_bf16", 0},    {"llama_f16", 0},  {"llama_bias", 0},
              {"llama_tied_l3", 1e-4f}, {"llama_sharded", 0}, {"mistral_sw", 0}, {"mixtral", 0},
              {"qwen2_tied", 0},        {"qwen2_sw", 0},      {"qwen3", 0},      {"qwen3_moe", 0},
              {"qwen3_yarn", 0},        {"gemma2", 0},        {"gemma3", 0},     {"phi3", 0},
              {"phi3_longrope", 0},     {"gpt2", 0},          {"gpt_neox", 0},   {"olmo2", 0}};

static void goldens_keep_their_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        size_t n;
        char folder[256];
        const char *name = models[i].name, *file = in_work_dir(name, ".gguf"),
                   *back = in_work_dir(name, "-back"), *again = in_work_dir(name, "-again.gguf");
        snprintf(folder, sizeof folder, "%s%s", golden_folder, name);
        float *expected = logits_of(folder, &n);
        convert(folder, file, CDZ_N_DTYPES);
        same_logits(name, file, expected, n, models[i].tolerance);
        convert(file, back, CDZ_N_DTYPES);
        same_logits(back, back, expected, n, models[i].tolerance);
        convert(back, again, CDZ_N_DTYPES);
        same_logits(again, again, expected, n, models[i].tolerance);
        free(expected);
    }
}

/* Yarn's numbers, where config.json says others than the usual ones. */
static void numbers_of_yarn_are_kept(void **state)
{
    (void)state;
    static const char from[] = "\"rope_type\": \"yarn\"",
                      more[] = ", \"beta_fast\": 4.0, \"beta_slow\": 2.0, \"attention_factor\": 0.8";
    const char *folder = in_work_dir("yarn", "");
    char path[600], target[600], *text;
    size_t len, n;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%sqwen3_yarn/config.json", golden_folder);
    must(cdz_file_read(path, 1 << 20, &text, &len, &err), &err);
    const char *at = strstr(text, from);
    assert_non_null(at);
    assert_null(strstr(text, "beta_fast"));
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    const int head = (int)(at - text) + (int)strlen(from);
    fprintf(f, "%.*s%s%s", head, text, more, text + head);
    assert_int_equal(fclose(f), 0);
    free(text);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(target, sizeof target, "%sqwen3_yarn/model.safetensors", golden_folder);
    assert_int_equal(symlink(target, path), 0);
    float *expected = logits_of(folder, &n);
    const char *file = in_work_dir("yarn", ".gguf"), *back = in_work_dir("yarn", "-back");
    convert(folder, file, CDZ_N_DTYPES);
    same_logits(file, file, expected, n, 0);
    convert(file, back, CDZ_N_DTYPES);
    same_logits(back, back, expected, n, 0);
    free(expected);
}

/* --- the shipped pair ----------------------------------------------------------------------- */

static const char *const chats[] = {
    "{\"prompt\": \"<|user|>What does river mean?<|end|><|assistant|>\", \"seed\": 5}",
    "{\"prompt\": \"lighthouse (noun):\", \"seed\": 6}",
    "{\"prompt\": \"caf\xC3\xA9  1234567 it's\\n\", \"seed\": 7}",
};

/* All ids, with the model's own defaults (it samples), and with drafts. */
static void generate(const char *target, const char *draft, cdz_buf *out)
{
    cdz_runtime *rt;
    cdz_model *model, *assistant;
    cdz_pipeline *drafts;
    cdz_error err = {0};
    static const char ini[] = "[generation]\ndo_sample = no\nmax_new_tokens = 30\n";
    rt = opened_runtime(NULL);
    model = opened_model(rt, target);
    assistant = opened_model(rt, draft);
    drafts = opened_pipeline(rt, ini);
    for (size_t i = 0; i < 2 * sizeof chats / sizeof *chats; i++) {
        const bool drafted = i % 2;
        const cdz_request request = {.size = sizeof request,
                                     .model = model,
                                     .pipeline = drafted ? drafts : NULL,
                                     .assistant = drafted ? assistant : NULL,
                                     .json = chats[i / 2]};
        cdz_result *result;
        uint32_t n;
        must(cdz_generate(rt, &request, &result, &err), &err);
        const int32_t *ids = cdz_result_sequence(result, 0, &n);
        for (uint32_t j = 0; j < n; j++) cdz_buf_printf(out, "%d ", (int)ids[j]);
        cdz_buf_printf(out, "%s\n", cdz_result_text(result, 0));
        cdz_result_free(result);
    }
    cdz_pipeline_free(drafts);
    cdz_model_close(assistant);
    cdz_model_close(model);
    cdz_close(rt);
}

static void the_shipped_pair_writes_the_same(void **state)
{
    (void)state;
    cdz_buf folder = {0}, file = {0}, back = {0};
    const char *target = in_work_dir("pair", ".gguf"), *draft = in_work_dir("pair-draft", ".gguf"),
               *target_back = in_work_dir("pair", ""), *draft_back = in_work_dir("pair-draft", "");
    convert(shipped, target, CDZ_N_DTYPES);
    convert(shipped_draft, draft, CDZ_N_DTYPES);
    convert(target, target_back, CDZ_N_DTYPES);
    convert(draft, draft_back, CDZ_N_DTYPES);
    generate(shipped, shipped_draft, &folder);
    generate(target, draft, &file);
    generate(target_back, draft_back, &back);
    assert_string_equal(folder.data, file.data);
    assert_string_equal(folder.data, back.data);
    cdz_buf_free(&folder);
    cdz_buf_free(&file);
    cdz_buf_free(&back);
}

static void templates_come_along(void **state)
{
    (void)state;
    char *was, *is;
    size_t n_was, n_is;
    cdz_error err = {0};
    char path[512];
    convert(shipped, in_work_dir("template", ".gguf"), CDZ_N_DTYPES);
    convert(in_work_dir("template", ".gguf"), in_work_dir("template", ""), CDZ_N_DTYPES);
    snprintf(path, sizeof path, "%s/chat_template.jinja", shipped);
    must(cdz_file_read(path, 1 << 16, &was, &n_was, &err), &err);
    snprintf(path, sizeof path, "%s/chat_template.jinja", in_work_dir("template", ""));
    must(cdz_file_read(path, 1 << 16, &is, &n_is, &err), &err);
    assert_string_equal(was, is);
    free(was);
    free(is);
}

/* --- tokenizers ----------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to)
{
    char *text;
    size_t len;
    cdz_error err = {0};
    must(cdz_file_read(from, 4 << 20, &text, &len, &err), &err);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
    free(text);
}

/* A model of nothing with that many tokens, and the tokenizer of tests/tokenizers/NAME. */
static const char *empty_model(const char *name, unsigned n_vocab)
{
    static const struct {
        const char *name;
        unsigned rows;
    } tensors[] = {{"model.norm.weight", 0},
                   {"model.layers.0.input_layernorm.weight", 0},
                   {"model.layers.0.post_attention_layernorm.weight", 0},
                   {"model.layers.0.self_attn.q_proj.weight", 2},
                   {"model.layers.0.self_attn.k_proj.weight", 2},
                   {"model.layers.0.self_attn.v_proj.weight", 2},
                   {"model.layers.0.self_attn.o_proj.weight", 2},
                   {"model.layers.0.mlp.gate_proj.weight", 2},
                   {"model.layers.0.mlp.up_proj.weight", 2},
                   {"model.layers.0.mlp.down_proj.weight", 2}};
    const char *folder = in_work_dir(name, "-tokens");
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    char from[512], to[512];
    cdz_buf head = {0};
    unsigned at = n_vocab * 8;
    assert_int_equal(mkdir(folder, 0777), 0);
    for (size_t f = 0; f < 2; f++) {
        snprintf(from, sizeof from, "%s/tokenizers/%s/%s", CADENZA_TEST_DATA, name, files[f]);
        snprintf(to, sizeof to, "%s/%s", folder, files[f]);
        copy_file(from, to);
    }
    snprintf(to, sizeof to, "%s/config.json", folder);
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"model_type\":\"llama\",\"hidden_size\":2,\"num_hidden_layers\":1,"
            "\"num_attention_heads\":1,\"intermediate_size\":2,\"vocab_size\":%u,"
            "\"tie_word_embeddings\":true}",
            n_vocab);
    fclose(file);
    cdz_buf_printf(&head,
                   "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[%u,2],"
                   "\"data_offsets\":[0,%u]}",
                   n_vocab, at);
    for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++) {
        const unsigned bytes = tensors[t].rows ? 16 : 8;
        cdz_buf_printf(&head, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[2%s],\"data_offsets\":[%u,%u]}",
                       tensors[t].name, tensors[t].rows ? ",2" : "", at, at + bytes);
        at += bytes;
    }
    cdz_buf_putc(&head, '}');
    snprintf(to, sizeof to, "%s/model.safetensors", folder);
    file = fopen(to, "wb");
    assert_non_null(file);
    for (int b = 0; b < 8; b++) fputc((int)(head.len >> 8 * b & 255), file);
    fwrite(head.data, 1, head.len, file);
    for (unsigned b = 0; b < at; b++) fputc(0, file);
    fclose(file);
    cdz_buf_free(&head);
    return folder;
}

/* Every recorded text gives the same ids through the file, and through the folder made of it. */
static void compare_ids(const char *name, const char *folder, const char *made)
{
    char path[512];
    cdz_arena arena = {0};
    cdz_json cases;
    cdz_error err = {0};
    cdz_tokenizer *was, *is;
    cdz_encoding a = {0}, b = {0};
    snprintf(path, sizeof path, "%s/tokenizers/%s/cases.json", CADENZA_TEST_DATA, name);
    must(cdz_json_read_file(path, 0, NULL, &arena, &cases, &err), &err);
    must(cdz_tokenizer_open(folder, &was, &err), &err);
    must(cdz_tokenizer_open(made, &is, &err), &err);
    assert_true(cases.len > 100);
    for (uint32_t i = 0; i < cases.len; i++) {
        const cdz_json *text = cdz_json_get(&cases.items[i], "text");
        must(cdz_tokenizer_encode(was, NULL, text->string, text->len, CDZ_ENCODE_SPECIAL, &a, &err),
             &err);
        must(cdz_tokenizer_encode(is, NULL, text->string, text->len, CDZ_ENCODE_SPECIAL, &b, &err),
             &err);
        if (a.n != b.n || (a.n && memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0))
            fail_msg("%s: other ids for \"%.60s\"", made, text->string);
    }
    cdz_encoding_free(&a);
    cdz_encoding_free(&b);
    cdz_tokenizer_free(was);
    cdz_tokenizer_free(is);
    cdz_arena_free(&arena);
}

static void tokenizers_come_along(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned n_vocab;
    } all[] = {
        {"gpt2", 1003}, {"llama2", 1161}, {"qwen2", 1509}, {"deepseek", 1206}, {"o200k", 1206}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char folder[256], file[256], back[256];
        snprintf(folder, sizeof folder, "%s", empty_model(all[i].name, all[i].n_vocab));
        snprintf(file, sizeof file, "%s", in_work_dir(all[i].name, "-tokens.gguf"));
        snprintf(back, sizeof back, "%s", in_work_dir(all[i].name, "-tokens-back"));
        convert(folder, file, CDZ_N_DTYPES);
        convert(file, back, CDZ_N_DTYPES);
        compare_ids(all[i].name, folder, file);
        compare_ids(all[i].name, folder, back);
    }
}

/* What GGUF has no words for is refused, or said. */
static void tokenizers_without_words(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_convert_report report;
    cdz_convert_options o = {.in = empty_model("bert", 2003),
                             .out = in_work_dir("words", ".gguf"),
                             .to_gguf = true,
                             .type = CDZ_N_DTYPES};
    assert_int_equal(cdz_convert(&o, &report, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "a tokenizer that is no BPE has no word in GGUF"));
    o.no_tokenizer = true;
    must(cdz_convert(&o, &report, &err), &err);
    o = (cdz_convert_options){.in = empty_model("phi3", 1169),
                              .out = in_work_dir("strips", ".gguf"),
                              .to_gguf = true,
                              .type = CDZ_N_DTYPES};
    must(cdz_convert(&o, &report, &err), &err);
    assert_non_null(strstr(report.notes, "7 added tokens take spaces"));
}

/* --- types ---------------------------------------------------------------------------------- */

static const cdz_weight *some_matrix(const cdz_weights *w)
{
    return &w->layers[0].q.w;
}

/* Every block type: what is in the file is what cdz_quantise makes of the folder's rows. */
static void blocks_are_of_the_folders_rows(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *folder;
    must(cdz_weights_open(shipped, &folder, &err), &err);
    for (int t = CDZ_Q8_0; t <= CDZ_Q6_K; t++) {
        char name[32];
        cdz_weights *made;
        snprintf(name, sizeof name, "q%d", t);
        const cdz_convert_report r = convert(shipped, in_work_dir(name, ".gguf"), (cdz_dtype)t);
        assert_int_equal(r.n_kept, 6); /* feed-forwards of 688 */
        assert_non_null(strstr(r.first_kept, "blk.0.ffn_down.weight has rows of 688"));
        must(cdz_weights_open(in_work_dir(name, ".gguf"), &made, &err), &err);
        assert_int_equal(made->embed.dtype, t == CDZ_Q8_0 ? CDZ_Q8_0 : CDZ_Q6_K);
        const cdz_weight *was = &folder->layers[0].v.w, *is = &made->layers[0].v.w;
        assert_int_equal(is->dtype, t);
        assert_int_equal(some_matrix(made)->dtype, t);
        const size_t stride = cdz_row_bytes(is->dtype, is->k);
        float *row = malloc(was->k * sizeof *row);
        uint8_t *block = malloc(stride);
        assert_true(row && block);
        for (size_t i = 0; i < was->n; i++) {
            cdz_widen(was->dtype, row, (const char *)was->data + i * was->k * 2, was->k);
            cdz_quantise((cdz_dtype)t, block, row, was->k);
            assert_memory_equal(block, (const char *)is->data + i * stride, stride);
        }
        free(row);
        free(block);
        cdz_weights_close(made);
    }
    cdz_weights_close(folder);
}

static void same_weight(const cdz_weight *a, const cdz_weight *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_memory_equal(a->data, b->data, cdz_row_bytes(a->dtype, a->k) * a->n);
}

/* A folder and its file give the same blocks. */
static void a_file_gives_the_blocks_of_its_folder(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *a, *b;
    convert(shipped, in_work_dir("plain", ".gguf"), CDZ_N_DTYPES);
    convert(shipped, in_work_dir("one", ".gguf"), CDZ_Q4_K);
    convert(in_work_dir("plain", ".gguf"), in_work_dir("two", ".gguf"), CDZ_Q4_K);
    must(cdz_weights_open(in_work_dir("one", ".gguf"), &a, &err), &err);
    must(cdz_weights_open(in_work_dir("two", ".gguf"), &b, &err), &err);
    same_weight(&a->embed, &b->embed);
    same_weight(&a->layers[3].q.w, &b->layers[3].q.w);
    same_weight(&a->layers[5].mlp.down.w, &b->layers[5].mlp.down.w);
    cdz_weights_close(a);
    cdz_weights_close(b);
}

/* A quantised file becomes a folder of the numbers that its blocks stand for. */
static void quantised_files_are_widened(void **state)
{
    (void)state;
    const char *file = in_work_dir("wide", ".gguf"), *folder = in_work_dir("wide", "");
    size_t n;
    convert(CADENZA_TEST_DATA "/golden/llama_bf16", file, CDZ_Q5_1);
    float *expected = logits_of(file, &n);
    convert(file, folder, CDZ_N_DTYPES);
    same_logits("widened", folder, expected, n, 0);
    free(expected);
}

/* bitsandbytes' weights are float32 of the same numbers in GGUF, which has no such blocks. */
static void bitsandbytes_weights_are_widened(void **state)
{
    (void)state;
    static const char *const names[] = {"nf4", "int8"};
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        char folder[256];
        const char *file = in_work_dir(names[i], "-bnb.gguf");
        snprintf(folder, sizeof folder, "%s/bnb/%s", CADENZA_TEST_DATA, names[i]);
        float *expected = logits_of(folder, &n);
        convert(folder, file, CDZ_N_DTYPES);
        same_logits(names[i], file, expected, n, 0);
        free(expected);
    }
}

static void plain_types_are_stored(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *w;
    convert(CADENZA_TEST_DATA "/golden/llama_gqa", in_work_dir("half", ".gguf"), CDZ_F16);
    must(cdz_weights_open(in_work_dir("half", ".gguf"), &w, &err), &err);
    assert_int_equal(some_matrix(w)->dtype, CDZ_F16);
    assert_int_equal(w->layers[0].attn_norm.w.dtype, CDZ_F32);
    cdz_weights_close(w);
    convert(in_work_dir("half", ".gguf"), in_work_dir("brain", ""), CDZ_BF16);
    must(cdz_weights_open(in_work_dir("brain", ""), &w, &err), &err);
    assert_int_equal(some_matrix(w)->dtype, CDZ_BF16);
    assert_string_equal(w->arch.dtype, "bfloat16");
    cdz_weights_close(w);
}

/* --- refusals ------------------------------------------------------------------------------- */

static const struct {
    const char *model, *sentence;
} refused[] = {
    {"golden/bart", "models of type bart are not supported as GGUF"},
    {"golden/stablelm", "models of type stablelm are not supported as GGUF"},
    {"golden/gpt2_scaled", "the activation cannot be said in GGUF"},
    {"golden/llama_dynamic", "rope type dynamic is not supported"},
    {"golden/smollm3", "which layers rotate cannot be said in GGUF"},
    {"golden/nowhere", "no such model folder"},
    {"golden/deepseek_v3", "models of type deepseek_v3 are not supported as GGUF"},
    {"gguf/deepseek_v3.gguf", "models of type deepseek_v3 are read from GGUF and not written"},
    {"gguf/gpt_oss_mxfp4.gguf", "models of type gpt_oss are read from GGUF and not written"},
    {"gguf/lfm2.gguf", "models of type lfm2 are read from GGUF and not written"},
    {"gguf/gemma3n.gguf", "models of type gemma3n_text are read from GGUF and not written"},
    {"golden/mamba2", "models of type mamba2 are not supported as GGUF"},
    {"gguf/glm4_moe.gguf", "models of type glm4_moe are read from GGUF and not written"},
};

static void what_cannot_be_said_is_refused(void **state)
{
    (void)state;
    const uint32_t before = n_files();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char in[256];
        cdz_error err = {0};
        cdz_convert_report report;
        snprintf(in, sizeof in, "%s/%s", CADENZA_TEST_DATA, refused[i].model);
        const cdz_convert_options o = {.in = in,
                                       .out = in_work_dir("refused", ".gguf"),
                                       .to_gguf = !strstr(in, ".gguf"),
                                       .type = CDZ_N_DTYPES};
        assert_int_not_equal(cdz_convert(&o, &report, &err), CDZ_OK);
        if (!strstr(err.text, refused[i].sentence)) fail_msg("%s: %s", refused[i].model, err.text);
        assert_int_equal(n_files(), before);
    }
}

static void blocks_are_not_made_of_blocks(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_convert_report report;
    const cdz_convert_options o = {.in = CADENZA_TEST_DATA "/gguf/llama_bf16_q4_0.gguf",
                                   .out = in_work_dir("twice", ".gguf"),
                                   .to_gguf = true,
                                   .type = CDZ_Q8_0};
    assert_int_equal(cdz_convert(&o, &report, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "is Q4_0 already"));
    const cdz_convert_options folder = {.in = CADENZA_TEST_DATA "/bnb/nf4",
                                        .out = in_work_dir("twice", ".gguf"),
                                        .to_gguf = true,
                                        .type = CDZ_Q8_0};
    assert_int_equal(cdz_convert(&folder, &report, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "are NF4 already"));
}

static void what_is_there_stays(void **state)
{
    (void)state;
    const char *out = in_work_dir("there", ".gguf");
    cdz_error err = {0};
    cdz_convert_report report;
    FILE *file = fopen(out, "w");
    assert_non_null(file);
    fclose(file);
    cdz_convert_options o = {.in = CADENZA_TEST_DATA "/golden/llama_bf16",
                             .out = out,
                             .to_gguf = true,
                             .type = CDZ_N_DTYPES};
    assert_int_equal(cdz_convert(&o, &report, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "exists already"));
    assert_false(cdz_gguf_is(out));
    o.force = true;
    must(cdz_convert(&o, &report, &err), &err);
    assert_true(cdz_gguf_is(out));
}

/* --- giving up ------------------------------------------------------------------------------ */

typedef struct impatience {
    uint64_t after, total, n_calls;
} impatience;

static bool give_up(void *user, uint64_t done, uint64_t total)
{
    impatience *i = user;
    i->n_calls++;
    i->total = total;
    return done < i->after;
}

static void giving_up_leaves_nothing(void **state)
{
    (void)state;
    const uint32_t before = n_files();
    for (int folder = 0; folder < 2; folder++) {
        impatience i = {.after = 30000};
        cdz_error err = {0};
        cdz_convert_report report;
        const cdz_convert_options o = {.in = folder ? CADENZA_TEST_DATA "/gguf/llama_bf16.gguf"
                                                    : CADENZA_TEST_DATA "/golden/llama_bf16",
                                       .out = in_work_dir("given-up", ""),
                                       .to_gguf = !folder,
                                       .type = CDZ_N_DTYPES,
                                       .watch = {give_up, &i}};
        assert_int_equal(cdz_convert(&o, &report, &err), CDZ_E_CANCELLED);
        assert_int_equal(n_files(), before);
        assert_true(i.n_calls > 1 && i.total > 30000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_keep_their_logits),
        cmocka_unit_test(numbers_of_yarn_are_kept),
        cmocka_unit_test(the_shipped_pair_writes_the_same),
        cmocka_unit_test(templates_come_along),
        cmocka_unit_test(tokenizers_come_along),
        cmocka_unit_test(tokenizers_without_words),
        cmocka_unit_test(blocks_are_of_the_folders_rows),
        cmocka_unit_test(a_file_gives_the_blocks_of_its_folder),
        cmocka_unit_test(quantised_files_are_widened),
        cmocka_unit_test(bitsandbytes_weights_are_widened),
        cmocka_unit_test(plain_types_are_stored),
        cmocka_unit_test(what_cannot_be_said_is_refused),
        cmocka_unit_test(blocks_are_not_made_of_blocks),
        cmocka_unit_test(what_is_there_stays),
        cmocka_unit_test(giving_up_leaves_nothing),
    };
    return cmocka_run_group_tests_name("convert", tests, make_work_dir, remove_work_dir);
}
