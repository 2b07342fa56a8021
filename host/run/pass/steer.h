/* steer.h - edits of hidden states, as a sequence holds them: a list that never changes, shared by its copies.
 *
 * Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_STEER_H
#define CDZ_HOST_RUN_PASS_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/error.h"
#include "cadenza/ext/steer.h"
#include "load/arch.h"

typedef struct cdz_steering cdz_steering;

/* Whose edits these are: a processor's stay for the life of a row, a strategy's are replaced by its next ones. */
typedef enum cdz_steerer { CDZ_STEERED_BY_PROCESSOR, CDZ_STEERED_BY_STRATEGY } cdz_steerer;

/* A list of its own, held once: what processors gave in `before`, which may be NULL, then these. *out is NULL where that is none. An
 * edit that a model of this architecture cannot have is CDZ_E_PLUGIN, behind `who`. */
cdz_status cdz_steering_make(const cdz_steering *before, const cdz_edit *edits, uint32_t n,
                             cdz_steerer whose, const cdz_arch *arch, const char *who,
                             cdz_steering **out, cdz_error *err);
cdz_steering *cdz_steering_hold(cdz_steering *steering);
void cdz_steering_release(cdz_steering *steering); /* NULL is fine */

/* All that it says, into a sum: the cache of who has it hangs on that. NULL adds nothing. */
void cdz_steering_sum(const cdz_steering *steering, cdz_digest_state *sum);

/* The first position that the two edit in different ways; UINT32_MAX: none. NULL edits nothing. */
uint32_t cdz_steering_parts(const cdz_steering *a, const cdz_steering *b);
/* Is anything edited at that position? */
bool cdz_steering_reaches(const cdz_steering *steering, uint32_t position);
/* Carries out the edits of one place on h (width), the state of that position. */
void cdz_steering_apply(const cdz_steering *steering, uint32_t layer, cdz_edit_place place,
                        uint32_t position, float *h);
/* Has it any of that place? Then apply is worth its call. */
bool cdz_steering_edits(const cdz_steering *steering, uint32_t layer, cdz_edit_place place);

#endif
