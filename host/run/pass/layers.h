/* layers.h - a model's activations and the sublayers that work on them, for the files that run passes: forward.c (the
 * decoder), experts.c (its mixtures) and encode.c (the encoder of a pair).
 *
 * Shapes: m rows in the pass; D hidden, H query heads, G key-value heads, d head_dim, F intermediate, V vocabulary. */
#ifndef CDZ_HOST_RUN_PASS_LAYERS_H
#define CDZ_HOST_RUN_PASS_LAYERS_H

#include "run/pass/forward.h"
#include "run/pass/press.h"
#include "run/pass/relative.h"
#include "run/pass/steer.h"

typedef struct cdz_encoder cdz_encoder;

/* A stack of layers and where it keeps keys and values. */
typedef struct cdz_layer_stack {
    const cdz_arch *arch;
    const cdz_layer_weights *layers;
    cdz_kv *store;
    bool one_layer; /* the store holds one layer at a time */
    const cdz_relative *relative;
} cdz_layer_stack;

/* Where one row's scores go. */
typedef struct head_row {
    uint32_t row;   /* of the pass */
    float *to;      /* (V) */
    cdz_away *away; /* row `at` of this is told, and `to` is the device's memory, or nothing's where a screen tells; NULL: it is the host's */
    uint32_t at;
    uint64_t *coming; /* where to note when it will be at home; NULL: it is to be there at once */
} head_row;

/* A row whose hidden states a want keeps. */
typedef struct kept_row {
    uint32_t row; /* of the pass */
    const cdz_want *want;
    int64_t at; /* its row there */
} kept_row;

/* Rows [row, row + n) of the pass, which one want gave and one rotation turns. */
typedef struct rope_span {
    uint32_t row, n;
    cdz_rope rope;
} rope_span;

/* A row whose states are written down. */
typedef struct seen_row {
    const cdz_capture *capture; /* NULL: not this one's */
    uint32_t query, n_slots;    /* its place among the capture's queries; slots it may see */
    const uint8_t *mask;        /* (n_masked) of the slots; later ones are visible */
    uint32_t n_masked;
    const cdz_encoded *source; /* what it reads, of a pair's decoder */
} seen_row;

struct cdz_layers {
    cdz_backend *backend;
    cdz_profile *profile; /* or NULL */
    const cdz_weights *weights;
    cdz_layer_stack own;   /* the model's, of its decoder if it has two */
    cdz_layer_stack stack; /* the one that runs; x is where its rows are */
    cdz_relative relative;
    cdz_encoder *encoder; /* encode.c; NULL: a decoder alone */
    bool prompts_first;   /* of the wants of a pass, not those with few rows left */
    uint32_t bite;        /* rows of prompts beside those that decode; 0: as many as fit */
    uint32_t room;        /* rows that the pass which is being put together may have */
    uint32_t n_decoding;  /* rows of it that are no prompt's */

    /* Memory of the backend. */
    float *x, *normed; /* (m, D) the residual stream; what a sublayer reads */
    float *given;      /* (m, D) what a sublayer gives */
    float *also_given; /* (m, D) what the second of two parallel ones gives, or NULL */
    float *q, *mixed;  /* (m, H d) */
    float *k, *v;      /* (m, G d) */
    float *gate, *up;  /* (m, F) F the widest feed-forward */
    float *ends;       /* (head_rows, D) rows whose scores are wanted, side by side */
    float *scores;     /* (head_rows, V) */
    uint32_t head_rows;

    /* Experts only. */
    float *route_scores;            /* (m, n_experts) */
    float *gathered, *expert_gives; /* (m, D) the rows of one expert */
    float *latent,
        *latent_gives; /* (m, expert_width) what experts read and give, where that is not D wide */
    /* Recurrent mixers only. C channels of their convolution, W numbers that they give before the last product. */
    float *mix_in, *mix_conv; /* (m, C) what goes into the convolution and comes out */
    float *mix_gate, *mix_y;  /* (m, W) */
    float *mix_share;         /* (m, heads), or (m, D) of a gate before the convolution */
    float *mix_decay;         /* (m, heads) */
    float *q_gate;            /* (m, H d) of gated attention */

    struct cdz_stream_room *streams; /* streams.c; NULL: rows are one */

