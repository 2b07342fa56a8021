/* bench.h - what the benchmarks share: a clock, medians, and a host that is just enough for a plugin. */
#ifndef CDZ_BENCH_SHARED_H
#define CDZ_BENCH_SHARED_H

#include "base/clock.h"
#include "base/spread.h"
#include "cadenza/processor.h"

static inline double cdz_bench_now_us(void)
{
    return cdz_now_s() * 1e6;
}

/* Of n values, which are sorted. */
static inline double cdz_bench_median(double *values, size_t n)
{
    return cdz_spread_of(values, n).median;
}

/* Near enough to a normal number of deviation 1, from a stream of one's own: two runs measure the same rows. */
float cdz_bench_normal(uint32_t *stream);

/* A row of n scores as a model gives when it is sure: some tens of tokens well above the rest, falling like 1 / rank;
 * or a bell of deviation 2. */
void cdz_bench_row(float *row, size_t n, bool peaked);

/* Prints the sentence and ends the benchmark. */
void cdz_bench_give_up(const char *sentence) __attribute__((noreturn));

/* For a cdz_host: says on stderr why a plugin failed, and hands out the row operations. */
cdz_status cdz_bench_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
const void *cdz_bench_extension(const char *id);

/* A Lua processor as a request of one row begins it. */
typedef struct cdz_bench_script {
    struct cdz_loaded *module;
    void *params;
    const cdz_processor *processor;
    cdz_step step;
} cdz_bench_script;

/* chain: the script's integer parameter of that name, 0: it has none. ids and request outlive the script. */
void cdz_bench_open_script(cdz_bench_script *script, const char *path, int64_t chain,
                           const cdz_ids *ids, const cdz_request_info *request);
void cdz_bench_close_script(cdz_bench_script *script);

#endif
