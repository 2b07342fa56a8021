/* test_kernels_pool.c - the threads: every chunk is committed once, every task runs once, a
 * worker that is held up does not hold up the caller, and nothing depends on how many threads
 * there are. */
#include "support/kernel_data.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "cpu/machine.h"
#include "cpu/pool.h"

/* ---- jobs ---- */

/* Chunk i yields seed + i in a result slot of its own; commits are counted. */
typedef struct counting {
    uint32_t seed;
    uint32_t *results;
    atomic_uint *commits;
} counting;

static void count_compute(const void *operands, size_t chunk, void *scratch)
{
    const counting *c = operands;
    uint32_t value = c->seed;
    for (size_t i = 0; i < 50; i++) value = value * 1664525u + (uint32_t)chunk;
    memcpy(scratch, &value, sizeof value);
}

static void count_commit(const void *operands, size_t chunk, const void *scratch)
{
    const counting *c = operands;
    memcpy(&c->results[chunk], scratch, sizeof *c->results);
    atomic_fetch_add(&c->commits[chunk], 1);
}

static void run_counting(cdz_pool *pool, uint32_t seed, size_t n)
{
    uint32_t results[300];
    atomic_uint commits[300];
    for (size_t i = 0; i < n; i++) atomic_init(&commits[i], 0);
    counting *c = cdz_pool_claim(pool, sizeof *c, n);
    assert_non_null(c);
    *c = (counting){seed, results, commits};
    const cdz_pool_job job = {count_compute, count_commit, n, 0};
    cdz_pool_run(pool, &job);
    const counting local = {seed, NULL, NULL};
    for (size_t i = 0; i < n; i++) {
        uint32_t expected;
        count_compute(&local, i, &expected);
        assert_int_equal(results[i], expected);
        assert_int_equal(atomic_load(&commits[i]), 1);
    }
}

static void chunks_are_committed_once(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 8, 64};
    for (size_t t = 0; t < 5; t++) {
        cdz_pool *pool = cdz_pool_create(threads[t], 64, NULL);
        assert_non_null(pool);
        assert_int_equal(cdz_pool_threads(pool), threads[t]);
        const uint32_t runs = threads[t] > 8 ? 200 : 2000;
        for (uint32_t i = 0; i < runs; i++) run_counting(pool, i, i % 300);
        cdz_pool_destroy(pool);
    }
}

/* ---- tasks ---- */

static void bump(void *arg, size_t i)
{
    ((uint32_t *)
         arg)[i]++; /* not atomic: no two threads may run one task, and the caller sees all of them */
}

static void tasks_run_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 17, 64, 65, 1000, 5000};
    uint32_t *counts = must_alloc(5000 * sizeof *counts);
    for (uint32_t threads = 1; threads <= 16; threads *= 2) {
        cdz_pool *pool = cdz_pool_create(threads, 64, NULL);
        for (size_t s = 0; s < 9; s++) {
            for (int repeat = 1; repeat <= 40; repeat++)
                cdz_pool_tasks(pool, bump, counts, sizes[s]);
            for (size_t i = 0; i < 5000; i++) assert_int_equal(counts[i], i < sizes[s] ? 40 : 0);
            memset(counts, 0, 5000 * sizeof *counts);
        }
        cdz_pool_destroy(pool);
    }
    free(counts);
}

/* ---- recapture ---- */

/* Whoever computes chunk `held` first, if it is a worker, stays in it until it is let go: as a
 * thread does that was taken off its core. */
typedef struct held_up {
    pthread_t caller;
    atomic_bool *stuck, *let_go;
    atomic_uintptr_t *operands; /* those that the held up worker reads */
    uint32_t seed, *results;
} held_up;

static void held_compute(const void *operands, size_t chunk, void *scratch)
{
    const held_up *h = operands;
    const uint32_t value = h->seed + (uint32_t)chunk;
    const struct timespec nap = {0, 100000};
    if (!pthread_equal(pthread_self(), h->caller) && !atomic_exchange(h->stuck, true)) {
        atomic_store(h->operands, (uintptr_t)operands);
        while (!atomic_load(h->let_go)) nanosleep(&nap, NULL);
    }
    /* The caller dawdles, so that the worker gets a chunk. */
    for (int i = 0; i < 20 && pthread_equal(pthread_self(), h->caller) && !atomic_load(h->stuck);
         i++)
        nanosleep(&nap, NULL);
    memcpy(scratch, &value, sizeof value);
}

static void held_commit(const void *operands, size_t chunk, const void *scratch)
{
    const held_up *h = operands;
    memcpy(&h->results[chunk], scratch, sizeof *h->results);
}

static void run_held(cdz_pool *pool, const held_up *held)
{
    held_up *h = cdz_pool_claim(pool, sizeof *h, 200);
    assert_true((uintptr_t)h != atomic_load(held->operands)); /* never those that are being read */
    *h = *held;
    const cdz_pool_job job = {held_compute, held_commit, 200, 0x500000001};
    cdz_pool_run(pool, &job);
    for (uint32_t i = 0; i < 200; i++) assert_int_equal(held->results[i], held->seed + i);
}