    /* (n_layers, 2, n_experts, CDZ_EXPERT_PARTS) where the data of experts' matrices and biases lie, for a device that chooses
     * among them; NULL: the host does. */
    const void **expert_table;
    float *sinks; /* (n_layers, n_heads) on a device, where there are some; NULL: the layers' are read */
    float *mix_vectors; /* taps, biases and heads' numbers of recurrent mixers, the same (recurrent.c) */

    /* From here on memory of the host. */
    float *route_weights; /* (m, n_active) */
    float *route_home;    /* (m, n_experts) a router's scores, where the host chooses by them */
    int32_t *route_ids;   /* (m, n_active) */
    int32_t best[CDZ_PASS_ROWS];        /* of each row that was scored */
    cdz_leaders leaders[CDZ_PASS_ROWS]; /* the same */
    float shares[CDZ_PASS_ROWS];        /* of the rows picked */
    int32_t picked[CDZ_PASS_ROWS];

    int32_t ids[CDZ_PASS_ROWS];
    const float *embeds[CDZ_PASS_ROWS]; /* (D) given in place of the id's, or NULL */
    bool any_embeds;
    seen_row seen[CDZ_PASS_ROWS]; /* only if any_seen */
    bool any_seen;
    uint32_t positions[CDZ_PASS_ROWS];
    cdz_kv_row rows[CDZ_PASS_ROWS];
    cdz_kv *packed[CDZ_PASS_ROWS];          /* where older positions of a row lie, or NULL */
    const int32_t *spans_of[CDZ_PASS_ROWS]; /* its spans there */
    bool any_packed;                        /* only of a decoder alone */
    cdz_press_row noted[CDZ_PASS_ROWS]; /* positions of all rows in their texts; notes only if any_noted */
    bool any_noted;
    const cdz_seq *
        edited[CDZ_PASS_ROWS]; /* whose a row is, if its hidden states are edited, or NULL; only if any_edited */
    bool any_edited;                   /* only of a decoder */
    float *at_home;                    /* (m, D) rows that are there for their edits; of a device */
    cdz_kv_row sources[CDZ_PASS_ROWS]; /* what the encoder made, for each row; of a pair */
    head_row heads[CDZ_PASS_ROWS];
    kept_row kept[CDZ_PASS_ROWS];
    uint32_t m, n_heads, n_kept;

    /* Of a model with recurrent layers: the sequences that rows are of, and where their states lie. */
    cdz_state_run runs[CDZ_PASS_ROWS];
    uint32_t n_runs;

    /* Rotations that depend on the length only. */
    rope_span spans[CDZ_PASS_ROWS];
    uint32_t n_spans;
    float *made; /* (m, n_rotated / 2) frequencies of a span, or NULL */
};

cdz_product cdz_layers_product(const cdz_linear *linear, float *y);
/* y = x normed; m rows as wide as the norm. */
void cdz_layers_norm(cdz_layers *layers, float *y, const float *x, size_t m, const cdz_norm *norm);
/* As that architecture has it, whatever a pass runs. */
void cdz_layers_norm_of(cdz_layers *layers, const cdz_arch *arch, float *y, const float *x,
                        size_t m, const cdz_norm *norm);
/* x from ids and their positions, m rows. */
void cdz_layers_embed(cdz_layers *layers, const cdz_weight *table, const cdz_weight *positions,
                      const cdz_norm *norm);
/* Queries of the m rows of x for a layer, and keys and values, which go into the store. */
void cdz_layers_project(cdz_layers *layers, uint32_t layer, bool queries, bool keys);
/* Positions that a row of the pass sees, its own included; 0: all. */
uint32_t cdz_layers_window(const cdz_layers *layers, uint32_t layer, uint32_t row);
/* Which of the store's layers has a layer's keys and values. */
uint32_t cdz_layers_store(const cdz_layers *layers, uint32_t layer);
/* What attention does in a layer, but for the window of single rows and packed stores. */
cdz_attention cdz_layers_attention(const cdz_layers *layers, uint32_t layer);
/* The rest of the layer: attention, and what follows. */
void cdz_layers_finish(cdz_layers *layers, uint32_t layer);

/* given = down(act(gate) * up) of x, or down(act(up)); m rows */
void cdz_layers_feed(cdz_layers *layers, const cdz_feed_forward *w, const float *x, size_t m,
                     float *given);
cdz_curve cdz_layers_curve(const cdz_arch *arch);

