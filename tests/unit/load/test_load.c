/* test_load.c - model folders: the golden models open as what they are; broken ones are one
 * sentence. */
#include <math.h>
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

#include "load/model_files.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define GOLDEN(name) CADENZA_TEST_DATA "/golden/" name

/* --- the golden models ----------------------------------------------------------------------- */

static const struct {
    const char *name, *type;
    uint32_t layers, hidden, inner, vocab, heads, kv_heads, head_dim, context, last_window;
    uint64_t parameters;
    cdz_dtype dtype;
    bool tied, qkv_bias, o_bias, mlp_bias;
    uint32_t files;
} models[] = {
    {"llama_gqa", "llama", 3, 48, 72, 384, 4, 2, 12, 512, 0, 89040, CDZ_F32, 0, 0, 0, 0, 1},
    {"llama_draft", "llama", 2, 48, 72, 384, 4, 2, 12, 512, 0, 71664, CDZ_F32, 0, 0, 0, 0, 1},
    {"llama_bf16", "llama", 2, 32, 64, 256, 4, 2, 8, 256, 0, 34976, CDZ_BF16, 0, 0, 0, 0, 1},
    {"llama_f16", "llama", 2, 32, 64, 256, 4, 2, 8, 256, 0, 34976, CDZ_F16, 0, 0, 0, 0, 1},
    {"llama_sharded", "llama", 2, 48, 64, 256, 3, 3, 16, 256, 0, 61680, CDZ_F32, 0, 0, 0, 0, 2},
    {"llama_bias", "llama", 2, 40, 56, 256, 5, 5, 8, 256, 0, 47544, CDZ_F32, 0, 1, 1, 1, 1},
    {"llama_tied_l3", "llama", 3, 32, 64, 256, 4, 1, 16, 1024, 0, 42208, CDZ_F32, 1, 0, 0, 0, 1},
    {"qwen2_tied", "qwen2", 3, 48, 72, 320, 4, 2, 12, 512, 0, 67824, CDZ_F32, 1, 1, 0, 0, 1},
    {"qwen2_sw", "qwen2", 3, 32, 64, 256, 4, 2, 8, 256, 6, 44448, CDZ_F32, 0, 1, 0, 0, 1},
    {"mistral_sw", "mistral", 3, 48, 64, 256, 4, 2, 12, 256, 8, 73296, CDZ_F32, 0, 0, 0, 0, 1},
};

static cdz_weights *open_golden(const char *name)
{
    char path[512];
    cdz_weights *w;
    cdz_error err;
    snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, name);
    if (cdz_weights_open(path, &w, &err) != CDZ_OK) fail_msg("%s", err.text);
    return w;
}

static void assert_weight(const cdz_weight *w, size_t n, size_t k, cdz_dtype dtype)
{
    assert_non_null(w->data);
    assert_int_equal(w->n, n);
    assert_int_equal(w->k, k);
    assert_int_equal(w->dtype, dtype);
    assert_int_equal((uintptr_t)w->data % (dtype == CDZ_F32 ? 4 : 2), 0);
}

static void assert_linear(const cdz_linear *l, size_t n, size_t k, cdz_dtype dtype, bool bias)
{
    assert_weight(&l->w, n, k, dtype);
    if (bias)
        assert_weight(&l->bias, 1, n, dtype);
    else
        assert_null(l->bias.data);
}

static void golden_models_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        cdz_weights *w = open_golden(models[i].name);
        const cdz_arch *a = cdz_weights_arch(w);
        assert_string_equal(a->model_type, models[i].type);
        assert_int_equal(a->n_layers, models[i].layers);
        assert_int_equal(a->hidden, models[i].hidden);
        assert_int_equal(a->intermediate, models[i].inner);
        assert_int_equal(a->n_vocab, models[i].vocab);
        assert_int_equal(a->n_heads, models[i].heads);
        assert_int_equal(a->n_kv_heads, models[i].kv_heads);
        assert_int_equal(a->head_dim, models[i].head_dim);
        assert_int_equal(a->context, models[i].context);
        assert_int_equal(a->window[a->n_layers - 1], models[i].last_window);
        assert_int_equal(a->has_window, models[i].last_window != 0);
        assert_int_equal(w->tied, models[i].tied);
        assert_int_equal(w->tensors.n_files, models[i].files);
        if (w->facts.n_parameters != models[i].parameters)
            fail_msg("%s: %llu parameters", models[i].name,
                     (unsigned long long)w->facts.n_parameters);
        assert_int_equal(w->facts.bytes[models[i].dtype],
                         models[i].parameters * (models[i].dtype == CDZ_F32 ? 4 : 2));
        assert_int_equal(w->facts.kv_bytes_per_token, 8 * a->n_layers * a->n_kv_heads * a->head_dim);
        assert_int_equal(w->facts.n_unexpected, 0);
        assert_int_equal(cdz_weights_check(w, NULL), CDZ_OK);
        cdz_weights_close(w);
    }
}

