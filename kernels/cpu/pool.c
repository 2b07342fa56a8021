/* pool.c - see pool.h for what it offers.
 *
 * A *slot* holds one piece of work: its operands, the counter its chunks are drawn from and what
 * is left. The word `current` names the slot that has work. A worker that is called writes the
 * word it read into its `pin`, and looks at `current` again: if that has not changed, the slot
 * cannot be reused before the pin is taken back, because the caller clears `current` first, and
 * only then looks for a slot that nobody has pinned. (All of these are sequentially consistent;
 * it is a hazard pointer.) Every worker pins one slot at most and the caller claims one, so with
 * one slot more than threads there always is a free one, however long a worker is kept from its
 * core. For the same reason neither counter nor chunk states need a generation: no worker can
 * draw from another piece of work.
 *
 * A chunk is taken by drawing its number; once committed it is done. */
#include "cpu/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu/aligned.h"
#include "cpu/machine.h"

enum {
    SPINS = 2000, /* pauses before sleeping: 20 to 60 us, longer than the gap between operations */
    LEAST_PATIENCE_NS = 5000, /* before a chunk is computed again */
    MOST_PATIENCE_NS = 2000000,
    BATCHES_PER_THREAD = 8, /* tasks are drawn in batches */
    USUAL_CHUNKS = 256
};

typedef struct slot {
    _Alignas(64) atomic_uint next; /* the chunk or batch to draw */
    _Alignas(64) atomic_uint left; /* not yet finished; the caller may sleep on it */
    atomic_bool caller_sleeps;
    bool claimed; /* this and what follows: written by the caller while nobody has pinned the slot */
    unsigned n;   /* chunks or batches */
    cdz_pool_job job;
    void *operands;
    size_t operand_bytes;
    void (*task)(void *arg, size_t i); /* set: this is a set of tasks, not a job */
    void *arg;
    size_t n_tasks, batch;
    atomic_bool *done; /* per chunk: somebody has committed it */
    size_t done_bytes;
} slot;

typedef struct worker {
    _Alignas(64)
        atomic_uint_least64_t pin; /* the value of `current` it acts on, 0 when it is outside */
    cdz_pool *pool;
    uint32_t index;
    void *scratch;
    pthread_t thread;
} worker;

struct cdz_pool {
    _Alignas(64) atomic_uint_least64_t current; /* count << 32 | slot index + 1; 0: no work */
    _Alignas(64) atomic_uint signal; /* changes with every piece of work; idle workers sleep on it */
    atomic_uint sleepers;
    atomic_uint used; /* workers that take part; the others sleep on it */
    atomic_bool stopping;
    _Alignas(64) uint32_t n_workers; /* besides the caller */
    uint32_t count;
    size_t scratch_bytes;
    void *scratch; /* the caller's */
    const cdz_on_thread *on_thread;
    slot *claimed;
    uint64_t n_recaptured;
    worker *workers; /* (n_workers) */
    slot *slots;     /* (n_workers + 2) */
    size_t n_slots;
};

static void relax(void)
{
#if defined(CDZ_HAVE_X86)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, unsigned n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the work in a slot ---- */

static void finish_one(slot *s)
{
    if (atomic_fetch_sub(&s->left, 1) == 1 && atomic_load(&s->caller_sleeps))
        futex_wake(&s->left, 1);
}

/* A worker may lose its core between drawing a chunk and computing it: seldom, and on busy machines alone. In checked builds it
 * does every seventh time, so that the tests find who frees what a late thread still reads. */
#ifdef CDZ_CHECKED
static _Thread_local unsigned n_as_worker; /* 0: this thread is the caller */

static void lose_the_core(void)
{
    if (n_as_worker > 0 && n_as_worker++ % 7 == 0) nanosleep(&(struct timespec){0, 3000000}, NULL);
}
#else
static void lose_the_core(void)
{
}
#endif

static void run_chunk(slot *s, size_t chunk, void *scratch)
{
    lose_the_core();
    s->job.compute(s->operands, chunk, scratch);
    if (atomic_exchange(&s->done[chunk], true))
        return; /* somebody else was faster; ours is thrown away */
    s->job.commit(s->operands, chunk, scratch);
    finish_one(s);
}

static void run_batch(slot *s, size_t batch)
{
    const size_t from = batch * s->batch,
                 to = s->n_tasks - from < s->batch ? s->n_tasks : from + s->batch;
    for (size_t i = from; i < to; i++) s->task(s->arg, i);
    finish_one(s);
}

/* Draws until nothing is left to draw; returns how many pieces this thread did. */
static unsigned draw_all(slot *s, void *scratch)
{
    unsigned drawn = 0;
    for (;; drawn++) {
        const unsigned i = atomic_fetch_add(&s->next, 1);
        if (i >= s->n) return drawn;
        if (s->task)
            run_batch(s, i);
        else
            run_chunk(s, i, scratch);
    }
}

/* ---- workers ---- */

/* The slot that has work, pinned; NULL when it has just been finished. */
static slot *pin_current(cdz_pool *pool, worker *w)
{
    const uint64_t word = atomic_load(&pool->current);
    if (word == 0) return NULL;
    atomic_store(&w->pin, word);
    if (atomic_load(&pool->current) == word) return &pool->slots[(uint32_t)word - 1];
    atomic_store(&w->pin, 0);
    return NULL;
}

/* Returns when the signal differs from `seen`: spins for a while, then sleeps. */
static unsigned await_signal(cdz_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&pool->signal) != seen) return atomic_load(&pool->signal);
        relax();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->signal) == seen) futex_wait(&pool->signal, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    return atomic_load(&pool->signal);
}

