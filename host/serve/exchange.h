/* exchange.h - one request and its answer. Inside serve/ only.
 *
 * An exchange lives from the request's head until its answer has left and its generations have ended, whichever is later.
 * Its lock guards what several threads touch; whoever holds it calls nothing of the engine's. */
#ifndef CDZ_HOST_SERVE_EXCHANGE_H
#define CDZ_HOST_SERVE_EXCHANGE_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "serve/ask.h"
#include "serve/door.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/serve.h"

struct MHD_Connection;
struct MHD_Daemon;

typedef struct cdz_http_exchange cdz_http_exchange;

/* One of the requests that the engine has for an exchange: a prompt of it. */
typedef struct cdz_generation_run {
    cdz_http_exchange *exchange;
    size_t prompt;
    uint64_t id;               /* 0: not submitted */
    uint32_t rows, copies;     /* rows of the result; choices made of each */
    cdz_serve_row_text *texts; /* (rows) */
    bool done;
    cdz_result *result;
} cdz_generation_run;

typedef struct cdz_serve_route cdz_serve_route;

/* Bytes of events that nobody has taken: after so many they are held back as text; after so many the stream is dropped. */
enum { CDZ_EXCHANGE_HELD = 256 << 10, CDZ_EXCHANGE_UNREAD = 16 << 20 };

/* What a worker is to do; an exchange has at most one such. */
typedef struct cdz_errand {
    struct cdz_errand *next;
    cdz_http_exchange *exchange;
    void (*run)(cdz_http_exchange *exchange);
} cdz_errand;

struct cdz_http_exchange {
    cdz_http_exchange *next, **prev; /* in the server's list, under its lock */
    cdz_serve *serve;
    cdz_guest *guest;
    struct MHD_Connection *connection;
    atomic_uint holders;
    const cdz_serve_route *route;
    char method[33], path[256];
    char request_id[129], id[48];
    char origin[256]; /* one that is allowed, or "" */
    char traceparent[64];
    cdz_buf body;
    double arrived, first_token, last_token;
    int64_t created;

    cdz_errand task; /* under the server's lock */

    cdz_mutex lock;
    bool begun;                             /* a worker has it, or had */
    bool ready;                             /* status is known, and what is to be sent first */
    bool suspended, gone, streaming, whole; /* whole: out holds all there will be */
    bool behind;                            /* rows have text that no event has */
    bool broken;                            /* the answer ends in an error */
    int status;
    cdz_serve_fault fault;
    const char *content_type;
    cdz_buf out;
    size_t out_at;
    double spoke; /* when something was last put into out */

    cdz_asking ask;
    bool asked;
    cdz_generation_run *runs;
    size_t n_runs,
        n_open; /* n_open: submitted and not done; one more while they are being submitted */
    uint64_t prompt_tokens, new_tokens;
    const char *ended; /* a finish reason for the log, or NULL */
};

/* What an endpoint does. */
struct cdz_serve_route {
    const char *path; /* of "/v1/models/" and the like what follows is the rest */
    bool post, rest;
    bool open; /* without a key */
    bool work; /* for a worker */
    void (*answer)(cdz_http_exchange *exchange);
};

struct cdz_pipeline_file {
    char *name, *path;
    cdz_pipeline *pipeline;
};

struct cdz_serve {
    cdz_serve_options options;
    cdz_api_keys keys;
    cdz_door *door;
    struct MHD_Daemon *daemon;
    cdz_metrics metrics;
    struct cdz_pipeline_file *pipelines;
    size_t n_pipelines;
    int64_t created;
    cdz_ask_world world;
    atomic_bool draining, ending;
    atomic_bool stuck; /* the engine has work, and has done none for a while */
    uint64_t progress; /* what the engine had done at that time. [the door's thread] */
    double progress_s;
    atomic_ullong drain_until; /* microseconds of the clock */
    cdz_mutex lock;
    pthread_cond_t changed;
    cdz_http_exchange *exchanges;
    size_t n_exchanges, n_held; /* n_held: those that are not freed */
    cdz_errand *tasks, **tasks_end;
    bool closing;
    pthread_t workers[2];
    size_t n_workers;
};

/* --- exchange.c: life ------------------------------------------------------------------------------------------- */
cdz_http_exchange *cdz_serve_exchange_new(cdz_serve *serve, cdz_guest *guest,
                                          struct MHD_Connection *connection);
void cdz_serve_exchange_release(cdz_http_exchange *exchange);
/* The answer is all there: out, or the fault. */
void cdz_serve_exchange_reply(cdz_http_exchange *exchange, int status, const char *content_type);
void cdz_serve_exchange_refuse(cdz_http_exchange *exchange);
/* Something was put into out; the lock is held. */
void cdz_serve_exchange_wake(cdz_http_exchange *exchange);
/* Nobody waits for the answer any more: what the engine does for it ends. */
void cdz_serve_exchange_abandon(cdz_http_exchange *exchange);
bool cdz_serve_exchange_is_gone(cdz_http_exchange *exchange);
void cdz_serve_push(cdz_http_exchange *exchange, void (*run)(cdz_http_exchange *exchange));
void *cdz_serve_work(void *serve); /* a worker's thread */

/* --- web.c: the HTTP library ------------------------------------------------------------------------------------- */
cdz_status cdz_web_open(cdz_serve *serve, cdz_error *err);
void cdz_web_close(cdz_serve *serve);
bool cdz_web_enters(void *serve, cdz_guest *guest, int inner);
void cdz_web_leaves(void *serve, cdz_guest *guest);
void cdz_web_second(void *serve);

/* --- routes.c, complete.c, answer.c -------------------------------------------------------------------------------- */
/* Finds the route and looks at head and keys; false: exchange->fault says why not. */
struct cdz_http_seen {
    cdz_slice host, origin, authorization, content_type, request_id, traceparent;
};
bool cdz_serve_route_check(cdz_http_exchange *exchange, const struct cdz_http_seen *head);
void cdz_serve_route_metrics(cdz_http_exchange *exchange);
void cdz_complete(cdz_http_exchange *exchange); /* completions and chats: a worker's */
/* Puts the text that was held back into out. The lock is held. */
void cdz_complete_catch_up(cdz_http_exchange *exchange);

/* Log-probabilities of a choice: those of the ids from `from` on. */
typedef struct cdz_choice {
    size_t index;
    const char *text;
    size_t len;
    const char *finish;      /* NULL: it goes on */
    const char *stop_reason; /* JSON; NULL: null */
    const char *logprobs;    /* JSON; NULL: null */
    const int32_t *ids;      /* with return_token_ids */
    size_t n_ids;
    const cdz_ask_prompt *prompt; /* its ids are told; or NULL */
    bool role;                    /* the first event of a chat */
} cdz_choice;

void cdz_serve_answer_head(const cdz_http_exchange *exchange, bool chunk, cdz_buf *out);
void cdz_serve_answer_choice(const cdz_http_exchange *exchange, const cdz_choice *choice,
                             bool chunk, cdz_buf *out);
void cdz_serve_answer_usage(const cdz_http_exchange *exchange, cdz_buf *out);
/* An event of one choice, into exchange->out. The lock is held. */
void cdz_serve_answer_event(cdz_http_exchange *exchange, const cdz_choice *choice);
/* The log-probabilities of a row's ids (and of the prompt's, with echo) as JSON. cut: bytes of the answer that are returned. */
bool cdz_serve_answer_logprobs(cdz_http_exchange *exchange, size_t prompt, const int32_t *ids,
                               size_t n, size_t cut, cdz_buf *out, cdz_serve_fault *fault);

#endif
