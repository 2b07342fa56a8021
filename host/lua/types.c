/* types.c - making objects, checking them, and what they have in common. */
#include "lua/types.h"

#include <stdlib.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------------------- */

void *cdz_lua_pool_alloc(lua_State *L, size_t bytes)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (bytes > S->pool_limit || S->pool_used > S->pool_limit - bytes) lua_gc(L, LUA_GCCOLLECT);
    if (bytes > S->pool_limit || S->pool_used > S->pool_limit - bytes)
        cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64); /* rows of lanes share no cache line */
    if (!block) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    S->pool_used += bytes;
    return block;
}

void cdz_lua_pool_free(cdz_lua_session *S, void *block, size_t bytes)
{
    if (!block) return;
    S->pool_used -= bytes;
    free(block);
}

/* --- types ---------------------------------------------------------------------------------------------- */

enum { MOST_KEYS = 256, LONGEST_KEY = 40 };

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *cdz_lua_suggest_key(lua_State *L)
{
    const char *names[MOST_KEYS], *near = NULL;
    size_t n = 0, len = 0;
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tolstring(L, 2, &len) : NULL;

    lua_pushnil(L);
    while (key && len <= LONGEST_KEY && n < MOST_KEYS && lua_next(L, -2)) {
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TSTRING) names[n++] = lua_tostring(L, -1);
    }
    if (n > 0) {
        cdz_lua_charge(L, 16 * (int64_t)n);
        qsort(names, n, sizeof *names, by_bytes); /* of several equally near, always the same */
        near = cdz_nearest_name(key, names, n);
    }
    return near ? lua_pushfstring(L, ": did you mean '%s'?", near) : lua_pushstring(L, "");
}

static bool is_one_of(const char *key, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, names[i]) == 0) return true;
    return false;
}

/* Pushes the nearest of the names, or all of a few. */
static const char *push_hint(lua_State *L, const char *key, const char *const *names, size_t n)
{
    enum { FEW = 8 };
    luaL_Buffer all;
    const char *near = strlen(key) <= LONGEST_KEY ? cdz_nearest_name(key, names, n) : NULL;
    if (near) return lua_pushfstring(L, "; did you mean '%s'?", near);
    if (n > FEW) return lua_pushstring(L, "");
    luaL_buffinit(L, &all);
    for (size_t i = 0; i < n; i++) {
        luaL_addstring(&all, i == 0 ? "; there are " : i + 1 < n ? ", " : " and ");
        luaL_addstring(&all, names[i]);
    }
    luaL_pushresult(&all);
    return lua_tostring(L, -1);
}

void cdz_lua_check_keys(lua_State *L, int at, const char *const *names, size_t n, bool listed,
                        const char *wrong)
{
    lua_pushnil(L);
    while (lua_next(L, at)) {
        lua_pop(L, 1);
        const bool text = lua_type(L, -1) == LUA_TSTRING;
        if (listed && lua_isinteger(L, -1)) continue;
        const char *key = text ? lua_tostring(L, -1) : luaL_typename(L, -1);
        if (text && is_one_of(key, names, n)) continue;
        luaL_error(L, text ? "%s '%s'%s" : "%s that is a %s%s", wrong, key,
                   push_hint(L, key, names, n));
    }
}

const char *cdz_lua_suggest_method(lua_State *L)
{
    if (luaL_getmetafield(L, 1, "__index") == LUA_TFUNCTION && lua_getupvalue(L, -1, 1) &&
        lua_istable(L, -1))
        return cdz_lua_suggest_key(L);
    return "";
}

