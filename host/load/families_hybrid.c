/* families_hybrid.c - the table of families goes on: decoders with recurrent layers. */
#include "load/family_names.h"

/* --- names --------------------------------------------------------------------------------- */

#define LFM2_PARTS                                                                                       \
    [CDZ_PART_EMBED] = "model.embed_tokens", [CDZ_PART_FINAL_NORM] = "model.embedding_norm",             \
    [CDZ_PART_HEAD] = "lm_head", [CDZ_PART_ATTN_NORM] = "model.layers.#.operator_norm",                  \
    [CDZ_PART_MLP_NORM] = "model.layers.#.ffn_norm", [CDZ_PART_Q] = "model.layers.#.self_attn.q_proj",   \
    [CDZ_PART_K] = "model.layers.#.self_attn.k_proj", [CDZ_PART_V] = "model.layers.#.self_attn.v_proj",  \
    [CDZ_PART_O] = "model.layers.#.self_attn.out_proj",                                                  \
    [CDZ_PART_Q_NORM] = "model.layers.#.self_attn.q_layernorm",                                          \
    [CDZ_PART_K_NORM] = "model.layers.#.self_attn.k_layernorm",                                          \
    [CDZ_PART_MIX_IN] = "model.layers.#.conv.in_proj", [CDZ_PART_MIX_CONV] = "model.layers.#.conv.conv", \
    [CDZ_PART_MIX_OUT] = "model.layers.#.conv.out_proj",                                                 \
    [CDZ_PART_GATE] = "model.layers.#.feed_forward.w1",                                                  \
    [CDZ_PART_UP] = "model.layers.#.feed_forward.w3", [CDZ_PART_DOWN] = "model.layers.#.feed_forward.w2"

static const char *const lfm2_names[CDZ_N_PARTS] = {LFM2_PARTS};

static const char *const lfm2_moe_names[CDZ_N_PARTS] = {
    LFM2_PARTS,
    [CDZ_PART_ROUTER] = "model.layers.#.feed_forward.gate",
    [CDZ_PART_ROUTER_BIAS] = "model.layers.#.feed_forward.expert_bias",
    [CDZ_PART_EXPERT_GATE] = "model.layers.#.feed_forward.experts.@.w1",
    [CDZ_PART_EXPERT_UP] = "model.layers.#.feed_forward.experts.@.w3",
    [CDZ_PART_EXPERT_DOWN] = "model.layers.#.feed_forward.experts.@.w2",
};

/* Mamba-2's, in layers of that name. */
#define SSD(at)                                                                                    \
    [CDZ_PART_MIX_IN] = (at ".in_proj"), [CDZ_PART_MIX_CONV] = (at ".conv1d"),                     \
    [CDZ_PART_MIX_RATE] = (at ".A_log"), [CDZ_PART_MIX_SHIFT] = (at ".dt_bias"),                   \
    [CDZ_PART_MIX_SKIP] = (at ".D"), [CDZ_PART_MIX_NORM] = (at ".norm"),                           \
    [CDZ_PART_MIX_OUT] = (at ".out_proj")

static const char *const mamba2_names[CDZ_N_PARTS] = {
    SSD("backbone.layers.#.mixer"),
    [CDZ_PART_EMBED] = "backbone.embeddings",
    [CDZ_PART_FINAL_NORM] = "backbone.norm_f",
    [CDZ_PART_HEAD] = "lm_head",
    [CDZ_PART_ATTN_NORM] = "backbone.layers.#.norm",
};

static const char *const granite_hybrid_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    SSD("model.layers.#.mamba"),
    [CDZ_PART_GATE_UP] = "model.layers.#.shared_mlp.input_linear",
    [CDZ_PART_DOWN] = "model.layers.#.shared_mlp.output_linear",
    [CDZ_PART_ROUTER] = "model.layers.#.block_sparse_moe.router.layer",
    [CDZ_PART_EXPERTS_GATE_UP] = "model.layers.#.block_sparse_moe.input_linear.weight",
    [CDZ_PART_EXPERTS_DOWN] = "model.layers.#.block_sparse_moe.output_linear.weight",
    [CDZ_PART_SHARED_GATE_UP] = "model.layers.#.shared_mlp.input_linear",
    [CDZ_PART_SHARED_DOWN] = "model.layers.#.shared_mlp.output_linear",
};

