/* pool.h - the threads of one CPU backend, and the two ways to give them work.
 *
 * A *job* is cut in chunks that may be computed twice: a chunk is computed into the scratch
 * memory of the thread that runs it, and only the first to finish commits its result. So when
 * the scheduler takes a worker off its core in the middle of a chunk, the caller computes that
 * chunk again instead of waiting for a time slice (recapture). The price: a worker may still be
 * reading the operands after the job has returned. Hence a job's operands live in memory of the
 * pool, which is not reused before every such reader has left. *Tasks* have side effects and run
 * exactly once each; the caller waits for all.
 *
 * One thread at a time calls; it takes part in the work. Idle workers spin for some tens of
 * microseconds, then sleep. They run under SCHED_BATCH: beside other programs they take no running
 * thread's core when they wake, least of all the caller's. */
#ifndef CDZ_POOL_H
#define CDZ_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/numa.h"
#include "kernels.h"

enum { CDZ_POOL_MAX_THREADS = 1024 };

typedef struct cdz_pool cdz_pool;

typedef struct cdz_pool_job {
    /* Reads operands and what never changes, writes scratch and nothing else. */
    void (*compute)(const void *operands, size_t chunk, void *scratch);
    /* Copies a chunk's result from scratch to where it belongs; called once per chunk. */
    void (*commit)(const void *operands, size_t chunk, const void *scratch);
    size_t n_chunks; /* at most what was claimed */
    uint64_t reads; /* names the changeable memory that compute reads besides the operands; 0: none */
} cdz_pool_job;

/* NULL when out of memory. Threads that cannot be started are done without. on_thread (NULL: nothing) outlives the pool. */
cdz_pool *cdz_pool_create(uint32_t n_threads, size_t scratch_bytes, const cdz_on_thread *on_thread);
void cdz_pool_destroy(cdz_pool *pool);

uint32_t cdz_pool_threads(const cdz_pool *pool);
/* Its own threads to the nodes, evenly, counting the caller as the first thread; the caller is left alone. */
void cdz_pool_bind(cdz_pool *pool, const cdz_numa *numa);
/* From the next job on, at most so many of them work, the caller among them; the others sleep until this is raised again. At
 * first all do. */
void cdz_pool_use(cdz_pool *pool, uint32_t n_threads);

/* Operand memory for the next job, of at most n_chunks; 64-byte aligned; valid until that job
 * returns. NULL when out of memory. */
void *cdz_pool_claim(cdz_pool *pool, size_t bytes, size_t n_chunks);
/* Runs a job on the claimed operands. */
void cdz_pool_run(cdz_pool *pool, const cdz_pool_job *job);

/* Runs task(arg, i) for i in [0, n), each once. May be called between claim and run. */
void cdz_pool_tasks(cdz_pool *pool, void (*task)(void *arg, size_t i), void *arg, size_t n);

/* Waits until no thread reads memory whose name agrees with `reads` in the bits of mask; a mask
 * of 0 means any memory of any job: after that, no thread is inside a job. */
void cdz_pool_await_readers(cdz_pool *pool, uint64_t reads, uint64_t mask);

/* The caller's own scratch, for work too small to share. */
void *cdz_pool_scratch(cdz_pool *pool);
/* Makes every thread's scratch at least this large. */
bool cdz_pool_reserve(cdz_pool *pool, size_t scratch_bytes);

/* Chunks that the caller computed again because a worker was slow, since creation. */
uint64_t cdz_pool_recaptured(const cdz_pool *pool);

#endif
