/* verbs_result.c - ctx:result(name, value [, type]): what a strategy hands out beside the text.
 *
 * Numbers or booleans of one type, in lists of one shape, are kept as an array: of the named type, else of that of the first
 * element. Every other value is kept as JSON. What JSON cannot say is refused. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cadenza/ext/observe.h"
#include "lua/decoder.h"

#define MAX_DIMS     8
#define MAX_ELEMENTS 4000000
#define MAX_DEPTH    64
#define MAX_TEXT     (16u << 20)
#define TEXT         "cadenza.text"

/* --- arrays ------------------------------------------------------------------------------------------------------- */

typedef struct result {
    cdz_result_type type;
    uint32_t n_dims;
    uint64_t shape[MAX_DIMS];
    size_t n;
    void *data;
    size_t at; /* elements written */
} result;

static const char *const type_names[] = {"int64", "int32", "float32", "bool", NULL};

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

/* Follows first elements down, and takes the first scalar's type. False: more than an array may have. */
static bool find_shape(lua_State *L, int index, result *r)
{
    const int top = lua_gettop(L);
    bool fits = true;

    r->n = 1;
    lua_pushvalue(L, index);
    for (lua_Integer n; (n = length(L)) >= 0;) {
        fits = r->n_dims < MAX_DIMS && n <= MAX_ELEMENTS && (r->n *= (size_t)n) <= MAX_ELEMENTS;
        if (!fits) break;
        r->shape[r->n_dims++] = (uint64_t)n;
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
    return fits;
}

/* Whether the scalar at the top of the stack can be an element. */
static bool is_element(lua_State *L, cdz_result_type type)
{
    int ok = lua_type(L, -1) == LUA_TNUMBER;

    if (type == CDZ_RESULT_BOOL) return lua_isboolean(L, -1);
    if (!ok) return false;
    const lua_Number x = lua_tonumber(L, -1);
    if (type == CDZ_RESULT_F32) return !isfinite(x) || isfinite((float)x);
    const lua_Integer i = lua_tointegerx(L, -1, &ok);
    return ok && (type == CDZ_RESULT_I64 || (i >= INT32_MIN && i <= INT32_MAX));
}

static void write_element(lua_State *L, result *r)
{
    char *to = (char *)r->data + r->at++ * bytes_of(r->type);
    const bool b = lua_toboolean(L, -1);
    const float f = (float)lua_tonumber(L, -1);
    const int64_t i = lua_tointeger(L, -1);
    const int32_t i32 = r->type == CDZ_RESULT_I32 ? (int32_t)i : 0;

    if (r->type == CDZ_RESULT_BOOL) memcpy(to, &b, 1);
    if (r->type == CDZ_RESULT_F32) memcpy(to, &f, sizeof f);
    if (r->type == CDZ_RESULT_I32) memcpy(to, &i32, sizeof i32);
    if (r->type == CDZ_RESULT_I64) memcpy(to, &i, sizeof i);
}

/* Keys of the table at the top of the stack, other than those of its list. */
static bool has_other_keys(lua_State *L)
{
    const size_t len = lua_rawlen(L, -1);
    size_t n = 0;

    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        if (++n <= len) continue;
        lua_pop(L, 1);
        return true;
    }
    return n != len; /* fewer: holes */
}

/* Writes what is at the top of the stack. NULL, or why it is no array of the shape and type that r has. */
static const char *write_values(lua_State *L, result *r, uint32_t dim)
{
    if (dim == r->n_dims) {
        if (!is_element(L, r->type)) {
            const char *element = cdz_lua_text(L, -1, NULL);
            return lua_pushfstring(L, "element %I (%s) is no %s", (lua_Integer)r->at + 1, element,
                                   type_names[r->type]);
        }
        write_element(L, r);
        return NULL;
    }
    if (length(L) != (lua_Integer)r->shape[dim]) return "the table is not rectangular";
    const cdz_lua_vec *v = lua_istable(L, -1) ? NULL : cdz_lua_check_vec(L, lua_gettop(L));
    if (v && r->type != CDZ_RESULT_F32) return "a vector among other values";
    if (v && dim + 1 < r->n_dims) return "the table is not rectangular";
    if (v) {
        if (v->n > 0) memcpy((float *)r->data + r->at, v->data, v->n * sizeof(float));
        r->at += v->n;
        return NULL;
    }
    if (has_other_keys(L)) return "the table has keys beside its list";
    for (uint64_t i = 1; i <= r->shape[dim]; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        const char *why = write_values(L, r, dim + 1);
        if (why) return why; /* the caller drops what is on the stack */
        lua_pop(L, 1);
    }
    return NULL;
}

