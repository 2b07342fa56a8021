/* family_names.h - names of tensors that many families share, for the tables of families alone. */
#ifndef CDZ_HOST_LOAD_FAMILY_NAMES_H
#define CDZ_HOST_LOAD_FAMILY_NAMES_H

#include "load/families.h"

#define ENDS                                                                                       \
    [CDZ_PART_EMBED] = "model.embed_tokens", [CDZ_PART_FINAL_NORM] = "model.norm", [CDZ_PART_HEAD] = "lm_head"
#define PRE_NORMS                                                                                  \
    [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm", [CDZ_PART_MLP_NORM] =                 \
                                                                 "model.layers.#.post_attention_layernorm"
#define SANDWICH_NORMS                                                                             \
    [CDZ_PART_ATTN_NORM] = "model.layers.#.input_layernorm",                                       \
    [CDZ_PART_ATTN_POST_NORM] = "model.layers.#.post_attention_layernorm",                         \
    [CDZ_PART_MLP_NORM] = "model.layers.#.pre_feedforward_layernorm",                              \
    [CDZ_PART_MLP_POST_NORM] = "model.layers.#.post_feedforward_layernorm"
#define ATTENTION                                                                                       \
    [CDZ_PART_Q] = "model.layers.#.self_attn.q_proj", [CDZ_PART_K] = "model.layers.#.self_attn.k_proj", \
    [CDZ_PART_V] = "model.layers.#.self_attn.v_proj", [CDZ_PART_O] = "model.layers.#.self_attn.o_proj"
#define QK_NORMS                                                                                   \
    [CDZ_PART_Q_NORM] = "model.layers.#.self_attn.q_norm", [CDZ_PART_K_NORM] =                     \
                                                               "model.layers.#.self_attn.k_norm"
#define GATED                                                                                      \
    [CDZ_PART_GATE] = "model.layers.#.mlp.gate_proj",                                              \
    [CDZ_PART_UP] = "model.layers.#.mlp.up_proj", [CDZ_PART_DOWN] = "model.layers.#.mlp.down_proj"

#define FUSED_GATED                                                                                \
    [CDZ_PART_GATE_UP] = "model.layers.#.mlp.gate_up_proj", [CDZ_PART_DOWN] =                      \
                                                                "model.layers.#.mlp.down_proj"
#define MLP_EXPERTS                                                                                \
    [CDZ_PART_ROUTER] = "model.layers.#.mlp.gate",                                                 \
    [CDZ_PART_EXPERT_GATE] = "model.layers.#.mlp.experts.@.gate_proj",                             \
    [CDZ_PART_EXPERT_UP] = "model.layers.#.mlp.experts.@.up_proj",                                 \
    [CDZ_PART_EXPERT_DOWN] = "model.layers.#.mlp.experts.@.down_proj"
#define MIXTRAL_EXPERTS                                                                            \
    [CDZ_PART_ROUTER] = "model.layers.#.block_sparse_moe.gate",                                    \
    [CDZ_PART_EXPERT_GATE] = "model.layers.#.block_sparse_moe.experts.@.w1",                       \
    [CDZ_PART_EXPERT_UP] = "model.layers.#.block_sparse_moe.experts.@.w3",                         \
    [CDZ_PART_EXPERT_DOWN] = "model.layers.#.block_sparse_moe.experts.@.w2"
#define SHARED_EXPERTS                                                                             \
    [CDZ_PART_SHARED_GATE] = "model.layers.#.mlp.shared_experts.gate_proj",                        \
    [CDZ_PART_SHARED_UP] = "model.layers.#.mlp.shared_experts.up_proj",                            \
    [CDZ_PART_SHARED_DOWN] = "model.layers.#.mlp.shared_experts.down_proj"
#define SHARED_EXPERT                                                                              \
    [CDZ_PART_SHARED_GATE] = "model.layers.#.mlp.shared_expert.gate_proj",                         \
    [CDZ_PART_SHARED_UP] = "model.layers.#.mlp.shared_expert.up_proj",                             \
    [CDZ_PART_SHARED_DOWN] = "model.layers.#.mlp.shared_expert.down_proj"
#define LATE_NORMS                                                                                 \
    [CDZ_PART_ATTN_POST_NORM] = "model.layers.#.post_attention_layernorm",                         \
    [CDZ_PART_MLP_POST_NORM] = "model.layers.#.post_feedforward_layernorm"

/* Of the keys that families spell alike. */
#define SIZE_KEYS                                                                                  \
    .hidden = "hidden_size", .intermediate = "intermediate_size", .layers = "num_hidden_layers",   \
    .heads = "num_attention_heads", .context = "max_position_embeddings"
#define USUAL_KEYS SIZE_KEYS, .activation = "hidden_act"

/* Maps and keys that families of several files have: families.c. */
extern const char *const cdz_family_llama_names[CDZ_N_PARTS];
extern const char *const cdz_family_olmo2_names[CDZ_N_PARTS];
extern const char *const cdz_family_gpt2_names[CDZ_N_PARTS];
extern const cdz_key_names cdz_family_rms_keys, cdz_family_layer_keys, cdz_family_gpt2_keys;

#endif
