/* constrained.c - constraints of rows in Lua (cadenza/ext/constrained.h): `constraint` of a processor tells which one it keeps
 * a row in, and ctx:constraint() tells a drafter which ones its row keeps to. */
#include "cadenza/ext/constrained.h"

#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

typedef struct call {
    const cdz_step *step;
    uint32_t row;
    cdz_row_constraint *out;
} call;

/* A grammar and a state, or nothing, from index on. */
static void read_constraint(lua_State *L, int index, const call *c)
{
    if (!lua_toboolean(L, index)) return;
    c->out->constraint = cdz_lua_constraint_at(L, index);
    if (!c->out->constraint)
        luaL_error(L,
                   "constraint returned a %s, expected a grammar that was asked in begin, as by "
                   "g:start(), and a state, or nothing",
                   luaL_typename(L, index));
    const lua_Integer state = lua_isinteger(L, index + 1) ? lua_tointeger(L, index + 1) : -1;
    if (state < 0 || state >= UINT32_MAX)
        luaL_error(L, "constraint returned no state beside its grammar");
    c->out->state = (uint32_t)state;
}

/* constraint(p, ids, ctx) */
static int call_constraint(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);
    cdz_lua_session *S = cdz_lua_of(L);

    S->row = c->row;
    S->row_set = true;
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "constraint");
    const int base = lua_gettop(L);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    if (c->step->input_ids)
        cdz_lua_push_ids_view(L, c->step->input_ids[c->row]);
    else
        lua_pushnil(L);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 3, 2);
    read_constraint(L, base, c);
    return 0;
}

static cdz_status of(const cdz_step *step, uint32_t r, cdz_row_constraint *out)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .row = r, .out = out};

    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_constraint, &c));
}

const void *cdz_lua_constrained_extension(const char *id)
{
    static const cdz_constrained_api api = {.size = sizeof api, .of = of};

    return strcmp(id, CDZ_EXT_CONSTRAINED) == 0 ? &api : NULL;
}

/* ctx:constraint([n]): the nth constraint, from 1, that the draft's row keeps to now, and the row's state in it; nothing where
 * there are fewer. */
int cdz_lua_context_constraint(lua_State *L)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    const cdz_step *step = S->step;
    const lua_Integer n = luaL_optinteger(L, 2, 1);
    cdz_row_constraint at = {.size = sizeof at};

    if (!step || S->kind != CDZ_KIND_DRAFTER || !S->row_set)
        return luaL_error(L, "ctx:constraint works in propose and judged of a drafter");
    luaL_argcheck(L, n >= 1 && n <= UINT32_MAX, 2, "constraints count from 1");
    const cdz_constrained_host *host = cdz_get_constrained(step);
    if (!host) return 0;
    const cdz_status st = host->nth(step, step->row_index[0], (uint32_t)n - 1, &at);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    if (!at.constraint) return 0;
    cdz_lua_push_constraint(L, at.constraint);
    lua_pushinteger(L, at.state);
    return 2;
}
