/* press.h - the presses of a request: which of them go together, what they ask for, and the calls.
 *
 * The passes know a cdz_press_plan (run/pass/press.h); this makes one of a plan's instances. All memory is the rows' arena's, so
 * sequences may point to it for as long as they live. Thread: [engine]; `press` of a plugin is called between two passes, not
 * on the loop's fibre. */
#ifndef CDZ_HOST_RUN_STAGES_PRESS_H
#define CDZ_HOST_RUN_STAGES_PRESS_H

#include "run/pass/press.h"
#include "run/stages/stages.h"

typedef struct cdz_stage_presses cdz_stage_presses;

/* *out NULL: the plan has none. Refuses what cannot be, in a sentence. To be ended also on failure. */
cdz_status cdz_stage_presses_begin(cdz_rows *rows, const cdz_plan *plan, bool records,
                                   cdz_stage_presses **out);
void cdz_stage_presses_end(cdz_stage_presses *presses); /* NULL is fine */

cdz_press_plan *cdz_stage_presses_plan(cdz_stage_presses *presses);
/* What was recorded of a row's presses: JSON objects with commas between them; NULL: none. */
const char *cdz_stage_presses_events(const cdz_stage_presses *presses, uint32_t row);

#endif
