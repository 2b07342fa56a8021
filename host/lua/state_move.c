/* state_move.c - a row's state on its way from one lua_State to another, as bytes: when a request goes over to a new version
 * of a script whose state_version is the same.
 *
 * A byte of type and then the value: integers and reals as they lie in memory, strings and tables with their size before
 * them. Tables, vectors and bitsets are numbered as they come, so that shared and cyclic ones stay so. */
#include <string.h>

#include "base/buf.h"
#include "lua/script.h"
#include "lua/types.h"

#define MAX_DEPTH 64

typedef enum tag { NIL, FALSE_, TRUE_, INTEGER, REAL, STRING, TABLE, END, KNOWN, VEC, BITSET } tag;

static int refuse(lua_State *L)
{
    return luaL_error(L, "the state of the version before holds what cannot be carried over");
}

/* --- from ------------------------------------------------------------------------------------------------------ */

static void put_tag(cdz_buf *out, tag what)
{
    cdz_buf_putc(out, (char)what);
}

static void put_size(cdz_buf *out, size_t n)
{
    cdz_buf_add(out, &n, sizeof n);
}

static void write_value(lua_State *L, int at, int memo, lua_Integer *n_known, cdz_buf *out,
                        int depth);

/* True: the object at `at` was written before; else it has a number from now on. */
static bool write_known(lua_State *L, int at, int memo, lua_Integer *n_known, cdz_buf *out)
{
    lua_pushvalue(L, at);
    if (lua_rawget(L, memo) == LUA_TNUMBER) {
        put_tag(out, KNOWN);
        put_size(out, (size_t)lua_tointeger(L, -1));
        lua_pop(L, 1);
        return true;
    }
    lua_pop(L, 1);
    lua_pushvalue(L, at);
    lua_pushinteger(L, ++*n_known);
    lua_rawset(L, memo);
    return false;
}

static void write_table(lua_State *L, int at, int memo, lua_Integer *n_known, cdz_buf *out,
                        int depth)
{
    if (depth > MAX_DEPTH || lua_getmetatable(L, at)) refuse(L);
    luaL_checkstack(L, 10, NULL);
    put_tag(out, TABLE);
    lua_pushnil(L);
    while (lua_next(L, at)) {
        cdz_lua_charge(L, 1);
        const int value = lua_gettop(L);
        write_value(L, value - 1, memo, n_known, out, depth + 1);
        write_value(L, value, memo, n_known, out, depth + 1);
        lua_pop(L, 1);
    }
    put_tag(out, END);
}

static void write_object(lua_State *L, int at, cdz_buf *out)
{
    const cdz_lua_vec *v = luaL_testudata(L, at, CDZ_LUA_VEC);
    const cdz_lua_bitset *b = luaL_testudata(L, at, CDZ_LUA_BITSET);
    if ((!v && !b) || (v && !v->owned)) refuse(L);
    put_tag(out, v ? VEC : BITSET);
    put_size(out, v ? v->n : b->n);
    if (v) {
        cdz_lua_charge_elements(L, v->n);
        put_size(out, v->base);
        if (v->n) cdz_buf_add(out, v->data, v->n * sizeof(float));
    } else {
        cdz_lua_charge_elements(L, b->n / 32);
        put_size(out, b->owned);
        if (b->owned) cdz_buf_add(out, b->words, b->owned);
    }
}

static void write_number(lua_State *L, int at, cdz_buf *out)
{
    const bool integer = lua_isinteger(L, at);
    const lua_Integer i = integer ? lua_tointeger(L, at) : 0;
    const lua_Number d = lua_tonumber(L, at);
    put_tag(out, integer ? INTEGER : REAL);
    if (integer)
        cdz_buf_add(out, &i, sizeof i);
    else
        cdz_buf_add(out, &d, sizeof d);
}

