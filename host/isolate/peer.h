/* peer.h - the process that a plugin runs in: started, waited for, ended. It says nothing of what is talked about. */
#ifndef CDZ_HOST_ISOLATE_PEER_H
#define CDZ_HOST_ISOLATE_PEER_H

#include <sys/types.h>

#include "base/error.h"
#include "isolate/protocol.h"

/* Zeroed: none. One owner, one thread at a time. */
typedef struct cdz_peer {
    pid_t pid;          /* 0: none, or it has ended */
    unsigned char *map; /* CDZ_ISOLATE_MAP_BYTES; NULL: none */
    uint32_t turn;      /* which it is: our own count, whatever stands in the mapping */
    int life_fd;        /* closed with this program, whatever ends it: then it ends too; -1: none */
    double allowed_at;  /* when its processor time was last moved on */
    double used_s;      /* of processor time, as of then */
    double life_s; /* of it in all: the worker's own limit, or a lower one of this program; 0: not asked yet */
    int ended_by; /* after it ended: the signal, or 0 */
    int exit_code;
} cdz_peer;

/* Starts the worker program with the plugin's bytes (a memory file); it has the turn. */
cdz_status cdz_peer_start(const char *worker, int plugin_fd, cdz_peer *out, cdz_error *err);
void cdz_peer_stop(cdz_peer *p); /* ends and forgets it; a zeroed one is fine */

static inline cdz_isolate_head *cdz_peer_head(const cdz_peer *p)
{
    return (cdz_isolate_head *)(void *)p->map;
}

/* FORGED: the count of turns was set to what it cannot be. */
typedef enum cdz_peer_state {
    CDZ_PEER_ANSWERED,
    CDZ_PEER_LATE,
    CDZ_PEER_ENDED,
    CDZ_PEER_FORGED
} cdz_peer_state;

/* False: it took a turn that it was not given. */
bool cdz_peer_give_turn(cdz_peer *p);
/* Whether it nears the processor time of its whole life, and is better replaced before its next call. */
bool cdz_peer_is_old(const cdz_peer *p);
/* Until it gives the turn back, ends, or `until` (monotonic seconds) has come. */
cdz_peer_state cdz_peer_wait(cdz_peer *p, double until);
/* "crashed (SIGSEGV)", "exited with status 3", "asked the kernel for openat, ...": for after "its process". */
void cdz_peer_fate(const cdz_peer *p, char *out, size_t out_bytes);

#endif
