/* ext/form.h - "cadenza.form/1": a processor says which known form its edit has, so that the host can run several in one.
 *
 * Scenario. Temperature, top-k and min-p each walk over the whole row. A host that knows that the three are a division
 * and two cuts finds the tokens that survive them all in one walk, and never writes the others. It can only know when
 * the processor says so:
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
 * Promise. On every row of this request apply does exactly what the line of its kind says, which is a call of
 * "cadenza.vec/1", and nothing else: no other score, no state, no message. The host may call apply or not; the bits
 * must be the same; `cadenza plugin test` tries. Processors with accept, row state or companions are never asked, nor are those without
 * CDZ_ROWWISE.
 *
 * CDZ_FORM_EDIT is of another kind: apply is always called, but may be shown a row in which only some scores are true. A
 * host whose rows of scores stay on a device brings over the scores of the ids that `edits` lists, and of the best tokens:
 *
 *     static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
 *     {
 *         *out = step->input_ids[r];              what has been said may be penalised
 *         return true;
 *     }
 *
 * Promise. What apply makes of a listed score hangs on listed scores alone; all others come out as the same numbers. */
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
} cdz_form_kind;

/* Arrives zeroed but for size; `amount` and `count` are the arguments of the call above. */
typedef struct cdz_form {
    uint32_t size;
    uint32_t kind; /* cdz_form_kind */
    double amount;
    uint64_t count;
} cdz_form;

typedef struct cdz_form_api {
    uint32_t size;
    /* [engine] Once after begin; what it says holds until end. False: this request is not of any form. */
    bool (*describe)(const cdz_step *step, cdz_form *out);
    /* [engine, no-alloc] For CDZ_FORM_EDIT: the ids whose scores apply may read or write in row r of this step, more of
     * them if need be, repeated ones too, in memory that is there until the call's scratch is forgotten. False: in this
     * row any score. Asked before there are scores, and any number of times. NULL with other forms. */
    bool (*edits)(const cdz_step *step, uint32_t r, cdz_ids *out);
} cdz_form_api;

/* The plugin's table, or NULL when it has none. */
static inline const cdz_form_api *cdz_get_form_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_form_api *)plugin->extension(CDZ_EXT_FORM) : NULL;
}

#endif
