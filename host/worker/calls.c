/* calls.c - the calls of a host, made on the plugin: sessions opened and closed, rows laid out as the plugin sees them. */
#include <stdlib.h>
#include <string.h>

#include "call/calls.h"
#include "isolate/values.h"
#include "worker/worker.h"

/* The rows of one call. */
typedef struct rows {
    uint32_t n, state_size;
    uint32_t *index;
    cdz_ids *ids; /* NULL: not told */
    void **states;
    unsigned char *state_bytes; /* (n, state_size padded) */
} rows;

/* One call being made. */
typedef struct call {
    cdz_worker *w;
    cdz_wire_in *in;
    cdz_worker_session *session;
    cdz_step step;
    cdz_arena arena; /* of the call */
    rows rows;
    cdz_call made;
    cdz_status status;
    const char *name;
} call;

/* --- sessions ------------------------------------------------------------------------------------------------------ */

static void free_session(cdz_worker_session *session)
{
    for (uint32_t i = 0; i < session->n_told; i++) free(session->told[i].ids);
    free(session->told);
    cdz_arena_free(&session->arena);
    free(session);
}

static cdz_worker_session *find_session(cdz_worker *w, uint64_t id, bool take)
{
    for (cdz_worker_session **at = &w->sessions; *at; at = &(*at)->next) {
        cdz_worker_session *found = *at;
        if (found->id != id) continue;
        if (take) *at = found->next;
        return found;
    }
    return NULL;
}

/* The plugin, its parameters and, unless it is only created, the request. */
static cdz_worker_session *read_session(cdz_worker *w, cdz_wire_in *in, bool has_request)
{
    cdz_worker_session *session = calloc(1, sizeof *session);
    const uint32_t index = cdz_take_u32(in);
    if (!session || in->bad || index >= w->n_plugins) {
        free(session);
        return NULL;
    }
    session->plugin = &w->plugins[index];
    const cdz_param_table table = cdz_params_of(&session->plugin->base);
    session->params = cdz_arena_alloc(&session->arena, table.params_size ? table.params_size : 1);
    if (session->params) cdz_take_params(in, &table, &session->arena, session->params);
    if (has_request) {
        session->request = cdz_arena_alloc(&session->arena, sizeof *session->request);
        if (session->request) cdz_take_request(in, &session->arena, session->request);
    }
    if (!in->bad && session->params && (session->request || !has_request)) return session;
    free_session(session);
    return NULL;
}

/* --- rows ------------------------------------------------------------------------------------------------------------ */

static cdz_told_ids *told_of(cdz_worker_session *session, uint32_t slot)
{
    if (slot >= session->n_told) {
        cdz_told_ids *more = realloc(session->told, ((size_t)slot + 1) * sizeof *more);
        if (!more) return NULL;
        memset(more + session->n_told, 0, (slot + 1 - session->n_told) * sizeof *more);
        session->told = more;
        session->n_told = slot + 1;
    }
    return &session->told[slot];
}

static bool take_told(cdz_wire_in *in, cdz_worker_session *session, uint32_t *slot)
{
    *slot = cdz_take_u32(in);
    const uint32_t same = cdz_take_u32(in), n = cdz_take_u32(in);
    const void *fresh = cdz_take_items(in, n, sizeof(int32_t));
    cdz_told_ids *told = fresh ? told_of(session, *slot) : NULL;
    if (!told || same > told->len) return false;
    if (same + n > told->cap) {
        const uint32_t cap = (same + n) + (same + n) / 2 + 64;
        int32_t *more = realloc(told->ids, cap * sizeof *more);
        if (!more) return false;
        told->ids = more;
        told->cap = cap;
    }
    if (n) memcpy(told->ids + same, fresh, n * sizeof(int32_t));
    told->len = same + n;
    return true;
}

/* Histories are taken by slot first: taking one may move them all. */
static bool take_each(call *c, bool with_ids, uint32_t *slots)
{
    rows *r = &c->rows;
    const size_t apart = (r->state_size + 15u) & ~(size_t)15;
    for (uint32_t i = 0; i < r->n; i++) {
        r->index[i] = cdz_take_u32(c->in);
        const void *state = cdz_take(c->in, r->state_size);
        if (!state) return false;
        r->states[i] = r->state_bytes + i * apart;
        memcpy(r->states[i], state, r->state_size);
        if (with_ids && !take_told(c->in, c->session, &slots[i])) return false;
    }
    for (uint32_t i = 0; with_ids && i < r->n; i++) {
        const cdz_told_ids *told = &c->session->told[slots[i]];
        r->ids[i] = (cdz_ids){told->ids, told->len};
    }
    return true;
}

