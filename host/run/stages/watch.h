/* watch.h - the request's observers: told of what the loop does, unable to change it, dropped when they fail.
 * All [engine], on the loop's fibre. */
#ifndef CDZ_HOST_RUN_STAGES_WATCH_H
#define CDZ_HOST_RUN_STAGES_WATCH_H

#include "cadenza/observer.h"
#include "run/stages/stages.h"

/* Begins the plan's observers; fails only when memory is out. */
cdz_status cdz_watch_begin(cdz_rows *rows, const cdz_plan *plan);
void cdz_watch_end(cdz_rows *rows); /* and gives their memory back */

/* Round the processors on these rows. `before` and `stage_before` keep what the rows are; they do nothing where nobody
 * would look at it, and fail only when memory is out. */
cdz_status cdz_watch_before(cdz_rows *rows, const cdz_scores *scores);
cdz_status cdz_watch_stage_before(cdz_rows *rows, const cdz_scores *scores);
cdz_status cdz_watch_stage(const cdz_stageset *set, const cdz_stage *by, cdz_rows *rows,
                           const cdz_view *view, const cdz_scores *scores);
/* changed: processors have run, and `before` kept what was. */
cdz_status cdz_watch_scores(cdz_rows *rows, const cdz_view *view, const cdz_scores *scores,
                            bool changed);
/* Does anyone look at scores of rows that are filled with pad? */
bool cdz_watch_sees_ended(const cdz_rows *rows);
/* Does anyone look at every processor? Then they run one after the other. */
bool cdz_watch_sees_stages(const cdz_rows *rows);

/* Events of row r, which stands as it is after them. */
void cdz_watch_token(cdz_rows *rows, uint32_t r, int32_t token);
void cdz_watch_stop(cdz_rows *rows, uint32_t r, cdz_ids ids, const cdz_stop *stop);
void cdz_watch_rewind(cdz_rows *rows, uint32_t r, uint32_t n);
cdz_status cdz_watch_reorder(cdz_rows *rows, const uint32_t *parents);

#endif
