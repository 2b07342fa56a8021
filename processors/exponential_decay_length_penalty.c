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

/* A row of what is added, zero but at the ends of sequence: -0 elsewhere becomes 0, as there. */
static void favour(const cdz_vec *vec, float *row, uint32_t n_vocab, cdz_ids eos, float growth,
                   float *penalties)
{
    vec->fill(penalties, n_vocab, 0.0f);
    for (uint32_t i = 0; i < eos.len; i++) penalties[eos.at[i]] = fabsf(row[eos.at[i]]) * growth;
    vec->add_v(row, penalties, n_vocab);
}

/* How far n is past `first`, which may be any integer. */
static int64_t past(int64_t n, int64_t first)
{
    int64_t far;
    if (!__builtin_sub_overflow(n, first, &far)) return far;
    return first < 0 ? INT64_MAX : INT64_MIN;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_int_real *p =
        &((const exponential_decay_length_penalty *)step->params)->exponential_decay_length_penalty;
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const int64_t n =
            past((int64_t)step->input_ids[r].len - step->request->prompt_len, p->first);
        const float growth = (float)(pow(p->second, (double)n) - 1.0);
        if (n > 0)
            favour(vec, cdz_row(scores, r), scores->n_vocab, step->request->eos, growth, scratch);
    }
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)r;
    *out = step->request->eos;
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "exponential_decay_length_penalty", .version = "1.0.0",
             .summary = "Favour the end of sequence more and more past a length",
             CDZ_PARAMS(exponential_decay_length_penalty, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