/* The value at index 3 into r->data. NULL, or why not; the stack may have grown. */
static const char *as_array(lua_State *L, result *r)
{
    cdz_lua_charge_elements(L, 16 * r->n);
    r->data = cdz_lua_scratch(L, r->n * bytes_of(r->type) + 64);
    lua_pushvalue(L, 3);
    return write_values(L, r, 0);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static int text_gc(lua_State *L)
{
    cdz_buf_free(lua_touserdata(L, 1));
    return 0;
}

/* Pushes an empty text; it ends with the collector, or whoever frees it before. */
static cdz_buf *push_text(lua_State *L)
{
    cdz_buf *text = lua_newuserdatauv(L, sizeof *text, 0);

    *text = (cdz_buf){0};
    if (luaL_newmetatable(L, TEXT)) {
        lua_pushcfunction(L, text_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return text;
}

static void write_value(lua_State *L, int index, cdz_buf *out, int depth);

static void write_list(lua_State *L, int index, lua_Integer n, cdz_buf *out, int depth)
{
    cdz_buf_putc(out, '[');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) cdz_buf_puts(out, ", ");
        if (lua_istable(L, index)) /* raw: its functions could change it, and are not called */
            lua_rawgeti(L, index, i);
        else
            lua_geti(L, index, i);
        write_value(L, lua_gettop(L), out, depth);
        lua_pop(L, 1);
    }
    cdz_buf_putc(out, ']');
}

static void write_string(lua_State *L, int index, cdz_buf *out)
{
    size_t len;
    const char *text = lua_tolstring(L, index, &len);

    if (cdz_utf8_valid_prefix(text, len) != len)
        luaL_error(L, "result: a string that is not UTF-8 cannot be kept");
    cdz_lua_charge_elements(L, len);
    cdz_json_write_string(out, text, len);
}

/* A table with names: the names by bytes. */
static void write_object(lua_State *L, int index, cdz_buf *out, int depth)
{
    cdz_lua_push_sorted_keys(L, index);
    const int keys = lua_gettop(L);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, keys);

    cdz_buf_putc(out, '{');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) cdz_buf_puts(out, ", ");
        if (lua_rawgeti(L, keys, i) != LUA_TSTRING)
            luaL_error(L, "result: a table has numbers and names as keys, or a list has holes; "
                          "expected a list without holes or names alone");
        write_string(L, -1, out);
        cdz_buf_puts(out, ": ");
        lua_rawget(L, index);
        write_value(L, lua_gettop(L), out, depth);
        lua_pop(L, 1);
    }
    cdz_buf_putc(out, '}');
    lua_pop(L, 1);
}

static void write_table(lua_State *L, int index, cdz_buf *out, int depth)
{
    lua_pushvalue(L, index);
    const bool names = has_other_keys(L);
    lua_pop(L, 1);
    if (names)
        write_object(L, index, out, depth);
    else
        write_list(L, index, (lua_Integer)lua_rawlen(L, index), out, depth);
}

static void write_number(lua_State *L, int index, cdz_buf *out)
{
    if (lua_isinteger(L, index))
        cdz_buf_printf(out, "%lld", (long long)lua_tointeger(L, index));
    else
        cdz_json_write_real(out, lua_tonumber(L, index));
}

