/* task.h - a submitted request as the engine keeps it. */
#ifndef CDZ_HOST_RUN_ENGINE_TASK_H
#define CDZ_HOST_RUN_ENGINE_TASK_H

#include <stdatomic.h>

#include "run/loop/loop.h"

/* One way, a step at a time; a task that is cancelled in the queue never runs. */
typedef enum cdz_task_life {
    CDZ_TASK_NEW,
    CDZ_TASK_QUEUED,
    CDZ_TASK_RUNNING,
    CDZ_TASK_ENDED, /* its outcome is filled */
    CDZ_TASK_TOLD   /* its outcome has gone to on_done */
} cdz_task_life;

typedef struct cdz_task cdz_task;
struct cdz_task {
    cdz_engine *engine;
    cdz_task *next; /* in the queue or among the running */
    uint64_t id;
    cdz_task_life life;
    cdz_job *job;
    cdz_outcome *outcome;
    cdz_berth berth;           /* what the loops are lent; of what is here and the engine's */
    atomic_bool cancelled;     /* [any] */
    atomic_bool held_back;     /* [any] Its rows are to take no part in passes... */
    bool paused;               /* ...and take none in this tick's, since nothing is to end it */
    bool failed;               /* a loop failed: its siblings stop */
    bool yields;               /* its blocks may be taken from it */
    bool parked;               /* they were, and it has not gone on since */
    cdz_loop **loops;          /* (n_loops) */
    uint32_t n_loops, n_ended; /* */
    cdz_kv_account target, assistant;
    cdz_beside *others;                             /* (job->n_others) */
    cdz_kv_pool *packed;                            /* NULL: nothing is packed */
    cdz_kv_account target_states, assistant_states; /* of models with recurrent layers */
    cdz_kv_account spans;                           /* the target's, of a job that packs */
    /* (n_prompts) for each model; NULL: it has no encoder */
    cdz_encoded *sources, *assistant_sources;
    double submitted_s, started_s;
    uint64_t came_at;       /* passes that had run by then */
    uint64_t prompt_tokens; /* positions of all prompts */
    uint64_t first_blocks;  /* cdz_job_first_blocks */
    uint32_t overtaken;     /* by so many that came later */
    uint32_t left_out;      /* of so many passes in a row */
    cdz_task *after;        /* behind it in the next pass */
    bool in_line;           /* it has its place there */
    cdz_error error;        /* why it never ran, or why its first failing loop failed */
};

#endif
