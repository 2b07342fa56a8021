/* test_arch.c - the families: what their configurations mean, how fused, transposed and
 * alternating tensors become weights, and where learned positions end. That the numbers are right
 * is shown by the goldens. */
#include "support/run_support.h"

#include <math.h>

#include "load/arch.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static cdz_status read_arch(const char *config, cdz_arena *arena, cdz_arch *a, cdz_error *err)
{
    cdz_json *json = cdz_arena_array(arena, 1, sizeof *json);
    assert_non_null(json);
    assert_int_equal(
        cdz_json_parse(config, strlen(config), "m/config.json", NULL, arena, json, err), CDZ_OK);
    return cdz_arch_read(json, "m/config.json", arena, a, err);
}

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"                         \
    "\"num_attention_heads\":4,\"vocab_size\":100"
#define CONFIG(type, rest) "{\"model_type\":\"" type "\"," SIZES rest "}"
#define GPT2(rest)                                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":4,\"n_head\":4,\"vocab_size\":100" rest "}"

#define T5_OF(type, rest)                                                                          \
    "{\"model_type\":\"" type "\",\"d_model\":64,\"d_ff\":96,\"num_layers\":3,\"num_heads\":4,"    \
    "\"vocab_size\":100" rest "}"
#define T5(rest) T5_OF("t5", rest)
#define BART(type, rest)                                                                           \
    "{\"model_type\":\"" type "\",\"d_model\":64,\"encoder_ffn_dim\":96,\"encoder_layers\":3,"     \
    "\"encoder_attention_heads\":4,\"decoder_ffn_dim\":80,\"decoder_layers\":2,"                   \
    "\"decoder_attention_heads\":8,\"vocab_size\":100" rest "}"

/* --- configurations ------------------------------------------------------------------------ */