/* Would not return at all if the caller waited for the worker. */
static void a_held_up_worker_holds_nobody_up(void **state)
{
    (void)state;
    atomic_bool stuck = false, let_go = false;
    atomic_uintptr_t operands = 0;
    uint32_t results[200], later[200];
    held_up held = {pthread_self(), &stuck, &let_go, &operands, 7, results};
    cdz_pool *pool = cdz_pool_create(2, 64, NULL);
    for (int tries = 0; tries < 100 && !atomic_load(&operands); tries++) run_held(pool, &held);
    assert_true(atomic_load(&operands) != 0);
    assert_true(cdz_pool_recaptured(pool) >= 1);

    held.results = later;
    for (held.seed = 0; held.seed < 50; held.seed++) {
        run_held(pool, &held);
        run_counting(pool, held.seed, 100);
    }
    memset(results, 0xaa, sizeof results);
    uint32_t counts[10] = {0};
    cdz_pool_tasks(pool, bump, counts, 10);
    for (size_t i = 0; i < 10; i++) assert_int_equal(counts[i], 1);
    cdz_pool_await_readers(pool, 0x500000002, ~(uint64_t)0); /* other memory: does not wait */
    cdz_pool_await_readers(pool, 0x600000000, ~(uint64_t)0 << 32);
    atomic_store(&let_go, true);
    cdz_pool_await_readers(pool, 0x500000001, ~(uint64_t)0);
    cdz_pool_await_readers(pool, 0, 0);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(results[i], 0xaaaaaaaa); /* it came too late to write */
    cdz_pool_destroy(pool);
}

/* ---- how many take part ---- */

/* Who computed each chunk; all dawdle, so that whoever may gets one. */
typedef struct roll {
    pthread_t *by;
} roll;

static void roll_compute(const void *operands, size_t chunk, void *scratch)
{
    const struct timespec nap = {0, 20000};
    const pthread_t self = pthread_self();
    (void)operands, (void)chunk;
    nanosleep(&nap, NULL);
    memcpy(scratch, &self, sizeof self);
}

static void roll_commit(const void *operands, size_t chunk, const void *scratch)
{
    memcpy(&((const roll *)operands)->by[chunk], scratch, sizeof(pthread_t));
}

/* How many threads computed chunks of one job. */
static uint32_t call_the_roll(cdz_pool *pool)
{
    enum { N = 60 };
    pthread_t by[N];
    uint32_t different = 0;
    roll *r = cdz_pool_claim(pool, sizeof *r, N);
    r->by = by;
    const cdz_pool_job job = {roll_compute, roll_commit, N, 0};
    cdz_pool_run(pool, &job);
    for (size_t i = 0, j; i < N; i++) {
        for (j = 0; j < i && !pthread_equal(by[i], by[j]);) j++;
        different += j == i;
    }
    return different;
}

static void as_many_work_as_are_to(void **state)
{
    (void)state;
    static const uint32_t used[] = {1, 2, 4, 1, 3, 9, 0, 2};
    cdz_pool *pool = cdz_pool_create(4, 64, NULL);
    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        const uint32_t most = used[i] > 4 ? 4 : used[i] > 0 ? used[i] : 1;
        uint32_t seen = 0;
        cdz_pool_use(pool, used[i]);
        cdz_pool_await_readers(pool, 0, 0);
        for (int tries = 0; tries < 1000 && seen < most; tries++) {
            const uint32_t now = call_the_roll(pool);
            assert_in_range(now, 1, most);
            if (now > seen) seen = now;
        }
        assert_int_equal(seen, most);
        run_counting(pool, used[i], 100);
        assert_int_equal(cdz_pool_threads(pool), 4);
    }
    cdz_pool_use(pool, 1); /* and can be ended while some sleep */
    cdz_pool_destroy(pool);
}

static void policy_compute(const void *operands, size_t chunk, void *scratch)
{
    const int policy = sched_getscheduler(0);
    roll_compute(operands, chunk, scratch);
    memcpy(scratch, &policy, sizeof policy);
}

static void policy_commit(const void *operands, size_t chunk, const void *scratch)
{
    memcpy(&(*(int *const *)operands)[chunk], scratch, sizeof(int));
}

static void *may_be_batch(void *arg)
{
    const struct sched_param param = {0};
    *(bool *)arg = pthread_setschedparam(pthread_self(), SCHED_BATCH, &param) == 0;
    return NULL;
}

/* Workers wait for a time slice when they wake, the caller stays as it was. */
static void workers_take_nobodys_core(void **state)
{
    (void)state;
    enum { N = 60 };
    pthread_t thread;
    bool may = false;
    assert_int_equal(pthread_create(&thread, NULL, may_be_batch, &may), 0);
    pthread_join(thread, NULL);
    const int own = sched_getscheduler(0);
    if (!may || own != SCHED_OTHER) skip(); /* the system or who started us has it otherwise */
    cdz_pool *pool = cdz_pool_create(3, 64, NULL);
    bool seen = false;
    for (int tries = 0; tries < 1000 && !seen; tries++) {
        int policies[N];
        int **operands = cdz_pool_claim(pool, sizeof *operands, N);
        *operands = policies;
        cdz_pool_run(pool, &(cdz_pool_job){policy_compute, policy_commit, N, 0});
        for (size_t i = 0; i < N; i++) {
            assert_true(policies[i] == own || policies[i] == SCHED_BATCH);
            seen |= policies[i] == SCHED_BATCH;
        }
    }
    assert_true(seen);
    assert_int_equal(sched_getscheduler(0), own);
    cdz_pool_destroy(pool);
}

