/* model_files.h - a Hugging Face model folder (config.json, generation_config.json and the
 * weights) or a GGUF file: checked against each other and ready to run in place. */
#ifndef CDZ_HOST_LOAD_MODEL_FILES_H
#define CDZ_HOST_LOAD_MODEL_FILES_H

#include "base/digest.h"
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
    cdz_xielu xielu;           /* where that is its activation */
    const float *cut;          /* cdz_streams.cut of its layer, or NULL */
} cdz_feed_forward;

/* Latent attention. Parts of heads are views of one tensor's rows, n_heads of each. */
/* Of a layer whose rows have n streams. */
typedef struct cdz_stream_weights {
    cdz_norm router_norm;
    cdz_linear router;            /* (n, hidden) */
    cdz_linear foretell, correct; /* (n * n, n), (n, n) */
    cdz_linear gate, up; /* (inner, hidden), times CDZ_PART_STREAM_SCALE, and (hidden, inner) */
    cdz_norm norm;
    cdz_linear laurel_in, laurel_out; /* (rank, hidden), (hidden, rank) */
    cdz_norm laurel_norm;
} cdz_stream_weights;

typedef struct cdz_latent_weights {
    cdz_linear q_a, kv_a; /* (q_rank, hidden), data NULL: none; (kv_rank + rotated, hidden) */
    cdz_norm q_a_norm, kv_a_norm;
    cdz_linear *q_plain, *q_rotated; /* (plain, q_rank or hidden), (rotated, the same) */
    cdz_linear *k_up; /* (kv_rank, plain): what turns a query into one of what is kept */
    cdz_linear *v_up; /* (value, kv_rank) */
} cdz_latent_weights;

/* What a recurrent mixer reads of x; which there are hangs on its kind (arch.h). Vectors and taps are float32 in the host's
 * memory. */
typedef struct cdz_recurrent_weights {
    cdz_linear value; /* (channels, hidden) what goes through the convolution; data NULL: no such mixer */
    cdz_linear gate; /* (width, hidden) of what comes out */
    cdz_linear share; /* (heads, hidden) of the delta rule; (hidden, hidden) of a gate before the convolution */
    cdz_linear decay;                 /* (heads, hidden) */
    cdz_linear out;                   /* (hidden, width) */
    const float *taps;                /* (taps, channels) */
    const float *tap_bias;            /* (channels), or NULL */
    const float *rate, *shift, *skip; /* (heads); skip of SSD alone */
    cdz_norm norm;                    /* (1, width), or of a head; data NULL: none */
    cdz_weight q_norm,
        k_norm; /* (1, rows) the same number all over: what normed queries and keys are multiplied by */
} cdz_recurrent_weights;

