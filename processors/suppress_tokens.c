/* suppress_tokens.c - tokens that may never appear.
 * transformers SuppressTokensLogitsProcessor; ids beyond the vocabulary are ignored. */
#include "tools.h"

typedef struct {
    cdz_int_list suppress_tokens;
} suppress_tokens;

static const cdz_param params[] = {
    CDZ_INTS(suppress_tokens, suppress_tokens, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
             "tokens that may not appear"),
};

static bool idle(const cdz_step *step)
{
    return !((const suppress_tokens *)step->params)->suppress_tokens.set;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const suppress_tokens *p = step->params;

    for (uint32_t r = 0; r < scores->n_rows; r++)
        suppress_ids(cdz_row(scores, r), scores->n_vocab, p->suppress_tokens);
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)r;
    return list_ids(step, ((const suppress_tokens *)step->params)->suppress_tokens, out);
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "suppress_tokens", .version = "1.0.0",
             .summary = "Mask given tokens always", CDZ_PARAMS(suppress_tokens, params),
             .extension = edit_extension},
    .caps = CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
