/* engine_parts.h - what the engine's own files share: the queue, the tasks that run, and the models.
 *
 * The lock guards the queue's end, the list of running tasks, the list of models and the published counters. Only the
 * engine thread takes tasks out of either list, so it may walk them without the lock. */
#ifndef CDZ_HOST_RUN_ENGINE_ENGINE_PARTS_H
#define CDZ_HOST_RUN_ENGINE_ENGINE_PARTS_H

#include <pthread.h>

#include "base/bell.h"
#include "base/mutex.h"
#include "run/engine/engine.h"
#include "run/engine/referee.h"
#include "run/engine/task.h"
#include "run/pass/kept.h"

/* Something to run on the engine's thread. */
typedef struct cdz_engine_order {
    void (*run)(void *arg);
    void *arg;
    bool done;
} cdz_engine_order;

struct cdz_engine {
    pthread_t thread;
    bool has_thread;
    cdz_mutex lock;
    pthread_cond_t wake;
    bool stopping; /* under the lock */

    cdz_task *queue, **queue_end; /* oldest first */
    uint32_t n_queued, max_queue;
    bool holds_queue;  /* the newest tick left some of it waiting, although there may be places */
    cdz_task *running; /* oldest first */
    uint32_t n_running, max_running;
    uint32_t n_paused; /* [engine] of those that run, in this tick */
    uint32_t n_away; /* of those: who do not wait for a place to go on. Others have their places; under the lock */
    uint64_t next_id;
    cdz_run_model *models;
    cdz_grammar_store_options grammar;
    cdz_kept *kept;          /* every KV state that a request left behind */
    cdz_engine_stats stats;  /* as published after each tick */
    cdz_profile_times times; /* the same */
    cdz_engine_order *order; /* or NULL */
    pthread_cond_t ordered;  /* there is none any more */

    cdz_mutex device_lock;         /* for wish and opening; taken before the lock */
    cdz_engine_machine machine;    /* constant from the device's opening on */
    char *wish_name, *wish_folder; /* of machine.device */
    cdz_backend *device;           /* NULL: no model has been opened; then constant */
    uint64_t kv_room;              /* what KV memory could take on it; under the lock */
    bool kv_given;                 /* the budget was asked for */

    /* [engine] */
    cdz_backend *backend; /* the CPU */
    atomic_uint nodes;    /* that they were spread over; 0: not asked for, or no model yet */
    cdz_fibres *fibres;
    cdz_kv_budget budget; /* its limit changes under the lock */
    cdz_engine_stats now;
    cdz_profile *profile; /* &own_profile, or NULL: no times are taken */
    cdz_profile own_profile;
    cdz_want **wants; /* (want_cap) of one pass */
    uint32_t want_cap;
    bool fuses;
    bool shares_nothing;   /* sequences have blocks of their own */
    bool forgets;          /* no prompt finds what others have computed */
    cdz_referee referee;   /* whose turn it is */
    cdz_helpers *helpers;  /* NULL: no loop has asked for any */
    uint32_t n_outside;    /* loops that wait for something outside */
    bool moved;            /* a fibre or a pass ran in the newest tick, or a request began */
    struct pollfd *polled; /* (polled_cap) */
    uint32_t polled_cap;
    cdz_bell bell; /* opened under the lock, once */

    void (*log)(void *user, cdz_log_level level, const char *plugin, const char *text);
    void (*progress)(void *user, const char *folder, uint64_t done, uint64_t bytes);
    void *log_user;
};

/* --- devices.c --- */
void cdz_engine_serve(cdz_engine *engine);  /* [engine] */
void cdz_engine_spread(cdz_engine *engine); /* [any but the engine] Once, where it was asked for. */
/* A model's weights to its device; they come back with cdz_placed_free [engine, or when it has ended]. */
cdz_status cdz_engine_place(cdz_engine *engine, cdz_run_model *model, cdz_error *err);
void cdz_placed_free(cdz_run_model *model);
/* The budget from what the device has free, the models' weights being there. */
cdz_status cdz_engine_fit_kv(cdz_engine *engine, cdz_error *err);
/* [engine] Takes from idle models of a device what they need for requests alone, so that it can be shared out anew. */
void cdz_engine_free_idle(cdz_engine *engine);
/* What a request needs of each of its models. */
typedef struct cdz_kv_need {
    uint64_t blocks, states;
} cdz_kv_need;
/* [engine] How large a model's pools become, in bytes: of blocks, and of states where it has some. */
typedef struct cdz_pool_bytes {
    uint64_t blocks, states;
} cdz_pool_bytes;
cdz_pool_bytes cdz_engine_pool_bytes(cdz_engine *engine, const cdz_run_model *model,
                                     const cdz_kv_need *need);