typedef struct cdz_layer_weights {
    cdz_norm attn_norm, attn_post_norm; /* (1, hidden), before and after attention */
    cdz_norm cross_norm, cross_post_norm;
    cdz_norm mlp_norm, mlp_post_norm;
    cdz_norm q_norm, k_norm; /* (1, head_dim); or all heads, normed together or each by its part */
    cdz_norm v_norm;         /* (1, head_dim) of values; data NULL: none */
    cdz_stream_weights *streams; /* or NULL */
    cdz_latent_weights *latent;  /* then q, k, v are not there; or NULL */
    const float *sinks;          /* (n_heads), the host's whatever runs the model; or NULL */
    cdz_linear q, k, v, o; /* (heads * head_dim, hidden), kv twice, (hidden, heads * head_dim) */
    cdz_linear q_gate;     /* as q; data NULL: attention has none */
    cdz_recurrent_weights recurrent;
    cdz_linear cross_q, cross_k, cross_v, cross_o; /* the same; data NULL: no encoder to look at */
    cdz_feed_forward mlp;                          /* of a dense layer */
    cdz_linear latent_in,
        latent_out;           /* (expert_width, hidden) before experts, and back; data NULL: none */
    cdz_linear router;        /* (n_experts, hidden); data NULL: a dense layer */
    const float *router_bias; /* (n_experts), the host's whatever runs the model; or NULL */
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

/* What says values of a text in place of scores of tokens: a classifier's or a reward model's. Vectors are float32 in the host's
 * memory, whatever runs the model. */
typedef struct cdz_value_head {
    const char *name;         /* of its tensors: "score" or "v_head.summary"; NULL: there is none */
    uint32_t n;               /* values; 0: there is none */
    const float *w;           /* (n, hidden) */
    const float *bias;        /* (n), or NULL */
    const cdz_string *labels; /* (n) what config.json calls them, or NULL: it is no classifier's */
    int32_t pad;              /* the token that does not count at a text's end; -1: all count */
    bool alone;               /* the model has no head for tokens beside it */
} cdz_value_head;

/* What `cadenza model info` tells. */
typedef struct cdz_weights_facts {
    uint64_t n_parameters;        /* of the model; a tied head counts once */
    uint64_t bytes[CDZ_N_DTYPES]; /* of weights in use, by cdz_dtype */
    uint64_t kv_bytes_per_token;  /* keys and values in float32, all layers */
    uint64_t state_bytes; /* of a sequence, whatever its length: what recurrent layers have of it */
    uint64_t file_bytes;  /* of the weight files */
    uint32_t n_files;
    uint32_t n_copied;   /* tensors copied because the file does not lay them as kernels read */
    uint64_t int8_bytes; /* of weights that multiply with int8 activations */
    uint64_t bf16_activation_bytes; /* of weights that multiply with activations in bf16 */
    uint64_t bf16_parts; /* of such an activation; 0: it is one number, and pairs are multiplied */
    uint64_t panel_bytes; /* of those, the ones brought into panels, in memory of the model's own, by the first passes */
    uint32_t n_unexpected;        /* tensors in the files that the architecture does not have */
    const char *first_unexpected; /* by name, or NULL */
} cdz_weights_facts;

typedef struct cdz_panels cdz_panels;

typedef struct cdz_weights {
    const char *folder;
    cdz_arch arch;
    cdz_weight embed;     /* (n_vocab, hidden) */
    cdz_weight positions; /* (placing.offset + context, hidden), learned or computed; data NULL: none */
    cdz_weight relative; /* (buckets.n, n_heads), of each layer or of all; data NULL: none */
    cdz_norm embed_norm; /* (1, hidden) */
    cdz_linear *stream_in, *stream_out; /* (streams.n - 1) of (hidden, hidden); NULL: rows are one */
    cdz_weight layer_embed;             /* (streams.vocab, n_layers * streams.inner) */
    cdz_linear layer_project;           /* (n_layers * streams.inner, hidden) */
    cdz_norm layer_norm;                /* (1, streams.inner) */
    cdz_norm final_norm;                /* (1, hidden); data NULL: none, in a pair */
    cdz_linear head; /* (n_vocab, hidden); the same memory as embed when tied; data NULL: values are all it says */
    bool tied;
    cdz_value_head values;
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
/* Those of a model whose passes are a program's function: none. generation: a GenerationConfig as JSON, or NULL. */
cdz_status cdz_weights_of_function(uint32_t n_vocab, uint32_t context, const char *generation,
                                   cdz_weights **out, cdz_error *err);
/* The matrices in blocks of a type from CDZ_N_PLAIN on, which one by cdz_type_for. The weights must
 * be plain and in nobody's use. CDZ_E_NOMEM leaves some as they were. */
cdz_status cdz_weights_quantise(cdz_weights *weights, cdz_dtype type, cdz_error *err);

typedef enum cdz_activations {
    CDZ_ACTIVATIONS_AUTO, /* int8 where a matrix's type has it */
    CDZ_ACTIVATIONS_F32,
    CDZ_ACTIVATIONS_INT8, /* the same, and refused where no matrix has it */
    CDZ_ACTIVATIONS_BF16, /* bf16 for matrices in bf16, refused where there is none; the rest as AUTO */
    CDZ_ACTIVATIONS_BF16X1, /* one part of bf16 for these, */
    CDZ_ACTIVATIONS_BF16X3, /* or three; refused where the backend has no such products, too */
} cdz_activations;

/* "auto", "f32", "int8", "bf16", "bf16x1" or "bf16x3"; NULL is auto. CDZ_E_USAGE for another word. */
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

/* A sum over the files' bytes and the config: two models that give other numbers have two of them. Reads all of the files. */
cdz_status cdz_weights_fingerprint(const cdz_weights *weights, uint8_t out[CDZ_DIGEST_BYTES],
                                   cdz_error *err);

/* What the head for values says of a state behind the final norm: out (values.n), summed in double from the first number on. */
void cdz_value_head_apply(const cdz_value_head *head, const float *hidden, size_t width, float *out);

/* Are the mapped files still as they were? CDZ_E_IO when one was cut or rewritten; see file.h. */
cdz_status cdz_weights_check(const cdz_weights *weights, cdz_error *err);

#endif