/* A position of latents is one key; experts of MXFP4 stay in blocks. */
static void caches_and_blocks_are_counted(void **state)
{
    (void)state;
    enum { EXPERT_ROWS = 64 * 2 + 64 };
    cdz_weights *w = open_golden("deepseek_v3");
    assert_int_equal(w->facts.kv_bytes_per_token, 3 * (16 + 8) * sizeof(float));
    assert_int_equal(w->facts.n_unexpected, 0);
    cdz_weights_close(w);
    w = open_golden("gpt_oss_mxfp4");
    assert_int_equal(w->facts.kv_bytes_per_token, 2 * 2 * 16 * sizeof(float));
    assert_int_equal(w->facts.bytes[CDZ_MXFP4], 2 * 4 * EXPERT_ROWS * cdz_row_bytes(CDZ_MXFP4, 32));
    assert_int_equal(w->facts.n_unexpected, 0);
    cdz_weights_close(w);
}

static void weights_have_their_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++) {
        cdz_weights *w = open_golden(models[i].name);
        const cdz_arch *a = cdz_weights_arch(w);
        const size_t h = a->hidden, m = a->intermediate, q = a->n_heads * a->head_dim,
                     kv = a->n_kv_heads * a->head_dim;
        const cdz_dtype d = models[i].dtype;
        assert_weight(&w->embed, a->n_vocab, h, d);
        assert_weight(&w->final_norm.w, 1, h, d);
        assert_linear(&w->head, a->n_vocab, h, d, false);
        assert_int_equal(w->head.w.data == w->embed.data, models[i].tied);
        for (uint32_t l = 0; l < a->n_layers; l++) {
            const cdz_layer_weights *layer = &w->layers[l];
            assert_weight(&layer->attn_norm.w, 1, h, d);
            assert_weight(&layer->mlp_norm.w, 1, h, d);
            assert_linear(&layer->q, q, h, d, models[i].qkv_bias);
            assert_linear(&layer->k, kv, h, d, models[i].qkv_bias);
            assert_linear(&layer->v, kv, h, d, models[i].qkv_bias);
            assert_linear(&layer->o, h, q, d, models[i].o_bias);
            assert_linear(&layer->mlp.gate, m, h, d, models[i].mlp_bias);
            assert_linear(&layer->mlp.up, m, h, d, models[i].mlp_bias);
            assert_linear(&layer->mlp.down, h, m, d, models[i].mlp_bias);
        }
        cdz_weights_close(w);
    }
}

/* Weights are the file's bytes in place: found here by the header's own words. */
static void weights_are_mapped_in_place(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("llama_bf16");
    const cdz_tensor *t = cdz_tensors_find(&w->tensors, "model.layers.1.mlp.down_proj.weight");
    assert_non_null(t);
    assert_ptr_equal(w->layers[1].mlp.down.w.data, t->data);
    assert_int_equal(w->facts.n_copied, 0);
    char name[128];
    assert_string_equal(
        cdz_arch_tensor_name(&w->arch, CDZ_PART_DOWN, 1, 0, ".weight", name, sizeof name), t->name);
    cdz_weights_close(w);
}

static void configs_are_kept(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("llama_tied_l3");
    const cdz_json *eos = cdz_json_get(cdz_weights_generation_config(w), "eos_token_id");
    assert_true(cdz_json_is(eos, CDZ_JSON_ARRAY));
    assert_int_equal(eos->items[1].integer, 3);
    assert_true(cdz_json_eq(cdz_json_get(cdz_weights_config(w), "model_type"), "llama"));
    assert_string_equal(w->arch.dtype, "float32");
    cdz_weights_close(w);
    cdz_weights_close(NULL);
}

static void windows_by_layer(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("qwen2_sw");
    static const uint32_t expected[] = {0, 6, 6};
    assert_memory_equal(w->arch.window, expected, sizeof expected);
    cdz_weights_close(w);
}

/* --- rotary frequencies ---------------------------------------------------------------------- */

/* LlamaRotaryEmbedding(config).inv_freq of transformers 5.3.0, torch 2.9.1, bit for bit. */
static const float gqa_freq[] = {0x1p+0F,        0x1.b93a6ap-3F, 0x1.7c3d2ap-5F,
                                 0x1.47ae14p-7F, 0x1.1a62d2p-9F, 0x1.e6b4b8p-12F};
static const float linear_freq[] = {0x1p-1F, 0x1.99999ap-5F, 0x1.47ae14p-8F, 0x1.0624dep-11F};
static const float llama3_freq[] = {0x1p+0F,         0x1.f47fe8p-3F,  0x1.ab5e6p-7F,
                                    0x1.030dc6p-8F,  0x1.47ae14p-10F, 0x1.9e7c7p-12F,
                                    0x1.0624dep-13F, 0x1.4b96cp-15F};

static void rotary_frequencies(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        cdz_rope_type type;
        const float *freq;
        size_t n;
    } cases[] = {
        {"llama_gqa", CDZ_ROPE_DEFAULT, gqa_freq, COUNT(gqa_freq)},
        {"llama_bias", CDZ_ROPE_LINEAR, linear_freq, COUNT(linear_freq)},
        {"llama_tied_l3", CDZ_ROPE_LLAMA3, llama3_freq, COUNT(llama3_freq)},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_weights *w = open_golden(cases[i].model);
        const cdz_rope *rope = &w->arch.rope;
        assert_int_equal(w->arch.rope_type, cases[i].type);
        assert_int_equal(rope->n_rotated, 2 * cases[i].n);
        assert_true(rope->scale == 1.0f && !rope->interleaved);
        for (size_t k = 0; k < cases[i].n; k++)
            if (rope->inv_freq[k] != cases[i].freq[k])
                fail_msg("%s: frequency %zu is %a, expected %a", cases[i].model, k,
                         (double)rope->inv_freq[k], (double)cases[i].freq[k]);
        cdz_weights_close(w);
    }
}

