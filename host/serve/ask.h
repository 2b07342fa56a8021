/* ask.h - what a body of /v1/completions, /v1/chat/completions or /v1/responses asks for.
 *
 * Every field is checked here, before anything of the engine's is touched: a wrong type or range, a name that is known and
 * cannot be honoured, a name inside "cadenza" that is not known, are refusals by name. docs/serving.md has the table. */
#ifndef CDZ_HOST_SERVE_ASK_H
#define CDZ_HOST_SERVE_ASK_H

#include "api/answers.h"
#include "base/arena.h"
#include "base/json.h"
#include "cadenza/cadenza.h"
#include "serve/fault.h"
#include "serve/head.h"
#include "serve/stop.h"

enum { CDZ_ASK_MOST_N = 128, CDZ_ASK_MOST_PROMPTS = 1024, CDZ_ASK_MOST_TOP = 20 };

typedef struct cdz_ask_prompt {
    int32_t *ids; /* owned */
    size_t n;
    const char *text;  /* as it was given; NULL: as ids */
    size_t characters; /* that a stream has echoed of it, with log-probabilities */
} cdz_ask_prompt;

/* What a body may name. */
typedef struct cdz_ask_world {
    cdz_runtime *runtime;
    cdz_model *model;
    const char *model_id;
    /* The pipeline of this name and the file it comes from, which stay; false: there is none. */
    bool (*pipeline)(void *user, const char *name, cdz_pipeline **out, const char **file);
    void *user;
    cdz_answer_form answers;
} cdz_ask_world;

typedef enum cdz_ask_kind { CDZ_ASK_COMPLETION, CDZ_ASK_CHAT, CDZ_ASK_RESPONSE } cdz_ask_kind;

/* What fields ask for that processors and decode loops do here (ask_samplers.c): names of processors into a list, and
 * parameters for when the request has a pipeline of its own. */
typedef struct cdz_ask_own {
    cdz_buf *list;
    struct {
        const char *field, *key, *text; /* key: "section.parameter" */
    } set[24];
    size_t n;
} cdz_ask_own;

typedef struct cdz_asking {
    cdz_arena arena;
    const cdz_ask_world *world;
    cdz_serve_fault *fault;
    cdz_json body;
    cdz_json asked;     /* of a response: the body as it came */
    bool chat, respond; /* a response is a chat too */
    bool stream, usage, usage_each, echo, logprobs, return_ids, ids_as_text;
    bool all_text;         /* special tokens are part of the text */
    const cdz_json *tools; /* those that the answer may call; NULL: none */
    cdz_reply_form form;
    bool special;  /* the answer is read with special tokens: some of them mark calls */
    bool thinking; /* the answer begins in the middle of reasoning */
    bool one_call;
    bool named_call; /* the answer is a call of the tool that the client named */
    bool prompt_logprobs;
    uint32_t prompt_top; /* leaders of each place of the prompt */
    uint32_t top, n,
        tried;      /* tried: rows made of a prompt, of which the n likeliest are told (best_of) */
    const char *id; /* of the answer, without its kind; NULL: the request's own */
    int64_t max_tokens; /* below 0: as the pipeline says, or up to the context's end (endless) */
    bool endless;
    bool seeded;
    int64_t seed;
    const char *suffix; /* what comes behind the answer, which the model has marks for; or NULL */
    cdz_ask_prompt *prompts;
    size_t n_prompts;
    cdz_stop_texts stops;
    cdz_ids ends; /* tokens that end an answer and are no part of its text; NULL: as the loop says */
    uint32_t n_stops;                 /* of those, the first: stop_token_ids */
    cdz_buf kwargs;                   /* members of an object, without braces */
    const char *set[64], *values[64]; /* their names and texts */
    size_t n_set;
    cdz_pipeline *pipeline; /* NULL: the default */
    bool own_pipeline;
    bool named_pipeline;
    const cdz_json *written; /* one that the request has itself, as an object of its sections; or NULL */
    const char *pipeline_name; /* of one that is there, "inline", or NULL */
    const char *strategy;      /* id or NULL */
    cdz_ask_own own;
    const char *structured; /* the field that says what the answer may be, or NULL */
    const char *cache_salt; /* or NULL */
    int64_t priority;       /* to the scheduler */
} cdz_asking;

/* False: fault says why. Free it in either case. */
bool cdz_ask_read(cdz_asking *ask, const cdz_ask_world *world, cdz_ask_kind kind, const char *body,
                  size_t len, cdz_serve_fault *fault);
void cdz_ask_free(cdz_asking *ask);

/* The request document of one of its prompts, for n rows. */
void cdz_ask_document(const cdz_asking *ask, size_t prompt, uint32_t n, cdz_buf *out);

