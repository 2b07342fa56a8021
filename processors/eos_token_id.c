/* eos_token_id.c - stop at an end-of-sequence token.
 * transformers EosTokenCriteria: only the newest token counts. */
#include <cadenza/criterion.h>

typedef struct {
    cdz_int_list eos_token_id;
} eos_token_id;

static const cdz_param params[] = {
    CDZ_INTS(eos_token_id, eos_token_id, 0, -2147483648.0, 2147483647.0,
             "tokens that end a row; unset: the request's"),
};

static bool idle(const cdz_step *step)
{
    return !((const eos_token_id *)step->params)->eos_token_id.set && step->request->eos.len == 0;
}

static bool ends(const cdz_step *step, int32_t id)
{
    const cdz_int_list own = ((const eos_token_id *)step->params)->eos_token_id;
    if (!own.set) return cdz_ids_have(step->request->eos, id);
    for (uint32_t i = 0; i < own.len; i++)
        if (own.at[i] == id) return true;
    return false;
}

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        if (ids.len > 0 && ends(step, ids.at[ids.len - 1]))
            stops[r] = (cdz_stop){CDZ_STOP_EOS, {"eos", 3}};
    }
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "eos_token_id", .version = "1.0.0",
             .summary = "Stop at an end-of-sequence token", CDZ_PARAMS(eos_token_id, params)},
    .caps = CDZ_HAS_EOS,
    .idle = idle,
    .test = test,
};
CDZ_EXPORT_PLUGINS(&criterion.base)
