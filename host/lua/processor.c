/* processor.c - the C side of Lua processors and criteria: one protected call per row (one for all with batched). */
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

typedef struct call {
    const cdz_step *step;
    cdz_scores *scores;
    uint32_t row;
    int32_t token;
    cdz_stop *stop;
} call;

static void set_row(cdz_lua_session *S, uint32_t row)
{
    S->row = row;
    S->row_set = true;
}

static void push_function(lua_State *L, cdz_lua_slot slot)
{
    cdz_lua_get(L, slot);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
}

static void push_row_ids(lua_State *L, const cdz_step *step, uint32_t row)
{
    if (step->input_ids)
        cdz_lua_push_ids_view(L, step->input_ids[row]);
    else
        lua_pushnil(L);
}

/* --- create, begin, accept, end ---------------------------------------------------------------------------------- */

static int call_create(lua_State *L)
{
    cdz_lua_of(L)->in_begin = true;
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "create");
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    lua_call(L, 1, 0);
    return 0;
}

cdz_status cdz_lua_create(const cdz_step *step)
{
    cdz_lua_session *S = NULL;

    CDZ_TRY(cdz_lua_start(cdz_lua_def_of(step), step, &S));
    cdz_status st = cdz_lua_enter(S, step, 1, call_create, NULL);
    if (st == CDZ_E_PLUGIN && !S->spent)
        st = CDZ_E_USAGE; /* error() is how create refuses parameters */
    st = cdz_lua_report(S, step, st);
    cdz_lua_close(S);
    return st;
}

static int call_idle(lua_State *L)
{
    bool *idle = lua_touserdata(L, 1);

    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "idle");
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 2, 1);
    *idle = lua_toboolean(L, -1);
    return 0;
}

/* A script that fails here is not idle: its begin or apply will say what is wrong. */
bool cdz_lua_idle(const cdz_step *step)
{
    cdz_lua_session *S = step->shared;
    bool idle = false;

    if (!S && cdz_lua_start(cdz_lua_def_of(step), step, &S) != CDZ_OK) return false;
    if (cdz_lua_enter(S, step, 1, call_idle, &idle) != CDZ_OK) idle = false;
    if (S != step->shared) cdz_lua_close(S);
    return idle;
}

static int call_begin(lua_State *L)
{
    cdz_lua_of(L)->in_begin = true;
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "begin");
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 1, 1);
    if (!lua_isnil(L, -1) && !lua_istable(L, -1))
        return luaL_error(L, "begin returned a %s, expected a table or nothing",
                          luaL_typename(L, -1));
    cdz_lua_copy_state(L);
    cdz_lua_set(L, CDZ_LUA_SLOT_STATE);
    return 0;
}

cdz_status cdz_lua_begin(const cdz_step *step, void **shared)
{
    const cdz_lua_def *def = cdz_lua_def_of(step);
    cdz_lua_session *S = NULL;

    CDZ_TRY(cdz_lua_start(def, step, &S));
    if (def->has_begin) {
        const cdz_status st =
            cdz_lua_report(S, step, cdz_lua_enter(S, step, CDZ_LUA_BEGIN_CALLS, call_begin, NULL));
        if (st != CDZ_OK) {
            cdz_lua_close(S);
            return st;
        }
    }
    *shared = S;
    return CDZ_OK;
}

void cdz_lua_end(const cdz_step *step)
{
    cdz_lua_close(step->shared);
}

/* accept(p, state, token, ctx) */
static int call_accept(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);
    cdz_lua_session *S = cdz_lua_of(L);

    set_row(S, c->row);
    push_function(L, CDZ_LUA_SLOT_ACCEPT);
    cdz_lua_push_row_state(L, c->step->row_state[c->row], true);
    lua_pushinteger(L, c->token);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    S->state_writable = true;
    lua_call(L, 4, 0);
    return 0;
}

cdz_status cdz_lua_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .row = r, .token = token};

    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_accept, &c));
}

/* --- apply --------------------------------------------------------------------------------------------------------- */

