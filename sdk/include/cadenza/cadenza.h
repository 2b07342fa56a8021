/* cadenza.h - run language models in your program.
 *
 *     cdz_runtime *rt;  cdz_model *model;  cdz_result *result;  cdz_error err;
 *     cdz_open(NULL, &rt, &err);
 *     cdz_model_open(rt, "models/pocket-dictionary", NULL, &model, &err);
 *     cdz_request req = { .size = sizeof req, .model = model, .prompt = "river (noun):" };
 *     cdz_generate(rt, &req, &result, &err);
 *     puts(cdz_result_text(result, 0));
 *     cdz_result_free(result);  cdz_model_close(model);  cdz_close(rt);
 *
 * The library is asynchronous: cdz_submit returns an id at once, one engine thread decodes all submitted
 * requests together, and tokens arrive by callback or by cdz_poll. cdz_generate is submit and wait.
 * Nothing here prints, exits, installs a signal handler or keeps a global: two runtimes, or two models in one
 * runtime, are independent.
 *
 * Threads: every function may be called from any thread unless its line says otherwise. Callbacks run on the
 * engine thread and must not block or call a function that waits. The engine's threads have the default floating-point mode;
 * what runs on your thread (tokenizing, reading parameters, cdz_sample) has yours.
 * A child of fork has none of these threads: there, calls that would wait for them are CDZ_E_STATE, and cdz_close does nothing.
 * Strings are UTF-8. Every struct begins with its size: set it to sizeof, and leave other fields zero for their defaults; a size
 * that was not set is CDZ_E_USAGE. A pointer may be NULL where its line says what NULL means, and nowhere else. */
#ifndef CADENZA_CADENZA_H
#define CADENZA_CADENZA_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define CDZ_VERSION    "0.1.0"
#define CDZ_ERROR_TEXT 1024

/* What went wrong, in one sentence: what, where, what was found and what was expected. You own it. A call that
 * takes one overwrites it on failure and leaves it unchanged on success. The pointer may be NULL. */
typedef struct cdz_error {
    cdz_status code;
    char text[CDZ_ERROR_TEXT];
} cdz_error;

typedef struct cdz_runtime cdz_runtime; /* plugins, engine thread, thread pool, KV memory */
typedef struct cdz_model cdz_model;     /* a loaded model: read-only, shared by requests */
typedef struct cdz_pipeline
    cdz_pipeline; /* strategy, processors, criteria and their settings; changed by reloading only, once used */
typedef struct cdz_result cdz_result; /* the result of one request; you free it */

const char *cdz_version(void);

/* --- runtime ------------------------------------------------------------------------------------------ */

typedef struct cdz_options {
    uint32_t size;
    uint32_t n_threads; /* 0: the physical cores this process may use */
    /* Memory for KV caches; 0: a quarter of the machine's or control group's, at most half of what is free; or most of what a
     * device has free. */
    uint64_t kv_bytes;
    uint32_t max_queue; /* requests that may wait for a place; 0: no limit. Further ones: CDZ_E_LIMIT */
    uint32_t max_running;       /* requests decoded together; 0: 256 */
    const char *const *plugins; /* extra plugin files and package folders; naming them is your consent */
    uint32_t n_plugins;
    const char *plugin_dir; /* where the built-in plugins are; NULL: beside the library or program */
    bool safe_mode; /* built-in plugins only: no directories, no lock, no `plugins`, no paths in a pipeline */
    /* When a model file is truncated while a pass reads it, the requests that use it fail; otherwise the program gets
     * SIGBUS. Installs a handler for that signal, which passes on signals from elsewhere. docs/embedding.md */
    bool guard_files;
    /* A line that a plugin logged, without line end; print() of a Lua script is one too. NULL: lines are dropped.
     * [engine thread and its kernel threads, several at once; return quickly and call no function of this library] */
    void (*log)(void *user, cdz_log_level level, const char *plugin, const char *text);
    void *log_user;
    /* Scripts in a model's own custom_generate folder may run, in the sandbox. Native code there never does. */
    bool allow_model_plugins;
    /* The cadenza.lock that says which packages found in directories may load (docs/packages.md); NULL: the one in the
     * working folder, then the user's. */
    const char *lock;
    bool profile; /* measure the engine's work: cdz_profile_json */
    /* The device that computes: "cpu", "cuda" or "cuda:1" (the second one), or "auto": a device if there is one, else the
     * CPU, with a log line that says why. NULL: what a pipeline that is loaded before the first model asks for, else
     * CADENZA_DEVICE, else "cpu". It is opened with the first model. docs/devices.md */
    const char *device;
    /* How a device computes: "f32" as the CPU does; "auto" or NULL: faster where weights have 16 bits. */
    const char *precision;
    /* "strict": a row's bits depend on the row alone, on a device too; "default" or NULL: on a device they may also depend
     * on the other rows of a pass. */
    const char *determinism;
    /* Progress: `done` of `bytes` bytes of a model's weights have been copied to the device; user is log_user. NULL: not
     * reported. [the thread in cdz_model_open] */
    void (*loading)(void *user, const char *model, uint64_t done, uint64_t bytes);
    /* The type of KV caches: "f32", "f16", "bf16", "q8_0" or "q4_0". NULL: what a pipeline that is loaded before the first
     * model asks for, else f32. The 16-bit types take half of the memory, q8_0 little more than a quarter, q4_0 a seventh; keys
     * and values are rounded: docs/models.md */
    const char *kv_cache;
    /* "spread": on a NUMA machine, threads are bound evenly to the nodes, and KV caches and weights in panels take their
     * pages from all nodes in turns; "off". NULL: what a pipeline that is loaded before the first model asks for, else off.
     * docs/performance.md */
    const char *numa;
    /* Whose turn it is: the id of a scheduler (cadenza/scheduler.h), which orders requests that wait and rows of a pass.
     * "first_come", "fifo" or NULL: in the order in which they came, and running answers do not wait for prompts;
     * "prefill_first": prompts before those, so that more requests decode together sooner; "fair_share": the tenant that was
     * given least; "priority": the lowest cdz_request.priority, with ageing. Answers do not depend on it. docs/scheduling.md */
    const char *scheduler;
    /* "off": every sequence has KV blocks of its own: what begins alike (rows of one prompt, beams, forks, a conversation and
     * its next question) is copied, not shared. The same answers in more memory and time. "on" or NULL. The name is
     * transformers' allow_block_sharing. */
    const char *block_sharing;
    /* Limits of constraints on answers (docs/structured.md): bytes of a source, states that it is compiled to, milliseconds of
     * compiling, and bytes of those that are kept compiled, of each model. 0: 16M, 4000000, 20000 and 256M. */
    uint64_t grammar_max_bytes;
    uint32_t grammar_max_states, grammar_max_ms;
    uint64_t grammar_cache;
    /* "off": a prompt does not find what earlier requests have computed of the same tokens. The same answers in more time.
     * "on" or NULL: whole blocks of KV memory stay until it is needed, the ones used least recently going first.
     * docs/embedding.md */
    const char *prefix_cache;
    /* Parameters of the scheduler, "name=value" each, n_scheduler_params of them; of two of one name the later counts. */
    const char *const *scheduler_params;
    uint32_t n_scheduler_params;
} cdz_options;

