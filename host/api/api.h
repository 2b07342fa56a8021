/* api.h - what the parts of the embedding interface share. */
#ifndef CDZ_HOST_API_API_H
#define CDZ_HOST_API_API_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "api/pipeline_cache.h"
#include "base/mutex.h"
#include "prepare/prepare.h"
#include "run/loop/own.h"

typedef struct cdz_entry_request cdz_entry_request; /* one submitted request (requests.c) */
typedef struct cdz_queued_event cdz_queued_event;   /* an event waiting for cdz_poll (requests.c) */

/* The scheduler that the runtime has, and its parameters (scheduling.c). Zeroed: none. */
typedef struct cdz_scheduling {
    cdz_plugin_ref plugin;
    cdz_arena arena;
    const void *params;
} cdz_scheduling;

struct cdz_runtime {
    pid_t process;     /* that opened it, and has its threads */
    bool guards_files; /* cdz_guard_begin was called */
    cdz_registry *registry;
    cdz_engine *engine;
    cdz_scheduling scheduling;  /* stays while the engine runs */
    cdz_pipeline *hf;           /* the profile as it is, for requests without a pipeline */
    cdz_pipeline_cache written; /* those that documents have */

    /* Guards what follows; never held while calling a callback, or the engine but for cdz_engine_pause. */
    cdz_mutex lock;
    pthread_cond_t changed;
    cdz_entry_request *requests; /* newest first */
    uint64_t next_id;
    cdz_queued_event *events, **events_end; /* oldest first */
    cdz_queued_event *polled;               /* what the last cdz_poll lent out */
    bool stopped;                           /* cdz_drain: no more requests */
    struct cdz_named_model *named;          /* what [models] of pipelines name (named_models.c) */
    cdz_own_plugin *own;                    /* plugins of the program (own.c) */
    cdz_model_options control; /* control vectors that a pipeline asks for (control_vectors.c) */
    cdz_arena control_texts;
    bool has_opened; /* a model, in whose options they count */
    cdz_stats ended; /* what requests that have ended add up to */
};

/* Copies a struct of cadenza.h that begins with its size; NULL leaves out as it is. A size that nobody set is refused. */
cdz_status cdz_runtime_take_struct(const void *given, const char *name, void *out, size_t bytes,
                                   cdz_error *err);
/* A child of fork has the memory of a runtime, and none of its threads. */
bool cdz_runtime_is_here(const cdz_runtime *rt);
/* Its sentence, for calls that would wait for them. */
cdz_status cdz_runtime_check_process(const cdz_runtime *rt, cdz_error *err);

struct cdz_model {
    cdz_runtime *runtime;
    cdz_run_model *run;
    atomic_uint holders;
    cdz_arena arena;     /* of generation */
    cdz_json generation; /* the model's generation parameters */
    cdz_chat_source chat;
    char *folder;
};

struct cdz_result {
    cdz_outcome *outcome;
    cdz_run_model *model; /* retained: texts are decoded from its tokenizer */
    cdz_record_spec record;
    uint32_t prompt_len;
    uint32_t keep_top; /* columns of the recorded best entries */
    cdz_buf *texts;    /* n_rows: new text without special tokens */
    char *json;        /* made when first asked for */
    char *detect;      /* the call's order to look for a watermark, or NULL */
    char *name;        /* the request's, or NULL */
    uint64_t seed;
    bool healed;     /* the prompts are the healed ones */
    bool logprobs;   /* output_logprobs was asked for, not only needed */
    cdz_error error; /* why it, or a later call of the request, failed */
    char **warnings; /* sentences of preparation */
    uint32_t n_warnings;
    uint32_t context_full; /* as cdz_result_context_full */
    cdz_result **calls; /* (n_calls) of the first call's result: those of the later ones; owned */
    uint32_t n_calls;
};

/* The engine's: what it is may be asked, nothing may be run on it. */
const struct cdz_backend *cdz_runtime_backend(const cdz_runtime *runtime);
/* What passes run on, once a model has been opened. */
const struct cdz_backend *cdz_runtime_device(const cdz_runtime *runtime);

void cdz_model_retain(cdz_model *model); /* cdz_model_close lets go */
/* A model of these weights, which it owns from now on, also on failure (runtime.c). folder: what it was opened from, or NULL;
 * tokenizes: its tokenizer is there too. */
cdz_status cdz_model_of_weights(cdz_runtime *runtime, const char *folder, bool tokenizes,
                                cdz_weights *weights, cdz_model **out, cdz_error *err);

/* Takes the outcome. NULL when memory is out (the outcome is freed). */
cdz_result *cdz_result_create(cdz_outcome *outcome, cdz_run_model *model, const cdz_prepared *call,
                              const cdz_record_spec *record);

