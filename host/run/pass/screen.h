/* screen.h - the best tokens of a row, found without reading the whole head.
 *
 * A step that wants no more than the best token, or the best few, need not multiply all rows of the head. A copy of the head
 * in blocks of 5 bits gives every score but for an error with a bound: what a row of weights lost, as the norm of the
 * difference, times the norm of the hidden state. Rows that the bound leaves possible are multiplied as they are. So what is
 * told is what the whole product would have told, and the copy changes how much is read, never a token.
 *
 * Where: a head in 8 bits or more on a backend in the host's memory, without a bias or a cap. The copy is made little by
 * little between passes, once enough steps would have used it. Thread: [engine], but for the words of `how` and the bytes. */
#ifndef CDZ_HOST_RUN_PASS_SCREEN_H
#define CDZ_HOST_RUN_PASS_SCREEN_H

#include <stdatomic.h>

#include "kernels.h"
#include "load/model_files.h"

typedef enum cdz_screen_use {
    CDZ_SCREEN_AUTO, /* where a step would read enough less, after some steps */
    CDZ_SCREEN_OFF,
    CDZ_SCREEN_ON, /* wherever it can be, from the first step on */
} cdz_screen_use;

/* The most that may be asked for of a row: more would leave too little of what is saved; and the most rows of any screen. */
enum { CDZ_SCREEN_LEAST = 128, CDZ_SCREEN_ROWS = 32 };

typedef struct cdz_screen cdz_screen;

/* A model's screen, if it has one, and the steps that asked for it. Zeros are one. */
typedef struct cdz_screening {
    cdz_screen_use how;
    bool asked;       /* since the last pass */
    uint32_t wanted;  /* passes that could have been screened so far */
    uint32_t wait;    /* from how many on the copy is made; 0: not known yet, UINT32_MAX: never */
    cdz_screen *made; /* NULL: there is none */
    atomic_ullong bytes; /* [any] of the copy once it is whole; 0 before */
} cdz_screening;

/* "auto", "off" or "on"; NULL is auto. CDZ_E_USAGE for another word. */
cdz_status cdz_screen_named(const char *name, cdz_screen_use *out, cdz_error *err);
/* CDZ_E_UNSUPPORTED: it is to be on, and this head cannot be screened there. */
cdz_status cdz_screen_check(cdz_screen_use how, const cdz_weights *weights,
                            const cdz_backend *backend, cdz_error *err);
void cdz_screening_free(cdz_screening *screening, cdz_backend *backend);

/* [between passes] Counts the pass before, if a step of it might have been screened, and makes some more of the copy, if it is of use by now. */
void cdz_screening_more(cdz_screening *screening, const cdz_weights *weights, cdz_backend *backend);
/* For a step that might be screened, for the best token or for several. The screen; NULL: there is none, or not yet,
 * or it rests, since too many tokens were possible the last times. */
cdz_screen *cdz_screening_want(cdz_screening *screening, bool several);

/* Hidden states that the head reads are as wide as this. */
size_t cdz_screen_width(const cdz_screen *screen);
/* The most rows that a pass may ask of. */
uint32_t cdz_screen_most(const cdz_screen *screen);
/* The best of m rows of hidden states x (m, width): rows as cdz_backend_api.leaders has them, with `least` from 1 to
 * CDZ_SCREEN_LEAST, so many besides those that are edited, whose ids rise; no divisor and no mask. scores: (m, n_vocab) to work
 * in. Returns of how many it was told. `least` of the others becomes 0: too many tokens are possible, or a number is none. */
uint32_t cdz_screen_tell(cdz_screen *screen, cdz_backend *b, const float *x, uint32_t m,
                         cdz_leaders *rows, float *scores);
/* The whole product of m rows, to y (m, n_vocab); and a single score of a row. */
void cdz_screen_all(const cdz_screen *screen, cdz_backend *b, const float *x, uint32_t m, float *y);
float cdz_screen_score(const cdz_screen *screen, cdz_backend *b, const float *x, int32_t id);

#endif