/* Sleeps while this worker is not among those that take part. */
static void await_turn(cdz_pool *pool, const worker *w)
{
    for (unsigned used; (used = atomic_load(&pool->used)) <= w->index;) {
        if (atomic_load(&pool->stopping)) return;
        futex_wait(&pool->used, used);
    }
}

/* Beside busy programs a worker that wakes would take its core from whoever has it, the caller too, whose work between jobs
 * everybody waits for. As the thread of a batch it waits for the next time slice; the caller does its chunks meanwhile. Where
 * the application set a scheduler of its own, that stays. */
static void yield_to_whoever_runs(void)
{
    struct sched_param param;
    int policy = -1;
    if (pthread_getschedparam(pthread_self(), &policy, &param) == 0 && policy == SCHED_OTHER)
        (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param); /* refused: as before */
}

static void work(cdz_pool *pool, worker *w)
{
    for (unsigned seen = 0;;) {
        seen = await_signal(pool, seen);
        await_turn(pool, w);
        if (atomic_load(&pool->stopping)) return;
        slot *s = pin_current(pool, w);
        if (!s) continue;
        draw_all(s, w->scratch);
        atomic_store(&w->pin, 0);
    }
}

static void *worker_main(void *argument)
{
    worker *w = argument;
    const cdz_on_thread *on_thread = w->pool->on_thread;
    void *begun = on_thread ? on_thread->begin() : NULL;
    cdz_machine_set_rounding();
    yield_to_whoever_runs();
#ifdef CDZ_CHECKED
    n_as_worker = 1;
#endif
    work(w->pool, w);
    if (on_thread) on_thread->end(begun);
    return NULL;
}

static void call_workers(cdz_pool *pool, size_t n)
{
    atomic_fetch_add(&pool->signal, 1);
    if (atomic_load(&pool->sleepers) > 0)
        futex_wake(&pool->signal, n < pool->n_workers ? (unsigned)n : pool->n_workers);
}

/* Everybody is called after the change: who is out goes to the other bed, so that no call for few wakes one of them. */
void cdz_pool_use(cdz_pool *pool, uint32_t n_threads)
{
    uint32_t workers = n_threads > 0 ? n_threads - 1 : 0;
    if (workers > pool->n_workers) workers = pool->n_workers;
    if (atomic_load(&pool->used) == workers) return;
    atomic_store(&pool->used, workers);
    futex_wake(&pool->used, pool->n_workers);
    call_workers(pool, pool->n_workers);
}

/* ---- the caller ---- */

static bool pinned(const cdz_pool *pool, const slot *s)
{
    const uint32_t name = (uint32_t)(s - pool->slots) + 1;
    for (uint32_t i = 0; i < pool->n_workers; i++)
        if ((uint32_t)atomic_load(&pool->workers[i].pin) == name) return true;
    return false;
}

static slot *free_slot(cdz_pool *pool)
{
    slot *s = pool->slots;
    while (s->claimed || pinned(pool, s)) s++; /* there is one: see the head of this file */
    return s;
}

static void open_slot(cdz_pool *pool, slot *s, unsigned n)
{
    s->n = n;
    atomic_store_explicit(&s->next, 0, memory_order_relaxed);
    atomic_store_explicit(&s->left, n, memory_order_relaxed);
    atomic_store_explicit(&s->caller_sleeps, false, memory_order_relaxed);
    if (++pool->count == 0) pool->count = 1;
    atomic_store(&pool->current, (uint64_t)pool->count << 32 | ((uint64_t)(s - pool->slots) + 1));
    if (n > 1 && atomic_load(&pool->used) > 0) call_workers(pool, n - 1);
}

