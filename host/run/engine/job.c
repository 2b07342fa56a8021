/* job.c - making and freeing what crosses the engine's border.
 *
 * Owns: a job with its plan, its arena and the KV state that it goes on from; an outcome with its arena and the state that it
 * leaves. Not: a job's models, which are their holders'. Thread: [any]. */
#include "run/job.h"

#include <stdlib.h>

#include "run/engine/engine.h"

cdz_job *cdz_job_new(void)
{
    cdz_job *job = calloc(1, sizeof *job);
    if (job) job->pad = job->bos = -1;
    return job;
}

void cdz_job_free(cdz_job *job)
{
    if (!job) return;
    cdz_plan_free(job->plan);
    cdz_kept_release(job->past);
    for (uint32_t i = 0; i < job->n_constraints; i++) cdz_constraint_release(job->constraints[i]);
    cdz_arena_free(&job->arena);
    free(job);
}

void cdz_outcome_free(cdz_outcome *outcome)
{
    if (!outcome) return;
    cdz_kept_release(outcome->kept);
    cdz_arena_free(&outcome->arena);
    free(outcome);
}
