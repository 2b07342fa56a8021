/* lib_coroutine.c - coroutines, for strategies only. The count of the instruction hook is per thread, so work spread over
 * many short coroutines would go uncounted: each start and each resume is charged a full step of the hook.
 *
 * A verb of the decoder yields to the bridge (strategy.c). When it happens inside a coroutine of the script, resume
 * passes the yield outwards and comes back to the same place. */
#include "lua/session.h"

#define RESUME_COST 1000

static int verb_done(lua_State *L, int status, lua_KContext ctx);
static int l_yield(lua_State *L);

static lua_State *check_thread(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);

    luaL_argexpected(L, co, 1, "coroutine");
    return co;
}

/* It yielded itself. Else it waits for a verb, whose answer is not the script's to bring: on_hidden runs meanwhile. */
static bool yielded(lua_State *co)
{
    lua_Debug ar;

    if (!lua_checkstack(co, 1) || !lua_getstack(co, 0, &ar)) return false;
    lua_getinfo(co, "f", &ar);
    const bool own = lua_tocfunction(co, -1) == l_yield;
    lua_pop(co, 1);
    return own;
}

static const char *status_of(lua_State *L, lua_State *co)
{
    lua_Debug ar;

    if (L == co) return "running";
    switch (lua_status(co)) {
    case LUA_YIELD: return yielded(co) ? "suspended" : "normal";
    case LUA_OK:
        if (lua_getstack(co, 0, &ar)) return "normal";
        return lua_gettop(co) == 0 ? "dead" : "suspended";
    default: return "dead";
    }
}

/* Where the way out leads through C, the verb is called off; its coroutine waits for ever. */
static int pass_on_verb(lua_State *L, cdz_lua_session *S)
{
    if (lua_isyieldable(L)) return lua_yieldk(L, 0, 0, verb_done);
    S->verb = NULL;
    return luaL_error(L, CDZ_LUA_NO_VERB_HERE);
}

/* Ends a resume of co that came back with rc and n results: pushes true and them, or false and the error. */
static int resumed(lua_State *L, lua_State *co, int rc, int n)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (rc == LUA_YIELD && S->verb) return pass_on_verb(L, S);
    if (rc == LUA_ERRMEM) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    cdz_lua_check_spent(L);
    if (rc != LUA_OK && rc != LUA_YIELD) {
        lua_pushboolean(L, 0);
        lua_xmove(co, L, 1);
        return 2;
    }
    luaL_checkstack(L, n + 1, "too many results");
    lua_pushboolean(L, 1);
    lua_xmove(co, L, n);
    return n + 1;
}

static int verb_done(lua_State *L, int status, lua_KContext ctx)
{
    lua_State *co = lua_tothread(L, 1);
    int n = 0;

    (void)status;
    (void)ctx;
    const int rc = lua_resume(co, L, 0, &n);
    return resumed(L, co, rc, n);
}

static int l_resume(lua_State *L)
{
    lua_State *co = check_thread(L);
    int n = lua_gettop(L) - 1;
    const char *status = status_of(L, co);

    cdz_lua_guard_stack(L);
    cdz_lua_charge(L, RESUME_COST);
    if (status[0] != 's') {
        lua_pushboolean(L, 0);
        lua_pushfstring(L, "cannot resume %s coroutine", status);
        return 2;
    }
    if (!lua_checkstack(co, n)) return luaL_error(L, "too many arguments to resume");
    lua_xmove(L, co, n);
    const int rc = lua_resume(co, L, n, &n);
    return resumed(L, co, rc, n);
}

static int l_create(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (cdz_lua_of(L)->kind != CDZ_KIND_STRATEGY)
        return luaL_error(L, "coroutines are for strategies");
    cdz_lua_charge(L, RESUME_COST);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    return 1;
}

static int finish_wrap(lua_State *L, int status, lua_KContext ctx)
{
    (void)status;
    (void)ctx;
    if (lua_toboolean(L, 1)) return lua_gettop(L) - 1;
    lua_settop(L, 2);
    return lua_error(L);
}

/* Upvalue: the coroutine. */
static int call_wrapped(lua_State *L)
{
    const int n = lua_gettop(L);

    lua_pushcfunction(L, l_resume);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_rotate(L, 1, 2);
    lua_callk(L, n + 1, LUA_MULTRET, 0, finish_wrap);
    return finish_wrap(L, LUA_OK, 0);
}

static int l_wrap(lua_State *L)
{
    l_create(L);
    lua_pushcclosure(L, call_wrapped, 1);
    return 1;
}

static int l_yield(lua_State *L)
{
    if (cdz_lua_of(L)->L == L || !lua_isyieldable(L))
        return luaL_error(L, "attempt to yield from outside a coroutine");
    return lua_yield(L, lua_gettop(L));
}

static int l_status(lua_State *L)
{
    lua_pushstring(L, status_of(L, check_thread(L)));
    return 1;
}

void cdz_lua_push_coroutine_lib(lua_State *L)
{
    static const luaL_Reg functions[] = {{"create", l_create}, {"resume", l_resume},
                                         {"wrap", l_wrap},     {"yield", l_yield},
                                         {"status", l_status}, {NULL, NULL}};
    luaL_newlib(L, functions);
}
