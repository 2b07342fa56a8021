/* ext/steer.h - edits of hidden states: activation steering, ablation, patching; and "cadenza.steer/1", by which a processor
 * gives them.
 *
 * An edit says what becomes of a hidden state h (width floats) at one place of one layer, at some positions of a sequence. The
 * host carries it out in the pass that computes the position, beside all other requests; rows without edits keep their bits.
 * A strategy gives edits by seq_steer (strategy.h), a processor by the table below. What these operations cannot say, a function
 * may do: CALL, at the end of this page.
 *
 *     ADD          h + scale v         a control vector: Turner and others, "Activation Addition" (2023)
 *     REPLACE      scale v             activation patching, with what another prompt left there
 *     SCALE        scale h, or scale v h number by number where there is a v; 0 takes what a sublayer gives away
 *     PROJECT_OUT  h - scale (h.v / v.v) v     directional ablation: Arditi and others, "Refusal in Language Models Is
 *                                              Mediated by a Single Direction" (2024)
 *     CALL         what the plugin's on_hidden makes of h
 *
 * Several edits of one place work in the order of the list, each on what the one before it left. Numbers are float32; scale v is
 * rounded once, then the sum; h.v and v.v are summed in double, from the first number on.
 *
 * A sequence's hidden states are a function of its ids and its edits, whenever these came: a position whose edits change is
 * computed again. So rewinds, forks, drafts, beams and memory that is taken back give the same bits, and a prefix cache hands over
 * no more than the positions before the first edit.
 *
 * CALL is for research: a probe that steers where it fires, a cap on norms, a clamp of a feature. The host stops in the middle of
 * its pass, for all requests, and calls on_hidden of whoever gave the edit, in the edit's place of the list, with the positions
 * of one sequence that the pass computes and the edit reaches. That is slower than the other operations, and a device sends these
 * rows home and takes them back. What on_hidden has to be:
 *
 *     A function of one position. What becomes of a position hangs on the plugin's parameters, the row, the edit, the position
 *     and its h alone. How many positions come in a call is the host's affair: a prompt comes in chunks, a decode step has one, a
 *     draft several, and what was read may be read again. Who carries something from one position or call to another, gets
 *     answers that hang on how passes were cut.
 *     Quick, and without verbs. It runs between two layers: it sees no decoder and no scores.
 *
 * What differs from the other operations: caches that hold a position which a CALL reaches are shared among copies of the row
 * alone, and never found again or kept by a later request; so rows of one prompt read it row by row. A request goes on with the
 * processors that it began with when the pipeline is reloaded. output_hidden_states and output_attentions, for which rows are read
 * once more after the decode loop, are refused for a strategy's, whose function is gone by then. When on_hidden fails, or leaves a
 * number that is not finite, its request ends with that sentence, and the others of the pass go on. */
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
    CDZ_EDIT_CALL, /* scale and vector, which may be NULL, are for on_hidden to read */
} cdz_edit_op;

typedef struct cdz_edit {
    uint32_t layer; /* from 0 */
    uint32_t place; /* cdz_edit_place */
    uint32_t op;    /* cdz_edit_op */
    float scale;
    const float *
        vector; /* (width); of SCALE and CALL it may be NULL. Copied before the call that takes it returns */
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

#define CDZ_NO_ROW UINT32_MAX

/* Hidden states of one sequence, for on_hidden. Valid during the call. */
typedef struct cdz_hidden_chunk {
    uint32_t size;
    /* Of the request: the row that was given the edit. Its copies keep it, so beams and forks do. CDZ_NO_ROW: a sequence that a
     * loop made. */
    uint32_t row;
    uint32_t n,
        position; /* n positions, which follow one another; the first, as the model counts them */
    uint32_t width;
    float *h;             /* (n, width) to be changed, or left */
    const cdz_edit *edit; /* as it was given, with a vector that is the host's */
} cdz_hidden_chunk;

typedef struct cdz_steer_api {
    uint32_t size;
    /* [engine] Once for each row, after begin and before its first pass; step has no rows. The list is the plugin's and has to
     * stay until the call has returned; n 0: no edits. Edits of several processors come in the pipeline's order. They stay
     * for the row's life: a reload of the pipeline changes those of later requests. */
    cdz_status (*steer)(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n);
    /* [engine] Optional: what the CALLs among these edits do. step has no rows. */
    cdz_status (*on_hidden)(const cdz_step *step, const cdz_hidden_chunk *hidden);
} cdz_steer_api;

typedef cdz_status cdz_on_hidden_fn(const cdz_step *step, const cdz_hidden_chunk *hidden);

/* The host's table, step->host->extension(CDZ_EXT_STEER): for strategies and drafters. */
struct cdz_decoder;
typedef struct cdz_steer_host {
    uint32_t size;
    /* [engine] CALLs that the plugin gives by seq_steer from now on are calls of fn, whose step->shared is `user`. What it gave
     * before keeps the function it had. Both have to stay until run returns, or a drafter's end is called. */
    cdz_status (*on_hidden)(struct cdz_decoder *dec, cdz_on_hidden_fn *fn, void *user);
} cdz_steer_host;

static inline cdz_status cdz_on_hidden(struct cdz_decoder *dec, const cdz_step *step,
                                       cdz_on_hidden_fn *fn, void *user)
{
    const cdz_steer_host *host = (const cdz_steer_host *)step->host->extension(CDZ_EXT_STEER);
    if (host) return host->on_hidden(dec, fn, user);
    return (step->host->fail)(step, CDZ_E_UNSUPPORTED,
                              "this host lacks its table of " CDZ_EXT_STEER
                              ": an edit of hidden states cannot be a function");
}

/* The plugin's table, or NULL. */
static inline const cdz_steer_api *cdz_get_steer_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_steer_api *)plugin->extension(CDZ_EXT_STEER) : NULL;
}

#endif