static atomic_uint n_begun, n_ended;

static void *note_begin(void)
{
    atomic_fetch_add(&n_begun, 1);
    return &n_begun;
}

static void note_end(void *begun)
{
    n_ended += begun == &n_begun;
}

static void its_threads_begin_and_end(void **state)
{
    (void)state;
    static const cdz_on_thread notes = {note_begin, note_end};
    cdz_pool *pool = cdz_pool_create(3, 64, &notes);
    const uint32_t threads = cdz_pool_threads(pool);
    run_counting(pool, 1, 200);
    cdz_pool_destroy(pool);
    assert_int_equal(n_begun, threads - 1);
    assert_int_equal(n_ended, threads - 1);
}

static void scratch_grows_between_jobs(void **state)
{
    (void)state;
    cdz_pool *pool = cdz_pool_create(3, 64, NULL);
    run_counting(pool, 1, 200);
    for (size_t bytes = 64; bytes < 1u << 20; bytes *= 4) {
        assert_true(cdz_pool_reserve(pool, bytes));
        memset(cdz_pool_scratch(pool), 1, bytes);
        run_counting(pool, (uint32_t)bytes, 200);
    }
    assert_false(cdz_pool_reserve(pool, SIZE_MAX - 10));
    assert_null(cdz_pool_claim(pool, SIZE_MAX - 10, 4));
    run_counting(pool, 3, 200);
    cdz_pool_destroy(pool);
    cdz_pool_destroy(NULL);
}

/* ---- the whole backend under stress ---- */

typedef struct stress {
    const char *variant;
    uint32_t threads;
    const cdz_weight *w;
    const float *x, *expected;
    size_t n, k;
    bool differs; /* told to the main thread, which alone may fail a test */
} stress;

/* Rewrites its activations between calls, as a model does: a late reader must not matter. */
static void *stress_one(void *arg)
{
    stress *s = arg;
    cdz_backend *b = make_backend(s->variant, s->threads);
    float *x = must_alloc(20 * s->k * sizeof *x), *y = must_alloc(20 * s->n * sizeof *y);
    for (size_t i = 0; i < 200; i++) {
        const size_t m = i % 20 + 1;
        memcpy(x, s->x, m * s->k * sizeof *x);
        const cdz_product product = {s->w, NULL, y, s->n};
        b->api->matmul(b, &product, 1, x, s->k, m);
        memset(x, 0, m * s->k * sizeof *x);
        s->differs |= memcmp(y, s->expected, m * s->n * sizeof *y) != 0;
    }
    b->api->destroy(b);
    free(x);
    free(y);
    return NULL;
}

static void backends_beside_each_other(void **state)
{
    (void)state;
    enum { N = 300, K = 220 };
    rng r = {8};
    fenced weights = random_weights(&r, CDZ_BF16, (size_t)N * K);
    const cdz_weight w = {weights.data, CDZ_BF16, N, K, CDZ_WEIGHT_ROWS};
    float *x = random_floats(&r, (size_t)20 * K), *expected = must_alloc((size_t)20 * N * sizeof *x);
    cdz_backend *one = make_backend("scalar", 1);
    const cdz_product product = {&w, NULL, expected, N};
    one->api->matmul(one, &product, 1, x, K, 20);
    one->api->destroy(one);

    stress s[3];
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++) {
        s[i] = (stress){NULL, (uint32_t)(i * 3 + 2), &w, x, expected, N, K, false};
        assert_int_equal(pthread_create(&threads[i], NULL, stress_one, &s[i]), 0);
    }
    for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 3; i++) assert_false(s[i].differs);
    fenced_free(&weights);
    free(x);
    free(expected);
}

static void cores_are_counted_within_the_mask(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const uint32_t cores = cdz_machine_cores();
    assert_in_range(cores, 1, (uint32_t)CPU_COUNT(&before));
    size_t first = 0;
    while (!CPU_ISSET(first, &before)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cdz_machine_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(cdz_machine_cores(), cores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_committed_once),
        cmocka_unit_test(tasks_run_once),
        cmocka_unit_test(a_held_up_worker_holds_nobody_up),
        cmocka_unit_test(as_many_work_as_are_to),
        cmocka_unit_test(workers_take_nobodys_core),
        cmocka_unit_test(its_threads_begin_and_end),
        cmocka_unit_test(scratch_grows_between_jobs),
        cmocka_unit_test(backends_beside_each_other),
        cmocka_unit_test(cores_are_counted_within_the_mask),
    };
    return cmocka_run_group_tests_name("kernels: pool", tests, NULL, NULL);
}
