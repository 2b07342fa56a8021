/* vec_expr.c - vec.expr: a formula read once and run over whole rows in C. What it may say is vec/expr.h's.
 *
 *   local f = vec.expr("x > t ? x * a : x - b", { "t", "a", "b" })
 *   row:apply(f, 1.5, 0.9, other)          or f(row, 1.5, 0.9, other) */
#include <string.h>

#include "lua/types.h"
#include "vec/expr.h"

#define SLAB 65536 /* elements between two looks at the clock */

/* vec.expr(text [, names]) */
int cdz_lua_vec_expr(lua_State *L)
{
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);
    cdz_error err = {0};
    cdz_status st = CDZ_OK;

    lua_settop(L, 2);
    cdz_lua_charge(L, 100 + (lua_Integer)len);
    cdz_expr *e = lua_newuserdatauv(L, sizeof *e, 0);
    *e = (cdz_expr){0};
    if (!lua_isnil(L, 2)) {
        cdz_lua_unwrap(L, 2);
        luaL_checktype(L, 2, LUA_TTABLE);
        for (lua_Integer i = 1; st == CDZ_OK && lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
            if (lua_type(L, -1) != LUA_TSTRING)
                return luaL_error(L, "vec.expr: name %I is a %s, expected a string", i,
                                  luaL_typename(L, -1));
            st = cdz_expr_add_name(e, lua_tostring(L, -1), &err);
            lua_pop(L, 1);
        }
        lua_settop(L, 3);
    }
    if (st == CDZ_OK) st = cdz_expr_read(e, text, len, &err);
    if (st != CDZ_OK) return luaL_error(L, "vec.expr: %s", err.text);
    lua_settop(L, 3);
    cdz_lua_scratch(L, cdz_expr_scratch(e)); /* now, so that no call allocates */
    luaL_setmetatable(L, CDZ_LUA_EXPR);
    return 1;
}

/* The arguments of e from stack index `from` on. */
static void read_args(lua_State *L, const cdz_expr *e, int from, size_t n, cdz_expr_arg *args)
{
    const int given = lua_gettop(L) - from + 1;

    if (given != (int)e->n_names)
        luaL_error(L, "the formula has %d arguments, %d were given", (int)e->n_names,
                   given < 0 ? 0 : given);
    for (uint32_t i = 0; i < e->n_names; i++) {
        const int at = from + (int)i;
        if (cdz_lua_test_vec(L, at))
            args[i] = (cdz_expr_arg){.values = cdz_lua_check_vec_of(L, at, n)->data};
        else if (lua_type(L, at) == LUA_TNUMBER)
            args[i] = (cdz_expr_arg){.number = cdz_lua_check_float(L, at)};
        else
            luaL_error(L, "argument '%s' is a %s, expected a number or a vector", e->names[i],
                       cdz_lua_text(L, at, NULL));
    }
}

/* v:apply(formula, ...): in place. */
static int vec_apply(lua_State *L)
{
    cdz_expr_arg args[CDZ_EXPR_NAMES] = {{0}}, part[CDZ_EXPR_NAMES];
    const cdz_lua_vec *v = cdz_lua_check_target(L);
    const cdz_expr *e = luaL_checkudata(L, 2, CDZ_LUA_EXPR);

    read_args(L, e, 3, v->n, args);
    void *scratch = cdz_lua_scratch(L, cdz_expr_scratch(e));
    for (size_t first = 0; first < v->n; first += SLAB) {
        const size_t n = v->n - first < SLAB ? v->n - first : SLAB;
        cdz_lua_charge_elements(L, n * e->cost);
        for (uint32_t i = 0; i < e->n_names; i++)
            part[i] = (cdz_expr_arg){args[i].values ? args[i].values + first : NULL, args[i].number};
        cdz_expr_run(e, part, v->data + first, n, scratch);
    }
    lua_settop(L, 1);
    return 1;
}

/* formula(v, ...) is v:apply(formula, ...), for batches too. */
static int expr_call(lua_State *L)
{
    if (!luaL_testudata(L, 2, CDZ_LUA_VEC) && !luaL_testudata(L, 2, CDZ_LUA_BATCH))
        return luaL_typeerror(L, 2, "vec or scores");
    lua_getfield(L, 2, "apply");
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 3);
    lua_call(L, lua_gettop(L) - 3, 1);
    return 1;
}

const luaL_Reg cdz_lua_vec_formula[] = {{"apply", vec_apply}, {NULL, NULL}};

void cdz_lua_open_expr(lua_State *L)
{
    static const luaL_Reg methods[] = {{NULL, NULL}}, meta[] = {{"__call", expr_call}, {NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_EXPR, methods, meta, NULL);
}
