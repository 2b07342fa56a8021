/* encoder_repetition_penalty.c - raise the scores of the prompt's tokens, against invention.
 * transformers EncoderRepetitionPenaltyLogitsProcessor: the repetition penalty of 1/p over the prompt. There prompts are
 * not repeated for beams and return sequences, so that only the first rows are reached; with `quirks` here too. */
#include "prompt_rows.h"

typedef struct {
    cdz_opt_real encoder_repetition_penalty;
} encoder_repetition_penalty;

static const cdz_param params[] = {
    CDZ_OPT_REAL(encoder_repetition_penalty, encoder_repetition_penalty,
                 CDZ_GENERATION | CDZ_ABOVE_MIN, 0, CDZ_NO_LIMIT,
                 "scores of the prompt's tokens are multiplied by it; 1: off"),
};

static cdz_status create(const cdz_step *step)
{
    const encoder_repetition_penalty *p = step->params;
    return need_fraction(step, "encoder_repetition_penalty", p->encoder_repetition_penalty);
}

static bool idle(const cdz_step *step)
{
    const encoder_repetition_penalty *p = step->params;
    return !p->encoder_repetition_penalty.set || p->encoder_repetition_penalty.value == 1.0;
}

/* The prompt whose tokens are raised in row r; empty: none are. */
static cdz_ids raised(const cdz_step *step, uint32_t r)
{
    bool quirks = false;

    if (step->host->config(step, "quirks", CDZ_T_BOOL, &quirks) != CDZ_OK || !quirks)
        return prompt_of_row(step, r);
    if (step->row_index[r] >= step->request->n_prompts) return (cdz_ids){0};
    return step->request->prompts[step->row_index[r]];
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const encoder_repetition_penalty *p = step->params;
    const float q = (float)(1.0 / p->encoder_repetition_penalty.value);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = raised(step, r);
        CDZ_TRY(need_ids_in_vocabulary(step, ids, scores->n_vocab));
        vec->penalize(cdz_row(scores, r), scores->n_vocab, ids.at, ids.len, q, scratch);
    }
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    *out = raised(step, r);
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "encoder_repetition_penalty", .version = "1.0.0",
             .summary = "Favour tokens of the prompt",
             CDZ_PARAMS(encoder_repetition_penalty, params), .extension = edit_extension},
    .caps = CDZ_ROWWISE,
    .create = create,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
