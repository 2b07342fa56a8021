/* bell.h - wakes a thread that sleeps over files and a clock: whoever rings ends its sleep, or the next one. */
#ifndef CDZ_HOST_BASE_BELL_H
#define CDZ_HOST_BASE_BELL_H

#include <poll.h>

#include "base/error.h"

typedef struct cdz_bell {
    int hears, rings; /* the ends of a pipe */
    bool open;
} cdz_bell;

cdz_status cdz_bell_open(cdz_bell *bell, cdz_error *err);
void cdz_bell_close(cdz_bell *bell);      /* one that is not open is fine */
void cdz_bell_ring(const cdz_bell *bell); /* [any] Nothing, where it is not open. */
/* Sleeps until it rings, a file of files[1 .. n) is as it is waited for, or the monotonic second until_s has come; 0: none,
 * below 0: it only looks. files[0] is for the bell. */
void cdz_bell_sleep(const cdz_bell *bell, struct pollfd *files, nfds_t n, double until_s);

#endif