static const struct {
    const char *name, *config;
    uint32_t kv_heads, head_dim, inner, context, windows[4];
    double theta, scale, eps;
    cdz_activation activation;
    bool tied, qkv_bias, o_bias, mlp_bias;
} readable[] = {
    {"qwen3",
     CONFIG("qwen3", ",\"num_key_value_heads\":2"),
     2,
     128,
     96,
     32768,
     {0},
     1e4,
     0.0883883476,
     1e-6,
     CDZ_ACT_SILU,
     0,
     0,
     0,
     0},
    {"qwen3 with biases",
     CONFIG("qwen3", ",\"num_key_value_heads\":2,\"attention_bias\":true"),
     2,
     128,
     96,
     32768,
     {0},
     1e4,
     0.0883883476,
     1e-6,
     CDZ_ACT_SILU,
     0,
     1,
     1,
     0},
    {"smollm3", CONFIG("smollm3", ""), 4, 16, 96, 32768, {0}, 2e6, 0.25, 1e-6, CDZ_ACT_SILU, 1, 0, 0, 0},
    {"smollm3 slides where it does not rotate",
     CONFIG("smollm3", ",\"use_sliding_window\":true,\"sliding_window\":5,"
                       "\"no_rope_layer_interval\":2"),
     4,
     16,
     96,
     32768,
     {0, 5, 0, 5},
     2e6,
     0.25,
     1e-6,
     CDZ_ACT_SILU,
     1,
     0,
     0,
     0},
    {"olmo2", CONFIG("olmo2", ""), 4, 16, 96, 2048, {0}, 1e4, 0.25, 1e-5, CDZ_ACT_SILU, 0, 0, 0, 0},
    {"stablelm",
     CONFIG("stablelm", ",\"num_key_value_heads\":4"),
     4,
     16,
     96,
     4096,
     {0},
     1e4,
     0.25,
     1e-5,
     CDZ_ACT_SILU,
     0,
     0,
     0,
     0},
    {"stablelm, biases",
     CONFIG("stablelm", ",\"num_key_value_heads\":2,\"use_qkv_bias\":true,\"layer_norm_eps\":0.01"),
     2,
     16,
     96,
     4096,
     {0},
     1e4,
     0.25,
     0.01,
     CDZ_ACT_SILU,
     0,
     1,
     0,
     0},
    {"starcoder2",
     CONFIG("starcoder2", ""),
     2,
     16,
     96,
     4096,
     {0},
     1e4,
     0.25,
     1e-5,
     CDZ_ACT_GELU_TANH,
     1,
     1,
     1,
     1},
    {"starcoder2, window and no biases",
     CONFIG(
         "starcoder2",
         ",\"use_bias\":false,\"sliding_window\":7,\"norm_epsilon\":0.01,\"tie_word_embeddings\":false"),
     2,
     16,
     96,
     4096,
     {7, 7, 7, 7},
     1e4,
     0.25,
     0.01,
     CDZ_ACT_GELU_TANH,
     0,
     0,
     0,
     0},
    {"phi3", CONFIG("phi3", ""), 4, 16, 96, 4096, {0}, 1e4, 0.25, 1e-5, CDZ_ACT_SILU, 0, 0, 0, 0},
    {"gemma2",
     CONFIG("gemma2", ""),
     4,
     256,
     96,
     8192,
     {4096, 0, 4096, 0},
     1e4,
     0.0625,
     1e-6,
     CDZ_ACT_GELU_TANH,
     1,
     0,
     0,
     0},
    {"gemma3",
     CONFIG("gemma3_text", ",\"sliding_window_pattern\":3,\"sliding_window\":9"),
     4,
     256,
     96,
     131072,
     {9, 9, 0, 9},
     1e6,
     0.0625,
     1e-6,
     CDZ_ACT_GELU_TANH,
     1,
     0,
     0,
     0},
    {"gemma3 by layer types",
     CONFIG("gemma3_text", ",\"sliding_window\":9,\"query_pre_attn_scalar\":16,\"layer_types\":["
                           "\"full_attention\",\"sliding_attention\",\"full_attention\","
                           "\"full_attention\"]"),
     4,
     256,
     96,
     131072,
     {0, 9, 0, 0},
     1e6,
     0.25,
     1e-6,
     CDZ_ACT_GELU_TANH,
     1,
     0,
     0,
     0},
    {"mixtral",
     CONFIG("mixtral", ",\"num_local_experts\":4,\"num_key_value_heads\":2"),
     2,
     16,
     96,
     131072,
     {0},
     1e6,
     0.25,
     1e-5,
     CDZ_ACT_SILU,
     0,
     0,
     0,
     0},
    {"qwen3_moe",
     CONFIG("qwen3_moe", ",\"num_experts\":16,\"moe_intermediate_size\":8,\"sliding_window\":7"),
     4,
     16,
     96,
     32768,
     {0},
     1e4,
     0.25,
     1e-6,
     CDZ_ACT_SILU,
     0,
     0,
     0,
     0},
    {"qwen3_moe that slides",
     CONFIG("qwen3_moe", ",\"num_experts\":16,\"moe_intermediate_size\":8,\"sliding_window\":7,"
                         "\"use_sliding_window\":true"),
     4,
     16,
     96,
     32768,
     {7, 7, 7, 7},
     1e4,
     0.25,
     1e-6,
     CDZ_ACT_SILU,
     0,
     0,
     0,
     0},
    {"gpt2", GPT2(""), 4, 16, 256, 1024, {0}, 0, 0.25, 1e-5, CDZ_ACT_GELU_TANH, 1, 1, 1, 1},
    {"gpt2 unscaled",
     GPT2(",\"scale_attn_weights\":false,\"n_inner\":7,\"n_positions\":9"),
     4,
     16,
     7,
     9,
     {0},
     0,
     1,
     1e-5,
     CDZ_ACT_GELU_TANH,
     1,
     1,
     1,
     1},
    {"gpt_neox",
     CONFIG("gpt_neox", ",\"rotary_emb_base\":500"),
     4,
     16,
     96,
     2048,
     {0},
     500,
     0.25,
     1e-5,
     CDZ_ACT_GELU,
     0,
     1,
     1,
     1},
    {"gpt_neox without",
     CONFIG("gpt_neox", ",\"attention_bias\":false"),
     4,
     16,
     96,
     2048,
     {0},
     1e4,
     0.25,
     1e-5,
     CDZ_ACT_GELU,
     0,
     0,
     0,
     1},
};

static void configurations_mean_what_transformers_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(readable); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err;
        if (read_arch(readable[i].config, &arena, &a, &err) != CDZ_OK)
            fail_msg("%s: %s", readable[i].name, err.text);
        if (a.n_kv_heads != readable[i].kv_heads || a.head_dim != readable[i].head_dim ||
            a.intermediate != readable[i].inner || a.context != readable[i].context ||
            memcmp(a.window, readable[i].windows, sizeof readable[i].windows) != 0)
            fail_msg("%s: kv heads %u, head_dim %u, inner %u, context %u, windows %u %u %u %u",
                     readable[i].name, a.n_kv_heads, a.head_dim, a.intermediate, a.context,
                     a.window[0], a.window[1], a.window[2], a.window[3]);
        if (a.rope_theta != readable[i].theta ||
            fabs((double)a.attention_scale - readable[i].scale) > 1e-8 ||
            a.norm_eps != (float)readable[i].eps || a.activation != readable[i].activation ||
            a.tied != readable[i].tied || a.qkv_bias != readable[i].qkv_bias ||
            a.o_bias != readable[i].o_bias || a.mlp_bias != readable[i].mlp_bias)
            fail_msg("%s: theta %g, scale %g, eps %g, activation %d, tied %d, biases %d %d %d",
                     readable[i].name, a.rope_theta, (double)a.attention_scale, (double)a.norm_eps,
                     (int)a.activation, a.tied, a.qkv_bias, a.o_bias, a.mlp_bias);
        cdz_arena_free(&arena);
    }
}

