/* door.h - the door to the network: accepted sockets, and every byte that passes through them.
 *
 * Each connection is a guest: its socket, and one end of a pair whose other end the HTTP library has. The door reads a head,
 * has it checked (head.h), and writes one of its own making into the pair: what the library reads is never what the network
 * sent. Bodies are unpacked and packed again. Limits of sizes and times are the door's; so is noticing that a peer went away.
 * One thread runs all guests. */
#ifndef CDZ_HOST_SERVE_DOOR_H
#define CDZ_HOST_SERVE_DOOR_H

#include "base/error.h"
#include "serve/head.h"

typedef struct cdz_door cdz_door;
typedef struct cdz_guest cdz_guest;

/* Those that may change. */
typedef struct cdz_door_limits {
    uint32_t most; /* connections */
    uint64_t body; /* bytes of a body */
    double head_s, body_s,
        idle_s; /* a head; a body that comes slower than body_rate; nothing between two requests */
    double unread_s; /* bytes that the peer does not take */
} cdz_door_limits;

typedef struct cdz_door_options {
    const char *host;      /* a name or an address */
    uint16_t port;         /* 0: any that is free */
    const char *unix_path; /* a socket file in place of both; NULL: none */
    int listener;          /* a socket that listens already, in place of all; -1: none */
    cdz_door_limits limits;
    double body_rate;  /* bytes a second */
    uint32_t requests; /* of one connection */
    /* Takes one end of a pair; false: it cannot, and has closed it. Answer it with cdz_guest_left when the end is closed.
     * [the door's thread] */
    bool (*enters)(void *user, cdz_guest *guest, int inner);
    void (*leaves)(void *user,
                   cdz_guest *guest); /* its peer is gone, perhaps in the middle. [the door's thread] */
    void (*second)(void *user);       /* once a second. [the door's thread] */
    void *user;
} cdz_door_options;

/* Binds and listens; nothing is accepted before cdz_door_run. */
cdz_status cdz_door_open(const cdz_door_options *options, cdz_door **out, cdz_error *err);
uint16_t cdz_door_port(const cdz_door *door);
void cdz_door_address(const cdz_door *door, char *out,
                      size_t bytes); /* "http://127.0.0.1:8080", "unix:PATH" */
bool cdz_door_is_loopback(const cdz_door *door);
bool cdz_door_is_file(const cdz_door *door); /* no address: a socket in the file system */
/* Other limits, within a second. [any thread] */
void cdz_door_change(cdz_door *door, const cdz_door_limits *limits);
cdz_status cdz_door_run(cdz_door *door, cdz_error *err); /* starts its thread */
void cdz_door_drain(
    cdz_door *door); /* idle connections are closed, others after their answer. [any thread] */
uint32_t cdz_door_n_guests(const cdz_door *door);
void cdz_door_stop(cdz_door *door);  /* ends all connections and the thread */
void cdz_door_close(cdz_door *door); /* after the library has let go of every guest; NULL is fine */

/* [any thread] The answer has been written into the pair. */
void cdz_guest_answered(cdz_guest *guest);
/* [any thread] The library has closed its end, and knows the guest no more. */
void cdz_guest_left(cdz_guest *guest);

/* What a refusal looks like: the whole answer, with its head. */
struct cdz_buf;
void cdz_refusal_write(struct cdz_buf *out, int status, const char *why, const char *request_id);

#endif
