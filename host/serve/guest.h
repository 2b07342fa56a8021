/* guest.h - one connection at the door. Inside serve/ only: door.c owns the sockets and the clock, guest.c what a guest does
 * next. */
#ifndef CDZ_HOST_SERVE_GUEST_H
#define CDZ_HOST_SERVE_GUEST_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "serve/door.h"

enum { CDZ_GUEST_HELD = 64 << 10 }; /* bytes of a direction before the other side must wait */

typedef enum cdz_guest_state {
    CDZ_GUEST_HEAD,   /* reads a head, or waits for one */
    CDZ_GUEST_BODY,   /* passes a body on */
    CDZ_GUEST_ANSWER, /* all of the request has been passed on */
    CDZ_GUEST_LINGER, /* no more is served: what was to be said goes out, and what comes in is dropped */
    CDZ_GUEST_OVER,
} cdz_guest_state;

/* Bytes on their way. */
typedef struct cdz_flow {
    cdz_buf buf;
    size_t at; /* passed on so far */
} cdz_flow;

typedef struct cdz_guest_port {
    struct cdz_guest *guest; /* NULL: the door's own sockets */
    uint32_t wants;          /* what epoll knows */
} cdz_guest_port;

struct cdz_guest {
    cdz_guest *next;
    struct cdz_door *door;
    const cdz_door_options *options;
    atomic_uint holders;
    atomic_bool answered;
    int fd, inner; /* inner -1: closed */
    cdz_guest_port outside, inside;
    struct sockaddr_storage address;
    cdz_guest_state state;
    cdz_flow in, pass, out; /* from the peer; to the library; to the peer */
    cdz_head head;
    char request_id[CDZ_HEAD_ID]; /* of the head that was read; "": there is none */
    cdz_chunks chunks;
    uint64_t body;    /* bytes of the body so far */
    uint64_t held;    /* of them: while its request is not over */
    double since;     /* of this state */
    double moved;     /* bytes went out, or there were none to go */
    uint64_t *bodies; /* the door's: bytes of those of all guests */
    uint32_t n_requests;
    bool told;     /* the library knows of a request that has not been answered */
    bool draining; /* ends after the answer */
    bool shut;     /* the sending side was closed */
    bool cut;      /* the library did not take all of the request */
};

/* So many times the longest body all guests' bodies come to together. */
enum { CDZ_GUEST_BODIES = 128 };

/* Moves what can be moved without waiting. */
void cdz_guest_pump(cdz_guest *guest);
/* What epoll is to tell of: of the peer's socket, of the pair's. */
uint32_t cdz_guest_wants_outside(const cdz_guest *guest);
uint32_t cdz_guest_wants_inside(const cdz_guest *guest);
/* Looks at the clock. */
void cdz_guest_check_time(cdz_guest *guest, double now);
/* It is over at once; the door drops it, and its part of `bodies`. */
void cdz_guest_end(cdz_guest *guest);
bool cdz_guest_is_idle(const cdz_guest *guest);
/* It has not said a whole head yet. */
bool cdz_guest_is_silent(const cdz_guest *guest);

#endif