/* Upvalues: methods, the type's own index function or nil. Integers are by far the most frequent keys. */
static int index_object(lua_State *L)
{
    const lua_CFunction own = lua_tocfunction(L, lua_upvalueindex(2));

    if (own && lua_isinteger(L, 2)) return own(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_settop(L, 2);
    if (own) return own(L);
    const char *near = cdz_lua_suggest_method(L);
    return luaL_error(L, "no method '%s'%s", cdz_lua_text(L, 2, NULL), near);
}

static int object_tostring(lua_State *L)
{
    cdz_lua_describe_object(L, 1);
    return 1;
}

void cdz_lua_define_type(lua_State *L, const char *name, const luaL_Reg *methods,
                         const luaL_Reg *meta, lua_CFunction index)
{
    luaL_newmetatable(L, name);
    luaL_setfuncs(L, meta, 0);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    if (index)
        lua_pushcfunction(L, index);
    else
        lua_pushnil(L);
    lua_pushcclosure(L, index_object, 2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, object_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

void cdz_lua_describe_object(lua_State *L, int index)
{
    const cdz_lua_vec *v = luaL_testudata(L, index, CDZ_LUA_VEC);
    const cdz_lua_ids *ids = luaL_testudata(L, index, CDZ_LUA_IDS);
    const cdz_lua_batch *b = luaL_testudata(L, index, CDZ_LUA_BATCH);
    const cdz_lua_bitset *bits = luaL_testudata(L, index, CDZ_LUA_BITSET);

    if (v)
        lua_pushfstring(L, v->base ? "values(%d)" : "vec(%d)", (int)v->n);
    else if (ids)
        lua_pushfstring(L, "ids(%d)", (int)ids->n);
    else if (b)
        lua_pushfstring(L, "scores(%d, %d)", (int)b->scores.n_rows, (int)b->scores.n_vocab);
    else if (bits)
        lua_pushfstring(L, "bitset(%d)", (int)bits->n);
    else if (luaL_testudata(L, index, CDZ_LUA_EXPR))
        lua_pushliteral(L, "formula");
    else if (luaL_testudata(L, index, CDZ_LUA_GRAMMAR))
        lua_pushliteral(L, "grammar");
    else
        lua_pushliteral(L, "object");
}

/* --- stamps -------------------------------------------------------------------------------------------- */

static bool is_valid(const cdz_lua_stamp *stamp)
{
    return !stamp->clock || *stamp->clock == stamp->time;
}

static void check_valid(lua_State *L, const cdz_lua_stamp *stamp)
{
    if (!is_valid(stamp))
        luaL_error(L,
                   "this row is no longer valid (it belonged to an earlier call or step; copy what "
                   "you want to keep)");
}

static cdz_lua_stamp now(const uint64_t *clock)
{
    return (cdz_lua_stamp){clock, *clock};
}

/* --- making ----------------------------------------------------------------------------------------------- */

cdz_lua_vec *cdz_lua_push_vec(lua_State *L, size_t n, uint32_t base)
{
    cdz_lua_vec *v = lua_newuserdatauv(L, sizeof *v, 0);

    memset(v, 0, sizeof *v);
    luaL_setmetatable(L, CDZ_LUA_VEC);
    const size_t bytes = (n + 1) * sizeof(float); /* never 0: what is owned is freed */
    v->data = cdz_lua_pool_alloc(L, bytes);
    v->owned = bytes;
    v->n = n;
    v->base = base;
    return v;
}

cdz_lua_vec *cdz_lua_push_view(lua_State *L, float *data, size_t n)
{
    cdz_lua_vec *v = lua_newuserdatauv(L, sizeof *v, 1);

    *v = (cdz_lua_vec){data, n, 0, now(&cdz_lua_of(L)->scores_clock), 0, false};
    luaL_setmetatable(L, CDZ_LUA_VEC);
    return v;
}

cdz_lua_ids *cdz_lua_push_ids_view(lua_State *L, cdz_ids ids)
{
    cdz_lua_ids *o = lua_newuserdatauv(L, sizeof *o, 1);

    *o = (cdz_lua_ids){ids.at, ids.len, 0, now(&cdz_lua_of(L)->ids_clock)};
    luaL_setmetatable(L, CDZ_LUA_IDS);
    return o;
}

int32_t *cdz_lua_push_ids(lua_State *L, size_t n)
{
    cdz_lua_ids *o = lua_newuserdatauv(L, sizeof *o, 0);

    memset(o, 0, sizeof *o);
    luaL_setmetatable(L, CDZ_LUA_IDS);
    const size_t bytes = (n + 1) * sizeof(int32_t);
    int32_t *at = cdz_lua_pool_alloc(L, bytes);
    o->at = at;
    o->owned = bytes;
    o->n = n;
    return at;
}

cdz_lua_batch *cdz_lua_push_batch(lua_State *L, const cdz_scores *scores, bool decoder)
{
    cdz_lua_batch *b = lua_newuserdatauv(L, sizeof *b, 0);

    *b = (cdz_lua_batch){*scores, now(&cdz_lua_of(L)->scores_clock), decoder, NULL};
    luaL_setmetatable(L, CDZ_LUA_BATCH);
    return b;
}

cdz_lua_batch *cdz_lua_push_pass(lua_State *L, const cdz_scores *scores)
{
    cdz_lua_batch *b = cdz_lua_push_batch(L, scores, true);

    b->stamp = now(&cdz_lua_of(L)->pass_clock);
    return b;
}

cdz_lua_bitset *cdz_lua_push_bitset(lua_State *L, size_t n)
{
    cdz_lua_bitset *b = lua_newuserdatauv(L, sizeof *b, 0);
    const size_t bytes = (n + 63) / 64 * sizeof(uint64_t);

    memset(b, 0, sizeof *b);
    luaL_setmetatable(L, CDZ_LUA_BITSET);
    b->words = cdz_lua_pool_alloc(L, bytes);
    b->owned = bytes;
    b->n = n;
    memset(b->words, 0, bytes);
    return b;
}

/* --- checking ---------------------------------------------------------------------------------------------- */

cdz_lua_vec *cdz_lua_test_vec(lua_State *L, int index)
{
    cdz_lua_vec *v = luaL_testudata(L, index, CDZ_LUA_VEC);

    if (v) check_valid(L, &v->stamp);
    return v;
}

cdz_lua_vec *cdz_lua_check_vec(lua_State *L, int index)
{
    cdz_lua_vec *v = cdz_lua_test_vec(L, index);

    luaL_argexpected(L, v, index, "vec");
    return v;
}

void cdz_lua_check_writable(lua_State *L, bool of_state)
{
    if (!of_state || cdz_lua_of(L)->state_writable) return;
    if (cdz_lua_of(L)->kind == CDZ_KIND_OBSERVER)
        luaL_error(L, "an observer writes no scores (copy the row to work on it)");
    if (cdz_lua_of(L)->kind == CDZ_KIND_DRAFTER)
        luaL_error(L, "what begin returned is read-only (keep what a drafter remembers in local "
                      "variables of the file, or copy it)");
    luaL_error(L, "a row's state is written by accept only (copy it to work on it)");
}

cdz_lua_vec *cdz_lua_check_target(lua_State *L)
{
    cdz_lua_vec *v = cdz_lua_check_vec(L, 1);

    cdz_lua_check_writable(L, v->of_state);
    return v;
}

cdz_lua_vec *cdz_lua_check_vec_of(lua_State *L, int index, size_t n)
{
    cdz_lua_vec *v = cdz_lua_check_vec(L, index);

    if (v->n != n)
        luaL_error(L, "vectors of different length: %I and %I", (lua_Integer)n, (lua_Integer)v->n);
    return v;
}

cdz_lua_batch *cdz_lua_check_batch(lua_State *L, int index)
{
    cdz_lua_batch *b = luaL_testudata(L, index, CDZ_LUA_BATCH);

    luaL_argexpected(L, b, index, "scores");
    check_valid(L, &b->stamp);
    return b;
}

cdz_lua_bitset *cdz_lua_check_bitset(lua_State *L, int index, size_t n)
{
    cdz_lua_bitset *b = luaL_testudata(L, index, CDZ_LUA_BITSET);

    luaL_argexpected(L, b, index, "bitset");
    if (n > 0 && b->n != n)
        luaL_error(L, "bitset of %I bits for %I elements", (lua_Integer)b->n, (lua_Integer)n);
    return b;
}

static int32_t to_id(lua_State *L, int index, lua_Integer at)
{
    int ok;
    const lua_Integer id = lua_tointegerx(L, index, &ok);

    if (!ok || lua_type(L, index) != LUA_TNUMBER || id < INT32_MIN || id > INT32_MAX)
        luaL_error(L, "list of ids: element %I (%s) is no token id", at,
                   cdz_lua_text(L, index, NULL));
    return (int32_t)id;
}

static cdz_ids ids_of_table(lua_State *L, int index)
{
    const size_t n = lua_rawlen(L, index);

    if (n > CDZ_LUA_MAX_LIST) luaL_error(L, "list of ids: too long");
    cdz_lua_charge(L, 1 + (lua_Integer)(n / 8));
    int32_t *to = cdz_lua_ints(L, n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        to[i] = to_id(L, -1, (lua_Integer)i + 1);
        lua_pop(L, 1);
    }
    return (cdz_ids){to, (uint32_t)n};
}

cdz_ids cdz_lua_check_ids(lua_State *L, int index)
{
    const cdz_lua_ids *o = luaL_testudata(L, index, CDZ_LUA_IDS);

    if (o) {
        check_valid(L, &o->stamp);
        return (cdz_ids){o->at, (uint32_t)o->n};
    }
    cdz_lua_unwrap(L, index);
    if (lua_istable(L, index)) return ids_of_table(L, index);
    if (lua_type(L, index) != LUA_TNUMBER) luaL_typeerror(L, index, "list of ids");
    int32_t *one = cdz_lua_ints(L, 1);
    one[0] = to_id(L, index, 1);
    return (cdz_ids){one, 1};
}

float cdz_lua_check_float(lua_State *L, int index)
{
    return (float)luaL_checknumber(L, index);
}

/* --- ids: a read-only list ------------------------------------------------------------------------------------ */

static cdz_lua_ids *self_ids(lua_State *L)
{
    cdz_lua_ids *o = luaL_checkudata(L, 1, CDZ_LUA_IDS);

    check_valid(L, &o->stamp);
    return o;
}

static int ids_index(lua_State *L)
{
    const cdz_lua_ids *o = self_ids(L);
    int ok;
    const lua_Integer i = lua_tointegerx(L, 2, &ok);

    if (!ok) return luaL_error(L, "no method '%s'", cdz_lua_text(L, 2, NULL));
    if (i < 1 || (lua_Unsigned)i > o->n) return 0;
    lua_pushinteger(L, o->at[i - 1]);
    return 1;
}

static int ids_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)self_ids(L)->n);
    return 1;
}

