/* press.c - the C side of Lua presses: one protected call for each KV head of each layer.
 *
 * A script sees a head: its entries by number from 0, as vectors that point into the view, and a vector of scores to write. What
 * it holds of a head is of no use after the call: the clock of the session's rows has moved. */
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

#define HEAD "cadenza.head"

typedef struct call {
    const cdz_press_view *view;
    cdz_press_choice *choice;
    uint32_t g;
} call;

/* The object that a script is given. */
typedef struct head {
    call of;
    cdz_lua_stamp stamp;
} head;

static const struct need {
    const char *name;
    uint32_t what;
} needs_of[] = {{"keys", CDZ_PRESS_KEYS},           {"values", CDZ_PRESS_VALUES},
                {"queries", CDZ_PRESS_QUERIES},     {"hidden", CDZ_PRESS_HIDDEN},
                {"attention", CDZ_PRESS_ATTENTION}, {"sums", CDZ_PRESS_SUMS},
                {"output", CDZ_PRESS_OUTPUT}};
enum { N_NEEDS = sizeof needs_of / sizeof *needs_of };

/* --- needs ----------------------------------------------------------------------------------------------------------- */

static uint32_t check_need(lua_State *L, const char *name)
{
    for (size_t i = 0; i < N_NEEDS; i++)
        if (strcmp(needs_of[i].name, name) == 0) return needs_of[i].what;
    return (uint32_t)luaL_error(L,
                                "needs: '%s' is nothing that there is; expected keys, values, "
                                "queries, hidden, attention, sums or output",
                                name);
}

/* {"keys", "attention", window = 8}, or a function of the parameters that returns one. */
static int read_needs(lua_State *L)
{
    cdz_press_needs *out = lua_touserdata(L, 1);
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "needs");
    if (lua_isfunction(L, -1)) {
        cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
        lua_call(L, 1, 1);
    }
    if (lua_isnil(L, -1)) return 0;
    if (!lua_istable(L, -1))
        return luaL_error(L, "needs is a %s, expected a list", luaL_typename(L, -1));
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        out->what |= check_need(L, luaL_checkstring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (cdz_lua_field(L, -1, "window") == LUA_TNIL) return 0;
    const lua_Integer window = luaL_checkinteger(L, -1);
    if (window < 1 || window > 4096)
        return luaL_error(L, "needs: window is %d, expected 1 to 4096", (int)window);
    out->window = (uint32_t)window;
    return 0;
}

static cdz_status needs(const cdz_step *step, cdz_press_needs *out)
{
    cdz_lua_session *S = step->shared;
    out->free_count = cdz_lua_def_of(step)->own_count;
    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, read_needs, out));
}

/* --- a head ------------------------------------------------------------------------------------------------------------ */

static const call *check_head(lua_State *L)
{
    const head *h = luaL_checkudata(L, 1, HEAD);
    if (*h->stamp.clock != h->stamp.time)
        luaL_error(L, "a head belongs to the call that it was given to");
    return &h->of;
}

static uint32_t check_index(lua_State *L, int arg, uint32_t n, const char *what)
{
    const lua_Integer i = luaL_checkinteger(L, arg);
    if (i < 0 || i >= (lua_Integer)n)
        luaL_error(L, "%s %d of %d, which are numbered from 0", what, (int)i, (int)n);
    return (uint32_t)i;
}

/* A row that scripts may read. */
static int push_row(lua_State *L, const float *row, size_t n, const char *need)
{
    float *data;
    if (!row) return luaL_error(L, "needs does not ask for \"%s\"", need);
    memcpy(&data, &row, sizeof data);
    cdz_lua_push_view(L, data, n)->of_state = true;
    return 1;
}

static int push_entry(lua_State *L, bool keys)
{
    const call *c = check_head(L);
    const cdz_press_view *v = c->view;
    const float *array = keys ? v->keys : v->values;
    const uint32_t i = check_index(L, 2, v->counts[c->g], "entry");
    const size_t at = ((size_t)c->g * v->n + i) * v->head_dim;
    return push_row(L, array ? array + at : NULL, v->head_dim, keys ? "keys" : "values");
}

static int head_key(lua_State *L)
{
    return push_entry(L, true);
}

static int head_value(lua_State *L)
{
    return push_entry(L, false);
}

/* Of the group's q-th query head. */
static size_t check_query_head(lua_State *L, const call *c)
{
    const uint32_t group = c->view->n_heads / c->view->n_kv_heads;
    return (size_t)c->g * group + check_index(L, 2, group, "query head");
}

static int head_query(lua_State *L)
{
    const call *c = check_head(L);
    const cdz_press_view *v = c->view;
    const size_t h = check_query_head(L, c), i = check_index(L, 3, v->n_queries, "query");
    return push_row(L, v->queries ? v->queries + (h * v->n_queries + i) * v->head_dim : NULL,
                    v->head_dim, "queries");
}

