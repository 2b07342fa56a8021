/* lib_table.c - the table library of scripts: charged by element, capped, and sorted the same way on every run. */
#include <lualib.h>
#include <string.h>

#include "lua/session.h"

#define MAX_ELEMENTS 1000000
#define MAX_UNPACK   8000

/* Upvalue of the functions that end in the stock one. */
static int stock(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* The number of elements from i to j, refused past the cap. */
static lua_Integer span(lua_State *L, lua_Integer i, lua_Integer j, lua_Integer cap)
{
    if (i > j) return 0;
    const lua_Unsigned n = (lua_Unsigned)j - (lua_Unsigned)i;
    if (n >= (lua_Unsigned)cap) luaL_error(L, "too many elements (at most %d)", (int)cap);
    return (lua_Integer)n + 1;
}

/* The table and its length, which is asked for once: a __len may answer otherwise the next time. */
static lua_Integer begin_edit(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    cdz_lua_guard_stack(L);
    return luaL_len(L, 1);
}

/* t[to] = t[from] */
static void move_one(lua_State *L, lua_Unsigned from, lua_Unsigned to)
{
    lua_geti(L, 1, (lua_Integer)from);
    lua_seti(L, 1, (lua_Integer)to);
}

/* table.insert(t, [pos,] value) */
static int l_insert(lua_State *L)
{
    const lua_Unsigned end = (lua_Unsigned)begin_edit(L) + 1; /* wraps as the stock one does */
    const int n_args = lua_gettop(L);

    if (n_args != 2 && n_args != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
    const lua_Integer pos = n_args == 3 ? luaL_checkinteger(L, 2) : (lua_Integer)end;
    luaL_argcheck(L, n_args == 2 || (lua_Unsigned)pos - 1 < end, 2, "position out of bounds");
    const lua_Integer moved = span(L, pos, (lua_Integer)(end - 1), MAX_ELEMENTS);
    cdz_lua_charge(L, 1 + moved / 8);
    for (lua_Unsigned i = 0; i < (lua_Unsigned)moved; i++) move_one(L, end - i - 1, end - i);
    lua_seti(L, 1, pos);
    return 0;
}

/* table.remove(t [, pos]) */
static int l_remove(lua_State *L)
{
    const lua_Integer n = begin_edit(L);
    const lua_Integer pos = luaL_optinteger(L, 2, n);

    lua_settop(L, 1);
    luaL_argcheck(L, pos == n || (lua_Unsigned)pos - 1 <= (lua_Unsigned)n, 2,
                  "position out of bounds");
    const lua_Integer moved = pos < n ? span(L, pos + 1, n, MAX_ELEMENTS) : 0;
    cdz_lua_charge(L, 1 + moved / 8);
    lua_geti(L, 1, pos);
    for (lua_Unsigned i = (lua_Unsigned)pos; i < (lua_Unsigned)(pos + moved); i++)
        move_one(L, i + 1, i);
    lua_pushnil(L);
    lua_seti(L, 1, pos + moved);
    return 1;
}

static int l_concat(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    cdz_lua_guard_stack(L);
    lua_settop(L, 4);
    const lua_Integer i = luaL_optinteger(L, 3, 1);
    const lua_Integer j = lua_isnoneornil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);

    luaL_optstring(L, 2, "");
    cdz_lua_charge(L, 1 + span(L, i, j, MAX_ELEMENTS));
    lua_pushinteger(L, i);
    lua_replace(L, 3);
    lua_pushinteger(L, j);
    lua_replace(L, 4);
    return stock(L);
}

static int l_unpack(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    cdz_lua_guard_stack(L);
    const lua_Integer i = luaL_optinteger(L, 2, 1);
    const lua_Integer j = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);

    cdz_lua_charge(L, 1 + span(L, i, j, MAX_UNPACK));
    lua_settop(L, 1);
    lua_pushinteger(L, i);
    lua_pushinteger(L, j);
    return stock(L);
}