static int ids_write(lua_State *L)
{
    return luaL_error(L, "ids are read-only");
}

/* ids:totable([i [, j]]): a table of the ids from i to j, negative from the end. */
static int ids_totable(lua_State *L)
{
    const cdz_lua_ids *o = self_ids(L);
    const lua_Integer n = (lua_Integer)o->n;
    lua_Integer i = luaL_optinteger(L, 2, 1), j = luaL_optinteger(L, 3, -1);

    if (i < 0) i = i < -n ? 1 : n + i + 1;
    if (i == 0) i = 1;
    if (j < 0) j = j < -n ? 0 : n + j + 1;
    if (j > n) j = n;
    const lua_Integer len = j >= i ? j - i + 1 : 0;
    cdz_lua_charge(L, 1 + len / 8);
    lua_createtable(L, (int)len, 0);
    for (lua_Integer k = 0; k < len; k++) {
        lua_pushinteger(L, o->at[i - 1 + k]);
        lua_rawseti(L, -2, k + 1);
    }
    return 1;
}

/* ids:sub(i [, j]): a view of those from i to j, negative from the end. */
static int ids_sub(lua_State *L)
{
    const cdz_lua_ids *o = self_ids(L);
    const lua_Integer n = (lua_Integer)o->n;
    lua_Integer i = luaL_checkinteger(L, 2), j = luaL_optinteger(L, 3, -1);

    if (i < 0) i = i < -n ? 1 : n + i + 1;
    if (i == 0) i = 1;
    if (j < 0) j = j < -n ? 0 : n + j + 1;
    if (j > n) j = n;
    cdz_lua_ids *out = cdz_lua_push_ids_view(
        L, j >= i ? (cdz_ids){o->at + (i - 1), (uint32_t)(j - i + 1)} : (cdz_ids){NULL, 0});
    out->stamp = o->stamp;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1); /* what it looks into stays alive */
    return 1;
}

