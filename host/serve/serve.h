/* serve.h - `cadenza serve`: models behind HTTP, as OpenAI's clients speak it. docs/serving.md is the manual.
 *
 * Threads: the door's (door.h), the HTTP library's, a few workers that read bodies and write answers, one for each model that
 * is being loaded, and the engine's, which calls back with tokens. None of them waits for another but through queues. */
#ifndef CDZ_HOST_SERVE_SERVE_H
#define CDZ_HOST_SERVE_SERVE_H

#include "base/error.h"

typedef struct cdz_serve cdz_serve;

/* A model that requests may name. */
typedef struct cdz_serve_model {
    const char *id;   /* as /v1/models names it */
    const char *path; /* where it comes from: for open */
    const char *how;  /* for open too; or NULL */
    cdz_model *model; /* one that is open and stays so; NULL: the server opens it */
    bool at_start; /* before the server listens; otherwise with the first request that names it */
    double idle_s; /* without a request for so long it is let go; 0: it stays */
} cdz_serve_model;

/* What may change while it serves; texts and lists are copied. Times and sizes of 0 are as they are made. */
typedef struct cdz_serve_rules {
    const cdz_serve_model *models; /* the first is the one of requests that name none */
    size_t n_models;
    const char *key_file;       /* NULL: no keys */
    const char *pipelines;      /* a folder of ini files; NULL: none */
    const char *kv_save;        /* the file of the first model's prefix cache; NULL: none is kept */
    const char *kv_folder;      /* of those that requests name; NULL: they may not */
    const char *const *hosts;   /* further names of this machine */
    const char *const *origins; /* pages that may ask */
    uint32_t n_hosts, n_origins;
    uint32_t most_waiting;        /* requests; 0: any number */
    uint32_t most_waiting_tokens; /* of their prompts; 0: any number */
    double drain_s;               /* after the first cdz_serve_stop */
    double head_s, body_s, idle_s, unread_s;
    uint64_t body; /* bytes */
    uint64_t most_unread; /* bytes of a stream's events that wait for its reader before the request pauses */
    uint32_t connections;
    bool open_metrics; /* /metrics needs no key */
    bool json_log;
} cdz_serve_rules;

typedef struct cdz_serve_load {
    uint32_t running, waiting; /* requests */
    uint64_t new_tokens;       /* since the beginning */
    uint64_t memory;           /* bytes of the process; 0: not known */
    bool stuck;                /* it has work, and has done none for a while */
} cdz_serve_load;

/* Everything pointed to stays until cdz_serve_close, but for the rules. */
typedef struct cdz_serve_options {
    cdz_runtime *runtime;
    cdz_serve_rules rules;
    uint32_t most_running; /* requests that the runtime decodes together */
    const char *host;
    uint16_t port;
    const char *unix_path; /* in place of both; or NULL */
    int listener;          /* a socket that listens already, or -1 */
    /* [any thread] A line of the log, which is JSON or text; NULL: none. */
    void (*log)(void *user, const char *line, bool json);
    /* [a thread of the server's] About once a second; NULL: nothing. */
    void (*second)(void *user, const cdz_serve_load *now);
    /* [a thread of its own, or that of cdz_serve_open] Opens a model by its path. */
    cdz_status (*open)(void *user, const char *path, const char *how, cdz_model **out,
                       cdz_error *err);
    /* [a worker] Reads the settings again and hands them to cdz_serve_change; NULL: there is nothing to read. */
    cdz_status (*reread)(void *user, cdz_error *err);
    void *user;
    /* Who answers decode loops, as in cdz_request; NULL: nobody does. */
    cdz_status (*on_tool)(void *user, const cdz_tool_question *call, cdz_error *err);
    void *tool_user;
    /* Further models that decode loops of all requests may use by name, as in cdz_request. */
    const char *const *other_names; /* (n_others) */
    cdz_model *const *others;       /* (n_others) */
    uint32_t n_others;
} cdz_serve_options;

cdz_status cdz_serve_open(const cdz_serve_options *options, cdz_serve **out, cdz_error *err);
uint16_t cdz_serve_port(const cdz_serve *serve);
void cdz_serve_address(const cdz_serve *serve, char *out,
                       size_t bytes);               /* "http://127.0.0.1:8080", "unix:PATH" */
bool cdz_serve_is_loopback(const cdz_serve *serve); /* or reached by a file alone */
bool cdz_serve_has_keys(cdz_serve *serve);
/* Other rules from now on: files of keys and pipelines are read again, pipelines reloaded, models added and let go. On failure
 * nothing changes, but for pipelines that were reloaded before the one that failed. [any thread] */
cdz_status cdz_serve_change(cdz_serve *serve, const cdz_serve_rules *rules, cdz_error *err);
/* Puts a remark among the lines of the log, as they are written. [any thread] */
void cdz_serve_remark(cdz_serve *serve, const char *text);

/* Whether the keys of the rules can be read. */
cdz_status cdz_serve_check(const cdz_serve_rules *rules, cdz_error *err);
/* The first time: new requests are refused, and those that are there end; the second: these end at once. [any thread] */
void cdz_serve_stop(cdz_serve *serve);
void cdz_serve_wait(cdz_serve *serve); /* until it has stopped, and nothing runs */
/* Writes what the models' prefix caches hold to the files that the rules name, when nothing runs any more. Each is said; an error
 * if one could not be written. */
cdz_status cdz_serve_save(cdz_serve *serve);
void cdz_serve_close(cdz_serve *serve); /* NULL is fine */

#endif
