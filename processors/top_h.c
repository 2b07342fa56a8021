/* top_h.c - keep the likeliest tokens up to a share of the row's entropy (Baghaei Potraghloo et al., 2025).
 * transformers TopHLogitsWarper: of the 100 best tokens, those at the head whose terms -p log p add up to at most
 * h times the entropy of the 100. */
#include "tools.h"

enum { LOOKED_AT = 100 };

typedef struct {
    cdz_opt_real top_h;
} top_h;

static const cdz_param params[] = {
    CDZ_OPT_REAL(top_h, top_h, CDZ_GENERATION | CDZ_ABOVE_MIN, 0, 1, "share of the entropy to keep"),
};

static bool idle(const cdz_step *step)
{
    return !((const top_h *)step->params)->top_h.set;
}

/* How many of the n best stay. */
static uint32_t head(const cdz_vec *vec, const float *best, uint32_t n, float h)
{
    float p[LOOKED_AT], terms[LOOKED_AT];
    const float limit = vec->entropy(best, n) * h;
    const float norm = vec->logsumexp(best, n);

    for (uint32_t i = 0; i < n; i++) p[i] = best[i] - norm;
    vec->softmax(p, p, n);
    for (uint32_t i = 0; i < n; i++) terms[i] = p[i];
    vec->log(terms, n);
    for (uint32_t i = 0; i < n; i++) terms[i] = -p[i] * terms[i];
    vec->cumsum(terms, terms, n);

    uint32_t kept = 1;
    while (kept < n && terms[kept] <= limit) kept++;
    return kept;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const uint32_t n_vocab = scores->n_vocab, n = n_vocab < LOOKED_AT ? n_vocab : LOOKED_AT;
    const float h = (float)((const top_h *)step->params)->top_h.value;
    float best[LOOKED_AT];
    int32_t ids[LOOKED_AT];
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        vec->topk(row, n_vocab, n, best, ids, scratch);
        if (!isfinite(best[0]))
            return cdz_fail(step, CDZ_E_INPUT,
                            "top_h: the best score of a row is %g, expected a number",
                            (double)best[0]);
        vec->mask_except(row, n_vocab, ids, head(vec, best, n, h), scratch);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "top_h", .version = "1.0.0",
             .summary = "Keep the likeliest tokens up to a share of the entropy",
             CDZ_PARAMS(top_h, params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
