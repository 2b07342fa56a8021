/* on_watch.c - observers, call by call: none fails, whatever the decode loop does, and what they are shown is neither written
 * nor read past its end.
 *
 * In the check's process the host's copy of the descriptor is changed: its functions are ours, which call the plugin's. A
 * function of the ABI has no argument of ours, so what it needs is the process's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "call/calls.h"
#include "check/bench.h"
#include "check/checks.h"
#include "check/spy.h"

enum { SEEN_ROWS = 4 };

static struct watch {
    cdz_observer real;
    cdz_child *c;
    bool guards_ids, guards_rows;
    uint32_t calls, n_vocab;
    float *rows[2][SEEN_ROWS]; /* before and after, guarded */
    cdz_host host;             /* the host's, which says what it is told to us too */
    const cdz_host *behind;
    char said[300], complaint[500];
} watch;

/* --- one call ---------------------------------------------------------------------------------------------------- */

static CDZ_PRINTF(3, 4) cdz_status
    keep_sentence(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(watch.said, sizeof watch.said, fmt, args);
    va_end(args);
    return watch.behind->fail(step, code, "%s", watch.said);
}

/* The step as the plugin sees it. ids: (CDZ_SHOWN) where the guarded ones go. */
static cdz_step shown(const cdz_step *step, cdz_ids *ids)
{
    cdz_step now = *step;
    watch.said[0] = '\0';
    watch.calls++;
    watch.behind = step->host;
    watch.host = *step->host;
    watch.host.fail = keep_sentence;
    now.host = &watch.host;
    now.plugin = &watch.real.base;
    if (!watch.guards_ids || !step->input_ids || step->n_rows > CDZ_SHOWN) return now;
    for (uint32_t r = 0; r < step->n_rows; r++) ids[r] = cdz_show_ids(r, step->input_ids[r]);
    now.input_ids = ids;
    return now;
}

static cdz_status judged(const char *call, cdz_status status)
{
    if (status != CDZ_OK && !watch.complaint[0])
        snprintf(watch.complaint, sizeof watch.complaint,
                 "%s failed, and the observer would watch the request no further: %s", call,
                 watch.said[0] ? watch.said : "without saying why (cdz_fail)");
    return status;
}

/* The host's own guard is round each of these. */
static const cdz_call inside = {.raw = true};

#define NOTE(call) cdz_check_note(watch.c, "%s, call %u of the observer", call, watch.calls)

/* --- rows that it is shown ------------------------------------------------------------------------------------------ */

static const float *guard_row(float **at, const float *row, uint32_t n)
{
    const size_t bytes = n * sizeof *row;
    if (!*at) {
        *at = cdz_guarded(bytes, sizeof *row, true, "a row that it is shown");
        if (!*at || !cdz_guarded_lock(*at, bytes, sizeof *row, "a row that it may only look at"))
            return row;
    }
    cdz_guarded_unlock(*at, bytes);
    memcpy(*at, row, bytes);
    cdz_guarded_readable(*at, bytes, true);
    return *at;
}

/* by: NULL where all processors are done. */
static cdz_status tell_rows(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    cdz_call call = inside;
    return by ? cdz_call_stage(&call, &watch.real, step, by, seen)
              : cdz_call_scores(&call, &watch.real, step, seen);
}

static cdz_status show_rows(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    const float *before[SEEN_ROWS], *after[SEEN_ROWS];
    cdz_seen now = *seen;
    if (watch.n_vocab == 0) watch.n_vocab = seen->n_vocab;
    if (!watch.guards_rows || step->n_rows > SEEN_ROWS || seen->n_vocab != watch.n_vocab)
        return tell_rows(step, by, seen);
    for (uint32_t r = 0; r < step->n_rows; r++) {
        before[r] = guard_row(&watch.rows[0][r], seen->before[r], seen->n_vocab);
        after[r] = guard_row(&watch.rows[1][r], seen->after[r], seen->n_vocab);
    }
    now.before = before, now.after = after;
    return tell_rows(step, by, &now);
}

/* --- the observer's functions ---------------------------------------------------------------------------------------- */

static cdz_status watch_stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    NOTE("stage");
    return judged("stage", show_rows(&now, by, seen));
}

static cdz_status watch_scores(const cdz_step *step, const cdz_seen *seen)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    NOTE("scores");
    return judged("scores", show_rows(&now, NULL, seen));
}