/* options may be NULL. */
cdz_status cdz_open(const cdz_options *options, cdz_runtime **out, cdz_error *err) CDZ_MUST_CHECK;

/* Cancels what is running, waits for the engine thread, frees. Models, pipelines and results opened here must
 * have been closed before. NULL is fine. */
void cdz_close(cdz_runtime *runtime);

/* Where the engine's time went since it was opened, by kind of work, as a JSON object (docs/performance.md). NULL:
 * cdz_options.profile was not set, or there is no memory. Free with cdz_free. */
char *cdz_profile_json(const cdz_runtime *runtime);

/* The plugins that this runtime knows: a JSON list of objects with id, kind, version, summary, and parameters, which is a JSON
 * Schema. Free with cdz_free. */
cdz_status cdz_plugins_json(cdz_runtime *runtime, char **json, cdz_error *err) CDZ_MUST_CHECK;

/* Plugins of your own program: a processor, criterion, drafter or observer (cadenza/processor.h and its siblings) whose descriptor
 * and functions lie in it, not in a file. Pipelines name it by its id, as a built-in one. The descriptor and all that it points to
 * must stay until cdz_close. Its functions run on the thread that its header names, on that thread's own stack, not on a fibre's;
 * so a drafter gets no decoder: dec is NULL, and it proposes by what it knows of the ids.
 * CDZ_E_USAGE: another kind, or the id is taken. */
typedef struct cdz_plugin_base cdz_plugin_base;
cdz_status cdz_runtime_add_plugin(cdz_runtime *runtime, const cdz_plugin_base *plugin,
                                  cdz_error *err) CDZ_MUST_CHECK;

/* --- models ------------------------------------------------------------------------------------------- */

typedef struct cdz_model_options {
    uint32_t size;
    bool no_tokenizer; /* do not load tokenizer.json; prompts are ids then */
    /* Quantise the weights at load: q8_0, q4_0, q4_1, q5_0, q5_1, q2_k to q6_k, nf4, fp4 or int8; NULL: as stored. */
    const char *quantize;
    /* The type of activations in products with weights. "f32": not rounded. "int8": for quantised weights, blocks of 32
     * activations are rounded to integers, which is much faster. "auto" or NULL: int8 where the weights' type allows it.
     * "bf16": as auto, and for weights in bf16 activations are rounded to bf16, which is faster for prompts if the
     * processor multiplies in bf16. On processors with AMX, for weights in bf16: "bf16x3", sums of three numbers in bf16,
     * which are the activations, and "bf16x1", the activations rounded. docs/quantisation.md */
    const char *activations;
    /* Files of control vectors in llama.cpp's form, whose directions are added to what layers leave, in all that the model
     * computes; several add up. Of the scaled ones each is "FILE:SCALE". Where these and the next are NULL: what a pipeline that
     * was loaded before the first model asks for, for that model. docs/steering.md */
    const char *const *control_vectors, *const *control_vectors_scaled;
    uint32_t n_control_vectors, n_control_vectors_scaled;
    /* "FIRST:LAST": these layers alone, both included, counted from 0; layer 0 has no direction. NULL: all. */
    const char *control_vector_layer_range;
    /* The best tokens are found in a copy of the head in 5 bits, and those that it leaves possible in the head itself: steps that
     * choose the best token, or draw from the best few, read less and give the same tokens. "auto" or NULL: on the CPU, if a
     * step reads a tenth less, once as many steps would have used it as making it costs; "on": from the first step on,
     * CDZ_E_UNSUPPORTED where the head does not allow it; "off". docs/performance.md#the-head */
    const char *head_screen;
} cdz_model_options;

/* Opens a Hugging Face model folder or a GGUF file. Weights are mapped from the file, not copied. The folder must not change while open. */
cdz_status cdz_model_open(cdz_runtime *runtime, const char *folder, const cdz_model_options *options,
                          cdz_model **out, cdz_error *err) CDZ_MUST_CHECK;

/* What a control vector is made of: texts that lean towards something, and texts that lean away from it. */
typedef struct cdz_control_texts {
    uint32_t size;
    const char *const *positive,
        *const *negative; /* prompts; the state after the last token of each counts */
    uint32_t n_positive, n_negative;
    /* "mean" or NULL: the mean of the positive states less that of the negative ones. "pca": the first principal component
     * of the differences between the i-th ones, as many of either, times their mean along it. */
    const char *method;
    bool force; /* a file that is there already is replaced */
    /* After each text; false gives up: CDZ_E_CANCELLED. NULL: nobody is told. [the calling thread] */
    bool (*tell)(void *user, uint32_t done, uint32_t total);
    void *user;
} cdz_control_texts;

