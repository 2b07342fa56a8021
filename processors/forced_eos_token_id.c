/* forced_eos_token_id.c - the last token that max_length leaves room for.
 * transformers ForcedEOSTokenLogitsProcessor; of several ids, greedy decoding takes the lowest. */
#include "tools.h"

typedef struct {
    cdz_int_list forced_eos_token_id;
} forced_eos_token_id;

static const cdz_param params[] = {
    CDZ_INTS(forced_eos_token_id, forced_eos_token_id, CDZ_GENERATION, 0, CDZ_MAX_ID,
             "the token, or tokens to choose from, at max_length"),
};

static bool idle(const cdz_step *step)
{
    return !((const forced_eos_token_id *)step->params)->forced_eos_token_id.set;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_int_list *ids = &((const forced_eos_token_id *)step->params)->forced_eos_token_id;
    const uint32_t n_vocab = step->request->n_vocab;

    for (uint32_t i = 0; i < ids->len; i++)
        if (ids->at[i] >= n_vocab)
            return cdz_fail(step, CDZ_E_USAGE,
                            "forced_eos_token_id: token %lld is outside the vocabulary of %u",
                            (long long)ids->at[i], (unsigned)n_vocab);
    *shared = NULL;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_int_list *ids = &((const forced_eos_token_id *)step->params)->forced_eos_token_id;

    for (uint32_t r = 0; r < scores->n_rows; r++)
        if ((uint64_t)step->input_ids[r].len + 1 == step->request->max_length)
            force_ids(step, cdz_row(scores, r), scores->n_vocab, ids->at, ids->len);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)out;
    return (uint64_t)step->input_ids[r].len + 1 != step->request->max_length;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "forced_eos_token_id", .version = "1.0.0",
             .summary = "Force the last token before max_length",
             CDZ_PARAMS(forced_eos_token_id, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
