/* min_length.c - no end of sequence while prompt and new tokens together are fewer.
 * transformers MinLengthLogitsProcessor; end-of-sequence ids beyond the vocabulary are ignored. Where min_new_tokens is
 * set, the request's resolved minimum has replaced min_length, as in the reference. */
#include "tools.h"

typedef struct {
    cdz_opt_int min_length;
} min_length;

static const cdz_param params[] = {
    CDZ_OPT_INT(min_length, min_length, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                "tokens, prompt included, before the sequence may end"),
};

/* Does the request set min_length? If not, it is this instance's own. */
static bool is_the_requests(const cdz_step *step)
{
    cdz_opt_int set = {0, false};
    return step->host->config(step, "min_length", CDZ_T_OPT_INT, &set) == CDZ_OK && set.set;
}

static int64_t least(const cdz_step *step)
{
    const min_length *p = step->params;
    cdz_opt_int new_tokens = {0, false};

    if (step->host->config(step, "min_new_tokens", CDZ_T_OPT_INT, &new_tokens) == CDZ_OK &&
        new_tokens.set)
        return step->request->min_length;
    if (step->request->n_prompts > 0 && step->request->prompts[0].len == 0 && is_the_requests(step))
        return step->request->min_length; /* less the embeddings that are the prompt */
    return p->min_length.value;           /* 0 when unset */
}

static bool idle(const cdz_step *step)
{
    return least(step) <= 0 || step->request->eos.len == 0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const int64_t len = least(step);
    const cdz_ids eos = step->request->eos;
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++)
        if ((int64_t)step->input_ids[r].len < len)
            vec->mask_ids(cdz_row(scores, r), scores->n_vocab, eos.at, eos.len);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    if ((int64_t)step->input_ids[r].len < least(step)) *out = step->request->eos;
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "min_length", .version = "1.0.0",
             .summary = "Mask the end of sequence up to a total length",
             CDZ_PARAMS(min_length, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