static const struct {
    const char *name, *config, *sentence;
    cdz_status status;
} unreadable[] = {
    {"more active experts than there are",
     CONFIG("mixtral",
            ",\"num_key_value_heads\":2,\"num_local_experts\":2,\"num_experts_per_tok\":3"),
     "num_experts_per_tok 3 is more than the 2 experts", CDZ_E_INPUT},
    {"too many experts",
     CONFIG("mixtral", ",\"num_key_value_heads\":2,\"num_local_experts\":100000"),
     "num_local_experts is 100000", CDZ_E_INPUT},
    {"experts of no width", CONFIG("qwen3_moe", ",\"num_experts\":16"),
     "moe_intermediate_size is missing", CDZ_E_INPUT},
    {"dense layers a number",
     CONFIG("qwen3_moe", ",\"num_experts\":16,\"moe_intermediate_size\":8,\"mlp_only_layers\":1"),
     "mlp_only_layers is an integer, expected an array", CDZ_E_INPUT},
    {"dense layers of names",
     CONFIG("qwen3_moe",
            ",\"num_experts\":16,\"moe_intermediate_size\":8,\"mlp_only_layers\":[\"a\"]"),
     "mlp_only_layers[0] is a string", CDZ_E_INPUT},
    {"rotating layers too few", CONFIG("smollm3", ",\"no_rope_layers\":[1,0]"),
     "no_rope_layers must be an array of num_hidden_layers (4) numbers", CDZ_E_INPUT},
    {"rotating layers of names", CONFIG("smollm3", ",\"no_rope_layers\":[1,0,null,1]"),
     "no_rope_layers[2] is null, expected 0 or 1", CDZ_E_INPUT},
    {"an encoder to look at", GPT2(",\"add_cross_attention\":true"),
     "add_cross_attention is not supported", CDZ_E_UNSUPPORTED},
    {"attention both ways", CONFIG("gemma3_text", ",\"use_bidirectional_attention\":true"),
     "use_bidirectional_attention is not supported", CDZ_E_UNSUPPORTED},
    {"t5's gate of tanh", T5(",\"feed_forward_proj\":\"gated-tanh\""),
     "feed_forward_proj \"tanh\" is not supported", CDZ_E_UNSUPPORTED},
    {"t5's feed-forward a number", T5(",\"feed_forward_proj\":1"),
     "feed_forward_proj an integer is not supported", CDZ_E_UNSUPPORTED},
    {"buckets that cannot be halved twice", T5(",\"relative_attention_num_buckets\":30"),
     "relative_attention_num_buckets 30", CDZ_E_UNSUPPORTED},
    {"buckets longer than the distance", T5(",\"relative_attention_max_distance\":16"),
     "relative_attention_max_distance 16 is not supported", CDZ_E_UNSUPPORTED},
    {"t5 without layers", "{\"model_type\":\"t5\",\"d_model\":64,\"d_ff\":96}",
     "num_layers is missing", CDZ_E_INPUT},
    {"padding beyond the vocabulary", BART("m2m_100", ",\"pad_token_id\":100"),
     "pad_token_id is 100", CDZ_E_INPUT},
    {"a format of float8",
     CONFIG("llama", ",\"quantization_config\":{\"quant_method\":\"fp8\","
                     "\"fmt\":\"e5m2\"}"),
     "fmt \"e5m2\" of quantization_config is not supported", CDZ_E_UNSUPPORTED},
    {"blocks of float8",
     CONFIG("llama", ",\"quantization_config\":{\"quant_method\":\"fp8\","
                     "\"weight_block_size\":[128,0]}"),
     "weight_block_size of quantization_config must be", CDZ_E_INPUT},
    {"another format of modelopt",
     CONFIG("llama", ",\"quantization_config\":{\"quant_method\":\"modelopt\","
                     "\"quant_algo\":\"NVFP4\"}"),
     "quantization_config (modelopt) is not supported", CDZ_E_UNSUPPORTED},
    {"another format of compressed-tensors",
     CONFIG("llama", ",\"quantization_config\":{\"quant_method\":\"compressed-tensors\","
                     "\"format\":\"pack-quantized\"}"),
     "quantization_config (compressed-tensors) is not supported", CDZ_E_UNSUPPORTED},
    {"bart's names for sizes", CONFIG("bart", ""), "d_model is missing", CDZ_E_INPUT},
    {"bart without a decoder",
     "{\"model_type\":\"bart\",\"d_model\":64,\"encoder_ffn_dim\":9,\"encoder_layers\":1,"
     "\"encoder_attention_heads\":4,\"vocab_size\":9}",
     "decoder_ffn_dim is missing", CDZ_E_INPUT},
    {"gpt2's names for sizes", CONFIG("gpt2", ""), "n_embd is missing", CDZ_E_INPUT},
    {"an odd part of a head", CONFIG("gpt_neox", ",\"rotary_pct\":0.2"), "3 dims of a head rotate",
     CDZ_E_UNSUPPORTED},
    {"norms of the heads of phi", CONFIG("phi", ",\"qk_layernorm\":true"),
     "qk_layernorm is not supported", CDZ_E_UNSUPPORTED},
    {"a negative cap", CONFIG("gemma2", ",\"attn_logit_softcapping\":-1"),
     "attn_logit_softcapping is -1, expected a number from 0", CDZ_E_INPUT},
    {"yarn without factor", CONFIG("olmo2", ",\"rope_scaling\":{\"rope_type\":\"yarn\"}"),
     "rope_scaling.factor is missing", CDZ_E_INPUT},
};

