/* repetition_penalty.c - lower the scores of tokens that are already in the row (Keskar et al., 2019).
 * transformers RepetitionPenaltyLogitsProcessor: once per distinct token, positive scores are divided, negative ones
 * multiplied. Prompt and pads count unless prompt_ignore_length leaves them out. */
#include "tools.h"

typedef struct {
    cdz_opt_real repetition_penalty;
    cdz_opt_int prompt_ignore_length;
} repetition_penalty;

static const cdz_param params[] = {
    CDZ_OPT_REAL(repetition_penalty, repetition_penalty, CDZ_GENERATION | CDZ_ABOVE_MIN, 0,
                 CDZ_NO_LIMIT, "scores of tokens in the row are divided by it; 1: off"),
    CDZ_OPT_INT(repetition_penalty, prompt_ignore_length, 0, 0, CDZ_NO_LIMIT,
                "leading tokens that do not count"),
};

static cdz_status create(const cdz_step *step)
{
    const repetition_penalty *p = step->params;
    return need_fraction(step, "repetition_penalty", p->repetition_penalty);
}

static bool idle(const cdz_step *step)
{
    const repetition_penalty *p = step->params;
    return !p->repetition_penalty.set || p->repetition_penalty.value == 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const repetition_penalty *p = step->params;
    const uint64_t ignored = (uint64_t)p->prompt_ignore_length.value; /* 0 when unset */
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        CDZ_TRY(need_ids_in_vocabulary(step, ids, scores->n_vocab));
        if (ignored < ids.len)
            vec->penalize(cdz_row(scores, r), scores->n_vocab, ids.at + ignored,
                          ids.len - (size_t)ignored, (float)p->repetition_penalty.value, scratch);
    }
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    const repetition_penalty *p = step->params;
    const uint64_t ignored = (uint64_t)p->prompt_ignore_length.value;
    const cdz_ids ids = step->input_ids[r];

    if (!ids_in_vocabulary(ids, step->request->n_vocab)) return false; /* apply fails */
    if (ignored < ids.len) *out = (cdz_ids){ids.at + ignored, ids.len - (uint32_t)ignored};
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "repetition_penalty", .version = "1.0.0",
             .summary = "Penalise tokens that are already in the row",
             CDZ_PARAMS(repetition_penalty, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .create = create,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
