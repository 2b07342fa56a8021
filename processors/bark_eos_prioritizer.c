/* bark_eos_prioritizer.c - end a row as soon as its end is likely enough, as Bark's semantic model does.
 * transformers BarkEosPrioritizerLogitsProcessor. generate() never adds it by itself: a pipeline names it. */
#include "tools.h"

#include <string.h>

typedef struct {
    cdz_opt_real min_eos_p;
} bark_eos_prioritizer;

static const cdz_param params[] = {
    CDZ_OPT_REAL(bark_eos_prioritizer, min_eos_p, CDZ_ABOVE_MIN, 0, CDZ_NO_LIMIT,
                 "an end-of-sequence token more probable than this is the only choice"),
};

static bool idle(const cdz_step *step)
{
    return !((const bark_eos_prioritizer *)step->params)->min_eos_p.set ||
           step->request->eos.len == 0;
}

static bool is_due(cdz_ids eos, const float *probs, float min_p)
{
    for (uint32_t i = 0; i < eos.len; i++)
        if (probs[eos.at[i]] > min_p) return true;
    return false;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const float min_p = (float)((const bark_eos_prioritizer *)step->params)->min_eos_p.value;
    const cdz_ids eos = step->request->eos;
    const cdz_vec *vec = cdz_get_vec(step);
    const uint32_t n = scores->n_vocab;

    if (idle(step)) return CDZ_OK;
    float *other = row_scratch(step, scores);
    if (!other) return CDZ_E_NOMEM;
    CDZ_TRY(need_ids_in_vocabulary(step, eos, n));
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        vec->softmax(other, row, n);
        if (!is_due(eos, other, min_p)) continue;
        vec->fill(other, n, -INFINITY);
        for (uint32_t i = 0; i < eos.len; i++) other[eos.at[i]] = row[eos.at[i]];
        memcpy(row, other, n * sizeof *row);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "bark_eos_prioritizer", .version = "1.0.0",
             .summary = "End a row when its end is likely enough",
             CDZ_PARAMS(bark_eos_prioritizer, params)},
    .caps = CDZ_ROWWISE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