/* --- config.json, read alone ----------------------------------------------------------------- */

static cdz_status read_arch(const char *text, cdz_arena *arena, cdz_arch *out, cdz_error *err)
{
    cdz_json config;
    CDZ_TRY(cdz_json_parse(text, strlen(text), "m/config.json", NULL, arena, &config, err));
    return cdz_arch_read(&config, "m/config.json", arena, out, err);
}

/* The sizes of a small model; a case adds its keys. */
#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100"
#define LLAMA(keys)   "{\"model_type\":\"llama\"," SIZES keys "}"
#define QWEN2(keys)   "{\"model_type\":\"qwen2\"," SIZES ",\"num_key_value_heads\":2" keys "}"
#define MISTRAL(keys) "{\"model_type\":\"mistral\"," SIZES ",\"num_key_value_heads\":2" keys "}"

static const struct {
    const char *name, *config;
    uint32_t kv_heads, head_dim, context, windows[4];
    double theta;
    cdz_rope_type rope;
    bool qkv_bias;
} readable[] = {
    {"llama's defaults", LLAMA(""), 4, 16, 2048, {0}, 1e4, 0, 0},
    {"null is absent",
     LLAMA(",\"head_dim\":null,\"num_key_value_heads\":null,\"rope_scaling\":null"),
     4,
     16,
     2048,
     {0},
     1e4,
     0,
     0},
    {"by architecture alone",
     "{\"architectures\":[\"LlamaForCausalLM\"]," SIZES "}",
     4,
     16,
     2048,
     {0},
     1e4,
     0,
     0},
    {"head_dim apart from hidden", LLAMA(",\"head_dim\":6"), 4, 6, 2048, {0}, 1e4, 0, 0},
    {"old rope_theta", LLAMA(",\"rope_theta\":5e5"), 4, 16, 2048, {0}, 5e5, 0, 0},
    {"theta an integer", LLAMA(",\"rope_theta\":500000"), 4, 16, 2048, {0}, 5e5, 0, 0},
    {"new rope_theta",
     LLAMA(",\"rope_parameters\":{\"rope_theta\":7.5,\"rope_type\":\"default\"}"),
     4,
     16,
     2048,
     {0},
     7.5,
     0,
     0},
    {"the inner rope_theta wins",
     LLAMA(",\"rope_theta\":3,\"rope_parameters\":{\"rope_theta\":7.5}"),
     4,
     16,
     2048,
     {0},
     7.5,
     0,
     0},
    {"rope_scaling wins over rope_parameters",
     LLAMA(",\"rope_theta\":3,\"rope_parameters\":{\"rope_theta\":7.5},"
           "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"),
     4,
     16,
     2048,
     {0},
     3,
     CDZ_ROPE_LINEAR,
     0},
    {"empty rope_scaling does not",
     LLAMA(",\"rope_scaling\":{},\"rope_parameters\":{\"rope_theta\":7.5}"),
     4,
     16,
     2048,
     {0},
     7.5,
     0,
     0},
    {"rope_type wins over type",
     LLAMA(",\"rope_scaling\":{\"type\":\"x\",\"rope_type\":\"linear\",\"factor\":4.0}"),
     4,
     16,
     2048,
     {0},
     1e4,
     CDZ_ROPE_LINEAR,
     0},
    {"attention_bias", LLAMA(",\"attention_bias\":true"), 4, 16, 2048, {0}, 1e4, 0, 1},
    {"llama has no windows", LLAMA(",\"sliding_window\":7"), 4, 16, 2048, {0}, 1e4, 0, 0},
    {"qwen2's defaults", QWEN2(""), 2, 16, 32768, {0}, 1e4, 0, 1},
    {"qwen2: null heads",
     "{\"model_type\":\"qwen2\"," SIZES ",\"num_key_value_heads\":null}",
     4,
     16,
     32768,
     {0},
     1e4,
     0,
     1},
    {"qwen2: windows not in use",
     QWEN2(",\"sliding_window\":9,\"max_window_layers\":1"),
     2,
     16,
     32768,
     {0},
     1e4,
     0,
     1},
    {"qwen2: windows from a layer on",
     QWEN2(",\"use_sliding_window\":true,\"sliding_window\":9,\"max_window_layers\":3"),
     2,
     16,
     32768,
     {0, 0, 0, 9},
     1e4,
     0,
     1},
    {"qwen2: windows by name",
     QWEN2(",\"use_sliding_window\":true,\"sliding_window\":9,\"layer_types\":[\"sliding_attention\","
           "\"full_attention\",\"sliding_attention\",\"full_attention\"]"),
     2,
     16,
     32768,
     {9, 0, 9, 0},
     1e4,
     0,
     1},
    {"qwen2: a window in use but null",
     QWEN2(",\"use_sliding_window\":true,\"sliding_window\":null,\"max_window_layers\":0"),
     2,
     16,
     32768,
     {0},
     1e4,
     0,
     1},
    {"mistral's defaults", MISTRAL(""), 2, 16, 131072, {4096, 4096, 4096, 4096}, 1e4, 0, 0},
    {"mistral without window", MISTRAL(",\"sliding_window\":null"), 2, 16, 131072, {0}, 1e4, 0, 0},
    {"swish is silu", LLAMA(",\"hidden_act\":\"swish\""), 4, 16, 2048, {0}, 1e4, 0, 0},
    {"part of a head, which transformers ignores here",
     LLAMA(",\"partial_rotary_factor\":0.5"),
     4,
     16,
     2048,
     {0},
     1e4,
     0,
     0},
};

