/* trail.h - the tokens of a row: which bytes of its text each of them wrote, how likely it was, and which an event has told.
 * Inside serve/ only. */
#ifndef CDZ_HOST_SERVE_TRAIL_H
#define CDZ_HOST_SERVE_TRAIL_H

#include "base/buf.h"
#include "cadenza/cadenza.h"

typedef struct cdz_trail_token {
    int32_t id;
    bool writes;     /* the text has it */
    float value;     /* log-probability under the model's own logits; NAN: not known */
    size_t from, to; /* bytes of the row's text */
} cdz_trail_token;

enum { CDZ_TRAIL_OPEN = 4 };

/* A byte of a character that is not whole. */
typedef struct cdz_trail_byte {
    char byte;
    bool first;   /* of its token */
    size_t token; /* its place in the trail */
} cdz_trail_byte;

/* Zeroed, but for top: at the beginning. */
typedef struct cdz_trail {
    cdz_trail_token *at; /* (n) */
    int32_t *leaders;    /* (n, top) */
    float *leader_values;
    uint32_t top;
    size_t n, room;
    size_t told;       /* so many has an event */
    size_t characters; /* of the text in front of the next that is told */
    size_t written;    /* bytes of the text, without those that are open */
    cdz_trail_byte open[CDZ_TRAIL_OPEN];
    uint32_t n_open; /* they become a character, or U+FFFD; until then each has a byte of the text */
    bool blank;      /* of the first token the text has no blank */
    bool unknown;    /* a value is */
    bool failed;     /* out of memory */
} cdz_trail;

/* What a token writes: its bytes, or NULL: out of memory; to be freed with cdz_free. A part of a character has its own. writes:
 * the text has them; special tokens it has only where it has all (special). */
char *cdz_trail_bytes(const cdz_model *model, int32_t id, bool special, size_t *len, bool *writes);

/* "[1,2]" */
void cdz_trail_write_bytes(cdz_buf *out, const char *bytes, size_t len);

/* The ids of an event, which may have no values; text: the row's, with the event's. */
void cdz_trail_add(cdz_trail *trail, const cdz_model *model, bool special, const cdz_event *event,
                   const char *text);
/* How many of them, from the first on, are whole in so many bytes of the text. */
size_t cdz_trail_whole(const cdz_trail *trail, size_t bytes);
/* Where the last of those ends, of so many bytes that may leave: never inside a character. */
size_t cdz_trail_end(const cdz_trail *trail, size_t bytes);
/* How many belong to a text that a stop string has cut there: the others begin behind it. */
size_t cdz_trail_kept(const cdz_trail *trail, size_t cut);
/* How many of them, from *next on, wrote some of these bytes; *next is the first that begins behind. */
size_t cdz_trail_count(const cdz_trail *trail, size_t *next, size_t from, size_t to);
void cdz_trail_free(cdz_trail *trail); /* what it holds */

#endif