static const char *const falcon_h1_names[CDZ_N_PARTS] = {
    ATTENTION,
    SSD("model.layers.#.mamba"),
    [CDZ_PART_EMBED] = "model.embed_tokens",
    [CDZ_PART_FINAL_NORM] = "model.final_layernorm",
    [CDZ_PART_HEAD] = "lm_head",
    [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm",
    [CDZ_PART_MLP_NORM] = "model.layers.#.pre_ff_layernorm",
    [CDZ_PART_GATE] = "model.layers.#.feed_forward.gate_proj",
    [CDZ_PART_UP] = "model.layers.#.feed_forward.up_proj",
    [CDZ_PART_DOWN] = "model.layers.#.feed_forward.down_proj",
};

static const char *const nemotron_h_names[CDZ_N_PARTS] = {
    SSD("backbone.layers.#.mixer"),
    [CDZ_PART_EMBED] = "backbone.embeddings",
    [CDZ_PART_FINAL_NORM] = "backbone.norm_f",
    [CDZ_PART_HEAD] = "lm_head",
    [CDZ_PART_ATTN_NORM] = "backbone.layers.#.norm",
    [CDZ_PART_MLP_NORM] = "backbone.layers.#.norm",
    [CDZ_PART_Q] = "backbone.layers.#.mixer.q_proj",
    [CDZ_PART_K] = "backbone.layers.#.mixer.k_proj",
    [CDZ_PART_V] = "backbone.layers.#.mixer.v_proj",
    [CDZ_PART_O] = "backbone.layers.#.mixer.o_proj",
    [CDZ_PART_UP] = "backbone.layers.#.mixer.up_proj",
    [CDZ_PART_DOWN] = "backbone.layers.#.mixer.down_proj",
    [CDZ_PART_ROUTER] = "backbone.layers.#.mixer.gate",
    [CDZ_PART_ROUTER_BIAS] = "backbone.layers.#.mixer.gate.e_score_correction_bias",
    [CDZ_PART_EXPERT_UP] = "backbone.layers.#.mixer.experts.@.up_proj",
    [CDZ_PART_EXPERT_DOWN] = "backbone.layers.#.mixer.experts.@.down_proj",
    [CDZ_PART_SHARED_UP] = "backbone.layers.#.mixer.shared_experts.up_proj",
    [CDZ_PART_SHARED_DOWN] = "backbone.layers.#.mixer.shared_experts.down_proj",
    [CDZ_PART_LATENT_IN] = "backbone.layers.#.mixer.fc1_latent_proj",
    [CDZ_PART_LATENT_OUT] = "backbone.layers.#.mixer.fc2_latent_proj",
};

#define DELTA                                                                                      \
    [CDZ_PART_MIX_CONV] = "model.layers.#.linear_attn.conv1d",                                     \
    [CDZ_PART_MIX_RATE] = "model.layers.#.linear_attn.A_log",                                      \
    [CDZ_PART_MIX_SHIFT] = "model.layers.#.linear_attn.dt_bias",                                   \
    [CDZ_PART_MIX_NORM] = "model.layers.#.linear_attn.norm",                                       \
    [CDZ_PART_MIX_OUT] = "model.layers.#.linear_attn.out_proj"
#define DELTA_APART                                                                                \
    [CDZ_PART_MIX_VALUES] = "model.layers.#.linear_attn.in_proj_qkv",                              \
    [CDZ_PART_MIX_GATE] = "model.layers.#.linear_attn.in_proj_z",                                  \
    [CDZ_PART_MIX_SHARE] = "model.layers.#.linear_attn.in_proj_b",                                 \
    [CDZ_PART_MIX_DECAY] = "model.layers.#.linear_attn.in_proj_a"
/* Published files of Qwen3.5 have the experts of a layer in one tensor. */
#define QWEN_EXPERTS                                                                               \
    MLP_EXPERTS,                                                                                   \
        SHARED_EXPERT, [CDZ_PART_EXPERTS_GATE_UP] = "model.layers.#.mlp.experts.gate_up_proj",     \
                       [CDZ_PART_EXPERTS_DOWN] = "model.layers.#.mlp.experts.down_proj",           \
                       [CDZ_PART_SHARED_ROUTER] = "model.layers.#.mlp.shared_expert_gate"

static const char *const qwen3_next_names[CDZ_N_PARTS] = {
    ENDS,
    PRE_NORMS,
    ATTENTION,
    QK_NORMS,
    GATED,
    QWEN_EXPERTS,
    DELTA,
    [CDZ_PART_MIX_IN] = "model.layers.#.linear_attn.in_proj_qkvz",
    [CDZ_PART_MIX_GATES] = "model.layers.#.linear_attn.in_proj_ba",
};

static const char *const qwen3_5_names[CDZ_N_PARTS] = {ENDS,  PRE_NORMS, ATTENTION,  QK_NORMS,
                                                       GATED, DELTA,     DELTA_APART};

static const char *const qwen3_5_moe_names[CDZ_N_PARTS] = {
    ENDS, PRE_NORMS, ATTENTION, QK_NORMS, QWEN_EXPERTS, DELTA, DELTA_APART};

/* --- keys ---------------------------------------------------------------------------------- */

static const cdz_key_names norm_eps_keys = {SIZE_KEYS, .activation = "hidden_act",
                                            .eps = "norm_eps"};
static const cdz_key_names mamba2_keys = {.hidden = "hidden_size",
                                          .layers = "num_hidden_layers",
                                          .eps = "layer_norm_epsilon",
                                          .activation = "hidden_act"};
static const cdz_key_names nemotron_h_keys = {.hidden = "hidden_size",
                                              .layers = "num_hidden_layers",
                                              .heads = "num_attention_heads",
                                              .context = "max_position_embeddings",
                                              .eps = "layer_norm_epsilon",
                                              .activation = "mlp_hidden_act"};
/* Without a feed-forward that is dense. */
static const cdz_key_names sparse_keys = {.hidden = "hidden_size",
                                          .layers = "num_hidden_layers",
                                          .heads = "num_attention_heads",
                                          .context = "max_position_embeddings",
                                          .eps = "rms_norm_eps",
                                          .activation = "hidden_act"};

/* --- recurrent mixers ---------------------------------------------------------------------- */

static const cdz_recurrent_rules short_conv = {
    .kind = CDZ_MIX_CONV,
    .types = "layer_types",
    .attention_list = "full_attn_idxs",
    .word = "conv",
    .attention_word = "full_attention",
    .taps = {"conv_L_cache", NULL, 3},
    .conv_bias = "conv_bias",
    .in_bias = "conv_bias",
    .out_bias = "conv_bias",
};

static const cdz_recurrent_rules mamba2 = {
    .kind = CDZ_MIX_SSD,
    .no_feed = true,
    .usually_recurrent = true,
    .taps = {"conv_kernel", NULL, 4},
    .heads = {"num_heads", NULL, 128},
    .groups = {"n_groups", NULL, 8},
    .rows = {"state_size", NULL, 128},
    .columns = {"head_dim", NULL, 64},
    .expand = "expand",
    .usual_expand = 2,
    .conv_bias = "use_conv_bias",
    .usual_conv_bias = true,
    .in_bias = "use_bias",
    .out_bias = "use_bias",
    .limit = "time_step_limit",
    .norm = CDZ_GATED_WHOLE,
};

#define MAMBA_KEYS                                                                                 \
    .kind = CDZ_MIX_SSD, .taps = {"mamba_d_conv", NULL, 4}, .heads = {"mamba_n_heads", NULL, 128}, \
    .groups = {"mamba_n_groups", NULL, 1}, .rows = {"mamba_d_state", NULL, 256},                   \
    .columns = {"mamba_d_head", NULL, 0}, .expand = "mamba_expand", .usual_expand = 2,             \
    .conv_bias = "mamba_conv_bias", .usual_conv_bias = true, .in_bias = "mamba_proj_bias",         \
    .limit = "time_step_limit"

static const cdz_recurrent_rules granite_mamba = {
    MAMBA_KEYS,
    .types = "layer_types",
    .old_types = "layers_block_type",
    .attention_list = "attn_layer_indices",
    .word = "mamba",
    .attention_word = "attention",
    .usually_recurrent = true,
    .out_bias = "mamba_proj_bias",
    .norm = CDZ_GATED_WHOLE,
};

static const cdz_recurrent_rules falcon_mamba = {
    MAMBA_KEYS,
    .beside = true,
    .inner = "mamba_d_ssm",
    .usual_inner = 1024,
    .out_bias = "projectors_bias",
    .norm = CDZ_GATED_ONLY,
    .norm_keys = true,
    .multiplied = true,
};

static const cdz_recurrent_rules nemotron_mamba = {
    .kind = CDZ_MIX_SSD,
    .alone = true,
    .types = "layers_block_type",
    .letters = "hybrid_override_pattern",
    .word = "mamba",
    .attention_word = "attention",
    .feed_word = "moe",
    .plain_word = "mlp",
    .taps = {"conv_kernel", "mamba_d_conv", 4},
    .heads = {"mamba_num_heads", NULL, 128},
    .groups = {"n_groups", "mamba_n_groups", 8},
    .rows = {"ssm_state_size", NULL, 128},
    .columns = {"mamba_head_dim", NULL, 64},
    .conv_bias = "use_conv_bias",
    .usual_conv_bias = true,
    .in_bias = "use_bias",
    .out_bias = "use_bias",
    .curve = "mamba_hidden_act",
    .least = "time_step_min",
    .norm = CDZ_GATED_GROUPS,
};

static const cdz_recurrent_rules qwen_delta = {
    .kind = CDZ_MIX_DELTA,
    .types = "layer_types",
    .interval = "full_attention_interval",
    .usual_interval = 4,
    .word = "linear_attention",
    .attention_word = "full_attention",
    .taps = {"linear_conv_kernel_dim", NULL, 4},
    .heads = {"linear_num_value_heads", NULL, 32},
    .groups = {"linear_num_key_heads", NULL, 16},
    .rows = {"linear_key_head_dim", NULL, 128},
    .columns = {"linear_value_head_dim", NULL, 128},
    .norm = CDZ_GATED_HEADS,
};

/* --- experts ------------------------------------------------------------------------------- */

static const cdz_expert_rules lfm2_experts = {
    .count = "num_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 4,
    .sparse = CDZ_SPARSE_AFTER_FIRST,
    .first_key = "num_dense_layers",
    .first_dense = 2,
    .router = {.score = CDZ_ROUTE_SIGMOID,
               .biased = true,
               .normalise = true,
               .sum_add = 1e-6f,
               .scale = 1},
    .bias_key = "use_expert_bias",
    .normalise_key = true,
    .scale_key = true,
};

static const cdz_expert_rules granite_experts = {
    .count = "num_local_experts",
    .active = "num_experts_per_tok",
    .n_active = 2,
    .may_lack = true,
    .shared_inner = "shared_intermediate_size",
    .router = {.normalise = true, .scale = 1},
};

static const cdz_expert_rules nemotron_experts = {
    .count = "n_routed_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 2,
    .shared_inner = "moe_shared_expert_intermediate_size",
    .latent_key = "moe_latent_size",
    .router = {.score = CDZ_ROUTE_SIGMOID,
               .biased = true,
               .normalise = true,
               .sum_add = 1e-20f,
               .scale = 1},
    .normalise_key = true,
    .scale_key = true,
    .group_keys = true,
};

static const cdz_expert_rules qwen3_next_experts = {
    .count = "num_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 10,
    .sparse = CDZ_SPARSE_BY_STEP,
    .shared_inner = "shared_expert_intermediate_size",
    .router = {.normalise = true, .scale = 1},
    .normalise_key = true,
};

static const cdz_expert_rules qwen3_5_experts = {
    .count = "num_experts",
    .active = "num_experts_per_tok",
    .inner = "moe_intermediate_size",
    .n_active = 8,
    .shared_inner = "shared_expert_intermediate_size",
    .router = {.normalise = true, .scale = 1},
};

/* --- families ------------------------------------------------------------------------------ */

#define QWEN_DELTA                                                                                 \
    .biases = CDZ_BIAS_ATTENTION, .recurrent = &qwen_delta, .attention_gate = true,                \
    .norm_offset = 1, .qk_norm = CDZ_QK_HEAD, .context = 32768, .head_dim = 256,                   \
    .partial_rotary = 0.25

static const cdz_family families[] = {
    {.model_type = "lfm2",
     .architecture = "Lfm2ForCausalLM",
     .names = lfm2_names,
     .keys = &norm_eps_keys,
     .recurrent = &short_conv,
     .adjusts_inner = true,
     .old_tied = true,
     .qk_norm = CDZ_QK_HEAD,
     .context = 128000,
     .n_kv_heads = 8,
     .theta = 1e6,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "lfm2_moe",
     .architecture = "Lfm2MoeForCausalLM",
     .names = lfm2_moe_names,
     .keys = &norm_eps_keys,
     .recurrent = &short_conv,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &lfm2_experts,
     .old_tied = true,
     .qk_norm = CDZ_QK_HEAD,
     .context = 128000,
     .n_kv_heads = 8,
     .theta = 1e6,
     .eps = 1e-5,
     .tied = true},
    {.model_type = "mamba2",
     .architecture = "Mamba2ForCausalLM",
     .names = mamba2_names,
     .keys = &mamba2_keys,
     .recurrent = &mamba2,
     .eps = 1e-5},
    {.model_type = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .names = granite_hybrid_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_ATTENTION,
     .recurrent = &granite_mamba,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &granite_experts,
     .rope_by_type = true,
     .multipliers = true,
     .scales_given = true,
     .context = 2048},
    {.model_type = "falcon_h1",
     .architecture = "FalconH1ForCausalLM",
     .names = falcon_h1_names,
     .keys = &cdz_family_rms_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .recurrent = &falcon_mamba,
     .context = 8192,
     .n_kv_heads = 8,
     .eps = 1e-5},
    {.model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .names = nemotron_h_names,
     .keys = &nemotron_h_keys,
     .biases = CDZ_BIAS_BY_KEY,
     .recurrent = &nemotron_mamba,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &nemotron_experts,
     .no_rotation = true,
     .activation = "relu2",
     .context = 4096,
     .n_kv_heads = 8,
     .head_dim = 128,
     .eps = 1e-5},
    {.model_type = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .names = qwen3_next_names,
     .keys = &cdz_family_rms_keys,
     QWEN_DELTA,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &qwen3_next_experts,
     .n_kv_heads = 2},
    {.model_type = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .names = qwen3_5_names,
     .keys = &cdz_family_rms_keys,
     QWEN_DELTA,
     .n_kv_heads = 4},
    {.model_type = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     .names = qwen3_5_moe_names,
     .keys = &sparse_keys,
     QWEN_DELTA,
     .experts = CDZ_EXPERTS_ROUTED,
     .routing = &qwen3_5_experts,
     .n_kv_heads = 2},
};

cdz_family_list cdz_families_hybrid(void)
{
    return (cdz_family_list){families, sizeof families / sizeof *families};
}
