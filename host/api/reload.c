/* reload.c - a pipeline read again: tried on a made-up row, then adopted, or refused and the old one goes on.
 *
 * Owns: the order of these steps, one reload of a pipeline at a time. Not: when (reloader.c), editions (config/editions.c),
 * what running requests make of it (run/loop/renew.c). Thread: [any]. */
#include "api/api.h"
#include "run/stages/dry_run.h"

/* A plan as a request without arguments would have it. Where the pipeline alone is no whole request, now as before, its
 * parts cannot be tried: their first request will. */
static cdz_status plan_trial(cdz_pipeline *pipeline, cdz_edition *next, const cdz_model *model,
                             cdz_plan **out, cdz_error *err)
{
    const cdz_plan_inputs inputs = {.model_generation = model ? &model->generation : NULL};
    const cdz_status st = cdz_edition_plan(pipeline, next, &inputs, out, err);
    if (st == CDZ_OK) return CDZ_OK;
    cdz_plan *before = NULL;
    *out = NULL;
    if (cdz_pipeline_plan(pipeline, inputs.model_generation, NULL, NULL, &before, NULL) == CDZ_OK) {
        cdz_plan_free(before);
        return st;
    }
    return CDZ_OK;
}

static cdz_status try_edition(cdz_pipeline *pipeline, cdz_edition *next, const cdz_model *model,
                              cdz_error *err)
{
    cdz_plan *plan = NULL;
    CDZ_TRY(plan_trial(pipeline, next, model, &plan, err));
    const cdz_status st = plan ? cdz_dry_run(plan, model ? model->run : NULL, err) : CDZ_OK;
    cdz_plan_free(plan);
    return st;
}

cdz_status cdz_pipeline_reload(cdz_pipeline *pipeline, const cdz_model *model, cdz_error *err)
{
    cdz_edition *next = NULL;
    cdz_pipeline_lock_reloading(pipeline);
    cdz_status st = cdz_pipeline_read_again(pipeline, &next, err);
    if (st == CDZ_OK) st = try_edition(pipeline, next, model, err);
    if (st == CDZ_OK)
        cdz_pipeline_adopt(pipeline, next);
    else
        cdz_edition_release(next);
    cdz_pipeline_unlock_reloading(pipeline);
    return st;
}

uint64_t cdz_pipeline_generation(const cdz_pipeline *pipeline)
{
    return cdz_pipeline_edition_number(pipeline);
}
