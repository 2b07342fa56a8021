/* exchange.h - one call of a plugin that runs elsewhere: opened, written, sent, read, closed. Private to isolate/. */
#ifndef CDZ_HOST_ISOLATE_EXCHANGE_H
#define CDZ_HOST_ISOLATE_EXCHANGE_H

#include "cadenza/strategy.h"
#include "isolate/isolate_state.h"

/* Ids of a sequence that were told already. */
struct cdz_told {
    int32_t *ids; /* (len) */
    uint32_t len, cap;
};

/* What a process knows of a request of one of its plugins, and what the host has told it. */
typedef struct cdz_isolate_session {
    uint64_t id;
    uint64_t incarnation;  /* of the process that knows it; 0: none does */
    struct cdz_told *told; /* (n_told) histories, by slot */
    uint32_t n_told;
    cdz_scores lent; /* rows that a drafter's filter is run on; id 0: none yet */
    size_t kept;     /* bytes that answers left with the request */
    cdz_arena gave;  /* what the newest call gave: texts, tokens */
} cdz_isolate_session;

typedef struct cdz_exchange {
    const cdz_step *step;
    const cdz_proxy *proxy;
    cdz_isolate_session *session; /* NULL in create and idle */
    cdz_decoder *dec;             /* drafters; else NULL */
    const char *call;             /* "apply" */
    cdz_wire_out out;             /* the call's message */
    cdz_wire_in in;               /* what it gave, behind status and sentence */
    double until;
    uint32_t questions, lines; /* asked and logged by this call so far */
} cdz_exchange;

/* Takes the lock and sees to it that there is a process, and that it knows the session. fresh: a new request. On failure
 * nothing is held and the sentence is said. */
cdz_status cdz_exchange_open(cdz_exchange *x, cdz_isolate_up kind, bool fresh);
/* The rows of the step: which, the ids each holds, the state of each. */
cdz_status cdz_exchange_put_rows(cdz_exchange *x);
/* Sends it and waits; CDZ_OK when the plugin said so, then x->in is to be read. On failure nothing is held. */
cdz_status cdz_exchange_send(cdz_exchange *x);
/* Lets go. well: all that was expected was there, and no more; else the process is at fault. */
cdz_status cdz_exchange_close(cdz_exchange *x, bool well);

/* asks.c: answers a question of the process (x->in behind its first word) by what the host offers in this step. False:
 * it is no question, or asks for what there is not or for too much (protocol.h). */
bool cdz_isolate_answer(cdz_exchange *x, uint32_t kind, cdz_wire_out *out);

void cdz_isolate_session_free(cdz_isolate_session *session);

#endif
