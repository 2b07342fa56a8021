/* batch.c - several score rows at once. Every method of a vector works on a batch, row by row with the same arguments (of
 * an argument that is a batch itself, its row): what works in place returns the batch, what answers returns a table with
 * one answer per row. */
#include <string.h>

#include "lua/decoder.h"

static void map_scores(lua_State *L, cdz_lua_batch *b)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (b->scores.data) return;
    if (!b->decoder || !S->dec) luaL_error(L, "these scores are not in host memory");
    const cdz_status st = cdz_map(S->dec, &b->scores);
    if (st != CDZ_OK) cdz_lua_host_failed(L, st);
}

/* Pushes row r, from 0, of the batch at `index`; valid as long as the batch, which a row of a copy keeps alive. */
static void push_row(lua_State *L, int index, uint32_t r)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, index);

    map_scores(L, b);
    cdz_lua_vec *v = cdz_lua_push_view(L, cdz_row(&b->scores, r), b->scores.n_vocab);
    v->stamp = b->stamp;
    if (!b->room) return;
    lua_pushvalue(L, index);
    lua_setiuservalue(L, -2, 1);
}

static uint32_t check_row(lua_State *L, const cdz_lua_batch *b, int index)
{
    const lua_Integer r = luaL_checkinteger(L, index);

    if (r < 1 || r > (lua_Integer)b->scores.n_rows)
        luaL_error(L, "row %I is outside 1 to %I", r, (lua_Integer)b->scores.n_rows);
    return (uint32_t)(r - 1);
}

/* b:row(r) and b[r], from 1 */
static int batch_row(lua_State *L)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, 1);

    if (lua_type(L, 2) != LUA_TNUMBER)
        return luaL_error(L, "no method '%s'", cdz_lua_text(L, 2, NULL));
    push_row(L, 1, check_row(L, b, 2));
    return 1;
}

static int batch_len(lua_State *L)
{
    lua_pushinteger(L, cdz_lua_check_batch(L, 1)->scores.n_rows);
    return 1;
}

/* The arguments of one row's call: those of the batch's call, batches replaced by their row. */
static void push_arguments(lua_State *L, int n_args, uint32_t r)
{
    for (int i = 2; i <= n_args; i++) {
        cdz_lua_batch *other = luaL_testudata(L, i, CDZ_LUA_BATCH);
        if (!other) {
            lua_pushvalue(L, i);
            continue;
        }
        cdz_lua_check_batch(L, i);
        if (r >= other->scores.n_rows) luaL_error(L, "batches with different numbers of rows");
        push_row(L, i, r);
    }
}

/* Upvalue: the method of vectors. [batch, args..., tables of the first and second answers] */
static int call_each(lua_State *L)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, 1);
    const lua_CFunction method = lua_tocfunction(L, lua_upvalueindex(1));
    const int n_args = lua_gettop(L);
    bool in_place = true;
    int answers = 0;

    luaL_checkstack(L, n_args + 8, NULL);
    lua_newtable(L);
    lua_newtable(L);
    for (uint32_t r = 0; r < b->scores.n_rows; r++) {
        push_row(L, 1, r);
        const int row = lua_gettop(L);
        lua_pushcfunction(L, method);
        lua_pushvalue(L, row);
        push_arguments(L, n_args, r);
        lua_call(L, n_args, LUA_MULTRET);
        answers = lua_gettop(L) - row;
        in_place = in_place && answers == 1 && lua_rawequal(L, row, row + 1);
        for (int k = 0; k < answers && k < 2; k++) {
            lua_pushvalue(L, row + 1 + k);
            lua_rawseti(L, n_args + 1 + k, (lua_Integer)r + 1);
        }
        lua_settop(L, n_args + 2);
    }
    if (in_place)
        lua_settop(L, 1);
    else if (answers < 2)
        lua_settop(L, n_args + 1);
    return in_place || answers < 2 ? 1 : 2;
}

static int softmax(lua_State *L, bool log)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, 1);
    cdz_lua_session *S = cdz_lua_of(L);

    if (!b->decoder || !S->dec) return call_each(L);
    cdz_lua_charge_elements(L, 4 * (size_t)b->scores.n_rows * b->scores.n_vocab);
    const cdz_status st =
        log ? cdz_log_softmax(S->dec, &b->scores) : cdz_softmax(S->dec, &b->scores);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    lua_settop(L, 1);
    return 1;
}

static int batch_softmax(lua_State *L)
{
    return softmax(L, false);
}

static int batch_log_softmax(lua_State *L)
{
    return softmax(L, true);
}

/* b:copy(): scores of its own, that stay; where no decoder keeps them, a list of vectors. */
static int batch_copy(lua_State *L)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, 1);

    if (!b->decoder || !cdz_lua_of(L)->dec) return call_each(L);
    map_scores(L, b);
    return cdz_lua_copy_scores(L, b);
}

/* Into the table at the top: name -> call_each(function). */
static void add_methods(lua_State *L, const luaL_Reg *list)
{
    for (; list->name; list++) {
        lua_pushcfunction(L, list->func);
        lua_pushcclosure(L, call_each, 1);
        lua_setfield(L, -2, list->name);
    }
}

void cdz_lua_open_batch(lua_State *L)
{
    static const luaL_Reg own[] = {{"row", batch_row}, {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__len", batch_len}, {"__gc", cdz_lua_copy_collected}, {NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_BATCH, own, meta, batch_row);
    luaL_getmetatable(L, CDZ_LUA_BATCH);
    lua_getfield(L, -1, "__index");
    lua_getupvalue(L, -1, 1);
    add_methods(L, cdz_lua_vec_access);
    add_methods(L, cdz_lua_vec_arith);
    add_methods(L, cdz_lua_vec_reduce);
    add_methods(L, cdz_lua_vec_dist);
    add_methods(L, cdz_lua_vec_history);
    add_methods(L, cdz_lua_vec_formula);
    /* The decoder's own where the scores are the decoder's; upvalue: what else. */
    for (const luaL_Reg *f = cdz_lua_vec_dist; f->name; f++) {
        const bool log = strcmp(f->name, "log_softmax") == 0;
        if (!log && strcmp(f->name, "softmax") != 0) continue;
        lua_pushcfunction(L, f->func);
        lua_pushcclosure(L, log ? batch_log_softmax : batch_softmax, 1);
        lua_setfield(L, -2, f->name);
    }
    for (const luaL_Reg *f = cdz_lua_vec_access; f->name; f++) {
        if (strcmp(f->name, "copy") != 0) continue;
        lua_pushcfunction(L, f->func);
        lua_pushcclosure(L, batch_copy, 1);
        lua_setfield(L, -2, f->name);
    }
    lua_pop(L, 3);
}
