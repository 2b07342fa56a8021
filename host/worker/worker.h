/* worker.h - what the sources of cadenza-worker share: the program that runs one plugin file for a host.
 *
 * One thread, one mapping, no files: it opens the libraries that the plugin needs, locks itself in for good, tells the
 * host so, opens the plugin, and then does nothing but wait for its turn, make the call that stands in `up` and write what
 * came of it into `down` (isolate/protocol.h). */
#ifndef CDZ_HOST_WORKER_WORKER_H
#define CDZ_HOST_WORKER_WORKER_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/scratch.h"
#include "cadenza/strategy.h"
#include "call/host.h"
#include "call/offers.h"
#include "describe/descriptor.h"
#include "isolate/protocol.h"
#include "isolate/wire.h"
#include "native/native.h"

/* Tokens of a history, kept between calls. */
typedef struct cdz_told_ids {
    int32_t *ids;
    uint32_t len, cap;
} cdz_told_ids;

/* A file of data that the host gave, kept for all requests. */
typedef struct cdz_worker_file {
    struct cdz_worker_file *next;
    const char *name;
    cdz_string bytes;
} cdz_worker_file;

/* A request of one of the plugins. Also what a call without one is made with: then id is 0. */
typedef struct cdz_worker_session {
    struct cdz_worker_session *next;
    uint64_t id;
    const cdz_descriptor *plugin;
    cdz_arena arena; /* the parameters, the request, what the plugin takes */
    void *params, *shared;
    cdz_request_info *request; /* NULL in create */
    cdz_told_ids *told;        /* (n_told) by slot */
    uint32_t n_told;
    cdz_string *texts; /* (n_texts) of tokens, as far as they were asked for; at NULL and len 1: not yet */
    uint32_t n_texts;
} cdz_worker_session;

typedef struct cdz_worker {
    const cdz_caller *caller; /* first: where the host's functions find it; of the present call */
    cdz_isolate_head *head;
    unsigned char *map;
    uint32_t turn; /* which it is, counted here */
    pid_t host;
    char *bytes; /* (n_bytes) of the plugin's file */
    size_t n_bytes;
    cdz_native native;
    cdz_descriptor *plugins; /* (n_plugins) */
    cdz_offers *offers;      /* (n_plugins) */
    uint32_t n_plugins;
    cdz_worker_session *sessions;
    cdz_worker_file *files;
    cdz_arena kept; /* those */
    cdz_scratch_mem scratch;
    cdz_error said; /* what the plugin said of the present call; code 0: nothing */
    bool may_alloc;
    cdz_worker_session *now; /* whose call it is */
} cdz_worker;

/* main.c: hands over what was written to down and waits for what comes back. */
cdz_wire_out cdz_worker_down(cdz_worker *w);
cdz_wire_in cdz_worker_turn(cdz_worker *w, const cdz_wire_out *out);

/* confine.c: from the first line on, then from before the plugin is opened on. Both give the CDZ_GUARD_* that hold.
 * limited: all limits are set. */
uint32_t cdz_confine_start(cdz_isolate_head *head, bool *limited);
uint32_t cdz_confine_for_good(void);
/* The plugin is open: what is still to be closed where there is no filter. */
void cdz_confine_opened(uint32_t guards);

/* filter.c: the lists of system calls of these two; false: this kernel or machine has none. */
bool cdz_filter_known(void);
bool cdz_filter_libraries(cdz_isolate_head *head);
bool cdz_filter_plugin(void);
/* While the plugin is opened: the loader is given its descriptor under this name. */
void cdz_filter_loading(bool on);
#define CDZ_WORKER_PLUGIN_NAME "/proc/self/fd/4"

/* step_host.c: the host that plugins see. */
cdz_step cdz_worker_step(cdz_worker *w, cdz_worker_session *session);

/* decoder.c: the decoder that drafters see. */
typedef struct cdz_worker_decoder {
    cdz_decoder base;
    cdz_worker *worker;
    const cdz_step *step;
} cdz_worker_decoder;
cdz_worker_decoder cdz_worker_decoder_for(cdz_worker *w, const cdz_step *step);

/* calls.c: makes the call that a message asks for; its answer is in out. */
void cdz_worker_call(cdz_worker *w, cdz_wire_in *in, cdz_wire_out *out);

#endif
