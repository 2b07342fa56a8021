/* engine.h - one thread that runs every request's fibre and batches their forward passes. */
#ifndef CDZ_HOST_RUN_ENGINE_ENGINE_H
#define CDZ_HOST_RUN_ENGINE_ENGINE_H

#include "cadenza/cadenza.h"
#include "cadenza/ext/steer.h"
#include "cadenza/scheduler.h"
#include "call/files.h"
#include "device/device.h"
#include "grammar/store.h"
#include "load/model_files.h"
#include "run/job.h"
#include "run/pass/profile.h"
#include "run/pass/screen.h"
#include "token/tokenizer.h"

/* What the embedder said of the machine: no pipeline changes that. */
typedef enum cdz_engine_said {
    CDZ_SAID_DEVICE = 1u << 0,
    CDZ_SAID_KV_TYPE = 1u << 1,
    CDZ_SAID_NUMA = 1u << 2,
} cdz_engine_said;

/* What a pipeline may ask for too, until the first model is opened with it (cdz_engine_wish_device and the others). */
typedef struct cdz_engine_machine {
    cdz_device_wish device; /* copied */
    cdz_dtype kv_type;      /* before CDZ_N_KV: what keys and values are kept in */
    bool numa;              /* memory and threads are spread over nodes */
    unsigned said;          /* cdz_engine_said */
} cdz_engine_machine;

typedef struct cdz_engine_options {
    uint32_t n_threads;      /* kernels; 0: physical cores */
    const char *cpu_variant; /* CADENZA_CPU, or NULL */
    const char *fibres; /* "ucontext", "threads" or NULL: the build's default (CADENZA_FIBRES) */
    bool one_by_one;    /* processors are never fused (CADENZA_PLAN=off) */
    uint64_t kv_bytes;  /* over all models; 0: a quarter of memory, or what a device has free */
    cdz_engine_machine machine;
    uint32_t max_queue, max_running; /* 0: no limit; 0: 256 */
    /* Whose turn it is; NULL: whoever came first. It and its parameters stay as long as the engine. */
    const cdz_scheduler *scheduler;
    const cdz_call_files *scheduler_files; /* of data, that were read with it; or NULL */
    const void *scheduler_params;
    bool shares_nothing;               /* sequences have blocks of their own */
    bool forgets;                      /* no prompt finds what others have computed */
    bool profile;                      /* times are taken: cdz_engine_get_profile */
    cdz_grammar_store_options grammar; /* of each model's constraints */
    /* [any] A line from a plugin, or NULL: dropped. */
    void (*log)(void *user, cdz_log_level level, const char *plugin, const char *text);
    /* [a thread that opens a model] So many bytes of a model's weights are on the device; or NULL. */
    void (*progress)(void *user, const char *folder, uint64_t done, uint64_t bytes);
    void *log_user; /* of both */
} cdz_engine_options;

cdz_status cdz_engine_create(const cdz_engine_options *options, cdz_engine **out, cdz_error *err);
/* Cancels what runs or waits (each on_done is still called), joins. Models may outlive it. NULL is fine. */
void cdz_engine_free(cdz_engine *engine);

/* [engine], but for what it is. The CPU: threads for processors, memory of the host. */
cdz_backend *cdz_engine_backend(const cdz_engine *engine);

/* To whom the embedder said; engine NULL: to nobody. [any] */
void cdz_engine_log(const cdz_engine *engine, cdz_log_level level, const char *plugin,
                    const char *text);

/* --- devices.c --- */
/* [any but the engine] Runs on the engine's thread and returns after. False: it is being stopped, nothing ran. */
bool cdz_engine_call(cdz_engine *engine, void (*run)(void *arg), void *arg);
/* [any] What passes run on: the CPU until the first model is opened. */
const cdz_backend *cdz_engine_device(const cdz_engine *engine);
/* [any] The same; the first call opens it. */
cdz_status cdz_engine_open_device(cdz_engine *engine, const cdz_backend **out, cdz_error *err);
/* [any] Another name than the options', unless the embedder said one. CDZ_E_STATE: a model is open on another device. */
cdz_status cdz_engine_wish_device(cdz_engine *engine, const char *name, cdz_error *err);
/* [any] The same of what KV caches keep. CDZ_E_STATE: a model is open that keeps another type. */
cdz_status cdz_engine_wish_kv_type(cdz_engine *engine, cdz_dtype type, cdz_error *err);
/* Likewise; to be told with the first model. */
cdz_status cdz_engine_wish_numa(cdz_engine *engine, bool spread, cdz_error *err);
/* [any] How many nodes memory and threads are spread over; 1: there is one only; 0: it was not asked for. */
uint32_t cdz_engine_nodes(const cdz_engine *engine);

/* Makes loaded weights runnable: KV pool on the backend. Takes ownership of weights and tokenizer (may be NULL). */
cdz_status cdz_run_model_create(cdz_engine *engine, cdz_weights *weights, cdz_tokenizer *tokenizer,
                                cdz_run_model **out, cdz_error *err);
