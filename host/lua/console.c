/* console.c - the strategy of console.h: reads a statement, runs it in a coroutine of its own, shows what it gave. */
#include "lua/console.h"

#include <string.h>

#include "lua/console_show.h"
#include "lua/decoder.h"

/* A person waits for it and can interrupt it. */
static const cdz_lua_limits limits = {INT64_C(100000000000), 3600000, 1 << 30};

typedef struct running {
    const cdz_lua_console *console;
    cdz_lua_statement statement;
    bool incomplete;
} running;

static const cdz_lua_console *console_of(lua_State *L)
{
    return cdz_lua_of(L)->step->params;
}

void cdz_lua_console_write(lua_State *L, const char *text, size_t len)
{
    const cdz_lua_console *c = console_of(L);

    c->write(c->user, text, len);
}

/* --- one statement ------------------------------------------------------------------------------------------------ */

static bool ends_early(lua_State *L)
{
    static const char mark[] = "<eof>";
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);

    return text && len >= sizeof mark - 1 && strcmp(text + len - (sizeof mark - 1), mark) == 0;
}

/* Pushes the function of an expression, whose values are shown, or of statements. */
static void compile(lua_State *L, running *r)
{
    const cdz_lua_statement *s = &r->statement;
    const char *name = lua_pushfstring(L, "=%s", s->name);

    cdz_lua_charge(L, (int64_t)(s->len / 4 + 1));
    lua_pushliteral(L, "return ");
    lua_pushlstring(L, s->text, s->len);
    lua_concat(L, 2);
    if (luaL_loadbufferx(L, lua_tostring(L, -1), lua_rawlen(L, -1), name, "t") != LUA_OK) {
        lua_pop(L, 2);
        if (luaL_loadbufferx(L, s->text, s->len, name, "t") != LUA_OK) {
            r->incomplete = !s->whole && ends_early(L);
            lua_error(L);
        }
    }
    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    lua_setupvalue(L, -2, 1);
}

static int show_values(lua_State *L, int status, lua_KContext below)
{
    (void)status;
    for (int i = (int)below + 1, n = lua_gettop(L); i <= n; i++) cdz_lua_console_show(L, i);
    return 0;
}

/* The body of a statement's coroutine. */
static int run_statement(lua_State *L)
{
    running *r = lua_touserdata(L, 1);

    compile(L, r);
    lua_replace(L, 1);
    lua_settop(L, 1);
    lua_callk(L, 0, LUA_MULTRET, 0, show_values);
    return show_values(L, LUA_OK, 0);
}

/* [protected] The statement's coroutine, kept alive where accept of a processor would be. */
static lua_State *new_coroutine(lua_State *L)
{
    lua_State *co = lua_newthread(L);

    cdz_lua_set(L, CDZ_LUA_SLOT_ACCEPT);
    lua_pushcfunction(co, run_statement);
    return co;
}

typedef struct start {
    running *r;
    lua_State *co;
} start;

static int make_coroutine(lua_State *L)
{
    start *s = lua_touserdata(L, 1);

    s->co = new_coroutine(L);
    lua_pushlightuserdata(s->co, s->r);
    return 0;
}

/* What one statement spent is forgotten with it. */
static void forgive(cdz_lua_session *S)
{
    S->spent = CDZ_LUA_NOT_SPENT;
    S->status = CDZ_OK;
    S->where[0] = '\0';
    S->request_used = 0;
    S->request_s = 0;
    S->verb = NULL;
}

static cdz_lua_said run_one(cdz_lua_session *S, const cdz_step *step, running *r)
{
    start s = {.r = r};

    r->incomplete = false;
    /* Not by cdz_lua_enter: scores of the last statement are still there for this one. */
    cdz_lua_slice_begin(S, step, 1);
    lua_settop(S->L, 0);
    lua_pushcfunction(S->L, make_coroutine);
    lua_pushlightuserdata(S->L, &s);
    cdz_status st = cdz_lua_slice_end(S, S->L, lua_pcall(S->L, 1, 0, 0));
    if (st == CDZ_OK) st = cdz_lua_bridge(S, step, s.co, 1);
    forgive(S);
    if (st == CDZ_OK) return CDZ_LUA_RAN;
    if (r->incomplete) return CDZ_LUA_INCOMPLETE;
    r->console->complain(r->console->user, S->error);
    return CDZ_LUA_FAILED;
}

/* --- the request --------------------------------------------------------------------------------------------------- */

/* print(...): to the person, not to the log. */
static int l_print(lua_State *L)
{
    const int n = lua_gettop(L);

    for (int i = 1; i <= n; i++) {
        size_t len;
        const char *text = cdz_lua_text(L, i, &len);
        if (i > 1) cdz_lua_console_write(L, "\t", 1);
        cdz_lua_console_write(L, text, len);
        lua_pop(L, 1);
    }
    cdz_lua_console_write(L, "\n", 1);
    return 0;
}

static int l_help(lua_State *L)
{
    cdz_lua_console_write(L, cdz_lua_console_help, strlen(cdz_lua_console_help));
    return 0;
}

static int set_up(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"print", l_print}, {"help", l_help}, {"top", cdz_lua_console_top}, {NULL, NULL}};
    static const cdz_lua_slot tables[] = {CDZ_LUA_SLOT_STATES, CDZ_LUA_SLOT_FACES};

    lua_newtable(L);
    cdz_lua_seal(L);
    cdz_lua_set(L, CDZ_LUA_SLOT_PARAMS);
    for (size_t i = 0; i < 2; i++) {
        lua_newtable(L);
        cdz_lua_set(L, tables[i]);
    }
    cdz_lua_push_decoder_ctx(L);
    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "ctx");
    for (const luaL_Reg *f = functions; f->name; f++) {
        lua_pushcfunction(L, f->func);
        lua_setfield(L, -2, f->name);
    }
    return 0;
}

static bool was_interrupted(void *user)
{
    const cdz_lua_console *c = user;

    return c->interrupted(c->user);
}

static cdz_status converse(cdz_lua_session *S, const cdz_step *step)
{
    running r = {.console = step->params};

    S->loading = true; /* globals are the person's */
    cdz_status st = cdz_lua_enter(S, step, 1, set_up, NULL);
    if (st != CDZ_OK) return cdz_lua_report(S, step, st);
    S->interrupted = was_interrupted;
    S->interrupt_user = (void *)(uintptr_t)r.console;
    for (cdz_lua_said said = CDZ_LUA_SAID_NOTHING;
         r.console->next(r.console->user, said, &r.statement);)
        said = run_one(S, step, &r);
    return CDZ_OK;
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_lua_console *c = step->params;
    cdz_lua_session *S = NULL;
    cdz_error err = {0};

    cdz_status st =
        cdz_lua_open(c->module, CDZ_KIND_STRATEGY, &limits, step->request->n_vocab, &S, &err);
    if (st != CDZ_OK) return cdz_fail(step, st, "%s", err.text);
    S->pool_limit *= 16;
    S->dec = dec;
    st = converse(S, step);
    S->dec = NULL;
    cdz_lua_close(S);
    return st;
}

const cdz_strategy cdz_lua_console_strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "lua-console", .version = "1.0.0",
             .summary = "Statements of Lua, one after the other"},
    .caps = CDZ_REWINDS,
    .run = run,
};
