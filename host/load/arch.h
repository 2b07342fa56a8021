/* arch.h - an architecture as data: what config.json says, checked, in the words of the decoder
 * block.
 *
 * One decoder block runs every family; a family is a row of the table in arch.c (how its keys
 * are read, how its tensors are called). What transformers would take as a default is taken here
 * too, except for the sizes, which must be given. */
#ifndef CDZ_HOST_ARCH_H
#define CDZ_HOST_ARCH_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "kernels.h"

/* The tensors of a model by role. A family's name map gives the stem; ".weight" and ".bias"
 * follow it. */
typedef enum cdz_part {
    CDZ_PART_EMBED,
    CDZ_PART_FINAL_NORM,
    CDZ_PART_HEAD,
    CDZ_PART_ATTN_NORM, /* from here on one per layer: '#' in the stem is the layer's number */
    CDZ_PART_Q,
    CDZ_PART_K,
    CDZ_PART_V,
    CDZ_PART_O,
    CDZ_PART_MLP_NORM,
    CDZ_PART_GATE,
    CDZ_PART_UP,
    CDZ_PART_DOWN,
    CDZ_N_PARTS,
} cdz_part;

typedef struct cdz_family cdz_family; /* a row of the table */

typedef enum cdz_activation { CDZ_ACT_SILU } cdz_activation;
typedef enum cdz_rope_type { CDZ_ROPE_DEFAULT, CDZ_ROPE_LINEAR, CDZ_ROPE_LLAMA3 } cdz_rope_type;

typedef struct cdz_arch {
    const cdz_family *family;
    const char *model_type;   /* "llama" */
    const char *architecture; /* "LlamaForCausalLM" */
    const char *dtype;        /* what config.json says; the files decide. "" when it does not say */

    uint32_t n_layers, hidden, intermediate, n_vocab;
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t context;       /* max_position_embeddings */
    const uint32_t *window; /* (n_layers) positions a layer sees, its own included; 0: all */
    bool has_window;        /* some layer has one */

    float norm_eps, norm_offset; /* y = x / rms * (offset + w) */
    float attention_scale;       /* head_dim ** -0.5 */
    cdz_activation activation;
    bool qkv_bias, o_bias, mlp_bias;
    bool tied; /* what config.json asks for; cdz_weights.tied tells what came of it */

    cdz_rope_type rope_type;
    double rope_theta, rope_factor; /* factor 1 for the default type */
    cdz_rope rope;                  /* frequencies in the arena */
} cdz_arch;

/* Reads a parsed config.json. path: the file in sentences. Strings and arrays live in the arena
 * (or in config). */
cdz_status cdz_arch_read(const cdz_json *config, const char *path, cdz_arena *arena, cdz_arch *out,
                         cdz_error *err);

/* A part's stem with '#' replaced by the layer, and suffix after it:
 * "model.layers.3.mlp.up_proj.weight". Returns buf. */
const char *cdz_arch_tensor_name(const cdz_arch *arch, cdz_part part, uint32_t layer,
                                 const char *suffix, char *buf, size_t size);

/* True for tensors that some releases stored but no one reads, such as rotary frequencies. */
bool cdz_arch_tensor_is_harmless(const cdz_arch *arch, const char *name);

/* The supported model types, NULL-terminated. */
const char *const *cdz_arch_model_types(void);

/* inv_freq[i] = 1 / theta^(2i / n_rotated) in float32, as transformers computes it; scaled by
 * the rope type later. */
void cdz_rope_frequencies(float *inv_freq, size_t n_rotated, double theta);

#endif
