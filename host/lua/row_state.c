/* row_state.c - the state of a row: a table of plain values, vectors and bitsets, deep-copied whenever the host copies a
 * row. The row's bytes hold the number under which its table is kept; 0 is still the table begin returned.
 *
 * apply and test may look at the state but not change it: they see the tables through read-only faces, made once after
 * each change, and the vectors themselves, which refuse to be written outside accept. */
#include <string.h>

#include "cadenza/ext/state.h"
#include "lua/script.h"
#include "lua/types.h"

#define MAX_DEPTH 64

/* Looked at, tables get a read-only face, vectors and bitsets are shared. */
typedef enum purpose { TO_KEEP, TO_LOOK_AT } purpose;

static const char face_mark; /* its address is a key of every face's metatable */

static void copy_value(lua_State *L, int from, int memo, purpose why, int depth);

static int refuse(lua_State *L, int index, const char *why)
{
    return luaL_error(
        L, "a state holds numbers, strings, booleans, tables, vectors and bitsets; found %s%s",
        cdz_lua_text(L, index, NULL), why);
}

/* Pushes the copy made earlier of the object at from; false when there is none. So shared and cyclic tables stay so. */
static bool push_known(lua_State *L, int from, int memo)
{
    lua_pushvalue(L, from);
    if (lua_rawget(L, memo) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

static void remember(lua_State *L, int from, int memo)
{
    lua_pushvalue(L, from);
    lua_pushvalue(L, -2);
    lua_rawset(L, memo);
}

static int refuse_write(lua_State *L)
{
    if (cdz_lua_of(L)->kind == CDZ_KIND_DRAFTER)
        return luaL_error(L, "ctx.state of a drafter is what begin returned and cannot be "
                             "replaced; keep what the drafter remembers in local variables of "
                             "the file");
    return luaL_error(L, "a row's state is written by accept only");
}

/* The table behind a face at index, pushed. */
static void push_behind(lua_State *L, int index)
{
    lua_getmetatable(L, index);
    lua_getfield(L, -1, "__index");
    lua_remove(L, -2);
}

static int face_len(lua_State *L)
{
    push_behind(L, 1);
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, -1));
    return 1;
}

/* Turns the empty table at the top into a face and pushes the table that lies behind it. */
static void make_face(lua_State *L)
{
    lua_createtable(L, 0, 5);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__index");
    lua_insert(L, -2);
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, face_len);
    lua_setfield(L, -2, "__len");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushboolean(L, 1);
    lua_rawsetp(L, -2, &face_mark);
    lua_setmetatable(L, -3);
}

void cdz_lua_unwrap(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index)) return;
    const bool face = lua_rawgetp(L, -1, &face_mark) == LUA_TBOOLEAN;
    lua_pop(L, 2);
    if (!face) return;
    push_behind(L, index);
    lua_replace(L, index);
}

int cdz_lua_field(lua_State *L, int index, const char *name)
{
    const int at = lua_absindex(L, index);

    cdz_lua_unwrap(L, at);
    if (!lua_istable(L, at)) {
        lua_pushnil(L);
        return LUA_TNIL;
    }
    lua_pushstring(L, name);
    return lua_rawget(L, at);
}

static void copy_table(lua_State *L, int from, int memo, purpose why, int depth)
{
    if (depth > MAX_DEPTH)
        luaL_error(L, "a state's tables are nested too deeply (at most %d)", MAX_DEPTH);
    if (lua_getmetatable(L, from)) refuse(L, from, " with a metatable");
    luaL_checkstack(L, 10, NULL);
    lua_newtable(L);
    const int result = lua_gettop(L);
    remember(L, from, memo);
    if (why == TO_LOOK_AT) make_face(L);
    const int to = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, from)) {
        cdz_lua_charge(L, 1);
        if (lua_type(L, -2) > LUA_TSTRING) refuse(L, -2, " as a key");
        lua_pushvalue(L, -2);
        copy_value(L, lua_gettop(L) - 1, memo, why, depth + 1);
        lua_rawset(L, to);
        lua_pop(L, 1);
    }
    lua_settop(L, result);
}

static void copy_vec(lua_State *L, const cdz_lua_vec *v)
{
    cdz_lua_charge_elements(L, v->n);
    cdz_lua_vec *copy = cdz_lua_push_vec(L, v->n, v->base);
    if (v->n > 0) memcpy(copy->data, v->data, v->n * sizeof(float));
    copy->of_state = true;
}

static void copy_bitset(lua_State *L, const cdz_lua_bitset *b)
{
    cdz_lua_charge_elements(L, b->n / 32);
    cdz_lua_bitset *copy = cdz_lua_push_bitset(L, b->n);
    memcpy(copy->words, b->words, b->owned);
    copy->of_state = true;
}

static void copy_object(lua_State *L, int from, int memo, purpose why)
{
    const cdz_lua_vec *v = luaL_testudata(L, from, CDZ_LUA_VEC);
    const cdz_lua_bitset *b = luaL_testudata(L, from, CDZ_LUA_BITSET);

    if ((!v && !b) || (v && !v->owned)) refuse(L, from, v ? ", a view into a row (copy it)" : "");
    if (why == TO_LOOK_AT) {
        lua_pushvalue(L, from);
        return;
    }
    if (v)
        copy_vec(L, v);
    else
        copy_bitset(L, b);
    remember(L, from, memo);
}

