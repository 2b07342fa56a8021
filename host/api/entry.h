/* entry.h - a submitted request as the runtime keeps it, from cdz_submit until its result is taken. */
#ifndef CDZ_HOST_API_ENTRY_H
#define CDZ_HOST_API_ENTRY_H

#include "api/api.h"
#include "base/sha256.h"
#include "token/word_stream.h"

/* The calls that follow the first one, and what preparing them needs. Zeroed: there are none. */
typedef struct cdz_chain {
    cdz_arena arena;
    cdz_json document;     /* the request, read from a text of the arena's */
    const cdz_json *calls; /* (n_calls) */
    uint32_t n_calls, next;
    cdz_model *model, *assistant; /* retained: their generation parameters; assistant may be NULL */
} cdz_chain;

struct cdz_entry_request {
    cdz_entry_request *next;
    cdz_runtime *runtime;
    uint64_t id, engine_id;
    char *name;         /* the caller's own id, or NULL */
    bool engine_knows;  /* the first call was submitted */
    bool cancel_wanted; /* also of calls to come */
    bool paused;        /* from each of its calls' beginning on */
    bool done, waited;
    cdz_result *result; /* of the first call; once done, whole */
    cdz_run_model *model;
    cdz_pipeline *pipeline;
    cdz_run_model *assistant;
    cdz_record_spec record;
    bool keep_cache;                /* the result is to hold the KV state */
    uint8_t salt[CDZ_SHA256_BYTES]; /* who may find what it computes; zeros: those without */
    int64_t priority;               /* to the scheduler, as tenant */
    uint64_t tenant;
    cdz_prepared waiting; /* the call's own while its prompt is healed; else its job is NULL */
    uint32_t n_healed;    /* of its heals */
    cdz_prepared call;    /* the present one: alive until on_done returns */
    cdz_buf streamed;     /* on_tokens' text, its memory kept */
    char *request_id, *traceparent; /* or NULL */
    bool logprobs;                  /* events have them */
    uint32_t n_leaders;
    float *values, *leader_values; /* (room_tokens), (room_tokens, n_leaders): of an event */
    int32_t *leaders;
    uint32_t room_tokens;
    cdz_text_stream *streams; /* n_rows, or NULL: the model has no tokenizer */
    cdz_word_stream *words;   /* n_rows, or NULL: characters are handed on as they come */
    uint32_t stream;          /* cdz_stream_flags */
    bool told_prompt;
    bool lost; /* memory ran out for the text of events: the request fails */
    uint32_t n_rows;
    bool poll;
    void (*on_event)(void *user, const cdz_event *event);
    void *user;
    cdz_status (*on_tool)(void *user, const cdz_tool_question *call, cdz_error *err);
    void *tool_user;
    void (*on_observed)(void *user, uint64_t request, const char *plugin, const char *line,
                        size_t len);
    void *observe_user;
    cdz_job_model *others; /* (n_others) further models, held; their names are the request's own */
    uint32_t n_others;
    cdz_chain chain;
};

/* A model that [models] of pipelines name, in the runtime's list; under its lock. */
typedef struct cdz_named_model {
    struct cdz_named_model *next;
    cdz_model *model; /* NULL: it is being opened, or could not be */
    cdz_error why;    /* it could not be */
    uint32_t holders; /* editions, and those that wait for it */
    char folder[];
} cdz_named_model;

/* named_models.c: the request has the models that [models] of its pipeline names too, but for names that it has already. Opens
 * those that nobody has opened yet. */
cdz_status cdz_entry_add_named(cdz_entry_request *req, cdz_edition *edition, cdz_error *err);

/* What became of a request that is done. */
cdz_request_state cdz_entry_state(const cdz_entry_request *req);
/* The request that has this name, or NULL; the runtime's lock is held. */
cdz_entry_request *cdz_entry_named(const cdz_runtime *rt, const char *name);

/* Every request and event there still is. The engine has ended. */
void cdz_entry_free_all(cdz_runtime *rt);

/* Reads the document's "calls", if it has any, and keeps what they need. */
cdz_status cdz_chain_read(cdz_entry_request *req, const cdz_request *request,
                          const cdz_json *document, cdz_error *err);
void cdz_chain_free(cdz_chain *chain); /* zeroed is fine */
/* Whether the call after the present one continues its KV state. */
bool cdz_chain_continues(const cdz_chain *chain);
/* [engine] Prepares the next call: last is the result of the one before, which is req->call. */
cdz_status cdz_chain_prepare(cdz_entry_request *req, const cdz_result *last, cdz_prepared *out,
                             cdz_error *err);

#endif
