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
    CDZ_PART_SINKS, /* a score of each head that no position has; the stem is the whole name */
    CDZ_PART_Q_A,   /* of latent attention: queries by way of fewer numbers, and */
    CDZ_PART_Q_A_NORM,
    CDZ_PART_Q_B,
    CDZ_PART_KV_A, /* what is kept of a position, the rotated key last; */
    CDZ_PART_KV_A_NORM,
    CDZ_PART_KV_B, /* keys and values of each head from it; or the two apart, */
    CDZ_PART_K_B,  /* keys transposed */
    CDZ_PART_V_B,
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
    CDZ_PART_XIELU, /* the stem of the numbers that xielu has in each layer */
    CDZ_PART_MLP_POST_NORM,
    CDZ_PART_ROUTER,      /* one row per expert */
    CDZ_PART_ROUTER_BIAS, /* on what experts are chosen by; the stem is the whole name */
    CDZ_PART_EXPERT_GATE, /* '@' is the expert's number */
    CDZ_PART_EXPERT_UP,
    CDZ_PART_EXPERT_DOWN,
    CDZ_PART_EXPERTS_GATE_UP, /* of all experts, gate first; the stem is the whole name */
    CDZ_PART_EXPERTS_DOWN,    /* the same */
    CDZ_PART_EXPERTS_GATE_UP_BIAS,
    CDZ_PART_EXPERTS_DOWN_BIAS,
    CDZ_PART_SHARED_ROUTER, /* one row: how much of the shared expert */
    CDZ_PART_SHARED_GATE,   /* the expert that every row goes to */
    CDZ_PART_SHARED_UP,
    CDZ_PART_SHARED_GATE_UP, /* both in one tensor, gate first */
    CDZ_PART_SHARED_DOWN,
    CDZ_PART_LATENT_IN, /* what brings rows to the width that experts work in, and back */
    CDZ_PART_LATENT_OUT,
    CDZ_PART_MIX_IN,     /* of a recurrent mixer: all that it reads of x in one tensor */
    CDZ_PART_MIX_VALUES, /* or what goes through its convolution */
    CDZ_PART_MIX_GATE,   /* what gates its answer */
    CDZ_PART_MIX_SHARE,  /* how much of a state is replaced */
    CDZ_PART_MIX_DECAY,  /* how much of it goes */
    CDZ_PART_MIX_GATES,  /* those two in one tensor */
    CDZ_PART_MIX_CONV,
    CDZ_PART_MIX_RATE,  /* the whole name: logarithms of rates, or the negative rates themselves */
    CDZ_PART_MIX_SHIFT, /* the whole name */
    CDZ_PART_MIX_SKIP,  /* the same */
    CDZ_PART_MIX_NORM,
    CDZ_PART_MIX_OUT,
    CDZ_PART_STREAM_IN, /* of rows of several streams: '@' is the stream's number, less one; of all layers */
    CDZ_PART_STREAM_OUT,    /* the same */
    CDZ_PART_LAYER_EMBED,   /* what every layer gets of a token; of all layers */
    CDZ_PART_LAYER_PROJECT, /* and of its embedding */
    CDZ_PART_LAYER_NORM,
    CDZ_PART_STREAM_ROUTER_NORM, /* of each layer again */
    CDZ_PART_STREAM_ROUTER,
    CDZ_PART_STREAM_FORETELL, /* how much of each stream there is in each */
    CDZ_PART_STREAM_CORRECT,
    CDZ_PART_STREAM_SCALE, /* of what the layer's input is gated by; the stem is the whole name */
    CDZ_PART_STREAM_GATE,
    CDZ_PART_STREAM_UP,
    CDZ_PART_STREAM_NORM,
    CDZ_PART_LAUREL_IN, /* a product of low rank beside attention */
    CDZ_PART_LAUREL_OUT,
    CDZ_PART_LAUREL_NORM,
    CDZ_N_PARTS,
} cdz_arch_part;

typedef struct cdz_family cdz_family; /* a row of the table */