static void write_vec(const cdz_lua_vec *v, cdz_buf *out)
{
    cdz_buf_putc(out, '[');
    for (size_t i = 0; i < v->n; i++) {
        if (i) cdz_buf_puts(out, ", ");
        cdz_json_write_f32(out, v->data[i]);
    }
    cdz_buf_putc(out, ']');
}

static void write_object_of_ours(lua_State *L, int index, cdz_buf *out, int depth)
{
    const cdz_lua_vec *v = cdz_lua_test_vec(L, index);
    const bool batch = luaL_testudata(L, index, CDZ_LUA_BATCH);

    if (v)
        write_vec(v, out);
    else if (batch || luaL_testudata(L, index, CDZ_LUA_IDS))
        write_list(L, index, luaL_len(L, index), out, depth);
    else
        luaL_error(L, "result: an object (%s) cannot be kept", cdz_lua_text(L, index, NULL));
}

static void write_value(lua_State *L, int index, cdz_buf *out, int depth)
{
    luaL_checkstack(L, 12, "result");
    cdz_lua_charge(L, 4);
    if (depth == MAX_DEPTH) luaL_error(L, "result: tables within tables, more than %d", MAX_DEPTH);
    if (out->len > MAX_TEXT) luaL_error(L, "result: more than 16 MiB of JSON");
    cdz_lua_unwrap(L, index);
    switch (lua_type(L, index)) {
    case LUA_TBOOLEAN: cdz_buf_puts(out, lua_toboolean(L, index) ? "true" : "false"); break;
    case LUA_TNUMBER: write_number(L, index, out); break;
    case LUA_TSTRING: write_string(L, index, out); break;
    case LUA_TTABLE: write_table(L, index, out, depth + 1); break;
    case LUA_TUSERDATA: write_object_of_ours(L, index, out, depth + 1); break;
    default:
        luaL_error(L,
                   "result: a %s cannot be kept; expected numbers, strings, booleans, tables of "
                   "them, vectors, ids or scores",
                   luaL_typename(L, index));
    }
}

/* A strategy's result, or an observer's. */
static cdz_status put(lua_State *L, const char *name, cdz_result_type type, uint32_t n_dims,
                      const uint64_t *shape, const void *data)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    const cdz_observe_api *api =
        S->kind == CDZ_KIND_OBSERVER && S->step ? cdz_get_observe(S->step) : NULL;

    if (S->kind != CDZ_KIND_OBSERVER)
        return cdz_put_result(cdz_lua_decoder(L), name, type, n_dims, shape, data);
    if (!api) luaL_error(L, "ctx:result of an observer works in a request");
    return api->put_result(S->step, name, type, n_dims, shape, data);
}

static int put_json(lua_State *L, const char *name)
{
    lua_settop(L, 3);
    cdz_buf *text = push_text(L);
    write_value(L, 3, text, 0);
    if (text->failed) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    const uint64_t shape[] = {text->len};
    const cdz_status status = put(L, name, CDZ_RESULT_JSON, 1, shape, text->data);
    cdz_buf_free(text);
    cdz_lua_try(L, status);
    return 0;
}

/* --- the verb ------------------------------------------------------------------------------------------------------- */

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

/* type: "int64", "int32", "float32", "bool". */
int cdz_lua_result(lua_State *L)
{
    const char *name = luaL_checkstring(L, 2);
    result r = {.n = 1};

    luaL_checkany(L, 3);
    lua_settop(L, 4);
    const bool typed = !lua_isnil(L, 4);
    const int type = typed ? luaL_checkoption(L, 4, NULL, type_names) : 0;
    spread(L, 3);
    const bool fits = find_shape(L, 3, &r);
    if (typed) r.type = (cdz_result_type)type;
    if (typed && !fits)
        return luaL_error(L, "result: more than %d dimensions or %d elements", MAX_DIMS,
                          MAX_ELEMENTS);
    const char *why = fits ? as_array(L, &r) : "too large";
    if (why && typed) return luaL_error(L, "result: %s", why);
    if (why) return put_json(L, name);
    cdz_lua_try(L, put(L, name, r.type, r.n_dims, r.shape, r.data));
    return 0;
}
