/* dry_run.h - a plan's processors and criteria on one made-up row, before any request meets them.
 *
 * Catches what a call can say: a status, a script's error, a spent budget, a NaN made of numbers, a changed floating-point
 * mode. A native plugin that crashes takes the process with it, here as in a request. Strategies and drafters are created
 * only: they need a model's passes. Thread: the caller's; no engine is involved. */
#ifndef CDZ_HOST_RUN_STAGES_DRY_RUN_H
#define CDZ_HOST_RUN_STAGES_DRY_RUN_H

#include "run/pass/model.h"

/* model: whose vocabulary and tokenizer the plugins see; NULL: 256 tokens without a tokenizer. */
cdz_status cdz_dry_run(cdz_plan *plan, cdz_run_model *model, cdz_error *err);

#endif