/* Encoder-decoder pairs: the decoder's part, then its encoder's. */
static const struct {
    const char *name, *config;
    uint32_t layers, encoder_layers, inner, encoder_inner, head_dim, vocab, context, buckets;
    double embed_scale, head_scale, scale;
    cdz_activation activation;
    bool gated, tied, after_sum;
} pairs[] = {
    {"t5", T5(""), 3, 3, 96, 96, 64, 100, 0, 32, 1, 0.125, 1, CDZ_ACT_RELU, false, true, false},
    {"t5 1.1, old",
     T5(",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false,\"d_kv\":10,"
        "\"num_decoder_layers\":5"),
     5, 3, 96, 96, 10, 100, 0, 32, 1, 1, 1, CDZ_ACT_GELU_TANH, true, true, false},
    {"t5 1.1, new",
     T5(",\"feed_forward_proj\":\"gated-silu\",\"scale_decoder_outputs\":false,"
        "\"relative_attention_num_buckets\":8"),
     3, 3, 96, 96, 64, 100, 0, 8, 1, 1, 1, CDZ_ACT_SILU, true, true, false},
    {"bart", BART("bart", ""), 2, 3, 80, 96, 8, 100, 1024, 0, 1, 1, 0.35355339, CDZ_ACT_GELU, false,
     true, true},
    {"bart scaled",
     BART("bart", ",\"scale_embedding\":true,\"activation_function\":\"relu\","
                  "\"tie_word_embeddings\":false,\"max_position_embeddings\":77"),
     2, 3, 80, 96, 8, 100, 77, 0, 8, 1, 0.35355339, CDZ_ACT_RELU, false, false, true},
    {"marian", BART("marian", ",\"activation_function\":\"swish\",\"decoder_vocab_size\":60"), 2, 3,
     80, 96, 8, 60, 1024, 0, 1, 1, 0.35355339, CDZ_ACT_SILU, false, true, true},
    {"mt5", T5_OF("mt5", ""), 3, 3, 96, 96, 64, 100, 0, 32, 1, 1, 1, CDZ_ACT_GELU_TANH, true, true,
     false},
    {"mt5, plain", T5_OF("mt5", ",\"feed_forward_proj\":\"relu\",\"tie_word_embeddings\":false"), 3,
     3, 96, 96, 64, 100, 0, 32, 1, 1, 1, CDZ_ACT_RELU, false, true, false},
    {"umt5", T5_OF("umt5", ",\"scale_decoder_outputs\":false"), 3, 3, 96, 96, 64, 100, 0, 32, 1,
     0.125, 1, CDZ_ACT_GELU_TANH, true, true, false},
    {"mbart", BART("mbart", ",\"scale_embedding\":true"), 2, 3, 80, 96, 8, 100, 1024, 0, 8, 1,
     0.35355339, CDZ_ACT_GELU, false, true, false},
    {"pegasus", BART("pegasus", ""), 2, 3, 80, 96, 8, 100, 1024, 0, 1, 1, 0.35355339, CDZ_ACT_GELU,
     false, true, false},
    {"m2m_100", BART("m2m_100", ""), 2, 3, 80, 96, 8, 100, 1024, 0, 8, 1, 0.35355339, CDZ_ACT_RELU,
     false, true, false},
    {"m2m_100, not scaled", BART("m2m_100", ",\"scale_embedding\":false"), 2, 3, 80, 96, 8, 100,
     1024, 0, 1, 1, 0.35355339, CDZ_ACT_RELU, false, true, false},
    {"blenderbot", BART("blenderbot", ""), 2, 3, 80, 96, 8, 100, 128, 0, 1, 1, 0.35355339,
     CDZ_ACT_GELU, false, true, false},
    {"blenderbot-small", BART("blenderbot-small", ",\"scale_embedding\":true"), 2, 3, 80, 96, 8,
     100, 512, 0, 1, 1, 0.35355339, CDZ_ACT_GELU, false, true, true},
};