static int l_move(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    cdz_lua_guard_stack(L);
    const lua_Integer n = span(L, luaL_checkinteger(L, 2), luaL_checkinteger(L, 3), MAX_ELEMENTS);

    if (!lua_isnoneornil(L, 5)) luaL_checktype(L, 5, LUA_TTABLE);
    cdz_lua_charge(L, 1 + n);
    return stock(L);
}

/* --- sort: merging, so stable, and never quadratic whatever the comparison says ------------------------------ */

static int compare_strings(lua_State *L, int a, int b)
{
    size_t la, lb;
    const char *sa = lua_tolstring(L, a, &la), *sb = lua_tolstring(L, b, &lb);
    const int d = memcmp(sa, sb, la < lb ? la : lb);

    return d ? d : (la > lb) - (la < lb);
}

/* Is the value at the top less than the one below it? Pops nothing. Strings compare by bytes, not by locale. */
static bool less(lua_State *L, bool own)
{
    cdz_lua_charge(L, 1);
    if (!own) {
        if (lua_type(L, -1) == LUA_TSTRING && lua_type(L, -2) == LUA_TSTRING)
            return compare_strings(L, -1, -2) < 0;
        return lua_compare(L, -1, -2, LUA_OPLT);
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -4);
    lua_call(L, 2, 1);
    const bool yes = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return yes;
}

/* Runs [lo, mid) and [mid, hi) of table `from` become one run of table `to`; 1-based positions. */
static void merge(lua_State *L, int from, int to, lua_Integer lo, lua_Integer mid, lua_Integer hi,
                  bool own)
{
    lua_Integer a = lo, b = mid;

    for (lua_Integer out = lo; out < hi; out++) {
        bool right = a >= mid;
        if (!right && b < hi) {
            lua_rawgeti(L, from, a);
            lua_rawgeti(L, from, b);
            right = less(L, own);
            lua_pop(L, 2);
        }
        lua_rawgeti(L, from, right ? b++ : a++);
        lua_rawseti(L, to, out);
    }
}

static int l_sort(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    const bool own = !lua_isnoneornil(L, 2);
    int from = 1, to = 3;

    if (own) luaL_checktype(L, 2, LUA_TFUNCTION);
    if (n > MAX_ELEMENTS) return luaL_error(L, "too many elements (at most %d)", MAX_ELEMENTS);
    cdz_lua_guard_stack(L);
    cdz_lua_charge(L, n);
    lua_settop(L, 2);
    lua_createtable(L, (int)n, 0);
    for (lua_Integer width = 1; width < n; width *= 2) {
        for (lua_Integer lo = 1; lo <= n; lo += 2 * width) {
            const lua_Integer mid = lo + width <= n ? lo + width : n + 1;
            const lua_Integer hi = mid + width <= n ? mid + width : n + 1;
            merge(L, from, to, lo, mid, hi, own);
        }
        const int swap = from;
        from = to;
        to = swap;
    }
    for (lua_Integer i = 1; from == 3 && i <= n; i++) {
        lua_rawgeti(L, 3, i);
        lua_rawseti(L, 1, i);
    }
    return 0;
}

void cdz_lua_push_table_lib(lua_State *L)
{
    static const luaL_Reg over_stock[] = {
        {"concat", l_concat}, {"unpack", l_unpack}, {"move", l_move}, {NULL, NULL}};
    static const luaL_Reg own[] = {
        {"insert", l_insert}, {"remove", l_remove}, {"sort", l_sort}, {NULL, NULL}};

    lua_pushcfunction(L, luaopen_table);
    lua_call(L, 0, 1);
    lua_newtable(L);
    for (const luaL_Reg *f = over_stock; f->name; f++) {
        lua_getfield(L, -2, f->name);
        lua_pushcclosure(L, f->func, 1);
        lua_setfield(L, -2, f->name);
    }
    lua_getfield(L, -2, "pack");
    lua_setfield(L, -2, "pack");
    luaL_setfuncs(L, own, 0);
    lua_remove(L, -2);
}
