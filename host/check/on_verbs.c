/* on_verbs.c - what a strategy does with its verbs: passes on what they return, touches no ids or scores that are not there, ends
 * rows for reasons that can be, gives sequences back, and draws, takes back, drops and searches as it says. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cadenza/strategy.h"
#include "check/checks.h"
#include "check/setups.h"
#include "check/spy.h"
#include "check/spy_hidden.h"
#include "check/spy_rows.h"
#include "check/tables.h"

enum { WHAT = 200 };

static cdz_check_state open_spy(cdz_child *c, cdz_bench *b, cdz_spy **spy)
{
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_open(c, b));
    return cdz_spy_plant(b, spy, &err) == CDZ_OK ? CDZ_CHECK_OK : cdz_fail_check(c, "%s", err.text);
}

static cdz_status spied_request_on(const cdz_bench *b, cdz_pipeline *pipeline,
                                   const cdz_order *order, cdz_error *err)
{
    cdz_result *result = NULL;
    const cdz_status status = cdz_bench_run(b, pipeline, order, &result, err);
    cdz_result_free(result);
    return status;
}

static cdz_status spied_request(const cdz_bench *b, const cdz_order *order, cdz_error *err)
{
    return spied_request_on(b, b->with, order, err);
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

/* --- row-bounds ------------------------------------------------------------------------------------------------------- */

/* One request with its rows of scores between guards: the tokens are those that it gets without. */
static cdz_check_state between_guards(const cdz_bench *b, cdz_spy *spy, const cdz_order *order,
                                      bool at_end)
{
    char what[WHAT];
    cdz_result *want = NULL, *got = NULL;
    cdz_error err = {0};
    spy->guards_rows = false;
    cdz_check_note(b->c, "a request of %u tokens", order->max_new);
    cdz_status status = cdz_bench_run(b, b->with, order, &want, &err);
    spy->guards_rows = true;
    spy->at_end = at_end;
    cdz_check_note(b->c, "a request of %u tokens whose rows of scores lie between guards",
                   order->max_new);
    if (status == CDZ_OK) status = cdz_bench_run(b, b->with, order, &got, &err);
    const char *complaint = cdz_shown_complaint();
    cdz_check_state state = CDZ_CHECK_OK;
    if (complaint[0])
        state = cdz_fail_check(b->c, "a request of %u tokens: %s", order->max_new, complaint);
    else if (status != CDZ_OK)
        state = cdz_fail_check(b->c, "%s", err.text);
    else if (!cdz_bench_same(got, want, what, sizeof what))
        state = cdz_fail_check(b->c,
                               "when rows of scores lie further apart than n_vocab floats "
                               "(scores.stride, cdz_row): %s",
                               what);
    cdz_result_free(want);
    cdz_result_free(got);
    return state;
}

/* Request i of a check: three prompts where the strategy takes them, or one whose ids are of the whole vocabulary. */
static cdz_order mixed_order(const cdz_child *c, uint32_t i, uint32_t max_new)
{
    const cdz_strategy *strategy = (const void *)c->ref.base;
    const bool alone = strategy->caps & CDZ_ONE_ROW || i % 2;
    return (cdz_order){
        .n_prompts = alone ? 1 : 3, .max_new = max_new, .seed = 3, .prompt = i, .wide = i % 2};
}