/* Where the first position is in the table, and whose token has none. */
static void positions_begin_where_the_family_says(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        uint32_t offset;
        int32_t unplaced;
    } all[] = {{BART("bart", ""), 2, -1},
               {BART("mbart", ""), 2, -1},
               {BART("blenderbot", ""), 0, -1},
               {BART("pegasus", ""), 0, -1},
               {BART("blenderbot-small", ""), 0, -1},
               {BART("m2m_100", ""), 2, 1},
               {BART("m2m_100", ",\"pad_token_id\":7"), 8, 7}};
    for (size_t i = 0; i < COUNT(all); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err;
        if (read_arch(all[i].config, &arena, &a, &err) != CDZ_OK) fail_msg("%s", err.text);
        assert_int_equal(a.placing.offset, all[i].offset);
        assert_int_equal(a.encoder->placing.offset, all[i].offset);
        assert_int_equal(a.placing.unplaced, all[i].unplaced);
        cdz_arena_free(&arena);
    }
}

static bool as_expected(size_t i, const cdz_arch *a)
{
    const cdz_arch *e = a->encoder;
    return a->n_layers == pairs[i].layers && e->n_layers == pairs[i].encoder_layers &&
           a->intermediate == pairs[i].inner && e->intermediate == pairs[i].encoder_inner &&
           a->head_dim == pairs[i].head_dim && a->n_vocab == pairs[i].vocab && e->n_vocab == 100 &&
           a->context == pairs[i].context && a->buckets.n == pairs[i].buckets &&
           e->buckets.n == pairs[i].buckets && !e->encoder;
}

static bool scaled_as_expected(size_t i, const cdz_arch *a)
{
    return fabs((double)a->embed_scale - pairs[i].embed_scale) < 1e-7 &&
           fabs((double)a->head_scale - pairs[i].head_scale) < 1e-7 &&
           fabs((double)a->attention_scale - pairs[i].scale) < 1e-7 &&
           a->activation == pairs[i].activation && a->encoder->activation == a->activation &&
           cdz_arch_has(a, CDZ_PART_GATE) == pairs[i].gated &&
           cdz_arch_has(a->encoder, CDZ_PART_GATE) == pairs[i].gated && a->tied == pairs[i].tied &&
           a->norm_after_sum == pairs[i].after_sum && a->hidden_count && !cdz_arch_rotates(a);
}

static void pairs_mean_what_transformers_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err;
        if (read_arch(pairs[i].config, &arena, &a, &err) != CDZ_OK)
            fail_msg("%s: %s", pairs[i].name, err.text);
        assert_non_null(a.encoder);
        if (!as_expected(i, &a))
            fail_msg("%s: layers %u %u, inner %u %u, head_dim %u, vocabulary %u, context %u",
                     pairs[i].name, a.n_layers, a.encoder->n_layers, a.intermediate,
                     a.encoder->intermediate, a.head_dim, a.n_vocab, a.context);
        if (!scaled_as_expected(i, &a))
            fail_msg("%s: scales %g %g %g, activation %d, tied %d", pairs[i].name,
                     (double)a.embed_scale, (double)a.head_scale, (double)a.attention_scale,
                     (int)a.activation, a.tied);
        cdz_arena_free(&arena);
    }
}

/* Its encoder scales what is embedded and norms the sum with positions, its decoder norms first, and nothing to scale. */
static void blenderbot_small_norms_twice(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a;
    cdz_error err;
    if (read_arch(BART("blenderbot-small", ",\"scale_embedding\":true"), &arena, &a, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_true(a.placing.after_norm && a.embed_scale == 1.0f);
    assert_true(!a.encoder->placing.after_norm && a.encoder->embed_scale == 8.0f);
    cdz_arena_free(&arena);
}

static void wrong_configurations_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(unreadable); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        cdz_error err = {0};
        const cdz_status status = read_arch(unreadable[i].config, &arena, &a, &err);
        if (status != unreadable[i].status || !strstr(err.text, unreadable[i].sentence))
            fail_msg("%s: %d, \"%s\"", unreadable[i].name, (int)status, err.text);
        cdz_arena_free(&arena);
    }
}

