/* eta_cutoff.c - drop tokens below a threshold that falls with the entropy (Hewitt et al., 2022).
 * transformers EtaLogitsWarper: outside (0, 1) it is off; a row without an entropy is an error. */
#include "tools.h"

typedef struct {
    cdz_opt_real eta_cutoff;
    cdz_opt_int min_tokens_to_keep;
} eta_cutoff;

static const cdz_param params[] = {
    CDZ_OPT_REAL(eta_cutoff, eta_cutoff, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "probability a token must reach; outside 0 to 1: off"),
    CDZ_OPT_INT(eta_cutoff, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const eta_cutoff *p = step->params;
    return !p->eta_cutoff.set || p->eta_cutoff.value <= 0.0 || p->eta_cutoff.value >= 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const eta_cutoff *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        if (!isfinite(vec->max(row, scores->n_vocab)) || vec->any_nan(row, scores->n_vocab))
            return cdz_fail(step, CDZ_E_INPUT, "eta_cutoff: a row of scores has no entropy");
        vec->keep_eta(row, scores->n_vocab, p->eta_cutoff.value, keep, scratch);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "eta_cutoff", .version = "1.0.0",
             .summary = "Drop tokens below a probability that follows the entropy",
             CDZ_PARAMS(eta_cutoff, params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
