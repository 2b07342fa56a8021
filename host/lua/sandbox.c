/* sandbox.c - what a script can reach: its globals, the basic functions, the read-only libraries.
 *
 * The script's _ENV is an empty face. Reads go to its own globals, then to the library; writes are kept while the file
 * runs and refused afterwards. Nothing here leads to io, os, load, debug, the registry, other metatables or addresses;
 * what could run long inside one call, or whose order depends on a hash seed, is written anew. */
#include <lualib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "lua/script.h"
#include "lua/types.h"

#define LOG_LINES 64
#define LOG_BYTES 1024

/* --- text -------------------------------------------------------------------------------------------- */

const char *cdz_lua_text(lua_State *L, int index, size_t *len)
{
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING: lua_pushvalue(L, index); break;
    case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false"); break;
    case LUA_TUSERDATA: cdz_lua_describe_object(L, index); break;
    default: lua_pushstring(L, luaL_typename(L, index)); break;
    }
    return lua_tolstring(L, -1, len);
}

static int l_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    cdz_lua_guard_stack(L);
    if (lua_type(L, 1) == LUA_TTABLE && luaL_callmeta(L, 1, "__tostring")) {
        if (!lua_isstring(L, -1)) return luaL_error(L, "'__tostring' must return a string");
        return 1;
    }
    cdz_lua_text(L, 1, NULL);
    return 1;
}

/* --- calls that catch errors ----------------------------------------------------------------------------- */

/* Spent budgets pass through every pcall. */
static void pass_on(lua_State *L, int status)
{
    if (status == LUA_ERRMEM) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    cdz_lua_check_spent(L);
}

static int finish_pcall(lua_State *L, int status, lua_KContext below)
{
    pass_on(L, status);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_pushboolean(L, 0);
        lua_pushvalue(L, -2);
        return 2;
    }
    return lua_gettop(L) - (int)below;
}

static int l_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    cdz_lua_guard_stack(L);
    cdz_lua_charge(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    const int rc = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall);
    return finish_pcall(L, rc, 0);
}

/* [function, handler, true, error, results of the handler...] */
static int finish_handler(lua_State *L, int status, lua_KContext unused)
{
    (void)unused;
    pass_on(L, status);
    lua_pushboolean(L, 0);
    lua_insert(L, 4);
    lua_remove(L, 5);
    return lua_gettop(L) - 3;
}

/* The handler runs after the stack is unwound: a message handler proper runs while hooks are off, so an endless loop in
 * it could not be stopped. */
static int finish_xpcall(lua_State *L, int status, lua_KContext unused)
{
    (void)unused;
    pass_on(L, status);
    if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - 2;
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 4);
    const int rc = lua_pcallk(L, 1, LUA_MULTRET, 0, 0, finish_handler);
    return finish_handler(L, rc, 0);
}

static int l_xpcall(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TFUNCTION);
    cdz_lua_guard_stack(L);
    cdz_lua_charge(L, 1);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2);
    const int rc = lua_pcallk(L, lua_gettop(L) - 4, LUA_MULTRET, 0, 2, finish_xpcall);
    return finish_xpcall(L, rc, 2);
}

/* --- pairs in one order ------------------------------------------------------------------------------------ */

typedef struct sort_key {
    const char *text; /* NULL: a number */
    size_t len;
    double number;
    lua_Integer integer;
    bool is_integer;
} sort_key;

/* Numbers ascending (the integer before the equal float), then strings by their bytes. */
static int compare_keys(const void *pa, const void *pb)
{
    const sort_key *a = pa, *b = pb;

    if (!a->text != !b->text) return a->text ? 1 : -1;
    if (a->text) {
        const int d = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
        return d ? d : (a->len > b->len) - (a->len < b->len);
    }
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    if (a->is_integer != b->is_integer) return a->is_integer ? -1 : 1;
    return (a->integer > b->integer) - (a->integer < b->integer);
}

/* The key at the top of the stack. String keys stay alive: the table that is walked holds them. */
static sort_key read_key(lua_State *L)
{
    sort_key k = {0};

    switch (lua_type(L, -1)) {
    case LUA_TSTRING: k.text = lua_tolstring(L, -1, &k.len); break;
    case LUA_TNUMBER:
        k.number = lua_tonumber(L, -1);
        k.is_integer = lua_isinteger(L, -1);
        k.integer = k.is_integer ? lua_tointeger(L, -1) : 0;
        break;
    default:
        luaL_error(L, "pairs: a key is a %s; only numbers and strings have an order",
                   luaL_typename(L, -1));
    }
    return k;
}