/* Puts a call's result after those before it: *first is the first of them or NULL. False: memory is out. */
bool cdz_result_add_call(cdz_result **first, cdz_result *call);
/* The request has ended: its result tells how the last call did, and holds the KV state that that one left. */
void cdz_result_settle(cdz_result *result);

/* A kind of tensors that a result has (outputs.c). */
typedef struct cdz_output_kind {
    const char *name; /* as transformers names the field */
    uint32_t id;
    uint32_t n_steps,
        n_layers; /* a tensor for each step, for each layer, or for each of both; 0: no such level */
} cdz_output_kind;

typedef struct cdz_output {
    char name[64]; /* kind/step, kind/layer or kind/step/layer */
    uint32_t n_dims;
    uint64_t shape[4];
    const float *data; /* NULL: not recorded at this step */
} cdz_output;

enum { CDZ_OUTPUT_KINDS = 10 };
/* Kinds of outputs that the result has; returns how many. */
uint32_t cdz_result_output_kinds(const cdz_result *result,
                                 cdz_output_kind out[static CDZ_OUTPUT_KINDS]);
void cdz_result_output(const cdz_result *result, const cdz_output_kind *kind, uint32_t step,
                       uint32_t layer, cdz_output *out);
typedef bool cdz_output_visit(void *user, const cdz_output *output); /* false: no more */
/* Every tensor there is, kind by kind. False when visit said so. */
bool cdz_result_each_output(const cdz_result *result, cdz_output_visit *visit, void *user);

/* --- what is known of the tokens that rows took (token_scores.c) --- */
/* Its sequences are what a search returned: their scores stand with them, not with the steps. */
bool cdz_result_is_search(const cdz_result *result);

/* A text to score; source: what an encoder reads. top: how many of the likeliest tokens of each place are kept. */
typedef struct cdz_scored_text {
    const int32_t *source;
    size_t n_source;
    const int32_t *ids;
    size_t n_ids;
    uint32_t top;
} cdz_scored_text;
/* The result of a request in mode "score": its last n_ids places are the text's. */
cdz_status cdz_score_result(cdz_runtime *runtime, cdz_model *model, const cdz_scored_text *text,
                            cdz_result **out, cdz_error *err);
/* result_json.c: a place's n likeliest tokens as JSON; sum is taken off their values. */
void cdz_result_write_alternatives(const cdz_run_model *model, const int32_t *ids,
                                   const float *values, uint32_t n, float sum, cdz_buf *out);
/* Columns of tables of tokens: the longest sequence of a search, else the steps. */
uint32_t cdz_result_n_columns(const cdz_result *result);
/* Of the token that a row took at a step at which it was running: NAN when it was not recorded. */
float cdz_result_taken(const cdz_result *result, uint32_t row, uint32_t step, cdz_token_value what);

/* The answer document of a result (result_json.c). */
void cdz_result_write_json(const cdz_result *result, cdz_buf *out);

/* A model's facts as a JSON object (model_info.c). */
void cdz_model_write_facts(const cdz_weights *weights, cdz_buf *out);

/* Finds the scheduler that the options name, and fills its parameters; with the registry open. Closed in either case. */
cdz_status cdz_scheduling_open(cdz_runtime *runtime, const cdz_options *options, cdz_error *err);
void cdz_scheduling_close(cdz_scheduling *scheduling);

/* The pipeline that a request document has as an object (written_pipeline.c): what it is made of, as the text of a file, which its
 * parameters are no part of; one that all documents with the same text share; and one that may be changed. */
cdz_status cdz_pipeline_text(const cdz_json *object, cdz_buf *out, cdz_error *err);
cdz_status cdz_pipeline_of_object(cdz_runtime *runtime, const cdz_json *object, cdz_pipeline **out,
                                  cdz_error *err);
cdz_status cdz_pipeline_of_object_alone(cdz_runtime *runtime, const cdz_json *object,
                                        cdz_pipeline **out, cdz_error *err);
/* cdz_pipeline_load for a file that a request document alone names (plug/consent.h). */
cdz_status cdz_pipeline_load_for_request(cdz_runtime *runtime, const char *file, cdz_pipeline **out,
                                         cdz_error *err);

/* control_vectors.c: a key of [model] in a pipeline file, for the first model that is opened; at: where it stands. */
cdz_status cdz_runtime_wish_control(cdz_runtime *runtime, const cdz_setting *setting,
                                    const char *text, const cdz_origin *at, cdz_error *err);
void cdz_runtime_free_control(cdz_runtime *runtime);
/* control_vectors.c: the files of control vectors that the options name, for all that the model will compute. */
cdz_status cdz_model_take_control(cdz_model *model, const cdz_model_options *how, cdz_error *err);

#endif
