/* arch.h - an architecture as data: what config.json says, checked, in the words of the decoder
 * block.
 *
 * One decoder block runs every family; a family is a row of the table in families.c (how its
 * keys are read, how its tensors are called). The name map says the block's structure too: a
 * part without a name is not there. What transformers would take as a default is taken here
 * too, except for the sizes, which must be given. */
#ifndef CDZ_HOST_LOAD_ARCH_H
#define CDZ_HOST_LOAD_ARCH_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "kernels.h"

/* The tensors of a model by role. A family's name map gives the stem; ".weight" and ".bias"
 * follow it. */
typedef enum cdz_arch_part {
    CDZ_PART_EMBED,
    CDZ_PART_POSITIONS,  /* learned positions */
    CDZ_PART_EMBED_NORM, /* of what is embedded */
    CDZ_PART_RELATIVE,   /* attention's addends by distance, of all layers */
    CDZ_PART_FINAL_NORM,
    CDZ_PART_HEAD,
    CDZ_PART_HEAD_BIAS, /* the stem is the whole name */
    CDZ_PART_ATTN_NORM, /* before attention; from here on one per layer: '#' in the stem is the layer's number */
    CDZ_PART_Q,
    CDZ_PART_K,
    CDZ_PART_V,
    CDZ_PART_QKV, /* the three in one tensor */
    CDZ_PART_O,
    CDZ_PART_Q_NORM,
    CDZ_PART_K_NORM,
    CDZ_PART_ATTN_POST_NORM, /* of what attention gives */
    CDZ_PART_CROSS_NORM,     /* attention of a decoder to what its encoder made */
    CDZ_PART_CROSS_Q,
    CDZ_PART_CROSS_K,
    CDZ_PART_CROSS_V,
    CDZ_PART_CROSS_O,
    CDZ_PART_CROSS_POST_NORM,
    CDZ_PART_MLP_NORM,
    CDZ_PART_GATE, /* without one: down(act(up)) */
    CDZ_PART_UP,
    CDZ_PART_GATE_UP, /* both in one tensor, gate first */
    CDZ_PART_DOWN,
    CDZ_PART_MLP_POST_NORM,
    CDZ_PART_ROUTER,      /* one row per expert */
    CDZ_PART_ROUTER_BIAS, /* on what experts are chosen by; the stem is the whole name */
    CDZ_PART_EXPERT_GATE, /* '@' is the expert's number */
    CDZ_PART_EXPERT_UP,
    CDZ_PART_EXPERT_DOWN,
    CDZ_PART_EXPERTS_GATE_UP, /* of all experts, gate first; the stem is the whole name */
    CDZ_PART_EXPERTS_DOWN,    /* the same */
    CDZ_PART_SHARED_ROUTER,   /* one row: how much of the shared expert */
    CDZ_PART_SHARED_GATE,     /* the expert that every row goes to */
    CDZ_PART_SHARED_UP,
    CDZ_PART_SHARED_DOWN,
    CDZ_N_PARTS,
} cdz_arch_part;

typedef struct cdz_family cdz_family; /* a row of the table */

typedef enum cdz_activation {
    CDZ_ACT_SILU,
    CDZ_ACT_GELU,
    CDZ_ACT_GELU_TANH,
    CDZ_ACT_RELU,
    CDZ_ACT_RELU2, /* relu squared */
} cdz_activation;
typedef enum cdz_rope_type {
    CDZ_ROPE_DEFAULT,
    CDZ_ROPE_LINEAR,
    CDZ_ROPE_LLAMA3,
    CDZ_ROPE_YARN,
    CDZ_ROPE_DYNAMIC,
    CDZ_ROPE_LONGROPE,
} cdz_rope_type;

/* y = x / rms * (offset + w), or (x - mean) / deviation * w + bias */
typedef enum cdz_norm_kind { CDZ_NORM_RMS, CDZ_NORM_LAYER } cdz_norm_kind;

/* Norms of queries and keys, before the rotation unless qk_norm_last. */
typedef enum cdz_qk_norm { CDZ_QK_NONE, CDZ_QK_HEAD, CDZ_QK_ALL } cdz_qk_norm;

/* How q, k and v lie in one tensor: all of q, of k, of v; or the three of one head together. */
typedef enum cdz_fused { CDZ_FUSED_PARTS, CDZ_FUSED_HEADS } cdz_fused;

struct cdz_key_names;

/* What a router's numbers become before experts are chosen by them. */
typedef enum cdz_route_score {
    CDZ_ROUTE_SOFTMAX, /* over all experts */
    CDZ_ROUTE_SIGMOID,
} cdz_route_score;

/* Queries grow with their position p: times 1 + by * ln(1 + floor((p + ahead) / every)). */
typedef struct cdz_temper {
    double by, every; /* every 0: they do not */
    uint32_t ahead;
    bool unrotated; /* of layers that do not rotate alone */
} cdz_temper;

/* How rows find their experts, and what they take of them. */
typedef struct cdz_router {
    cdz_route_score score;
    bool biased; /* experts are chosen by score plus a bias, which enters no weight */
    /* Of so many groups only the best stay, by the sum of their two best; 0 or 1: there are none. The others' experts count as
     * 0. */
    uint32_t n_groups, groups_kept;
    bool normalise;   /* the chosen weights sum to 1 */
    float sum_add;    /* what is added to that sum before it divides */
    float sum_least;  /* and what it is at least */
    float scale;      /* on the weights; 1: none */
    bool into_inputs; /* the weight multiplies what the expert reads, not what it gives */
} cdz_router;

