/* exchange.c - one call from its first word to its last: the lock, what the process has to be told, its questions, the
 * deadline over all of it, and what becomes of the process when it answers wrongly. */
#include "isolate/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "isolate/answers.h"
#include "isolate/values.h"

/* Seconds beyond its own deadline that a call waits for another one's end. */
enum { PATIENCE_SECONDS = 10, MOST_SLOTS = 1 << 16 };

/* --- failures ------------------------------------------------------------------------------------------------- */

static cdz_status unlock(cdz_exchange *x, cdz_status status)
{
    pthread_mutex_unlock(&x->proxy->of->lock);
    return status;
}

/* The process is lost, and with it this call. */
static cdz_status lose(cdz_exchange *x, const char *what)
{
    cdz_isolate_crashed(x->proxy->of);
    return unlock(x, cdz_fail(x->step, CDZ_E_PLUGIN, "its process %s in %s", what, x->call));
}

static cdz_status ended(cdz_exchange *x)
{
    char fate[128];
    cdz_peer_fate(&x->proxy->of->process, fate, sizeof fate);
    return lose(x, fate);
}

static int64_t deadline_ms(const cdz_exchange *x)
{
    const uint32_t at = x->proxy->deadline_at;
    return at == UINT32_MAX ? 1000
                            : *(const int64_t *)(const void *)((const char *)x->step->params + at);
}

static cdz_status late(cdz_exchange *x)
{
    cdz_isolate_crashed(x->proxy->of);
    return unlock(x, cdz_fail(x->step, CDZ_E_PLUGIN,
                              "%s took longer than %lld ms (" CDZ_DEADLINE_PARAM
                              "); its process was ended",
                              x->call, (long long)deadline_ms(x)));
}

/* --- talking ---------------------------------------------------------------------------------------------------- */

static cdz_wire_out up_of(const cdz_isolate *isolate)
{
    return (cdz_wire_out){.at = isolate->process.map + CDZ_ISOLATE_UP, .cap = CDZ_ISOLATE_UP_BYTES};
}

/* CDZ_OK, or the process is lost. */
static cdz_status give_turn(cdz_exchange *x, const cdz_wire_out *out)
{
    cdz_peer *process = &x->proxy->of->process;
    atomic_store_explicit(&cdz_peer_head(process)->up_bytes, (uint32_t)out->len,
                          memory_order_relaxed);
    return cdz_peer_give_turn(process) ? CDZ_OK : lose(x, "spoke out of turn");
}

/* What a plugin's function returned, with its sentence. */
static cdz_status outcome(const cdz_exchange *x, const cdz_isolate_verdict *done)
{
    char text[CDZ_ERROR_TEXT];
    if (done->code > CDZ_E_INTERNAL)
        return cdz_fail(x->step, CDZ_E_PLUGIN, "%s returned %u, which is no status", x->call,
                        done->code);
    if (!done->said.len) return (cdz_status)done->code;
    return cdz_fail(x->step, (cdz_status)done->code, "%s",
                    cdz_isolate_clean(done->said, text, sizeof text));
}

/* Status and sentence of DONE; CDZ_OK when the call went well. */
static cdz_status take_done(cdz_exchange *x)
{
    cdz_arena arena = {0};
    cdz_isolate_verdict done;
    cdz_status status;
    if (!cdz_take_done(&x->in, &arena, &done)) {
        status = lose(x, "gave no proper answer");
    } else {
        status = outcome(x, &done);
        if (status != CDZ_OK) status = unlock(x, status);
    }
    cdz_arena_free(&arena);
    return status;
}

