/* begin_suppress_tokens.c - tokens that may not come first.
 * transformers SuppressTokensAtBeginLogitsProcessor: first means right after the prompt, or after the forced first
 * token when the prompt is just a start token. Ids beyond the vocabulary are ignored. */
#include "tools.h"

typedef struct {
    cdz_int_list begin_suppress_tokens;
} begin_suppress_tokens;

static const cdz_param params[] = {
    CDZ_INTS(begin_suppress_tokens, begin_suppress_tokens, CDZ_GENERATION, -CDZ_NO_LIMIT,
             CDZ_NO_LIMIT, "tokens that may not come first"),
};

static bool idle(const cdz_step *step)
{
    return !((const begin_suppress_tokens *)step->params)->begin_suppress_tokens.set;
}

/* The length of a row whose next token is the first. */
static uint32_t begin_index(const cdz_step *step)
{
    const uint32_t prompt_len = step->request->prompt_len;
    cdz_opt_int forced = {0, false};

    if (prompt_len > 1 ||
        step->host->config(step, "forced_bos_token_id", CDZ_T_OPT_INT, &forced) != CDZ_OK)
        return prompt_len;
    return prompt_len + (forced.set ? 1 : 0);
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const begin_suppress_tokens *p = step->params;
    const uint32_t index = begin_index(step);

    for (uint32_t r = 0; r < scores->n_rows; r++)
        if (step->input_ids[r].len == index)
            suppress_ids(cdz_row(scores, r), scores->n_vocab, p->begin_suppress_tokens);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    const begin_suppress_tokens *p = step->params;
    return step->input_ids[r].len != begin_index(step) ||
           list_ids(step, p->begin_suppress_tokens, out);
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "begin_suppress_tokens", .version = "1.0.0",
             .summary = "Mask given tokens at the beginning",
             CDZ_PARAMS(begin_suppress_tokens, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