/* Writes a control vector for each layer but the first, which the form cannot name, and the last, whose states are known
 * after the final norm alone. Waits; a model with an encoder, or that is a function, is CDZ_E_UNSUPPORTED. */
cdz_status cdz_model_make_control_vector(cdz_model *model, const cdz_control_texts *texts,
                                         const char *path, cdz_error *err) CDZ_MUST_CHECK;

void cdz_model_close(cdz_model *model); /* requests that use it keep it alive; NULL is fine */

/* A sequence that a function of yours is to read. This struct does not grow. */
typedef struct cdz_function_row {
    const int32_t *ids; /* (n_ids) all of it, without what attention_mask hides */
    uint32_t n_ids;
    uint32_t n_scores; /* 1 to n_ids: the scores after each of the last n_scores ids are wanted */
    float *const *scores; /* (n_scores) of n_vocab each, to be written */
} cdz_function_row;
typedef struct cdz_function_model {
    uint32_t size;
    uint32_t n_vocab; /* scores of a row */
    uint32_t context; /* positions that it was trained for; 0: no limit */
    /* [engine thread] One pass: writes the scores of all these rows, which may be of several requests; what `rows` points to is
     * valid until it returns. A sequence that goes on comes again with its new ids behind. On failure the requests that wait
     * for the pass end with that status and sentence; others go on. Call no function of this library that waits. */
    cdz_status (*forward)(void *user, const cdz_function_row *rows, uint32_t n, cdz_error *err);
    void *user;
    const char *tokenizer;         /* a model folder with tokenizer.json; NULL: prompts are ids */
    const char *generation_config; /* its generation parameters, a JSON object; NULL: none */
} cdz_function_model;
/* A model whose passes are a function of your program, for example a model of another library: strategies, processors, drafts
 * and results are this library's. It has scores alone, no hidden states or attentions (CDZ_E_UNSUPPORTED). The function may
 * be called until cdz_model_close and every request of the model have ended. On a runtime that computes on the CPU. */
cdz_status cdz_model_of_function(cdz_runtime *runtime, const cdz_function_model *function,
                                 cdz_model **out, cdz_error *err) CDZ_MUST_CHECK;
uint32_t cdz_model_vocab_size(const cdz_model *model);
uint32_t cdz_model_context(const cdz_model *model);     /* positions the model was trained for */
uint32_t cdz_model_hidden_size(const cdz_model *model); /* floats of an embedding */
bool cdz_model_has_encoder(const cdz_model *model);     /* an encoder that reads the prompt */
/* Facts of `cadenza model info` as a JSON object; free with cdz_free. */
char *cdz_model_info_json(const cdz_model *model);

/* Text to ids. special: add what the tokenizer's post-processor adds, and read special tokens in the text as such.
 * *ids is allocated, *n_ids long; free with cdz_free. */
cdz_status cdz_tokenize(const cdz_model *model, const char *text, size_t len, bool special,
                        int32_t **ids, size_t *n_ids, cdz_error *err) CDZ_MUST_CHECK;
/* Ids to text (allocated; free with cdz_free). */
cdz_status cdz_detokenize(const cdz_model *model, const int32_t *ids, size_t n_ids,
                          bool skip_special, char **text, cdz_error *err) CDZ_MUST_CHECK;
/* A conversation to ids, by the model's chat template: transformers' apply_chat_template. json: a request document of which
 * messages, tools, documents, chat_template, chat_template_kwargs and special_in_messages are read (docs/chat-templates.md);
 * a request with these messages has this prompt. *ids is allocated, *n_ids long; free with cdz_free. */
cdz_status cdz_apply_chat_template(const cdz_model *model, const char *json, size_t len,
                                   int32_t **ids, size_t *n_ids, cdz_error *err) CDZ_MUST_CHECK;
/* The text that a token adds after other tokens, special ones included: what stop strings are looked for in. Bytes of a
 * character that is not whole are U+FFFD. *text is allocated, NUL-terminated, *len bytes long; free with cdz_free.
 * CDZ_E_NOT_FOUND: no token has this id. */
cdz_status cdz_token_text(const cdz_model *model, int32_t id, char **text, size_t *len,
                          cdz_error *err) CDZ_MUST_CHECK;
/* The bytes that a token adds in the middle of a text, of a part of a character too. A special token has none: *len is 0 then,
 * as it is for an id without a token. *bytes is allocated, or NULL; free with cdz_free. */
cdz_status cdz_token_bytes(const cdz_model *model, int32_t id, void **bytes, size_t *len,
                           cdz_error *err) CDZ_MUST_CHECK;
/* bos_token, eos_token, pad_token and unk_token with their ids ("bos_token_id"), vocab_size and chat_template as a JSON object;
 * what the tokenizer does not name is null. NULL: no tokenizer, or no memory. Free with cdz_free. */
char *cdz_tokenizer_info_json(const cdz_model *model);
void cdz_free(void *memory);

/* --- pipelines ---------------------------------------------------------------------------------------- */

/* file: an ini file, or NULL for the profile `hf` as it is. */
cdz_status cdz_pipeline_load(cdz_runtime *runtime, const char *file, cdz_pipeline **out,
                             cdz_error *err) CDZ_MUST_CHECK;
/* The same from text in memory; name stands for the file in error sentences. */
cdz_status cdz_pipeline_parse(cdz_runtime *runtime, const char *text, size_t len, const char *name,
                              cdz_pipeline **out, cdz_error *err) CDZ_MUST_CHECK;
/* As `-s name=value` on the command line: a [generation] key, or section.key. Before the first use only; names and
 * values are checked then, since a strategy set later may declare them. */