static cdz_status watch_begin(const cdz_step *step, void **shared)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    cdz_call call = inside;
    NOTE("begin");
    return judged("begin", cdz_call_begin(&call, &now, shared));
}

static cdz_status watch_token(const cdz_step *step, int32_t token)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    cdz_call call = inside;
    NOTE("token");
    return judged("token", cdz_call_token(&call, &watch.real, &now, token));
}

static cdz_status watch_stop(const cdz_step *step, const cdz_stop *stop)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    cdz_call call = inside;
    NOTE("stop");
    return judged("stop", cdz_call_stop(&call, &watch.real, &now, stop));
}

static cdz_status watch_rewind(const cdz_step *step, uint32_t n)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    cdz_call call = inside;
    NOTE("rewind");
    return judged("rewind", cdz_call_rewind(&call, &watch.real, &now, n));
}

static cdz_status watch_reorder(const cdz_step *step, const uint32_t *parents)
{
    cdz_ids ids[CDZ_SHOWN];
    const cdz_step now = shown(step, ids);
    cdz_call call = inside;
    NOTE("reorder");
    return judged("reorder", cdz_call_reorder(&call, &watch.real, &now, parents));
}

static cdz_status plant(const cdz_bench *b, cdz_error *err)
{
    cdz_plugin_ref ref;
    CDZ_TRY(
        cdz_registry_find(b->runtime->registry, CDZ_KIND_OBSERVER, b->c->ref.base->id, &ref, err));
    cdz_observer *at = (cdz_observer *)(uintptr_t)ref.base; /* the registry's own copy */
    watch.real = *at;
    watch.c = b->c;
    if (at->begin) at->begin = watch_begin;
    if (at->stage) at->stage = watch_stage;
    if (at->scores) at->scores = watch_scores;
    if (at->token) at->token = watch_token;
    if (at->stop) at->stop = watch_stop;
    if (at->rewind) at->rewind = watch_rewind;
    if (at->reorder) at->reorder = watch_reorder;
    cdz_module_release(ref.module); /* the registry keeps it */
    return CDZ_OK;
}

/* --- the checks -------------------------------------------------------------------------------------------------------- */

/* Decode loops of every kind: rows alone and three, long prompts, samples, beams, drafts. */
const char *const cdz_decode_loops[CDZ_LOOPS] = {"", ", \"num_beams\": 3",
                                                 ", \"prompt_lookup_num_tokens\": 3"};

static cdz_check_state watch_all(cdz_child *c, bool guards_ids, bool guards_rows)
{
    cdz_bench b;
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_start(c, &b));
    if (plant(&b, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    watch.guards_ids = guards_ids, watch.guards_rows = guards_rows;
    for (uint32_t i = 0; i < 4 * CDZ_LOOPS; i++) {
        const bool alone = i % CDZ_LOOPS == 2 || i / CDZ_LOOPS % 2;
        const cdz_order order = {.n_prompts = alone ? 1 : 3,
                                 .max_new = i / CDZ_LOOPS == 3 ? 120 : 24,
                                 .seed = i,
                                 .prompt = i,
                                 .wide = i / CDZ_LOOPS >= 2,
                                 .prompt_len = i / CDZ_LOOPS == 3 ? 150 : 0,
                                 .sampling = i % CDZ_LOOPS == 0 && i % 2};
        cdz_result *result = NULL;
        b.kwargs = cdz_decode_loops[i % CDZ_LOOPS];
        cdz_check_note(c, "a request of %u tokens%s", order.max_new, b.kwargs);
        const cdz_status status = cdz_bench_run(&b, b.with, &order, &result, &err);
        cdz_result_free(result);
        if (watch.complaint[0])
            return cdz_fail_check(c, "a request of %u tokens%s: %s", order.max_new, b.kwargs,
                                  watch.complaint);
        if (status != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    }
    cdz_bench_close(&b);
    return cdz_pass_check(c, "%u calls of its functions", watch.calls);
}

cdz_check_state cdz_check_watches(cdz_child *c)
{
    return watch_all(c, false, false);
}

cdz_check_state cdz_check_ids_shown(cdz_child *c)
{
    return watch_all(c, true, false);
}

cdz_check_state cdz_check_rows_shown(cdz_child *c)
{
    return watch_all(c, false, true);
}
