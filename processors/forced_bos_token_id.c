/* forced_bos_token_id.c - the token after a lone start token.
 * transformers ForcedBOSTokenLogitsProcessor: acts on rows of exactly one token, so never after a longer prompt. */
#include "tools.h"

typedef struct {
    cdz_opt_int forced_bos_token_id;
} forced_bos_token_id;

static const cdz_param params[] = {
    CDZ_OPT_INT(forced_bos_token_id, forced_bos_token_id, CDZ_GENERATION, 0, CDZ_MAX_ID,
                "the token that follows a lone start token"),
};

static bool idle(const cdz_step *step)
{
    return !((const forced_bos_token_id *)step->params)->forced_bos_token_id.set;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const int64_t id = ((const forced_bos_token_id *)step->params)->forced_bos_token_id.value;
    const cdz_ids ids = {(const int32_t[]){(int32_t)id}, 1};

    CDZ_TRY(need_ids_in_vocabulary(step, ids, scores->n_vocab));
    for (uint32_t r = 0; r < scores->n_rows; r++)
        if (step->input_ids[r].len == 1)
            force_ids(step, cdz_row(scores, r), scores->n_vocab, &id, 1);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)out;
    return step->input_ids[r].len != 1;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "forced_bos_token_id", .version = "1.0.0",
             .summary = "Force the first token after a lone start token",
             CDZ_PARAMS(forced_bos_token_id, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
