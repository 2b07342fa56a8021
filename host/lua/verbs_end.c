/* verbs_end.c - how a strategy ends rows and hands out results, and facts of the request's course. */
#include <string.h>

#include "lua/decoder.h"

#define MAX_DIMS     8
#define MAX_ELEMENTS 4000000

/* ctx:finish(row, reason), ctx:finish(reason) with one row: "eos", "length", "time", "string" or a reason of its own. */
static int verb_finish(lua_State *L)
{
    const bool named = !lua_isnoneornil(L, 3);
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    size_t len;
    const char *reason = luaL_checklstring(L, named ? 3 : 2, &len);
    const char *text = cdz_lua_module_reason(cdz_lua_of(L)->module, reason, len);

    cdz_lua_try(L, cdz_finish(cdz_lua_decoder(L), row, cdz_lua_stop_reason(text), text));
    return 0;
}

/* ctx:record("scores" or "logits", scores) */
static int verb_record(lua_State *L)
{
    static const char *const names[] = {"logits", "scores", NULL};
    const cdz_record_kind what = (cdz_record_kind)luaL_checkoption(L, 2, NULL, names);
    const cdz_scores *s = &cdz_lua_check_scores(L, 3)->scores;

    cdz_lua_charge_elements(L, (size_t)s->n_rows * s->n_vocab);
    cdz_lua_try(L, cdz_record(cdz_lua_decoder(L), what, s));
    return 0;
}

/* --- results -------------------------------------------------------------------------------------------------------- */

typedef struct result {
    cdz_result_type type;
    uint32_t n_dims;
    uint64_t shape[MAX_DIMS];
    size_t n;
    void *data;
    size_t at; /* elements written */
} result;

static size_t bytes_of(cdz_result_type type)
{
    return type == CDZ_RESULT_I64 ? 8 : type == CDZ_RESULT_BOOL ? 1 : 4;
}

/* The length of what is at the top of the stack, as one dimension. */
static lua_Integer length(lua_State *L)
{
    if (lua_istable(L, -1)) return (lua_Integer)lua_rawlen(L, -1);
    const cdz_lua_vec *v = cdz_lua_test_vec(L, lua_gettop(L));
    return v ? (lua_Integer)v->n : -1;
}

/* Follows first elements down; leaves the first scalar's type in r->type when it is not given. */
static void find_shape(lua_State *L, int index, result *r)
{
    const int top = lua_gettop(L);

    r->n = 1;
    lua_pushvalue(L, index);
    for (lua_Integer n; (n = length(L)) >= 0;) {
        if (r->n_dims == MAX_DIMS) luaL_error(L, "result: more than %d dimensions", MAX_DIMS);
        r->shape[r->n_dims++] = (uint64_t)n;
        if (n > MAX_ELEMENTS || (r->n *= (size_t)n) > MAX_ELEMENTS)
            luaL_error(L, "result: more than %d elements", MAX_ELEMENTS);
        const bool table = lua_istable(L, -1);
        if (table && n > 0) lua_rawgeti(L, -1, 1);
        if (!table || n == 0) break;
    }
    if (lua_isboolean(L, -1))
        r->type = CDZ_RESULT_BOOL;
    else if (lua_isinteger(L, -1))
        r->type = CDZ_RESULT_I64;
    else
        r->type = CDZ_RESULT_F32;
    lua_settop(L, top);
}

static void write_scalar(lua_State *L, result *r)
{
    char *to = (char *)r->data + r->at++ * bytes_of(r->type);
    const bool is_bool = r->type == CDZ_RESULT_BOOL;
    int ok = is_bool ? lua_isboolean(L, -1) : lua_type(L, -1) == LUA_TNUMBER;

    const bool b = lua_toboolean(L, -1);
    const float f = (float)lua_tonumber(L, -1);
    int64_t i = 0;
    if (ok && (r->type == CDZ_RESULT_I64 || r->type == CDZ_RESULT_I32))
        i = lua_tointegerx(L, -1, &ok);
    if (!ok || (r->type == CDZ_RESULT_I32 && (i < INT32_MIN || i > INT32_MAX)))
        luaL_error(L, "result: element %I (%s) is of another type than the first",
                   (lua_Integer)r->at, cdz_lua_text(L, -1, NULL));
    const int32_t i32 = (int32_t)i;
    switch (r->type) {
    case CDZ_RESULT_BOOL: memcpy(to, &b, 1); break;
    case CDZ_RESULT_F32: memcpy(to, &f, sizeof f); break;
    case CDZ_RESULT_I32: memcpy(to, &i32, sizeof i32); break;
    case CDZ_RESULT_I64: memcpy(to, &i, sizeof i); break;
    }
}

