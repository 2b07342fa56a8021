/* exponential_decay_length_penalty.c - make the end of sequence likelier with every token past a length.
 * transformers ExponentialDecayLengthPenalty: n tokens after `start` new ones, s becomes s + |s| * (factor^n - 1); a
 * masked end of sequence becomes NaN, as there. */
#include "tools.h"

typedef struct {
    cdz_int_real exponential_decay_length_penalty;
} exponential_decay_length_penalty;

static const cdz_param params[] = {
    CDZ_INT_REAL(exponential_decay_length_penalty, exponential_decay_length_penalty, CDZ_GENERATION,
                 "[start, factor]: from start new tokens on the end grows likelier"),
};

static bool idle(const cdz_step *step)
{
    const exponential_decay_length_penalty *p = step->params;
    return !p->exponential_decay_length_penalty.set;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    if (step->request->eos.len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "exponential_decay_length_penalty needs eos_token_id, and none is set");
    *shared = NULL;
    return need_ids_in_vocabulary(step, step->request->eos, step->request->n_vocab);
}

static void favour(float *row, cdz_ids eos, float growth)
{
    for (uint32_t i = 0; i < eos.len; i++) {
        bool again = false; /* listed before: the penalty is that of the original score */
        for (uint32_t j = 0; j < i; j++) again = again || eos.at[j] == eos.at[i];
        if (again) continue;
        float *s = &row[eos.at[i]];
        *s = *s + fabsf(*s) * growth;
    }
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_int_real *p =
        &((const exponential_decay_length_penalty *)step->params)->exponential_decay_length_penalty;
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const int64_t n = (int64_t)step->input_ids[r].len - step->request->prompt_len - p->first;
        if (n <= 0) continue;
        float *row = cdz_row(scores, r);
        favour(row, step->request->eos, (float)(pow(p->second, (double)n) - 1.0));
        vec->add(row, scores->n_vocab,
                 0.0f); /* as there: every other score gets 0, and -0 is gone */
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "exponential_decay_length_penalty", .version = "1.0.0",
             .summary = "Favour the end of sequence more and more past a length",
             CDZ_PARAMS(exponential_decay_length_penalty, params)},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
