/* families.h - what a row of the table of families says: how a family's config.json is read and
 * how its tensors are called. */
#ifndef CDZ_HOST_LOAD_FAMILIES_H
#define CDZ_HOST_LOAD_FAMILIES_H

#include "load/arch.h"

typedef enum cdz_bias_rule {
    CDZ_BIAS_NEVER,
    CDZ_BIAS_BY_KEY,    /* attention_bias: q, k, v and o; mlp_bias */
    CDZ_BIAS_ATTENTION, /* attention_bias alone */
    CDZ_BIAS_QKV,       /* always q, k and v, nothing else */
    CDZ_BIAS_ALL,       /* always all */
    CDZ_BIAS_NEOX,      /* attention_bias, true unless given; the feed-forward always */
    CDZ_BIAS_USE,       /* use_bias, true unless given: all */
    CDZ_BIAS_USE_QKV,   /* use_qkv_bias: q, k and v */
    CDZ_BIAS_QKV_KEY,   /* attention_bias: q, k and v */
    CDZ_BIAS_QKV_NAMED, /* qkv_bias: q, k and v */
    CDZ_BIAS_APART,     /* attention_bias: q, k and v; attention_out_bias: o; mlp_bias */
    CDZ_BIAS_MLP,       /* always the feed-forward, nothing else */
    CDZ_BIAS_NAMED,     /* bias: all */
} cdz_bias_rule;

typedef enum cdz_window_rule {
    CDZ_WINDOW_NEVER,
    CDZ_WINDOW_ALL,         /* sliding_window, every layer */
    CDZ_WINDOW_ALL_IF_USED, /* the same where use_sliding_window says so */
    CDZ_WINDOW_BY_LAYER, /* use_sliding_window; layer_types, or layers from max_window_layers on */
    CDZ_WINDOW_NO_ROPE,  /* use_sliding_window; layer_types, or the layers without rotation */
    CDZ_WINDOW_PATTERN,  /* layer_types, or all but each nth layer */
    CDZ_WINDOW_BLOCKS,   /* attention_chunk_size; layer_types, or the layers that rotate */
} cdz_window_rule;

typedef enum cdz_expert_rule {
    CDZ_EXPERTS_NEVER,
    CDZ_EXPERTS_ALL,      /* every layer, as wide as intermediate_size */
    CDZ_EXPERTS_BY_LAYER, /* decoder_sparse_step, mlp_only_layers; moe_intermediate_size */
    CDZ_EXPERTS_ROUTED,   /* as the family's cdz_expert_rules says */
} cdz_expert_rule;

/* Do scores fall with distance, in place of a rotation? */
typedef enum cdz_alibi_rule {
    CDZ_ALIBI_NEVER,
    CDZ_ALIBI_ALWAYS,
    CDZ_ALIBI_ATTN_CONFIG, /* and the scale of scores, and modes, are in an object of that name */
} cdz_alibi_rule;

/* What positions are told by that are computed: sines, then cosines, of waves 10000^(i / n) long. */
typedef enum cdz_sines {
    CDZ_SINES_NEVER,
    CDZ_SINES_BY_WIDTH,   /* n: half of the width */
    CDZ_SINES_TO_THE_END, /* n: one less, so that the last one has 10000; padding, pad_token_id, has no position and is not counted */
} cdz_sines;

/* A t5's rules: feed_forward_proj names activation and gate, `activation` being its default. Is what its head reads scaled by
 * d_model^-0.5? */
typedef enum cdz_t5_rules {
    CDZ_T5_NOT,
    CDZ_T5_SCALED_BY_KEY, /* scale_decoder_outputs, else tie_word_embeddings */
    CDZ_T5_UNSCALED,
    CDZ_T5_SCALED,
} cdz_t5_rules;

/* Are embeddings scaled by the square root of their width? */
typedef enum cdz_scale_rule {
    CDZ_SCALE_NEVER,
    CDZ_SCALE_IF_SAID, /* scale_embedding, false unless given */
    CDZ_SCALE_UNLESS_SAID,
} cdz_scale_rule;

/* Do attention and feed-forward read the same x? */
typedef enum cdz_parallel_rule {
    CDZ_PARALLEL_NEVER,
    CDZ_PARALLEL_UNLESS_SAID, /* use_parallel_residual, true unless given; each has a norm */
    CDZ_PARALLEL_IF_SAID,     /* the same, false unless given; then they share a norm */
    CDZ_PARALLEL_ONE_NORM,    /* always, and share a norm */
} cdz_parallel_rule;

/* Which layers rotate. */
typedef enum cdz_rope_rule {
    CDZ_ROPE_EVERYWHERE,
    CDZ_ROPE_IN_WINDOWS,        /* layers with a window */
    CDZ_ROPE_IN_WINDOWS_IF_ANY, /* the same unless sliding_window is null */
} cdz_rope_rule;

