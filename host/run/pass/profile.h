/* profile.h - where an engine's time goes, by kind of work, for prompts and for decoding apart.
 *
 * One kind of work is going on at any time on the engine's thread, fibres included; a mark ends it and begins another.
 * So the kinds add up to the time that the engine was awake, each alone: what a strategy calls is not the strategy's.
 * Without a profile a mark is a test of a pointer. */
#ifndef CDZ_HOST_RUN_PASS_PROFILE_H
#define CDZ_HOST_RUN_PASS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum cdz_work {
    CDZ_WORK_SCHEDULE, /* rows of passes, counters, who goes next */
    CDZ_WORK_REQUEST, /* a request's beginning and end: memory, plugins' begin and end, the result */
    CDZ_WORK_STRATEGY, /* switches of fibres, the strategy, and verbs that are nothing of the below */
    CDZ_WORK_RULES,    /* telling stages of tokens, and stop rules */
    CDZ_WORK_EMBED,
    CDZ_WORK_MATMUL,    /* but the head's */
    CDZ_WORK_ATTENTION, /* and writing keys and values */
    CDZ_WORK_NORM,      /* norms, rotations, activation functions, sums */
    CDZ_WORK_HEAD,
    CDZ_WORK_PROCESSORS,
    CDZ_WORK_DRAW, /* softmax, argmax, the draw */
    CDZ_WORK_TEXT, /* ids to text, and the caller's callback */
    CDZ_WORK_IDLE, /* nothing to do: not counted */
    CDZ_N_WORK = CDZ_WORK_IDLE
} cdz_work;

/* A pass belongs to a prompt when some request in it has no token yet. */
typedef enum cdz_pass { CDZ_PASS_PROMPT, CDZ_PASS_DECODE, CDZ_N_PASSES } cdz_pass;

typedef struct cdz_work_times {
    uint64_t passes, rows, switches; /* switches of fibres */
    uint64_t fewer;                  /* passes on fewer threads than there are: crew.h */
    double seconds[CDZ_N_WORK];
} cdz_work_times;

/* Rows of scores that a device made: those that stayed there, those of them that were fetched after all, and those that
 * were copied right behind their passes, the newest for `reader`. bytes: of rows, and of what was told of those that stayed. */
typedef struct cdz_rows_moved {
    uint64_t away, fetched, brought, bytes;
    char reader[64];
} cdz_rows_moved;

typedef struct cdz_profile_times {
    cdz_work_times pass[CDZ_N_PASSES];
    uint64_t requests; /* that ended */
    cdz_rows_moved scores;
} cdz_profile_times;

/* [engine] */
typedef struct cdz_profile {
    cdz_profile_times times;
    cdz_pass pass;
    cdz_work now;
    double since;
} cdz_profile;

/* Ends what goes on and begins `next`; returns what went on, for whoever goes back to it. */
cdz_work cdz_profile_switch(cdz_profile *profile, cdz_work next);

static inline cdz_work cdz_profile_mark(cdz_profile *profile, cdz_work next)
{
    return profile ? cdz_profile_switch(profile, next) : next;
}

/* Brings the times up to this moment. NULL is fine, here and below. */
void cdz_profile_settle(cdz_profile *profile);
/* What goes on now counts for passes of this kind from here on. */
void cdz_profile_enter(cdz_profile *profile, cdz_pass pass);

/* --- for those who read it ----------------------------------------------------------------------------------------- */

/* What came in between. */
cdz_profile_times cdz_profile_since(const cdz_profile_times *now, const cdz_profile_times *before);
double cdz_work_seconds(const cdz_work_times *times); /* all kinds */
/* The engine's own: schedule, strategy and rules. */
double cdz_work_own_seconds(const cdz_work_times *times);
/* {"passes": .., "rows": .., "switches": .., "fewer_threads": .., "ms": {"schedule": .., ..}} */
void cdz_work_write_json(const cdz_work_times *times, cdz_buf *out);
/* {"requests": .., "prompt": PHASE, "decode": PHASE} */
void cdz_profile_write_json(const cdz_profile_times *times, const char *device, cdz_buf *out);
/* The table of `--profile`. */
void cdz_profile_write_table(const cdz_profile_times *times, cdz_buf *out);
const char *cdz_work_name(cdz_work work);

#endif
