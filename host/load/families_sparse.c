/* families_sparse.c - the table of families goes on: decoders with experts that are more than mixtral's. */
#include "load/family_names.h"

/* --- names --------------------------------------------------------------------------------- */

static const char *const glm4_moe_names[CDZ_N_PARTS] = {
    ENDS,           PRE_NORMS,
    ATTENTION,      QK_NORMS,
    GATED,          MLP_EXPERTS,
    SHARED_EXPERTS, [CDZ_PART_ROUTER_BIAS] = "model.layers.#.mlp.gate.e_score_correction_bias",
};

static const char *const ernie_moe_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    GATED,
    MLP_EXPERTS,
    SHARED_EXPERTS,
    [CDZ_PART_HEAD_BIAS] = "lm_head.bias",
    [CDZ_PART_ROUTER_BIAS] = "model.layers.#.mlp.moe_statics.e_score_correction_bias",
};

static const char *const minimax_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    QK_NORMS,
    MIXTRAL_EXPERTS,
    [CDZ_PART_ROUTER_BIAS] = "model.layers.#.block_sparse_moe.e_score_correction_bias",
};

static const char *const phimoe_names[CDZ_N_PARTS] = {
    ENDS, PRE_NORMS, ATTENTION, MIXTRAL_EXPERTS, [CDZ_PART_HEAD_BIAS] = "lm_head.bias"};

static const char *const qwen2_moe_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    GATED,
    MLP_EXPERTS,
    SHARED_EXPERT,
    [CDZ_PART_SHARED_ROUTER] = "model.layers.#.mlp.shared_expert_gate",
};

static const char *const olmoe_names[CDZ_N_PARTS] = {ENDS, PRE_NORMS, ATTENTION, QK_NORMS,
                                                     MLP_EXPERTS};

static const char *const granite_moe_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    [CDZ_PART_ROUTER] = "model.layers.#.block_sparse_moe.router.layer",
    [CDZ_PART_EXPERTS_GATE_UP] = "model.layers.#.block_sparse_moe.input_linear.weight",
    [CDZ_PART_EXPERTS_DOWN] = "model.layers.#.block_sparse_moe.output_linear.weight",
};

static const char *const gpt_oss_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    [CDZ_PART_SINKS] = "model.layers.#.self_attn.sinks",
    [CDZ_PART_ROUTER] = "model.layers.#.mlp.router",
    [CDZ_PART_EXPERTS_GATE_UP] = "model.layers.#.mlp.experts.gate_up_proj",
    [CDZ_PART_EXPERTS_DOWN] = "model.layers.#.mlp.experts.down_proj",
    [CDZ_PART_EXPERTS_GATE_UP_BIAS] = "model.layers.#.mlp.experts.gate_up_proj_bias",
    [CDZ_PART_EXPERTS_DOWN_BIAS] = "model.layers.#.mlp.experts.down_proj_bias",
};

#define LATENT_ATTENTION                                                                                    \
    [CDZ_PART_Q] = "model.layers.#.self_attn.q_proj", [CDZ_PART_Q_A] = "model.layers.#.self_attn.q_a_proj", \
    [CDZ_PART_Q_A_NORM] = "model.layers.#.self_attn.q_a_layernorm",                                         \
    [CDZ_PART_Q_B] = "model.layers.#.self_attn.q_b_proj",                                                   \
    [CDZ_PART_KV_A] = "model.layers.#.self_attn.kv_a_proj_with_mqa",                                        \
    [CDZ_PART_KV_A_NORM] = "model.layers.#.self_attn.kv_a_layernorm",                                       \
    [CDZ_PART_KV_B] = "model.layers.#.self_attn.kv_b_proj", [CDZ_PART_O] = "model.layers.#.self_attn.o_proj"

static const char *const deepseek_v2_names[CDZ_N_PARTS] = {ENDS,  PRE_NORMS,   LATENT_ATTENTION,
                                                           GATED, MLP_EXPERTS, SHARED_EXPERTS};

static const char *const deepseek_v3_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    GATED,
    LATENT_ATTENTION,
    MLP_EXPERTS,
    SHARED_EXPERTS,
    [CDZ_PART_ROUTER_BIAS] = "model.layers.#.mlp.gate.e_score_correction_bias",
};

