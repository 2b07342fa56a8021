/* outside.c - verbs that wait for what is outside of the engine: time, files, functions on helper threads, the program.
 *
 * Owns: the loop's pause, which the engine looks at between ticks (run/engine/outside.c). While it lasts the loop wants
 * nothing of a pass, and its blocks may be taken from it as from any other. Not: the helpers' threads (base/helpers.h). */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>

#include "base/assert.h"
#include "run/loop/loop.h"
#include "run/loop/verbs.h"

#define MOST_ANSWER (16u << 20)
static const double longest_s = 1e6;

bool cdz_loop_pause_is_over(const cdz_loop *loop)
{
    const cdz_loop_pause *p = &loop->pause;
    if (p->errand && atomic_load(&p->errand->done)) return true;
    if (p->insists) return false;
    if (p->came || (p->until_s > 0 && cdz_now_s() >= p->until_s)) return true;
    return cdz_loop_alive(loop) != CDZ_OK;
}

static cdz_status open_outside(cdz_loop *loop, const char *verb, cdz_helpers **helpers)
{
    const cdz_berth *berth = loop->rows.berth;
    cdz_error why = {0};
    if (!berth->go_outside)
        return cdz_loop_fail(loop, CDZ_E_STATE, "%s: there is no engine to wait beside", verb);
    const cdz_status status = berth->go_outside(berth->outside_of, helpers, &why);
    if (status != CDZ_OK) return cdz_loop_fail(loop, status, "%s: %s", verb, why.text);
    return CDZ_OK;
}

static void sleep_over(cdz_loop *loop)
{
    const cdz_berth *berth = loop->rows.berth;
    const cdz_work was = cdz_profile_mark(berth->profile, CDZ_WORK_STRATEGY);
    cdz_assert(!loop->waiting);
    loop->pause.on = true;
    ++*berth->n_outside;
    cdz_fibre_suspend(loop->fibre);
    --*berth->n_outside;
    loop->pause.on = false;
    cdz_profile_mark(berth->profile, was);
}

static bool is_time(double seconds)
{
    return seconds >= 0 && seconds <= longest_s;
}

cdz_status cdz_verb_sleep(cdz_decoder *dec, double seconds)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_helpers *unused;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!is_time(seconds))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "sleep: %g seconds; expected a number from 0 to a million", seconds);
    CDZ_TRY(open_outside(loop, "sleep", &unused));
    loop->pause = (cdz_loop_pause){.until_s = cdz_now_s() + seconds};
    sleep_over(loop);
    return cdz_loop_alive(loop);
}

static short polled(uint32_t events)
{
    return (short)((events & CDZ_FD_READS ? POLLIN : 0) | (events & CDZ_FD_WRITES ? POLLOUT : 0));
}

/* What is broken is ready for what was waited for: the next read or write says what is wrong. */
static uint32_t ready_for(uint32_t events, short came)
{
    if (came & (POLLERR | POLLHUP | POLLNVAL)) return events;
    return (came & POLLIN ? CDZ_FD_READS : 0u) | (came & POLLOUT ? CDZ_FD_WRITES : 0u);
}

cdz_status cdz_verb_wait_fd(cdz_decoder *dec, int fd, uint32_t events, double seconds,
                            uint32_t *ready)
{
    cdz_loop *loop = cdz_loop_of(dec);
    cdz_helpers *unused;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!events || events & ~(uint32_t)(CDZ_FD_READS | CDZ_FD_WRITES))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "wait_fd: events 0x%" PRIx32 "; expected CDZ_FD_READS, "
                             "CDZ_FD_WRITES or both",
                             events);
    if (fcntl(fd, F_GETFD) < 0)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "wait_fd: %d is no open file", fd);
    if (!(seconds < 0) && !is_time(seconds))
        return cdz_loop_fail(
            loop, CDZ_E_PLUGIN,
            "wait_fd: %g seconds; expected a number up to a million, or one below 0", seconds);
    CDZ_TRY(open_outside(loop, "wait_fd", &unused));
    loop->pause = (cdz_loop_pause){
        .fd = fd, .events = polled(events), .until_s = seconds < 0 ? 0 : cdz_now_s() + seconds};
    sleep_over(loop);
    if (ready) *ready = ready_for(events, loop->pause.came);
    return cdz_loop_alive(loop);
}

