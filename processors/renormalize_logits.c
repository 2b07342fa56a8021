/* renormalize_logits.c - log-probabilities of what the processors before it left.
 * transformers LogitNormalization: log_softmax. */
#include "tools.h"

typedef struct {
    cdz_opt_bool renormalize_logits;
} renormalize_logits;

static const cdz_param params[] = {
    CDZ_OPT_BOOL(renormalize_logits, renormalize_logits, CDZ_GENERATION,
                 "log-probabilities after all processors"),
};

static bool idle(const cdz_step *step)
{
    return !((const renormalize_logits *)step->params)->renormalize_logits.value;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        vec->log_softmax(row, row, scores->n_vocab);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "renormalize_logits", .version = "1.0.0",
             .summary = "Make the scores log-probabilities", CDZ_PARAMS(renormalize_logits, params)},
    .caps = CDZ_ROWWISE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
