/* dry_run.c - the canned row: stages are begun, called and ended as in a request. */
#include "run/stages/dry_run.h"

#include <math.h>

#include "run/stages/trial.h"

enum { N_PROMPT = 4, N_STEPS = 2, N_VOCAB = 256 };

/* One processor on the row. A companion's logits are a pass of the model's: its processor is not asked. */
static cdz_status try_processor(cdz_stage_trial *t, cdz_stage *stage)
{
    const uint32_t n = t->rows.n_vocab;
    if (stage->instance->offers.companion) return CDZ_OK;
    cdz_scores scores = {.data = t->scores, .n_rows = 1, .n_vocab = n, .stride = n};
    uint32_t nans = 0;
    for (uint32_t i = 0; i < n; i++) nans += isnan(t->scores[i]) != 0;
    const cdz_stage_chain alone = {stage, 1};
    CDZ_TRY(cdz_stages_process(t->set, &alone, &t->rows, cdz_stage_trial_look(t), &scores, NULL));
    for (uint32_t i = 0; i < n; i++)
        if (isnan(t->scores[i]) && nans == 0)
            return cdz_err(&t->rows.error, CDZ_E_PLUGIN, "%s: apply made a NaN of a row of numbers",
                           stage->plugin->id);
    return CDZ_OK;
}

/* As a step of a request goes: processors, a token, stop rules. */
static cdz_status step(cdz_stage_trial *t)
{
    cdz_stageset *set = t->set;
    for (uint32_t i = 0; i < t->rows.n_vocab; i++)
        t->scores[i] = -0.25F * (float)((i * 7919u + t->shown.len) % 61u);
    for (uint32_t s = 0; s < set->processors.n; s++)
        CDZ_TRY(try_processor(t, &set->processors.at[s]));
    t->shown.len++;
    CDZ_TRY(cdz_stages_accept(set, &t->rows, t->shown, 0, set->states[0].state,
                              t->ids[t->shown.len - 1]));
    cdz_stop stop = {0};
    cdz_scratch_reset(&t->rows.verb_scratch);
    return cdz_stages_test(set, &t->rows, cdz_stage_trial_look(t), &stop);
}

static cdz_status run(cdz_stage_trial *t)
{
    CDZ_TRY(cdz_stage_trial_begin(t));
    t->set->teller = NULL; /* every processor is tried, whatever its phase */
    for (int i = 0; i < N_STEPS; i++) CDZ_TRY(step(t));
    return CDZ_OK;
}

cdz_status cdz_dry_run(cdz_plan *plan, cdz_run_model *model, cdz_error *err)
{
    cdz_stage_trial t;
    cdz_status st = CDZ_E_NOMEM;
    if (cdz_stage_trial_open(&t, plan, model, N_VOCAB, N_PROMPT, N_STEPS)) {
        st = run(&t);
        if (st != CDZ_OK) cdz_err(err, st, "%s", t.rows.error.text);
    } else {
        cdz_err(err, st, "out of memory for the trial run");
    }
    cdz_stage_trial_close(&t);
    return st;
}