cdz_status cdz_pipeline_set(cdz_pipeline *pipeline, const char *name, const char *value,
                            cdz_error *err) CDZ_MUST_CHECK;
/* Replaces the decode loop by a package folder, a model folder that has one in custom_generate/ (see
 * allow_model_plugins), a .so or a .lua file, or a plugin id. */
cdz_status cdz_pipeline_custom_generate(cdz_pipeline *pipeline, const char *folder,
                                        cdz_error *err) CDZ_MUST_CHECK;
/* What `cadenza explain` prints; model may be NULL. Free with cdz_free. */
cdz_status cdz_pipeline_explain(cdz_pipeline *pipeline, const cdz_model *model, char **text,
                                cdz_error *err) CDZ_MUST_CHECK;
void cdz_pipeline_free(cdz_pipeline *pipeline); /* NULL is fine */

/* Reads the pipeline's files again, and loads those of its plugins that changed. The new version is tried on a made-up
 * row first; then it is the pipeline's next generation. Requests submitted from now on use it. Running requests take over its
 * processors and criteria before their next step, and keep their strategy. On failure nothing changes, and err says why.
 * model: the model whose vocabulary and tokenizer the trial uses; NULL: none. May be called from on_event. docs/reload.md */
cdz_status cdz_pipeline_reload(cdz_pipeline *pipeline, const cdz_model *model,
                               cdz_error *err) CDZ_MUST_CHECK;
/* 1 when it was first read, then one more for each reload that succeeded. */
uint64_t cdz_pipeline_generation(const cdz_pipeline *pipeline);

/* While you work on plugins: a thread that watches the files of pipelines and reloads those whose files change. */
typedef struct cdz_reloader cdz_reloader;
typedef struct cdz_reloader_options {
    uint32_t size;
    uint32_t quiet_ms; /* a change counts when nothing has changed for so long; 0: 200 */
    const cdz_model *
        model; /* for the trial, as in cdz_pipeline_reload; it stays open until cdz_reloader_close */
    /* error NULL: the next generation is in use. Otherwise the earlier one stays in use, for all requests or for one that
     * runs; reported once for each version. [the reloader's thread; the engine's for a running request] Do not call
     * functions of the reloader here. */
    void (*on_reload)(void *user, cdz_pipeline *pipeline, const cdz_error *error);
    void *user;
} cdz_reloader_options;

cdz_status cdz_reloader_open(const cdz_reloader_options *options, cdz_reloader **out,
                             cdz_error *err) CDZ_MUST_CHECK;
/* The pipeline counts as used from now on. The reloader keeps it until it is removed or the reloader is closed. */
cdz_status cdz_reloader_add(cdz_reloader *reloader, cdz_pipeline *pipeline,
                            cdz_error *err) CDZ_MUST_CHECK;
/* Returns when the pipeline is not being reloaded. NULL, or one that was not added, is fine. */
void cdz_reloader_remove(cdz_reloader *reloader, cdz_pipeline *pipeline);
void cdz_reloader_close(cdz_reloader *reloader); /* before the runtime; NULL is fine */

/* --- requests ----------------------------------------------------------------------------------------- */

typedef enum cdz_event_kind {
    CDZ_EVENT_TOKENS = 1, /* new text and ids of one row */
    CDZ_EVENT_DONE = 2,   /* the request ended; result holds everything */
} cdz_event_kind;

typedef struct cdz_event {
    uint32_t size;
    uint32_t kind; /* cdz_event_kind */
    uint64_t request_id;
    uint32_t row;
    const char *text; /* new whole characters, NUL-terminated; "" while a character is incomplete */
    const int32_t *ids; /* new ids */
    uint32_t n_ids;
    uint32_t call;            /* 0: the request itself; then its "calls" */
    const cdz_result *result; /* CDZ_EVENT_DONE: borrowed; use cdz_wait to own it */
    const char *name;         /* cdz_request.name, or NULL; valid while the request is known */
    /* With cdz_request.stream_logprobs: (n_ids) log-probabilities of the ids under the model's own logits, NAN where the decode
     * loop kept none; and (n_ids, n_leaders) the likeliest ids there, best first, -1 where they are not known. Else NULL. */
    const float *logprobs;
    const int32_t *leaders;
    const float *leader_logprobs;
    uint32_t n_leaders;
} cdz_event;

/* Which text events carry. All three together give the text of transformers' TextStreamer. */
typedef enum cdz_stream_flags {
    CDZ_STREAM_PROMPT =
        1, /* the prompt first, without pads: an event with its ids, before those of new ids */
    CDZ_STREAM_SPECIAL = 2, /* the text has special tokens */
    CDZ_STREAM_WORDS =
        4, /* whole words: text up to the last space; ideographs and finished lines at once */
} cdz_stream_flags;

/* New tokens [from, to) of a row that the model did not write (cdz_insert of strategy.h). */
typedef struct cdz_span {
    uint32_t from, to;
    bool shown; /* they are in the row's text */
    const char *who;
} cdz_span;

/* A question of a request's decode loop (cdz_call_tool of strategy.h, ctx:call of scripts). */
typedef struct cdz_tool_question {
    uint32_t size;
    const char *name;
    cdz_string text;
    uint64_t request; /* its id */
    void *scope;      /* for the library */
} cdz_tool_question;
/* [in on_tool] Adds to the answer; copied, at most 16 MiB in all. */
CDZ_EXPORT cdz_status cdz_tool_reply(const cdz_tool_question *call, const char *text, size_t len);
/* [in on_tool] Has the request ended, so that nobody waits for the answer any more? */
CDZ_EXPORT bool cdz_tool_is_over(const cdz_tool_question *call);

/* Of a row, in order; valid as long as the result. */
CDZ_EXPORT const cdz_span *cdz_result_spans(const cdz_result *result, uint32_t row, uint32_t *n);