static void caps_are_read_or_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        float attention, final;
    } cases[] = {
        {CONFIG("gemma2", ""), 50, 30},
        {CONFIG("gemma2", ",\"attn_logit_softcapping\":null,\"final_logit_softcapping\":9.5"), 0,
         9.5f},
        {CONFIG("gemma3_text", ""), 0, 0},
        {CONFIG("olmo2", ",\"attn_logit_softcapping\":4"), 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        assert_int_equal(read_arch(cases[i].config, &arena, &a, NULL), CDZ_OK);
        assert_true(a.attention_cap == cases[i].attention && a.final_cap == cases[i].final);
        cdz_arena_free(&arena);
    }
}

/* --- rotations ----------------------------------------------------------------------------- */

/* Files of transformers 5 describe each kind of layer; older ones have a key for the local base.
 * Both mean the same. */
static void gemma3_rotates_two_ways(void **state)
{
    (void)state;
    static const char *const configs[] = {
        CONFIG("gemma3_text", ",\"sliding_window_pattern\":2,\"rope_theta\":50000,"
                              "\"rope_local_base_freq\":700,"
                              "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}"),
        CONFIG("gemma3_text",
               ",\"sliding_window_pattern\":2,\"rope_parameters\":{"
               "\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8,\"rope_theta\":50000},"
               "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":700}}"),
    };
    for (size_t i = 0; i < COUNT(configs); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        assert_int_equal(read_arch(configs[i], &arena, &a, NULL), CDZ_OK);
        const cdz_rope *local = cdz_arch_rope(&a, 0), *global = cdz_arch_rope(&a, 1);
        assert_int_equal(local->n_rotated, 256);
        assert_true(fabs((double)local->inv_freq[64] - pow(700, -0.5)) < 1e-8);
        assert_true(fabs((double)global->inv_freq[64] - pow(50000, -0.5) / 8) < 1e-9);
        cdz_arena_free(&arena);
    }
}