/* --- engine.c --- */
/* [engine] A model's activations and KV memory; the next request makes them again. */
void cdz_run_model_rest(cdz_run_model *model);

/* --- keep.c --- */
/* [engine] Takes over the sequences of rows (n) and the account; both are left empty. past: what the rows shared
 * blocks with, or NULL. NULL: out of memory, nothing was taken. */
cdz_kept *cdz_kept_create(cdz_run_model *model, cdz_seq *const *rows, uint32_t n,
                          cdz_kv_account *account, cdz_kept *past);
/* [engine] Takes a state that nobody holds apart, and those that only it held. */
void cdz_kept_destroy(cdz_kept *kept);

/* --- packed.c --- */
/* [any] Sets the job's packing from what its plan asks for; an error where its model or device cannot. */
cdz_status cdz_packed_choose(cdz_job *job, cdz_error *err);
/* [any] KV memory for the job's spans; false: beyond any number. */
bool cdz_packed_bytes(const cdz_job *job, uint64_t *bytes);
/* [engine] The model's pool for a way of packing, made where there is none. */
cdz_status cdz_packed_ready(cdz_engine *engine, cdz_run_model *model, const cdz_kv_packing *packing,
                            cdz_kv_pool **out, cdz_error *err);
/* [engine] Frees the pools that no request uses, but one. */
void cdz_packed_rest(cdz_run_model *model, const cdz_kv_pool *but);

/* --- scheduler.c [engine] --- */
/* Starts what may start, runs every fibre that can go on, and one pass per model; ended requests are delivered. The
 * lock is not held. */
void cdz_engine_tick(cdz_engine *engine);
/* How many requests may begin: a place of a paused one is free, but no more than twice max_running are open. [engine], or the
 * lock is held. */
uint32_t cdz_engine_places(const cdz_engine *engine);

/* --- outside.c [engine] --- */
void cdz_engine_wake(
    cdz_engine *engine); /* [any, the lock is held] Ends its sleep: there is something to do. */
/* The berths' go_outside. */
cdz_status cdz_engine_go_outside(void *engine, cdz_helpers **helpers, cdz_error *err);
void cdz_engine_end_outside(cdz_engine *engine);  /* once its thread has ended */
void cdz_engine_look_outside(cdz_engine *engine); /* What has come for the loops that wait there? */
/* After a tick in which nothing moved, since all that runs is outside or paused: sleeps until something has come, a time has
 * passed, or somebody rings. */
void cdz_engine_rest(cdz_engine *engine);

/* --- walk.c [engine] --- */
#ifdef CDZ_CHECKED
void cdz_engine_check(cdz_engine *engine); /* between two ticks */
#else
static inline void cdz_engine_check(cdz_engine *engine)
{
    (void)engine;
}
#endif

/* --- room.c [engine] --- */
/* May the blocks of a job's sequences be taken from it, and computed again with the same bits? */
bool cdz_job_yields(const cdz_job *job);
/* Before passes: gives blocks to those that lack some, from the youngest, oldest first. */
void cdz_engine_make_room(cdz_engine *engine);
/* Gives back what one paused request has; false: none has any that may be taken. */
bool cdz_engine_take_paused(cdz_engine *engine);
bool cdz_engine_is_short(const cdz_engine *engine); /* somebody waits for blocks: nobody is to begin */

/* --- task.c [engine] --- */
cdz_status cdz_task_create(cdz_engine *engine, cdz_job *job, cdz_task **out, cdz_error *err);
void cdz_task_free(cdz_task *task); /* with its job; the outcome has gone to on_done */
/* Blocks of KV memory that a job can come to need, and spans beside them. */
uint64_t cdz_job_blocks(const cdz_job *job);
uint64_t cdz_job_spans(const cdz_job *job);
/* And those that it begins with, where it can be without the others. */
uint64_t cdz_job_first_blocks(const cdz_job *job);
/* Those that it has to be sure of: all that it may need, but where its loop drops positions as it goes (cadenza.kv/1). */
uint64_t cdz_job_least_blocks(const cdz_job *job);
uint64_t cdz_job_states(
    const cdz_job *job); /* of recurrent layers, in each of its models that has them */
/* Pools and activations of a model, made where there are none. */
cdz_status cdz_run_model_ready(cdz_engine *engine, cdz_run_model *model, const cdz_kv_need *need,
                               cdz_error *err);
/* Opens accounts and builds the loops. False: no room now, try later. A failure is in task->error. */
bool cdz_task_start(cdz_task *task);
void cdz_task_finish(cdz_task *task);  /* fills the outcome and gives the task's memory back */
void cdz_task_deliver(cdz_task *task); /* calls on_done */

/* --- outcome.c [engine] --- */
void cdz_outcome_fill(cdz_task *task);

#endif
