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

/* Who does what edits that are calls ask for. Lists hold it, and are told apart by it, also when it has gone: kept caches outlive
 * their requests. */
typedef struct cdz_steering_answerer {
    uint32_t holds;
    cdz_status (*answer)(void *of, const cdz_hidden_chunk *hidden,
                         cdz_error *err); /* NULL: it has gone */
    void *of;
    cdz_error error; /* of the first call that failed, behind which none follows: what the sequence's cache holds is worth nothing */
} cdz_steering_answerer;

/* Held once, until its end. NULL: out of memory. */
cdz_steering_answerer *cdz_steering_answerer_new(
    cdz_status (*answer)(void *of, const cdz_hidden_chunk *hidden, cdz_error *err), void *of);
void cdz_steering_answerer_end(cdz_steering_answerer *a); /* it answers no more; NULL is fine */

/* Whose edits these are. */
typedef struct cdz_steerer {
    const char *who;                /* for sentences */
    bool lasting;                   /* for the life of a row; else its next ones replace them */
    cdz_steering_answerer *answers; /* calls; NULL: there may be none */
    uint32_t row;                   /* that calls are told of */
} cdz_steerer;

/* A list of its own, held once: what lasts of `before`, which may be NULL, then these. *out is NULL where that is none. An
 * edit that a model of this architecture cannot have is CDZ_E_PLUGIN, behind `who`. */
cdz_status cdz_steering_make(const cdz_steering *before, const cdz_edit *edits, uint32_t n,
                             const cdz_steerer *whose, const cdz_arch *arch, cdz_steering **out,
                             cdz_error *err);
cdz_steering *cdz_steering_hold(cdz_steering *steering);
void cdz_steering_release(cdz_steering *steering);          /* NULL is fine */
uint64_t cdz_steering_bytes_of(uint32_t n, uint32_t width); /* of a list of n edits */
uint64_t cdz_steering_bytes(const cdz_steering *steering);  /* of its list; NULL: 0 */
uint64_t cdz_steering_share(const cdz_steering *steering); /* the part that each who holds it bears */

/* All that it says, into a sum: the cache of who has it hangs on that. NULL adds nothing. */
void cdz_steering_sum(const cdz_steering *steering, cdz_digest_state *sum);

/* The first position that the two edit in different ways; UINT32_MAX: none. NULL edits nothing. */
uint32_t cdz_steering_parts(const cdz_steering *a, const cdz_steering *b);
/* Is anything edited at that position? */
bool cdz_steering_reaches(const cdz_steering *steering, uint32_t position);
/* Carries out the edits of one place on h (n, width), the states of n positions of one sequence from that one on. */
void cdz_steering_apply(const cdz_steering *steering, uint32_t layer, cdz_edit_place place,
                        uint32_t position, uint32_t n, float *h);
/* The first position that a call reaches; UINT32_MAX: none. */
uint32_t cdz_steering_first_call(const cdz_steering *steering);
/* Has it any of that place? Then apply is worth its call. */
bool cdz_steering_edits(const cdz_steering *steering, uint32_t layer, cdz_edit_place place);

#endif
