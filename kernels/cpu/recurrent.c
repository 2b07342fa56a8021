/* recurrent.c - the operations of recurrent layers: shared among the threads by runs, and within a run by channels or heads. */
#include "cpu/cpu_backend.h"

enum { ALONE = 32768 }; /* numbers of all states that the caller goes through by itself */

static void share(cdz_backend *b, void (*task)(void *arg, size_t i), void *arg, size_t n,
                  size_t work)
{
    if (n > 1 && work > ALONE)
        cdz_pool_tasks(cdz_cpu(b)->pool, task, arg, n);
    else
        for (size_t i = 0; i < n; i++) task(arg, i);
}

static size_t rows_of(const cdz_state_run *runs, size_t n_runs)
{
    size_t n = 0;
    for (size_t i = 0; i < n_runs; i++) n += runs[i].n;
    return n;
}

/* --- the convolution --- */

typedef struct conv_call {
    const cdz_kernel_set *set;
    cdz_conv_tile tile; /* of the whole call */
    size_t per_run;     /* tiles */
} conv_call;

static void conv_task(void *arg, size_t i)
{
    const conv_call *call = arg;
    cdz_conv_tile tile = call->tile;
    const size_t channels = tile.how->channels;
    tile.run += i / call->per_run;
    tile.from = i % call->per_run * CDZ_STATE_TILE;
    tile.n = channels - tile.from < CDZ_STATE_TILE ? channels - tile.from : CDZ_STATE_TILE;
    call->set->conv(&tile);
}

void cdz_cpu_conv(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
                  const cdz_state_run *runs, size_t n_runs, const cdz_conv *how)
{
    conv_call call = {.set = cdz_cpu(b)->set,
                      .tile = {.how = how, .run = runs, .y = y, .ldy = ldy, .x = x, .ldx = ldx},
                      .per_run = (how->channels + CDZ_STATE_TILE - 1) / CDZ_STATE_TILE};
    share(b, conv_task, &call, n_runs * call.per_run,
          rows_of(runs, n_runs) * how->channels * how->taps);
}

/* --- the recurrence --- */

typedef struct recur_call {
    const cdz_kernel_set *set;
    cdz_recur_head head; /* of the whole call */
} recur_call;

static void recur_task(void *arg, size_t i)
{
    const recur_call *call = arg;
    cdz_recur_head head = call->head;
    head.run += i / head.how->heads;
    head.head = i % head.how->heads;
    call->set->recur(&head);
}

void cdz_cpu_recur(cdz_backend *b, float *y, size_t ldy, const cdz_state_run *runs, size_t n_runs,
                   const cdz_recurrence *how)
{
    recur_call call = {.set = cdz_cpu(b)->set,
                       .head = {.how = how, .run = runs, .y = y, .ldy = ldy}};
    share(b, recur_task, &call, n_runs * how->heads,
          rows_of(runs, n_runs) * how->heads * how->rows * how->columns);
}