static void configs_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(readable); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err;
        if (read_arch(readable[i].config, &arena, &a, &err) != CDZ_OK)
            fail_msg("%s: %s", readable[i].name, err.text);
        if (a.n_kv_heads != readable[i].kv_heads || a.head_dim != readable[i].head_dim ||
            a.context != readable[i].context || a.rope_theta != readable[i].theta ||
            a.rope_type != readable[i].rope || a.qkv_bias != readable[i].qkv_bias ||
            memcmp(a.window, readable[i].windows, sizeof readable[i].windows) != 0)
            fail_msg("%s: kv heads %u, head_dim %u, context %u, theta %g, last window %u",
                     readable[i].name, a.n_kv_heads, a.head_dim, a.context, a.rope_theta,
                     a.window[3]);
        cdz_arena_free(&arena);
    }
}

static const struct {
    const char *name, *config, *sentence;
    cdz_status status;
} unreadable[] = {
    {"not an object", "[]", "m/config.json: is an array, expected an object", CDZ_E_INPUT},
    {"nothing inside", "{}", "m/config.json: has neither model_type nor architectures", CDZ_E_INPUT},
    {"unknown type", "{\"model_type\":\"lama\"}",
     "m/config.json: model_type \"lama\" is not supported: did you mean \"llama\"?",
     CDZ_E_UNSUPPORTED},
    {"unknown architecture", "{\"architectures\":[\"XForCausalLM\"]}",
     "architecture \"XForCausalLM\" is not supported", CDZ_E_UNSUPPORTED},
    {"another head",
     "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForTokenClassification\"]}",
     "architecture \"LlamaForTokenClassification\" is not supported; expected LlamaForCausalLM",
     CDZ_E_UNSUPPORTED},
    {"another family's head",
     "{\"model_type\":\"llama\",\"architectures\":[\"MistralForSequenceClassification\"]}",
     "architecture \"MistralForSequenceClassification\" is not supported; expected LlamaForCausalLM",
     CDZ_E_UNSUPPORTED},
    {"type a number", "{\"model_type\":7}", "model_type is an integer, expected a string",
     CDZ_E_INPUT},
    {"quantised", LLAMA(",\"quantization_config\":{\"quant_method\":\"gptq\"}"),
     "quantization_config (gptq) is not supported", CDZ_E_UNSUPPORTED},
    {"no hidden_size", "{\"model_type\":\"llama\"}", "m/config.json: hidden_size is missing",
     CDZ_E_INPUT},
    {"hidden_size 0", LLAMA(",\"head_dim\":0"),
     "m/config.json:1: head_dim is 0, expected a whole number from 1", CDZ_E_INPUT},
    {"negative size", LLAMA(",\"num_key_value_heads\":-1"), "num_key_value_heads is -1",
     CDZ_E_INPUT},
    {"fractional size", LLAMA(",\"head_dim\":4.0"), "head_dim is 4, expected a whole number",
     CDZ_E_INPUT},
    {"size a string", LLAMA(",\"head_dim\":\"8\""), "head_dim is a string", CDZ_E_INPUT},
    {"huge head_dim", LLAMA(",\"head_dim\":1000000"), "expected a whole number from 1 to 16384",
     CDZ_E_INPUT},
    {"huge context", LLAMA(",\"max_position_embeddings\":99999999999"),
     "max_position_embeddings is 99999999999, expected a whole number from 1 to 2147483647",
     CDZ_E_INPUT},
    {"huge number of layers",
     "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":9,"
     "\"num_hidden_layers\":4000000000,\"num_attention_heads\":4,\"vocab_size\":10}",
     "num_hidden_layers is 4000000000, expected a whole number from 1 to 10000", CDZ_E_INPUT},
    {"odd head_dim", LLAMA(",\"head_dim\":5"), "head_dim 5 is odd", CDZ_E_UNSUPPORTED},
    {"heads that do not divide", LLAMA(",\"num_key_value_heads\":3"),
     "num_attention_heads 4 is not a multiple of num_key_value_heads 3", CDZ_E_INPUT},
    {"qwen2's default heads", "{\"model_type\":\"qwen2\"," SIZES "}",
     "num_attention_heads 4 is not a multiple of num_key_value_heads 32", CDZ_E_INPUT},
    {"hidden that does not divide",
     "{\"model_type\":\"llama\",\"hidden_size\":65,\"intermediate_size\":9,\"num_hidden_layers\":1,"
     "\"num_attention_heads\":4,\"vocab_size\":10}",
     "hidden_size 65 is not a multiple of num_attention_heads 4", CDZ_E_INPUT},
    {"unknown activation", LLAMA(",\"hidden_act\":\"tanh\""),
     "hidden_act \"tanh\" is not supported; supported are silu, gelu", CDZ_E_UNSUPPORTED},
    {"activation a list", LLAMA(",\"hidden_act\":[]"), "hidden_act an array is not supported",
     CDZ_E_UNSUPPORTED},
    {"unknown rope", LLAMA(",\"rope_scaling\":{\"type\":\"mrope\",\"factor\":4}"),
     "rope_scaling.type \"mrope\" is not supported; supported are default, linear, llama3, yarn, "
     "dynamic, longrope",
     CDZ_E_UNSUPPORTED},
    {"unknown rope, new", LLAMA(",\"rope_parameters\":{\"rope_type\":\"proportional\"}"),
     "rope_parameters.rope_type \"proportional\" is not supported", CDZ_E_UNSUPPORTED},
    {"dynamic without factor", LLAMA(",\"rope_parameters\":{\"rope_type\":\"dynamic\"}"),
     "rope_parameters.factor is missing", CDZ_E_INPUT},
    {"longrope without factors", LLAMA(",\"rope_scaling\":{\"type\":\"longrope\"}"),
     "rope_scaling.short_factor must be an array of 8 numbers", CDZ_E_INPUT},
    {"longrope with few factors",
     LLAMA(",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1]}"),
     "rope_scaling.short_factor must be an array of 8 numbers", CDZ_E_INPUT},
    {"longrope with a factor 0",
     LLAMA(",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1],"
           "\"long_factor\":[1,1,1,1,1,1,1,0]}"),
     "rope_scaling.long_factor[7] must be a number from 1e-6 to 1e6", CDZ_E_INPUT},
    {"longrope from one position",
     LLAMA(",\"rope_scaling\":{\"type\":\"su\",\"original_max_position_embeddings\":1}"),
     "original_max_position_embeddings 1 leaves no room", CDZ_E_INPUT},
    {"dynamic with two dims",
     LLAMA(",\"head_dim\":2,\"rope_scaling\":{\"type\":\"dynamic\","
           "\"factor\":2}"),
     "2 dims of a head rotate; the dynamic type needs more than 2", CDZ_E_UNSUPPORTED},
    {"rope a list", LLAMA(",\"rope_scaling\":[]"), "rope_scaling is an array, expected an object",
     CDZ_E_INPUT},
    {"linear without factor", LLAMA(",\"rope_scaling\":{\"type\":\"linear\"}"),
     "rope_scaling.factor is missing", CDZ_E_INPUT},
    {"factor 0", LLAMA(",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}"),
     "rope_scaling.factor is 0, expected a number from", CDZ_E_INPUT},
    {"llama3 without its factors",
     LLAMA(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}"),
     "rope_scaling.low_freq_factor is missing", CDZ_E_INPUT},
    {"llama3 with equal factors",
     LLAMA(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":2,"
           "\"high_freq_factor\":2}"),
     "rope_scaling.high_freq_factor 2 must be larger than low_freq_factor 2", CDZ_E_INPUT},
    {"yarn with theta 1, whose logarithm divides",
     LLAMA(",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,\"rope_theta\":1}"),
     "rope_theta 1 gives rope_parameters.rope_type yarn the frequency ", CDZ_E_INPUT},
    {"theta 0", LLAMA(",\"rope_theta\":0"), "rope_theta is 0, expected a number from", CDZ_E_INPUT},
    {"theta a string", LLAMA(",\"rope_theta\":\"1e4\""), "rope_theta is a string", CDZ_E_INPUT},
    {"part of a head, scaled",
     LLAMA(",\"partial_rotary_factor\":0.5,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}"),
     "partial_rotary_factor 0.5 is not supported for llama", CDZ_E_UNSUPPORTED},
    {"negative eps", LLAMA(",\"rms_norm_eps\":-1"), "rms_norm_eps is -1", CDZ_E_INPUT},
    {"tied by a word", LLAMA(",\"tie_word_embeddings\":\"yes\""),
     "tie_word_embeddings is a string, expected true or false", CDZ_E_INPUT},
    {"window 0", MISTRAL(",\"sliding_window\":0"), "sliding_window is 0", CDZ_E_INPUT},
    {"too few layer types", QWEN2(",\"layer_types\":[\"full_attention\"]"),
     "layer_types must be an array of num_hidden_layers (4) names", CDZ_E_INPUT},
    {"unknown layer type", QWEN2(",\"layer_types\":[\"full_attention\",\"x\",\"x\",\"x\"]"),
     "layer_types[1] is not supported", CDZ_E_UNSUPPORTED},
    {"sliding without a window",
     QWEN2(",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
           "\"sliding_attention\"]"),
     "layer_types[3] is sliding_attention, but sliding_window is not set", CDZ_E_INPUT},
    {"a key twice", LLAMA(",\"head_dim\":8,\"head_dim\":16"), "m/config.json:1:", CDZ_E_INPUT},
};