/* Models and pipeline are of the runtime that it is submitted to. */
typedef struct cdz_request {
    uint32_t size;
    cdz_model *model;
    cdz_pipeline *pipeline; /* NULL: profile `hf` */
    /* The prompt: one of these two, or json's, or none (start from bos_token_id). */
    const char *prompt; /* text */
    const int32_t *ids; /* n_ids token ids */
    uint32_t n_ids;
    /* Beside the prompt or with one of its own, a request document: prompt, prompt_ids, attention_mask, kwargs, sections, seed, assistant, record; also pipeline, an
     * object of its sections that names ids alone, which counts where `pipeline` is NULL. A parameter of one plugin of the
     * pipeline is "kwargs": {"section.name": value}, or "sections": {"section": {"name": value}}. docs/requests.md */
    const char *json;
    cdz_model *assistant; /* draft model, for strategies that use one; NULL: none */
    /* 0: none; less is CDZ_E_USAGE. After it the request ends with CDZ_E_DEADLINE and the tokens it has. */
    double timeout_s;
    /* [engine thread] Called for every event; NULL: events wait for cdz_poll only if `poll` is set. */
    void (*on_event)(void *user, const cdz_event *event);
    void *user;
    bool poll;
    /* To continue an earlier request. keep_cache: the result keeps the KV cache of its rows until it is freed. past: such a
     * result of the same model, whose cache this request uses: the tokens that both begin with are not computed again. */
    const cdz_result *past;
    bool keep_cache;
    /* A prompt as embeddings, (n_embed_rows, n_embeds, hidden size); NULL: none. With ids or json's prompt_ids besides, the
     * model reads the embeddings, and processors and sequences see the ids; without them the sequences hold new ids only. */
    const float *embeds;
    uint32_t n_embeds, n_embed_rows;
    const char *
        inputs_dir; /* folder of the files that json may name ("inputs_embeds"); NULL: it may name none */
    /* A name of your choice, copied; NULL: none. Two requests may not have the same name until the result of the first is
     * taken: CDZ_E_USAGE. cdz_find_request finds it; events and results carry it. */
    const char *name;
    uint32_t stream; /* cdz_stream_flags; 0: new text only, whole characters as soon as they are complete */
    /* Only requests with the same text find what this one has computed, and only theirs is found by it; so that nobody learns
     * from the time of an answer what others have asked. NULL: no text. Any length, copied. */
    const char *cache_salt;
    /* Events carry log-probabilities of their ids, and of the stream_leaders (at most CDZ_MOST_LEADERS) likeliest in each place. */
    bool stream_logprobs;
    uint32_t stream_leaders;
    /* For plugins that ask (ext/trace.h), copied; NULL: none. Your own id of the request, which others may have too, and W3C
     * trace context. */
    const char *request_id, *traceparent;
    /* To the scheduler (cdz_options.scheduler): lower first. Other than 0 is CDZ_E_UNSUPPORTED unless it has priorities. */
    int64_t priority;
    /* To the scheduler: a number of your choice for whose request this is, so that it can share fairly; 0: nobody's. */
    uint64_t tenant;
    /* [a helper's thread] Answers a question with cdz_tool_reply; it may take its time, other requests go on. Several calls of
     * different requests may run at once. CDZ_E_NOT_FOUND: there is no such tool, which ends the request; any other error is
     * told to the decode loop with err's sentence. NULL: there are no tools. */
    cdz_status (*on_tool)(void *user, const cdz_tool_question *call, cdz_error *err);
    void *tool_user;
    /* Further models of this runtime that decode loops may use by name (seq_new of strategy.h): a reward model, a critic, a
     * second opinion. Not "target" and "assistant", which are `model` and `assistant`. Held until the request has ended. */
    const char *const *model_names; /* (n_models) */
    cdz_model *const *models;       /* (n_models) */
    uint32_t n_models;
    /* [engine thread] A line of an observer (ext/observe.h), without its end; NULL: nobody listens. */
    void (*on_observed)(void *user, uint64_t request, const char *plugin, const char *line,
                        size_t len);
    void *observe_user;
} cdz_request;
enum { CDZ_MOST_LEADERS = 1000 };

/* Does the scheduler go by cdz_request.priority? */
bool cdz_scheduler_has_priorities(const cdz_runtime *runtime);
/* Its id; NULL: the runtime found none, and requests have their turns in the order in which they came. */
const char *cdz_scheduler_id(const cdz_runtime *runtime);

/* Checks and queues a request. Everything the struct points to is copied, models and pipeline are kept alive. */
cdz_status cdz_submit(cdz_runtime *runtime, const cdz_request *request, uint64_t *id,
                      cdz_error *err) CDZ_MUST_CHECK;

/* The next event of any request with `poll` set, waiting up to timeout_s (0: do not wait, < 0: for ever).
 * CDZ_E_NOT_FOUND: nothing arrived. The event's pointers are valid until the next cdz_poll on this runtime. */
cdz_status cdz_poll(cdz_runtime *runtime, double timeout_s, cdz_event *out,
                    cdz_error *err) CDZ_MUST_CHECK;

/* Waits until the request has ended and gives you its result. A failed request returns its status and error here,
 * and also a result with the tokens it has. Each id can be waited for once. */
cdz_status cdz_wait(cdz_runtime *runtime, uint64_t id, cdz_result **out,
                    cdz_error *err) CDZ_MUST_CHECK;

/* The request ends at its next suspension with finish reason "cancelled". Unknown or ended ids: CDZ_E_NOT_FOUND. */
cdz_status cdz_cancel(cdz_runtime *runtime, uint64_t id, cdz_error *err);

/* The request takes part in no pass from the engine's next step on, until it is resumed, cancelled or out of time: for a reader of
 * its events who cannot keep up. A step that is under way is told of. It keeps its KV memory as far as nobody else needs that.
 * Its place of max_running is others', at most max_running more are open so, and once it is resumed it has the next that becomes
 * free. Its tokens are the same. [any thread, on_event too] Unknown or ended ids: CDZ_E_NOT_FOUND. */
