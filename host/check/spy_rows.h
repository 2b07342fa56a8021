/* spy_rows.h - rows of scores between guards: what a strategy or drafter gets from its verbs in place of the engine's own. One
 * run at a time, in the check's process. */
#ifndef CDZ_HOST_CHECK_SPY_ROWS_H
#define CDZ_HOST_CHECK_SPY_ROWS_H

#include "cadenza/strategy.h"

/* Whose rows they are: those of passes may move with any later pass, which a drafter may ask for too. */
typedef enum cdz_rows_of { CDZ_ROWS_KEPT, CDZ_ROWS_OF_PASS } cdz_rows_of;

/* A new run, of which nothing is shown yet: rows lie flush with the guard behind them (at_end) or before. */
void cdz_shown_begin(bool at_end);
void cdz_shown_end(void);
bool cdz_shown_on(void);

/* Scores of the engine, as they are shown; as they are where they are not in host memory, or too many. */
void cdz_shown_scores(cdz_scores *scores, cdz_rows_of whose);
void cdz_shown_hidden(cdz_hidden *hidden); /* which nobody may write */
/* Scores that were shown, as the engine knows them. */
cdz_scores cdz_shown_real(const cdz_scores *seen);

void cdz_shown_give(void); /* before a verb: what was written goes to the engine's rows */
void cdz_shown_take(void); /* after it: what the engine wrote is shown */
void cdz_shown_forget(cdz_rows_of whose);
const char *cdz_shown_complaint(void); /* something was written between two rows; "": nothing */

#endif
