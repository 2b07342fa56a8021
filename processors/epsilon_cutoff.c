/* epsilon_cutoff.c - drop tokens less likely than a constant (Hewitt et al., 2022).
 * transformers EpsilonLogitsWarper: outside (0, 1) it is off. */
#include "tools.h"

typedef struct {
    cdz_opt_real epsilon_cutoff;
    cdz_opt_int min_tokens_to_keep;
} epsilon_cutoff;

static const cdz_param params[] = {
    CDZ_OPT_REAL(epsilon_cutoff, epsilon_cutoff, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "probability a token must reach; outside 0 to 1: off"),
    CDZ_OPT_INT(epsilon_cutoff, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const epsilon_cutoff *p = step->params;
    return !p->epsilon_cutoff.set || p->epsilon_cutoff.value <= 0.0 ||
           p->epsilon_cutoff.value >= 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const epsilon_cutoff *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->keep_epsilon(cdz_row(scores, r), scores->n_vocab, p->epsilon_cutoff.value, keep,
                          scratch);
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "epsilon_cutoff", .version = "1.0.0",
             .summary = "Drop tokens below a probability", CDZ_PARAMS(epsilon_cutoff, params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