static const char *const llama4_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    [CDZ_PART_GATE] = "model.layers.#.feed_forward.gate_proj",
    [CDZ_PART_UP] = "model.layers.#.feed_forward.up_proj",
    [CDZ_PART_DOWN] = "model.layers.#.feed_forward.down_proj",
    [CDZ_PART_ROUTER] = "model.layers.#.feed_forward.router",
    [CDZ_PART_EXPERTS_GATE_UP] = "model.layers.#.feed_forward.experts.gate_up_proj",
    [CDZ_PART_EXPERTS_DOWN] = "model.layers.#.feed_forward.experts.down_proj",
    [CDZ_PART_SHARED_GATE] = "model.layers.#.feed_forward.shared_expert.gate_proj",
    [CDZ_PART_SHARED_UP] = "model.layers.#.feed_forward.shared_expert.up_proj",
    [CDZ_PART_SHARED_DOWN] = "model.layers.#.feed_forward.shared_expert.down_proj",
};

/* --- experts ------------------------------------------------------------------------------- */

static const cdz_expert_rules glm4_moe_experts = {
    .count = "n_routed_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 8,
    .sparse = CDZ_SPARSE_AFTER_FIRST,
    .first_dense = 1,
    .shared_count = "n_shared_experts",
    .n_shared = 1,
    .router = {.score = CDZ_ROUTE_SIGMOID,
               .biased = true,
               .normalise = true,
               .sum_add = 1e-20f,
               .scale = 1},
    .normalise_key = true,
    .scale_key = true,
    .group_keys = true,
};

static const cdz_expert_rules ernie_experts = {
    .count = "moe_num_experts",
    .active = "moe_k",
    .inner = "moe_intermediate_size",
    .n_active = 6,
    .sparse = CDZ_SPARSE_INTERVAL,
    .shared_count = "moe_num_shared_experts",
    .n_shared = 2,
    .router = {.biased = true, .normalise = true, .sum_least = 1e-12f, .scale = 1},
    .least_key = "moe_norm_min",
};

static const cdz_expert_rules minimax_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 8,
    .router = {.score = CDZ_ROUTE_SIGMOID, .biased = true, .normalise = true, .scale = 1},
};

/* It takes two whatever the configuration says. */
static const cdz_expert_rules phimoe_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 2,
    .only_active = 2,
    .near_key = "router_jitter_noise",
    .router = {.score = CDZ_ROUTE_NEAREST, .scale = 1, .near = 0.01f}};
static const cdz_expert_rules qwen2_moe_experts = {
    .count = "num_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 4,
    .sparse = CDZ_SPARSE_BY_STEP,
    .shared_inner = "shared_expert_intermediate_size",
    .router = {.scale = 1},
    .normalise_key = true,
};

static const cdz_expert_rules olmoe_experts = {
    .count = "num_experts",
    .active = "num_experts_per_tok",
    .n_active = 8,
    .router = {.scale = 1},
    .normalise_key = true,
};

/* The softmax over the chosen ones is the one over all, normalised. */
static const cdz_expert_rules granite_moe_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 2,
    .router = {.normalise = true, .scale = 1},
};

static const cdz_expert_rules llama4_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 1,
    .sparse = CDZ_SPARSE_INTERLEAVED,
    .shared_inner = "intermediate_size",
    .dense_inner = "intermediate_size_mlp",
    .router = {.score = CDZ_ROUTE_SIGMOID, .scale = 1, .into_inputs = true},
    .transposed = true,
};

/* The softmax over the chosen logits is the one over all, normalised. */
static const cdz_expert_rules gpt_oss_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 4,
    .router = {.normalise = true, .scale = 1},
    .transposed = true,
    .interleaved = true,
    .biased = true,
};

static const cdz_expert_rules deepseek_v2_experts = {
    .count = "n_routed_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .sparse = CDZ_SPARSE_AFTER_FIRST,
    .shared_count = "n_shared_experts",
    .n_shared = 2,
    .router = {.scale = 1},
    .scale_key = true,
    .method_key = true,
};

