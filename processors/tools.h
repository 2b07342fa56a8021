/* tools.h - what several of the processors here say in the same words. Everything is inline: each processor stays one
 * file that includes public headers and this page. */
#ifndef CDZ_PROCESSORS_TOOLS_H
#define CDZ_PROCESSORS_TOOLS_H

#include <cadenza/ext/form.h>
#include <cadenza/ext/vec.h>
#include <cadenza/processor.h>

#include <math.h>
#include <string.h>

#define CDZ_MAX_ID 2147483647.0

/* Scratch memory for operations on one row, until apply returns; NULL with the sentence said. */
static inline void *row_scratch(const cdz_step *step, const cdz_scores *scores)
{
    void *scratch = cdz_scratch(step, cdz_vec_scratch(scores->n_vocab));
    if (!scratch)
        cdz_fail(step, CDZ_E_NOMEM, "%s: no memory for a row of scores", step->plugin->id);
    return scratch;
}

/* How many tokens a filter must leave: its own parameter; without it one, and with beams enough for every
 * end-of-sequence token and one to go on with. */
static inline size_t tokens_to_keep(const cdz_step *step, cdz_opt_int own)
{
    if (own.set) return (size_t)own.value;
    if (step->request->num_beams <= 1) return 1;
    return step->request->eos.len > 0 ? (size_t)step->request->eos.len + 1 : 2;
}

static inline bool ids_in_vocabulary(cdz_ids ids, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] < 0 || (uint32_t)ids.at[i] >= n_vocab) return false;
    return true;
}

/* The range of ids that have a score. */
static inline cdz_status need_ids_in_vocabulary(const cdz_step *step, cdz_ids ids, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] < 0 || (uint32_t)ids.at[i] >= n_vocab)
            return cdz_fail(step, CDZ_E_INPUT, "%s: token %d is outside the vocabulary of %u",
                            step->plugin->id, (int)ids.at[i], (unsigned)n_vocab);
    return CDZ_OK;
}

/* The reference refuses 2 where it wants 2.0; 1 passes because it switches the processor off. */
static inline cdz_status need_fraction(const cdz_step *step, const char *name, cdz_opt_real value)
{
    if (!value.set || !value.is_int || value.value == 1.0) return CDZ_OK;
    return cdz_fail(step, CDZ_E_USAGE, "%s = %.0f: must be written with a fraction (%.1f)", name,
                    value.value, value.value);
}

/* A forced token: every other score is masked. */
static inline void force_ids(const cdz_step *step, float *row, uint32_t n_vocab, const int64_t *ids,
                             uint32_t n)
{
    cdz_get_vec(step)->fill(row, n_vocab, -INFINITY);
    for (uint32_t i = 0; i < n; i++) row[ids[i]] = 0.0f;
}

/* Masks ids of a parameter; those beyond the vocabulary are ignored. */
static inline void suppress_ids(float *row, uint32_t n_vocab, cdz_int_list ids)
{
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] >= 0 && ids.at[i] < n_vocab) row[ids.at[i]] = -INFINITY;
}

/* Those of a parameter's ids that have a score, in scratch memory. */
static inline bool list_ids(const cdz_step *step, cdz_int_list list, cdz_ids *out)
{
    int32_t *ids = cdz_scratch(step, list.len * sizeof *ids + 1);
    uint32_t n = 0;

    if (!ids) return false;
    for (uint32_t i = 0; i < list.len; i++)
        if (list.at[i] >= 0 && list.at[i] < step->request->n_vocab) ids[n++] = (int32_t)list.at[i];
    *out = (cdz_ids){ids, n};
    return true;
}

/* The form of a processor that changes few scores (cadenza/ext/form.h), those that `lists` lists. */
static inline bool describe_edit(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_EDIT;
    return true;
}

#define CDZ_EDIT_FORM(lists)                                                                       \
    static const cdz_form_api edit_form = {                                                        \
        .size = sizeof edit_form, .describe = describe_edit, .edits = (lists)};                    \
    static const void *edit_extension(const char *id)                                              \
    {                                                                                              \
        return strcmp(id, CDZ_EXT_FORM) == 0 ? &edit_form : NULL;                                  \
    }

#endif
