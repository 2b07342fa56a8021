/* model_files.h - a Hugging Face model folder (config.json, generation_config.json and the
 * weights) or a GGUF file: checked against each other and ready to run in place. */
#ifndef CDZ_HOST_LOAD_MODEL_FILES_H
#define CDZ_HOST_LOAD_MODEL_FILES_H

#include "load/arch.h"
#include "load/safetensors.h"

typedef struct cdz_linear {
    cdz_weight w;    /* (outputs, inputs) */
    cdz_weight bias; /* (1, outputs); data NULL: none */
} cdz_linear;

typedef struct cdz_norm {
    cdz_weight w;    /* (1, width); data NULL: there is no such norm */
    cdz_weight bias; /* (1, width); data NULL: none */
} cdz_norm;

/* down(act(gate) * up), or down(act(up)) where gate's data is NULL */
typedef struct cdz_feed_forward {
    cdz_linear gate, up, down; /* (inner, hidden) twice, (hidden, inner) */
} cdz_feed_forward;

typedef struct cdz_layer_weights {
    cdz_norm attn_norm, attn_post_norm; /* (1, hidden), before and after attention */
    cdz_norm cross_norm, cross_post_norm;
    cdz_norm mlp_norm, mlp_post_norm;
    cdz_norm q_norm, k_norm; /* (1, head_dim), or all heads */
    cdz_linear q, k, v, o;   /* (heads * head_dim, hidden), kv twice, (hidden, heads * head_dim) */
    cdz_linear cross_q, cross_k, cross_v, cross_o; /* the same; data NULL: no encoder to look at */
    cdz_feed_forward mlp;                          /* of a dense layer */
    cdz_linear router;         /* (n_experts, hidden); data NULL: a dense layer */
    const float *router_bias;  /* (n_experts), the host's whatever runs the model; or NULL */
    cdz_feed_forward *experts; /* (n_experts) */
    cdz_linear shared_router;  /* (1, hidden); data NULL: all of the shared expert is taken */
    cdz_feed_forward shared;   /* data NULL: there is none */
} cdz_layer_weights;

/* The encoder that a decoder reads from. */
typedef struct cdz_encoder_weights {
    cdz_weight embed;     /* (n_vocab, hidden); the decoder's memory when shared */
    cdz_weight positions; /* as the decoder's */
    cdz_weight relative;
    cdz_norm embed_norm, final_norm;
    cdz_layer_weights *layers; /* (arch.encoder->n_layers) */
} cdz_encoder_weights;

/* What `cadenza model info` tells. */
typedef struct cdz_weights_facts {
    uint64_t n_parameters;        /* of the model; a tied head counts once */
    uint64_t bytes[CDZ_N_DTYPES]; /* of weights in use, by cdz_dtype */
    uint64_t kv_bytes_per_token;  /* keys and values in float32, all layers */
    uint64_t file_bytes;          /* of the weight files */
    uint32_t n_files;
    uint32_t n_copied;   /* tensors copied because the file does not lay them as kernels read */
    uint64_t int8_bytes; /* of weights that multiply with int8 activations */
    uint64_t bf16_activation_bytes; /* of weights that multiply with activations in bf16 */
    uint64_t panel_bytes; /* of those, the ones brought into panels, in memory of the model's own, by the first passes */
    uint32_t n_unexpected;        /* tensors in the files that the architecture does not have */
    const char *first_unexpected; /* by name, or NULL */
} cdz_weights_facts;

typedef struct cdz_panels cdz_panels;

