/* serve.h - `cadenza serve`: a model behind HTTP, as OpenAI's clients speak it. docs/serving.md is the manual.
 *
 * Threads: the door's (door.h), the HTTP library's, a few workers that read bodies and write answers, and the engine's, which
 * calls back with tokens. None of them waits for another but through queues. */
#ifndef CDZ_HOST_SERVE_SERVE_H
#define CDZ_HOST_SERVE_SERVE_H

#include "base/error.h"

typedef struct cdz_serve cdz_serve;

/* Everything pointed to stays until cdz_serve_close. */
typedef struct cdz_serve_options {
    cdz_runtime *runtime;
    cdz_model *model;
    const char *model_id; /* as /v1/models names it */
    const char *host;
    uint16_t port;
    const char *key_file;       /* NULL: no keys */
    const char *pipelines;      /* a folder of ini files; NULL: none */
    const char *const *hosts;   /* further names of this machine */
    const char *const *origins; /* pages that may ask */
    uint32_t n_hosts, n_origins;
    uint32_t most_waiting;                     /* requests; 0: any number */
    double drain_s;                            /* after the first cdz_serve_stop */
    void (*log)(void *user, const char *line); /* [any thread]; NULL: none */
    void *user;
} cdz_serve_options;

cdz_status cdz_serve_open(const cdz_serve_options *options, cdz_serve **out, cdz_error *err);
uint16_t cdz_serve_port(const cdz_serve *serve);
bool cdz_serve_is_loopback(const cdz_serve *serve);
bool cdz_serve_has_keys(const cdz_serve *serve);
/* The first time: new requests are refused, and those that are there end; the second: these end at once. [any thread] */
void cdz_serve_stop(cdz_serve *serve);
void cdz_serve_wait(cdz_serve *serve);  /* until it has stopped, and nothing runs */
void cdz_serve_close(cdz_serve *serve); /* NULL is fine */

#endif