static size_t count_keys(lua_State *L, int table)
{
    size_t n = 0;

    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        n++;
    }
    return n;
}

void cdz_lua_push_sorted_keys(lua_State *L, int table)
{
    const size_t n = count_keys(L, table);
    size_t at = 0;

    cdz_lua_charge(L, (int64_t)(4 * n));
    sort_key *keys = lua_newuserdatauv(L, (n + 1) * sizeof *keys, 0);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        lua_pop(L, 1);
        keys[at++] = read_key(L);
    }
    qsort(keys, n, sizeof *keys, compare_keys);
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        if (keys[i].text)
            lua_pushlstring(L, keys[i].text, keys[i].len);
        else if (keys[i].is_integer)
            lua_pushinteger(L, keys[i].integer);
        else
            lua_pushnumber(L, keys[i].number);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_remove(L, -2);
}

/* Upvalues: the table, its keys, how many were visited. Keys removed meanwhile are passed over. */
static int next_pair(lua_State *L)
{
    lua_Integer at = lua_tointeger(L, lua_upvalueindex(3));

    for (;;) {
        at++;
        if (lua_rawgeti(L, lua_upvalueindex(2), at) == LUA_TNIL) return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) break;
        lua_pop(L, 2);
    }
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(3));
    return 2;
}

static int l_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    cdz_lua_unwrap(L, 1);
    lua_pushvalue(L, 1);
    cdz_lua_push_sorted_keys(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_pair, 3);
    return 1;
}

/* --- metatables -------------------------------------------------------------------------------------------- */

static int l_setmetatable(lua_State *L)
{
    static const char *const refused[] = {"__gc", "__close", "__mode", "__metatable", "__name"};

    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    lua_settop(L, 2);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    for (size_t i = 0; lua_istable(L, 2) && i < sizeof refused / sizeof *refused; i++) {
        lua_pushstring(L, refused[i]);
        if (lua_rawget(L, 2) != LUA_TNIL)
            return luaL_error(L, "a metatable may not have %s here", refused[i]);
        lua_pop(L, 1);
    }
    lua_setmetatable(L, 1);
    return 1;
}

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "the library is read-only");
}

void cdz_lua_seal(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    lua_rotate(L, -3, -1); /* face, metatable, table */
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

/* --- log ----------------------------------------------------------------------------------------------------- */

/* All arguments, separated by spaces, as one line; control characters become spaces. */
int cdz_lua_print(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);
    const int n = lua_gettop(L);
    char line[LOG_BYTES + 1];
    size_t at = 0;

    cdz_lua_charge(L, 10);
    if (!S->step || S->log_lines >= LOG_LINES) return 0;
    S->log_lines++;
    for (int i = 1; i <= n; i++) {
        size_t len;
        const char *text = cdz_lua_text(L, i, &len);
        if (i > 1 && at < LOG_BYTES) line[at++] = ' ';
        if (len > LOG_BYTES - at) len = LOG_BYTES - at;
        memcpy(line + at, text, len);
        at += len;
        lua_pop(L, 1);
    }
    at = cdz_utf8_valid_prefix(line, at);
    for (size_t i = 0; i < at;
         i++) /* the checker does not see that memcpy has written all before at */
        if ((unsigned char)line[i] < 0x20) line[i] = ' '; /* NOLINT(clang-analyzer-core.*) */
    line[at] = '\0';
    cdz_log(S->step, CDZ_LOG_INFO, "%s", line);
    return 0;
}

/* --- charged calls of the stock library ----------------------------------------------------------------------- */

/* Upvalues: the C function; how many bytes of text cost an instruction. */
static int call_charged(lua_State *L)
{
    const lua_CFunction f = lua_tocfunction(L, lua_upvalueindex(1));
    size_t bytes = 0;

    for (int i = lua_gettop(L); i > 0; i--)
        if (lua_type(L, i) == LUA_TSTRING) bytes += lua_rawlen(L, i);
    cdz_lua_charge_elements(L, bytes * (256 / (size_t)lua_tointeger(L, lua_upvalueindex(2))));
    return f(L);
}