cdz_status cdz_pause(cdz_runtime *runtime, uint64_t id, cdz_error *err);
cdz_status cdz_resume(cdz_runtime *runtime, uint64_t id, cdz_error *err);

/* Frees the result of a finished request that nobody waited for. */
cdz_status cdz_evict(cdz_runtime *runtime, uint64_t id, cdz_error *err);

/* As cdz_wait, for at most timeout_s seconds (0: does not wait; < 0: for ever). id 0: any request that nobody else waits
 * for, the first that has ended or ends; *ended (may be NULL) is its id. CDZ_E_STATE: none ended in time, and *out is NULL;
 * call again. CDZ_E_NOT_FOUND: there is no such request, or with 0 none at all, and *out is NULL. */
cdz_status cdz_get_result(cdz_runtime *runtime, uint64_t id, double timeout_s, uint64_t *ended,
                          cdz_result **out, cdz_error *err) CDZ_MUST_CHECK;

typedef enum cdz_request_state {
    CDZ_REQUEST_UNKNOWN, /* never submitted to this runtime */
    CDZ_REQUEST_PENDING, /* waits for its turn, or for KV memory */
    CDZ_REQUEST_RUNNING,
    CDZ_REQUEST_FINISHED, /* in this state and the next two the result can be taken */
    CDZ_REQUEST_CANCELLED,
    CDZ_REQUEST_FAILED,  /* a passed deadline counts as finished, not failed */
    CDZ_REQUEST_EVICTED, /* its result was taken or evicted, or it was refused when submitted */
} cdz_request_state;
cdz_request_state cdz_get_request_state(cdz_runtime *runtime, uint64_t id);
/* The id of the request with this name; 0: there is none. */
uint64_t cdz_find_request(cdz_runtime *runtime, const char *name);

/* Waits until no request is pending or running, for at most timeout_s seconds (< 0: for ever). CDZ_E_STATE: some still are.
 * Results can still be taken afterwards. */
cdz_status cdz_join(cdz_runtime *runtime, double timeout_s, cdz_error *err) CDZ_MUST_CHECK;
/* From now on cdz_submit is refused (CDZ_E_STATE); submitted requests run to their end. block: returns when all have ended. */
void cdz_drain(cdz_runtime *runtime, bool block);

enum { CDZ_STATS_PASSES = 16 };
typedef struct cdz_stats {
    uint32_t size;
    uint32_t n_pending, n_running;              /* requests now */
    uint64_t n_finished, n_cancelled, n_failed; /* requests that have ended, so far */
    uint64_t n_prompt_tokens, n_new_tokens; /* of those: prompt positions computed, tokens written */
    uint64_t n_reused_tokens;       /* of those: prompt positions that need not be computed */
    uint64_t n_passes, n_pass_rows; /* so far: passes through models, positions in them */
    uint64_t kv_blocks_used,
        kv_blocks_peak; /* of all models, CDZ_KV_BLOCK_POSITIONS positions each */
    /* Positions of prompts that were looked for among those of earlier requests, and found, so far; sequences that could
     * not be, as with embeddings or a mask; blocks that are kept to be found, and that were given away. */
    uint64_t n_prefix_queries, n_prefix_hits, n_prefix_refused, kv_blocks_cached, kv_blocks_evicted;
    uint64_t n_preemptions; /* so far: times that a request gave its blocks to an older one, to compute them again */
    uint64_t kv_bytes_held,
        kv_bytes_limit; /* now: KV memory that requests hold or were promised, of how much there is */
    uint64_t n_drafted, n_accepted; /* so far: tokens that drafters proposed, and that were right */
    /* So far: passes of at most 1, 2, 4, ... positions, and of more than those before; the last of all larger ones. */
    uint64_t n_passes_to[CDZ_STATS_PASSES];
    /* Of those that are pending: requests that found no place beside those that run, or no KV memory, their rows, and
     * the tokens of their prompts. The others begin with the engine's next step. */
    uint32_t n_waiting, n_waiting_rows;
    uint64_t n_waiting_tokens;
    uint32_t n_paused; /* of those that run */
} cdz_stats;
enum { CDZ_KV_BLOCK_POSITIONS = 32 };
/* Counters as of the engine's last step. You set out->size; memory past that size is not written. */
void cdz_get_stats(cdz_runtime *runtime, cdz_stats *out);

/* Submit and wait. */
cdz_status cdz_generate(cdz_runtime *runtime, const cdz_request *request, cdz_result **out,
                        cdz_error *err) CDZ_MUST_CHECK;

/* How probable a text is, given as ids: logprobs[i] is the log-probability of ids[i] after the ids before it. The first is
 * NAN, unless the model has an encoder: then the encoder reads source, and the decoder's start token precedes the first id.
 * The call waits; the ids must fit the context. */
cdz_status cdz_score(cdz_runtime *runtime, cdz_model *model, const int32_t *source, size_t n_source,
                     const int32_t *ids, size_t n_ids, float *logprobs,
                     cdz_error *err) CDZ_MUST_CHECK;

/* --- results: borrowed pointers, valid until cdz_result_free ------------------------------------------ */

uint32_t cdz_result_rows(const cdz_result *result);
const char *cdz_result_text(const cdz_result *result,
                            uint32_t row); /* new text, special tokens left out */
const int32_t *cdz_result_ids(const cdz_result *result, uint32_t row, uint32_t *n_ids); /* new ids */
/* A whole row: prompt, new ids and padding. */
const int32_t *cdz_result_sequence(const cdz_result *result, uint32_t row, uint32_t *n_ids);
const char *cdz_result_name(const cdz_result *result); /* of its cdz_request, or NULL */
const char *cdz_result_finish_reason(const cdz_result *result,
                                     uint32_t row); /* "stop", "length", "time", ... */
