/* away.h - rows of scores that stay where a device made them, or are not made.
 *
 * A step wants to know of a row of scores which token is the best, or which few can be drawn, and a row is half a
 * megabyte. So rows stay on the device, the pass tells the best of each, and they come over only when somebody reads them:
 * then the request is known to read its rows, and later ones come with their passes. On the CPU, where the head has a
 * screen (screen.h), what stays away are the hidden states that rows would be made of. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_AWAY_H
#define CDZ_HOST_RUN_PASS_AWAY_H

#include "base/bits.h"
#include "base/rest.h"
#include "kernels.h"
#include "run/pass/screen.h"

/* Scores of a row that processors may change (edits.h). */
typedef struct cdz_edited {
    int32_t *ids; /* (n) rising */
    float *x;     /* (n) as the pass told them; once `done`, as they are processed */
    uint32_t n, room;
    bool done;      /* of the row that is there these scores are to be replaced, */
    bool masked;    /* and those that have no bit in `kept` are -inf: its leaders are told so */
    uint64_t *kept; /* ((n_vocab + 63) / 64) or NULL */
} cdz_edited;

static inline bool cdz_edited_keeps(const cdz_edited *e, size_t id)
{
    return !e->masked || cdz_bit_is_set(e->kept, id);
}

typedef struct cdz_away {
    cdz_backend *device;
    float *rows;        /* (n_rows, n_vocab) of the device, or */
    cdz_screen *screen; /* what the best of a row are found by, the model's, */
    float *hidden; /* (n_rows, its width) and what each row is made of; both NULL: everything is at home */
    uint32_t n_rows;
    size_t n_vocab;
    bool *there;   /* (n_rows) the newest scores are in `rows` or of `hidden`, not at home */
    int32_t *best; /* (n_rows) of those that are there the best token; -1: it was not told */
    cdz_leaders *
        leaders; /* (n_rows) or the best tokens; least is 0: they were not told. NULL: no room for them yet */
    cdz_edited *edited; /* (n_rows) */
    bool begun;         /* room was looked for */
    bool on;            /* the next pass's rows stay there, and */
    cdz_leaders
        wish; /* what it is to tell of them: `least` and `divisor`; least 0: the best token alone */
    bool cuts; /* a draw can be made of the leaders, */
    bool open; /* of a row that nothing is cut off from; then they may not be enough to tell it */
    bool draws; /* somebody drew from a row that was there while no more than its best token was asked for */
    uint64_t *coming; /* (n_coming) tickets of rows that are on their way home; 0: this one is not */
    uint32_t n_coming;
    bool asked;         /* somebody read a row that was there */
    const char *reader; /* when it is not on: for whom rows come over */
    cdz_rest rest;      /* steps to leave out, after one that the best tokens were too few for */
} cdz_away;

/* Makes room, once, where the device can tell what is best and has memory to spare, or there is a screen; else rows and screen
 * stay NULL. */
void cdz_away_begin(cdz_away *away, cdz_backend *device, cdz_screen *screen, uint32_t n_rows,
                    size_t n_vocab);
/* May rows be away at all? */
static inline bool cdz_away_can(const cdz_away *away)
{
    return away->rows || away->screen;
}
void cdz_away_free(cdz_away *away); /* one of zeros is fine */
/* Rows of the next pass come home, and may be waited for one by one. */
void cdz_away_expect(cdz_away *away, cdz_backend *device, uint32_t n_rows);
/* Waits for those of the rows [first, first + n) that are on their way. False: none was. */
bool cdz_away_arrive(cdz_away *away, uint32_t first, uint32_t n);
static inline bool cdz_away_comes(const cdz_away *away, uint32_t row)
{
    return row < away->n_coming && away->coming[row] != 0;
}
/* The next pass's rows stay away, and this is to be told of them. False: no memory for that. */
bool cdz_away_wish(cdz_away *away, uint32_t least, float divisor);

static inline bool cdz_away_has(const cdz_away *away, uint32_t row)
{
    return row < away->n_rows && away->there[row];
}

/* With the row's leaders n more scores are wanted, whose ids the caller fills in; none are done, and there is no mask. NULL: no
 * memory. */
cdz_edited *cdz_away_edit(cdz_away *away, uint32_t row, uint32_t n);
/* And the leaders are those of a masked row: the bits, which the caller fills in. NULL: no memory. */
uint64_t *cdz_away_mask(cdz_away *away, uint32_t row);
/* What is asked of a row: so many leaders that enough are left when edits have put some of them lower. */
uint32_t cdz_away_least(const cdz_away *away, uint32_t row);

/* The best token of a row that is there; -1: not known, as of a row that is masked for the pass alone. */
int32_t cdz_away_best(const cdz_away *away, uint32_t row);
/* Bytes that came over with the pass for a row that is there. */
size_t cdz_away_told(const cdz_away *away, uint32_t row);
/* One score of a row that is there, -inf where it is masked; NaN: it is edited. */
float cdz_away_score(cdz_away *away, uint32_t row, int32_t id);
/* The leaders were, or were not, enough for a step's rows: after one that was not, rows come with their passes for a while,
 * longer each time. */
void cdz_away_note(cdz_away *away, bool enough);

/* Those of the rows [first, first + n) that are there, with their edits if these are done, to their places in home
 * (n_rows, n_vocab); returns how many. */
uint32_t cdz_away_fetch(cdz_away *away, float *home, uint32_t first, uint32_t n);
/* Row `row` becomes a copy of another one that is there. */
void cdz_away_repeat(cdz_away *away, uint32_t row, uint32_t other);

#endif
