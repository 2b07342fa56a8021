/* on_moves.c - a strategy that lets processors keep rows of scores (CDZ_SCORES_MOVE) finds them where they went. */
#include <math.h>

#include "cadenza/ext/scores.h"
#include "cadenza/strategy.h"
#include "check/bench.h"
#include "check/checks.h"

enum { WHAT = 200 };

static struct {
    bool keeps;
    uint32_t n_kept;
    void *memory; /* kept last: filled with NaN, and there till the next call, so that whoever looks finds that */
} mover;

static void release(const cdz_step *step)
{
    cdz_get_scores(step)->release(mover.memory);
    mover.memory = NULL;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_scores_host *host = cdz_get_scores(step);
    *shared = host->may_keep(step) ? (void *)(uintptr_t)host : NULL; /* NULL: beside a drafter */
    return CDZ_OK;
}

static void edit(const cdz_scores *scores, float by)
{
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t v = 0; v < scores->n_vocab; v++) cdz_row(scores, r)[v] += by * (float)(v % 5);
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_scores was = *scores;
    edit(scores, 0.5f);
    if (mover.keeps && step->shared) {
        release(step);
        CDZ_TRY(cdz_get_scores(step)->keep(step, scores, &mover.memory));
        edit(&was, NAN);
        mover.n_kept++;
    }
    edit(scores, -0.25f);
    return CDZ_OK;
}

static const cdz_processor mover_processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.cadenza.check.mover", .version = "1.0.0",
             .summary = "Edits rows, and keeps them"},
    .begin = begin,
    .apply = apply,
    .end = release,
};

static cdz_check_state with_and_without(const cdz_bench *b, cdz_pipeline *pipeline,
                                        const cdz_order *order)
{
    char what[WHAT];
    cdz_result *want = NULL, *got = NULL;
    cdz_error err = {0};
    mover.keeps = false;
    cdz_check_note(b->c, "a request of %u tokens with a processor", order->max_new);
    cdz_status status = cdz_bench_run(b, pipeline, order, &want, &err);
    mover.keeps = true;
    cdz_check_note(b->c, "a request of %u tokens with a processor that keeps its rows",
                   order->max_new);
    if (status == CDZ_OK) status = cdz_bench_run(b, pipeline, order, &got, &err);
    cdz_check_state state = CDZ_CHECK_OK;
    if (status != CDZ_OK || !cdz_bench_same(got, want, what, sizeof what))
        state = cdz_fail_check(b->c,
                               "when a processor keeps the rows that it is shown "
                               "(CDZ_SCORES_MOVE): %s",
                               status != CDZ_OK ? err.text : what);
    cdz_result_free(want);
    cdz_result_free(got);
    return state;
}

cdz_check_state cdz_check_scores_move(cdz_child *c)
{
    const cdz_strategy *strategy = (const void *)c->ref.base;
    cdz_bench b;
    cdz_pipeline *pipeline;
    cdz_check_state state = CDZ_CHECK_OK;
    cdz_error err = {0};
    if (!(strategy->caps & CDZ_SCORES_MOVE)) return cdz_skip_check(c, "not promised");
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    b.processor = mover_processor.base.id;
    cdz_model *const assistant = b.assistant;
    b.assistant = NULL; /* with a drafter nothing may be kept */
    if (cdz_runtime_add_plugin(b.runtime, &mover_processor.base, &err) != CDZ_OK ||
        cdz_bench_pipeline(&b, NULL, &pipeline, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    for (uint32_t i = 0; i < 3 && state == CDZ_CHECK_OK; i++) {
        const bool alone = strategy->caps & CDZ_ONE_ROW || i == 0;
        const cdz_order order = {
            .n_prompts = alone ? 1 : 3, .max_new = 24, .seed = 3 + i, .prompt = i, .wide = i == 2};
        state = with_and_without(&b, pipeline, &order);
    }
    cdz_pipeline_free(pipeline);
    b.assistant = assistant;
    cdz_bench_close(&b);
    if (state == CDZ_CHECK_OK && mover.n_kept == 0)
        return cdz_skip_check(c, "it processes no rows without a drafter");
    return state;
}