/* Waits, at first on the core, until all of a slot's work is finished. */
static void await_slot(slot *s)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&s->left) == 0) return;
        relax();
    }
    atomic_store(&s->caller_sleeps, true);
    for (unsigned left; (left = atomic_load(&s->left)) != 0;) futex_wait(&s->left, left);
}

static bool finished_within(slot *s, uint64_t patience_ns)
{
    const uint64_t start = now_ns();
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load(&s->left) == 0) return true;
            relax();
        }
    } while (now_ns() - start < patience_ns);
    return atomic_load(&s->left) == 0;
}

/* A worker that runs needs about as long for its last chunk as the caller needed for one of its
 * own. */
static uint64_t patience(uint64_t elapsed_ns, unsigned drawn)
{
    const uint64_t two_chunks = drawn ? 2 * elapsed_ns / drawn : MOST_PATIENCE_NS / 50;
    if (two_chunks < LEAST_PATIENCE_NS) return LEAST_PATIENCE_NS;
    return two_chunks < MOST_PATIENCE_NS ? two_chunks : MOST_PATIENCE_NS;
}

static void recapture(cdz_pool *pool, slot *s)
{
    for (size_t chunk = 0; chunk < s->n && atomic_load(&s->left) != 0; chunk++) {
        if (atomic_load(&s->done[chunk])) continue;
        pool->n_recaptured++;
        run_chunk(s, chunk, pool->scratch);
    }
}

void cdz_pool_run(cdz_pool *pool, const cdz_pool_job *job)
{
    slot *s = pool->claimed;
    s->job = *job;
    s->task = NULL;
    for (size_t i = 0; i < job->n_chunks; i++)
        atomic_store_explicit(&s->done[i], false, memory_order_relaxed);

    const uint64_t start = now_ns();
    open_slot(pool, s, (unsigned)job->n_chunks);
    const unsigned drawn = draw_all(s, pool->scratch);
    if (atomic_load(&s->left) != 0 && !finished_within(s, patience(now_ns() - start, drawn)))
        recapture(pool, s);
    await_slot(s);
    atomic_store(&pool->current, 0);
    s->claimed = false;
    pool->claimed = NULL;
}

void cdz_pool_tasks(cdz_pool *pool, void (*task)(void *arg, size_t i), void *arg, size_t n)
{
    if (n == 0) return;
    slot *s = free_slot(pool);
    const size_t batches = (size_t)BATCHES_PER_THREAD * (pool->n_workers + 1);
    s->task = task;
    s->arg = arg;
    s->n_tasks = n;
    s->batch = (n - 1) / batches + 1;
    s->job.reads = 0;
    open_slot(pool, s, (unsigned)((n - 1) / s->batch + 1));
    draw_all(s, pool->scratch);
    await_slot(s);
    atomic_store(&pool->current, 0);
}

void cdz_pool_await_readers(cdz_pool *pool, uint64_t reads, uint64_t mask)
{
    const struct timespec nap = {0, 20000};
    for (uint32_t i = 0; i < pool->n_workers; i++)
        for (int spins = 0;; spins++) {
            const uint32_t name = (uint32_t)atomic_load(&pool->workers[i].pin);
            if (name == 0) break;
            const uint64_t held = pool->slots[name - 1].job.reads;
            if (mask != 0 && (held == 0 || ((held ^ reads) & mask) != 0)) break;
            if (spins < SPINS)
                relax();
            else
                nanosleep(&nap, NULL);
        }
}

/* ---- memory ---- */

static bool grow(void **memory, size_t *bytes, size_t needed)
{
    if (*bytes >= needed) return true;
    void *larger = cdz_aligned_zeroed(needed);
    if (!larger) return false;
    cdz_aligned_free(*memory);
    *memory = larger;
    *bytes = needed;
    return true;
}

/* With room for the next steps' jobs: attention's lists get longer with every block of the context. */
static bool grow_with_room(void **memory, size_t *bytes, size_t needed)
{
    const size_t room = needed / 2 < 4096 ? needed / 2 : 4096;
    if (*bytes >= needed) return true;
    return grow(memory, bytes, needed < SIZE_MAX - room ? needed + room : needed);
}

/* Products of a few rows here and there come in any number of chunks: there is room for the usual ones from the start. */
static bool grow_slot(slot *s, size_t bytes, size_t n_chunks)
{
    void *done = s->done;
    const size_t chunks = n_chunks > USUAL_CHUNKS ? n_chunks : USUAL_CHUNKS;
    const bool ok = grow_with_room(&s->operands, &s->operand_bytes, bytes) &&
                    grow_with_room(&done, &s->done_bytes, chunks * sizeof(atomic_bool));
    s->done = done;
    return ok;
}

