/* exchange.h - one request and its answer. Inside serve/ only.
 *
 * An exchange lives from the request's head until its answer has left and its generations have ended, whichever is later.
 * Its lock guards what several threads touch; whoever holds it calls nothing of the engine's. A stream's events wait in `out`
 * until the client reads; where more than the server's most_unread wait, the engine's requests pause until half are read. */
#ifndef CDZ_HOST_SERVE_EXCHANGE_H
#define CDZ_HOST_SERVE_EXCHANGE_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "serve/ask.h"
#include "serve/door.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/serve.h"
#include "serve/served.h"
#include "serve/trail.h"
#include "serve/watch.h"

struct MHD_Connection;
struct MHD_Daemon;

typedef struct cdz_http_exchange cdz_http_exchange;
typedef struct cdz_message_row cdz_message_row;

/* One of the requests that the engine has for an exchange: a prompt of it. */
typedef struct cdz_generation_run {
    cdz_http_exchange *exchange;
    size_t prompt;
    uint64_t id;               /* 0: not submitted */
    uint32_t rows, copies;     /* rows of the result; choices made of each */
    cdz_serve_row_text *texts; /* (rows) */
    cdz_trail *trails;         /* (rows), where somebody asks for tokens; or NULL */
    cdz_message_row *chats;    /* (rows), of a chat; or NULL */
    uint32_t *best;            /* the rows that are told, the likeliest first; NULL: all */
    bool done;
    cdz_result *result;
} cdz_generation_run;

typedef struct cdz_serve_route cdz_serve_route;

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
    char request_id[CDZ_HEAD_ID], id[CDZ_HEAD_ID + 16];
    char origin[256]; /* one that is allowed, or "" */
    char traceparent[64];
    char prefix[17]; /* what a balancer may know the prompt's beginning by; "": there is none yet */
    cdz_buf body;
    double arrived, first_token, last_token;
    int64_t created;

    cdz_errand task;    /* under the server's lock */
    cdz_served *served; /* the model that it uses, or waits for; or NULL */
    cdz_http_exchange *next_parked;

    cdz_mutex lock;
    bool begun;                             /* a worker has it, or had */
    bool ready;                             /* status is known, and what is to be sent first */
    bool suspended, gone, streaming, whole; /* whole: out holds all there will be */
    bool paused; /* its reader is slow: what it has of the engine waits */
    bool broken; /* the answer ends in an error */
    bool heard; /* of a stream: what the engine does for it has begun, or is waited for no longer */
    int status;
    cdz_serve_fault fault;
    const char *content_type;
    cdz_buf out;
    size_t out_at;
    double spoke;        /* when something was last put into out */
    cdz_mutex pace_lock; /* whoever tells the engine of `paused`; taken before the lock */

    cdz_asking ask;
    bool asked;
    cdz_generation_run *runs;
    size_t n_runs,
        n_open; /* n_open: submitted and not done; one more while they are being submitted */
    uint64_t prompt_tokens, cached_tokens, new_tokens, reasoning_tokens;
    char key[CDZ_SHA256_HEX]; /* the hash of the API key, where keys are asked for; else "" */
    const char *ended;        /* a finish reason for the log, or NULL */
    uint32_t n_events;        /* of a response */
};

typedef enum cdz_route_method {
    CDZ_ROUTE_GET,
    CDZ_ROUTE_POST,
    CDZ_ROUTE_PUT,
    CDZ_ROUTE_DELETE
} cdz_route_method;

/* What an endpoint does. */
struct cdz_serve_route {
    const char *path; /* of "/v1/models/" and the like what follows is the rest */
    cdz_route_method method;
    bool rest;
    bool open;  /* without a key */
    bool work;  /* for a worker */
    bool model; /* of a worker's: with the model that the body names */
    void (*answer)(cdz_http_exchange *exchange);
};

struct cdz_pipeline_file {
    struct cdz_pipeline_file *next;
    char *name, *path;
    cdz_pipeline *pipeline;
    bool listed; /* under the folder's lock */
    bool seen;   /* by the reading that is going on; under the lock of changes */
};

