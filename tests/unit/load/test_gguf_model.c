/* test_gguf_model.c - GGUF files made by another program from models of tests/golden: every logit
 * has the bits that the folder's model gives. Also what the metadata may lie about. */
#include <unistd.h>

#include "support/run_support.h"

#include "load/gguf.h"
#include "load/gguf_config.h"
#include "support/gguf_bytes.h"

/* near: the file has numbers that another program has rounded, or made of several: the divisors of llama3's rope, norms with the 1
 * added, folded multipliers; or keys that are permuted and not rotated, which are summed up in another order. In converted/ are
 * those of llama.cpp's own converter (make_converted.py). */
static const struct {
    const char *name;
    bool near;
} models[] = {{"llama_bf16", false},
              {"llama_tied_l3", true},
              {"mistral_sw", false},
              {"mixtral", false},
              {"gemma3", false},
              {"gpt_neox", false},
              {"phi3", false},
              {"qwen2_sw", false},
              {"cohere2", false},
              {"glm4_moe", false},
              {"granite", false},
              {"granitemoe", false},
              {"llama4", true},
              {"olmo3", false},
              {"qwen2_moe", false},
              {"starcoder2", false},
              {"gpt_oss_mxfp4", false},
              {"deepseek_v2", false},
              {"deepseek_v3", false},
              {"stablelm2", false},
              {"falcon_40b", false},
              {"bloom", false},
              {"apertus", true},
              {"mamba2", false},
              {"granitemoehybrid", true},
              {"nemotron_h", false},
              {"lfm2", false},
              {"lfm2_moe", false},
              {"qwen3_next", true},
              {"qwen3_5", true},
              {"qwen3_5_moe", true},
              {"gemma3n", true},
              {"converted/falcon_h1", true},    /* a norm whose name ends early */
              {"converted/ministral3", false},  /* yarn, queries that grow */
              {"converted/qwen3_yarn", false},  /* queries, keys and values in one tensor */
              {"converted/deepseek_v3", false}, /* no word for the router's sigmoids */
              {"converted/qwen3_5", true},      /* the same with gates, beside recurrent layers */
              {"converted/qwen3_vl", false}};   /* golden/qwen3, as if it saw */

static float *prompt_logits(const char *model, size_t *n)
{
    enum { LEN = 24 };
    int32_t ids[LEN];
    for (int i = 0; i < LEN; i++) ids[i] = (7 + 31 * i) % 256;
    rig r = rig_open(model, (cdz_engine_options){0});
    float *logits = prompt_logits_of(&r, ids, LEN, n);
    rig_close(&r);
    return logits;
}

static const char *golden_of(const char *name)
{
    const char *slash = strchr(name, '/');
    if (strcmp(name, "converted/qwen3_vl") == 0) return "qwen3";
    return slash ? slash + 1 : name;
}

static void logits_are_the_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[128];
        size_t n, n_file;
        snprintf(path, sizeof path, "../gguf/%s.gguf", models[i].name);
        float *folder = prompt_logits(golden_of(models[i].name), &n),
              *file = prompt_logits(path, &n_file);
        assert_int_equal(n, n_file);
        for (size_t j = 0; j < n; j++)
            if (models[i].near ? !(fabsf(folder[j] - file[j]) <= 1e-4f)
                               : memcmp(&folder[j], &file[j], sizeof *file) != 0)
                fail_msg("%s: logit %zu is %.9g, the folder's %.9g", models[i].name, j,
                         (double)file[j], (double)folder[j]);
        free(folder);
        free(file);
    }
}

/* A quantised file and the one that holds its values as float32 give the same bits. */
static void quantised_logits_are_the_widened_ones(void **state)
{
    (void)state;
    static const char *const types[] = {"q8_0", "q4_0", "q5_1"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char blocks[128], wide[128];
        size_t n, n_wide;
        snprintf(blocks, sizeof blocks, "../gguf/llama_bf16_%s.gguf", types[i]);
        snprintf(wide, sizeof wide, "../gguf/llama_bf16_%s_wide.gguf", types[i]);
        float *a = prompt_logits(blocks, &n), *b = prompt_logits(wide, &n_wide);
        assert_int_equal(n, n_wide);
        assert_memory_equal(a, b, n * sizeof *a);
        free(a);
        free(b);
    }
}

