/* steer.c - edits of hidden states in Lua (cadenza/ext/steer.h): seq:steer(edits) of strategies, `steer` of processors, and
 * `on_hidden` of both.
 *
 * An edit is a table { layer =, place =, op =, scale =, vector =, from =, to = }. Layers count from 0, as hidden states do; tokens
 * from 1, `to` being the last one, as Lua counts. Not: what a table of several extensions is made of (extensions.c). */
#include <string.h>

#include "cadenza/ext/form.h"
#include "cadenza/ext/steer.h"
#include "lua/decoder.h"

enum { MOST_EDITS = 65536, MOST_NUMBERS = 1 << 26 /* of their vectors, together */ };

static const char *const places[] = {"embedding", "attention", "mlp", "block", NULL};

/* An integer from `least` on; absent: `otherwise`, which may be -1 for none. */
static uint32_t read_count(lua_State *L, int at, size_t i, const char *key, lua_Integer least,
                           lua_Integer otherwise)
{
    const int type = cdz_lua_field(L, at, key);
    const lua_Integer n = type == LUA_TNIL       ? otherwise
                          : lua_isinteger(L, -1) ? lua_tointeger(L, -1)
                                                 : -1;
    if (n < least || n > INT32_MAX)
        luaL_error(L, "edit %I: %s must be an integer from %I", (lua_Integer)i + 1, key, least);
    lua_pop(L, 1);
    return (uint32_t)n;
}

static void refuse_word(lua_State *L, size_t i, const char *key, const char *word,
                        const char *const *words, uint32_t n)
{
    luaL_Buffer all;
    const char *near = cdz_nearest_name(word, words, n);
    luaL_buffinit(L, &all);
    for (uint32_t w = 0; w < n; w++) {
        if (w) luaL_addstring(&all, ", ");
        luaL_addstring(&all, words[w]);
    }
    luaL_pushresult(&all);
    luaL_error(L, "edit %I: %s '%s' is none of %s%s%s%s", (lua_Integer)i + 1, key, word,
               lua_tostring(L, -1), near ? "; did you mean '" : "", near ? near : "",
               near ? "'?" : "");
}