/* Passes are this function's from now on; before any request. */
void cdz_run_model_set_function(cdz_run_model *model,
                                cdz_status (*forward)(void *user, const cdz_function_row *rows,
                                                      uint32_t n, cdz_error *err),
                                void *user);
/* All its sequences begin with these edits, and keep them: control vectors; once, before any request. */
cdz_status cdz_run_model_control(cdz_run_model *model, const cdz_edit *edits, uint32_t n,
                                 cdz_error *err);
/* Before its first request: is its head screened? CDZ_E_UNSUPPORTED: it is to be, and cannot. */
cdz_status cdz_run_model_screen(cdz_run_model *model, cdz_screen_use use, cdz_error *err);
/* [any] The last release frees weights and tokenizer: at once after cdz_engine_free, else on the engine thread. */
void cdz_run_model_release(cdz_run_model *model);

/* --- prompts.c --- */
/* Which of a model's cached blocks: those of one salt, and of those the ones of one text. */
typedef struct cdz_prompt_choice {
    uint8_t salt[32];
    const int32_t *ids; /* NULL: of all texts */
    size_t n;
} cdz_prompt_choice;
/* [any but the engine] Writes what requests have computed of prompts to a file (run/pass/kv_file.h), while requests go on; which
 * NULL: all of it. Says how many blocks these were. CDZ_E_UNSUPPORTED: the model's prompts are not found again, or not on this
 * device. Reads all of the model's weights, once. */
cdz_status cdz_run_model_save_prompts(cdz_run_model *model, const char *path,
                                      const cdz_prompt_choice *which, uint32_t *n_blocks,
                                      cdz_error *err);
/* [any but the engine] Later prompts find what the file has, as far as there is room for it. Nothing of a file that is not whole is
 * used. CDZ_E_NOT_FOUND: it is another model's. */
cdz_status cdz_run_model_load_prompts(cdz_run_model *model, const char *path, uint32_t *n_blocks,
                                      cdz_error *err);

/* KV state that an outcome holds (job.h: keep_cache); give it to a later job of the same model as its past. [any] */
void cdz_kept_retain(cdz_kept *kept); /* NULL is fine, here and below */
void cdz_kept_release(cdz_kept *kept);
const cdz_run_model *cdz_kept_model(const cdz_kept *kept);

/* [any] An id that no other job has, so that its submitter can be asked about a job before cdz_engine_submit has returned. */
uint64_t cdz_engine_new_id(cdz_engine *engine);
/* [any] Queues a job (owned by the engine from now on, also on failure freed). on_done is called exactly once for an
 * accepted job. Fails with CDZ_E_LIMIT when the queue is full or the request can never fit the KV memory. */
cdz_status cdz_engine_submit(cdz_engine *engine, cdz_job *job, uint64_t *id, cdz_error *err);
cdz_status cdz_engine_cancel(cdz_engine *engine, uint64_t id, cdz_error *err); /* [any] */
/* [any] From the next tick on the request's rows take no part in passes; or they do again. Its bits do not hang on it. */
cdz_status cdz_engine_pause(cdz_engine *engine, uint64_t id, bool paused, cdz_error *err);
/* [any] Whether a job waits for its turn; false: it runs, or has ended. And how many wait. */
bool cdz_engine_is_waiting(cdz_engine *engine, uint64_t id);
uint32_t cdz_engine_n_waiting(cdz_engine *engine);
/* [any] Of those that wait: the ones that the next tick finds no place or no KV memory for, as far as is known now. */
typedef struct cdz_engine_line {
    uint32_t n, rows;
    uint64_t prompt_tokens;
} cdz_engine_line;
cdz_engine_line cdz_engine_see_line(cdz_engine *engine);
enum { CDZ_ENGINE_PASSES = 16 };
/* Counters for tests: passes run, rows per pass, fibre switches, KV blocks used and peak; rows of scores that a pass left
 * on a device, and those of them that somebody read after all. */
typedef struct cdz_engine_stats {
    uint64_t passes, pass_rows, switches, kv_blocks_used, kv_blocks_peak, requests_done;
    uint64_t rows_away, rows_fetched;
    /* Of prompts: positions that were looked for among those that others have computed, and found; sequences that could
     * not be looked for. Blocks that may be found, and that were given away since. */
    uint64_t prefix_queries, prefix_hits, prefix_refused, kv_blocks_cached, kv_blocks_evicted;
    uint64_t preemptions; /* requests whose blocks were taken from them, to be computed again */
    uint32_t n_paused;    /* of those that run, now */
    uint64_t kv_bytes_held, kv_bytes_limit; /* of the budget: what requests hold or were promised */
    uint64_t drafted, accepted;             /* tokens that drafters proposed, and that were right */
    uint64_t passes_to[CDZ_ENGINE_PASSES]; /* of at most 1, 2, 4, ... rows, and more than those before */
} cdz_engine_stats;
void cdz_engine_get_stats(const cdz_engine *engine, cdz_engine_stats *out);
/* [any] Times as of the last tick; false and zeros: none are taken. */
bool cdz_engine_get_profile(const cdz_engine *engine, cdz_profile_times *out);

#endif
