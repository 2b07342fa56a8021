/* min_new_tokens.c - no end of sequence before that many new tokens.
 * transformers MinNewTokensLengthLogitsProcessor; end-of-sequence ids beyond the vocabulary are ignored. */
#include "tools.h"

typedef struct {
    cdz_opt_int min_new_tokens;
} min_new_tokens;

static const cdz_param params[] = {
    CDZ_OPT_INT(min_new_tokens, min_new_tokens, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                "new tokens before the sequence may end"),
};

static bool idle(const cdz_step *step)
{
    const min_new_tokens *p = step->params;
    return !p->min_new_tokens.set || p->min_new_tokens.value <= 0 || step->request->eos.len == 0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const min_new_tokens *p = step->params;
    const cdz_ids eos = step->request->eos;
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++)
        if ((int64_t)step->input_ids[r].len - step->request->prompt_len < p->min_new_tokens.value)
            vec->mask_ids(cdz_row(scores, r), scores->n_vocab, eos.at, eos.len);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    const min_new_tokens *p = step->params;
    const int64_t n = (int64_t)step->input_ids[r].len - step->request->prompt_len;

    if (n < p->min_new_tokens.value) *out = step->request->eos;
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "min_new_tokens", .version = "1.0.0",
             .summary = "Mask the end of sequence for some new tokens",
             CDZ_PARAMS(min_new_tokens, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
