/* bench_report.h - what `cadenza bench` found: as a table, and as the JSON document of docs/performance.md. */
#ifndef CDZ_HOST_CLI_BENCH_REPORT_H
#define CDZ_HOST_CLI_BENCH_REPORT_H

#include "base/buf.h"
#include "base/spread.h"
#include "run/pass/cost.h"
#include "run/pass/profile.h"

typedef struct cdz_bench_settings {
    uint32_t prompt_tokens; /* 0: not said */
    uint32_t new_tokens, context, batch, rounds;
} cdz_bench_settings;

/* One kind of pass over all rounds. Fractions are taken round by round, so that a drift of the machine meets both. */
typedef struct cdz_bench_figure {
    cdz_spread tokens_per_s, ms; /* ms: of the prompt; of a step */
    cdz_spread limit;            /* GB/s read, or 10^9 multiply-adds per second */
    cdz_spread reached;          /* the same of the model */
    cdz_spread fraction;         /* reached of limit; to be told if cdz_cli_bench_limit_holds */
    cdz_work_times times;        /* of all rounds together */
} cdz_bench_figure;

typedef struct cdz_bench_report {
    const char *model, *quantize; /* as given; quantize NULL: as stored */
    const char *activations;      /* as given, or "auto" */
    const cdz_weights *weights;
    const char *variant, *cpu; /* kernels; what /proc says */
    const char *device;        /* what passes ran on; "cpu", ... */
    uint32_t threads;
    cdz_bench_settings settings;
    cdz_cost cost;
    double open_ms,
        first_ms; /* opening; the first prompt of context tokens, before anything is warm */
    cdz_bench_figure prefill, decode;
    double highest_gbs;    /* of one look at the read limit */
    uint64_t screen_bytes; /* of the head's copy (run/pass/screen.h); 0: there is none */
    double screened; /* of the newest round's steps the share that read it in place of the head */
} cdz_bench_report;

/* Bytes that a decode step reads: weights, the head's copy where a step is screened, and keys and values halfway through the
 * new tokens. */
double cdz_cli_bench_step_bytes(const cdz_bench_report *report);
/* Whether a share of the limit says something: it is known, and moved by at most a tenth over the rounds. */
bool cdz_cli_bench_limit_holds(const cdz_bench_figure *figure);
/* Of what passes ran on: those of the CPU are measured. */
bool cdz_cli_bench_limits_known(const cdz_bench_report *report);

void cdz_cli_bench_write_table(const cdz_bench_report *report, cdz_buf *out);
void cdz_cli_bench_write_json(const cdz_bench_report *report, cdz_buf *out);

#endif
