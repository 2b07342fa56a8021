/* plan_report.h - what a plan's processors cost on made-up rows, together and one by one (`cadenza explain --plan`), and what its
 * presses give back. */
#ifndef CDZ_HOST_RUN_STAGES_PLAN_REPORT_H
#define CDZ_HOST_RUN_STAGES_PLAN_REPORT_H

#include "base/arena.h"
#include "base/buf.h"
#include "config/pipeline.h"

/* Begins the processors for a vocabulary of n_vocab, times them, and writes a table. Thread: the caller's; no engine is
 * involved. fuses: as the engine would. */
cdz_status cdz_stages_report_plan(cdz_plan *plan, uint32_t n_vocab, bool fuses, cdz_buf *out,
                                  cdz_error *err);
/* What the presses of a plan give back of a long prompt's KV cache; nothing where it has none. config: the model's config.json, at
 * path. */
cdz_status cdz_stages_report_presses(const cdz_plan *plan, const cdz_json *config, const char *path,
                                     cdz_arena *arena, cdz_buf *out, cdz_error *err);

#endif
