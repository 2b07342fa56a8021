/* remove_invalid_values.c - replace what is no finite number: NaN by 0, infinities by the largest float of their sign.
 * transformers InfNanRemoveLogitsProcessor; it undoes the masks of every processor before it. */
#include "tools.h"

#include <float.h>

typedef struct {
    cdz_opt_bool remove_invalid_values;
} remove_invalid_values;

static const cdz_param params[] = {
    CDZ_OPT_BOOL(remove_invalid_values, remove_invalid_values, CDZ_GENERATION,
                 "replace nan and infinite scores"),
};

static bool idle(const cdz_step *step)
{
    return !((const remove_invalid_values *)step->params)->remove_invalid_values.value;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_vec *vec = cdz_get_vec(step);
    const uint32_t n = scores->n_vocab;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        const bool any = vec->any_nan(row, n);
        for (uint32_t v = 0; any && v < n; v++) row[v] = isnan(row[v]) ? 0.0f : row[v];
        vec->clamp(row, n, -FLT_MAX, FLT_MAX);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "remove_invalid_values", .version = "1.0.0",
             .summary = "Replace NaN and infinities by finite scores",
             CDZ_PARAMS(remove_invalid_values, params)},
    .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
