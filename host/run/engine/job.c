/* job.c - making and freeing what crosses the engine's border. */
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