static void some_layers_do_not_rotate(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool rotates[4];
    } cases[] = {
        {CONFIG("smollm3", ""), {1, 1, 1, 0}},
        {CONFIG("smollm3", ",\"no_rope_layers\":[0,1,1,0]"), {0, 1, 1, 0}},
        {CONFIG("olmo2", ",\"no_rope_layers\":[0,1,1,0]"), {1, 1, 1, 1}},
        {GPT2(""), {0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        assert_int_equal(read_arch(cases[i].config, &arena, &a, NULL), CDZ_OK);
        for (uint32_t l = 0; l < 4; l++)
            assert_int_equal(cdz_arch_rope(&a, l) != NULL, cases[i].rotates[l]);
        cdz_arena_free(&arena);
    }
}

static void part_of_a_head_rotates(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        size_t n_rotated;
    } cases[] = {
        {CONFIG("gpt_neox", ""), 4},
        {CONFIG("gpt_neox", ",\"rotary_pct\":1"), 16},
        {CONFIG("gpt_neox", ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"), 8},
        {CONFIG("stablelm", ",\"num_key_value_heads\":4"), 4},
        {CONFIG("stablelm", ",\"num_key_value_heads\":4,\"partial_rotary_factor\":0.5"), 8},
        {CONFIG("phi3", ",\"partial_rotary_factor\":0.75"), 12},
        {CONFIG("phi3", ",\"partial_rotary_factor\":0.75,\"rope_parameters\":{"
                        "\"partial_rotary_factor\":0.5}"),
         8}, /* the description's own value wins */
        {CONFIG("stablelm", ",\"num_key_value_heads\":4,\"partial_rotary_factor\":0.25,"
                            "\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
         8},
        {CONFIG("gpt_neox", ",\"rotary_pct\":0.25,\"partial_rotary_factor\":1,"
                            "\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
         4}, /* but not over GPT-NeoX's own name of it */
        {CONFIG("olmo2", ",\"partial_rotary_factor\":0.5"), 16},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cdz_arena arena = {0};
        cdz_arch a;
        assert_int_equal(read_arch(cases[i].config, &arena, &a, NULL), CDZ_OK);
        assert_int_equal(cdz_arch_rope(&a, 0)->n_rotated, cases[i].n_rotated);
        cdz_arena_free(&arena);
    }
}

/* Fast dims keep their frequency, slow ones are divided by the factor, cos and sin grow. */
static void yarn_stretches_slow_dims(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a;
    assert_int_equal(
        read_arch(CONFIG("olmo2", ",\"head_dim\":64,\"rope_scaling\":{\"rope_type\":\"yarn\","
                                  "\"factor\":4,\"original_max_position_embeddings\":512}"),
                  &arena, &a, NULL),
        CDZ_OK);
    assert_true(a.rope.inv_freq[0] == 1.0f);
    assert_true(fabs((double)a.rope.inv_freq[31] - pow(1e4, -62.0 / 64) / 4) < 1e-10);
    const double plain = pow(1e4, -16.0 / 64), blended = (double)a.rope.inv_freq[8];
    assert_true(blended < plain && blended > plain / 4);
    assert_true(fabs((double)a.rope.scale - (0.1 * log(4) + 1)) < 1e-6);
    cdz_arena_free(&arena);
}

/* Up to the context the plain frequencies; beyond it slower ones, but for the first dim. */
static void dynamic_frequencies_follow_the_length(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_arch a;
    float made[32];
    assert_int_equal(
        read_arch(CONFIG("llama", ",\"head_dim\":64,\"max_position_embeddings\":100,"
                                  "\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}"),
                  &arena, &a, NULL),
        CDZ_OK);
    assert_int_equal(a.context, 200);
    assert_int_equal(a.rope_limit, 100);
    assert_ptr_equal(cdz_rope_at(&a, 100, made).inv_freq, a.rope.inv_freq);
    const cdz_rope at150 = cdz_rope_at(&a, 150, made);
    const double base = 1e4 * pow(2 * 150 / 100.0 - 1, 64 / 62.0); /* the formula, in doubles */
    for (int i = 0; i < 32; i++)
        assert_true(fabs((double)at150.inv_freq[i] / pow(base, -2 * i / 64.0) - 1) < 1e-6);
    cdz_arena_free(&arena);
}

/* Two sets of frequencies, one factor on cos and sin for both. */
static void longrope_has_two_sets(void **state)
{
    (void)state;
    static const char *const types[] = {"longrope", "su", "yarn"}; /* phi3 releases say all three */
    for (size_t t = 0; t < COUNT(types); t++) {
        char config[1024];
        snprintf(config, sizeof config,
                 CONFIG("phi3", ",\"max_position_embeddings\":4096,"
                                "\"original_max_position_embeddings\":64,\"rope_scaling\":{"
                                "\"type\":\"%s\",\"short_factor\":[1,1,1,1,1,1,1,2],"
                                "\"long_factor\":[1,2,3,4,5,6,7,8]}"),
                 types[t]);
        cdz_arena arena = {0};
        cdz_arch a;
        assert_int_equal(read_arch(config, &arena, &a, NULL), CDZ_OK);
        assert_int_equal(a.context, 4096);
        const cdz_rope brief = cdz_rope_at(&a, 64, NULL), lengthy = cdz_rope_at(&a, 65, NULL);
        assert_true(fabs((double)brief.inv_freq[7] * pow(1e4, 14 / 16.0) * 2 - 1) < 1e-6);
        assert_true(fabs((double)lengthy.inv_freq[7] * pow(1e4, 14 / 16.0) * 8 - 1) < 1e-6);
        assert_true(brief.inv_freq[0] == 1.0f && lengthy.inv_freq[0] == 1.0f);
        assert_true(fabs((double)brief.scale - sqrt(1 + log(64) / log(64))) < 1e-6);
        assert_true(brief.scale == lengthy.scale);
        cdz_arena_free(&arena);
    }
}

/* --- tensors ------------------------------------------------------------------------------- */

static cdz_weights *open_golden(const char *name)
{
    char path[512];
    cdz_weights *w;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s%s", golden_folder, name);
    must(cdz_weights_open(path, &w, &err), &err);
    return w;
}

static const float *tensor(const cdz_weights *w, const char *name)
{
    const cdz_tensor *t = cdz_tensors_find(&w->tensors, name);
    assert_non_null(t);
    return t->data;
}

static void fused_tensors_are_views(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("phi3"); /* 4 heads, 2 kv heads of 12, hidden 48, inner 64 */
    const float *qkv = tensor(w, "model.layers.1.self_attn.qkv_proj.weight");
    const float *both = tensor(w, "model.layers.1.mlp.gate_up_proj.weight");
    const cdz_layer_weights *l = &w->layers[1];
    assert_ptr_equal(l->q.w.data, qkv);
    assert_ptr_equal(l->k.w.data, qkv + 48 * 48);
    assert_ptr_equal(l->v.w.data, qkv + (48 + 24) * 48);
    assert_int_equal(l->q.w.n, 48);
    assert_int_equal(l->v.w.n, 24);
    assert_ptr_equal(l->mlp.gate.w.data, both);
    assert_ptr_equal(l->mlp.up.w.data, both + 64 * 48);
    assert_int_equal(w->facts.n_copied, 0);
    cdz_weights_close(w);
}

static void conv1d_weights_are_transposed(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("gpt2"); /* hidden 40 */
    const float *stored = tensor(w, "transformer.h.2.attn.c_attn.weight");
    const float *bias = tensor(w, "transformer.h.2.attn.c_attn.bias");
    const float *k = w->layers[2].k.w.data;
    for (size_t out = 0; out < 40; out++)
        for (size_t in = 0; in < 40; in++)
            assert_true(k[out * 40 + in] == stored[in * 120 + 40 + out]);
    assert_ptr_equal(w->layers[2].k.bias.data, bias + 40);
    assert_int_equal(w->layers[2].k.bias.k, 40);
    assert_null(w->layers[2].mlp.gate.w.data);
    assert_int_equal(w->facts.n_copied, 3 * 4);
    cdz_weights_close(w);
}

static void alternating_heads_are_parted(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("gpt_neox"); /* 3 heads of 16, hidden 48 */
    const float *stored = tensor(w, "gpt_neox.layers.1.attention.query_key_value.weight");
    const float *bias = tensor(w, "gpt_neox.layers.1.attention.query_key_value.bias");
    const cdz_linear *parts[] = {&w->layers[1].q, &w->layers[1].k, &w->layers[1].v};
    for (size_t part = 0; part < 3; part++)
        for (size_t row = 0; row < 48; row++) {
            const size_t from = row / 16 * 48 + part * 16 + row % 16;
            assert_memory_equal((const float *)parts[part]->w.data + row * 48, stored + from * 48,
                                48 * sizeof(float));
            assert_true(((const float *)parts[part]->bias.data)[row] == bias[from]);
        }
    cdz_weights_close(w);
}

static void experts_are_where_the_layers_are_sparse(void **state)
{
    (void)state;
    cdz_weights *w = open_golden("qwen3_moe"); /* layer 1 is dense */
    assert_int_equal(w->arch.n_experts, 6);
    assert_int_equal(w->arch.n_active, 2);
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(w->layers[l].router.w.data != NULL, l != 1);
        assert_int_equal(w->layers[l].mlp.down.w.data != NULL, l == 1);
    }
    assert_ptr_equal(w->layers[2].experts[5].down.w.data,
                     tensor(w, "model.layers.2.mlp.experts.5.down_proj.weight"));
    assert_int_equal(w->facts.n_unexpected, 0);
    cdz_weights_close(w);
}

/* --- learned positions --------------------------------------------------------------------- */

/* gpt2_scaled has 128 positions: 128 tokens have scores, 129 have none. */
static void learned_positions_end(void **state)
{
    (void)state;
    int32_t ids[129];
    for (int i = 0; i < 129; i++) ids[i] = 3 + i % 50;
    rig r = rig_open("gpt2_scaled", (cdz_engine_options){0});
    for (uint32_t n = 128; n <= 129; n++) {
        answer a;
        new_job(&r, NULL, ids, NULL, 1, n, 0, &a)->prompt_logits = true;
        const cdz_outcome *outcome = run(&r, &a);
        assert_int_equal(outcome->error.code, n == 128 ? CDZ_OK : CDZ_E_LIMIT);
        if (n == 129) assert_non_null(strstr(outcome->error.text, "learned 128 positions"));
        answer_free(&a);
    }
    rig_close(&r);
}

/* Nemotron-H's layers that are a feed-forward without experts, which no folder of tests/golden has. */
static void plain_feeds_are_recorded(void **state)
{
    (void)state;
    cdz_weights *w;
    cdz_error err = {0};
    must(cdz_weights_open(CADENZA_TEST_DATA "/run/nemotron_dense", &w, &err), &err);
    assert_int_equal(w->arch.n_experts, 0);
    assert_int_equal(w->facts.n_unexpected, 0);
    logits_are_recorded(w, CADENZA_TEST_DATA "/run", "nemotron_dense", 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_mean_what_transformers_takes),
        cmocka_unit_test(plain_feeds_are_recorded),
        cmocka_unit_test(positions_begin_where_the_family_says),
        cmocka_unit_test(pairs_mean_what_transformers_takes),
        cmocka_unit_test(blenderbot_small_norms_twice),
        cmocka_unit_test(wrong_configurations_are_sentences),
        cmocka_unit_test(caps_are_read_or_left_out),
        cmocka_unit_test(gemma3_rotates_two_ways),
        cmocka_unit_test(some_layers_do_not_rotate),
        cmocka_unit_test(part_of_a_head_rotates),
        cmocka_unit_test(yarn_stretches_slow_dims),
        cmocka_unit_test(dynamic_frequencies_follow_the_length),
        cmocka_unit_test(longrope_has_two_sets),
        cmocka_unit_test(fused_tensors_are_views),
        cmocka_unit_test(conv1d_weights_are_transposed),
        cmocka_unit_test(alternating_heads_are_parted),
        cmocka_unit_test(experts_are_where_the_layers_are_sparse),
        cmocka_unit_test(learned_positions_end),
    };
    return cmocka_run_group_tests_name("architectures", tests, NULL, NULL);
}