static uint32_t read_word(lua_State *L, int at, size_t i, const char *key, const char *const *words,
                          uint32_t otherwise)
{
    uint32_t w = 0, n = 0;
    while (words[n]) n++;
    if (cdz_lua_field(L, at, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return otherwise;
    }
    const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    while (words[w] && strcmp(words[w], word) != 0) w++;
    if (!words[w]) refuse_word(L, i, key, word, words, n);
    lua_pop(L, 1);
    return w;
}

static float read_scale(lua_State *L, int at, size_t i)
{
    int number = 1;
    cdz_lua_field(L, at, "scale");
    const lua_Number x = lua_isnil(L, -1) ? 1 : lua_tonumberx(L, -1, &number);
    if (!number) luaL_error(L, "edit %I: scale must be a number", (lua_Integer)i + 1);
    lua_pop(L, 1);
    return (float)x;
}

/* The vector stays where it is: its table holds it. */
static void read_vector(lua_State *L, int at, size_t i, cdz_edit *out)
{
    if (cdz_lua_field(L, at, "vector") != LUA_TNIL) {
        const cdz_lua_vec *v = cdz_lua_test_vec(L, lua_gettop(L));
        if (!v) luaL_error(L, "edit %I: vector must be a vec", (lua_Integer)i + 1);
        if (v->n > UINT32_MAX) luaL_error(L, "edit %I: its vector is too long", (lua_Integer)i + 1);
        cdz_lua_charge_elements(L, v->n);
        out->vector = v->data;
        out->width = (uint32_t)v->n;
    }
    lua_pop(L, 1);
}

static cdz_edit read_edit(lua_State *L, int at, size_t i)
{
    static const char *const ops[] = {"add", "replace", "scale", "project_out", "call", NULL};
    static const char *const keys[] = {"layer", "place", "op", "scale", "vector", "from", "to"};

    cdz_lua_check_keys(L, at, keys, sizeof keys / sizeof *keys, false,
                       lua_pushfstring(L, "edit %I has no field", (lua_Integer)i + 1));
    lua_pop(L, 1);
    cdz_edit e = {.layer = read_count(L, at, i, "layer", 0, -1),
                  .place = read_word(L, at, i, "place", places, CDZ_EDIT_BLOCK),
                  .op = read_word(L, at, i, "op", ops, CDZ_EDIT_ADD),
                  .scale = read_scale(L, at, i),
                  .from = read_count(L, at, i, "from", 1, 1) - 1,
                  .to = read_count(L, at, i, "to", 0, 0)};
    read_vector(L, at, i, &e);
    return e;
}

/* The list at `at`, as an array in a userdata that is pushed. */
static const cdz_edit *read_edits(lua_State *L, int at, uint32_t *n_out)
{
    const size_t n = lua_rawlen(L, at);
    if (n > MOST_EDITS)
        luaL_error(L, "%I edits; at most %I", (lua_Integer)n, (lua_Integer)MOST_EDITS);
    cdz_edit *edits = lua_newuserdatauv(L, (n + 1) * sizeof *edits, 0);
    size_t numbers = 0;
    for (size_t i = 0; i < n; i++) {
        if (lua_rawgeti(L, at, (lua_Integer)i + 1) != LUA_TTABLE)
            luaL_error(L, "edit %I is a %s, expected a table", (lua_Integer)i + 1,
                       luaL_typename(L, -1));
        edits[i] = read_edit(L, lua_gettop(L), i);
        if ((numbers += edits[i].width) > MOST_NUMBERS)
            luaL_error(L, "the vectors of %I edits have more than %I numbers", (lua_Integer)n,
                       (lua_Integer)MOST_NUMBERS);
        lua_pop(L, 1);
    }
    *n_out = (uint32_t)n;
    return edits;
}

/* --- on_hidden ---------------------------------------------------------------------------------------------------------- */

/* The object that a script is given: good until the call has ended. */
#define HIDDEN "cadenza.hidden"
typedef struct hidden_object {
    const cdz_hidden_chunk *of;
    cdz_lua_stamp stamp;
} hidden_object;

static const cdz_hidden_chunk *check_hidden(lua_State *L)
{
    const hidden_object *o = luaL_checkudata(L, 1, HIDDEN);
    if (*o->stamp.clock != o->stamp.time)
        luaL_error(L, "hidden states belong to the call of on_hidden that they were given to");
    return o->of;
}

static int push_vector(lua_State *L, const float *data, size_t n, bool shown)
{
    cdz_lua_session *S = cdz_lua_of(L);
    float *at;
    memcpy(&at, &data, sizeof at);
    cdz_lua_vec *v = cdz_lua_push_view(L, at, n);
    v->stamp = (cdz_lua_stamp){&S->hidden_clock, S->hidden_clock};
    v->of_state = shown;
    return 1;
}

static int hidden_at(lua_State *L, const cdz_hidden_chunk *c)
{
    const lua_Integer i = lua_tointeger(L, 2);
    if (i < 1 || i > (lua_Integer)c->n)
        return luaL_error(L, "position %I of %I, which are numbered from 1", i, (lua_Integer)c->n);
    return push_vector(L, c->h + (size_t)(i - 1) * c->width, c->width, false);
}

static int hidden_index(lua_State *L)
{
    const cdz_hidden_chunk *c = check_hidden(L);
    if (lua_isinteger(L, 2)) return hidden_at(L, c);
    const char *name = luaL_checkstring(L, 2);
    if (strcmp(name, "from") == 0)
        lua_pushinteger(L, (lua_Integer)c->position + 1);
    else if (strcmp(name, "to") == 0)
        lua_pushinteger(L, (lua_Integer)c->position + c->n);
    else if (strcmp(name, "width") == 0)
        lua_pushinteger(L, c->width);
    else if (strcmp(name, "place") == 0)
        lua_pushstring(L, places[c->edit->place]);
    else if (strcmp(name, "scale") == 0)
        lua_pushnumber(L, (lua_Number)c->edit->scale);
    else if (strcmp(name, "vector") != 0)
        return luaL_error(L,
                          "hidden states have no '%s'; they have from, to, width, place, scale, "
                          "vector and positions from 1 on",
                          name);
    else if (c->edit->vector)
        push_vector(L, c->edit->vector, c->width, true);
    else
        lua_pushnil(L);
    return 1;
}

static int hidden_count(lua_State *L)
{
    lua_pushinteger(L, check_hidden(L)->n);
    return 1;
}

/* h[i] = v */
static int hidden_set(lua_State *L)
{
    const cdz_hidden_chunk *c = check_hidden(L);
    if (!lua_isinteger(L, 2))
        return luaL_error(L, "of hidden states positions can be set: h[1] = v, or h[1]:add(v)");
    (void)hidden_at(L, c);
    const cdz_lua_vec *from = cdz_lua_check_vec_of(L, 3, c->width);
    float *to = c->h + (size_t)(lua_tointeger(L, 2) - 1) * c->width;
    cdz_lua_charge_elements(L, c->width);
    memmove(to, from->data, c->width * sizeof *to);
    return 0;
}

static void push_hidden(lua_State *L, const cdz_hidden_chunk *c)
{
    cdz_lua_session *S = cdz_lua_of(L);
    hidden_object *o = lua_newuserdatauv(L, sizeof *o, 0);
    *o = (hidden_object){c, {&S->hidden_clock, S->hidden_clock}};
    if (luaL_newmetatable(L, HIDDEN)) {
        static const luaL_Reg meta[] = {{"__index", hidden_index},
                                        {"__newindex", hidden_set},
                                        {"__len", hidden_count},
                                        {NULL, NULL}};
        luaL_setfuncs(L, meta, 0);
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
    }
    lua_setmetatable(L, -2);
}

/* on_hidden(p, row, layer, h, ctx) of processors, on_hidden(ctx, row, layer, h) of strategies; row nil: a sequence of a loop's own. */
static int call_on_hidden(lua_State *L)
{
    const cdz_hidden_chunk *c = lua_touserdata(L, 1);
    const bool strategy = cdz_lua_of(L)->kind == CDZ_KIND_STRATEGY;
    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "on_hidden");
    cdz_lua_get(L, strategy ? CDZ_LUA_SLOT_CTX : CDZ_LUA_SLOT_PARAMS);
    if (c->row == CDZ_NO_ROW)
        lua_pushnil(L);
    else
        lua_pushinteger(L, (lua_Integer)c->row + 1);
    lua_pushinteger(L, c->edit->layer);
    push_hidden(L, c);
    if (!strategy) cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_call(L, strategy ? 4 : 5, 0);
    return 0;
}

