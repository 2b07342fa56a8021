/* given.h - vectors that the model reads in place of what it has for ids, as a sequence holds them: a list that never changes,
 * shared by its copies.
 *
 * Of a list only what lies before `to` counts: a sequence that was cut to fewer positions has forgotten the rest, and
 * whatever ids come there again are read as ids. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_GIVEN_H
#define CDZ_HOST_RUN_PASS_GIVEN_H

#include <stdint.h>

#include "base/error.h"

typedef struct cdz_given cdz_given;

/* A list of its own, held once: what counts of `before` (or NULL), with n vectors (width) from position `from` on in place of what
 * was there; vectors NULL: ids are read there. *out is NULL where nothing is left. False: out of memory. */
bool cdz_given_make(const cdz_given *before, uint32_t to, uint32_t from, const float *vectors,
                    uint32_t n, uint32_t width, cdz_given **out);
cdz_given *cdz_given_hold(cdz_given *given);
void cdz_given_release(cdz_given *given); /* NULL is fine */

uint64_t cdz_given_bytes(const cdz_given *given); /* of its list; NULL: 0 */
uint64_t cdz_given_share(const cdz_given *given); /* the part that each who holds it bears */

/* (width) what is read at that position; NULL: its id. */
const float *cdz_given_at(const cdz_given *given, uint32_t to, uint32_t position);
/* The first position at which the two differ; UINT32_MAX: none. NULL gives nothing. */
uint32_t cdz_given_parts(const cdz_given *a, uint32_t a_to, const cdz_given *b, uint32_t b_to);

#endif
