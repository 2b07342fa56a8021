/* on_requests.c - strategies, drafters and observers in whole requests: they end, where and when they should, alone and
 * in company, and a drafter or observer changes no token. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "check/bench.h"
#include "check/checks.h"

enum { WHAT = 200 };

/* --- generates ------------------------------------------------------------------------------------------------- */

static cdz_check_state answer_of(const cdz_bench *b, cdz_pipeline *pipeline, const cdz_order *order,
                                 cdz_result **out)
{
    cdz_error err = {0};
    cdz_check_note(b->c, "a request of %u prompt%s and %u new tokens%s", order->n_prompts,
                   order->n_prompts == 1 ? "" : "s", order->max_new, b->kwargs);
    if (cdz_bench_run(b, pipeline, order, out, &err) == CDZ_OK) return CDZ_CHECK_OK;
    return cdz_fail_check(b->c, "%u prompts, %u new tokens%s: %s", order->n_prompts, order->max_new,
                          b->kwargs, err.text);
}

cdz_check_state cdz_check_generates(cdz_child *c)
{
    static const cdz_order orders[] = {
        {.n_prompts = 1, .max_new = 1, .seed = 3},
        {.n_prompts = 1, .max_new = 2, .seed = 3, .prompt = 1},
        {.n_prompts = 1, .max_new = CDZ_BENCH_NEW, .seed = 3, .prompt = 2, .wide = true},
        {.n_prompts = 1, .max_new = 24, .seed = 3, .prompt = 3, .wide = true, .prompt_len = 300},
        {.n_prompts = 1, .max_new = 120, .seed = 3, .prompt = 4, .wide = true},
        {.n_prompts = 1, .max_new = 40, .seed = 3, .prompt = 5},
    };
    cdz_bench b;
    double start = 0;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        const cdz_order order = orders[i];
        cdz_result *result = NULL;
        start = cdz_now_s();
        CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &result));
        CDZ_CHECK_TRY(cdz_bench_judge(&b, result, &order));
        cdz_result_free(result);
    }
    const double took = cdz_now_s() - start;
    cdz_bench_close(&b);
    return cdz_pass_check(c, "40 tokens in %.1f ms%s", took * 1e3, b.kwargs ? b.kwargs : "");
}

/* --- same-tokens, company ------------------------------------------------------------------------------------------ */

static cdz_check_state compare(const cdz_bench *b, const cdz_result *got, const cdz_result *want,
                               const char *when)
{
    char what[WHAT];
    if (cdz_bench_same(got, want, what, sizeof what)) return CDZ_CHECK_OK;
    return cdz_fail_check(b->c, "%s: %s", when, what);
}

cdz_check_state cdz_check_same_tokens(cdz_child *c)
{
    cdz_bench b;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    for (int sampling = 0; sampling < 2; sampling++) {
        const cdz_order order = {
            .n_prompts = 1, .max_new = CDZ_BENCH_NEW, .seed = 9, .sampling = sampling};
        cdz_result *first = NULL, *second = NULL;
        cdz_error err = {0};
        if (sampling && cdz_bench_run(&b, b.with, &order, &first, &err) != CDZ_OK) break;
        if (!sampling) CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &first));
        CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &second));
        CDZ_CHECK_TRY(compare(&b, second, first, "the same request again"));
        cdz_result_free(first);
        cdz_result_free(second);
    }
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

enum { COMPANY = 4 };

static cdz_order of_company(const cdz_order *first, uint32_t i)
{
    cdz_order one = *first;
    one.prompt += i;
    one.seed += i;
    return one;
}

