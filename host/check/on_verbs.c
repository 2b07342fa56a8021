/* on_verbs.c - what a strategy does with its verbs: passes on what they return, reads no ids that are not there, ends rows for
 * reasons that can be, gives sequences back, and draws when it says so. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cadenza/strategy.h"
#include "check/checks.h"
#include "check/spy.h"

static cdz_check_state open_spy(cdz_child *c, cdz_bench *b, cdz_spy **spy)
{
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_open(c, b));
    return cdz_spy_plant(b, spy, &err) == CDZ_OK ? CDZ_CHECK_OK : cdz_fail_check(c, "%s", err.text);
}

static cdz_status spied_request(const cdz_bench *b, const cdz_order *order, cdz_error *err)
{
    cdz_result *result = NULL;
    const cdz_status status = cdz_bench_run(b, b->with, order, &result, err);
    cdz_result_free(result);
    return status;
}

/* --- passes-on --------------------------------------------------------------------------------------------------- */

enum { EACH = 40, FAR = 12 }; /* the first so many verbs, and so many of those behind them */

static cdz_check_state fail_one(const cdz_bench *b, cdz_spy *spy, uint32_t at)
{
    const cdz_order order = {.n_prompts = 1, .max_new = 6, .seed = 3};
    cdz_error err = {0};
    spy->fail_at = at;
    cdz_check_note(b->c, "a request whose verbs return CDZ_E_CANCELLED from call %u on", at);
    (void)spied_request(b, &order, &err);
    if (spy->after > 0 && spy->returned == CDZ_OK && !spy->returned_rows)
        return cdz_fail_check(
            b->c,
            "verb %u of a request returned CDZ_E_CANCELLED, and run returned CDZ_OK: "
            "what verbs return has to be passed on",
            at);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_passes_on(cdz_child *c)
{
    const cdz_order order = {.n_prompts = 1, .max_new = 6, .seed = 3};
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    const uint32_t n = spy->calls;
    const double until = cdz_now_s() + 0.3e-3 * c->patience_ms;
    uint32_t tried = 0;
    for (uint32_t at = 1; at <= n && cdz_now_s() < until; tried++) {
        CDZ_CHECK_TRY(fail_one(&b, spy, at));
        at += at < EACH ? 1 : 1 + (n - EACH) / FAR;
    }
    cdz_bench_close(&b);
    return cdz_pass_check(c, "%u of %u verbs failed in turn", tried, n);
}

/* --- ids-bounds ----------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_ids_of_rows(cdz_child *c)
{
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    spy->guards_ids = true;
    for (uint32_t i = 0; i < 3; i++) {
        const cdz_order order = {
            .n_prompts = 1, .max_new = 40, .seed = 3, .prompt = i, .wide = true};
        cdz_check_note(c, "a request of 40 tokens whose input_ids lie between guards");
        if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    }
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* --- reasons --------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_reasons(cdz_child *c)
{
    static const uint32_t lengths[] = {1, 12, 100};
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const cdz_order order = {.n_prompts = 1, .max_new = lengths[i], .seed = 3, .prompt = i};
        cdz_check_note(c, "a request of %u tokens", lengths[i]);
        if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
        if (spy->complaint[0]) return cdz_fail_check(c, "%s", spy->complaint);
    }
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* --- sequences ------------------------------------------------------------------------------------------------------- */

enum { SHORT = 8, LONG = 40 };

cdz_check_state cdz_check_sequences(cdz_child *c)
{
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    uint32_t live[2];
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "a script's sequences are collected");
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    for (int i = 0; i < 2; i++) {
        const cdz_order order = {.n_prompts = 1, .max_new = i ? LONG : SHORT, .seed = 3};
        cdz_check_note(c, "a request of %u tokens", order.max_new);
        if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
        live[i] = spy->live;
    }
    cdz_bench_close(&b);
    if (live[1] < live[0] + (LONG - SHORT) / 2) return CDZ_CHECK_OK;
    return cdz_fail_check(
        c,
        "after %d tokens it has %u sequences that it made and did not free, after %d "
        "tokens %u: each keeps its KV memory until the request ends (cdz_seq_free)",
        (int)SHORT, live[0], (int)LONG, live[1]);
}

/* --- caps ------------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_caps(cdz_child *c)
{
    const cdz_strategy *strategy = (const void *)c->ref.base;
    const cdz_order order = {.n_prompts = 1, .max_new = LONG, .seed = 3};
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    if (!(strategy->caps & (CDZ_GREEDY | CDZ_SAMPLES)))
        return cdz_skip_check(c, "it declares neither CDZ_GREEDY nor CDZ_SAMPLES");
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    cdz_check_note(c, "a request of %d tokens", (int)LONG);
    if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    cdz_bench_close(&b);
    if (strategy->caps & CDZ_GREEDY && spy->drew)
        return cdz_fail_check(c, "it declares CDZ_GREEDY (do_sample = false), and draws");
    if (strategy->caps & CDZ_SAMPLES && !spy->drew)
        return cdz_fail_check(c,
                              "it declares CDZ_SAMPLES (do_sample = true), and drew nothing in %d "
                              "tokens",
                              (int)LONG);
    return CDZ_CHECK_OK;
}