static void weights_stay_mapped(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err = {0};
    must(cdz_weights_open(CADENZA_TEST_DATA "/gguf/mixtral.gguf", &w, &err), &err);
    assert_string_equal(w->arch.model_type, "mixtral");
    assert_int_equal(w->facts.n_copied, 0);
    assert_int_equal(w->facts.n_unexpected, 0);
    const char *begin = w->tensors.files[0].data, *end = begin + w->tensors.files[0].size;
    const char *expert = w->layers[0].experts[1].up.w.data;
    assert_true(expert >= begin && expert < end);
    cdz_weights_close(w);
}

/* The converter writes a folder's parameters of sampling, but for do_sample. */
static void parameters_of_sampling_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        double value;
    } numbers[] = {{"temperature", 0.5},         {"top_k", 7},        {"top_p", 0.75},
                   {"repetition_penalty", 1.25}, {"eos_token_id", 2}, {"bos_token_id", 1},
                   {"pad_token_id", 0}};
    cdz_weights *w;
    cdz_error err = {0};
    must(cdz_weights_open(CADENZA_TEST_DATA "/gguf/converted/ministral3.gguf", &w, &err), &err);
    const cdz_json *config = cdz_weights_generation_config(w);
    assert_non_null(config);
    assert_int_equal(cdz_json_get(config, "do_sample")->type, CDZ_JSON_BOOL);
    assert_true(cdz_json_get(config, "do_sample")->boolean);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        double value = -1;
        assert_true(cdz_json_number(cdz_json_get(config, numbers[i].key), &value));
        assert_true(value == numbers[i].value);
    }
    cdz_weights_close(w);
    must(cdz_weights_open(CADENZA_TEST_DATA "/gguf/llama_bf16.gguf", &w, &err), &err);
    assert_null(cdz_weights_generation_config(w));
    cdz_weights_close(w);
}

/* A good file with one thing changed: the same bytes under a name of equal length. */
typedef struct lie {
    const char *name, *from, *to;
    size_t len;
    const char *sentence;
} lie;

static const lie lies[] = {
    {"architecture", "\5\0\0\0\0\0\0\0llama", "\5\0\0\0\0\0\0\0lanza", 13,
     "general.architecture \"lanza\" is not supported; supported are llama,"},
    {"no heads", "llama.attention.head_count\4\0\0\0\4", "llama.attention.head_count\4\0\0\0\0", 31,
     "num_attention_heads is 0"},
    {"a key less", "llama.block_count", "llama.block_counx", 17, "llama.block_count is missing"},
    {"heads of another type", "llama.attention.head_count\4", "llama.attention.head_count\6", 27,
     "llama.attention.head_count is float32, expected an integer"},
    {"keys and values differ", "llama.attention.value_length\4\0\0\0\10",
     "llama.attention.value_length\4\0\0\0\7", 33, "keys of 8 and values of 7"},
    {"head_dim 0", "llama.attention.key_length\4\0\0\0\10", "llama.attention.key_length\4\0\0\0\0",
     31, "keys of 0 and values of 8"},
    {"rope base NaN", "llama.rope.freq_base\6\0\0\0\0\44\364\110",
     "llama.rope.freq_base\6\0\0\0\0\0\300\177", 28,
     "llama.rope.freq_base is nan, expected a finite number"},
    {"rotates more than there is", "llama.rope.dimension_count\4\0\0\0\10",
     "llama.rope.dimension_count\4\0\0\0\11", 31, "rope.dimension_count is 9, a head has 8"},
    {"layers without end", "llama.block_count\4\0\0\0\2\0\0\0",
     "llama.block_count\4\0\0\0\377\377\377\377", 25, "num_hidden_layers is 4294967295"},
    {"one layer more", "llama.block_count\4\0\0\0\2", "llama.block_count\4\0\0\0\3", 22,
     "tensor blk.2.attn_norm.weight is missing"},
    {"no embedding", "token_embd.weight", "token_embx.weight", 17,
     "tensor token_embd.weight is missing"},
    {"a name less", "blk.1.ffn_up.weight", "blk.1.ffn_ux.weight", 19,
     "tensor blk.1.ffn_up.weight is missing"},
    {"another width", "llama.embedding_length\4\0\0\0 ", "llama.embedding_length\4\0\0\0@", 27,
     "tensor token_embd.weight is [256, 32]"},
};