void *cdz_pool_claim(cdz_pool *pool, size_t bytes, size_t n_chunks)
{
    slot *claimed = free_slot(pool);
    if (claimed->operand_bytes < bytes || claimed->done_bytes < n_chunks * sizeof(atomic_bool)) {
        /* All slots, so that no later job of this size allocates, whichever slot is free then. This comes seldom: it may
         * wait for a worker that was kept from its core. */
        cdz_pool_await_readers(pool, 0, 0);
        for (slot *s = pool->slots; s < pool->slots + pool->n_slots; s++)
            if (s != claimed && !s->claimed) grow_slot(s, bytes, n_chunks);
        if (!grow_slot(claimed, bytes, n_chunks)) return NULL;
    }
    claimed->claimed = true;
    pool->claimed = claimed;
    return claimed->operands;
}

void *cdz_pool_scratch(cdz_pool *pool)
{
    return pool->scratch;
}

bool cdz_pool_reserve(cdz_pool *pool, size_t scratch_bytes)
{
    cdz_pool_await_readers(pool, 0, 0);
    size_t had = pool->scratch_bytes;
    bool ok = grow(&pool->scratch, &had, scratch_bytes);
    for (uint32_t i = 0; ok && i < pool->n_workers; i++) {
        had = pool->scratch_bytes;
        ok = grow(&pool->workers[i].scratch, &had, scratch_bytes);
    }
    if (ok && scratch_bytes > pool->scratch_bytes) pool->scratch_bytes = scratch_bytes;
    return ok;
}

/* ---- creation ---- */

/* Signals are the application's: its threads take them. Not so those that a thread's own instruction raises: blocked,
 * they would end the process whoever handles them. */
static bool start_worker(worker *w)
{
    sigset_t all, before;
    sigfillset(&all);
    static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) sigdelset(&all, own[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&w->thread, NULL, worker_main, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void start_workers(cdz_pool *pool, uint32_t n)
{
    atomic_store(&pool->used, n);
    for (uint32_t i = 0; i < n; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        w->scratch = cdz_aligned_zeroed(pool->scratch_bytes);
        if (w->scratch && start_worker(w)) {
            pool->n_workers++;
            continue;
        }
        cdz_aligned_free(w->scratch);
        w->scratch = NULL;
        break;
    }
    atomic_store(&pool->used, pool->n_workers);
}

cdz_pool *cdz_pool_create(uint32_t n_threads, size_t scratch_bytes, const cdz_on_thread *on_thread)
{
    if (n_threads < 1) n_threads = 1;
    if (n_threads > CDZ_POOL_MAX_THREADS) n_threads = CDZ_POOL_MAX_THREADS;
    cdz_pool *pool = cdz_aligned_zeroed(sizeof *pool);
    if (!pool) return NULL;
    pool->n_slots = (size_t)n_threads + 1;
    pool->scratch_bytes = scratch_bytes;
    pool->on_thread = on_thread;
    pool->scratch = cdz_aligned_zeroed(scratch_bytes);
    pool->slots = cdz_aligned_zeroed(pool->n_slots * sizeof *pool->slots);
    pool->workers = cdz_aligned_zeroed(n_threads * sizeof *pool->workers);
    if (!pool->scratch || !pool->slots || !pool->workers) {
        cdz_pool_destroy(pool);
        return NULL;
    }
    start_workers(pool, n_threads - 1);
    return pool;
}

void cdz_pool_destroy(cdz_pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stopping, true);
    cdz_pool_use(pool, pool->n_workers + 1);
    call_workers(pool, pool->n_workers);
    for (uint32_t i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        cdz_aligned_free(pool->workers[i].scratch);
    }
    for (size_t i = 0; pool->slots && i < pool->n_slots; i++) {
        cdz_aligned_free(pool->slots[i].operands);
        cdz_aligned_free(pool->slots[i].done);
    }
    cdz_aligned_free(pool->slots);
    cdz_aligned_free(pool->workers);
    cdz_aligned_free(pool->scratch);
    cdz_aligned_free(pool);
}

void cdz_pool_bind(cdz_pool *pool, const cdz_numa *numa)
{
    for (uint32_t i = 0; i < pool->n_workers; i++)
        (void)cdz_numa_bind(numa, pool->workers[i].thread,
                            cdz_numa_node_of(numa, i + 1, pool->n_workers + 1));
}

uint32_t cdz_pool_threads(const cdz_pool *pool)
{
    return pool->n_workers + 1;
}

uint64_t cdz_pool_recaptured(const cdz_pool *pool)
{
    return pool->n_recaptured;
}