static bool take_rows(call *c)
{
    rows *r = &c->rows;
    r->n = cdz_take_u32(c->in);
    const bool with_ids = cdz_take_u32(c->in) != 0;
    r->state_size = cdz_take_u32(c->in);
    const size_t apart = (r->state_size + 15u) & ~(size_t)15;
    uint32_t *slots = cdz_arena_array(&c->arena, r->n, sizeof *slots);
    r->index = cdz_arena_array(&c->arena, r->n, sizeof *r->index);
    r->states = cdz_arena_array(&c->arena, r->n, sizeof *r->states);
    r->state_bytes = cdz_arena_array(&c->arena, r->n, apart ? apart : 1);
    cdz_ids *ids = cdz_arena_array(&c->arena, r->n, sizeof *ids);
    if (!slots || !r->index || !r->states || !r->state_bytes || !ids) return false;
    r->ids = ids;
    if (!take_each(c, with_ids, slots)) return false;
    if (!with_ids) r->ids = NULL;
    c->step.n_rows = r->n;
    c->step.input_ids = r->ids;
    c->step.row_index = r->index;
    c->step.row_state = r->state_size ? r->states : NULL;
    return true;
}

/* --- one call ---------------------------------------------------------------------------------------------------------- */

/* What the plugin broke is its own sentence here; the host words what it returned. */
static void judge(call *c, cdz_status returned)
{
    c->status = returned;
    if (c->made.broken) c->status = cdz_call_fault(&c->made, returned, NULL, &c->w->said);
}

static void create(call *c)
{
    judge(c, cdz_call_create(&c->made, &c->step));
}

static void idle(call *c, cdz_wire_out *out)
{
    const bool answer = cdz_call_idle(&c->made, &c->step);
    judge(c, CDZ_OK);
    if (c->status == CDZ_OK) cdz_put_u32(out, answer);
}

static void begin(call *c)
{
    const cdz_descriptor *d = c->session->plugin;
    void **shared = &c->session->shared;
    if (d->base.kind == CDZ_KIND_DRAFTER) {
        cdz_worker_decoder dec = cdz_worker_decoder_for(c->w, &c->step);
        judge(c, cdz_call_draft_begin(&c->made, &d->drafter, &dec.base, &c->step, shared));
    } else {
        judge(c, cdz_call_begin(&c->made, &c->step, shared));
    }
}

static void end(call *c)
{
    cdz_call_end(&c->made, &c->step);
    judge(c, CDZ_OK);
}

static void apply(call *c)
{
    cdz_scores scores = {.n_rows = c->rows.n, .n_vocab = cdz_take_u32(c->in)};
    const size_t bytes = (size_t)scores.n_rows * scores.n_vocab * sizeof(float);
    if (c->in->bad || bytes > CDZ_ISOLATE_ROWS_BYTES) return;
    scores.data = (float *)(void *)(c->w->map + cdz_isolate_rows_at(bytes));
    scores.stride = scores.n_vocab;
    judge(c, cdz_call_apply(&c->made, &c->session->plugin->processor, &c->step, &scores));
}

static void accept(call *c, cdz_wire_out *out)
{
    const uint32_t r = cdz_take_u32(c->in);
    const int32_t token = (int32_t)cdz_take_u32(c->in);
    if (c->in->bad || r >= c->rows.n || !cdz_accept_of(&c->session->plugin->base)) return;
    judge(c, cdz_call_accept(&c->made, &c->step, r, token));
    if (c->status == CDZ_OK) cdz_put(out, c->rows.states[r], c->rows.state_size);
}

static void test(call *c, cdz_wire_out *out)
{
    cdz_stop *stops = cdz_arena_array(&c->arena, c->rows.n, sizeof *stops);
    if (!stops) return;
    judge(c, cdz_call_test(&c->made, &c->session->plugin->criterion, &c->step, stops));
    for (uint32_t i = 0; c->status == CDZ_OK && i < c->rows.n; i++) {
        cdz_put_u32(out, stops[i].reason);
        cdz_put_string(out, stops[i].text);
    }
}

static void propose(call *c, cdz_wire_out *out)
{
    cdz_worker_decoder dec = cdz_worker_decoder_for(c->w, &c->step);
    cdz_draft draft = {.size = sizeof draft, .row = cdz_take_u32(c->in)};
    draft.room = cdz_take_u32(c->in);
    if (c->in->bad || c->rows.n != 1 || !c->rows.ids) return;
    draft.history = c->rows.ids[0];
    judge(c, cdz_call_propose(&c->made, &c->session->plugin->drafter, &dec.base, &c->step, &draft));
    if (c->status == CDZ_OK && draft.scores.id != 0)
        c->status = cdz_err(&c->w->said, CDZ_E_UNSUPPORTED,
                            "propose gave scores with its tokens, which isolation = process does "
                            "not offer");
    if (c->status == CDZ_OK) cdz_put_ids(out, draft.tokens);
}

