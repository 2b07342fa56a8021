/* families_dense.c - the table of families goes on: decoders without experts. */
#include "load/families.h"
#include "load/family_names.h"

/* --- names --------------------------------------------------------------------------------- */

#define LATE_NORMS                                                                                 \
    [CDZ_PART_ATTN_POST_NORM] = "model.layers.#.post_attention_layernorm",                         \
    [CDZ_PART_MLP_POST_NORM] = "model.layers.#.post_feedforward_layernorm"
#define ONE_NORM [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm"
#define UNGATED                                                                                    \
    [CDZ_PART_UP] = "model.layers.#.mlp.up_proj", [CDZ_PART_DOWN] = "model.layers.#.mlp.down_proj"

static const char *const llama_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, GATED};
static const char *const late_names[CDZ_N_PARTS] = {ENDS, LATE_NORMS, ATTENTION, QK_NORMS, GATED};
static const char *const cohere_names[CDZ_N_PARTS] = {ENDS, ONE_NORM, ATTENTION, GATED};
static const char *const ungated_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, UNGATED};
static const char *const ernie_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION,
                                                     GATED, [CDZ_PART_HEAD_BIAS] = "lm_head.bias"};

static const char *const glm4_names[CDZ_N_PARTS] = {
    ENDS,
    ATTENTION,
    FUSED_GATED,
    [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm",
    [CDZ_PART_ATTN_POST_NORM] = "model.layers.#.post_self_attn_layernorm",
    [CDZ_PART_MLP_NORM] = "model.layers.#.post_attention_layernorm",
    [CDZ_PART_MLP_POST_NORM] = "model.layers.#.post_mlp_layernorm",
};

static const char *const hunyuan_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    GATED,
    [CDZ_PART_Q_NORM] = "model.layers.#.self_attn.query_layernorm",
    [CDZ_PART_K_NORM] = "model.layers.#.self_attn.key_layernorm",
};

/* --- keys ---------------------------------------------------------------------------------- */

#define SIZE_KEYS                                                                                  \
    .hidden = "hidden_size", .intermediate = "intermediate_size", .layers = "num_hidden_layers",   \
    .heads = "num_attention_heads", .context = "max_position_embeddings",                          \
    .activation = "hidden_act"

static const cdz_key_names rms_keys = {SIZE_KEYS, .eps = "rms_norm_eps"};
static const cdz_key_names layer_keys = {SIZE_KEYS, .eps = "layer_norm_eps"};
static const cdz_key_names norm_keys = {SIZE_KEYS, .eps = "norm_eps"};
static const cdz_key_names no_eps_keys = {SIZE_KEYS};

/* --- families ------------------------------------------------------------------------------ */

static const cdz_family families[] = {
    {.model_type = "olmo3",
     .architecture = "Olmo3ForCausalLM",
     .names = late_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_PATTERN,
     .qk_norm = CDZ_QK_ALL,
     .window_size = 4096,
     .window_pattern = 4,
     .context = 2048,
     .eps = 1e-5},
    {.model_type = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .names = late_names,
     .keys = &rms_keys,
     .window = CDZ_WINDOW_PATTERN,
     .rope_rule = CDZ_ROPE_IN_WINDOWS_IF_ANY,
     .qk_norm = CDZ_QK_HEAD,
     .window_size = 4096,
     .window_pattern = 4,
     .context = 2048,
     .n_kv_heads = 32,
     .eps = 1e-5},
    {.model_type = "cohere2",
     .architecture = "Cohere2ForCausalLM",
     .names = cohere_names,
     .keys = &layer_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_PATTERN,
     .rope_rule = CDZ_ROPE_IN_WINDOWS,
     .norm = CDZ_NORM_LAYER,
     .norm_no_bias = true,
     .one_norm = true,
     .interleaved = true,
     .logit_scale = 0.0625,
     .window_size = 4096,
     .window_pattern = 4,
     .context = 8192,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "cohere",
     .architecture = "CohereForCausalLM",
     .names = cohere_names,
     .keys = &layer_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .norm = CDZ_NORM_LAYER,
     .norm_no_bias = true,
     .one_norm = true,
     .interleaved = true,
     .logit_scale = 0.0625,
     .context = 8192,
     .theta = 5e5,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "glm4",
     .architecture = "Glm4ForCausalLM",
     .names = glm4_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_QKV_KEY,
     .bias = true,
     .interleaved = true,
     .context = 131072,
     .n_kv_heads = 2,
     .head_dim = 128,
     .eps = 0.00000015625,
     .partial_rotary = 0.5},
    {.model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .names = llama_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .multipliers = true,
     .scales_given = true,
     .context = 2048},
    {.model_type = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .names = llama_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_APART,
     .bias = true,
     .context = 524288,
     .head_dim = 128,
     .n_kv_heads = 8},
    {.model_type = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .names = hunyuan_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .qk_norm = CDZ_QK_HEAD,
     .qk_norm_last = true,
     .rope_alpha = true,
     .context = 2048,
     .eps = 1e-5},
    {.model_type = "ernie4_5",
     .architecture = "Ernie4_5ForCausalLM",
     .names = ernie_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_USE,
     .interleaved = true,
     .context = 131072,
     .n_kv_heads = 2,
     .head_dim = 128,
     .theta = 5e5,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .names = llama_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .norm_offset = 1,
     .scaled_embedding = true,
     .scales_given = true,
     .context = 8192,
     .n_kv_heads = 16,
     .head_dim = 256,
     .activation = "gelu_pytorch_tanh",
     .tied = true},
    {.model_type = "arcee",
     .architecture = "ArceeForCausalLM",
     .names = ungated_names,
     .keys = &rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .context = 4096,
     .activation = "relu2",
     .eps = 1e-5},
    {.model_type = "olmo",
     .architecture = "OlmoForCausalLM",
     .names = llama_names,
     .keys = &no_eps_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .norm = CDZ_NORM_LAYER,
     .norm_no_weight = true,
     .clips = true,
     .context = 2048,
     .eps = 1e-5},
    {.model_type = "nemotron",
     .architecture = "NemotronForCausalLM",
     .names = ungated_names,
     .keys = &norm_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .norm = CDZ_NORM_LAYER,
     .norm_offset = 1,
     .context = 4096,
     .activation = "relu2",
     .eps = 1e-5,
     .partial_rotary = 0.5},
};

cdz_family_list cdz_families_dense(void)
{
    return (cdz_family_list){families, sizeof families / sizeof *families};
}
