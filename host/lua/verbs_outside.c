/* verbs_outside.c - a strategy's verbs that wait for what is outside: time, and whoever answers its calls. */
#include <string.h>

#include "lua/decoder.h"

/* In the verb's extra. */
typedef struct waiting {
    double seconds;
    const char *name, *text; /* strings on the coroutine's stack */
    size_t len;
    cdz_tool_answer answer;
} waiting;

static waiting *push_waiting(lua_State *L)
{
    waiting *w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = (waiting){.answer = {.size = sizeof w->answer}};
    return w;
}

static cdz_status run_sleep(cdz_decoder *dec, cdz_lua_verb *verb)
{
    const waiting *w = verb->extra;
    return cdz_sleep(dec, w->seconds);
}

/* ctx:sleep(seconds) */
static int verb_sleep(lua_State *L)
{
    const double seconds = luaL_checknumber(L, 2);

    (void)cdz_lua_decoder(L);
    waiting *w = push_waiting(L);
    w->seconds = seconds;
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->extra = w;
    v->run = run_sleep;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_call(cdz_decoder *dec, cdz_lua_verb *verb)
{
    waiting *w = verb->extra;
    return cdz_call_tool(dec, w->name, w->text, (uint32_t)w->len, &w->answer);
}

static int call_done(lua_State *L, cdz_lua_verb *verb)
{
    const waiting *w = verb->extra;

    cdz_lua_charge_elements(L, w->answer.text.len);
    if (w->answer.failed) lua_pushnil(L);
    lua_pushlstring(L, w->answer.text.at, w->answer.text.len);
    return w->answer.failed ? 2 : 1;
}

/* ctx:call(name, text): the tool's answer; nil and a sentence where it has none. */
static int verb_call(lua_State *L)
{
    size_t name_len, len;
    const char *name = luaL_checklstring(L, 2, &name_len), *text = luaL_checklstring(L, 3, &len);

    (void)cdz_lua_decoder(L);
    if (strlen(name) != name_len) return luaL_error(L, "call: a name without NUL bytes");
    if (len > INT32_MAX) return luaL_error(L, "call: a text of %I bytes", (lua_Integer)len);
    cdz_lua_charge_elements(L, len);
    waiting *w = push_waiting(L);
    w->name = name;
    w->text = text;
    w->len = len;
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->extra = w;
    v->run = run_call;
    v->done = call_done;
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_outside_verbs[] = {
    {"sleep", verb_sleep}, {"call", verb_call}, {"call_tool", verb_call}, {NULL, NULL}};
