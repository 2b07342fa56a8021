/* pace.h - how long drafts are to be, from how they fared and what passes cost.
 *
 * Knows no clock and no model: it is told of rounds and says how many tokens the next draft may have. A round proposes k
 * tokens, scores k + 1 positions in one pass and gains the tokens that were right and one more; with a chance `a` that a
 * token is right where those before it are, that is (1 - a^(k+1)) / (1 - a) tokens for k draft tokens and a pass of
 * k + 1 rows. The length with the most tokens a second is chosen, 0 where none beats a pass of one row. Then drafts rest,
 * the longer the more a trial costs, and are tried again: where drafts never pay they cost some percent. */
#ifndef CDZ_HOST_RUN_LOOP_PACE_H
#define CDZ_HOST_RUN_LOOP_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CDZ_PACE_ROWS = 40,        /* of a pass; longer drafts are not chosen, once there is a choice */
    CDZ_PACE_FIRST = 16,       /* rounds before there is a choice, */
    CDZ_PACE_FIRST_OF = 24,    /* or tokens proposed; until then a draft has */
    CDZ_PACE_FIRST_LENGTH = 5, /* tokens at most */
};

typedef struct cdz_pace_costs {
    double seconds[CDZ_PACE_ROWS + 1]; /* of so many at once; 0: not seen */
} cdz_pace_costs;

typedef struct cdz_pace {
    double right,
        wrong; /* draft tokens judged, newest counting most; those behind a wrong one are not */
    cdz_pace_costs draft, pass; /* by tokens; by rows */
    uint32_t rounds, proposed;  /* so far, up to the first choice */
    uint32_t since_one;         /* rounds since a pass of one row */
    uint32_t rest, trial;       /* rounds without drafts, then rounds that try again: left */
    uint32_t next_rest;
    bool drafted; /* the round before had a draft */
} cdz_pace;

typedef struct cdz_pace_round {
    uint32_t proposed, accepted;
    double draft_s, pass_s;
} cdz_pace_round;

/* Tokens of the next draft, at most `room`. 0: no draft. A pace begins zeroed. */
uint32_t cdz_pace_room(cdz_pace *pace, uint32_t room);
void cdz_pace_note(cdz_pace *pace, const cdz_pace_round *round);

#endif
