/* crew.h - how many of the backend's threads a model's passes run on.
 *
 * Where other programs want the same cores, more threads are not always faster: those that are on a core wait for one
 * that is not, and its neighbour keeps it waiting for a time slice. Whether that is so depends on the system's scheduler, so
 * it is tried: while the engine's thread has three quarters of a core nothing is, but where it has less a stretch of
 * passes runs on fewer threads, and what was faster stays. On fewer, more are tried again every few seconds, since neighbours go.
 * Numbers do not depend on it: a row has the same bits on any number of threads.
 *
 * Knows no clock and no backend: it is told of passes and says how many threads the next one has. */
#ifndef CDZ_HOST_RUN_PASS_CREW_H
#define CDZ_HOST_RUN_PASS_CREW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cdz_crew_pass {
    uint32_t rows; /* passes of different sizes are not compared */
    double wall_s; /* what it took, */
    double ran_s;  /* and what the engine's own thread had of a core */
} cdz_crew_pass;

/* Passes of one size, one after the other. */
typedef struct cdz_crew_stretch {
    uint32_t rows, passes;
    double wall_s, ran_s;
} cdz_crew_stretch;

typedef struct cdz_crew {
    uint32_t most, now; /* threads */
    cdz_crew_stretch seen;
    uint32_t settled;        /* the number to go back to when a trial is lost; 0: no trial is on */
    cdz_crew_stretch before; /* the trial: on `settled` threads */
    bool up_next;            /* the direction of the next trial, where there are two */
    uint32_t ignored;        /* passes that still pass by: threads are being woken */
    double rest_s, next_rest_s; /* until the next trial */
} cdz_crew;

void cdz_crew_begin(cdz_crew *crew, uint32_t most);
/* After a pass; `now` is what the next one has. */
void cdz_crew_note(cdz_crew *crew, const cdz_crew_pass *pass);

#endif