static void unreadable_configs_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(unreadable); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err = {0};
        cdz_status st = read_arch(unreadable[i].config, &arena, &a, &err);
        if (st != unreadable[i].status || !strstr(err.text, unreadable[i].sentence))
            fail_msg("%s: %d %s", unreadable[i].name, (int)st, err.text);
        cdz_arena_free(&arena);
    }
}

/* --- folders with something wrong ------------------------------------------------------------ */

static char folder[64];

static void run(const char *program, const char *a, const char *b, const char *c)
{
    pid_t child = fork();
    if (child == 0) {
        execlp(program, program, a, b, c, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A fresh copy of a golden model in `folder`. */
static void copy_golden(const char *name)
{
    char from[512];
    if (folder[0]) run("rm", "-rf", folder, NULL);
    snprintf(folder, sizeof folder, "/tmp/cadenza-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(from, sizeof from, "%s/golden/%s/.", CADENZA_TEST_DATA, name);
    run("cp", "-r", from, folder);
    run("chmod", "-R", "u+w", folder);
}

static int remove_folder(void **state)
{
    (void)state;
    if (folder[0]) run("rm", "-rf", folder, NULL);
    folder[0] = '\0';
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void expect(const char *what, cdz_status status, const char *sentence)
{
    cdz_weights *w = NULL;
    cdz_error err = {0};
    cdz_status st = cdz_weights_open(folder, &w, &err);
    if (st != status || w || !strstr(err.text, sentence) || !strstr(err.text, folder))
        fail_msg("%s: %d %s", what, (int)st, err.text);
}

/* Replaces text in a file, all of the same length or in a file without lengths. */
static void edit(const char *name, const char *from, const char *to)
{
    char *text;
    size_t len, done = 0;
    cdz_error err;
    if (cdz_file_read(path_of(name), 1 << 20, &text, &len, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    for (;;) {
        char *at = memmem(text + done, len - done, from, strlen(from));
        if (!at) break;
        fwrite(text + done, 1, (size_t)(at - text) - done, f);
        fputs(to, f);
        done = (size_t)(at - text) + strlen(from);
    }
    assert_true(done > 0);
    fwrite(text + done, 1, len - done, f);
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void folders_without_a_model(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err;
    assert_int_equal(cdz_weights_open("/nowhere/at-all", &w, &err), CDZ_E_NOT_FOUND);
    assert_string_equal(err.text, "/nowhere/at-all: no such model folder");
    assert_null(w);
    assert_int_equal(cdz_weights_open(GOLDEN("README.md"), &w, &err), CDZ_E_INPUT);
    assert_non_null(strstr(
        err.text, "is neither a folder nor a GGUF file; a model is a folder with config.json"));

    copy_golden("llama_bf16");
    unlink(path_of("config.json"));
    expect("no config.json", CDZ_E_NOT_FOUND, "config.json: no such file");
    copy_golden("llama_bf16");
    unlink(path_of("model.safetensors"));
    expect("no weights", CDZ_E_NOT_FOUND, "has neither model.safetensors nor");
    assert_int_equal(symlink("config.json", path_of("pytorch_model.bin")), 0);
    expect("pickled weights", CDZ_E_UNSUPPORTED, "pytorch_model.bin only");
    assert_int_equal(symlink("../gone", path_of("model.safetensors")), 0);
    expect("a link to nothing", CDZ_E_NOT_FOUND, "model.safetensors: no such file");
}

static void generation_config_is_optional_but_checked(void **state)
{
    (void)state;
    cdz_weights *w;
    copy_golden("llama_bf16");
    unlink(path_of("generation_config.json"));
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK);
    assert_null(cdz_weights_generation_config(w));
    cdz_weights_close(w);
    FILE *f = fopen(path_of("generation_config.json"), "wb");
    assert_non_null(f);
    fputs("{\"eos_token_id\": }", f);
    fclose(f);
    expect("broken generation_config", CDZ_E_INPUT, "generation_config.json:1:18: expected a value");
    edit("generation_config.json", "{\"eos_token_id\": }", "[]");
    expect("a list", CDZ_E_INPUT, "generation_config.json: is an array, expected an object");
}

static const struct {
    const char *name, *model, *file, *from, *to, *sentence;
    cdz_status status;
} edits[] = {
    {"config.json cut", "llama_bf16", "config.json", "\n}", "", "config.json:", CDZ_E_INPUT},
    {"another vocabulary", "llama_bf16", "config.json", "\"vocab_size\": 256", "\"vocab_size\": 999",
     "model.safetensors: tensor model.embed_tokens.weight is [256, 32], config.json makes it [999, "
     "32]",
     CDZ_E_INPUT},
    {"another hidden size", "llama_bf16", "config.json", "\"hidden_size\": 32",
     "\"hidden_size\": 48", "is [256, 32], config.json makes it [256, 48]", CDZ_E_INPUT},
    {"other heads", "llama_bf16", "config.json", "\"num_key_value_heads\": 2",
     "\"num_key_value_heads\": 4",
     "tensor model.layers.0.self_attn.k_proj.weight is [16, 32], config.json makes it [32, 32]",
     CDZ_E_INPUT},
    {"more layers", "llama_bf16", "config.json", "\"num_hidden_layers\": 2",
     "\"num_hidden_layers\": 3",
     "model.safetensors: tensor model.layers.2.input_layernorm.weight is missing", CDZ_E_INPUT},
    {"biases that are not there", "llama_bf16", "config.json", "\"mlp_bias\": false",
     "\"mlp_bias\": true", "tensor model.layers.0.mlp.gate_proj.bias is missing", CDZ_E_INPUT},
    {"another type of model", "llama_bf16", "config.json", "\"model_type\": \"llama\"",
     "\"model_type\": \"rwkv6\"", "config.json: model_type \"rwkv6\" is not supported",
     CDZ_E_UNSUPPORTED},
    {"8-bit weights", "llama_bf16", "model.safetensors",
     "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[32]",
     "\"model.norm.weight\":{\"dtype\":\"U8\",\"shape\":[064]", "model.safetensors:1:", CDZ_E_INPUT},
    {"integer weights", "llama_bf16", "model.safetensors",
     "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[32]",
     "\"model.norm.weight\":{\"dtype\":\"U16\" ,\"shape\":[32]",
     "tensor model.norm.weight has dtype U16; supported are F32, F16, BF16", CDZ_E_UNSUPPORTED},
    {"a matrix for a vector", "llama_bf16", "model.safetensors",
     "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[32]",
     "\"model.norm.weight\":{\"dtype\":\"F16\",\"shape\":[8,4]",
     "tensor model.norm.weight is [8, 4], config.json makes it [32]", CDZ_E_INPUT},
    {"a renamed tensor", "llama_bf16", "model.safetensors", "\"model.norm.weight\"",
     "\"model.nrom.weight\"", "tensor model.norm.weight is missing", CDZ_E_INPUT},
    {"a missing shard", "llama_sharded", "model.safetensors.index.json", "00002-of-00002",
     "00003-of-00003", "names a shard that is missing", CDZ_E_NOT_FOUND},
    {"shards out of the folder", "llama_sharded", "model.safetensors.index.json",
     "\"model-00002-of", "\"../model-00002-of", "must be a plain name", CDZ_E_INPUT},
    {"a classifier without its head", "../values/llama_reward", "model.safetensors",
     "\"score.weight\"", "\"scoer.weight\"",
     "config.json makes it a classifier, but tensor score.weight is missing", CDZ_E_INPUT},
    {"a head on its side", "../values/qwen2_labels", "model.safetensors",
     "\"score.weight\":{\"dtype\":\"F32\",\"shape\":[3,16]",
     "\"score.weight\":{\"dtype\":\"F32\",\"shape\":[16,3]",
     "tensor score.weight is [16, 3], expected [1 to 65536 values, 16]", CDZ_E_INPUT},
    {"a head of integers", "../values/llama_reward", "model.safetensors",
     "\"score.weight\":{\"dtype\":\"F32\"", "\"score.weight\":{\"dtype\":\"U32\"",
     "tensor score.weight has dtype U32; supported are F32, F16, BF16", CDZ_E_UNSUPPORTED},
    {"fewer labels than values", "../values/qwen2_labels", "config.json", "\"0\": \"LABEL_0\",", "",
     "config.json: id2label has 2 labels; score.weight gives 3 values", CDZ_E_INPUT},
    {"labels by other numbers", "../values/qwen2_labels", "config.json", "\"0\": \"LABEL_0\"",
     "\"3\": \"LABEL_3\"", "config.json: id2label has no label of value 0", CDZ_E_INPUT},
    {"a label that is no text", "../values/qwen2_labels", "config.json", "\"1\": \"LABEL_1\"",
     "\"1\": 1", "config.json: id2label: the label of value 1 is an integer, expected a string",
     CDZ_E_INPUT},
    {"labels as a list", "../values/llama_reward", "config.json", "\"id2label\": {",
     "\"id2label\": 7, \"else\": {", "config.json: id2label is an integer, expected an object",
     CDZ_E_INPUT},
    {"a pad that is none", "../values/qwen2_labels", "config.json", "\"pad_token_id\": 0",
     "\"pad_token_id\": \"0\"", "config.json: pad_token_id is no token's id", CDZ_E_INPUT},
};

static void edited_models_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(edits); i++) {
        copy_golden(edits[i].model);
        edit(edits[i].file, edits[i].from, edits[i].to);
        expect(edits[i].name, edits[i].status, edits[i].sentence);
    }
}

static void truncated_weights(void **state)
{
    (void)state;
    static const off_t sizes[] = {0, 5, 8, 100, 3000, 50000};
    copy_golden("llama_f16");
    for (size_t i = COUNT(sizes); i-- > 0;) {
        assert_int_equal(truncate(path_of("model.safetensors"), sizes[i]), 0);
        expect("truncated", CDZ_E_INPUT, "model.safetensors");
    }
}

static void tied_heads_follow_the_file(void **state)
{
    (void)state;
    cdz_weights *w;
    copy_golden("llama_bf16");
    edit("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK); /* it has both: two they stay */
    assert_false(w->tied);
    assert_true(w->head.w.data != w->embed.data);
    cdz_weights_close(w);

    edit("model.safetensors", "model.embed_tokens.weight", "model.embed_nothing_weigh");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK); /* only the head: it is both */
    assert_true(w->tied);
    assert_ptr_equal(w->embed.data, cdz_tensors_find(&w->tensors, "lm_head.weight")->data);
    assert_int_equal(w->facts.n_unexpected, 1);
    assert_string_equal(w->facts.first_unexpected, "model.embed_nothing_weigh");
    cdz_weights_close(w);

    edit("model.safetensors", "lm_head.weight", "lm_haed.weight");
    expect("neither", CDZ_E_INPUT, "tensor model.embed_tokens.weight is missing");
    copy_golden("qwen2_tied");
    edit("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    expect("a head that is not there", CDZ_E_INPUT, "tensor lm_head.weight is missing");
}

/* A biased model read as one without: its biases are left over, and counted. Stored rotary
 * frequencies are not. */
static void unexpected_tensors_are_counted(void **state)
{
    (void)state;
    cdz_weights *w;
    copy_golden("llama_bias");
    edit("config.json", "\"mlp_bias\": true", "\"mlp_bias\": false");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK);
    assert_int_equal(w->facts.n_unexpected, 6);
    assert_string_equal(w->facts.first_unexpected, "model.layers.0.mlp.down_proj.bias");
    cdz_weights_close(w);
    edit("model.safetensors", "model.layers.0.mlp.down_proj.bias",
         "model.layers.0.rotary_emb.inv_freq");
    expect("a header that grew", CDZ_E_INPUT, "model.safetensors");
    copy_golden("llama_bias");
    edit("config.json", "\"mlp_bias\": true", "\"mlp_bias\": false");
    edit("model.safetensors", "\"model.layers.0.mlp.down_proj.bias\"",
         "\"layers.00.rotary_emb.inv_freq\"    ");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK);
    assert_int_equal(w->facts.n_unexpected, 5);
    cdz_weights_close(w);
}

/* Files of the bare model lack the names' first component. */
static void bare_names_are_found(void **state)
{
    (void)state;
    cdz_weights *w;
    copy_golden("gpt2_scaled");
    edit("model.safetensors", "\"transformer.wte.weight\"", "\"wte.weight\"            ");
    edit("model.safetensors", "\"transformer.h.1.ln_2.bias\"", "\"h.1.ln_2.bias\"            ");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK);
    assert_ptr_equal(w->embed.data, cdz_tensors_find(&w->tensors, "wte.weight")->data);
    assert_true(w->tied);
    assert_int_equal(w->facts.n_unexpected, 0);
    cdz_weights_close(w);
    edit("model.safetensors", "\"transformer.wpe.weight\"", "\"wqe.weight\"            ");
    expect("no positions", CDZ_E_INPUT, "tensor transformer.wpe.weight is missing");
}

/* An old writer did not pad its header: the data lies at odd addresses, and is copied to where
 * kernels can read it. */
static void unaligned_files_are_copied(void **state)
{
    (void)state;
    copy_golden("llama_f16");
    char *text;
    size_t len;
    cdz_weights *a = open_golden("llama_f16"), *b;
    assert_int_equal(cdz_file_read(path_of("model.safetensors"), 1 << 20, &text, &len, NULL),
                     CDZ_OK);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | (unsigned char)text[i];
    FILE *f = fopen(path_of("model.safetensors"), "wb");
    assert_non_null(f);
    n += 1; /* one more space of padding */
    for (int i = 0; i < 8; i++) fputc((int)(n >> (8 * i) & 0xFF), f);
    fwrite(text + 8, 1, n - 1, f);
    fputc(' ', f);
    fwrite(text + 8 + n - 1, 1, len - 8 - (n - 1), f);
    assert_int_equal(fclose(f), 0);
    free(text);

    assert_int_equal(cdz_weights_open(folder, &b, NULL), CDZ_OK);
    assert_int_equal(b->facts.n_copied, b->tensors.n_items);
    assert_weight(&b->layers[1].q.w, 32, 32, CDZ_F16);
    assert_memory_equal(a->layers[1].q.w.data, b->layers[1].q.w.data, 32 * 32 * 2);
    cdz_weights_close(a);
    cdz_weights_close(b);
}

static void files_cut_while_open(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err;
    copy_golden("llama_sharded");
    assert_int_equal(cdz_weights_open(folder, &w, NULL), CDZ_OK);
    assert_int_equal(cdz_weights_check(w, &err), CDZ_OK);
    assert_int_equal(truncate(path_of("model-00002-of-00002.safetensors"), 4096), 0);
    assert_int_equal(cdz_weights_check(w, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "model-00002-of-00002.safetensors: was cut from"));
    cdz_weights_close(w);
}

static void a_configuration_may_not_be_huge(void **state)
{
    (void)state;
    copy_golden("llama_bf16");
    FILE *f = fopen(path_of("config.json"), "wb");
    assert_non_null(f);
    fputs("{\"model_type\":\"llama\",\"x\":[0", f);
    for (int i = 0; i < 2000000; i++) fputs(",0", f);
    fputs("]}", f);
    assert_int_equal(fclose(f), 0);
    expect("many values", CDZ_E_LIMIT, "config.json:1: the document needs more than");
    f = fopen(path_of("config.json"), "ab");
    assert_non_null(f);
    for (int i = 0; i < 1000000; i++) fputs("      ", f);
    assert_int_equal(fclose(f), 0);
    expect("many bytes", CDZ_E_LIMIT, "config.json: has 10000030 bytes, the limit is 4194304");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_models_open),
        cmocka_unit_test(caches_and_blocks_are_counted),
        cmocka_unit_test(weights_have_their_shapes),
        cmocka_unit_test(weights_are_mapped_in_place),
        cmocka_unit_test(configs_are_kept),
        cmocka_unit_test(windows_by_layer),
        cmocka_unit_test(rotary_frequencies),
        cmocka_unit_test(configs_are_read),
        cmocka_unit_test(unreadable_configs_are_sentences),
        cmocka_unit_test(folders_without_a_model),
        cmocka_unit_test(generation_config_is_optional_but_checked),
        cmocka_unit_test(edited_models_are_sentences),
        cmocka_unit_test(truncated_weights),
        cmocka_unit_test(tied_heads_follow_the_file),
        cmocka_unit_test(unexpected_tensors_are_counted),
        cmocka_unit_test(bare_names_are_found),
        cmocka_unit_test(unaligned_files_are_copied),
        cmocka_unit_test(files_cut_while_open),
        cmocka_unit_test(a_configuration_may_not_be_huge),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, remove_folder);
}
