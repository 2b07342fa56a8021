/* observer.c - the C side of Lua observers: one protected call per event, and per row where scores are shown. What a script
 * remembers lives in its own variables: its state is the request's. */
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

typedef struct call {
    const cdz_step *step;
    const char *function;
    const cdz_plugin_base *by; /* stage */
    const cdz_seen *seen;
    const cdz_stop *stop;
    const uint32_t *parents;
    lua_Integer number; /* a token, or how many are gone */
    uint32_t row;
    bool has_row;
} call;

/* [protected] */
typedef int push_arguments(lua_State *L, const call *c);

static void push_row(lua_State *L, const float *row, uint32_t n)
{
    float *data;
    memcpy(&data, &row, sizeof data); /* of_state keeps the script from writing it */
    cdz_lua_push_view(L, data, n)->of_state = true;
}

static int push_rows(lua_State *L, const call *c)
{
    if (c->by) lua_pushstring(L, c->by->id);
    push_row(L, c->seen->before[c->row], c->seen->n_vocab);
    push_row(L, c->seen->after[c->row], c->seen->n_vocab);
    return c->by ? 3 : 2;
}

static int push_number(lua_State *L, const call *c)
{
    lua_pushinteger(L, c->number);
    return 1;
}

static int push_stop(lua_State *L, const call *c)
{
    lua_pushstring(L, cdz_lua_reason_name(c->stop->reason));
    lua_pushlstring(L, c->stop->text.at ? c->stop->text.at : "", c->stop->text.len);
    return 2;
}

static int push_parents(lua_State *L, const call *c)
{
    lua_createtable(L, (int)c->step->n_rows, 0);
    for (uint32_t r = 0; r < c->step->n_rows; r++) {
        lua_pushinteger(L, (lua_Integer)c->parents[r] + 1);
        lua_rawseti(L, -2, (lua_Integer)r + 1);
    }
    return 1;
}

/* Which function is called with what. */
static const struct event {
    const char *function;
    push_arguments *push;
} events[] = {{"stage", push_rows}, {"scores", push_rows},   {"token", push_number},
              {"stop", push_stop},  {"rewind", push_number}, {"reorder", push_parents},
              {"finish", NULL}};

/* FUNCTION(p, arguments..., ctx) */
static int call_function(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);
    cdz_lua_session *S = cdz_lua_of(L);
    size_t i = 0;

    while (strcmp(events[i].function, c->function) != 0) i++;
    S->log_lines = 0; /* writing lines is what observers are for: the limit is one event's */
    S->row = c->row;
    S->row_set = c->has_row;
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, c->function);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    const int n = events[i].push ? events[i].push(L, c) : 0;
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, n + 2, 0);
    return 0;
}

static cdz_status enter(call *c)
{
    cdz_lua_session *S = c->step->shared;
    return cdz_lua_report(S, c->step, cdz_lua_enter(S, c->step, 1, call_function, c));
}

static cdz_status enter_rows(call *c)
{
    c->has_row = true;
    for (c->row = 0; c->row < c->step->n_rows; c->row++) CDZ_TRY(enter(c));
    return CDZ_OK;
}

static cdz_status stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *seen)
{
    call c = {.step = step, .function = "stage", .by = by, .seen = seen};
    return enter_rows(&c);
}

static cdz_status scores(const cdz_step *step, const cdz_seen *seen)
{
    call c = {.step = step, .function = "scores", .seen = seen};
    return enter_rows(&c);
}

static cdz_status token(const cdz_step *step, int32_t id)
{
    call c = {.step = step, .function = "token", .number = id, .has_row = true};
    return enter(&c);
}

static cdz_status stop(const cdz_step *step, const cdz_stop *why)
{
    call c = {.step = step, .function = "stop", .stop = why, .has_row = true};
    return enter(&c);
}

static cdz_status rewind_row(const cdz_step *step, uint32_t n)
{
    call c = {.step = step, .function = "rewind", .number = n, .has_row = true};
    return enter(&c);
}

static cdz_status reorder(const cdz_step *step, const uint32_t *parents)
{
    call c = {.step = step, .function = "reorder", .parents = parents};
    return enter(&c);
}

static void end(const cdz_step *step)
{
    call c = {.step = step, .function = "finish"};
    cdz_lua_session *S = step->shared;
    /* A script that has failed is not asked again; its last words have no request to go to. */
    if (cdz_lua_def_of(step)->has_finish && !S->error[0] && enter(&c) != CDZ_OK)
        cdz_log(step, CDZ_LOG_WARNING, "%s", S->error);
    cdz_lua_end(step);
}

void cdz_lua_hear(cdz_lua_def *def, bool (*declares)(void *user, const char *name), void *user)
{
    cdz_observer *o = &def->as.observer;
    *o = (cdz_observer){.base = {CDZ_OBSERVER_BASE},
                        .create = def->has_create ? cdz_lua_create : NULL,
                        .begin = cdz_lua_begin,
                        .end = end};
    if (declares(user, "stage")) o->stage = stage;
    if (declares(user, "scores")) o->scores = scores;
    if (declares(user, "token")) o->token = token;
    if (declares(user, "stop")) o->stop = stop;
    if (declares(user, "rewind")) o->rewind = rewind_row;
    if (declares(user, "reorder")) o->reorder = reorder;
    def->has_finish = declares(user, "finish");
}

size_t cdz_lua_observer_functions(const char **out)
{
    _Static_assert(sizeof events / sizeof events[0] == CDZ_LUA_OBSERVER_FUNCTIONS, "room for all");
    for (size_t i = 0; i < CDZ_LUA_OBSERVER_FUNCTIONS; i++) out[i] = events[i].function;
    return CDZ_LUA_OBSERVER_FUNCTIONS;
}