/* It may come while a strategy waits for the pass: what that holds stays good, and its verbs are out of reach. */
static cdz_status on_hidden(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    cdz_lua_session *S = step->shared;
    cdz_decoder *dec = S->dec;
    const uint64_t scores = S->scores_clock, ids = S->ids_clock, pass = S->pass_clock;
    cdz_hidden_chunk own = *hidden;

    S->dec = NULL;
    const cdz_status status = cdz_lua_enter(S, step, hidden->n, call_on_hidden, &own);
    S->hidden_clock++;
    S->dec = dec;
    if (dec) {
        S->scores_clock = scores;
        S->ids_clock = ids;
        S->pass_clock = pass;
    }
    return cdz_lua_report(S, step, status);
}

/* --- strategies ------------------------------------------------------------------------------------------------------- */

/* The first edit that is a call tells the host whom to call. */
static void tell_of_on_hidden(lua_State *L, const cdz_edit *edits, uint32_t n)
{
    cdz_lua_session *S = cdz_lua_of(L);
    uint32_t i = 0;
    while (i < n && edits[i].op != CDZ_EDIT_CALL) i++;
    if (i == n || S->is_called || !cdz_lua_def_of(S->step)->has_on_hidden) return;
    cdz_lua_try(L, cdz_on_hidden(cdz_lua_decoder(L), S->step, on_hidden, S));
    S->is_called = true;
}

