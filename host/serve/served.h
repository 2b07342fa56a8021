/* served.h - the models of a server: which there are, which of them are loaded, and who uses them. Inside serve/ only.
 *
 * A model that nobody has asked for yet, or that was idle for long, is absent: the first request that names it has it loaded
 * by a thread of its own, and waits meanwhile, with all that come after it, in the model's own queue. Where its prefix cache
 * is kept in a file, a thread of its own writes that before the model goes. */
#ifndef CDZ_HOST_SERVE_SERVED_H
#define CDZ_HOST_SERVE_SERVED_H

#include "base/mutex.h"
#include "serve/ask.h"
#include "serve/saved.h"
#include "serve/serve.h"

typedef struct cdz_served cdz_served;
struct cdz_http_exchange;

typedef enum cdz_served_state {
    CDZ_SERVED_ABSENT,
    CDZ_SERVED_LOADING, /* or being let go: who comes waits, and it stays */
    CDZ_SERVED_READY
} cdz_served_state;

struct cdz_served {
    cdz_served *next;
    cdz_serve *serve;
    char *id, *path, *how; /* how: or NULL */
    cdz_model *model;      /* of a READY one */
    bool own;              /* opened here */
    bool gone;             /* rules name it no more: it ends with its last user */
    double idle_s;
    cdz_saved_places saved; /* under the set's lock */
    cdz_served_state state;
    size_t n_users;                   /* exchanges, and the thread that loads it */
    double left_s;                    /* when the last one went */
    uint32_t context;                 /* 0: not known yet, or without an end */
    cdz_ask_world world;              /* of a READY one */
    struct cdz_http_exchange *parked; /* they wait for it to be loaded; by next_parked */
};

typedef struct cdz_served_set {
    cdz_mutex lock;
    pthread_cond_t changed;
    cdz_served *first; /* in the order of the rules, those that are gone at the end */
    size_t n_loading;  /* threads that load models, let them go or keep what they have */
    bool keeps;        /* a request's prefix cache is being written */
    bool closing;
} cdz_served_set;

void cdz_served_begin(cdz_serve *serve);
/* Adds what is new, keeps what is the same, lets go of the rest; then loads those that are to be there at once, which wait is
 * for. On failure nothing changes. */
cdz_status cdz_served_change(cdz_serve *serve, const cdz_serve_rules *rules, bool wait,
                             cdz_error *err);
/* The route's work, when the model that the body names is there. A worker's. */
void cdz_served_work(struct cdz_http_exchange *exchange);
void cdz_served_leave(cdz_served *served);            /* NULL is fine */
void cdz_served_second(cdz_serve *serve, double now); /* lets go of idle ones. [the door's thread] */
cdz_status cdz_served_save(cdz_serve *serve);         /* cdz_serve_save */
void cdz_served_end(cdz_serve *serve);                /* nothing runs any more */
void cdz_served_put_all(cdz_serve *serve, cdz_buf *out); /* cards of /v1/models, apart by commas */
bool cdz_served_put_one(cdz_serve *serve, const char *id, cdz_buf *out); /* false: there is none */
/* The id of the first into a text of that size, for labels. */
void cdz_served_first_id(cdz_serve *serve, char *out, size_t bytes);
/* An open model for trials of pipelines, with a user more, or NULL. */
cdz_served *cdz_served_any(cdz_serve *serve);

#endif
