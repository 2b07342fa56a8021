/* max_time.c - stop after some seconds.
 * transformers MaxTimeCriteria: counted from before the prompt is computed and looked at after each token, so that there
 * is always one. */
#include <cadenza/criterion.h>

typedef struct {
    cdz_opt_real max_time;
} max_time;

static const cdz_param params[] = {
    CDZ_OPT_REAL(max_time, max_time, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "seconds, from before the prompt is computed"),
};

static bool idle(const cdz_step *step)
{
    return !((const max_time *)step->params)->max_time.set;
}

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    const double limit = ((const max_time *)step->params)->max_time.value;

    if (step->host->now_s(step) - step->request->start_s > limit)
        for (uint32_t r = 0; r < step->n_rows; r++)
            stops[r] = (cdz_stop){CDZ_STOP_TIME, {"time", 4}};
    return CDZ_OK;
}

static const cdz_criterion criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "max_time", .version = "1.0.0",
             .summary = "Stop after some seconds", CDZ_PARAMS(max_time, params)},
    .idle = idle,
    .test = test,
};
CDZ_EXPORT_PLUGINS(&criterion.base)
