/* sequences.h - a value for the last token of a sequence, added where the row already ends in the rest of it.
 * What sequence_bias and bad_words_ids share (transformers SequenceBiasLogitsProcessor, NoBadWordsLogitsProcessor).
 *
 * The values of one-token sequences are a row of their own; longer ones are added to a copy of it in the order they
 * were written, and the sum to the scores: the order of the additions is the reference's. */
#ifndef CDZ_PROCESSORS_SEQUENCES_H
#define CDZ_PROCESSORS_SEQUENCES_H

#include "tools.h"

#include <string.h>

typedef struct sequence {
    const int64_t *ids;
    uint32_t len;
    float value;
} sequence;

typedef struct sequences {
    float *single;    /* n_vocab */
    sequence *longer; /* those of two tokens and more, n of them */
    uint32_t n;
    int32_t *last; /* (n_last) the last token of each */
    uint32_t n_last;
} sequences;

static inline sequences *sequences_new(const cdz_step *step, uint32_t room)
{
    sequences *s = cdz_alloc(step, sizeof *s);
    if (!s) return NULL;
    s->single = cdz_alloc(step, step->request->n_vocab * sizeof *s->single);
    s->longer = cdz_alloc(step, (size_t)room * sizeof *s->longer + 1);
    s->last = cdz_alloc(step, (size_t)room * sizeof *s->last + 1);
    return s->single && s->longer && s->last ? s : NULL;
}

static inline cdz_status sequences_add(const cdz_step *step, sequences *s, cdz_int_list ids,
                                       float value)
{
    const uint32_t n_vocab = step->request->n_vocab;

    if (ids.len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "%s: a sequence is empty", step->plugin->id);
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] < 0 || ids.at[i] >= n_vocab)
            return cdz_fail(step, CDZ_E_USAGE, "%s: token %lld is outside the vocabulary of %u",
                            step->plugin->id, (long long)ids.at[i], (unsigned)n_vocab);
    if (ids.len == 1)
        s->single[ids.at[0]] = value;
    else
        s->longer[s->n++] = (sequence){ids.at, ids.len, value};
    s->last[s->n_last++] = (int32_t)ids.at[ids.len - 1];
    return CDZ_OK;
}

/* The whole sequence must fit into the row, not only its beginning: the reference's rule. */
static inline bool sequence_fires(const sequence *q, cdz_ids row)
{
    if (q->len > row.len) return false;
    const uint32_t n_prefix = q->len - 1;
    for (uint32_t i = 0; i < n_prefix; i++)
        if (q->ids[i] != row.at[row.len - n_prefix + i]) return false;
    return true;
}

static inline cdz_status sequences_apply(const cdz_step *step, cdz_scores *scores)
{
    const sequences *s = step->shared;
    const uint32_t n_vocab = scores->n_vocab;
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const float *bias = s->single;
        for (uint32_t i = 0; i < s->n; i++) {
            const sequence *q = &s->longer[i];
            if (!sequence_fires(q, step->input_ids[r])) continue;
            if (bias == s->single) bias = memcpy(scratch, s->single, n_vocab * sizeof *bias);
            ((float *)scratch)[q->ids[q->len - 1]] += q->value;
        }
        vec->add_v(cdz_row(scores, r), bias, n_vocab);
    }
    return CDZ_OK;
}

/* Whether they fire or not: there are few. */
static inline bool sequences_edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    const sequences *s = step->shared;

    (void)r;
    if (s) *out = (cdz_ids){s->last, s->n_last};
    return true;
}

#endif
