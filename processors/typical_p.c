/* typical_p.c - keep tokens whose surprise is near the expected one (Meister et al., 2022).
 * transformers TypicalLogitsWarper: the most likely token may go. */
#include "tools.h"

typedef struct {
    cdz_opt_real typical_p;
    cdz_opt_int min_tokens_to_keep;
} typical_p;

static const cdz_param params[] = {
    CDZ_OPT_REAL(typical_p, typical_p, CDZ_GENERATION | CDZ_ABOVE_MIN, 0, CDZ_NO_LIMIT,
                 "probability to keep; 1 and above: all"),
    CDZ_OPT_INT(typical_p, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const typical_p *p = step->params;
    return !p->typical_p.set || p->typical_p.value >= 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const typical_p *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->keep_typical(cdz_row(scores, r), scores->n_vocab, p->typical_p.value, keep, scratch);
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "typical_p", .version = "1.0.0",
             .summary = "Keep tokens whose surprise is nearest to the entropy",
             CDZ_PARAMS(typical_p, params)},
    .caps = CDZ_ROWWISE | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
