/* tail_free.c - drop the tail of the distribution, which begins where the sorted probabilities stop curving.
 *
 * Trenton Bricken, "Tail Free Sampling" (2020): of the sorted probabilities the second differences are taken, their
 * absolute values made to sum to 1, and tokens are kept until these reach z. Centred as in the original: the token where
 * it happens is the second of the three that a difference spans, and is dropped. */
#include <cadenza/ext/vec.h>
#include <cadenza/processor.h>

#include <math.h>

typedef struct {
    double tfs_z;
    int64_t min_tokens_to_keep;
} settings;

static const cdz_param params[] = {
    CDZ_REAL(settings, tfs_z, 0.95, 0, 1, "share of the curvature to keep; 1: off"),
    CDZ_INT(settings, min_tokens_to_keep, 1, 1, 2147483647, "least number of tokens to keep"),
};

static bool idle(const cdz_step *step)
{
    const settings *p = step->params;
    return p->tfs_z >= 1;
}

static double curvature(const float *probs, uint32_t i)
{
    return fabs((double)probs[i] - 2.0 * (double)probs[i + 1] + (double)probs[i + 2]);
}

/* How many of the n sorted probabilities stay: one, those whose share is within z, never the last. */
static uint32_t count_kept(const float *probs, uint32_t n, double z)
{
    double sum = 0, reached = 0;
    if (n < 3) return n;
    for (uint32_t i = 0; i + 2 < n; i++) sum += curvature(probs, i);
    if (sum == 0) return n; /* a straight line has no tail */
    for (uint32_t i = 0; i + 2 < n; i++) {
        reached += curvature(probs, i);
        if (reached / sum > z) return i + 1;
    }
    return n - 1;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const settings *p = step->params;
    const uint32_t n = scores->n_vocab;
    const cdz_vec *vec = cdz_get_vec(step);
    float *sorted = cdz_scratch(step, n * sizeof *sorted);
    int32_t *ids = cdz_scratch(step, n * sizeof *ids);
    void *scratch = cdz_scratch(step, cdz_vec_scratch(n));

    if (!sorted || !ids || !scratch)
        return cdz_fail(step, CDZ_E_NOMEM, "tail_free: no memory for a row of scores");
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        vec->sort(row, n, true, sorted, ids, scratch);
        vec->softmax(sorted, sorted, n);
        uint32_t kept = count_kept(sorted, n, p->tfs_z);
        if (kept < p->min_tokens_to_keep)
            kept = p->min_tokens_to_keep < n ? (uint32_t)p->min_tokens_to_keep : n;
        vec->mask_below(row, n, row[ids[kept - 1]]); /* what equals the last one kept stays */
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "tail_free", .version = "1.0.0",
             .summary = "Drop the tail, which begins where the curve flattens",
             CDZ_PARAMS(settings, params)},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
