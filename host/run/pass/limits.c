/* limits.c - see limits.h. The multiply-adds are written out: a compiler would fold chains that nobody reads. */
#include "run/pass/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* --- reading -------------------------------------------------------------------------------------------------------- */

enum {
    LINE = 64,
    AHEAD_BYTES = 4096,
    CHUNK_BYTES = 256 << 10,
    MOST_CHUNKS = (64 << 20) / CHUNK_BYTES
};

/* Of a chunk, in turns: which of them is faster depends on the processor. */
static const size_t streams[CDZ_LIMIT_WAYS] = {2, 4};

typedef struct cdz_limit_chunk {
    const char *at;
    size_t bytes; /* at most CHUNK_BYTES */
} chunk;

typedef struct turn {
    const chunk *chunks; /* (n_chunks), of which n are read, from `first` on, and on from the beginning */
    size_t n_chunks, first, n, streams;
    atomic_size_t drawn, n_done;
    atomic_bool done[MOST_CHUNKS];
    double ended;              /* when the last chunk was done */
    _Atomic uint64_t together; /* so that the loads are not optimised away */
} turn;

/* A word of each line: all of the line comes, and the thread does as little else as it can. */
static uint64_t read_streams(const chunk *c, size_t n)
{
    const size_t each = c->bytes / n / LINE * LINE;
    uint64_t sum = 0;
    for (size_t at = 0; at < each; at += LINE)
        for (size_t s = 0; s < n; s++) {
            const char *line = c->at + s * each + at;
            uint64_t word;
            memcpy(&word, line, sizeof word);
            __builtin_prefetch(line + AHEAD_BYTES, 0, 3);
            sum += word;
        }
    return sum;
}

static void read_chunk(turn *t, size_t i)
{
    const uint64_t sum = read_streams(&t->chunks[(t->first + i) % t->n_chunks], t->streams);
    atomic_fetch_add_explicit(&t->together, sum, memory_order_relaxed);
    if (!atomic_exchange(&t->done[i], true) && atomic_fetch_add(&t->n_done, 1) + 1 == t->n)
        t->ended = cdz_now_s();
}

/* Until none is left; then those that others have begun and not ended. */
static void read_chunks(void *arg, size_t thread)
{
    turn *t = arg;
    (void)thread;
    for (size_t i; (i = atomic_fetch_add(&t->drawn, 1)) < t->n;) read_chunk(t, i);
    for (size_t i = 0; i < t->n; i++)
        if (!atomic_load(&t->done[i])) read_chunk(t, i);
}

static bool add_chunk(cdz_limit_reader *r, chunk c)
{
    if (r->n == r->cap) {
        const size_t cap = r->cap ? 2 * r->cap : MOST_CHUNKS;
        chunk *grown = realloc(r->chunks, cap * sizeof *grown);
        if (!grown) return false;
        r->chunks = grown;
        r->cap = cap;
    }
    r->chunks[r->n++] = c;
    return true;
}

bool cdz_limit_reader_add(cdz_limit_reader *r, const void *data, size_t bytes)
{
    const char *at = data;
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        if (!add_chunk(r, (chunk){at + done, n})) return false;
    }
    return true;
}

void cdz_limit_reader_turn(cdz_limit_reader *r, cdz_backend *backend)
{
    turn t = {.chunks = r->chunks,
              .n_chunks = r->n,
              .first = r->next,
              .streams = streams[r->turns % CDZ_LIMIT_WAYS],
              .n = r->n < MOST_CHUNKS ? r->n : MOST_CHUNKS};
    if (t.n == 0) return;
    const double start = cdz_now_s();
    backend->api->parallel(backend, read_chunks, &t, backend->api->n_threads(backend));
    const double took = t.ended - start;
    double bytes = 0;
    for (size_t i = 0; i < t.n; i++) bytes += (double)r->chunks[(r->next + i) % r->n].bytes;
    r->next = (r->next + t.n) % r->n;
    cdz_limit_reads *way = &r->ways[r->turns++ % CDZ_LIMIT_WAYS];
    way->bytes += bytes;
    way->seconds += took;
    r->bytes += bytes;
    r->seconds += took;
    if (bytes * 1e-9 > r->highest_gbs * took) r->highest_gbs = bytes / took * 1e-9;
}

double cdz_limit_reader_gbs(const cdz_limit_reader *r)
{
    double most = 0;
    for (size_t i = 0; i < CDZ_LIMIT_WAYS; i++) {
        const cdz_limit_reads *way = &r->ways[i];
        if (way->bytes * 1e-9 > most * way->seconds) most = way->bytes / way->seconds * 1e-9;
    }
    return most;
}

void cdz_limit_reader_free(cdz_limit_reader *r)
{
    free(r->chunks);
    *r = (cdz_limit_reader){0};
}

/* --- multiply-adds -------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
enum { CHAINS = 12, TURNS = 200000, TASKS_PER_THREAD = 4 };

#define CHAIN(w, i) "vfmadd231ps %%" w "mm12, %%" w "mm13, %%" w "mm" #i "\n"
#define ALL(w)                                                                                     \
    CHAIN(w, 0)                                                                                    \
    CHAIN(w, 1)                                                                                    \
    CHAIN(w, 2)                                                                                    \
    CHAIN(w, 3)                                                                                    \
    CHAIN(w, 4)                                                                                    \
    CHAIN(w, 5) CHAIN(w, 6) CHAIN(w, 7) CHAIN(w, 8) CHAIN(w, 9) CHAIN(w, 10) CHAIN(w, 11)
#define CLOBBERS                                                                                   \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"

static void fma_256(void *arg, size_t i)
{
    (void)arg, (void)i;
    for (int n = TURNS; n > 0; n--) __asm__ volatile(ALL("y")::: CLOBBERS);
}

static void fma_512(void *arg, size_t i)
{
    (void)arg, (void)i;
    for (int n = TURNS; n > 0; n--) __asm__ volatile(ALL("z")::: CLOBBERS);
}

double cdz_limit_gmacs(cdz_backend *backend)
{
    if (strcmp(backend->api->variant, "scalar") == 0) return 0;
    const bool wide = strcmp(backend->api->variant, "avx512") == 0;
    const size_t tasks = (size_t)backend->api->n_threads(backend) * TASKS_PER_THREAD;
    const double macs = (double)TURNS * CHAINS * (wide ? 16.0 : 8.0) * (double)tasks;
    const double start = cdz_now_s();
    backend->api->parallel(backend, wide ? fma_512 : fma_256, NULL, tasks);
    return macs / (cdz_now_s() - start) * 1e-9;
}
#else
double cdz_limit_gmacs(cdz_backend *backend)
{
    (void)backend;
    return 0;
}
#endif