/* ids:count(id): how often id occurs; ids:contains(id). */
static int ids_count(lua_State *L)
{
    const cdz_lua_ids *o = self_ids(L);
    const lua_Integer id = luaL_checkinteger(L, 2);
    lua_Integer n = 0;

    cdz_lua_charge_elements(L, o->n);
    for (size_t i = 0; i < o->n; i++) n += o->at[i] == id;
    lua_pushinteger(L, n);
    return 1;
}

static int ids_contains(lua_State *L)
{
    ids_count(L);
    lua_pushboolean(L, lua_tointeger(L, -1) > 0);
    return 1;
}

static int ids_gc(lua_State *L)
{
    cdz_lua_ids *o = luaL_checkudata(L, 1, CDZ_LUA_IDS);

    if (o->owned) cdz_lua_pool_free(cdz_lua_of(L), (void *)(uintptr_t)o->at, o->owned);
    o->owned = 0;
    return 0;
}

static void open_ids(lua_State *L)
{
    static const luaL_Reg methods[] = {{"totable", ids_totable},
                                       {"sub", ids_sub},
                                       {"count", ids_count},
                                       {"contains", ids_contains},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__len", ids_len}, {"__newindex", ids_write}, {"__gc", ids_gc}, {NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_IDS, methods, meta, ids_index);
}

void cdz_lua_open_types(lua_State *L)
{
    cdz_lua_open_vec(L);
    open_ids(L);
    cdz_lua_open_batch(L);
    cdz_lua_open_bitset(L);
    cdz_lua_open_grammar(L);
    cdz_lua_open_rng(L);
    cdz_lua_open_expr(L);
}
