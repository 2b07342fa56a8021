/* bare_loop.h - a loop without a model's passes: stages run on rows that the caller makes up. No engine is involved; one
 * row, one worker. */
#ifndef CDZ_HOST_RUN_BARE_LOOP_H
#define CDZ_HOST_RUN_BARE_LOOP_H

#include "run/task.h"

typedef struct cdz_bare {
    cdz_run_model bare; /* without a model */
    cdz_job job;
    cdz_task task;
    cdz_loop *loop;
    int32_t *ids; /* (n_prompt + n_steps) */
    cdz_ids shown, prompt;
    float *scores; /* (loop->n_vocab) */
} cdz_bare;

/* model: whose vocabulary and tokenizer the plugins see, or NULL: n_vocab tokens without a tokenizer. False: out of memory;
 * to be closed either way. */
bool cdz_bare_open(cdz_bare *t, cdz_plan *plan, cdz_run_model *model, uint32_t n_vocab,
                   uint32_t n_prompt, uint32_t n_steps);
/* After cdz_stages_end, if the stages were begun. */
void cdz_bare_close(cdz_bare *t);
cdz_view *cdz_bare_look(cdz_bare *t); /* at its row, which holds t->shown */

#endif