static void write_values(lua_State *L, result *r, uint32_t dim)
{
    if (dim == r->n_dims) {
        write_scalar(L, r);
        return;
    }
    if (length(L) != (lua_Integer)r->shape[dim])
        luaL_error(L, "result: the table is not rectangular");
    const cdz_lua_vec *v = lua_istable(L, -1) ? NULL : cdz_lua_check_vec(L, lua_gettop(L));
    if (v && r->type != CDZ_RESULT_F32) luaL_error(L, "result: a vector among other values");
    if (v) {
        if (v->n > 0) memcpy((float *)r->data + r->at, v->data, v->n * sizeof(float));
        r->at += v->n;
        return;
    }
    for (uint64_t i = 1; i <= r->shape[dim]; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        write_values(L, r, dim + 1);
        lua_pop(L, 1);
    }
}

/* Ids and batches become tables first: of numbers, of row views. */
static void spread(lua_State *L, int index)
{
    const cdz_lua_batch *b = luaL_testudata(L, index, CDZ_LUA_BATCH);

    if (luaL_testudata(L, index, CDZ_LUA_IDS)) {
        const cdz_ids ids = cdz_lua_check_ids(L, index);
        cdz_lua_push_tokens(L, ids.at, ids.len);
        lua_replace(L, index);
    } else if (b) {
        lua_newtable(L);
        for (uint32_t r = 0; r < b->scores.n_rows; r++) {
            lua_geti(L, index, (lua_Integer)r + 1);
            lua_rawseti(L, -2, (lua_Integer)r + 1);
        }
        lua_replace(L, index);
    }
}

/* ctx:result(name, values [, type]): numbers, booleans, nested tables of them, vectors, ids or scores.
 * type: "int64", "int32", "float32", "bool"; by default that of the first element. */
static int verb_result(lua_State *L)
{
    static const char *const names[] = {"int64", "int32", "float32", "bool", NULL};
    const char *name = luaL_checkstring(L, 2);
    result r = {.n = 1};

    luaL_checkany(L, 3);
    lua_settop(L, 4);
    spread(L, 3);
    find_shape(L, 3, &r);
    if (!lua_isnil(L, 4)) r.type = (cdz_result_type)luaL_checkoption(L, 4, NULL, names);
    cdz_lua_charge_elements(L, 16 * r.n);
    const size_t bytes = r.n * bytes_of(r.type);
    r.data = cdz_lua_scratch(L, bytes + 64);
    lua_pushvalue(L, 3);
    write_values(L, &r, 0);
    cdz_lua_try(L, cdz_put_result(cdz_lua_decoder(L), name, r.type, r.n_dims, r.shape, r.data));
    return 0;
}

/* --- facts ---------------------------------------------------------------------------------------------------------- */

static int verb_cancelled(lua_State *L)
{
    lua_pushboolean(L, cdz_cancelled(cdz_lua_decoder(L)));
    return 1;
}

/* ctx:deadline_s(): the monotonic second at which the request ends; nil when it has no deadline. */
static int verb_deadline_s(lua_State *L)
{
    const double s = cdz_deadline_s(cdz_lua_decoder(L));

    if (s > 0)
        lua_pushnumber(L, s);
    else
        lua_pushnil(L);
    return 1;
}

/* ctx:vocab_size([model]): nil when the request has no such model. */
static int verb_vocab_size(lua_State *L)
{
    const uint32_t n = cdz_vocab_size(cdz_lua_decoder(L), luaL_optstring(L, 2, NULL));

    if (n > 0)
        lua_pushinteger(L, n);
    else
        lua_pushnil(L);
    return 1;
}

const luaL_Reg cdz_lua_end_verbs[] = {
    {"finish", verb_finish},         {"record", verb_record},
    {"result", verb_result},         {"put_result", verb_result},
    {"cancelled", verb_cancelled},   {"deadline_s", verb_deadline_s},
    {"vocab_size", verb_vocab_size}, {NULL, NULL}};
