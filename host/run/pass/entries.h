/* entries.h - what one layer and kv head of a sequence's cache holds, and at which positions: all of them, or what presses and drops
 * have left (press.h). Layers and heads count from 0; entries rise by position. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_ENTRIES_H
#define CDZ_HOST_RUN_PASS_ENTRIES_H

#include "run/pass/sequence.h"

typedef struct cdz_entries {
    const cdz_seq *seq;
    uint32_t layer, head;
    uint32_t n;                /* entries of it */
    uint32_t left;             /* of them, those that a press or a drop has left */
    uint32_t at;               /* positions of the others begin here */
    const uint32_t *positions; /* (left) */
} cdz_entries;

cdz_entries cdz_entries_of(const cdz_seq *seq, uint32_t layer, uint32_t head);
uint32_t cdz_entries_position(const cdz_entries *e, uint32_t i);
uint32_t cdz_entries_before(const cdz_entries *e, uint32_t position); /* how many lie before it */
/* Entries [first, first + n) in float32; keys and values (n, head_dim). room: (cdz_entries_room(n), 2, head_dim) floats, in which
 * they are. */
uint32_t cdz_entries_room(uint32_t n);
void cdz_entries_read(const cdz_entries *e, uint32_t first, uint32_t n, float *room,
                      const float **keys, const float **values);

#endif
