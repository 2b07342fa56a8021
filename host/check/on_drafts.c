/* on_drafts.c - what a drafter proposes, looked at before the host cuts it to what it can use.
 *
 * In the check's process the host's copy of the descriptor is changed: propose is ours, which asks the plugin's. A
 * function of the ABI has no argument of ours, so what it needs is the process's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "check/bench.h"
#include "check/checks.h"

enum { ROWS = 8 };

static struct spy {
    cdz_status (*propose)(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft);
    uint32_t n_vocab, calls, proposed;
    char complaint[400]; /* the first; "": none */
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

static cdz_status watched(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    uint64_t before[ROWS], after[ROWS];
    const uint32_t room = draft->room;
    look_at_rows(dec, before);
    const cdz_status status = spy.propose(dec, step, draft);
    look_at_rows(dec, after);
    spy.calls++;
    if (memcmp(before, after, sizeof before) != 0 && !spy.complaint[0])
        snprintf(spy.complaint, sizeof spy.complaint, "propose changed the request's rows");
    if (status != CDZ_OK) return status;
    spy.proposed += draft->tokens.len;
    complain(draft, room);
    return status;
}

/* The registry's descriptor is its own copy of the plugin's, in memory that can be written. */
static cdz_status plant(const cdz_bench *b, cdz_error *err)
{
    cdz_plugin_ref ref;
    const char *id = b->c->ref.base->id;
    CDZ_TRY(cdz_registry_find(b->runtime->registry, CDZ_KIND_DRAFTER, id, &ref, err));
    cdz_drafter *drafter = (cdz_drafter *)(uintptr_t)ref.base;
    spy.propose = drafter->propose;
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
    const cdz_status first = cdz_bench_needs(&b, &err);
    if (spy.complaint[0]) return cdz_fail_check(c, "%s", spy.complaint);
    if (first != CDZ_OK) return cdz_fail_check(c, "a request of 3 tokens: %s", err.text);
    for (uint32_t i = 0; i < 4; i++) {
        const cdz_order order = {.n_prompts = 1, .max_new = i == 3 ? 2 : 24, .seed = 5, .prompt = i};
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