/* The same of files with recurrent layers, and with several streams. */
static const struct {
    const char *model;
    lie of;
} lies_of_others[] = {
    {"mamba2",
     {"no conv kernel", "mamba2.ssm.conv_kernel", "mamba2.ssm.conv_kernex", 22,
      "mamba2.ssm.conv_kernel is missing"}},
    {"mamba2",
     {"heads that do not share", "mamba2.ssm.time_step_rank\4\0\0\0\10",
      "mamba2.ssm.time_step_rank\4\0\0\0\7", 30,
      "mamba2.ssm.inner_size 64 is no multiple of mamba2.ssm.time_step_rank 7"}},
    {"mamba2",
     {"groups that do not share", "mamba2.ssm.group_count\4\0\0\0\2",
      "mamba2.ssm.group_count\4\0\0\0\3", 27, "num_heads 8 is not a multiple of n_groups 3"}},
    {"mamba2",
     {"a recurrent part less", "blk.0.ssm_a", "blk.0.ssm_x", 11, "tensor blk.0.ssm_a is missing"}},
    {"lfm2",
     {"two numbers of key heads", "\5\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2\0\0\0",
      "\5\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0", 24,
      "lfm2.attention.head_count_kv has 1 for one layer and 2 for another"}},
    {"gemma3n",
     {"no streams", "gemma3n.altup.num_inputs", "gemma3n.altup.num_inputx", 24,
      "gemma3n.altup.num_inputs is missing"}},
    {"gemma3n",
     {"cuts of NaN", "\6\0\0\0\0\0\0\0~tW?", "\6\0\0\0\0\0\0\0\0\0\300\177", 12,
      "activation_sparsity_scale is nan for layer 0"}},
};

static void must_be_a_sentence(const char *model, const lie *l)
{
    char path[] = "/tmp/cadenza-gguf-XXXXXX", from[256], *text;
    size_t len;
    cdz_error err = {0};
    snprintf(from, sizeof from, CADENZA_TEST_DATA "/gguf/%s.gguf", model);
    must(cdz_file_read(from, 1 << 20, &text, &len, &err), &err);
    char *at = memmem(text, len, l->from, l->len);
    if (!at) fail_msg("%s: the bytes are not in the file", l->name);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    memcpy(at, l->to, l->len);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    free(text);
    cdz_weights *w = NULL;
    const cdz_status st = cdz_weights_open(path, &w, &err);
    if (st == CDZ_OK || !strstr(err.text, l->sentence))
        fail_msg("%s: %d %s", l->name, (int)st, err.text);
    assert_null(w);
    close(fd);
    unlink(path);
}

static void lying_metadata_is_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        must_be_a_sentence("llama_bf16", &lies[i]);
    for (size_t i = 0; i < sizeof lies_of_others / sizeof *lies_of_others; i++)
        must_be_a_sentence(lies_of_others[i].model, &lies_of_others[i].of);
}

/* --- what ends a text ------------------------------------------------------------------------- */

static void put_tokens(cdz_buf *to, const char *const *texts, const int32_t *types, size_t n)
{
    gguf_key(to, "tokenizer.ggml.tokens", GGUF_ARRAY);
    gguf_number(to, GGUF_STRING, 4);
    gguf_number(to, n, 8);
    for (size_t i = 0; i < n; i++) gguf_string(to, texts[i], strlen(texts[i]));
    gguf_key(to, "tokenizer.ggml.token_type", GGUF_ARRAY);
    gguf_number(to, GGUF_I32, 4);
    gguf_number(to, n, 8);
    for (size_t i = 0; i < n; i++) gguf_number(to, (uint32_t)types[i], 4);
}