/* Answers one question and gives the turn away again. The answer is work of the host's: it counts in the call's time. */
static cdz_status answer(cdz_exchange *x, uint32_t kind)
{
    cdz_wire_out out = up_of(x->proxy->of);
    if (cdz_now_s() >= x->until) return late(x);
    if (++x->questions > CDZ_ASK_QUESTIONS) return lose(x, "asked questions without end");
    cdz_put_u32(&out, CDZ_UP_ANSWER);
    if (x->in.bad || !cdz_isolate_answer(x, kind, &out) || out.full)
        return lose(x, "asked for what there is not");
    if (cdz_now_s() >= x->until) return late(x);
    return give_turn(x, &out);
}

/* Waits for DONE, answering what is asked before it. */
static cdz_status converse(cdz_exchange *x)
{
    cdz_isolate *isolate = x->proxy->of;
    for (;;) {
        const cdz_peer_state state = cdz_peer_wait(&isolate->process, x->until);
        if (state == CDZ_PEER_ENDED) return ended(x);
        if (state == CDZ_PEER_LATE) return late(x);
        if (state == CDZ_PEER_FORGED) return lose(x, "spoke out of turn");
        if (!cdz_isolate_read(isolate, &x->in)) return lose(x, "gave no proper answer");
        const uint32_t kind = cdz_take_u32(&x->in);
        if (kind == CDZ_DOWN_DONE) return take_done(x);
        CDZ_TRY(answer(x, kind));
    }
}

cdz_status cdz_exchange_send(cdz_exchange *x)
{
    if (x->out.full) {
        if (x->session) x->session->incarnation = 0; /* it was told only in part */
        return unlock(x, cdz_fail(x->step, CDZ_E_LIMIT,
                                  "%s has more to say than fits between two processes (%u MiB)",
                                  x->call, CDZ_ISOLATE_UP_BYTES >> 20));
    }
    x->until = cdz_now_s() + (double)deadline_ms(x) * 1e-3;
    x->questions = x->lines = 0;
    CDZ_TRY(give_turn(x, &x->out));
    return converse(x);
}

cdz_status cdz_exchange_close(cdz_exchange *x, bool well)
{
    if (!well) return lose(x, "gave no proper answer");
    return unlock(x, CDZ_OK);
}

/* --- sessions --------------------------------------------------------------------------------------------------- */

void cdz_isolate_session_free(cdz_isolate_session *session)
{
    for (uint32_t i = 0; i < session->n_told; i++) free(session->told[i].ids);
    free(session->told);
    cdz_arena_free(&session->gave);
    free(session);
}

static void put_plugin(cdz_exchange *x)
{
    const cdz_param_table table = cdz_params_of(&x->proxy->descriptor.base);
    cdz_put_u32(&x->out, x->proxy->index);
    cdz_put_params(&x->out, &table, x->proxy->n_own, x->step->params);
    if (x->step->request) cdz_put_request(&x->out, x->step->request);
}

/* Also when a request goes on in a new process: the plugin's begin builds there what it built in the old one. */
static cdz_status begin(cdz_exchange *x)
{
    cdz_isolate_session *session = x->session;
    const char *call = x->call;
    for (uint32_t i = 0; i < session->n_told; i++) session->told[i].len = 0;
    x->out = up_of(x->proxy->of);
    cdz_put_u32(&x->out, CDZ_UP_BEGIN);
    cdz_put_u64(&x->out, session->id);
    put_plugin(x);
    x->call = "begin";
    CDZ_TRY(cdz_exchange_send(x));
    if (!cdz_taken_whole(&x->in)) return lose(x, "gave no proper answer");
    session->incarnation = x->proxy->of->incarnation;
    x->call = call;
    return CDZ_OK;
}

static cdz_status lock(cdz_exchange *x)
{
    const double seconds = (double)deadline_ms(x) * 1e-3 + PATIENCE_SECONDS;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds + 1;
    const int bad = pthread_mutex_timedlock(&x->proxy->of->lock, &until);
    if (bad == 0) return CDZ_OK;
    return cdz_fail(x->step, CDZ_E_STATE, "%s: its process is in the middle of another call%s",
                    x->call, bad == EDEADLK ? " that asked for this one" : "");
}