/* The size of the model's context, if a row ended ("length") because the context was full; 0: none did. `--json` warns of it. */
uint32_t cdz_result_context_full(const cdz_result *result);
/* Positions of the prompts that were not computed, since an earlier request had. */
uint32_t cdz_result_reused_tokens(const cdz_result *result);
/* How long it waited for its turn, read its prompt, and wrote: seconds. You set out->size; memory past it is not written. */
typedef struct cdz_times {
    uint32_t size;
    double queued_s, prefill_s, decode_s;
} cdz_times;
void cdz_result_times(const cdz_result *result, cdz_times *out);
/* Results of the document's "calls", in order; borrowed as well. The status of the request is that of the last one. */
uint32_t cdz_result_calls(const cdz_result *result);
const cdz_result *cdz_result_call(const cdz_result *result, uint32_t call);
/* The whole result as `--json` prints it: ids, text, finish_reason, timings, sequences, and what was recorded. */
const char *cdz_result_json(const cdz_result *result);

typedef enum cdz_token_value {
    CDZ_TOKEN_SCORE = 1,   /* after the processors; in beam search a processed log-probability */
    CDZ_TOKEN_LOGPROB,     /* the log-softmax of those scores */
    CDZ_TOKEN_RAW_LOGPROB, /* of the model's own logits */
} cdz_token_value;

/* Scores or log-probabilities of the first n new ids of a row (cdz_result_ids), to out. The first two kinds are
 * transformers' compute_transition_scores without and with normalize_logits. They are kept with output_scores or
 * output_logprobs, the scores of beam search always; otherwise: CDZ_E_STATE. NAN where a strategy recorded none. */
cdz_status cdz_result_token_values(const cdz_result *result, uint32_t row, cdz_token_value what,
                                   float *out, uint32_t n, cdz_error *err) CDZ_MUST_CHECK;
/* The arguments of transformers' compute_transition_scores: sequences, the scores of every step, beam_indices of beam search. */
typedef struct cdz_transition {
    uint32_t size;
    uint32_t n_rows, len;
    const int64_t *sequences; /* (n_rows, len) */
    uint32_t n_steps, n_score_rows, n_vocab;
    const float *const *scores; /* (n_steps) of (n_score_rows, n_vocab) */
    const int32_t *beam_indices; /* (n_rows, n_columns), -1 after a sequence's end; NULL: no beam search */
    uint32_t n_columns;
    bool normalize; /* log-softmax of the scores first */
} cdz_transition;
/* The score of each generated token, (n_rows, *n_columns), into out, which has room for n_rows * n_steps. */
cdz_status cdz_transition_scores(const cdz_transition *in, float *out, uint32_t *n_columns,
                                 cdz_error *err) CDZ_MUST_CHECK;
/* Of a request in mode "score": the log-probability of each id of cdz_result_sequence after the ids before it, NAN for the
 * first. NULL: another mode. */
const float *cdz_result_prompt_logprobs(const cdz_result *result, uint32_t row, uint32_t *n_ids);
/* With output_scores_top: the best scores of a row at a step, after the processors, in descending order, ties by lower id. In
 * beam search, row counts the beams of that step. *logsumexp is that of the whole row: a score minus it is a log-probability.
 * Returns how many there are; 0: none are kept, or there is no such row or step. */
uint32_t cdz_result_top_scores(const cdz_result *result, uint32_t row, uint32_t step,
                               const int32_t **ids, const float **scores, float *logsumexp);
/* The same for a request in mode "score": the likeliest tokens at a position of cdz_result_sequence after the ids before it. */
uint32_t cdz_result_prompt_top_logprobs(const cdz_result *result, uint32_t row, uint32_t place,
                                        const int32_t **ids, const float **logprobs);
/* A tensor of a result, row-major, where the result has it: valid until cdz_result_free. This struct does not grow. */
typedef struct cdz_result_tensor {
    const char *name; /* as cdz_result_save names it: "logits/0", "beam_indices", "results/votes" */
    char type[8];     /* "f32", "i32", "i64", "bool", or "json": text of shape[0] bytes */
    uint32_t n_dims;
    uint64_t shape[8];
    const void *data;
} cdz_result_tensor;
/* What cdz_result_save writes, without `sequences` and what output_scores_top keeps, which have functions of their own:
 * *tensors is allocated, *n long; free with cdz_free, the names with it. Later "calls" are not in it: cdz_result_call. */
cdz_status cdz_result_tensors(const cdz_result *result, cdz_result_tensor **tensors, size_t *n,
                              cdz_error *err) CDZ_MUST_CHECK;
/* The sequences, and scores, logits, attentions and hidden states of every step (output_scores and the like), as tensors
 * named "logits/0", "attentions/0/2": kind, step, layer. path: a .safetensors file, or a folder
 * (which is made if its name ends in '/') for one .npy file per tensor, "attentions.0.2.npy". */
cdz_status cdz_result_save(const cdz_result *result, const char *path, cdz_error *err);
void cdz_result_free(cdz_result *result); /* NULL is fine */

/* --- a step of your own loop ------------------------------------------------------------------------------ */

/* torch's random stream on a CPU, from a seed: torch.manual_seed. Use one from one thread at a time. */
typedef struct cdz_generator cdz_generator;
cdz_status cdz_generator_open(uint64_t seed, cdz_generator **out, cdz_error *err) CDZ_MUST_CHECK;
void cdz_generator_free(cdz_generator *generator); /* NULL is fine */

/* Draws one token from n logits, which are not changed: they are divided by the temperature, reduced to the top_k best
 * (0: all) and to the likeliest that together reach top_p (1: all), then a token is drawn. Temperature 0 takes the first of the
 * greatest and draws nothing; generator may be NULL then. Strategy `sample` draws the same token from the same logits,
 * settings and seed: transformers' TemperatureLogitsWarper, TopKLogitsWarper and TopPLogitsWarper in that order, softmax,
 * torch.multinomial. CDZ_E_INPUT, where one is drawn: the logits hold nan or inf, or no token is left to draw. */
