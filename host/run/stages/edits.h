/* edits.h - processors that change few scores, or mask all but some, on rows that are away (cadenza/ext/form.h,
 * CDZ_FORM_EDIT and CDZ_FORM_MASK).
 *
 * Before a pass they say which scores they may touch, and the device tells these with the row's leaders. They are then run
 * on the row's place at home, where nothing else is true. What comes of it, edited scores and leaders together, is
 * again every score that is not below the leaders' bound: the others were below it and are unchanged.
 *
 * Masks come after the edits. They too tell before the pass, token by token, what they leave of a row; the device tells the
 * leaders of the row masked so, and the masks are not run. A row that is left with nothing comes home. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_STAGES_EDITS_H
#define CDZ_HOST_RUN_STAGES_EDITS_H

#include "run/stages/stages.h"

/* How many such stages the processors begin with, edits and then masks. */
uint32_t cdz_edits(const cdz_stageset *set);

/* Notes for each row that runs which scores its edits want of the pass, and what its masks leave. Who wants whole rows instead, as a profile names
 * it; NULL: nobody. */
const char *cdz_edits_plan(cdz_stageset *set, cdz_rows *rows);

/* Row r of `scores`, which is the view's r and row first + r of the request, is away: what is known of it after the
 * edits, in scratch memory of worker 0, the row's place at home being work memory. False: not enough is known. */
bool cdz_edits_known(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                     uint32_t r, cdz_leading *out);

/* The same where the edits are all there is to do: the row stays away, processed. */
bool cdz_edits_settle(cdz_stageset *set, cdz_rows *rows, const cdz_scores *scores, uint32_t first,
                      uint32_t r);

#endif