/* What a layer reads: x, or x normed. */
const float *cdz_layers_enter(cdz_layers *layers, const cdz_norm *norm);
/* x times a factor, in `to` unless the factor is 1; m rows of D. */
const float *cdz_layers_scaled(cdz_layers *layers, float *to, const float *x, float factor);
/* Heads of m rows that lie ldx apart, by the rows' positions. */
void cdz_layers_rotate(cdz_layers *layers, float *x, size_t ldx, size_t heads, size_t head_dim,
                       const cdz_rope *rope);

/* --- latent.c --- */
/* Of x, normed: as cdz_layers_project. */
void cdz_latent_project(cdz_layers *layers, uint32_t layer, const float *x, bool queries, bool keys);
/* What attention gave in latents, as values, in the memory of queries; returns how wide a row of them is. */
size_t cdz_latent_values(cdz_layers *layers, uint32_t layer);
size_t cdz_latent_width(const cdz_arch *arch); /* of a row of what attention gives */

/* --- streams.c: nothing where rows are one --- */
typedef struct cdz_stream_room cdz_stream_room;
bool cdz_layers_make_streams(cdz_layers *layers); /* false: out of memory */
void cdz_layers_free_streams(cdz_layers *layers);
void cdz_layers_begin_streams(cdz_layers *layers); /* from x, embedded */
void cdz_layers_end_streams(cdz_layers *layers);   /* to x, before the last norm */
/* Before a layer: x is its stream, as it is foretold. Behind attention, what is beside it. Behind the layer, from x. */
void cdz_layers_foretell(cdz_layers *layers, uint32_t layer);
void cdz_layers_add_laurel(cdz_layers *layers);
void cdz_layers_correct(cdz_layers *layers, uint32_t layer);
/* Of each row of x (m, n): what is above its mean by so many deviations, less that; 0 for the rest. */
void cdz_layers_cut(cdz_layers *layers, float *x, size_t n, size_t m, float deviations);

/* --- recurrent.c --- */
/* What mixers have beside matrices, to where a device reads it; false: out of memory. */
bool cdz_layers_place_vectors(cdz_layers *layers);
/* given = what the layer's recurrent mixer gives of x, and the states of the pass's sequences go on by their rows. */
void cdz_layers_recur(cdz_layers *layers, uint32_t layer, const float *x, float *given);

/* --- experts.c --- */
/* Tells a device where experts are, if it can choose among them; false: out of memory. */
bool cdz_layers_place_experts(cdz_layers *layers);
/* Is the choice the kernels' own: by softmax, with nothing added or left out? */
bool cdz_layers_routes_plainly(const cdz_arch *arch);
/* given = the chosen experts' weighted sum, added in ascending index; then the shared one's. */
void cdz_layers_feed_experts(cdz_layers *layers, uint32_t layer, const float *x, float *given);

/* --- heads.c --- */
/* y[i] = x[picked[i]], (n, D) of (m, D) */
void cdz_layers_pick(cdz_layers *layers, float *y, const float *x, size_t width, size_t n);
void cdz_layers_score(cdz_layers *layers); /* of the rows noted in heads */
/* For those who keep them: what enters a layer, and what the head reads, which counts as another layer's. */
void cdz_layers_keep_hidden(const cdz_layers *layers, uint32_t layer);
void cdz_layers_keep_last(cdz_layers *layers, uint32_t layer);

/* --- capture.c: of rows that are seen --- */
/* The pass's next row, at that slot of the sequence. capture NULL: not to be seen. */
void cdz_layers_see_row(cdz_layers *layers, const cdz_capture *capture, const cdz_seq *seq,
                        uint32_t slot);
void cdz_layers_see_hidden(cdz_layers *layers, uint32_t index, const float *x); /* x (m, D) */
/* Weights that the queries in q give to the stack's keys, and to the source's. */
void cdz_layers_see_attention(cdz_layers *layers, uint32_t layer, const cdz_attention *how);
void cdz_layers_see_cross(cdz_layers *layers, uint32_t layer, const cdz_attention *how);

/* --- encode.c --- */
cdz_status cdz_encoder_create(cdz_layers *layers, cdz_error *err); /* of a pair */
void cdz_encoder_free(cdz_layers *layers);
/* Runs the encoder over the wants' sources that were not yet; returns the positions run. */
uint32_t cdz_encoder_run(cdz_layers *layers, cdz_want *const *wants, uint32_t n);

#endif