/* All at once; each is compared with itself alone. */
static cdz_check_state in_company(const cdz_bench *b, const cdz_order *order,
                                  cdz_result *const alone[COMPANY])
{
    uint64_t ids[COMPANY];
    cdz_error err = {0};
    cdz_check_note(b->c, "%d requests at once", (int)COMPANY);
    for (uint32_t i = 0; i < COMPANY; i++) {
        const cdz_order one = of_company(order, i);
        if (cdz_bench_submit(b, b->with, &one, &ids[i], &err) != CDZ_OK)
            return cdz_fail_check(b->c, "%s", err.text);
    }
    for (uint32_t i = 0; i < COMPANY; i++) {
        cdz_result *result = NULL;
        if (cdz_wait(b->runtime, ids[i], &result, &err) != CDZ_OK)
            return cdz_fail_check(b->c, "%d requests at once: %s", (int)COMPANY, err.text);
        CDZ_CHECK_TRY(compare(b, result, alone[i], "with other requests beside it"));
        cdz_result_free(result);
    }
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_company(cdz_child *c)
{
    const cdz_order order = {.n_prompts = 1, .max_new = 24, .seed = 9};
    cdz_bench b;
    cdz_result *alone[COMPANY], *again = NULL;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    for (uint32_t i = 0; i < COMPANY; i++) {
        const cdz_order one = of_company(&order, i);
        CDZ_CHECK_TRY(answer_of(&b, b.with, &one, &alone[i]));
    }
    CDZ_CHECK_TRY(in_company(&b, &order, alone));
    CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &again));
    CDZ_CHECK_TRY(compare(&b, again, alone[0], "after other requests"));
    cdz_result_free(again);
    for (uint32_t i = 0; i < COMPANY; i++) cdz_result_free(alone[i]);
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* Greedy decoding with drafts, and any with an observer, gives what it gives without. */
cdz_check_state cdz_check_changes_nothing(cdz_child *c)
{
    cdz_bench b;
    const bool watches = c->ref.base->kind == CDZ_KIND_OBSERVER;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    const char *const needs = b.kwargs;
    for (uint32_t i = 0; i < 3 * CDZ_LOOPS; i++) {
        const cdz_order order = {.n_prompts = 1,
                                 .max_new = i % 3 == 2 ? 60 : 24,
                                 .seed = 5 + i,
                                 .prompt = i,
                                 .wide = i % 2,
                                 .sampling = watches && i % 3 && i < 3};
        const char *kwargs = watches ? cdz_decode_loops[i / 3] : needs;
        b.kwargs = kwargs;
        cdz_result *with = NULL, *without = NULL;
        CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &with));
        cdz_model *const assistant = b.assistant;
        if (!watches) b.kwargs = "", b.assistant = NULL;
        CDZ_CHECK_TRY(answer_of(&b, b.without, &order, &without));
        b.kwargs = kwargs, b.assistant = assistant;
        CDZ_CHECK_TRY(compare(&b, with, without, "against the same request without the plugin"));
        cdz_result_free(with);
        cdz_result_free(without);
    }
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* --- cancel -------------------------------------------------------------------------------------------------------- */

/* Waits for an event of the request; false when none came in time. */
static bool next_event(const cdz_bench *b, uint64_t id, double until, cdz_event *event)
{
    for (;;) {
        const double left = until - cdz_now_s();
        if (left <= 0 || cdz_poll(b->runtime, left, event, NULL) != CDZ_OK) return false;
        if (event->request_id == id) return true;
    }
}

cdz_check_state cdz_check_cancel(cdz_child *c)
{
    const cdz_order order = {.n_prompts = 1, .max_new = 400, .seed = 3};
    const double patience = 0.4e-3 * c->patience_ms;
    cdz_bench b;
    cdz_event event = {.size = sizeof event};
    cdz_error err = {0};
    uint64_t id;
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    cdz_check_note(c, "a request that is cancelled");
    if (cdz_bench_submit(&b, b.with, &order, &id, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    bool more =
        next_event(&b, id, cdz_now_s() + 0.1, &event); /* it has begun, or holds its text back */
    (void)cdz_cancel(b.runtime, id, NULL);
    const double start = cdz_now_s(), until = start + patience;
    while (!more || event.kind != CDZ_EVENT_DONE)
        if (!(more = next_event(&b, id, until, &event)))
            return cdz_fail_check(c,
                                  "a request that was cancelled has not ended after %.1f s: does the "
                                  "plugin pass on what its verbs return?",
                                  patience);
    const double took = cdz_now_s() - start;
    cdz_result *result = NULL;
    const cdz_status ended = cdz_wait(b.runtime, id, &result, &err);
    if (ended != CDZ_OK && ended != CDZ_E_CANCELLED)
        return cdz_fail_check(c, "a request that was cancelled ended with: %s", err.text);
    cdz_result_free(result);
    cdz_bench_close(&b);
    return cdz_pass_check(c, "ended %.1f ms after it was cancelled", took * 1e3);
}

/* --- what is left behind ---------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_leaves_nothing(cdz_child *c)
{
    char what[WHAT];
    cdz_bench b;
    cdz_engine_stats stats;
    cdz_surroundings_forgive_files(c->before); /* the plugin's own file is open */
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    for (uint32_t i = 0; i < 6; i++) {
        const cdz_order order = {.n_prompts = 1 + i % 2, .max_new = CDZ_BENCH_NEW, .prompt = i};
        cdz_result *result = NULL;
        CDZ_CHECK_TRY(answer_of(&b, b.with, &order, &result));
        cdz_result_free(result);
    }
    cdz_engine_get_stats(b.runtime->engine, &stats);
    if (stats.kv_blocks_used != 0)
        return cdz_fail_check(c, "after the last request %llu blocks of KV memory are in use",
                              (unsigned long long)stats.kv_blocks_used);
    cdz_bench_close(&b);
    if (cdz_surroundings_changed(c->before, what, sizeof what))
        return cdz_fail_check(c, "requests changed %s and left it so", what);
    return CDZ_CHECK_OK;
}
