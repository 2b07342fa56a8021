/* reads.c - see reads.h. A thread asks the engine's to read some of the weights, again and again, until it is told to end. It owns
 * that thread and the list of what is read; the weights are the model's. Thread: what is asked runs on [engine]. */
#include "api/reads.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "run/pass/limits.h"

struct cdz_reads {
    cdz_engine *engine;
    cdz_limit_reader reader;
    uint64_t passes; /* of new tokens, before it began */
    atomic_bool over;
    pthread_t thread;
};

enum { SHARE = 16 }; /* it reads for one part of so many of the time */
static const double least_pause_s = 0.002;

static cdz_status add_matrix(void *arg, cdz_weight *matrix)
{
    const size_t bytes = (size_t)matrix->n * cdz_row_bytes(matrix->dtype, matrix->k);
    return cdz_limit_reader_add(arg, matrix->data, bytes) ? CDZ_OK : CDZ_E_NOMEM;
}

static cdz_status add_matrices(cdz_limit_reader *reader, cdz_weights *weights)
{
    CDZ_TRY(cdz_weights_each_matrix(weights, add_matrix, reader));
    return weights->head.w.data ? add_matrix(reader, &weights->head.w) : CDZ_OK;
}

static uint64_t passes_so_far(const cdz_engine *engine)
{
    cdz_profile_times times;
    cdz_engine_get_profile(engine, &times);
    return times.pass[CDZ_PASS_DECODE].passes;
}

/* [engine] */
static void take_turn(void *arg)
{
    cdz_reads *reads = arg;
    if (passes_so_far(reads->engine) > reads->passes)
        cdz_limit_reader_turn(&reads->reader, cdz_engine_backend(reads->engine));
}

static void pause_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static void *take_turns(void *arg)
{
    cdz_reads *reads = arg;
    while (!atomic_load(&reads->over)) {
        const double before = reads->reader.seconds;
        if (!cdz_engine_call(reads->engine, take_turn, reads)) break;
        const double rest = (SHARE - 1) * (reads->reader.seconds - before);
        pause_for(rest > least_pause_s ? rest : least_pause_s);
    }
    return NULL;
}

static cdz_status begin(cdz_reads *reads, cdz_runtime *runtime, cdz_model *model, cdz_error *err)
{
    reads->engine = runtime->engine;
    reads->passes = passes_so_far(reads->engine);
    cdz_weights *weights = /* which are only looked at */
        (cdz_weights *)(uintptr_t)cdz_run_model_weights(model->run);
    if (add_matrices(&reads->reader, weights) != CDZ_OK) return cdz_err_memory(err, "measuring");
    const int wrong = cdz_thread_begin(&reads->thread, take_turns, reads);
    if (!wrong) return CDZ_OK;
    return cdz_err(err, CDZ_E_NOMEM, "no thread for measuring: %s", strerror(wrong));
}

cdz_status cdz_reads_begin(cdz_runtime *runtime, cdz_model *model, cdz_reads **out, cdz_error *err)
{
    cdz_reads *reads = *out = calloc(1, sizeof *reads);
    if (!reads) return cdz_err_memory(err, "measuring");
    const cdz_status status = begin(reads, runtime, model, err);
    if (status == CDZ_OK) return CDZ_OK;
    cdz_limit_reader_free(&reads->reader);
    free(reads);
    *out = NULL;
    return status;
}

cdz_reads_found cdz_reads_end(cdz_reads *reads)
{
    if (!reads) return (cdz_reads_found){0};
    atomic_store(&reads->over, true);
    pthread_join(reads->thread, NULL);
    const cdz_reads_found found = {cdz_limit_reader_gbs(&reads->reader), reads->reader.highest_gbs};
    cdz_limit_reader_free(&reads->reader);
    free(reads);
    return found;
}