/* Which layers have experts. */
typedef enum cdz_sparse_rule {
    CDZ_SPARSE_ALL,
    CDZ_SPARSE_BY_STEP,     /* decoder_sparse_step, mlp_only_layers */
    CDZ_SPARSE_AFTER_FIRST, /* from first_k_dense_replace on */
    CDZ_SPARSE_INTERVAL,    /* moe_layer_interval, moe_layer_start_index, moe_layer_end_index */
    CDZ_SPARSE_INTERLEAVED, /* moe_layers, or every interleave_moe_layer_step-th */
} cdz_sparse_rule;

/* How a family's experts are told. Keys that are NULL are not read. */
typedef struct cdz_expert_rules {
    const char *count, *active;
    const char *inner;              /* NULL: intermediate_size */
    uint32_t n_active;              /* default of that key; 0: required */
    uint32_t only_active;           /* and its only value; 0: any */
    uint32_t n_groups, groups_kept; /* defaults of n_group, topk_group; 0: 1 */
    cdz_sparse_rule sparse;
    uint32_t first_dense;   /* default of first_k_dense_replace */
    const char *first_key;  /* or of this key in its place */
    const char *bias_key;   /* router.biased */
    const char *latent_key; /* expert_width; may be null */
    bool may_lack; /* a count of 0: the shared expert is all that there is, as a feed-forward */
    /* The expert that every row goes to: its width, or how many experts' widths it has. */
    const char *shared_inner, *shared_count;
    uint32_t n_shared;
    cdz_router router;  /* with the defaults of what follows */
    bool normalise_key; /* norm_topk_prob */
    bool scale_key;     /* routed_scaling_factor */
    bool method_key; /* topk_method: greedy, or group_limited_greedy, which reads n_group and topk_group */
    bool group_keys;         /* n_group, topk_group */
    const char *least_key;   /* router.sum_least */
    const char *near_key;    /* half of router.near */
    bool transposed;         /* experts that lie in one tensor lie as (experts, inputs, outputs) */
    bool interleaved;        /* a gate's row, then an up's row, and so on */
    bool biased;             /* experts have biases, and so has the router's map */
    const char *dense_inner; /* width of the layers without experts; NULL: intermediate_size */
} cdz_expert_rules;

/* A size, under a key or an older one; 0: required. */
typedef struct cdz_size_key {
    const char *key, *old_key;
    uint32_t usual;
} cdz_size_key;

/* How a family's recurrent mixer is told. Keys that are NULL are not read. */
typedef struct cdz_recurrent_rules {
    cdz_mixer kind;
    bool beside;  /* attention in the same layer */
    bool alone;   /* a layer is a mixer or a feed-forward */
    bool no_feed; /* there are no feed-forwards */
    /* Which layers: a list of words, else of letters, else of the layers with attention, else all but each nth; else all are
     * recurrent, or none is. */
    const char *types, *old_types, *letters, *attention_list, *interval;
    const char *word, *attention_word, *feed_word;
    const char *plain_word; /* a feed-forward without experts, as wide as intermediate_size */
    uint32_t usual_interval;
    bool usually_recurrent;
    cdz_size_key taps, heads, groups, rows, columns;
    const char *inner, *expand; /* columns "auto": what heads share */
    uint32_t usual_inner, usual_expand;
    const char *conv_bias, *in_bias, *out_bias;
    bool usual_conv_bias;
    const char *curve;         /* of the convolution; NULL: the block's. silu alone */
    const char *limit, *least; /* of a step: a pair, or its lower end alone */
    cdz_gated_norm norm;
    bool norm_keys;  /* mamba_rms_norm, mamba_norm_before_gate */
    bool multiplied; /* ssm_multipliers and those of the rest of the block */
    bool by_groups;  /* the rows of CDZ_PART_MIX_IN and CDZ_PART_MIX_GATES lie group by group */
} cdz_recurrent_rules;

/* The keys that families spell differently; NULL: there is none. */
typedef struct cdz_key_names {
    const char *hidden, *intermediate, *layers, *heads, *context, *eps, *activation;
    const char *head_dim, *vocab;
} cdz_key_names;

/* A key that the block can follow with one value alone, which is its default. */
typedef struct cdz_only_value {
    const char *key;
    bool value;
} cdz_only_value;

struct cdz_family {
    const char *model_type, *architecture;
    const char *const *names; /* [CDZ_N_PARTS] */
    const cdz_key_names *keys;
    /* Of a pair. other_*: with a gated feed-forward, or with an embedding each. */
    const char *const *encoder_names, *const *other_names, *const *other_encoder_names;
    const cdz_key_names *encoder_keys;
    const char *const *embed_aliases; /* names of the embedding in older files, NULL-terminated */

