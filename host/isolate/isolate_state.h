/* isolate_state.h - what the sources of an isolated plugin share. Private to isolate/.
 *
 * Lock: of the process, its books and every session; held during a whole call. */
#ifndef CDZ_HOST_ISOLATE_ISOLATE_STATE_H
#define CDZ_HOST_ISOLATE_ISOLATE_STATE_H

#include <pthread.h>

#include "base/arena.h"
#include "describe/descriptor.h"
#include "isolate/isolate.h"
#include "isolate/peer.h"
#include "isolate/wire.h"
#include "params/params.h"

/* One plugin of the file. */
typedef struct cdz_proxy {
    cdz_descriptor descriptor; /* base.loader_data is this proxy */
    cdz_isolate *of;
    uint32_t index; /* among the plugins of the file */
    uint32_t has;   /* CDZ_HAS_* */
    uint32_t n_own; /* parameters of the plugin; the deadline follows, unless it has one of that name */
    uint32_t state_size; /* bytes per row */
    uint32_t deadline_at; /* offset of the deadline in the parameter struct; UINT32_MAX: it has none */
} cdz_proxy;

struct cdz_isolate {
    char *path, *worker;
    int plugin_fd;       /* the file's bytes */
    cdz_arena arena;     /* of the descriptors */
    cdz_proxy **proxies; /* (n) */
    const cdz_plugin_base **plugins;
    uint32_t n;
    unsigned char
        *hello; /* (hello_bytes) what the file said of itself: a later process must say the same */
    size_t hello_bytes;

    pthread_mutex_t lock;
    cdz_peer process;
    uint64_t incarnation; /* of the process; 0: none was started yet */
    uint64_t next_session;
    _Atomic uint32_t guards; /* CDZ_GUARD_*, of the newest process; read without the lock, too */
    bool told;               /* that some are missing */
    uint32_t crashes;        /* since a request last ended well */
    double not_before;       /* a new request does not start the process earlier */
    unsigned char *reply;    /* (reply_cap) the newest message of the process, copied */
    size_t reply_cap;
};

/* Waits for the first word of a process that was started, and notes what holds it in. */
cdz_status cdz_isolate_hear_ready(cdz_isolate *isolate, cdz_error *err);

/* A process that runs, started where there is none. fresh: for a new request, which after crashes has to wait. */
cdz_status cdz_isolate_ensure(cdz_isolate *isolate, bool fresh, cdz_error *err);
/* Ends it; what it did is the book's. */
void cdz_isolate_crashed(cdz_isolate *isolate);
/* Copies the newest message, once; false: it is longer than can be, or there is no memory. */
bool cdz_isolate_read(cdz_isolate *isolate, cdz_wire_in *out);

/* Descriptors of what HELLO lists. hello: behind its version. */
cdz_status cdz_isolate_describe(cdz_isolate *isolate, cdz_wire_in *hello, cdz_error *err);
/* proxies.c: the functions of a descriptor. */
void cdz_proxy_fill(cdz_proxy *proxy);

/* No control character: these move a terminal's cursor, or worse. */
static inline bool cdz_isolate_is_shown(uint32_t code)
{
    return code >= 0x20 && (code < 0x7f || code >= 0xa0);
}

/* UTF-8 without control characters, at most CDZ_ERROR_TEXT bytes: what a process says is shown to people. */
const char *cdz_isolate_clean(cdz_string text, char *out, size_t out_bytes);

#endif