/* --- parts, shared with other endpoints --- */
/* A body, which must be one JSON object; it lies in the arena and in `body`. */
bool cdz_ask_parse(const char *body, size_t len, cdz_arena *arena, cdz_json *out,
                   cdz_serve_fault *fault);
/* "1,2,3" */
void cdz_ask_write_ids(cdz_buf *out, const int32_t *ids, size_t n);
/* "prompt_ids" and "attention_mask" of a request document: a prompt, and n ids behind it. */
void cdz_ask_write_prompt(cdz_buf *out, const cdz_ask_prompt *prompt, const int32_t *ids, size_t n);
/* A field that is there and not null; or NULL. */
const cdz_json *cdz_ask_field(const cdz_json *object, const char *name);
/* Whether the model that a body names, if any, is this one. */
bool cdz_ask_model(const cdz_ask_world *world, const cdz_json *body, cdz_serve_fault *fault);
/* Refuses a field that is of another type; found: NULL where there is none. False. */
bool cdz_ask_wrong(cdz_serve_fault *fault, const char *name, const char *expected,
                   const cdz_json *found);
/* A boolean, or `absent`. */
bool cdz_ask_bool(const cdz_json *object, const char *name, bool absent, bool *out,
                  cdz_serve_fault *fault);
/* Whether a value is this JSON: a word, a whole number, a plain string, an empty list or object, or a list of one. */
bool cdz_ask_is_json(const cdz_json *value, const char *text);
/* The tools that a body offers, checked; NULL: none, or none of them may be called. */
bool cdz_ask_tools(const cdz_json *body, const cdz_json **out, cdz_serve_fault *fault);
/* messages to ids by the chat template. */
bool cdz_ask_messages(const cdz_ask_world *world, const cdz_json *body, int32_t **ids, size_t *n,
                      cdz_serve_fault *fault);
/* ids of a list, each in the vocabulary. */
bool cdz_ask_ids(const cdz_ask_world *world, const cdz_json *list, const char *name, int32_t **ids,
                 size_t *n, cdz_serve_fault *fault);

/* Own parts of the reader: pipeline, strategy, kwargs, processors (ask_cadenza.c); tools, and what the answer looks like
 * (ask_tools.c); a response's body as a chat's (ask_response.c). */
bool cdz_ask_cadenza(cdz_asking *ask);
/* What the answer may be (ask_structured.c). */
bool cdz_ask_structured(cdz_asking *ask);
/* The field of the request that a refusal at submission is about: the one that asks for a form; or NULL. */
const char *cdz_ask_blamed(const cdz_asking *ask, const cdz_error *err);
/* A text behind the answer (ask_suffix.c); and a prompt's text with it, as the model reads both. */
bool cdz_ask_suffix(cdz_asking *ask);
void cdz_ask_fill_in(const cdz_asking *ask, const char *prompt, cdz_buf *out);
/* Tokens by fields of vLLM's: those that end an answer, are banned or alone allowed (ask_tokens.c). */
bool cdz_ask_tokens(cdz_asking *ask);
bool cdz_ask_samplers(cdz_asking *ask, cdz_ask_own *own);
bool cdz_ask_set_own(cdz_asking *ask, const cdz_ask_own *own);
/* The field whose value a sentence refuses, or NULL. */
const char *cdz_ask_blamed_own(const cdz_asking *ask, const char *text);
/* A name for the list; and a value. field: who asks. */
bool cdz_ask_want(cdz_asking *ask, cdz_ask_own *own, const char *field, const char *processor);
bool cdz_ask_own_set(cdz_asking *ask, cdz_ask_own *own, const char *field, const char *key,
                     const char *text);
/* Whether llama-server's penalties are those of the newest tokens alone. */
bool cdz_ask_looks_back(const cdz_asking *ask);
bool cdz_ask_allowed(cdz_asking *ask, cdz_ask_own *own); /* ask_tokens.c */
/* Names that ask for little (ask_known.c); those that belong to the other endpoint; what a body with messages cannot have. */
bool cdz_ask_known(cdz_asking *ask);
bool cdz_ask_place(cdz_asking *ask);
bool cdz_ask_chat_only(const cdz_json *body, cdz_serve_fault *fault);
/* Where a tool is strict: text is free, but for calls, whose arguments fit their schemas. */
bool cdz_ask_strict_calls(cdz_asking *a);
/* The answer is to be a call, {"name", "arguments"}: of the tool of this name, or of any (NULL). */
bool cdz_ask_one_call(cdz_asking *ask, const char *name);
bool cdz_ask_answer_form(cdz_asking *ask);
bool cdz_ask_thinking(cdz_asking *ask);
bool cdz_ask_response(cdz_asking *ask);
/* Sets a generation parameter to a JSON text; a second, different value is refused. */
bool cdz_ask_set(cdz_asking *ask, const char *name, const char *value);

#endif
