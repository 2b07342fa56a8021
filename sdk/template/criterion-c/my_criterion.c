/* my_criterion.c - stop a row when a token has been produced often enough. */
#include <cadenza/criterion.h>

typedef struct {
    int64_t token, times;
} settings;

static const cdz_param params[] = {
    CDZ_INT(settings, token, 0, 0, 2147483647, "id of the token"),
    CDZ_INT(settings, times, 1, 1, 1000000, "how often it may be produced"),
};

/* [engine, no-alloc] A pure question: the rows may be candidates that never come to be. */
static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    static const char reason[] = "often enough";
    const settings *p = step->params;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        int64_t seen = 0;
        for (uint32_t i = step->request->prompt_len; i < ids.len; i++)
            seen += ids.at[i] == p->token;
        if (seen >= p->times) stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {reason, sizeof reason - 1}};
    }
    return CDZ_OK;
}

static const cdz_criterion my_criterion = {
    .base = {CDZ_CRITERION_BASE, .id = "org.example.my-criterion", .version = "0.1.0",
             .summary = "Stop when a token has been produced often enough",
             CDZ_PARAMS(settings, params)},
    .test = test,
};
CDZ_EXPORT_PLUGINS(&my_criterion.base)
