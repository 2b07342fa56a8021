/* bench.h - a runtime with the shipped model, on which strategies, drafters and observers are tried. */
#ifndef CDZ_HOST_CHECK_BENCH_H
#define CDZ_HOST_CHECK_BENCH_H

#include "cadenza/cadenza.h"
#include "check/probe.h"

enum { CDZ_BENCH_NEW = 12, CDZ_BENCH_PROMPT = 8, CDZ_BENCH_WITH = 16 };

typedef struct cdz_bench {
    cdz_child *c;
    cdz_runtime *runtime;
    cdz_model *model, *assistant;
    const char **other_names; /* (options->n_with) of further models */
    cdz_model **others;       /* as many, owned */
    cdz_model *stand_in;      /* what all of these names lead to for now; NULL: to their own */
    cdz_pipeline *with,
        *without; /* the plugin's pipeline; and the same without it (drafters, observers), or NULL */
    const char *processor; /* of pipelines that are made from now on; NULL: none */
    double timeout_s;      /* of a request; 0: none */
    const char *kwargs; /* generation parameters that it works with: ", \"num_beams\": 3" or "" */
} cdz_bench;

/* One request. */
typedef struct cdz_order {
    uint32_t n_prompts, max_new;
    uint64_t seed, prompt; /* prompt: which */
    bool sampling;
    bool ends;           /* with the model's end-of-sequence token */
    uint32_t prompt_len; /* 0: CDZ_BENCH_PROMPT */
    bool wide;           /* ids of the whole vocabulary, not of the first 300 */
    int32_t eos;         /* above 0: this token ends rows */
    cdz_string text;     /* the prompt, in place of made-up ids; UTF-8 */
} cdz_order;

/* Kinds of decode loops that observers watch, as kwargs: on_watch.c. */
enum { CDZ_LOOPS = 3 };
extern const char *const cdz_decode_loops[CDZ_LOOPS];

/* Opens everything and finds parameters that the plugin works with. Skips the check when there is no model. */
cdz_check_state cdz_bench_open(cdz_child *c, cdz_bench *b);
/* The two halves of it. */
cdz_check_state cdz_bench_start(cdz_child *c, cdz_bench *b);
cdz_status cdz_bench_needs(cdz_bench *b, cdz_error *err);
void cdz_bench_close(cdz_bench *b);

/* The plugin's pipeline with values that the kit tries. */
cdz_status cdz_bench_pipeline(const cdz_bench *b, const cdz_setup *tried, cdz_pipeline **out,
                              cdz_error *err);
cdz_status cdz_bench_submit(const cdz_bench *b, cdz_pipeline *pipeline, const cdz_order *order,
                            uint64_t *id, cdz_error *err);
cdz_status cdz_bench_run(const cdz_bench *b, cdz_pipeline *pipeline, const cdz_order *order,
                         cdz_result **out, cdz_error *err);

/* Whether a row is within max_new and the vocabulary; else a failure that says so. */
cdz_check_state cdz_bench_judge(const cdz_bench *b, const cdz_result *result,
                                const cdz_order *order);
/* Whether two answers hold the same new ids; else where they part. */
bool cdz_bench_same(const cdz_result *a, const cdz_result *b, char *what, size_t bytes);

#endif