static const cdz_expert_rules deepseek_v3_experts = {
    .count = "n_routed_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 8,
    .n_groups = 8,
    .groups_kept = 4,
    .sparse = CDZ_SPARSE_AFTER_FIRST,
    .first_dense = 3,
    .shared_count = "n_shared_experts",
    .n_shared = 1,
    .router = {.score = CDZ_ROUTE_SIGMOID,
               .biased = true,
               .normalise = true,
               .sum_add = 1e-20f,
               .scale = 2.5f},
    .normalise_key = true,
    .scale_key = true,
    .group_keys = true,
};

/* --- families ------------------------------------------------------------------------------ */

static const cdz_family families[] = {
    {.model_type = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .names = glm4_moe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_QKV_KEY,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &glm4_moe_experts,
     .qk_norm = CDZ_QK_HEAD,
     .qk_norm_key = "use_qk_norm",
     .context = 131072,
     .n_kv_heads = 8,
     .eps = 1e-5,
     .partial_rotary = 0.5},
    {.model_type = "ernie4_5_moe",
     .architecture = "Ernie4_5_MoeForCausalLM",
     .names = ernie_moe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_USE,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &ernie_experts,
     .interleaved = true,
     .context = 131072,
     .n_kv_heads = 4,
     .theta = 5e5,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "minimax_m2",
     .architecture = "MiniMaxM2ForCausalLM",
     .names = minimax_names,
     .keys = &cdz_family_rms_keys,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &minimax_experts,
     .qk_norm = CDZ_QK_ALL,
     .context = 196608,
     .n_kv_heads = 8,
     .head_dim = 128,
     .theta = 5e6,
     .partial_rotary = 1},
    {.model_type = "phimoe",
     .architecture = "PhimoeForCausalLM",
     .names = phimoe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_ALL,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &phimoe_experts,
     .norm = CDZ_NORM_LAYER,
     .only_longrope = true,
     .mscales = true,
     .context = 131072,
     .n_kv_heads = 8,
     .theta = 1e6,
     .eps = 1e-5},
    {.model_type = "qwen2_moe",
     .architecture = "Qwen2MoeForCausalLM",
     .names = qwen2_moe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_QKV_NAMED,
     .bias = true,
     .window = CDZ_WINDOW_BY_LAYER,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &qwen2_moe_experts,
     .window_size = 4096,
     .context = 32768,
     .n_kv_heads = 16},
    {.model_type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .names = olmoe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &olmoe_experts,
     .qk_norm = CDZ_QK_ALL,
     .clips = true,
     .context = 4096,
     .eps = 1e-5},
    {.model_type = "granitemoe",
     .architecture = "GraniteMoeForCausalLM",
     .names = granite_moe_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &granite_moe_experts,
     .multipliers = true,
     .scales_given = true,
     .context = 2048},
    {.model_type = "llama4_text",
     .architecture = "Llama4ForCausalLM",
     .names = llama4_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .window = CDZ_WINDOW_BLOCKS,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &llama4_experts,
     .qk_norm = CDZ_QK_HEAD,
     .qk_norm_last = true,
     .qk_norm_bare = true,
     .no_rope_layers = true,
     .interleaved = true,
     .tempered = true,
     .window_size = 8192,
     .context = 4096 * 32,
     .n_kv_heads = 8,
     .head_dim = 128,
     .theta = 5e5,
     .eps = 1e-5},
    {.model_type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .names = gpt_oss_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_NEOX,
     .window = CDZ_WINDOW_PATTERN,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &gpt_oss_experts,
     .clamped = true,
     .window_size = 128,
     .window_pattern = 2,
     .runs_whole = true,
     .context = 131072,
     .n_kv_heads = 8,
     .head_dim = 64,
     .theta = 150000,
     .eps = 1e-5},
    {.model_type = "deepseek_v2",
     .architecture = "DeepseekV2ForCausalLM",
     .names = deepseek_v2_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &deepseek_v2_experts,
     .latent = true,
     .interleaved = true,
     .context = 2048},
    {.model_type = "deepseek_v3",
     .architecture = "DeepseekV3ForCausalLM",
     .names = deepseek_v3_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &deepseek_v3_experts,
     .latent = true,
     .interleaved = true,
     .rope_interleave = true,
     .context = 4096},
};

cdz_family_list cdz_families_sparse(void)
{
    return (cdz_family_list){families, sizeof families / sizeof *families};
}
