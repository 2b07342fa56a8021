/* ext/form.h - "cadenza.form/1": a processor declares which known form its edit has, so that the host can fuse several.
 *
 * Scenario. Temperature, top-k and min-p each go over the whole row. A host that knows that the three are a division
 * and two filters finds the remaining tokens in one pass over the row, and does not write the others. The processor has to
 * declare this:
 *
 *     static bool describe(const cdz_step *step, cdz_form *out)
 *     {
 *         const cooler *p = step->params;
 *         out->kind = CDZ_FORM_DIVIDE;
 *         out->amount = p->temperature;
 *         return true;
 *     }
 *     static const cdz_form_api form = {.size = sizeof form, .describe = describe};
 *     static const void *extension(const char *id)
 *     {
 *         return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
 *     }
 *
 * Promise. On every row of this request apply does exactly what the comment of its kind says, a call of
 * "cadenza.vec/1", and nothing else: no other score, no state, no message. The host may call apply or not, with the same
 * bits; `cadenza plugin test` checks it. Processors with companions are never asked, nor are those without CDZ_ROWWISE; of
 * those with accept or row state CDZ_FORM_MASK alone counts.
 *
 * CDZ_FORM_EDIT is different: apply is always called, but may get a row in which only some scores are valid. A
 * host whose rows of scores stay on a device copies the scores of the ids that `edits` lists, and those of the best tokens:
 *
 *     static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
 *     {
 *         *out = step->input_ids[r];              tokens of the row may be penalised
 *         return true;
 *     }
 *
 * Promise. The new value of a listed score depends on listed scores only; all other scores keep their values.
 *
 * CDZ_FORM_MASK is for a processor that leaves some tokens and masks the others, as a constraint does. A host whose rows of
 * scores stay on a device applies the mask there:
 *
 *     static bool mask(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
 *     {
 *         const mine *m = step->shared;
 *         const uint32_t *state = step->row_state[r];
 *         return cdz_get_grammar(step)->allowed(step, m->constraint, *state, bits, n_words) == CDZ_OK;
 *     }
 *
 * Promise. If some token with a bit has a score above -inf, apply makes all scores without a bit -inf and changes no other.
 * Else apply may do anything, fail too: the host calls it with the whole row. */
#ifndef CADENZA_EXT_FORM_H
#define CADENZA_EXT_FORM_H

#include "../plugin.h"

#define CDZ_EXT_FORM "cadenza.form/1"

typedef enum cdz_form_kind {
    CDZ_FORM_OTHER = 0, /* none of these */
    CDZ_FORM_DIVIDE,    /* vec->div(x, n, (float)amount); amount above 0 */
    CDZ_FORM_KEEP_TOPK, /* vec->keep_topk(x, n, count, scratch) */
    CDZ_FORM_KEEP_TOPP, /* vec->keep_topp(x, n, amount, count, scratch) */
    CDZ_FORM_KEEP_MINP, /* vec->keep_minp(x, n, amount, count, scratch) */
    CDZ_FORM_EDIT,      /* apply, which changes few scores: those that `edits` lists */
    CDZ_FORM_MASK,      /* all scores become -inf but those of the tokens that `mask` tells */
} cdz_form_kind;

/* All fields but size arrive zeroed; `amount` and `count` are the arguments of the call above. */
typedef struct cdz_form {
    uint32_t size;
    uint32_t kind; /* cdz_form_kind */
    double amount;
    uint64_t count;
} cdz_form;

typedef struct cdz_form_api {
    uint32_t size;
    /* [engine] Called once after begin; the answer holds until end. False: none of the forms in this request. */
    bool (*describe)(const cdz_step *step, cdz_form *out);
    /* [engine, no-alloc] For CDZ_FORM_EDIT: the ids whose scores apply may read or write in row r of this step. The list may
     * have more ids than that, and repeated ones; its memory must live as long as the call's scratch. False: apply may use
     * any score of this row. Called before there are scores, any number of times. NULL with other forms. */
    bool (*edits)(const cdz_step *step, uint32_t r, cdz_ids *out);
    /* [engine, no-alloc; look at size] For CDZ_FORM_MASK: sets the bits of the tokens that apply leaves in row r of this step,
     * bit id % 64 of word id / 64. They arrive cleared; bits beyond the vocabulary do not count. Row states are as in apply.
     * False: apply may do anything with this row. Called before there are scores, any number of times, with the same answer for
     * the same ids and state. NULL with other forms. */
    bool (*mask)(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words);
} cdz_form_api;

/* The plugin's table, or NULL when it has none. */
static inline const cdz_form_api *cdz_get_form_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_form_api *)plugin->extension(CDZ_EXT_FORM) : NULL;
}

#endif
