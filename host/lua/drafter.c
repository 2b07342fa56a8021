/* drafter.c - the C side of Lua drafters: one protected call per draft. A script's drafter looks at ids and answers; models
 * are for drafters in C. */
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

typedef struct call {
    const cdz_step *step;
    cdz_draft *draft;
    int32_t *tokens; /* (draft->room) */
    uint32_t n_proposed, n_accepted;
} call;

static cdz_status begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)dec;
    return cdz_lua_begin(step, shared);
}

static void set_row(cdz_lua_session *S, uint32_t row)
{
    S->row = row;
    S->row_set = true;
}

/* What propose returned, at index: nothing, or a list of ids. What is beyond room is of no use. */
static void read_tokens(lua_State *L, int index, call *c)
{
    if (lua_isnoneornil(L, index)) return;
    const cdz_ids ids = cdz_lua_check_ids(L, index);
    const uint32_t n = ids.len < c->draft->room ? ids.len : c->draft->room;
    if (n) memcpy(c->tokens, ids.at, n * sizeof *ids.at);
    c->draft->tokens = (cdz_ids){c->tokens, n};
}

/* propose(p, ids, room, ctx) */
static int call_propose(lua_State *L)
{
    call *c = lua_touserdata(L, 1);

    set_row(cdz_lua_of(L), 0);
    cdz_lua_get(L, CDZ_LUA_SLOT_CALL);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    cdz_lua_push_ids_view(L, c->draft->history);
    lua_pushinteger(L, c->draft->room);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 4, 1);
    read_tokens(L, lua_gettop(L), c);
    return 0;
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .draft = draft};

    (void)dec;
    c.tokens = cdz_scratch(step, draft->room * sizeof *c.tokens);
    if (!c.tokens) return cdz_fail(step, CDZ_E_NOMEM, "no memory for a draft");
    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_propose, &c));
}

/* judged(p, n_proposed, n_accepted, ctx) */
static int call_judged(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);

    set_row(cdz_lua_of(L), 0);
    cdz_lua_get(L, CDZ_LUA_SLOT_ACCEPT);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    lua_pushinteger(L, c->n_proposed);
    lua_pushinteger(L, c->n_accepted);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 4, 0);
    return 0;
}

static cdz_status judged(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                         uint32_t n_accepted)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .n_proposed = n_proposed, .n_accepted = n_accepted};

    (void)dec, (void)row;
    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_judged, &c));
}

const cdz_drafter cdz_lua_drafter = {
    .base = {CDZ_DRAFTER_BASE},
    .create = cdz_lua_create,
    .begin = begin,
    .propose = propose,
    .judged = judged,
    .end = cdz_lua_end,
};
