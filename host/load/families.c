/* families.c - the table of families: a row and a name map each; it goes on in families_dense.c,
 * families_sparse.c, families_hybrid.c and families_pairs.c.
 *
 * Keys and defaults are those of transformers' configuration classes. Adding a family that fits
 * the decoder block is adding a row; docs/adding-a-family.md goes through it. */
#include "load/families.h"

#include <stddef.h>

#include "load/family_names.h"

/* --- names --------------------------------------------------------------------------------- */

const char *const cdz_family_llama_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, GATED};
static const char *const qwen3_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, QK_NORMS, GATED};
static const char *const gemma2_names[CDZ_N_PARTS] = {ENDS, SANDWICH_NORMS, ATTENTION, GATED};
static const char *const gemma3_names[CDZ_N_PARTS] = {ENDS, SANDWICH_NORMS, ATTENTION, QK_NORMS,
                                                      GATED};

const char *const cdz_family_olmo2_names[CDZ_N_PARTS] = {ENDS, LATE_NORMS, ATTENTION, QK_NORMS,
                                                         GATED};

static const char *const phi3_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    FUSED_GATED,
    [CDZ_PART_QKV] = "model.layers.#.self_attn.qkv_proj",
    [CDZ_PART_O] = "model.layers.#.self_attn.o_proj",
};

static const char *const mixtral_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, MIXTRAL_EXPERTS};

static const char *const qwen3_moe_names[CDZ_N_PARTS] = {ENDS,     PRE_NORMS, ATTENTION,
                                                         QK_NORMS, GATED,     MLP_EXPERTS};

static const char *const stablelm_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    GATED,
    [CDZ_PART_Q_NORM] = "model.layers.#.self_attn.q_layernorm.norms.@",
    [CDZ_PART_K_NORM] = "model.layers.#.self_attn.k_layernorm.norms.@",
};

static const char *const starcoder2_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    [CDZ_PART_UP] = "model.layers.#.mlp.c_fc",
    [CDZ_PART_DOWN] = "model.layers.#.mlp.c_proj",
};

const char *const cdz_family_gpt2_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "transformer.wte",          [CDZ_PART_POSITIONS] = "transformer.wpe",
    [CDZ_PART_FINAL_NORM] = "transformer.ln_f",    [CDZ_PART_HEAD] = "lm_head",
    [CDZ_PART_ATTN_NORM] = "transformer.h.#.ln_1", [CDZ_PART_QKV] = "transformer.h.#.attn.c_attn",
    [CDZ_PART_O] = "transformer.h.#.attn.c_proj",  [CDZ_PART_MLP_NORM] = "transformer.h.#.ln_2",
    [CDZ_PART_UP] = "transformer.h.#.mlp.c_fc",    [CDZ_PART_DOWN] = "transformer.h.#.mlp.c_proj",
};

static const char *const gpt_neox_names[CDZ_N_PARTS] = {
    [CDZ_PART_EMBED] = "gpt_neox.embed_in",
    [CDZ_PART_FINAL_NORM] = "gpt_neox.final_layer_norm",
    [CDZ_PART_HEAD] = "embed_out",
    [CDZ_PART_ATTN_NORM] = "gpt_neox.layers.#.input_layernorm",
    [CDZ_PART_QKV] = "gpt_neox.layers.#.attention.query_key_value",
    [CDZ_PART_O] = "gpt_neox.layers.#.attention.dense",
    [CDZ_PART_MLP_NORM] = "gpt_neox.layers.#.post_attention_layernorm",
    [CDZ_PART_UP] = "gpt_neox.layers.#.mlp.dense_h_to_4h",
    [CDZ_PART_DOWN] = "gpt_neox.layers.#.mlp.dense_4h_to_h",
};

/* Encoder-decoder pairs: a map for each stack. Attention and feed-forward of layer '#' in it. */
const cdz_key_names cdz_family_rms_keys = {USUAL_KEYS, .eps = "rms_norm_eps"};
const cdz_key_names cdz_family_layer_keys = {USUAL_KEYS, .eps = "layer_norm_eps"};
static const cdz_key_names gemma_keys = {SIZE_KEYS, .eps = "rms_norm_eps",
                                         .activation = "hidden_activation"};
const cdz_key_names cdz_family_gpt2_keys = {.hidden = "n_embd",
                                            .intermediate = "n_inner",
                                            .layers = "n_layer",
                                            .heads = "n_head",
                                            .context = "n_positions",
                                            .eps = "layer_norm_epsilon",
                                            .activation = "activation_function"};
static const cdz_key_names starcoder2_keys = {USUAL_KEYS, .eps = "norm_epsilon"};

/* --- families ------------------------------------------------------------------------------ */