/* As deep as states may be. */
static void write_value(lua_State *L, int at, int memo, lua_Integer *n_known, cdz_buf *out,
                        int depth)
{
    size_t len;
    switch (lua_type(L, at)) {
    case LUA_TNIL: put_tag(out, NIL); break;
    case LUA_TBOOLEAN: put_tag(out, lua_toboolean(L, at) ? TRUE_ : FALSE_); break;
    case LUA_TNUMBER: write_number(L, at, out); break;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(L, at, &len);
        put_tag(out, STRING);
        put_size(out, len);
        cdz_buf_add(out, text, len);
        break;
    }
    case LUA_TTABLE:
        if (!write_known(L, at, memo, n_known, out)) write_table(L, at, memo, n_known, out, depth);
        break;
    case LUA_TUSERDATA:
        if (!write_known(L, at, memo, n_known, out)) write_object(L, at, out);
        break;
    default: refuse(L);
    }
}

void cdz_lua_write_state(lua_State *L, cdz_buf *out)
{
    const int at = lua_gettop(L);
    lua_Integer n_known = 0;
    lua_newtable(L);
    write_value(L, at, at + 1, &n_known, out, 0);
    lua_settop(L, at - 1);
    if (out->failed) luaL_error(L, "out of memory");
}

/* --- to -------------------------------------------------------------------------------------------------------- */

/* What is left; the bytes are our own. */
typedef struct reader {
    const char *at;
    lua_Integer n_known;
    int memo;
} reader;

static tag take_tag(reader *in)
{
    return (tag)(unsigned char)*in->at++;
}

static void take(reader *in, void *to, size_t n)
{
    if (n) memcpy(to, in->at, n);
    in->at += n;
}

static size_t take_size(reader *in)
{
    size_t n;
    take(in, &n, sizeof n);
    return n;
}

/* Numbers the object at the stack's top. */
static void number(lua_State *L, reader *in)
{
    lua_pushvalue(L, -1);
    lua_rawseti(L, in->memo, ++in->n_known);
}

static void read_value(lua_State *L, reader *in, tag what);

static void read_table(lua_State *L, reader *in)
{
    luaL_checkstack(L, 10, NULL);
    lua_newtable(L);
    number(L, in);
    for (tag what; (what = take_tag(in)) != END;) {
        cdz_lua_charge(L, 1);
        read_value(L, in, what);
        read_value(L, in, take_tag(in));
        lua_rawset(L, -3);
    }
}

static void read_vec(lua_State *L, reader *in)
{
    const size_t n = take_size(in), base = take_size(in);
    cdz_lua_charge_elements(L, n);
    cdz_lua_vec *v = cdz_lua_push_vec(L, n, (uint32_t)base);
    take(in, v->data, n * sizeof(float));
    v->of_state = true;
    number(L, in);
}

static void read_bitset(lua_State *L, reader *in)
{
    const size_t n = take_size(in), bytes = take_size(in);
    cdz_lua_charge_elements(L, n / 32);
    cdz_lua_bitset *b = cdz_lua_push_bitset(L, n);
    take(in, b->words, bytes);
    b->of_state = true;
    number(L, in);
}

static void read_value(lua_State *L, reader *in, tag what)
{
    lua_Integer i;
    lua_Number d;
    size_t n;
    switch (what) {
    case FALSE_:
    case TRUE_: lua_pushboolean(L, what == TRUE_); break;
    case INTEGER:
        take(in, &i, sizeof i);
        lua_pushinteger(L, i);
        break;
    case REAL:
        take(in, &d, sizeof d);
        lua_pushnumber(L, d);
        break;
    case STRING:
        n = take_size(in);
        lua_pushlstring(L, in->at, n);
        in->at += n;
        break;
    case TABLE: read_table(L, in); break;
    case KNOWN: lua_rawgeti(L, in->memo, (lua_Integer)take_size(in)); break;
    case VEC: read_vec(L, in); break;
    case BITSET: read_bitset(L, in); break;
    case NIL:
    case END: lua_pushnil(L); break;
    }
}

void cdz_lua_read_state(lua_State *L, const cdz_buf *from)
{
    lua_newtable(L);
    reader in = {.at = from->data, .memo = lua_gettop(L)};
    read_value(L, &in, take_tag(&in));
    lua_remove(L, in.memo);
}
