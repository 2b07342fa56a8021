/* plan_report.h - what a plan's processors cost on made-up rows, together and one by one: `cadenza explain --plan`. */
#ifndef CDZ_HOST_RUN_STAGES_PLAN_REPORT_H
#define CDZ_HOST_RUN_STAGES_PLAN_REPORT_H

#include "base/buf.h"
#include "config/pipeline.h"

/* Begins the processors for a vocabulary of n_vocab, times them, and writes a table. Thread: the caller's; no engine is
 * involved. fuses: as the engine would. */
cdz_status cdz_stages_report_plan(cdz_plan *plan, uint32_t n_vocab, bool fuses, cdz_buf *out,
                                  cdz_error *err);

#endif