static int head_attention(lua_State *L)
{
    const call *c = check_head(L);
    const cdz_press_view *v = c->view;
    const size_t h = check_query_head(L, c), i = check_index(L, 3, v->n_queries, "query");
    return push_row(L, v->attention ? v->attention + (h * v->n_queries + i) * v->n : NULL,
                    v->counts[c->g], "attention");
}

static int head_sums(lua_State *L)
{
    const call *c = check_head(L);
    const size_t h = check_query_head(L, c);
    return push_row(L, c->view->sums ? c->view->sums + h * c->view->n : NULL, c->view->counts[c->g],
                    "sums");
}

static int head_output(lua_State *L)
{
    const call *c = check_head(L);
    const size_t h = check_query_head(L, c);
    return push_row(L, c->view->output ? c->view->output + h * c->view->n : NULL,
                    c->view->counts[c->g], "output");
}

static int head_hidden(lua_State *L)
{
    const call *c = check_head(L);
    const cdz_press_view *v = c->view;
    const size_t i = check_index(L, 2, v->n_queries, "query");
    return push_row(L, v->hidden ? v->hidden + i * v->hidden_dim : NULL, v->hidden_dim, "hidden");
}

static int head_position(lua_State *L)
{
    const call *c = check_head(L);
    const uint32_t i = check_index(L, 2, c->view->counts[c->g], "entry");
    lua_pushinteger(L, c->view->positions[(size_t)c->g * c->view->n + i]);
    return 1;
}

static const luaL_Reg methods[] = {
    {"key", head_key},       {"value", head_value},       {"query", head_query},
    {"sums", head_sums},     {"output", head_output},     {"attention", head_attention},
    {"hidden", head_hidden}, {"position", head_position}, {NULL, NULL}};

static bool push_number(lua_State *L, const call *c, const char *name)
{
    const cdz_press_view *v = c->view;
    const struct {
        const char *name;
        lua_Integer value;
    } numbers[] = {{"n", v->counts[c->g]},
                   {"keep", c->choice->counts[c->g]},
                   {"layer", (lua_Integer)v->layer + 1},
                   {"n_layers", v->n_layers},
                   {"index", (lua_Integer)c->g + 1},
                   {"n_heads", v->n_kv_heads},
                   {"group", v->n_heads / v->n_kv_heads},
                   {"dim", v->head_dim},
                   {"seen", v->seen},
                   {"n_queries", v->n_queries},
                   {"window", v->window}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0) {
            lua_pushinteger(L, numbers[i].value);
            return true;
        }
    return false;
}

static int head_index(lua_State *L)
{
    const call *c = check_head(L);
    const char *name = luaL_checkstring(L, 2);
    for (const luaL_Reg *m = methods; m->name; m++)
        if (strcmp(m->name, name) == 0) {
            lua_pushcfunction(L, m->func);
            return 1;
        }
    if (push_number(L, c, name)) return 1;
    if (strcmp(name, "scores") == 0)
        cdz_lua_push_view(L, c->choice->scores + (size_t)c->g * c->view->n, c->view->counts[c->g]);
    else if (strcmp(name, "decoding") == 0)
        lua_pushboolean(L, c->view->decoding != 0);
    else if (strcmp(name, "ratio") == 0)
        lua_pushnumber(L, c->view->ratio);
    else
        return luaL_error(L, "a head has no '%s'", name);
    return 1;
}

static int head_newindex(lua_State *L)
{
    const call *c = check_head(L);
    const char *name = luaL_checkstring(L, 2);
    if (strcmp(name, "keep") != 0)
        return luaL_error(L, "head.%s cannot be set; head.keep can", name);
    const lua_Integer keep = luaL_checkinteger(L, 3);
    if (keep < 0 || keep > (lua_Integer)c->view->counts[c->g])
        return luaL_error(L, "head.keep is %d, expected 0 to %d", (int)keep,
                          (int)c->view->counts[c->g]);
    c->choice->counts[c->g] = (uint32_t)keep;
    return 0;
}

static void push_head(lua_State *L, const call *c)
{
    head *h = lua_newuserdatauv(L, sizeof *h, 0);
    *h = (head){*c, {&cdz_lua_of(L)->scores_clock, cdz_lua_of(L)->scores_clock}};
    if (luaL_newmetatable(L, HEAD)) {
        lua_pushcfunction(L, head_index);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, head_newindex);
        lua_setfield(L, -2, "__newindex");
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
    }
    lua_setmetatable(L, -2);
}

/* score(p, head, ctx) */
static int call_score(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);
    cdz_lua_get(L, CDZ_LUA_SLOT_CALL);
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    push_head(L, c);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, 3, 0);
    return 0;
}

static cdz_status press(const cdz_step *step, const cdz_press_view *view, cdz_press_choice *choice)
{
    cdz_lua_session *S = step->shared;
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        call c = {view, choice, g};
        S->row_set = false;
        CDZ_TRY(cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_score, &c)));
    }
    return CDZ_OK;
}

const cdz_press cdz_lua_press = {
    .base = {CDZ_PRESS_BASE},
    .create = cdz_lua_create,
    .begin = cdz_lua_begin,
    .needs = needs,
    .press = press,
    .end = cdz_lua_end,
};