/* apply(p, ids, row, ctx) */
static int call_apply(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);

    set_row(cdz_lua_of(L), c->row);
    push_function(L, CDZ_LUA_SLOT_CALL);
    push_row_ids(L, c->step, c->row);
    cdz_lua_push_view(L, cdz_row(c->scores, c->row), c->scores->n_vocab);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 4, 0);
    return 0;
}

/* apply(p, list of ids, scores, ctx) */
static int call_batched(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);

    push_function(L, CDZ_LUA_SLOT_CALL);
    lua_createtable(L, (int)c->step->n_rows, 0);
    for (uint32_t r = 0; r < c->step->n_rows; r++) {
        push_row_ids(L, c->step, r);
        lua_rawseti(L, -2, (lua_Integer)r + 1);
    }
    cdz_lua_push_batch(L, c->scores, false);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 4, 0);
    return 0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .scores = scores};

    if (cdz_lua_def_of(step)->batched)
        return cdz_lua_report(S, step, cdz_lua_enter(S, step, scores->n_rows, call_batched, &c));
    for (c.row = 0; c.row < scores->n_rows; c.row++)
        CDZ_TRY(cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_apply, &c)));
    return CDZ_OK;
}

const cdz_processor cdz_lua_processor = {
    .base = {CDZ_PROCESSOR_BASE},
    .create = cdz_lua_create,
    .idle = cdz_lua_idle,
    .begin = cdz_lua_begin,
    .apply = apply,
    .accept = cdz_lua_accept,
    .end = cdz_lua_end,
};

/* --- test ---------------------------------------------------------------------------------------------------------- */

static const char *const reason_names[] = {"", "eos", "length", "time", "string"};

cdz_stop_reason cdz_lua_stop_reason(const char *text)
{
    for (uint32_t i = CDZ_STOP_EOS; i <= CDZ_STOP_STRING; i++)
        if (strcmp(text, reason_names[i]) == 0) return (cdz_stop_reason)i;
    return CDZ_STOP_CUSTOM;
}

const char *cdz_lua_reason_name(uint32_t reason)
{
    return reason <= CDZ_STOP_STRING ? reason_names[reason] : "custom";
}

/* What test returned, at index: nothing, true, a reason, or a reason and a text. */
static void read_stop(lua_State *L, int index, cdz_stop *stop)
{
    cdz_lua_module *m = cdz_lua_of(L)->module;
    size_t len;

    if (!lua_toboolean(L, index)) return;
    if (lua_type(L, index) != LUA_TSTRING && !lua_isboolean(L, index))
        luaL_error(L, "test returned a %s, expected a boolean or a reason", luaL_typename(L, index));
    const char *reason = lua_isboolean(L, index) ? "custom" : lua_tostring(L, index);
    const char *text = lua_type(L, index + 1) == LUA_TSTRING ? lua_tolstring(L, index + 1, &len)
                                                             : (len = strlen(reason), reason);
    text = cdz_lua_module_reason(m, text, len);
    *stop = (cdz_stop){cdz_lua_stop_reason(reason), {text, (uint32_t)strlen(text)}};
}

/* test(p, ids, ctx) */
static int call_test(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);

    set_row(cdz_lua_of(L), c->row);
    const int base = lua_gettop(L);
    push_function(L, CDZ_LUA_SLOT_CALL);
    push_row_ids(L, c->step, c->row);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 3, 2);
    read_stop(L, base + 1, c->stop);
    return 0;
}

static cdz_status test(const cdz_step *step, cdz_stop *stops)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step};

    for (c.row = 0; c.row < step->n_rows; c.row++) {
        c.stop = &stops[c.row];
        CDZ_TRY(cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_test, &c)));
    }
    return CDZ_OK;
}

const cdz_criterion cdz_lua_criterion = {
    .base = {CDZ_CRITERION_BASE},
    .create = cdz_lua_create,
    .idle = cdz_lua_idle,
    .begin = cdz_lua_begin,
    .test = test,
    .accept = cdz_lua_accept,
    .end = cdz_lua_end,
};