cdz_check_state cdz_check_rows_of_scores(cdz_child *c)
{
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_open(c, &b));
    if (cdz_spy_plant(&b, &spy, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    for (uint32_t i = 0; i < 4; i++) {
        const cdz_order order = mixed_order(c, i, i < 2 ? LONG : SHORT);
        CDZ_CHECK_TRY(between_guards(&b, spy, &order, i % 2 == i / 2));
    }
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* --- caps ------------------------------------------------------------------------------------------------------------- */

enum { REWINDS_ROUNDS = 12, DROPS_ROUNDS = 80, FLAT = 2 };

/* Whether a value of the right kind, made up, may never be what the plugin waits for: a text, a list. */
static bool has_to_be_told(const cdz_child *c)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    for (uint32_t i = 0; c->options->n_set == 0 && i < table.n; i++)
        switch ((cdz_param_type)cdz_param_at(&table, i)->type) {
        case CDZ_T_BOOL:
        case CDZ_T_INT:
        case CDZ_T_REAL:
        case CDZ_T_WORD:
        case CDZ_T_OPT_BOOL:
        case CDZ_T_OPT_INT:
        case CDZ_T_OPT_REAL:
        case CDZ_T_BOOL_OR_WORD: break;
        default: return true;
        }
    return false;
}

/* One request, with its own settings or random ones; what refuses them says nothing here. */
static bool try_settings(cdz_bench *b, uint32_t round)
{
    const cdz_order order = {.n_prompts = 1, .max_new = LONG, .seed = round, .prompt = round};
    const cdz_setup *setup =
        round < 3 ? NULL : cdz_setup_random(b->c, &b->c->random, CDZ_TABLE_VOCAB, CDZ_MILD, NULL);
    cdz_pipeline *pipeline = NULL;
    cdz_check_note(b->c, "a request of %u tokens with %s", order.max_new,
                   setup ? setup->text : "its settings");
    if (setup && cdz_bench_pipeline(b, setup, &pipeline, NULL) != CDZ_OK) return false;
    const cdz_status status = spied_request_on(b, pipeline ? pipeline : b->with, &order, NULL);
    cdz_pipeline_free(pipeline);
    return status == CDZ_OK;
}

/* On the model and on small random ones, of which one is sure of every token and one of none. */
static cdz_check_state takes_back(cdz_bench *b, const cdz_spy *spy)
{
    static const double sharpness[FLAT] = {1.5, 0.3};
    cdz_child *c = b->c;
    cdz_model *const own = b->model, *models[FLAT + 1] = {own};
    cdz_error err = {0};
    uint32_t rewound = 0, n = 0;
    for (uint32_t i = 0; i < FLAT; i++)
        if (cdz_table_open(c, b->runtime, c->options->seed + i, sharpness[i], &models[1 + i],
                           &err) != CDZ_OK)
            return cdz_fail_check(c, "%s", err.text);
    const double until = cdz_now_s() + 0.3e-3 * c->patience_ms;
    for (; n < REWINDS_ROUNDS && rewound == 0 && (n < 3 || cdz_now_s() < until); n++) {
        b->model = models[n % (FLAT + 1)];
        b->stand_in = b->model != own ? b->model : NULL;
        rewound = try_settings(b, n) ? spy->rewound : 0;
    }
    b->model = own;
    b->stand_in = NULL;
    for (uint32_t i = 0; i < FLAT; i++) cdz_model_close(models[1 + i]);
    if (rewound > 0) return CDZ_CHECK_OK;
    if (has_to_be_told(c))
        return cdz_skip_check(
            c,
            "it declares CDZ_REWINDS and took nothing back in %u requests; say with "
            "-s name=value when it does",
            n);
    return cdz_fail_check(c,
                          "it declares CDZ_REWINDS and took nothing back in %u requests: text is "
                          "held back until a row ends, for nothing",
                          n);
}

/* Requests of those that do are let in although memory would not hold them: who does not is a promise that others pay for. */
static cdz_check_state takes_out(cdz_bench *b, const cdz_spy *spy)
{
    cdz_child *c = b->c;
    const double until = cdz_now_s() + 0.3e-3 * c->patience_ms;
    uint32_t n = 0;
    bool dropped = false;
    for (; n < DROPS_ROUNDS && !dropped && (n < 3 || cdz_now_s() < until); n++)
        dropped = try_settings(b, n) && spy->dropped > 0;
    if (dropped) return CDZ_CHECK_OK;
    if (has_to_be_told(c))
        return cdz_skip_check(c,
                              "it declares that it drops (drops = true, cdz_kv_api) and took nothing "
                              "out of a cache in %u requests; say with -s name=value when it does",
                              n);
    return cdz_fail_check(c,
                          "it declares that it drops (drops = true, cdz_kv_api) and took nothing out "
                          "of a cache in %u requests of %d tokens: it is let in for memory that it "
                          "does not give back",
                          n, (int)LONG);
}

static cdz_check_state judge_caps(cdz_child *c, uint32_t caps, const cdz_spy *spy)
{
    if (caps & CDZ_GREEDY && spy->drew)
        return cdz_fail_check(c, "it declares CDZ_GREEDY (do_sample = false), and draws");
    if (caps & CDZ_SAMPLES && !(caps & CDZ_GREEDY) && !spy->drew)
        return cdz_fail_check(c,
                              "it declares CDZ_SAMPLES (do_sample = true), and drew nothing in %d "
                              "tokens",
                              (int)LONG);
    if (spy->rewound > 0 && !(caps & (CDZ_REWINDS | CDZ_BEAMS)))
        return cdz_fail_check(c, "it calls cdz_rewind, which the host refuses, since it does not "
                                 "declare CDZ_REWINDS");
    if (caps & CDZ_BEAMS && !spy->searched)
        return cdz_fail_check(c, "it declares CDZ_BEAMS (num_beams above 1), and searches nothing: "
                                 "it neither moves rows (cdz_extend_rows, cdz_reorder) nor has "
                                 "sequences of its own");
    if (caps & CDZ_BEAMS && !spy->returned_rows)
        return cdz_fail_check(c, "it declares CDZ_BEAMS (num_beams above 1), and does not say which "
                                 "sequences are the answer (cdz_return_rows)");
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_check_caps(cdz_child *c)
{
    const uint32_t caps = ((const cdz_strategy *)(const void *)c->ref.base)->caps;
    const cdz_order order = {.n_prompts = 1, .max_new = LONG, .seed = 3};
    cdz_bench b;
    cdz_spy *spy;
    cdz_offers offers = {0};
    cdz_error err = {0};
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    cdz_check_note(c, "a request of %d tokens", (int)LONG);
    if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    CDZ_CHECK_TRY(judge_caps(c, caps, spy));
    const uint32_t dropped = spy->dropped;
    if (caps & CDZ_REWINDS && spy->rewound == 0) CDZ_CHECK_TRY(takes_back(&b, spy));
    if (cdz_offers_ask(c->ref.base, &offers, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    if (offers.kv && dropped == 0) CDZ_CHECK_TRY(takes_out(&b, spy));
    cdz_bench_close(&b);
    return CDZ_CHECK_OK;
}

/* --- on-hidden -------------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_on_hidden_of_run(cdz_child *c)
{
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    spy->watches_hidden = true;
    for (uint32_t i = 0; i < 3; i++) {
        const cdz_order order = mixed_order(c, i, i < 2 ? SHORT : LONG);
        cdz_check_note(c, "a request whose hidden states are shown to on_hidden twice");
        if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    }
    cdz_bench_close(&b);
    if (cdz_spy_hidden_complaint()[0]) return cdz_fail_check(c, "%s", cdz_spy_hidden_complaint());
    if (cdz_spy_hidden_calls() == 0)
        return cdz_skip_check(c, "it gives no function to cdz_on_hidden");
    return CDZ_CHECK_OK;
}

/* --- own-threads ----------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_own_threads_of_run(cdz_child *c)
{
    cdz_bench b;
    cdz_spy *spy;
    cdz_error err = {0};
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "scripts have no threads of their own");
    CDZ_CHECK_TRY(open_spy(c, &b, &spy));
    for (uint32_t i = 0; i < 3; i++) {
        const cdz_order order = {.n_prompts = 1, .max_new = 40, .seed = 3, .prompt = i};
        cdz_check_note(c, "a request of 40 tokens");
        if (spied_request(&b, &order, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    }
    cdz_bench_close(&b);
    return cdz_judge_astray(c, cdz_spy_astray(), "engine");
}
