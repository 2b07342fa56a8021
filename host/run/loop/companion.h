/* companion.h - sequences that ride beside the rows for processors that ask for them (cadenza/ext/companion.h).
 *
 * What a companion holds is a function of its row's ids, so nothing here has to be right about the past: before its
 * logits are wanted, a companion is brought to the ids (common beginning kept, the rest cut and appended), whatever
 * became of the row meanwhile. Copies on reorder only save work.
 * Thread: [engine], on the loop's fibre; logits of the present call are read from any thread. */
#ifndef CDZ_HOST_RUN_LOOP_COMPANION_H
#define CDZ_HOST_RUN_LOOP_COMPANION_H

#include "run/loop/loop.h"

/* Asks every stage of the set what its companions are, and makes room for their logits. After the stages have begun. */
cdz_status cdz_companions_begin(cdz_loop *loop, cdz_stageset *set);
void cdz_companions_free(cdz_loop *loop, cdz_stageset *set); /* of the set; NULL is fine */

/* How many sequences they may add to a pass over the rows. */
uint32_t cdz_companions_most(const cdz_loop *loop);
/* Adds those of the rows that run to the loop's want. */
cdz_status cdz_companions_ride(cdz_loop *loop);
cdz_status cdz_companions_rode(cdz_loop *loop); /* after the pass */

/* Row r takes over the companions of row parents[r]. */
cdz_status cdz_companions_reorder(cdz_loop *loop, const uint32_t *parents);

/* Makes every view row's logits known to the set's stages, with a pass where the ride did not bring them. May suspend. */
cdz_status cdz_companions_ready(cdz_loop *loop, const cdz_view *view);
/* Shows every sequence of theirs. */
void cdz_companions_visit(const cdz_loop *loop, void (*visit)(void *user, const cdz_seq *seq),
                          void *user);

/* Sequences that a plan's companions may have. */
uint64_t cdz_companions_most_of(const cdz_plan *plan, uint32_t n_rows);

#endif
