/* trial.h - stages on rows that the caller makes up: no model's passes, no request, no engine. One row, one worker. */
#ifndef CDZ_HOST_RUN_STAGES_TRIAL_H
#define CDZ_HOST_RUN_STAGES_TRIAL_H

#include "run/stages/stages.h"

typedef struct cdz_stage_trial {
    cdz_berth berth;    /* of zeros, but for what the caller sets */
    cdz_run_model bare; /* without a model */
    cdz_rows rows;
    cdz_stageset *set;
    uint32_t n_prompt, n_ids;
    int32_t *ids; /* (n_ids) */
    cdz_ids shown, prompt;
    float *scores; /* (rows.n_vocab) */
} cdz_stage_trial;

/* model: whose vocabulary and tokenizer the plugins see, or NULL: n_vocab tokens without a tokenizer. False: out of memory;
 * to be closed either way. */
bool cdz_stage_trial_open(cdz_stage_trial *t, cdz_plan *plan, cdz_run_model *model,
                          uint32_t n_vocab, uint32_t n_prompt, uint32_t n_steps);
/* Stages and their states, as a request has them. */
cdz_status cdz_stage_trial_begin(cdz_stage_trial *t);
void cdz_stage_trial_close(cdz_stage_trial *t);     /* ends the stages that were begun */
cdz_view *cdz_stage_trial_look(cdz_stage_trial *t); /* at its row, which holds t->shown */

#endif
