/* drop.h - positions that a decode loop takes out of a sequence's cache: the list of them, and the taking out.
 *
 * A drop is noted with how many positions had been read by then, since what is read later sees none of what it takes. So a cache
 * is a function of ids and drops: one whose blocks were taken, or that was cut to before its newest drop, is read from the
 * beginning, passes end where drops were made, and these are carried out again, to the same bits. Whoever takes back positions
 * that had been read before a drop takes back the drop.
 *
 * A list is shared by copies of a sequence, of each of which only the first so many drops count. Ranges of those are apart: a drop
 * takes what no earlier one has taken. What is left lies as presses leave it (press.h): renumbered or not. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_DROP_H
#define CDZ_HOST_RUN_PASS_DROP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct cdz_drops cdz_drops;
typedef struct cdz_layers cdz_layers;
typedef struct cdz_seq cdz_seq;
typedef struct cdz_run_model cdz_run_model;

typedef struct cdz_drop {
    uint32_t at;       /* positions that had been read */
    uint32_t from, to; /* goes, `to` being the first that does not */
    bool renumber;
    bool joins; /* it is carried out together with the one before: keys turn once for both */
} cdz_drop;

/* To the first *n drops of a list (or NULL) what of [from, to) none of them has; `at` is no less than theirs. False: out of
 * memory, and nothing has changed. */
bool cdz_drops_add(cdz_drops **list, uint32_t *n, const cdz_drop *drop);
cdz_drops *cdz_drops_hold(cdz_drops *list);
void cdz_drops_release(cdz_drops *list); /* NULL is fine */
const cdz_drop *cdz_drops_at(const cdz_drops *list, uint32_t i);
/* How many of the first n had been made when so many positions had been read. */
uint32_t cdz_drops_by(const cdz_drops *list, uint32_t n, uint32_t positions);
/* The first position behind which the two lists leave different caches; UINT32_MAX: none. */
uint32_t cdz_drops_parts(const cdz_drops *a, uint32_t n_a, const cdz_drops *b, uint32_t n_b);

/* Can positions be taken out of the model's caches, and keys be renumbered? */
cdz_status cdz_drop_fits(const cdz_run_model *model, bool renumber, cdz_error *err);
/* Where a pass over the sequence has to end at the latest, for a drop; UINT32_MAX: nowhere. */
uint32_t cdz_drop_next(const cdz_seq *seq);
/* No more entries than these does the sequence have on its way to its first n positions: drops are still to come. */
uint32_t cdz_drop_entries(const cdz_seq *seq, uint32_t n);
/* Carries out the drops that are due where the sequence is. Whatever fails leaves the cache as it is. */
cdz_status cdz_drop_run(cdz_layers *layers, cdz_seq *seq, cdz_error *err);

#endif
