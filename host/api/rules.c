/* rules.c - processors and criteria for programs that write their own decode loop: cdz_rules_*.
 *
 * Owns: that every call of theirs comes on the engine's thread, as their headers promise. Not: rows and states
 * (run/stages/lent.h). Thread: [any], but for the engine's, which would wait for itself. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "run/stages/lent.h"

struct cdz_rules {
    cdz_runtime *runtime;
    cdz_model *model; /* retained, or NULL */
    cdz_stage_lent *lent;
};

/* One call on the engine's thread. */
typedef struct rules_call {
    cdz_rules *rules;
    cdz_stage_lent_rows rows;
    float *scores; /* NULL: the criteria are asked */
    bool *done;
    cdz_status status;
    cdz_error *err;
} rules_call;

static cdz_status plan_of(cdz_pipeline *pipeline, const cdz_rules_options *options, cdz_plan **out,
                          cdz_error *err)
{
    const cdz_json *generation = options->model ? &options->model->generation : NULL;
    if (!options->kwargs) return cdz_pipeline_plan(pipeline, generation, NULL, NULL, out, err);
    cdz_arena arena = {0};
    cdz_json kwargs;
    const char *text = options->kwargs;
    cdz_status status = cdz_json_parse(text, strlen(text), "kwargs", NULL, &arena, &kwargs, err);
    if (status == CDZ_OK && !cdz_json_is(&kwargs, CDZ_JSON_OBJECT))
        status = cdz_err(err, CDZ_E_USAGE, "kwargs must be an object, found %s",
                         cdz_json_type_name(&kwargs));
    if (status == CDZ_OK) status = cdz_pipeline_plan(pipeline, generation, &kwargs, NULL, out, err);
    cdz_arena_free(&arena);
    return status;
}

static void log_line(const void *engine, cdz_log_level level, const char *plugin, const char *text)
{
    cdz_engine_log(engine, level, plugin, text);
}

static cdz_status open_lent(cdz_rules *rules, cdz_pipeline *pipeline,
                            const cdz_rules_options *options, cdz_error *err)
{
    cdz_stage_lent_use use = {.backend = cdz_engine_backend(rules->runtime->engine),
                              .model = options->model ? options->model->run : NULL,
                              .n_vocab = options->model ? cdz_model_vocab_size(options->model)
                                                        : options->n_vocab,
                              .log = log_line,
                              .log_of = rules->runtime->engine};
    if (use.n_vocab == 0 || use.n_vocab > INT32_MAX)
        return cdz_err(err, CDZ_E_USAGE,
                       "cdz_rules_options.n_vocab is %u: expected the number of scores in a row",
                       use.n_vocab);
    CDZ_TRY(plan_of(pipeline, options, &use.plan, err));
    return cdz_stage_lent_open(&use, &rules->lent, err);
}

static cdz_status check_runtime(const cdz_runtime *rt, const cdz_pipeline *pipeline,
                                const cdz_model *model, cdz_error *err)
{
    if (!cdz_pipeline_is_of(pipeline, rt->registry))
        return cdz_err(err, CDZ_E_USAGE, "cdz_rules_open: the pipeline is of another runtime");
    if (model && model->runtime != rt)
        return cdz_err(err, CDZ_E_USAGE, "cdz_rules_open: the model is of another runtime");
    return CDZ_OK;
}

cdz_status cdz_rules_open(cdz_runtime *runtime, cdz_pipeline *pipeline,
                          const cdz_rules_options *options, cdz_rules **out, cdz_error *err)
{
    cdz_rules_options given = {0};
    CDZ_TRY(cdz_runtime_take_struct(options, "cdz_rules_options", &given, sizeof given, err));
    cdz_rules *rules = calloc(1, sizeof *rules);
    if (!rules) return cdz_err_memory(err, "processors");
    rules->runtime = runtime;
    rules->model = given.model;
    if (rules->model) cdz_model_retain(rules->model);
    cdz_status status = check_runtime(runtime, pipeline, given.model, err);
    if (status == CDZ_OK) status = open_lent(rules, pipeline, &given, err);
    if (status == CDZ_OK)
        *out = rules;
    else
        cdz_rules_free(rules);
    return status;
}

static cdz_status ask(rules_call *call)
{
    cdz_stop *stops = calloc(call->rows.n ? call->rows.n : 1, sizeof *stops);
    if (!stops) return cdz_err_memory(call->err, "stop rules");
    const cdz_status status = cdz_stage_lent_test(call->rules->lent, &call->rows, stops, call->err);
    for (uint32_t r = 0; status == CDZ_OK && r < call->rows.n; r++)
        call->done[r] = stops[r].reason != CDZ_GO_ON;
    free(stops);
    return status;
}

static void run(void *arg)
{
    rules_call *call = arg;
    call->status = call->scores ? cdz_stage_lent_process(call->rules->lent, &call->rows,
                                                         call->scores, call->err)
                                : ask(call);
}

static cdz_status on_engine(rules_call *call)
{
    CDZ_TRY(cdz_runtime_check_process(call->rules->runtime, call->err));
    if (cdz_engine_call(call->rules->runtime->engine, run, call)) return call->status;
    return cdz_err(call->err, CDZ_E_STATE, "the engine is being stopped");
}

cdz_status cdz_rules_process(cdz_rules *rules, const int32_t *ids, uint32_t n_rows, uint32_t len,
                             float *scores, cdz_error *err)
{
    rules_call call = {.rules = rules, .rows = {ids, n_rows, len}, .scores = scores, .err = err};
    return on_engine(&call);
}

cdz_status cdz_rules_test(cdz_rules *rules, const int32_t *ids, uint32_t n_rows, uint32_t len,
                          bool *done, cdz_error *err)
{
    rules_call call = {.rules = rules, .rows = {ids, n_rows, len}, .done = done, .err = err};
    return on_engine(&call);
}

static void end(void *arg)
{
    cdz_stage_lent_free(arg);
}

void cdz_rules_free(cdz_rules *rules)
{
    if (!rules) return;
    if (rules->lent && !cdz_engine_call(rules->runtime->engine, end, rules->lent)) end(rules->lent);
    if (rules->model) cdz_model_close(rules->model);
    free(rules);
}