/* The converter writes one end; others are special tokens that are called so. */
static void ends_are_told_by_their_texts(void **state)
{
    (void)state;
    enum { N = 4 };
    static const int32_t special[N] = {1, 3, 3, 4}, words[N] = {1, 1, 1, 1};
    static const struct {
        const char *texts[N];
        const int32_t *types;
        const char *json;
    } cases[] = {
        {{"a", "<eos>", "<end_of_turn>", "<unused0>"}, special, "{\"eos_token_id\":[1,2]}"},
        {{"a", "<eos>", "b", "<|im_end|>"}, special, "{\"eos_token_id\":[1,3]}"},
        {{"a", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"}, special, "{\"eos_token_id\":[1,3,2]}"},
        {{"<|end|>", "<|return|>", "<|call|>", "<|end|>"}, special, "{\"eos_token_id\":[1,2]}"},
        {{"a", "<|endoftext|>", "b", "<|end|>"}, special, "{\"eos_token_id\":[1,3]}"},
        {{"a", "<eos>", "<end_of_turn>", "<|end|>"}, words, "{\"eos_token_id\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/cadenza-gguf-XXXXXX";
        cdz_buf file = {0}, out = {0};
        cdz_gguf g = {0};
        cdz_error err = {0};
        gguf_head(&file, 0, 3);
        gguf_count(&file, "tokenizer.ggml.eos_token_id", 1);
        put_tokens(&file, cases[i].texts, cases[i].types, N);
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, file.data, file.len), (ssize_t)file.len);
        must(cdz_gguf_open(path, &g, &err), &err);
        must(cdz_gguf_write_generation(&g, &out, &err), &err);
        cdz_buf_putc(&out, '\0');
        assert_string_equal(out.data, cases[i].json);
        cdz_gguf_close(&g);
        close(fd);
        unlink(path);
        cdz_buf_free(&file);
        cdz_buf_free(&out);
    }
}

/* --- files beside a model's ------------------------------------------------------------------- */

/* Of one number, a row of a matrix. */
static void put_tensor(cdz_buf *to, const char *name, uint64_t offset)
{
    gguf_string(to, name, strlen(name));
    gguf_number(to, 2, 4);
    gguf_number(to, 1, 8);
    gguf_number(to, 1, 8);
    gguf_number(to, 0, 4);
    gguf_number(to, offset, 8);
}

static void must_be_refused(const cdz_buf *file, const char *sentence)
{
    char path[] = "/tmp/cadenza-gguf-XXXXXX";
    cdz_weights *w = NULL;
    cdz_error err = {0};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file->data, file->len), (ssize_t)file->len);
    const cdz_status st = cdz_weights_open(path, &w, &err);
    if (st != CDZ_E_UNSUPPORTED || !strstr(err.text, sentence))
        fail_msg("%d %s", (int)st, err.text);
    close(fd);
    unlink(path);
}

static void what_is_no_model_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *type, *sentence;
    } others[] = {
        {"clip", "mmproj", "is no model but a projector of images or sounds (mmproj)"},
        {"clip", "model", "is no model but a projector of images or sounds (mmproj)"},
        {"llama", "adapter", "is no model but an adapter (LoRA)"},
        {"llama", "imatrix", "is no model but a quantiser's importance matrix"},
        {"controlvector", "model",
         "is no model but a control vector; name a model's file, and this one as --control-vector"},
        {"eagle3", "model", "is no model but a draft that needs its target's hidden states"},
        {"clipper", "model",
         "general.architecture \"clipper\" is not supported; supported are llama,"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cdz_buf file = {0};
        gguf_head(&file, 0, 2);
        gguf_word(&file, "general.architecture", others[i].arch);
        gguf_word(&file, "general.type", others[i].type);
        must_be_refused(&file, others[i].sentence);
        cdz_buf_free(&file);
    }
}

/* As the converter's --mtp leaves them: the embedding, and layers after the model's last. */
static void foretelling_layers_alone_are_named(void **state)
{
    (void)state;
    cdz_buf file = {0};
    gguf_head(&file, 2, 5);
    gguf_word(&file, "general.architecture", "qwen35");
    gguf_count(&file, "qwen35.context_length", 8);
    gguf_count(&file, "qwen35.embedding_length", 1);
    gguf_count(&file, "qwen35.block_count", 3);
    gguf_count(&file, "qwen35.nextn_predict_layers", 1);
    put_tensor(&file, "token_embd.weight", 0);
    put_tensor(&file, "blk.2.nextn.eh_proj.weight", 32);
    while (file.len % 32) cdz_buf_putc(&file, 0);
    gguf_number(&file, 0, 8);
    for (int i = 0; i < 32; i++) cdz_buf_putc(&file, 0);
    must_be_refused(&file, "has only the layers that foretell further tokens (MTP)");
    cdz_buf_free(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_the_folders),
        cmocka_unit_test(quantised_logits_are_the_widened_ones),
        cmocka_unit_test(weights_stay_mapped),
        cmocka_unit_test(parameters_of_sampling_are_read),
        cmocka_unit_test(lying_metadata_is_a_sentence),
        cmocka_unit_test(ends_are_told_by_their_texts),
        cmocka_unit_test(what_is_no_model_is_named),
        cmocka_unit_test(foretelling_layers_alone_are_named),
    };
    return cmocka_run_group_tests_name("gguf models", tests, NULL, NULL);
}