cdz_status cdz_sample(cdz_generator *generator, const float *logits, size_t n, double temperature,
                      size_t top_k, double top_p, int32_t *token, cdz_error *err) CDZ_MUST_CHECK;

/* Processors and criteria of a pipeline, for rows and scores that a loop of your own makes. They run on the engine's thread, as
 * their headers say; each call waits for it, and may come from any thread but that one: not from a callback. */
typedef struct cdz_rules cdz_rules;
typedef struct cdz_rules_options {
    uint32_t size;
    uint32_t n_vocab; /* scores of a row; ignored with a model */
    cdz_model *model; /* whose vocabulary, tokenizer and generation parameters plugins see; NULL: none */
    const char *kwargs; /* generation parameters, a JSON object, as in a request document; NULL: none */
} cdz_rules_options;

/* The pipeline's strategy is not run. `chain` in its file names processors alone, without those of its profile.
 * CDZ_E_UNSUPPORTED: a processor needs passes of a model besides (guidance_scale). */
cdz_status cdz_rules_open(cdz_runtime *runtime, cdz_pipeline *pipeline,
                          const cdz_rules_options *options, cdz_rules **out,
                          cdz_error *err) CDZ_MUST_CHECK;
/* Edits scores, (n_rows, n_vocab), by ids, (n_rows, len). The rows of the first call are the prompts. As long as rows begin with
 * them and are longer they belong to one request: what processors know of a row follows its ids, whether tokens were added,
 * taken back, or rows changed places. Other rows, or the prompts alone, begin the next request. */
cdz_status cdz_rules_process(cdz_rules *rules, const int32_t *ids, uint32_t n_rows, uint32_t len,
                             float *scores, cdz_error *err) CDZ_MUST_CHECK;
/* done[r]: some criterion says that row r ends with its newest token. Called without cdz_rules_process before, the newest tokens
 * are no prompt's. */
cdz_status cdz_rules_test(cdz_rules *rules, const int32_t *ids, uint32_t n_rows, uint32_t len,
                          bool *done, cdz_error *err) CDZ_MUST_CHECK;
void cdz_rules_free(cdz_rules *rules); /* before the runtime; NULL is fine */

/* --- generation configs ----------------------------------------------------------------------------------- */

/* transformers' GenerationConfig, as in generation_config.json. Use one from one thread at a time. */
typedef struct cdz_config cdz_config;

/* path: a generation_config.json, or a model folder (its config.json is read if it has no generation_config.json);
 * NULL: nothing is set. Unknown names are kept. */
cdz_status cdz_config_open(const char *path, cdz_config **out, cdz_error *err) CDZ_MUST_CHECK;
/* transformers' from_model_config: the generation parameters in a model's config.json; generation_config.json is not read.
 * path: the file or its folder. */
cdz_status cdz_config_from_model(const char *path, cdz_config **out, cdz_error *err) CDZ_MUST_CHECK;
/* transformers' update: sets the members of a JSON object whose names are parameters, or names that the config has; null
 * unsets. defaults_only: sets only those that are not set yet. *unused (may be NULL; free with cdz_free): the other members,
 * as a JSON object. The result is checked as by cdz_config_validate; if that fails, nothing has changed. */
cdz_status cdz_config_update(cdz_config *config, const char *json, bool defaults_only,
                             char **unused, cdz_error *err) CDZ_MUST_CHECK;
/* transformers' get_generation_mode: "greedy_search", "sample", "beam_search", "beam_sample", "group_beam_search",
 * "constrained_beam_search", "contrastive_search", "assisted_generation", "dola_generation". *mode is a constant string. */
cdz_status cdz_config_mode(const cdz_config *config, bool has_assistant, const char **mode,
                           cdz_error *err) CDZ_MUST_CHECK;
/* As `-s name=value`; "none" unsets. */
cdz_status cdz_config_set(cdz_config *config, const char *name, const char *value,
                          cdz_error *err) CDZ_MUST_CHECK;
/* Impossible values are an error. *report (may be NULL; free with cdz_free) has a line for each name that is no
 * parameter and for each value that would have no effect; strict: the latter are an error too. */
cdz_status cdz_config_validate(const cdz_config *config, bool strict, char **report,
                               cdz_error *err) CDZ_MUST_CHECK;
/* The parameters that are set, as in a file (transformers' to_diff_dict; in its version 5 every default is None).
 * all: every parameter, with the value that a run would use. Free with cdz_free. */
cdz_status cdz_config_json(const cdz_config *config, bool all, char **json,
                           cdz_error *err) CDZ_MUST_CHECK;
/* Writes what is set to a file, or to generation_config.json of a folder, after a strict check. */
cdz_status cdz_config_save(const cdz_config *config, const char *path,
                           cdz_error *err) CDZ_MUST_CHECK;
void cdz_config_free(cdz_config *config); /* NULL is fine */

/* --- watermarks ----------------------------------------------------------------------------------------- */

typedef struct cdz_detect_options {
    uint32_t size;
    const char *watermark;  /* watermarking_config as JSON; or NULL: */
    cdz_pipeline *pipeline; /* the settings that this pipeline marks text with */
    double z_threshold;     /* a greater z-score counts as marked; 0: 3.0 */
    const char *detector; /* SynthID: folder of a BayesianDetectorModel; NULL: the mean g-value decides */
} cdz_detect_options;

/* Looks for the watermark in a text, given as ids without its prompt. *json is what `cadenza detect --json` prints; free
 * with cdz_free. CDZ_E_INPUT: the text is too short. */
cdz_status cdz_detect(const cdz_model *model, const cdz_detect_options *options, const int32_t *ids,
                      size_t n_ids, char **json, cdz_error *err) CDZ_MUST_CHECK;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