typedef struct cdz_weights {
    const char *folder;
    cdz_arch arch;
    cdz_weight embed; /* (n_vocab, hidden) */
    cdz_weight positions; /* (position_offset + context, hidden), learned or computed; data NULL: none */
    cdz_weight relative; /* (n_buckets, n_heads); data NULL: none */
    cdz_norm embed_norm; /* (1, hidden) */
    cdz_norm final_norm; /* (1, hidden); data NULL: none, in a pair */
    cdz_linear head;     /* (n_vocab, hidden); the same memory as embed when tied */
    bool tied;
    cdz_layer_weights *layers;   /* (arch.n_layers) */
    cdz_encoder_weights encoder; /* of a pair: arch.encoder */
    cdz_json config;
    cdz_json generation_config; /* type CDZ_JSON_NULL: the folder has none */
    cdz_weights_facts facts;
    cdz_tensors tensors;
    cdz_arena arena;
    cdz_panels *panels; /* or NULL */
} cdz_weights;

/* Opens a folder, or a GGUF file. On failure *out is NULL and err says which file, key or tensor is wrong, and
 * how. */
cdz_status cdz_weights_open(const char *folder, cdz_weights **out, cdz_error *err);
/* The matrices in blocks of a type from CDZ_N_PLAIN on, which one by cdz_type_for. The weights must
 * be plain and in nobody's use. CDZ_E_NOMEM leaves some as they were. */
cdz_status cdz_weights_quantise(cdz_weights *weights, cdz_dtype type, cdz_error *err);

typedef enum cdz_activations {
    CDZ_ACTIVATIONS_AUTO, /* int8 where a matrix's type has it */
    CDZ_ACTIVATIONS_F32,
    CDZ_ACTIVATIONS_INT8, /* the same, and refused where no matrix has it */
    CDZ_ACTIVATIONS_BF16, /* bf16 for matrices in bf16, refused where there is none; the rest as AUTO */
} cdz_activations;

/* "auto", "f32", "int8" or "bf16"; NULL is auto. CDZ_E_USAGE for another word. */
cdz_status cdz_activations_named(const char *name, cdz_activations *out, cdz_error *err);

/* What the matrices are multiplied with. For int8 they will be brought into panels, in new memory, and what
 * they came from let go; where memory is short for that they stay where they are, and are slower. backend NULL: by type
 * alone. The weights must be in nobody's use. */
cdz_status cdz_weights_set_activations(cdz_weights *weights, cdz_activations how,
                                       const cdz_backend *backend, cdz_error *err);
/* [between passes of who runs the weights] Brings a sixteenth of them into panels: nothing changes but speed. Is there
 * more to do? */
void cdz_weights_more_panels(cdz_weights *weights, cdz_backend *backend);
bool cdz_weights_panels_left(const cdz_weights *weights);
void cdz_panels_free(cdz_panels *panels); /* NULL is fine */
/* Bytes of matrices that int8 activations would meet, and whether memory allows panels of them. */
uint64_t cdz_weights_int8_bytes(cdz_weights *weights);
bool cdz_weights_panels_fit(uint64_t bytes);

/* Calls visit for every matrix of layers of both stacks that is there, until one fails. */
cdz_status cdz_weights_each_matrix(cdz_weights *weights,
                                   cdz_status (*visit)(void *arg, cdz_weight *matrix), void *arg);
/* The same for everything that a pass reads; what several places may share comes first. */
cdz_status cdz_weights_each(cdz_weights *weights,
                            cdz_status (*visit)(void *arg, cdz_weight *weight), void *arg);
/* Lets go of the whole pages that only this matrix was in: of a file, read again when wanted; of
 * memory, lost. */
void cdz_weights_let_go(const cdz_weight *matrix);

void cdz_weights_close(cdz_weights *weights); /* NULL is fine */

const cdz_arch *cdz_weights_arch(const cdz_weights *weights);
const cdz_json *cdz_weights_config(const cdz_weights *weights);
const cdz_json *cdz_weights_generation_config(
    const cdz_weights *weights); /* NULL: the folder has none */

/* Are the mapped files still as they were? CDZ_E_IO when one was cut or rewritten; see file.h. */
cdz_status cdz_weights_check(const cdz_weights *weights, cdz_error *err);

#endif