int cdz_lua_steer_at(lua_State *L, int at, cdz_seq *seq)
{
    uint32_t n = 0;
    luaL_checktype(L, at + 1, LUA_TTABLE);
    const cdz_edit *edits = read_edits(L, at + 1, &n);
    tell_of_on_hidden(L, edits, n);
    cdz_lua_try(L, cdz_seq_steer(cdz_lua_decoder(L), seq, edits, n));
    lua_settop(L, at);
    return 1;
}

/* --- processors --------------------------------------------------------------------------------------------------------- */

typedef struct asked {
    const cdz_step *step;
    const cdz_steered *whom;
    cdz_edit *edits; /* request lifetime, with their vectors */
    uint32_t n;
} asked;

static void *keep(lua_State *L, const cdz_step *step, size_t bytes)
{
    void *memory = cdz_alloc(step, bytes + 1);
    if (!memory) luaL_error(L, "out of memory for edits of hidden states");
    return memory;
}

static void take_edits(lua_State *L, asked *a)
{
    const cdz_edit *edits = read_edits(L, lua_gettop(L), &a->n);
    a->edits = keep(L, a->step, a->n * sizeof *a->edits);
    for (uint32_t i = 0; i < a->n; i++) {
        a->edits[i] = edits[i];
        if (!edits[i].vector) continue;
        const size_t bytes = edits[i].width * sizeof(float);
        a->edits[i].vector = memcpy(keep(L, a->step, bytes), edits[i].vector, bytes);
    }
}

static void set_count(lua_State *L, const char *name, uint32_t n)
{
    lua_pushinteger(L, n);
    lua_setfield(L, -2, name);
}

/* steer(p, row, ctx, model) */
static int call_steer(lua_State *L)
{
    asked *a = lua_touserdata(L, 1);

    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "steer");
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    lua_pushinteger(L, (lua_Integer)a->whom->row + 1);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_createtable(L, 0, 4);
    set_count(L, "n_layers", a->whom->n_layers);
    set_count(L, "width", a->whom->width);
    set_count(L, "prompt_len", a->whom->prompt_len);
    set_count(L, "prompt", a->whom->prompt_index + 1);
    cdz_lua_of(L)->in_begin = true; /* text may be encoded */
    lua_call(L, 4, 1);
    if (lua_isnil(L, -1)) return 0;
    if (!lua_istable(L, -1))
        return luaL_error(L, "steer returned a %s, expected a list of edits or nothing",
                          luaL_typename(L, -1));
    cdz_lua_unwrap(L, lua_gettop(L));
    take_edits(L, a);
    return 0;
}

static cdz_status steer(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n)
{
    cdz_lua_session *S = step->shared;
    asked a = {.step = step, .whom = row};

    const cdz_status status = cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_steer, &a));
    *edits = a.edits;
    *n = a.n;
    return status;
}

const void *cdz_lua_steer_extension(const char *id)
{
    static const cdz_steer_api api = {.size = sizeof api, .steer = steer};

    return strcmp(id, CDZ_EXT_STEER) == 0 ? &api : NULL;
}

const void *cdz_lua_on_hidden_extension(const char *id)
{
    static const cdz_steer_api api = {.size = sizeof api, .steer = steer, .on_hidden = on_hidden};

    return strcmp(id, CDZ_EXT_STEER) == 0 ? &api : NULL;
}

/* --- a processor that does nothing but steer: its scores stay as they are, which the host may know ------------------------ */

cdz_status cdz_lua_leave_scores(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static bool divides_by_one(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_DIVIDE;
    out->amount = 1;
    return true;
}

const void *cdz_lua_plain_extension(const char *id)
{
    static const cdz_form_api api = {.size = sizeof api, .describe = divides_by_one};

    return strcmp(id, CDZ_EXT_FORM) == 0 ? &api : NULL;
}
