/* watch.h - whether the engine stands still: it has work, and has done none for a while. */
#ifndef CDZ_HOST_SERVE_WATCH_H
#define CDZ_HOST_SERVE_WATCH_H

#include <stdbool.h>

#include "cadenza/cadenza.h"

enum { CDZ_SERVE_WATCH_PATIENCE_S = 30 };

/* Zeroes: has not looked yet. */
typedef struct cdz_serve_watch {
    bool looked;
    uint64_t progress; /* what had been done by then */
    double since;      /* when it last moved, or had nothing to do */
} cdz_serve_watch;

/* A look at `now`, in seconds of the monotonic clock: whether the engine has stood still. */
bool cdz_serve_watch_look(cdz_serve_watch *watch, const cdz_stats *stats, double now);

#endif
