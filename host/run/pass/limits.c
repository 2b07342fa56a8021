/* limits.c - see limits.h. The multiply-adds are written out: a compiler would fold chains that nobody reads. */
#include "run/pass/limits.h"

#include <string.h>

#include "base/clock.h"

/* --- reading -------------------------------------------------------------------------------------------------------- */

enum { PARTS_PER_THREAD = 8, STREAMS = 4, LINE = 64, MOST_PARTS = 64 };

typedef struct reading {
    const char *data;
    size_t bytes, parts;
    uint64_t sums[MOST_PARTS]; /* so that the loads are not optimised away */
} reading;

typedef uint64_t word4 __attribute__((vector_size(32), aligned(8)));

/* Part i of the memory, as four streams far apart. */
static void read_part(void *arg, size_t i)
{
    reading *r = arg;
    const size_t quarter = r->bytes / r->parts / STREAMS / 128 * 128;
    const char *start = r->data + i * (r->bytes / r->parts) / LINE * LINE;
    word4 sum = {0};
    for (size_t at = 0; at < quarter; at += LINE)
        for (size_t s = 0; s < STREAMS; s++) {
            const word4 *p = (const word4 *)(const void *)(start + s * quarter + at);
            sum += p[0];
            sum += p[1];
        }
    r->sums[i % MOST_PARTS] = sum[0] + sum[1] + sum[2] + sum[3];
}

double cdz_limit_read_gbs(cdz_backend *backend, const void *data, size_t bytes)
{
    reading r = {.data = data,
                 .bytes = bytes,
                 .parts = (size_t)backend->api->n_threads(backend) * PARTS_PER_THREAD};
    const double start = cdz_now_s();
    backend->api->parallel(backend, read_part, &r, r.parts);
    return (double)bytes / (cdz_now_s() - start) * 1e-9;
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
