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
/* A row of n scores between -10 and 10, all as likely, and n_ids ids below n. */
void cdz_bench_flat(float *row, size_t n, int32_t *ids, size_t n_ids);

/* Prints the sentence and ends the benchmark. */
void cdz_bench_give_up(const char *sentence) __attribute__((noreturn));

/* As a cdz_host has it: says on stderr why a plugin failed; hands out the row operations; every setting is
 * known, and none has a value. */
cdz_status cdz_bench_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
const void *cdz_bench_extension(const char *id);
cdz_status cdz_bench_config(const cdz_step *step, const char *name, cdz_param_type type, void *out);

/* The host of a benchmark, with what it has beside these three: CDZ_BENCH_HOST(.alloc = f). */
/* clang-format off */
#define CDZ_BENCH_HOST(...)                                                                        \
    {.size = sizeof(cdz_host), .extension = cdz_bench_extension, .fail = cdz_bench_fail,           \
     .config = cdz_bench_config, __VA_ARGS__}
/* clang-format on */

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