static const cdz_family families[] = {
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .names = cdz_family_llama_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .context = 2048},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .names = cdz_family_llama_names,
     .keys = &cdz_family_rms_keys,
     .window = CDZ_WINDOW_ALL,
     .window_size = 4096,
     .context = 4096 * 32,
     .n_kv_heads = 8},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .names = cdz_family_llama_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_QKV,
     .window = CDZ_WINDOW_BY_LAYER,
     .window_size = 4096,
     .context = 32768,
     .n_kv_heads = 32},
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .names = qwen3_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_BY_LAYER,
     .qk_norm = CDZ_QK_HEAD,
     .window_size = 4096,
     .context = 32768,
     .n_kv_heads = 32,
     .head_dim = 128},
    {.model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .names = cdz_family_llama_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .window = CDZ_WINDOW_NO_ROPE,
     .no_rope_layers = true,
     .context = 32768,
     .n_kv_heads = 4,
     .theta = 2e6,
     .tied = true},
    {.model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .names = cdz_family_olmo2_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .qk_norm = CDZ_QK_ALL,
     .context = 2048,
     .eps = 1e-5},
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .names = phi3_names,
     .keys = &cdz_family_rms_keys,
     .window = CDZ_WINDOW_ALL,
     .context = 4096,
     .eps = 1e-5,
     .only_longrope = true,
     .partial_rotary = 1},
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .names = gemma2_names,
     .keys = &gemma_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_PATTERN,
     .norm_offset = 1,
     .scaled_embedding = true,
     .scales_given = true,
     .window_size = 4096,
     .window_pattern = 2,
     .context = 8192,
     .n_kv_heads = 4,
     .head_dim = 256,
     .query_scalar = 256,
     .activation = "gelu_pytorch_tanh",
     .caps = true,
     .attention_cap = 50,
     .final_cap = 30,
     .tied = true},
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .names = gemma3_names,
     .keys = &gemma_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_PATTERN,
     .norm_offset = 1,
     .qk_norm = CDZ_QK_HEAD,
     .scaled_embedding = true,
     .local_rope = true,
     .window_size = 4096,
     .window_pattern = 6,
     .context = 131072,
     .n_kv_heads = 4,
     .head_dim = 256,
     .query_scalar = 256,
     .activation = "gelu_pytorch_tanh",
     .theta = 1e6,
     .caps = true,
     .tied = true},
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .names = mixtral_names,
     .keys = &cdz_family_rms_keys,
     .window = CDZ_WINDOW_ALL,
     .experts = CDZ_EXPERTS_ALL,
     .context = 4096 * 32,
     .n_kv_heads = 8,
     .theta = 1e6,
     .eps = 1e-5},
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .names = qwen3_moe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_ALL_IF_USED,
     .experts = CDZ_EXPERTS_BY_LAYER,
     .qk_norm = CDZ_QK_HEAD,
     .window_size = 4096,
     .context = 32768,
     .n_kv_heads = 4},
    {.model_type = "gpt2",
     .runs_whole = true,
     .architecture = "GPT2LMHeadModel",
     .names = cdz_family_gpt2_names,
     .keys = &cdz_family_gpt2_keys,
     .biases = CDZ_BIAS_ALL,
     .norm = CDZ_NORM_LAYER,
     .conv1d = true,
     .inner_four = true,
     .gpt2_scales = true,
     .context = 1024,
     .activation = "gelu_new",
     .eps = 1e-5,
     .tied = true},
    {.model_type = "gpt_neox",
     .runs_whole = true,
     .architecture = "GPTNeoXForCausalLM",
     .names = gpt_neox_names,
     .keys = &cdz_family_layer_keys,
     .biases = CDZ_BIAS_NEOX,
     .norm = CDZ_NORM_LAYER,
     .fused = CDZ_FUSED_HEADS,
     .parallel = CDZ_PARALLEL_UNLESS_SAID,
     .context = 2048,
     .activation = "gelu",
     .eps = 1e-5,
     .partial_rotary = 0.25},
    {.model_type = "stablelm",
     .runs_whole = true,
     .architecture = "StableLmForCausalLM",
     .names = stablelm_names,
     .keys = &cdz_family_layer_keys,
     .biases = CDZ_BIAS_USE_QKV,
     .norm = CDZ_NORM_LAYER,
     .parallel = CDZ_PARALLEL_IF_SAID,
     .qk_norm = CDZ_QK_EACH,
     .qk_norm_key = "qk_layernorm",
     .context = 4096,
     .n_kv_heads = 32,
     .eps = 1e-5,
     .partial_rotary = 0.25},
    {.model_type = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .names = starcoder2_names,
     .keys = &starcoder2_keys,
     .biases = CDZ_BIAS_USE,
     .bias = true,
     .window = CDZ_WINDOW_ALL,
     .norm = CDZ_NORM_LAYER,
     .context = 4096,
     .n_kv_heads = 2,
     .activation = "gelu_pytorch_tanh",
     .eps = 1e-5,
     .tied = true},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* The i-th of the whole table. */
static const cdz_family *family_at(size_t i)
{
    const cdz_family_list lists[] = {{families, N_FAMILIES},
                                     cdz_families_dense(),
                                     cdz_families_sparse(),
                                     cdz_families_hybrid(),
                                     cdz_families_pairs()};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; i -= lists[l++].n)
        if (i < lists[l].n) return &lists[l].items[i];
    return NULL;
}

const cdz_family *cdz_family_find(const cdz_json *model_type, const cdz_json *architecture)
{
    const cdz_family *f;
    for (size_t i = 0; (f = family_at(i)) != NULL; i++)
        if (model_type ? cdz_json_eq(model_type, f->model_type)
                       : cdz_json_eq(architecture, f->architecture))
            return f;
    return NULL;
}

const char *cdz_arch_model_type(size_t i)
{
    const cdz_family *f = family_at(i);
    return f ? f->model_type : NULL;
}
