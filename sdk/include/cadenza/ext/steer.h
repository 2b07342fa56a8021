/* ext/steer.h - edits of hidden states: activation steering, ablation, patching; and "cadenza.steer/1", by which a processor
 * gives them.
 *
 * An edit says what becomes of a hidden state h (width floats) at one place of one layer, at some positions of a sequence. The
 * host carries it out in the pass that computes the position, beside all other requests; rows without edits keep their bits.
 * A strategy gives edits by seq_steer (strategy.h), a processor by the table below.
 *
 *     ADD          h + scale v         a control vector: Turner and others, "Activation Addition" (2023)
 *     REPLACE      scale v             activation patching, with what another prompt left there
 *     SCALE        scale h, or scale v h number by number where there is a v; 0 takes what a sublayer gives away
 *     PROJECT_OUT  h - scale (h.v / v.v) v     directional ablation: Arditi and others, "Refusal in Language Models Is
 *                                              Mediated by a Single Direction" (2024)
 *
 * Several edits of one place work in the order of the list, each on what the one before it left. Numbers are float32; scale v is
 * rounded once, then the sum; h.v and v.v are summed in double, from the first number on.
 *
 * A sequence's hidden states are a function of its ids and its edits, whenever these came: a position whose edits change is
 * computed again. So rewinds, forks, drafts, beams and memory that is taken back give the same bits, and a prefix cache hands over
 * no more than the positions before the first edit. */
#ifndef CADENZA_EXT_STEER_H
#define CADENZA_EXT_STEER_H

#include "../plugin.h"

#define CDZ_EXT_STEER "cadenza.steer/1"

typedef enum cdz_edit_place {
    CDZ_EDIT_EMBEDDING, /* what enters the first layer; `layer` is 0 */
    CDZ_EDIT_ATTENTION, /* what a layer's attention, or the mixer in its place, gives, before it is normed and added */
    CDZ_EDIT_MLP, /* what a layer's feed-forward gives, its experts together, before it is normed and added */
    CDZ_EDIT_BLOCK, /* what leaves a layer: transformers' hidden_states[layer + 1], of the last layer before the final norm */
} cdz_edit_place;

typedef enum cdz_edit_op {
    CDZ_EDIT_ADD,
    CDZ_EDIT_REPLACE,
    CDZ_EDIT_SCALE,
    CDZ_EDIT_PROJECT_OUT,
} cdz_edit_op;

typedef struct cdz_edit {
    uint32_t layer; /* from 0 */
    uint32_t place; /* cdz_edit_place */
    uint32_t op;    /* cdz_edit_op */
    float scale;
    const float *
        vector; /* (width); of SCALE it may be NULL. Copied before the call that takes it returns */
    uint32_t width; /* of the vector; it has to be that of the model's hidden states */
    uint32_t from,
        to; /* positions [from, to) as the model counts them, without padding; to 0: without an end */
} cdz_edit;

/* Whom a processor's edits are for. */
typedef struct cdz_steered {
    uint32_t size;
    uint32_t row;             /* of the request */
    uint32_t prompt_index;    /* which of the request's prompts it continues */
    uint32_t prompt_len;      /* positions that the model sees of it */
    uint32_t n_layers, width; /* of the target model */
} cdz_steered;

typedef struct cdz_steer_api {
    uint32_t size;
    /* [engine] Once for each row, after begin and before its first pass; step has no rows. The list is the plugin's and has to
     * stay until the call has returned; n 0: no edits. Edits of several processors come in the pipeline's order. They stay
     * for the row's life: a reload of the pipeline changes those of later requests. */
    cdz_status (*steer)(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n);
} cdz_steer_api;

/* The plugin's table, or NULL. */
static inline const cdz_steer_api *cdz_get_steer_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_steer_api *)plugin->extension(CDZ_EXT_STEER) : NULL;
}

#endif
