/* referee.h - whose turn it is: the runtime's scheduler is asked, what it answers is judged, and the host has an order of its
 * own where there is none, or none to be trusted. cadenza/scheduler.h has the rules. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_ENGINE_REFEREE_H
#define CDZ_HOST_RUN_ENGINE_REFEREE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/scratch.h"
#include "cadenza/scheduler.h"
#include "call/files.h"

typedef struct cdz_engine cdz_engine;
typedef struct cdz_task cdz_task;

/* What may be told once. */
typedef enum cdz_referee_told {
    CDZ_TOLD_IDLE = 1u << 0,
    CDZ_TOLD_OVERTAKEN = 1u << 1,
    CDZ_TOLD_LEFT_OUT = 1u << 2,
} cdz_referee_told;

/* Zeroed: there is no scheduler. */
typedef struct cdz_referee {
    const cdz_scheduler *scheduler; /* NULL: the host's own order */
    const cdz_call_files *files;    /* of data, that were read with it; or NULL */
    const void *params;
    void *shared;
    bool begun, dismissed; /* dismissed: it is not asked any more */
    unsigned told;         /* cdz_referee_told */
    cdz_arena arena;       /* of begin */
    cdz_scratch_mem scratch;

    /* Of one call: what it is shown, (cap) of each. */
    cdz_contender *contenders;
    const cdz_contender **shown;
    cdz_task **tasks, *alone;
    uint32_t *list;
    bool *listed;
    uint32_t cap;

    /* How the next pass is put together. */
    cdz_task *first;      /* of those that run, linked by `after` */
    bool prompts_first;   /* rows of prompts go before those that decode */
    uint32_t prompt_rows; /* beside rows that decode; 0: measured, or all that fit */
} cdz_referee;

/* Before the first request. Fails as the scheduler's begin does; `end` is to be called in either case. */
cdz_status cdz_referee_begin(cdz_engine *engine, cdz_error *err);
void cdz_referee_end(cdz_engine *engine);

/* Tasks that wait, in the order in which they are to begin: *out, (n) of them, till the next call. At least one when some
 * wait and nothing runs. */
uint32_t cdz_referee_admit(cdz_engine *engine, cdz_task *const **out);
/* A task begins: those that came before it and wait were overtaken. The engine's lock is held. */
void cdz_referee_begins(cdz_engine *engine, const cdz_task *task);
/* A task that had begun has ended, and its outcome is filled. */
void cdz_referee_ended(cdz_engine *engine, const cdz_task *task);

/* Before passes: sets first, prompts_first and prompt_rows. */
void cdz_referee_order(cdz_engine *engine);
/* After them: who had rows to run, and was left out? */
void cdz_referee_look_back(cdz_engine *engine);

#endif