typedef enum cdz_activation {
    CDZ_ACT_SILU,
    CDZ_ACT_GELU,
    CDZ_ACT_GELU_TANH,
    CDZ_ACT_RELU,
    CDZ_ACT_RELU2,   /* relu squared */
    CDZ_ACT_CLAMPED, /* gpt_oss's gate (kernels.h, clamped_mul) */
    CDZ_ACT_XIELU,   /* apertus's, with numbers of each layer (kernels.h, xielu) */
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

/* Norms of queries and keys, before the rotation unless qk_norm_last: of a head, with the same weights for all; of a head, with
 * weights of its own; of all heads together. */
typedef enum cdz_qk_norm { CDZ_QK_NONE, CDZ_QK_HEAD, CDZ_QK_EACH, CDZ_QK_ALL } cdz_qk_norm;

/* How q, k and v lie in one tensor: all of q, of k, of v; of each key-value head its queries, its key, its value; or four
 * times a quarter of q, of v, of k. */
typedef enum cdz_fused { CDZ_FUSED_PARTS, CDZ_FUSED_HEADS, CDZ_FUSED_QUARTERS } cdz_fused;

struct cdz_key_names;

/* What a router's numbers become before experts are chosen by them. */
typedef enum cdz_route_score {
    CDZ_ROUTE_SOFTMAX, /* over all experts */
    CDZ_ROUTE_SIGMOID,
    CDZ_ROUTE_NEAREST, /* one after the other, each by a softmax over those left that are near it (phimoe's sparsemixer) */
} cdz_route_score;

/* Queries grow with their position p: times 1 + by * ln(1 + floor((p + ahead) / every)). */
typedef struct cdz_temper {
    double by, every; /* every 0: they do not */
    uint32_t ahead;
    bool unrotated; /* of layers that do not rotate alone */
} cdz_temper;

/* Latent attention (MLA). Of a position only `kv_rank` numbers are kept, and a key of `rotated` numbers that all heads share;
 * keys and values of heads are linear in the former. That map is applied to queries and to what attention gives instead
 * (the absorbed form), for prompts as well, so that no answer hangs on how a prompt was cut. */
typedef struct cdz_latent {
    uint32_t kv_rank; /* 0: attention is not of this kind */
    uint32_t q_rank;  /* 0: queries come straight from x */
    uint32_t plain, rotated,
        value; /* of a head: numbers of its query and key that do not rotate, that do, of its value */
} cdz_latent;

/* How rows find their experts, and what they take of them. */
typedef struct cdz_router {
    cdz_route_score score;
    bool biased; /* experts are chosen by score plus a bias, which enters no weight */
    /* Of so many groups only the best stay, by the sum of their two best; 0 or 1: there are none. The others' experts count as
     * 0. */
    uint32_t n_groups, groups_kept;
    bool groups_by_best; /* by their best expert instead */
    bool normalise;      /* the chosen weights sum to 1 */
    float sum_add;       /* what is added to that sum before it divides */
    float sum_least;     /* and what it is at least */
    float scale;         /* on the weights; 1: none */
    float near;          /* CDZ_ROUTE_NEAREST: how far below the best, in shares of it */
    bool into_inputs;    /* the weight multiplies what the expert reads, not what it gives */
} cdz_router;

/* What mixes positions in a layer: one of these, nothing, or attention with a recurrent one beside it. */
typedef enum cdz_mixer {
    CDZ_MIX_ATTENTION = 1,
    CDZ_MIX_CONV = 2,  /* a short convolution between two gates */
    CDZ_MIX_DELTA = 4, /* the gated delta rule */
    CDZ_MIX_SSD = 8,   /* Mamba-2's */
    CDZ_MIX_RECURRENT = CDZ_MIX_CONV | CDZ_MIX_DELTA | CDZ_MIX_SSD,
} cdz_mixer;

/* How what a state gives meets its gate z. */
typedef enum cdz_gated_norm {
    CDZ_GATED_ONLY,   /* y * silu(z) */
    CDZ_GATED_WHOLE,  /* that, normed over everything */
    CDZ_GATED_GROUPS, /* that, normed group by group */
    CDZ_GATED_FIRST,  /* y normed group by group, times silu(z) */
    CDZ_GATED_HEADS,  /* y normed head by head with one weight, times silu(z) */
} cdz_gated_norm;

enum { CDZ_SSD_PARTS = 5 }; /* z, x, B, C, dt */

/* The recurrent mixer of a model's layers. */
typedef struct cdz_recurrent {
    cdz_mixer kind;         /* 0: there is none */
    uint32_t taps;          /* of the convolution, whose window holds one less */
    uint32_t heads, groups; /* a head's queries and keys are its group's */
    uint32_t rows, columns; /* of a head's state: of keys, of values */
    bool conv_bias, in_bias, out_bias;
    bool groups_alternate; /* head h is of group h % groups */
    const bool *plain; /* (n_layers) those whose feed-forward has no experts by its kind; NULL: none */
    float low, high; /* of a step */
    cdz_gated_norm norm;
    float in_scale, out_scale, part_scale[CDZ_SSD_PARTS];
} cdz_recurrent;

/* Rows of several streams (gemma3n's AltUp, Laurel and inputs of layers): run/pass/streams.c. */
typedef struct cdz_streams {
    uint32_t n;            /* 0: a row is one */
    uint32_t active;       /* the one that layers compute on */
    bool scaled;           /* CDZ_PART_STREAM_SCALE is there */
    uint32_t rank;         /* of the product beside attention */
    uint32_t inner, vocab; /* what a layer gets of a token: so many numbers, of so many tokens */
    const float *
        cut; /* (n_layers) deviations above their mean that a gate's numbers must have; -INFINITY: none */
} cdz_streams;

/* Of distances between positions. */
typedef struct cdz_buckets {
    uint32_t n;        /* 0: positions are not relative */
    uint32_t distance; /* all longer ones are alike */
} cdz_buckets;

/* The table of positions. */
typedef struct cdz_placing {
    uint32_t offset;  /* row of position 0 */
    int32_t unplaced; /* the id whose tokens have none, nor count in a prompt of the encoder's, and its row; -1: all have */
    bool after_norm;  /* positions are added to what is normed already */
} cdz_placing;

/* Of float8 weights: rows and columns that share a factor. */
typedef struct cdz_fp8_block {
    uint32_t rows, columns;
} cdz_fp8_block;

/* One stack of layers: a decoder, or the encoder that one reads from. */
typedef struct cdz_arch {
    const cdz_family *family;
    const char *const *names;         /* [CDZ_N_PARTS] the family's, or those of another format */
    const struct cdz_key_names *keys; /* how config.json spells this stack's sizes */
    const struct cdz_arch *encoder;   /* what the decoder reads from; NULL: a decoder alone */
    const char *model_type;           /* "llama" */
    const char *part_of;      /* the model whose text part this is: "mistral3"; NULL: none */
    const char *architecture; /* "LlamaForCausalLM" */
    bool classifier; /* "LlamaForSequenceClassification": `score` is in place of the head for tokens */
    cdz_fp8_block fp8_block;
    const char *dtype; /* what config.json says; the files decide. "" when it does not say */

    uint32_t n_layers, hidden, intermediate, n_vocab;
    /* Of latent attention: one key-value head, as long as what is kept of a position. */
    uint32_t n_heads, n_kv_heads, head_dim;
    cdz_latent latent;
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
    const float *
        slopes; /* (n_heads) by so much a score falls with each position of distance (ALiBi); NULL: it does not */
    bool parallel_residual; /* attention and feed-forward read the same x */
    bool one_norm;          /* and the same norm of it */
    cdz_activation activation;
    bool qkv_bias, o_bias, mlp_bias;
    cdz_fused fused;
    bool conv1d; /* weights of the layers are stored (inputs, outputs) */
    const cdz_xielu
        *xielu; /* (n_layers) where a file has them beside its tensors; NULL: tensors have them */

    cdz_recurrent recurrent;
    const uint8_t *mixers; /* (n_layers) cdz_mixer's of a layer; NULL: attention in all */
    const bool *feeds;     /* (n_layers) has the layer a feed-forward? NULL: all have */
    /* (n_layers) a layer's number among those with attention, and among the recurrent ones; NULL: its own */
    const uint32_t *kv_place, *state_place;
    uint32_t n_kv_shared; /* so many layers, the last, have no keys and values but those at kv_place */
    cdz_streams streams;
    bool attention_gate; /* a head's queries are followed by a gate of what attention gives */
    /* On what attention reads, its keys, what it gives; on a feed-forward's gate and what it gives; 1: none */
    float attention_in, key_scale, attention_out, gate_scale, down_scale;

    uint32_t n_experts, n_active, expert_intermediate; /* n_experts 0: none */
    uint32_t expert_width; /* of what experts read and give, between two products more; 0: hidden, without them */
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
    float long_scale;           /* their cdz_rope.scale; 0: the same */
    const bool *no_rope;        /* (n_layers) layers without positions; NULL: none is */

    cdz_placing placing;
    bool hidden_count; /* hidden tokens have positions too */
    cdz_buckets buckets;
} cdz_arch;

bool cdz_arch_mixes(const cdz_arch *arch, uint32_t layer, cdz_mixer mixer); /* any of these */
bool cdz_arch_attends(const cdz_arch *arch); /* some layer has attention */
bool cdz_arch_feeds(const cdz_arch *arch, uint32_t layer);
uint32_t cdz_arch_kv_layers(const cdz_arch *arch); /* layers that keep keys and values */
uint32_t cdz_arch_kv_place(const cdz_arch *arch, uint32_t layer); /* a layer's number among those */
/* Channels of the recurrent mixer's convolution, and its numbers of what it gives before its last product. */
size_t cdz_recurrent_channels(const cdz_arch *arch);
size_t cdz_recurrent_width(const cdz_arch *arch);
/* Numbers of a layer's state, its window first, and of all layers'; 0: there are no recurrent layers. */
size_t cdz_recurrent_window(const cdz_arch *arch);
size_t cdz_recurrent_floats(const cdz_arch *arch);
uint64_t cdz_arch_state_floats(const cdz_arch *arch);

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
/* Have scores addends by distance, relative positions or ALiBi's? */
bool cdz_arch_adds_by_distance(const cdz_arch *arch);
/* Tables of those addends: one for all layers or one for each; 0: there is none. */
uint32_t cdz_arch_distance_tables(const cdz_arch *arch);
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