void cdz_lua_wrap_charged(lua_State *L, int bytes)
{
    lua_pushinteger(L, bytes);
    lua_pushcclosure(L, call_charged, 2);
}

/* Copies functions of the table below the top into the one at the top. */
static void pick(lua_State *L, const char *const *names, bool charged)
{
    for (size_t i = 0; names[i]; i++) {
        lua_getfield(L, -2, names[i]);
        if (charged && lua_iscfunction(L, -1)) cdz_lua_wrap_charged(L, 16);
        lua_setfield(L, -2, names[i]);
    }
}

/* Opens a stock library and pushes a table with the named functions of it. */
static void push_picked(lua_State *L, lua_CFunction open, const char *const *names, bool charged)
{
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
    lua_newtable(L);
    pick(L, names, charged);
    lua_remove(L, -2);
}

/* --- putting it together ---------------------------------------------------------------------------------------- */

static const char *const base_names[] = {"assert",   "error",  "ipairs",       "select", "type",
                                         "rawequal", "rawlen", "getmetatable", NULL};
static const char *const base_charged[] = {"tonumber", NULL};
static const char *const math_names[] = {
    "abs",  "acos", "asin", "atan", "ceil",       "cos",  "deg",        "exp",  "floor",
    "fmod", "huge", "log",  "max",  "maxinteger", "min",  "mininteger", "modf", "pi",
    "rad",  "sin",  "sqrt", "tan",  "tointeger",  "type", "ult",        NULL};
static const char *const utf8_names[] = {"char", "charpattern", "codes", "codepoint",
                                         "len",  "offset",      NULL};

static const luaL_Reg own[] = {{"pcall", l_pcall},
                               {"xpcall", l_xpcall},
                               {"pairs", l_pairs},
                               {"tostring", l_tostring},
                               {"print", cdz_lua_print},
                               {"setmetatable", l_setmetatable},
                               {NULL, NULL}};

static void add_sealed(lua_State *L, const char *name)
{
    cdz_lua_seal(L);
    lua_setfield(L, -2, name);
}

/* The methods of all strings are our library itself, behind a closed metatable (the stock one, which has the arithmetic
 * on numerals). */
static void close_string_metatable(lua_State *L)
{
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

static void push_library(lua_State *L)
{
    lua_pushcfunction(L, luaopen_base);
    lua_call(L, 0, 1);
    lua_newtable(L);
    pick(L, base_names, false);
    pick(L, base_charged, true);
    lua_remove(L, -2);
    luaL_setfuncs(L, own, 0);
    push_picked(L, luaopen_math, math_names, false);
    add_sealed(L, "math");
    push_picked(L, luaopen_utf8, utf8_names, true);
    add_sealed(L, "utf8");
    cdz_lua_push_string_lib(L);
    close_string_metatable(L);
    add_sealed(L, "string");
    cdz_lua_push_table_lib(L);
    add_sealed(L, "table");
    cdz_lua_push_coroutine_lib(L);
    add_sealed(L, "coroutine");
    cdz_lua_push_cadenza(L);
    add_sealed(L, "cadenza");
    cdz_lua_push_vec_lib(L);
    add_sealed(L, "vec");
    cdz_lua_push_bitset_lib(L);
    add_sealed(L, "bitset");
    cdz_lua_push_require(L);
    lua_setfield(L, -2, "require");
}

/* Upvalue: the globals. */
static int write_global(lua_State *L)
{
    if (!cdz_lua_of(L)->loading) {
        size_t len;
        const char *name = cdz_lua_text(L, 2, &len);
        return luaL_error(L,
                          "global '%s' written after the script was loaded (keep it local, or in the "
                          "table that begin returns)",
                          name);
    }
    lua_rawset(L, lua_upvalueindex(1));
    return 0;
}

void cdz_lua_open_sandbox(lua_State *L)
{
    cdz_lua_open_types(L);
    lua_newtable(L); /* _ENV */
    lua_createtable(L, 0, 3);
    lua_newtable(L); /* the script's globals */
    lua_createtable(L, 0, 2);
    push_library(L);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__index");
    lua_pushcclosure(L, write_global, 1);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    cdz_lua_set(L, CDZ_LUA_SLOT_ENV);
    /* The stock globals table is still what the registry calls the globals: leave nothing in it. */
    lua_newtable(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}