static void judged(call *c)
{
    cdz_worker_decoder dec = cdz_worker_decoder_for(c->w, &c->step);
    const uint32_t row = cdz_take_u32(c->in), n_proposed = cdz_take_u32(c->in),
                   n_accepted = cdz_take_u32(c->in);
    const cdz_drafter *d = &c->session->plugin->drafter;
    if (c->in->bad || !d->judged) return;
    judge(c, cdz_call_judged(&c->made, d, &dec.base, &c->step, row, n_proposed, n_accepted));
}

/* --- messages ------------------------------------------------------------------------------------------------------------ */

static const char *name_of(uint32_t kind)
{
    static const char *const names[] = {
        [CDZ_UP_CREATE] = "create",   [CDZ_UP_IDLE] = "idle",     [CDZ_UP_BEGIN] = "begin",
        [CDZ_UP_APPLY] = "apply",     [CDZ_UP_TEST] = "test",     [CDZ_UP_ACCEPT] = "accept",
        [CDZ_UP_PROPOSE] = "propose", [CDZ_UP_JUDGED] = "judged", [CDZ_UP_END] = "end"};
    return kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

/* Calls that no request stands behind, or that begin one. */
static void call_alone(call *c, uint32_t kind, cdz_wire_out *gives)
{
    const uint64_t id = kind == CDZ_UP_BEGIN ? cdz_take_u64(c->in) : 0;
    c->session = read_session(c->w, c->in, kind != CDZ_UP_CREATE);
    if (!c->session) return;
    c->session->id = id;
    c->step = cdz_worker_step(c->w, c->session);
    c->w->may_alloc = kind == CDZ_UP_BEGIN;
    if (kind == CDZ_UP_CREATE) create(c);
    if (kind == CDZ_UP_IDLE) idle(c, gives);
    if (kind == CDZ_UP_BEGIN) begin(c);
    if (kind != CDZ_UP_BEGIN || c->status != CDZ_OK) {
        free_session(c->session);
        return;
    }
    c->session->next = c->w->sessions;
    c->w->sessions = c->session;
}

static void call_session(call *c, uint32_t kind, cdz_wire_out *gives)
{
    c->session = find_session(c->w, cdz_take_u64(c->in), kind == CDZ_UP_END);
    if (!c->session) return;
    c->step = cdz_worker_step(c->w, c->session);
    c->w->may_alloc = kind == CDZ_UP_PROPOSE || kind == CDZ_UP_JUDGED;
    if (kind == CDZ_UP_END) {
        end(c);
        free_session(c->session);
        return;
    }
    if (!take_rows(c)) return;
    if (kind == CDZ_UP_APPLY) apply(c);
    if (kind == CDZ_UP_ACCEPT) accept(c, gives);
    if (kind == CDZ_UP_TEST) test(c, gives);
    if (kind == CDZ_UP_PROPOSE) propose(c, gives);
    if (kind == CDZ_UP_JUDGED) judged(c);
}

/* What a call gives is written behind the answer's head, and moved up to it when that is known. */
void cdz_worker_call(cdz_worker *w, cdz_wire_in *in, cdz_wire_out *out)
{
    const uint32_t kind = cdz_take_u32(in);
    call c = {.w = w, .in = in, .status = CDZ_E_INTERNAL, .name = name_of(kind)};
    cdz_wire_out gives = {.at = w->map + CDZ_ISOLATE_DOWN + CDZ_ERROR_TEXT + 64,
                          .cap = CDZ_ISOLATE_DOWN_BYTES - CDZ_ERROR_TEXT - 64};
    if (c.name && kind != CDZ_UP_ANSWER) {
        if (kind == CDZ_UP_CREATE || kind == CDZ_UP_IDLE || kind == CDZ_UP_BEGIN)
            call_alone(&c, kind, &gives);
        else
            call_session(&c, kind, &gives);
    }
    const bool said = c.status != CDZ_OK && w->said.code != CDZ_OK;
    *out = cdz_worker_down(w);
    cdz_put_u32(out, CDZ_DOWN_DONE);
    cdz_put_u32(out, c.status);
    cdz_put_text(out, said ? w->said.text : NULL);
    if (!gives.full && !out->full) {
        memmove(out->at + out->len, gives.at, gives.len);
        out->len += gives.len;
    }
    out->full |= gives.full;
    cdz_scratch_reset(&w->scratch);
    cdz_arena_free(&c.arena);
}
