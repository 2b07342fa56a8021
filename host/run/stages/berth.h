/* berth.h - what a request is lent while it runs: threads, memory, a log, and the word that it is to stop.
 *
 * Made by who runs requests: the engine fills all of it, a trial (trial.h) next to nothing. Everything pointed to
 * outlives the loops of the request. Thread: [engine], but for `cancelled`. */
#ifndef CDZ_HOST_RUN_STAGES_BERTH_H
#define CDZ_HOST_RUN_STAGES_BERTH_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/helpers.h"
#include "run/job.h"
#include "run/pass/encoded.h"
#include "run/pass/kv.h"
#include "run/pass/profile.h"

/* A model of the request beside its target and assistant, and what its sequences lie in. */
typedef struct cdz_beside {
    const cdz_run_model *model; /* NULL: it is one of those, or stands here before */
    cdz_kv_account account, states;
} cdz_beside;

typedef struct cdz_berth {
    cdz_backend *backend; /* the CPU: threads for row-wise stages, memory of the host; NULL: none */
    cdz_profile *profile; /* or NULL: no times are taken */
    bool fuses;           /* runs of processors may be done in one walk */
    bool apart;           /* each row of the request has a loop of its own */

    void (*log)(const void *of, cdz_log_level level, const char *plugin, const char *text);
    const void *log_of;
    uint64_t *rows_away, *rows_fetched; /* counters of score rows that a pass left on its device */
    uint64_t *drafted, *accepted;       /* counters of tokens of drafts; NULL: nobody counts */

    /* Makes ready for loops that wait outside: helpers, and what ends the engine's sleep. NULL: nobody may. */
    cdz_status (*go_outside)(void *of, cdz_helpers **helpers, cdz_error *err);
    void *outside_of;
    uint32_t *n_outside; /* loops that do */

    const char *request_id, *traceparent; /* what the program said of the request; or NULL */
    const atomic_bool *cancelled;         /* [any]; NULL: never */
    const bool *failed;                   /* a sibling did */
    const double *deadline_s;             /* the job's: monotonic; 0: none */
    double started_s;

    cdz_kv_account *target, *assistant; /* of sequences, by model */
    cdz_beside *others;                 /* (n_others) of further models */
    uint32_t n_others;
    cdz_encoded *sources, *assistant_sources; /* (n_prompts); NULL: the model has no encoder */
    cdz_outcome *outcome;                     /* where what outlives the loop goes */
} cdz_berth;

/* CDZ_OK, CDZ_E_CANCELLED or CDZ_E_DEADLINE. */
static inline cdz_status cdz_berth_alive(const cdz_berth *berth)
{
    if (!berth->cancelled) return CDZ_OK;
    if (atomic_load_explicit(berth->cancelled, memory_order_relaxed) || *berth->failed)
        return CDZ_E_CANCELLED;
    if (*berth->deadline_s > 0 && cdz_now_s() >= *berth->deadline_s) return CDZ_E_DEADLINE;
    return CDZ_OK;
}

static inline void cdz_berth_log(const cdz_berth *berth, cdz_log_level level, const char *plugin,
                                 const char *text)
{
    if (berth->log) berth->log(berth->log_of, level, plugin, text);
}

#endif