/* Pushes a copy of the value at the absolute index from. */
static void copy_value(lua_State *L, int from, int memo, purpose why, int depth)
{
    switch (lua_type(L, from)) {
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
    case LUA_TSTRING: lua_pushvalue(L, from); break;
    case LUA_TTABLE:
        if (!push_known(L, from, memo)) copy_table(L, from, memo, why, depth);
        break;
    case LUA_TUSERDATA:
        if (!push_known(L, from, memo)) copy_object(L, from, memo, why);
        break;
    default: refuse(L, from, "");
    }
}

/* Replaces the top by its copy. */
static void replace_by_copy(lua_State *L, purpose why)
{
    const int from = lua_gettop(L);

    lua_newtable(L);
    copy_value(L, from, from + 1, why, 0);
    lua_replace(L, from);
    lua_settop(L, from);
}

void cdz_lua_copy_state(lua_State *L)
{
    replace_by_copy(L, TO_KEEP);
}

/* Keeps the value at the top (popped) under a number of its own. */
static int32_t keep_state(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);

    cdz_lua_get(L, CDZ_LUA_SLOT_STATES);
    lua_insert(L, -2);
    lua_rawseti(L, -2, S->next_state + 1);
    lua_pop(L, 1);
    return ++S->next_state;
}

/* Pushes the row's table as it is kept: its own or begin's. */
static void push_kept(lua_State *L, const cdz_lua_row_state *state)
{
    if (!state || state->ref == 0) {
        cdz_lua_get(L, CDZ_LUA_SLOT_STATE);
        return;
    }
    cdz_lua_get(L, CDZ_LUA_SLOT_STATES);
    lua_rawgeti(L, -1, state->ref);
    lua_remove(L, -2);
}

/* Forgets the faces of a state that changes or goes. */
static void drop_faces(lua_State *L, int32_t ref)
{
    cdz_lua_get(L, CDZ_LUA_SLOT_FACES);
    lua_pushnil(L);
    lua_rawseti(L, -2, ref);
    lua_pop(L, 1);
}

static void push_faces(lua_State *L, const cdz_lua_row_state *state)
{
    const int32_t ref = state ? state->ref : 0;

    cdz_lua_get(L, CDZ_LUA_SLOT_FACES);
    if (lua_rawgeti(L, -1, ref) == LUA_TNIL) {
        lua_pop(L, 1);
        push_kept(L, state);
        replace_by_copy(L, TO_LOOK_AT);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, ref);
    }
    lua_remove(L, -2);
}

void cdz_lua_push_row_state(lua_State *L, cdz_lua_row_state *state, bool writable)
{
    if (!writable) {
        push_faces(L, state);
        return;
    }
    push_kept(L, state);
    if (state->ref != 0) {
        drop_faces(L, state->ref);
        return;
    }
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
    }
    replace_by_copy(L, TO_KEEP);
    lua_pushvalue(L, -1);
    state->ref = keep_state(L);
}

/* --- cadenza.state/1 ---------------------------------------------------------------------------------------- */

typedef struct clone_args {
    const cdz_lua_row_state *from;
    cdz_lua_row_state *to;
} clone_args;

static int clone_protected(lua_State *L)
{
    clone_args *args = lua_touserdata(L, 1);

    push_kept(L, args->from);
    replace_by_copy(L, TO_KEEP);
    args->to->ref = keep_state(L);
    return 0;
}

static cdz_status clone_state(const cdz_step *step, const void *from, void *to)
{
    clone_args args = {from, to};

    args.to->ref = 0;
    if (args.from->ref == 0) return CDZ_OK;
    cdz_lua_session *S = step->shared;
    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, clone_protected, &args));
}

static int free_protected(lua_State *L)
{
    const cdz_lua_row_state *state = lua_touserdata(L, 1);

    cdz_lua_get(L, CDZ_LUA_SLOT_STATES);
    lua_pushnil(L);
    lua_rawseti(L, -2, state->ref);
    drop_faces(L, state->ref);
    return 0;
}

static void free_state(const cdz_step *step, void *bytes)
{
    cdz_lua_row_state *state = bytes;

    if (state->ref == 0) return;
    /* Without effect once a budget is spent: the whole session ends soon. */
    (void)cdz_lua_enter(step->shared, step, 1, free_protected, state);
    state->ref = 0;
}

typedef struct move_args {
    const cdz_lua_row_state *from;
    cdz_lua_row_state *to;
    cdz_buf bytes;
} move_args;

static int leave_protected(lua_State *L)
{
    move_args *args = lua_touserdata(L, 1);

    push_kept(L, args->from);
    cdz_lua_write_state(L, &args->bytes);
    return 0;
}

static int arrive_protected(lua_State *L)
{
    move_args *args = lua_touserdata(L, 1);

    cdz_lua_read_state(L, &args->bytes);
    args->to->ref = keep_state(L);
    return 0;
}

/* A row that accept never wrote to begins with what the new version's begin returned. */
static cdz_status hand_over_state(const cdz_step *step, const cdz_step *old, const void *from,
                                  void *to)
{
    move_args args = {.from = from, .to = to};

    args.to->ref = 0;
    if (args.from->ref == 0) return CDZ_OK;
    cdz_lua_session *S = step->shared, *before = old->shared;
    cdz_status st =
        cdz_lua_report(before, step, cdz_lua_enter(before, old, 1, leave_protected, &args));
    if (st == CDZ_OK)
        st = cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, arrive_protected, &args));
    cdz_buf_free(&args.bytes);
    return st;
}

const void *cdz_lua_state_extension(const char *id)
{
    static const cdz_state_api api = {sizeof api, clone_state, free_state, hand_over_state};

    return strcmp(id, CDZ_EXT_STATE) == 0 ? &api : NULL;
}
