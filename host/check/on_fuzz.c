/* on_fuzz.c - strategies with random settings, on small random models: each request ends within its bounds, or is refused in
 * a sentence. Processors and criteria have theirs in on_basics.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "check/bench.h"
#include "check/checks.h"
#include "check/tables.h"

enum { ROUNDS = 40, TABLES = 3, MODELS };
/* Of the check's patience: what a request may take before its deadline, whatever comes of it then, and all of them. */
#define REQUEST_SHARE 0.033
#define ROUNDS_SHARE  0.33

typedef struct fuzz {
    cdz_bench bench;
    cdz_model *models[MODELS], *assistants[MODELS];
    uint32_t ran, refused, late;
} fuzz;

static cdz_status open_models(fuzz *f, cdz_error *err)
{
    static const double sharpness[TABLES] = {1.5, 0.3, 0.0};
    cdz_child *c = f->bench.c;
    f->models[TABLES] = f->bench.model; /* the one with a tokenizer */
    f->assistants[TABLES] = f->bench.assistant;
    for (uint32_t i = 0; i < TABLES; i++) {
        const uint64_t seed = c->options->seed + i;
        CDZ_TRY(cdz_table_open(c, f->bench.runtime, seed, sharpness[i], &f->models[i], err));
        CDZ_TRY(cdz_table_open(c, f->bench.runtime, seed + TABLES, sharpness[i], &f->assistants[i],
                               err));
    }
    return CDZ_OK;
}

/* Whose fault a failed request is. Scripts refuse with error(), which has the plugin's status; what Lua itself says of a
 * mistake begins with "attempt to". */
static bool is_a_refusal(const cdz_child *c, cdz_status st, const char *why)
{
    if (strstr(why, "without saying why") || st == CDZ_E_INTERNAL) return false;
    if (st != CDZ_E_PLUGIN) return true;
    return cdz_module_is_script(c->ref.module) && !strstr(why, "attempt to ");
}

static cdz_check_state round_of(fuzz *f, uint32_t round)
{
    cdz_bench *b = &f->bench;
    cdz_child *c = b->c;
    cdz_error err = {0};
    const cdz_setup *setup = round == 0
                                 ? cdz_setup_defaults(c, &err)
                                 : cdz_setup_random(c, &c->random, CDZ_TABLE_VOCAB, CDZ_WILD, &err);
    if (!setup) return cdz_fail_check(c, "%s", err.text);
    const cdz_order order = {.n_prompts = 1,
                             .max_new = 1 + cdz_random_below(&c->random, 12),
                             .seed = round,
                             .prompt = round,
                             .sampling = cdz_random_below(&c->random, 4) == 0,
                             .ends = cdz_random_below(&c->random, 2) == 0};
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    b->model = f->models[round % MODELS];
    b->assistant = round / MODELS % 2 ? f->assistants[round % MODELS] : NULL;
    b->stand_in = round % MODELS < TABLES ? f->assistants[round % MODELS] : NULL;
    cdz_check_note(c, "round %u, %u new tokens, %s", round, order.max_new, setup->text);
    cdz_status st = cdz_bench_pipeline(b, setup, &pipeline, &err);
    if (st == CDZ_OK) st = cdz_bench_run(b, pipeline, &order, &result, &err);
    cdz_check_state state = CDZ_CHECK_OK;
    if (st == CDZ_OK) {
        f->ran++;
        state = cdz_bench_judge(b, result, &order);
    } else if (st == CDZ_E_DEADLINE) {
        f->late++;
    } else if (is_a_refusal(c, st, err.text)) {
        f->refused++;
    } else {
        state = cdz_fail_check(c, "round %u, %u new tokens, %s: %s", round, order.max_new,
                               setup->text, err.text);
    }
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return state;
}

static void close_models(fuzz *f)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        cdz_model_close(f->models[i]);
        cdz_model_close(f->assistants[i]);
    }
    f->bench.model = f->bench.assistant = f->bench.stand_in = NULL;
}

cdz_check_state cdz_check_fuzz_requests(cdz_child *c)
{
    fuzz f = {.bench = {.c = c}};
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_open(c, &f.bench)); /* also finds what the strategy needs to be told */
    f.bench.timeout_s = REQUEST_SHARE * 1e-3 * c->patience_ms;
    if (open_models(&f, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    const double until = cdz_now_s() + ROUNDS_SHARE * 1e-3 * c->patience_ms;
    uint32_t i = 0;
    for (; i < ROUNDS && cdz_now_s() < until; i++) CDZ_CHECK_TRY(round_of(&f, i));
    close_models(&f);
    cdz_bench_close(&f.bench);
    return cdz_pass_check(c, "%u of %u random settings ran, %u were refused, %u cut off for time",
                          f.ran, i, f.refused, f.late);
}