/* Rules as they are in use. */
typedef struct cdz_serve_rulebook {
    cdz_arena arena;
    cdz_serve_rules is;
    cdz_api_keys keys;
} cdz_serve_rulebook;

struct cdz_serve {
    cdz_serve_options options;
    cdz_mutex rules_lock;
    cdz_serve_rulebook *rules; /* under it */
    cdz_mutex change_lock;     /* one change at a time; taken before all others */
    atomic_uint most_waiting, most_waiting_tokens;
    atomic_ullong most_unread; /* bytes */
    atomic_bool json_log;
    cdz_served_set served;
    cdz_door *door;
    struct MHD_Daemon *daemon;
    cdz_metrics metrics;
    cdz_mutex folder_lock;
    struct cdz_pipeline_file *pipelines; /* under it; entries stay */
    int64_t created;
    atomic_bool draining, ending;
    atomic_bool stuck;         /* the engine has work, and has done none for a while */
    cdz_serve_watch watch;     /* [the door's thread] */
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

/* --- rules.c, folder.c ---------------------------------------------------------------------------------------------- */
cdz_status cdz_serve_begin_rules(cdz_serve *serve, const cdz_serve_rules *rules, cdz_error *err);
void cdz_serve_end_rules(cdz_serve *serve);
cdz_door_limits cdz_serve_door_limits(const cdz_serve_rules *rules);
/* The ini files of a folder (NULL: none), new ones and known ones again. The lock of changes is held, or nothing runs yet. */
cdz_status cdz_serve_read_folder(cdz_serve *serve, const char *folder, cdz_error *err);
cdz_status cdz_serve_reload_pipeline(cdz_serve *serve, const char *name, bool *found,
                                     cdz_error *err);
void cdz_serve_free_folder(cdz_serve *serve);
/* The pipeline of this name and its file, which stay; user: the server. [any thread] */
bool cdz_serve_find_pipeline(void *serve, const char *name, cdz_pipeline **out, const char **file);

/* --- exchange.c: life ------------------------------------------------------------------------------------------- */
cdz_http_exchange *cdz_serve_exchange_new(cdz_serve *serve, cdz_guest *guest,
                                          struct MHD_Connection *connection);
void cdz_serve_exchange_release(cdz_http_exchange *exchange);
/* The answer is all there: out, or the fault. */
void cdz_serve_exchange_reply(cdz_http_exchange *exchange, int status, const char *content_type);
void cdz_serve_exchange_refuse(cdz_http_exchange *exchange);
/* Something was put into out; the lock is held. */
void cdz_serve_exchange_wake(cdz_http_exchange *exchange);
/* A stream's head leaves once its requests are the engine's (status) and one of them has begun (heard): whatever is found wrong
 * before is a status. The lock is held. */
void cdz_serve_exchange_open(cdz_http_exchange *exchange);
/* Nobody waits for the answer any more: what the engine does for it ends. */
void cdz_serve_exchange_abandon(cdz_http_exchange *exchange);
/* What the engine still does for it ends. [any thread, without the lock] */
void cdz_serve_exchange_cancel(cdz_http_exchange *exchange);
bool cdz_serve_exchange_is_gone(cdz_http_exchange *exchange);
/* Something was put into out, or taken: is the engine to be told that it should pause, or go on? The lock is held. */
bool cdz_serve_exchange_weigh(cdz_http_exchange *exchange);
/* Tells it. [any thread, without the lock] */
void cdz_serve_exchange_pace(cdz_http_exchange *exchange);
void cdz_serve_push(cdz_http_exchange *exchange, void (*run)(cdz_http_exchange *exchange));
void *cdz_serve_work(void *serve); /* a worker's thread */

/* --- log.c ------------------------------------------------------------------------------------------------------------ */
/* How it ended, once nobody touches it any more. */
void cdz_serve_log_request(const cdz_http_exchange *exchange);
cdz_serve_load cdz_serve_load_now(cdz_serve *serve);

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
/* What its path takes, for Allow. */
const char *cdz_serve_route_allows(const cdz_http_exchange *exchange);
/* [not the library's thread] Reads the body, which may be absent, answers or refuses, lets go. */
void cdz_serve_with_body(cdz_http_exchange *exchange,
                         bool (*answer)(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out));
/* "prompt" (a text) or "messages" to ids (cdz_free them); or the fault says why not. */
bool cdz_serve_tokenize(cdz_http_exchange *exchange, const cdz_json *body, int32_t **ids, size_t *n);
/* The text of the salt under which the exchange's requests find each other; cache_salt: NULL is none. */
void cdz_complete_salt(const cdz_http_exchange *exchange, const char *cache_salt, cdz_buf *out);
void cdz_complete(cdz_http_exchange *exchange); /* completions and chats: a worker's */
/* Whether an answer's text lacks this token where it ends in it (ends.c). */
bool cdz_serve_is_end(const cdz_http_exchange *exchange, int32_t id);
/* How much of the text of ids (n) is the answer's: one that ends it is not, unless the client wants it (ends.c). */
size_t cdz_serve_without_end(const cdz_http_exchange *exchange, const int32_t *ids, uint32_t n,
                             const char *text, size_t len);
/* The token of stop_token_ids that an answer of these ids ends with; -1: none. */
int32_t cdz_serve_stop_id(const cdz_http_exchange *exchange, const int32_t *ids, uint32_t n);

typedef struct cdz_choice {
    size_t index;
    const char *text;
    size_t len;
    const char *finish;          /* NULL: it goes on */
    const char *stop_reason;     /* JSON; NULL: null */
    const char *logprobs;        /* JSON; NULL: null */
    const char *prompt_logprobs; /* the same; NULL: nobody asked */
    const int32_t *ids;          /* with return_token_ids */
    size_t n_ids;
    const cdz_ask_prompt *prompt;  /* its ids are told; or NULL */
    const char *reasoning, *calls; /* of a chat; calls: a JSON list. NULL: none */
    size_t reasoning_len;
    bool role; /* the first event of a chat */
} cdz_choice;

void cdz_serve_answer_head(const cdz_http_exchange *exchange, bool chunk, cdz_buf *out);
void cdz_serve_answer_choice(const cdz_http_exchange *exchange, const cdz_choice *choice,
                             bool chunk, cdz_buf *out);
void cdz_serve_answer_usage(const cdz_http_exchange *exchange, cdz_buf *out);
/* An event of one choice, into exchange->out. The lock is held. */
void cdz_serve_answer_event(cdz_http_exchange *exchange, const cdz_choice *choice);
/* Of a chat whose request wants ids: those of its prompt, beside the choices. */
void cdz_serve_answer_prompt(const cdz_http_exchange *exchange, cdz_buf *out);
/* Log-probabilities as JSON: of a stream's chat the entries of a list, else an object. Of a row that has ended, those that no
 * event has, and, where the answer is no stream, the prompt's with echo. cut: bytes of the answer that are returned, where a
 * stop string ended it; SIZE_MAX: all. False: the exchange's fault says why, or memory ran out. */
bool cdz_serve_answer_logprobs(cdz_http_exchange *exchange, const cdz_generation_run *run,
                               uint32_t row, size_t cut, cdz_buf *out);
/* Those that are next, up to the token `to`; nothing where there are none. */
void cdz_serve_next_logprobs(const cdz_http_exchange *exchange, cdz_trail *trail, size_t to,
                             cdz_buf *out);
/* Those of a prompt as vLLM has them: a list of objects, by ids. A worker's. False: the exchange's fault says why. */
bool cdz_serve_prompt_logprobs(cdz_http_exchange *exchange, size_t prompt, cdz_buf *out);
/* Finds run->best: by the log-probability of a token, on average. A worker's. False: the exchange's fault says why. */
bool cdz_serve_choose_rows(cdz_http_exchange *exchange, cdz_generation_run *run);
/* Those of a prompt that a stream begins with. A worker's. */
bool cdz_serve_echo_logprobs(cdz_http_exchange *exchange, size_t prompt, cdz_buf *out);

#endif