    cdz_bias_rule biases;
    cdz_window_rule window;
    cdz_expert_rule experts;
    const cdz_expert_rules *routing;      /* of CDZ_EXPERTS_ROUTED */
    const cdz_recurrent_rules *recurrent; /* NULL: attention alone */
    bool attention_gate;                  /* q_proj has a gate of as many rows after each head's */
    bool rope_by_type;  /* layers rotate where position_embedding_type is "rope" */
    bool no_rotation;   /* none does */
    bool old_tied;      /* tie_embedding is read too */
    bool adjusts_inner; /* block_auto_adjust_ff_dim and what it is made of */
    cdz_norm_kind norm;
    float norm_offset;
    bool norm_no_bias;   /* layer norms have a weight alone */
    bool norm_no_weight; /* nor that */
    cdz_qk_norm qk_norm;
    bool qk_norm_last; /* after the rotation */
    const char *
        qk_norm_key; /* false unless given, says whether there are such norms; NULL: they are always there */
    bool qk_norm_bare; /* they have no weights, and layers that rotate have them alone; use_qk_norm is true unless given */
    bool tempered;    /* attn_temperature_tuning, attn_scale, floor_scale */
    bool temper_beta; /* llama_4_scaling_beta of the rope's description */
    bool latent; /* kv_lora_rank, q_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim */
    bool rope_interleave; /* the key of that name is read, true unless given */
    bool clamped;         /* gates by clamped numbers, whatever hidden_act says */
    bool clips;           /* clip_qkv is read, and refused */
    cdz_fused fused;
    bool conv1d, scaled_embedding, scales_given, gpt2_scales, no_rope_layers, local_rope;
    cdz_parallel_rule parallel;
    bool layout_keys; /* falcon's: new_decoder_architecture, multi_query, parallel_attn, num_ln_in_parallel_attn; other_names
                              have two norms before a layer */
    bool streams;     /* altup_num_inputs and what belongs to it; num_kv_shared_layers */
    cdz_alibi_rule alibi;
    bool mscales; /* longrope's short_mscale and long_mscale, required, in place of attention_factor */
    const struct cdz_key_alias *aliases; /* of keys; ends with a key of NULL; or NULL */
    bool multipliers; /* embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling */
    bool interleaved; /* a head's pairs are neighbours */
    bool rope_alpha;  /* "dynamic" with alpha is a larger theta, whatever the length */
    cdz_rope_rule rope_rule;
    bool only_longrope; /* its releases call that "su" or "yarn" */
    bool norm_after_sum, unscaled, hidden_count, relative;
    cdz_sines sines;
    bool runs_whole; /* transformers' forward runs all layers, whatever num_hidden_layers has become */
    const cdz_only_value *only; /* ends with a key of NULL; or NULL */
    bool inner_four; /* the feed-forward is four times as wide as the rest unless it is said */
    cdz_scale_rule scale_rule;
    cdz_t5_rules t5_rules;
    bool may_share_embed; /* share_encoder_decoder_embeddings, decoder_vocab_size are read */
    bool embed_norm_first; /* a decoder norms what is embedded before it adds positions; its encoder does after */
    uint32_t position_offset;

    /* Defaults of keys; 0 as the comment says. */
    uint32_t context;               /* max_position_embeddings */
    uint32_t n_kv_heads;            /* num_key_value_heads; 0: num_attention_heads */
    uint32_t head_dim;              /* 0: hidden_size / num_attention_heads */
    uint32_t rotary_dim;            /* rotary_dim; 0: no such key */
    uint32_t window_size;           /* sliding_window; 0: none */
    uint32_t window_pattern;        /* each nth layer sees everything */
    uint32_t query_scalar;          /* query_pre_attn_scalar; 0: no such key, head_dim */
    const char *activation;         /* NULL: silu */
    double theta;                   /* rope_theta; 0: 10000 */
    double eps;                     /* 0: 1e-6 */
    double partial_rotary;          /* partial_rotary_factor; 0: the key means nothing here */
    double logit_scale;             /* logit_scale; 0: no such key */
    bool bias;                      /* attention_bias and the like, where the rule asks for them */
    float attention_cap, final_cap; /* attn_logit_softcapping, final_logit_softcapping */
    bool caps;                      /* those keys are read */
    bool tied;                      /* tie_word_embeddings */
};

/* By model type where there is one, else by architecture; NULL: none. */
const cdz_family *cdz_family_find(const cdz_json *model_type, const cdz_json *architecture);

/* A part of the table, each in a file of its own. */
typedef struct cdz_family_list {
    const cdz_family *items;
    size_t n;
} cdz_family_list;

cdz_family_list cdz_families_dense(void);  /* families_dense.c */
cdz_family_list cdz_families_sparse(void); /* families_sparse.c */
cdz_family_list cdz_families_hybrid(void); /* families_hybrid.c */
cdz_family_list cdz_families_pairs(void);  /* families_pairs.c */

#endif
