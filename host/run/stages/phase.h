/* phase.h - which phase each row is in, and which processors that leaves (cadenza/ext/phase.h).
 *
 * The first processor of a plan with phases tells them. It is asked once for every row of a view before the processors
 * run; what it says is a bit, and a processor runs on the row when its own bits hold that one. */
#ifndef CDZ_HOST_RUN_STAGES_PHASE_H
#define CDZ_HOST_RUN_STAGES_PHASE_H

#include "run/stages/stages.h"

/* After the stages have begun: finds the one that tells phases. */
void cdz_phases_begin(cdz_stageset *set);
/* Asks where the view's rows are; nothing without phases. [engine] */
cdz_status cdz_phases_look(const cdz_stageset *set, cdz_rows *rows, const cdz_view *view);

/* The bit of the phase that the newest of ids is of, which the stages have not been told of yet; state: the row's. [engine] */
cdz_status cdz_phases_of_newest(const cdz_stageset *set, cdz_rows *rows, cdz_ids ids, uint32_t row,
                                unsigned char *state, uint32_t *bit);

/* The bit of the phase that a request row's next token is of. [engine] */
cdz_status cdz_phases_of_row(const cdz_stageset *set, cdz_rows *rows, uint32_t row, uint32_t *bit);

/* The bit of view row i, as last looked at. [row] */
static inline uint32_t cdz_phase_bit(const cdz_stageset *set, const cdz_rows *rows, uint32_t i)
{
    return set->teller ? rows->phase_view[i] : CDZ_IN_ALL_PHASES;
}

static inline bool cdz_stage_runs(const cdz_stageset *set, const cdz_rows *rows,
                                  const cdz_stage *stage, uint32_t i)
{
    return (stage->phases & cdz_phase_bit(set, rows, i)) != 0;
}

#endif
