/* max_length.c - stop when a row is full: prompt and new tokens together.
 * transformers MaxLengthCriteria. The request's limit already counts max_new_tokens. */
#include <cadenza/criterion.h>
#include <cadenza/ext/inserted.h>

typedef struct {
    cdz_opt_int max_length;
} max_length;

static const cdz_param params[] = {
    CDZ_OPT_INT(max_length, max_length, 0, 0, CDZ_NO_LIMIT,
                "tokens of a full row, prompt included; unset: the request's"),
};

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    const cdz_opt_int own = ((const max_length *)step->params)->max_length;
    const cdz_inserted_api *inserted = cdz_get_inserted(step);
    const int64_t limit = own.set ? own.value : (int64_t)step->request->max_length;

    for (uint32_t r = 0; r < step->n_rows; r++)
        if ((int64_t)step->input_ids[r].len - (inserted ? inserted->uncounted(step, r) : 0) >= limit)
            stops[r] = (cdz_stop){CDZ_STOP_LENGTH, {"length", 6}};
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "max_length", .version = "1.0.0",
             .summary = "Stop when a row has its length", CDZ_PARAMS(max_length, params)},
    .test = test,
};
CDZ_EXPORT_PLUGINS(&criterion.base)
