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

/* All of it is one piece of assembly, so that nothing else is in its registers: with what others left there, which may be
 * subnormal, a multiply-add can take a hundred times as long. */
#define ZERO(w, i)  "vxorps %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n"
#define CHAIN(w, i) "vfmadd231ps %%" w "mm12, %%" w "mm12, %%" w "mm" #i "\n"
#define ALL(what, w)                                                                               \
    what(w, 0) what(w, 1) what(w, 2) what(w, 3) what(w, 4) what(w, 5) what(w, 6) what(w, 7)        \
        what(w, 8) what(w, 9) what(w, 10) what(w, 11)
#define CHAINS_OF(w)                                                                               \
    int n = TURNS;                                                                                 \
    const float one = 1.0f;                                                                        \
    __asm__ volatile(ALL(ZERO, w) "vbroadcastss %1, %%" w                                          \
                                  "mm12\n1:\n" ALL(CHAIN, w) "sub $1, %0\njnz 1b\nvzeroupper\n"    \
                     : "+r"(n)                                                                     \
                     : "m"(one)                                                                    \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",       \
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12")

static void fma_256(void *arg, size_t i)
{
    (void)arg, (void)i;
    CHAINS_OF("y");
}

static void fma_512(void *arg, size_t i)
{
    (void)arg, (void)i;
    CHAINS_OF("z");
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
