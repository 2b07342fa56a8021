/* ask.h - what a body of /v1/completions or /v1/chat/completions asks for.
 *
 * Every field is checked here, before anything of the engine's is touched: a wrong type or range, a name that is known and
 * cannot be honoured, a name inside "cadenza" that is not known, are refusals by name. docs/serving.md has the table. */
#ifndef CDZ_HOST_SERVE_ASK_H
#define CDZ_HOST_SERVE_ASK_H

#include "base/arena.h"
#include "base/json.h"
#include "cadenza/cadenza.h"
#include "serve/fault.h"
#include "serve/stop.h"

enum { CDZ_ASK_MOST_N = 128, CDZ_ASK_MOST_PROMPTS = 1024, CDZ_ASK_MOST_TOP = 20 };

typedef struct cdz_ask_prompt {
    int32_t *ids; /* owned */
    size_t n;
    const char *text; /* as it was given; NULL: as ids */
} cdz_ask_prompt;

/* What a body may name. */
typedef struct cdz_ask_world {
    cdz_runtime *runtime;
    cdz_model *model;
    const char *model_id;
    /* The pipeline of this name and the file it comes from, which stay; false: there is none. */
    bool (*pipeline)(void *user, const char *name, cdz_pipeline **out, const char **file);
    void *user;
} cdz_ask_world;

typedef struct cdz_asking {
    cdz_arena arena;
    const cdz_ask_world *world;
    cdz_serve_fault *fault;
    cdz_json body;
    bool chat, stream, usage, echo, logprobs, return_ids, ids_as_text;
    uint32_t top, n;
    int64_t max_tokens; /* below 0: as the pipeline says */
    bool seeded;
    int64_t seed;
    cdz_ask_prompt *prompts;
    size_t n_prompts;
    cdz_stop_texts stops;
    cdz_buf kwargs;                   /* members of an object, without braces */
    const char *set[64], *values[64]; /* their names and texts */
    size_t n_set;
    cdz_pipeline *pipeline; /* NULL: the default */
    bool own_pipeline;
    bool named_pipeline;
    const char *strategy; /* id or NULL */
} cdz_asking;

/* False: fault says why. Free it in either case. */
bool cdz_ask_read(cdz_asking *ask, const cdz_ask_world *world, bool chat, const char *body,
                  size_t len, cdz_serve_fault *fault);
void cdz_ask_free(cdz_asking *ask);

/* The request document of one of its prompts, for n rows. */
void cdz_ask_document(const cdz_asking *ask, size_t prompt, uint32_t n, cdz_buf *out);

/* --- parts, shared with /tokenize --- */
/* A field that is there and not null; or NULL. */
const cdz_json *cdz_ask_field(const cdz_json *object, const char *name);
/* A boolean, or `absent`. */
bool cdz_ask_bool(const cdz_json *object, const char *name, bool absent, bool *out,
                  cdz_serve_fault *fault);
/* messages to ids by the chat template. */
bool cdz_ask_messages(const cdz_ask_world *world, const cdz_json *body, int32_t **ids, size_t *n,
                      cdz_serve_fault *fault);
/* ids of a list, each in the vocabulary. */
bool cdz_ask_ids(const cdz_ask_world *world, const cdz_json *list, const char *name, int32_t **ids,
                 size_t *n, cdz_serve_fault *fault);

/* Own parts of the reader (ask_cadenza.c): pipeline, strategy, kwargs, processors. */
bool cdz_ask_cadenza(cdz_asking *ask);
/* Sets a generation parameter to a JSON text; a second, different value is refused. */
bool cdz_ask_set(cdz_asking *ask, const char *name, const char *value);

#endif