cdz_status cdz_exchange_open(cdz_exchange *x, cdz_isolate_up kind, bool fresh)
{
    cdz_isolate *isolate = x->proxy->of;
    cdz_isolate_session *session = x->session;
    cdz_error err = {0};
    CDZ_TRY(lock(x));
    const cdz_status st = cdz_isolate_ensure(isolate, fresh, &err);
    if (st != CDZ_OK) return unlock(x, cdz_fail(x->step, st, "%s", err.text));
    if (session && !session->id) session->id = ++isolate->next_session;
    if (session && session->incarnation != isolate->incarnation) CDZ_TRY(begin(x));
    if (kind == CDZ_UP_BEGIN) return CDZ_OK;
    x->out = up_of(isolate);
    cdz_put_u32(&x->out, kind);
    if (session)
        cdz_put_u64(&x->out, session->id);
    else
        put_plugin(x);
    return CDZ_OK;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Rows of a call that continue the same request row (drafts, candidates) have a history each. */
static uint32_t slot_of(const cdz_step *step, uint32_t i)
{
    uint32_t before = 0;
    for (uint32_t k = 0; k < i; k++) before += step->row_index[k] == step->row_index[i];
    return step->row_index[i] + before * step->request->n_rows;
}

static struct cdz_told *told_of(cdz_isolate_session *session, uint32_t slot)
{
    if (slot >= MOST_SLOTS) return NULL;
    if (slot >= session->n_told) {
        struct cdz_told *more = realloc(session->told, ((size_t)slot + 1) * sizeof *more);
        if (!more) return NULL;
        memset(more + session->n_told, 0, (slot + 1 - session->n_told) * sizeof *more);
        session->told = more;
        session->n_told = slot + 1;
    }
    return &session->told[slot];
}

static bool make_room(struct cdz_told *told, uint32_t len)
{
    if (len <= told->cap) return true;
    const uint32_t cap = len + len / 2 + 64;
    int32_t *more = cap > len ? realloc(told->ids, (size_t)cap * sizeof *more) : NULL;
    if (!more) return false;
    told->ids = more;
    told->cap = cap;
    return true;
}

/* The slot, how much of what it was told before stays, and what comes after that. */
static bool put_ids(cdz_exchange *x, uint32_t slot, cdz_ids ids)
{
    struct cdz_told *told = told_of(x->session, slot);
    if (!told || !make_room(told, ids.len)) return false;
    const uint32_t least = told->len < ids.len ? told->len : ids.len;
    uint32_t same = least;
    if (least && memcmp(told->ids, ids.at, least * sizeof *ids.at) != 0)
        for (same = 0; told->ids[same] == ids.at[same];) same++;
    cdz_put_u32(&x->out, slot);
    cdz_put_u32(&x->out, same);
    cdz_put_ids(&x->out, (cdz_ids){ids.at + same, ids.len - same});
    if (ids.len > same) memcpy(told->ids + same, ids.at + same, (ids.len - same) * sizeof *ids.at);
    told->len = ids.len;
    return true;
}

cdz_status cdz_exchange_put_rows(cdz_exchange *x)
{
    const cdz_step *step = x->step;
    const uint32_t state_size = step->row_state ? x->proxy->state_size : 0;
    cdz_put_u32(&x->out, step->n_rows);
    cdz_put_u32(&x->out, step->input_ids != NULL);
    cdz_put_u32(&x->out, state_size);
    for (uint32_t i = 0; i < step->n_rows; i++) {
        cdz_put_u32(&x->out, step->row_index[i]);
        if (state_size) cdz_put(&x->out, step->row_state[i], state_size);
        if (!step->input_ids || put_ids(x, slot_of(step, i), step->input_ids[i])) continue;
        x->session->incarnation = 0;
        return unlock(
            x, cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory for the rows' tokens", x->call));
    }
    return CDZ_OK;
}