/* One stack of layers: a decoder, or the encoder that one reads from. */
typedef struct cdz_arch {
    const cdz_family *family;
    const char *const *names;         /* [CDZ_N_PARTS] the family's, or those of another format */
    const struct cdz_key_names *keys; /* how config.json spells this stack's sizes */
    const struct cdz_arch *encoder;   /* what the decoder reads from; NULL: a decoder alone */
    const char *model_type;           /* "llama" */
    const char *part_of;      /* the model whose text part this is: "mistral3"; NULL: none */
    const char *architecture; /* "LlamaForCausalLM" */
    const char *dtype;        /* what config.json says; the files decide. "" when it does not say */

    uint32_t n_layers, hidden, intermediate, n_vocab;
    uint32_t n_heads, n_kv_heads, head_dim;
    /* max_position_embeddings, times the factor of the dynamic rope type; 0: no limit */
    uint32_t context;
    const uint32_t *window; /* (n_layers) positions a layer sees, its own included; 0: all */
    bool has_window;        /* some layer has one */
    bool window_blocks;     /* a window is the block of so many positions that a position is in */

    cdz_norm_kind norm;
    float norm_eps, norm_offset;
    cdz_qk_norm qk_norm;
    bool qk_norm_last; /* after the rotation */
    cdz_temper temper;
    bool norm_after_sum;   /* a sublayer's post norm is of x with what was added */
    float embed_scale;     /* on what is embedded; 1: none */
    bool scales_given;     /* on embeddings given as prompt as well */
    float residual_scale;  /* on what a sublayer gives; 1: none */
    float head_scale;      /* on what the head reads; 1: none */
    float attention_scale; /* head_dim ** -0.5, or what config.json says */
    bool scale_by_layer;   /* layer i divides it by i + 1 */
    float attention_cap;   /* soft caps of attention's and of the head's scores; 0: none */
    float final_cap;
    bool parallel_residual; /* attention and feed-forward read the same x */
    cdz_activation activation;
    bool qkv_bias, o_bias, mlp_bias;
    cdz_fused fused;
    bool conv1d; /* weights of the layers are stored (inputs, outputs) */

    uint32_t n_experts, n_active, expert_intermediate; /* n_experts 0: none */
    uint32_t shared_intermediate; /* of the expert that every row goes to; 0: there is none */
    cdz_router router;
    const bool *sparse; /* (n_layers) which layers have experts */
    bool tied;          /* what config.json asks for; cdz_weights.tied tells what came of it */

    cdz_rope_type rope_type;
    double rope_theta, rope_factor; /* factor 1 for the default type */
    uint32_t rope_old_context;  /* positions before they were stretched (llama3, yarn, longrope) */
    cdz_rope rope;              /* frequencies in the arena; n_rotated 0: no rotation */
    cdz_rope local_rope;        /* of layers with a window, where they have their own */
    uint32_t rope_limit;        /* longer rows rotate otherwise; 0: no length matters */
    const float *long_inv_freq; /* theirs; NULL: made for each length (dynamic) */
    const bool *no_rope;        /* (n_layers) layers without positions; NULL: none is */

    uint32_t position_offset; /* row of position 0 in the table of positions */
    bool hidden_count;        /* hidden tokens have positions too */
    uint32_t n_buckets;       /* of distances; 0: positions are not relative */
    uint32_t bucket_distance; /* all longer ones are alike */
} cdz_arch;

/* Reads a parsed config.json. path: the file in sentences. Strings and arrays live in the arena
 * (or in config). */
cdz_status cdz_arch_read(const cdz_json *config, const char *path, cdz_arena *arena, cdz_arch *out,
                         cdz_error *err);

/* Does the family have this part? */
bool cdz_arch_has(const cdz_arch *arch, cdz_arch_part part);

/* The rotation of a layer, or NULL. */
const cdz_rope *cdz_arch_rope(const cdz_arch *arch, uint32_t layer);

/* Has every position its own embedding, so that there are no more than `context`? */
bool cdz_arch_positions_learned(const cdz_arch *arch);
/* The same for embeddings learned or computed. */
bool cdz_arch_has_positions(const cdz_arch *arch);
bool cdz_arch_rotates(const cdz_arch *arch); /* some layer may */
/* Do hidden tokens between visible ones change what is near what? */
bool cdz_arch_needs_whole_mask(const cdz_arch *arch);

/* The first component of the names, such as "model.", that files of the bare model leave out. */
size_t cdz_arch_prefix(const cdz_arch *arch, const char **prefix);

/* A part's stem with '#' replaced by the layer, '@' by the expert, and suffix after it:
 * "model.layers.3.mlp.up_proj.weight". Returns buf. */
const char *cdz_arch_tensor_name(const cdz_arch *arch, cdz_arch_part part, uint32_t layer,
                                 uint32_t expert, const char *suffix, char *buf, size_t size);

/* True for tensors that some releases stored but no one reads, such as rotary frequencies. */
bool cdz_arch_tensor_is_harmless(const cdz_arch *arch, const char *name);

/* The i-th supported model type; NULL: there are not so many. */
const char *cdz_arch_model_type(size_t i);

/* inv_freq[i] = 1 / theta^(2i / n_rotated) in float32, as transformers computes it; scaled by
 * the rope type later. */
void cdz_rope_frequencies(float *inv_freq, size_t n_rotated, double theta);

/* The rotation of rows that run where the longest has `length` positions. made (n_rotated / 2):
 * room for frequencies of that length alone, needed where rope_limit is set and long_inv_freq
 * is not. */
cdz_rope cdz_rope_at(const cdz_arch *arch, uint32_t length, float *made);

#endif
