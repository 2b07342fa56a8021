/* fibre.h - functions that can be left in the middle and gone on with later: one per running request.
 *
 * Two ways to do it behind one interface. "ucontext" switches stacks (256 KiB each, a guard below, kept for the
 * next request) and costs a microsecond. "threads" gives each fibre a thread and passes a baton, so that exactly one
 * of them runs at a time: for valgrind, for sanitizers that follow threads, and where ucontext is missing.
 * Thread: start, resume and free on the engine thread; suspend inside the fibre. */
#ifndef CDZ_HOST_RUN_LOOP_FIBRE_H
#define CDZ_HOST_RUN_LOOP_FIBRE_H

#include "base/error.h"
#include "call/guard.h"

typedef struct cdz_fibres cdz_fibres; /* a way, and what it keeps for reuse */
typedef struct cdz_fibre cdz_fibre;

/* way: "ucontext", "threads", or NULL for the build's default. */
cdz_status cdz_fibres_create(const char *way, cdz_fibres **out, cdz_error *err);
void cdz_fibres_free(cdz_fibres *fibres); /* every fibre must have been freed; NULL is fine */

/* Makes a fibre that will run fn(arg) when it is first resumed. */
cdz_status cdz_fibre_start(cdz_fibres *fibres, void (*fn)(void *arg), void *arg, cdz_fibre **out,
                           cdz_error *err);
void cdz_fibre_resume(cdz_fibre *fibre);  /* returns when it suspends or ends */
void cdz_fibre_suspend(cdz_fibre *fibre); /* inside fn: back to whoever resumed */
/* Runs fn(arg) on the stack of whoever resumed the fibre that the thread is in, and returns when it has: for code that
 * needs more than a fibre's stack. fn may not suspend. Outside any fibre it runs where it is. */
void cdz_fibre_outside(void (*fn)(void *arg), void *arg);
bool cdz_fibre_ended(const cdz_fibre *fibre);
extern _Thread_local cdz_fibre *cdz_fibre_now; /* which one the thread is in; NULL: in none */
void cdz_fibre_free(cdz_fibre *fibre); /* one that ended or was never resumed; NULL is fine */

/* What each way provides; fibre.c picks one. A way's fibre begins with struct cdz_fibre. */
typedef struct cdz_fibre_way {
    const char *name;
    cdz_status (*start)(cdz_fibres *fibres, cdz_fibre **out, cdz_error *err);
    void (*resume)(cdz_fibre *fibre);
    void (*suspend)(cdz_fibre *fibre);
    void (*free)(cdz_fibre *fibre);
    void (*drop_kept)(cdz_fibres *fibres); /* what was kept for reuse */
} cdz_fibre_way;

struct cdz_fibres {
    const cdz_fibre_way *way;
    void *kept; /* the way's own */
};

struct cdz_fibre {
    cdz_fibres *fibres;
    void (*fn)(void *arg);
    void *arg;
    bool ended;
    const void *serves; /* the engine that resumes it (base/assert.h) */
    void (*errand)(
        void *arg); /* what it left to do for whoever resumed it (cdz_fibre_outside); NULL: nothing */
    void *errand_arg;
    cdz_calling errand_of; /* the call that it is part of */
};

/* What each way runs on the fibre's stack or thread. */
void cdz_fibre_run(cdz_fibre *fibre);

extern const cdz_fibre_way cdz_fibre_ucontext, cdz_fibre_threads;

#endif
