/* on_drafts.c - what a drafter proposes, looked at before the host cuts it to what it can use.
 *
 * In the check's process the host's copy of the descriptor is changed: propose is ours, which asks the plugin's. A
 * function of the ABI has no argument of ours, so what it needs is the process's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "call/calls.h"
#include "check/bench.h"
#include "check/checks.h"
#include "check/spy.h"
#include "check/spy_rows.h"

enum { ROWS = 8, REQUESTS = 4 };

static struct spy {
    cdz_child *c;
    bool guards_rows; /* of one request at a time */
    uint32_t requests;
    cdz_drafter real;
    uint32_t n_vocab, calls, proposed;
    char complaint[400]; /* the first; "": none */
    struct {
        uint64_t seed, hash; /* of a request's proposals so far, in order */
        uint32_t calls;
    } of[REQUESTS];
} spy;

static uint64_t hash_ids(cdz_ids ids)
{
    uint64_t hash = 1469598103934665603u + ids.len;
    for (uint32_t i = 0; i < ids.len; i++) hash = (hash ^ (uint32_t)ids.at[i]) * 1099511628211u;
    return hash;
}

static void look_at_rows(const cdz_decoder *dec, uint64_t hashes[ROWS])
{
    const uint32_t n = cdz_n_rows(dec);
    for (uint32_t r = 0; r < ROWS; r++) hashes[r] = r < n ? hash_ids(cdz_input_ids(dec, r)) : 0;
}

static void complain(const cdz_draft *draft, uint32_t room)
{
    if (spy.complaint[0]) return;
    if (draft->tokens.len > room)
        snprintf(spy.complaint, sizeof spy.complaint,
                 "propose named %" PRIu32 " tokens where %" PRIu32 " are of use (draft->room)",
                 draft->tokens.len, room);
    for (uint32_t i = 0; i < draft->tokens.len; i++)
        if (draft->tokens.at[i] < 0 || (uint32_t)draft->tokens.at[i] >= spy.n_vocab) {
            snprintf(spy.complaint, sizeof spy.complaint,
                     "propose named token %" PRId32 ", outside the vocabulary of %" PRIu32,
                     draft->tokens.at[i], spy.n_vocab);
            return;
        }
}

static void keep_hash(uint64_t seed, cdz_ids tokens)
{
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (spy.of[i].seed == seed) {
            spy.of[i].hash = (spy.of[i].hash ^ hash_ids(tokens)) * 1099511628211u;
            spy.of[i].calls++;
        }
}

static cdz_status watched(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    uint64_t before[ROWS], after[ROWS];
    const uint32_t room = draft->room;
    const cdz_ids history = draft->history;
    look_at_rows(dec, before);
    draft->history = cdz_show_ids(0, history);
    if (spy.guards_rows) cdz_spy_lend(spy.c, dec);
    cdz_call inside = {.raw = true}; /* the host's own guard is round it */
    const cdz_status status = cdz_call_propose(&inside, &spy.real, dec, step, draft);
    if (spy.guards_rows) cdz_spy_take_back(dec, &draft->scores);
    draft->history = history;
    look_at_rows(dec, after);
    spy.calls++;
    if (memcmp(before, after, sizeof before) != 0 && !spy.complaint[0])
        snprintf(spy.complaint, sizeof spy.complaint, "propose changed the request's rows");
    if (cdz_shown_complaint()[0] && !spy.complaint[0])
        snprintf(spy.complaint, sizeof spy.complaint, "propose %s", cdz_shown_complaint());
    if (status != CDZ_OK) return status;
    spy.proposed += draft->tokens.len;
    complain(draft, room);
    keep_hash(step->request->seed, draft->tokens);
    return status;
}

static cdz_status watched_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    if (spy.guards_rows) cdz_shown_begin(spy.requests++ % 2);
    cdz_call inside = {.raw = true};
    return cdz_call_draft_begin(&inside, &spy.real, dec, step, shared);
}

/* The registry's descriptor is its own copy of the plugin's, in memory that can be written. */
static cdz_status plant(const cdz_bench *b, cdz_error *err)
{
    cdz_plugin_ref ref;
    const char *id = b->c->ref.base->id;
    CDZ_TRY(cdz_registry_find(b->runtime->registry, CDZ_KIND_DRAFTER, id, &ref, err));
    cdz_drafter *drafter = (cdz_drafter *)(uintptr_t)ref.base;
    spy.c = b->c;
    spy.real = *drafter;
    drafter->begin = watched_begin;
    spy.n_vocab = cdz_model_vocab_size(b->model);
    drafter->propose = watched;
    cdz_module_release(ref.module); /* the registry keeps it */
    return CDZ_OK;
}