/* Gives it to a helper and sleeps until it is done, or taken back before it began. */
static cdz_status have_done(cdz_loop *loop, const char *verb, void (*fn)(void *arg), void *arg)
{
    cdz_helper_errand errand = {.run = fn, .arg = arg};
    cdz_helpers *helpers;
    cdz_error why = {0};
    CDZ_TRY(open_outside(loop, verb, &helpers));
    const cdz_status given = cdz_helpers_give(helpers, &errand, &why);
    if (given != CDZ_OK) return cdz_loop_fail(loop, given, "%s: %s", verb, why.text);
    loop->pause = (cdz_loop_pause){.errand = &errand};
    while (!atomic_load(&errand.done)) {
        sleep_over(loop);
        if (cdz_loop_alive(loop) == CDZ_OK) continue;
        if (cdz_helpers_take_back(helpers, &errand)) break;
        loop->pause.insists = true; /* it uses what lies on this stack */
    }
    loop->pause.errand = NULL;
    return cdz_loop_alive(loop);
}

cdz_status cdz_verb_offload(cdz_decoder *dec, void (*fn)(void *arg), void *arg)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!fn) return cdz_loop_fail(loop, CDZ_E_PLUGIN, "offload: no function was given");
    return have_done(loop, "offload", fn, arg);
}

/* --- tools ---------------------------------------------------------------------------------------------------- */

/* A question on its way; call.scope is this. */
typedef struct question {
    cdz_tool_question call;
    const cdz_job *job;
    const cdz_berth *berth;
    cdz_buf *answer;
    cdz_error error;
    cdz_status status;
    bool too_long;
} question;

cdz_status cdz_tool_reply(const cdz_tool_question *call, const char *text, size_t len)
{
    question *q = call->scope;
    if (len > MOST_ANSWER - q->answer->len) {
        q->too_long = true;
        return CDZ_E_LIMIT;
    }
    cdz_buf_add(q->answer, text, len);
    return q->answer->failed ? CDZ_E_NOMEM : CDZ_OK;
}

bool cdz_tool_is_over(const cdz_tool_question *call)
{
    const cdz_berth *berth = ((const question *)call->scope)->berth;
    const double deadline = *berth->deadline_s;
    return atomic_load(berth->cancelled) || (deadline > 0 && cdz_now_s() >= deadline);
}

static void ask(void *arg)
{
    question *q = arg;
    q->status = q->job->on_tool(q->job->user, &q->call, &q->error);
}

/* The answer, or the sentence that says why there is none, in its place. */
static cdz_status read_answer(cdz_loop *loop, question *q, cdz_tool_answer *out)
{
    cdz_buf *answer = q->answer;
    if (q->status == CDZ_E_NOT_FOUND || q->status == CDZ_E_NOMEM)
        return cdz_loop_fail(loop, q->status, "call: %s",
                             q->error.text[0] ? q->error.text : cdz_status_text(q->status));
    if (answer->failed) return cdz_loop_nomem(loop);
    const bool failed = q->status != CDZ_OK || q->too_long;
    if (failed) cdz_buf_clear(answer);
    if (q->too_long)
        cdz_buf_printf(answer, "tool %s: the answer is longer than 16 MiB", q->call.name);
    else if (failed)
        cdz_buf_puts(answer, q->error.text[0] ? q->error.text : cdz_status_text(q->status));
    cdz_buf_add(answer, "", 0); /* so that there is a text, if an empty one */
    if (answer->failed) return cdz_loop_nomem(loop);
    out->failed = failed;
    out->text = (cdz_string){answer->data ? answer->data : "", (uint32_t)answer->len};
    return CDZ_OK;
}

cdz_status cdz_verb_call_tool(cdz_decoder *dec, const char *name, const char *text, uint32_t len,
                              cdz_tool_answer *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (!name || !*name) return cdz_loop_fail(loop, CDZ_E_PLUGIN, "call: a tool has a name");
    if (!loop->job->on_tool)
        return cdz_loop_fail(loop, CDZ_E_NOT_FOUND,
                             "call: the request has no tool \"%s\"; it has none (--tool "
                             "NAME=COMMAND, or cdz_request.on_tool)",
                             name);
    cdz_buf_clear(&loop->tool_answer);
    question q = {.call = {.size = sizeof q.call, .name = name, .text = {text, len}},
                  .job = loop->job,
                  .berth = loop->rows.berth,
                  .answer = &loop->tool_answer};
    q.call.scope = &q;
    CDZ_TRY(have_done(loop, "call", ask, &q));
    return read_answer(loop, &q, out);
}