cdz_check_state cdz_check_proposals(cdz_child *c)
{
    cdz_bench b;
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_start(c, &b));
    if (plant(&b, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    spy.guards_rows = true;
    const cdz_status first = cdz_bench_needs(&b, &err);
    if (spy.complaint[0]) return cdz_fail_check(c, "%s", spy.complaint);
    if (first != CDZ_OK) return cdz_fail_check(c, "a request of 3 tokens: %s", err.text);
    for (uint32_t i = 0; i < 6; i++) {
        const cdz_order order = {.n_prompts = 1,
                                 .max_new = i == 3 ? 2 : 24u << i / 2,
                                 .seed = 5,
                                 .prompt = i,
                                 .wide = i > 2,
                                 .prompt_len = i == 4 ? 250 : 0};
        cdz_result *result = NULL;
        cdz_check_note(c, "a request of %u tokens with drafts", order.max_new);
        const cdz_status st = cdz_bench_run(&b, b.with, &order, &result, &err);
        cdz_result_free(result);
        if (spy.complaint[0]) return cdz_fail_check(c, "%s", spy.complaint);
        if (st != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    }
    cdz_bench_close(&b);
    if (spy.calls == 0) return cdz_skip_check(c, "it was never asked");
    return cdz_pass_check(c, "%u tokens in %u drafts", spy.proposed, spy.calls);
}

/* --- same-drafts ------------------------------------------------------------------------------------------------- */

static cdz_order request_of(uint32_t i)
{
    return (cdz_order){.n_prompts = 1, .max_new = 24, .seed = 70 + i, .prompt = i};
}

static cdz_check_state all_at_once(const cdz_bench *b)
{
    uint64_t ids[REQUESTS];
    cdz_error err = {0};
    cdz_check_note(b->c, "%d requests with drafts at once", (int)REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const cdz_order order = request_of(i);
        if (cdz_bench_submit(b, b->with, &order, &ids[i], &err) != CDZ_OK)
            return cdz_fail_check(b->c, "%s", err.text);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        cdz_result *result = NULL;
        const cdz_status st = cdz_wait(b->runtime, ids[i], &result, &err);
        cdz_result_free(result);
        if (st != CDZ_OK) return cdz_fail_check(b->c, "%s", err.text);
    }
    return CDZ_CHECK_OK;
}

static cdz_check_state one_by_one(const cdz_bench *b)
{
    cdz_error err = {0};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const cdz_order order = request_of(i);
        cdz_result *result = NULL;
        cdz_check_note(b->c, "a request with drafts");
        const cdz_status st = cdz_bench_run(b, b->with, &order, &result, &err);
        cdz_result_free(result);
        if (st != CDZ_OK) return cdz_fail_check(b->c, "%s", err.text);
    }
    return CDZ_CHECK_OK;
}

/* What was noted since the last time, by request. */
static void take_hashes(uint64_t hashes[REQUESTS])
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        hashes[i] = spy.of[i].hash;
        spy.of[i].seed = 70 + i, spy.of[i].hash = 0, spy.of[i].calls = 0;
    }
}

cdz_check_state cdz_check_same_drafts(cdz_child *c)
{
    cdz_bench b;
    cdz_error err = {0};
    uint64_t first[REQUESTS], again[REQUESTS], together[REQUESTS];
    CDZ_CHECK_TRY(cdz_bench_start(c, &b));
    if (plant(&b, &err) != CDZ_OK || cdz_bench_needs(&b, &err) != CDZ_OK)
        return cdz_fail_check(c, "%s", err.text);
    take_hashes(first);
    CDZ_CHECK_TRY(one_by_one(&b));
    take_hashes(first);
    CDZ_CHECK_TRY(one_by_one(&b));
    take_hashes(again);
    CDZ_CHECK_TRY(all_at_once(&b));
    take_hashes(together);
    cdz_bench_close(&b);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        if (first[i] != again[i])
            return cdz_fail_check(c, "the same request again: other tokens were proposed");
        if (first[i] != together[i])
            return cdz_fail_check(
                c, "with other requests beside it, other tokens were proposed: what is "
                   "kept of a request lies outside of it (a global, a static variable)");
    }
    return CDZ_CHECK_OK;
}

/* --- own-threads -------------------------------------------------------------------------------------------------- */

cdz_check_state cdz_check_own_threads_of_drafts(cdz_child *c)
{
    cdz_bench b;
    cdz_error err = {0};
    if (cdz_module_is_script(c->ref.module))
        return cdz_skip_check(c, "scripts have no threads of their own");
    CDZ_CHECK_TRY(cdz_bench_start(c, &b));
    if (plant(&b, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    spy.guards_rows = true; /* the verbs are lent */
    if (cdz_bench_needs(&b, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    CDZ_CHECK_TRY(one_by_one(&b));
    cdz_bench_close(&b);
    if (spy.calls == 0) return cdz_skip_check(c, "it was never asked");
    return cdz_judge_astray(c, cdz_spy_astray(), "engine");
}
