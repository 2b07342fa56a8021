/* vec_arith.c - vectors of scores: making them, elements, copies, and the arithmetic that works in place and returns self.
 *
 * Scalars are computed by the script in double and rounded once to float32 where they meet the scores; every operation is
 * the one of "cadenza.vec/1", so a script and a C plugin that do the same get the same bits. */
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "lua/types.h"

#define SELF(L)   cdz_lua_check_vec((L), 1)
#define TARGET(L) cdz_lua_check_target(L)

static const cdz_vec *ops(lua_State *L)
{
    return cdz_lua_of(L)->vec;
}

static int return_self(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

/* --- elements ------------------------------------------------------------------------------------------- */

static float *element(lua_State *L, const cdz_lua_vec *v, int index)
{
    int ok;
    const lua_Integer i = lua_tointegerx(L, index, &ok);

    if (!ok) {
        const char *near = cdz_lua_suggest_method(L);
        luaL_error(L, "no method or element '%s'%s", cdz_lua_text(L, index, NULL), near);
    }
    if (i < (lua_Integer)v->base || (lua_Unsigned)(i - v->base) >= v->n)
        luaL_error(L, "element %I is outside %I to %I", i, (lua_Integer)v->base,
                   (lua_Integer)v->n - 1 + v->base);
    return v->data + (i - v->base);
}

static int vec_index(lua_State *L)
{
    const cdz_lua_vec *v = SELF(L);

    lua_pushnumber(L, (lua_Number)*element(L, v, 2));
    return 1;
}

static int vec_newindex(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    if (lua_type(L, 3) != LUA_TNUMBER)
        return luaL_error(L, "element %s: a %s cannot be a score; expected a number",
                          cdz_lua_text(L, 2, NULL), luaL_typename(L, 3));
    *element(L, v, 2) = cdz_lua_check_float(L, 3);
    return 0;
}

static int vec_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)SELF(L)->n);
    return 1;
}

static int vec_gc(lua_State *L)
{
    cdz_lua_vec *v = luaL_checkudata(L, 1, CDZ_LUA_VEC);

    if (v->owned) cdz_lua_pool_free(cdz_lua_of(L), v->data, v->owned);
    v->owned = 0;
    return 0;
}

/* v:get(ids): the values of those elements, as a list. */
static int vec_get(lua_State *L)
{
    const cdz_lua_vec *v = SELF(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);

    cdz_lua_charge_elements(L, ids.len);
    cdz_lua_vec *out = cdz_lua_push_vec(L, ids.len, 1);
    for (uint32_t i = 0; i < ids.len; i++) {
        if (ids.at[i] < 0 || (size_t)ids.at[i] >= v->n)
            return luaL_error(L, "element %d is outside 0 to %I", (int)ids.at[i],
                              (lua_Integer)v->n - 1);
        out->data[i] = v->data[ids.at[i]];
    }
    return 1;
}

/* --- sparse operands: ids and one value for all of them or one each -------------------------------------------- */

typedef struct sparse {
    cdz_ids ids;
    const float *values; /* one per id, or NULL */
    float value;
} sparse;

/* A list of n floats at index: a vec or a table. The table's values live in the scratch buffer. */
static const float *values_at(lua_State *L, int index, size_t n)
{
    cdz_lua_unwrap(L, index);
    if (!lua_istable(L, index)) return cdz_lua_check_vec_of(L, index, n)->data;
    if (lua_rawlen(L, index) != n)
        luaL_error(L, "%I values for %I ids", (lua_Integer)lua_rawlen(L, index), (lua_Integer)n);
    float *out = cdz_lua_scratch(L, n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        out[i] = cdz_lua_check_float(L, -1);
        lua_pop(L, 1);
    }
    return out;
}

static sparse check_sparse(lua_State *L, int ids_at, int values_index, size_t n)
{
    sparse s = {.ids = cdz_lua_check_ids(L, ids_at)};

    cdz_lua_charge_elements(L, s.ids.len);
    for (uint32_t i = 0; i < s.ids.len; i++)
        if (s.ids.at[i] < 0 || (size_t)s.ids.at[i] >= n)
            luaL_error(L, "element %d is outside 0 to %I", (int)s.ids.at[i], (lua_Integer)n - 1);
    if (lua_type(L, values_index) == LUA_TNUMBER)
        s.value = cdz_lua_check_float(L, values_index);
    else
        s.values = values_at(L, values_index, s.ids.len);
    return s;
}

static float sparse_value(const sparse *s, uint32_t i)
{
    return s->values ? s->values[i] : s->value;
}

/* v:set(ids, x or values) */
static int vec_set(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const sparse s = check_sparse(L, 2, 3, v->n);

    for (uint32_t i = 0; i < s.ids.len; i++) v->data[s.ids.at[i]] = sparse_value(&s, i);
    return return_self(L);
}

/* --- whole vectors ---------------------------------------------------------------------------------------------- */

static int vec_copy(lua_State *L)
{
    const cdz_lua_vec *v = SELF(L);

    cdz_lua_charge_elements(L, v->n);
    cdz_lua_vec *out = cdz_lua_push_vec(L, v->n, v->base);
    if (v->n > 0) memcpy(out->data, v->data, v->n * sizeof(float));
    return 1;
}

/* v:slice(a, n): a view of n elements from a on, numbered from 0; writes reach the vector. */
static int vec_slice(lua_State *L)
{
    const cdz_lua_vec *v = SELF(L);
    const lua_Integer first = luaL_checkinteger(L, 2), n = luaL_checkinteger(L, 3);
    const lua_Unsigned a = (lua_Unsigned)first - v->base; /* below the first element: vast */

    if (n < 0 || a > v->n || (lua_Unsigned)n > v->n - a)
        return luaL_error(L, "slice of %I elements at %I is outside the %I there are", n, first,
                          (lua_Integer)v->n);
    cdz_lua_vec *out = cdz_lua_push_view(L, v->data + a, (size_t)n);
    out->stamp = v->stamp;
    out->of_state = v->of_state;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1); /* what it looks into stays alive */
    return 1;
}

static int vec_totable(lua_State *L)
{
    const cdz_lua_vec *v = SELF(L);

    if (v->n > CDZ_LUA_MAX_TABLE)
        return luaL_error(L, "totable: %I elements; at most %d", (lua_Integer)v->n,
                          CDZ_LUA_MAX_TABLE);
    cdz_lua_charge(L, 1 + (lua_Integer)(v->n / 8));
    lua_createtable(L, (int)v->n, 0);
    for (size_t i = 0; i < v->n; i++) {
        lua_pushnumber(L, (lua_Number)v->data[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* vec.new(n [, x]) */
static int vec_new(lua_State *L)
{
    const lua_Integer n = luaL_checkinteger(L, 1);
    const float x = (float)luaL_optnumber(L, 2, 0);

    if (n < 0 || (size_t)n > cdz_lua_of(L)->pool_limit / sizeof(float))
        return luaL_error(L, "vec.new: %I elements do not fit the vector pool", n);
    cdz_lua_charge_elements(L, (size_t)n);
    cdz_lua_vec *v = cdz_lua_push_vec(L, (size_t)n, 0);
    ops(L)->fill(v->data, v->n, x);
    return 1;
}

/* vec.from{...}: element 0 is the first. */
static int vec_from(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    cdz_lua_unwrap(L, 1);
    const size_t n = lua_rawlen(L, 1);
    if (n > CDZ_LUA_MAX_LIST) return luaL_error(L, "vec.from: too many values");
    cdz_lua_charge(L, 1 + (lua_Integer)(n / 8));
    cdz_lua_vec *v = cdz_lua_push_vec(L, n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        v->data[i] = cdz_lua_check_float(L, -1);
        lua_pop(L, 1);
    }
    return 1;
}

/* vec.unpack(bytes [, from [, n]]): little-endian float32 numbers, counted from 1; n: the rest. */
static int vec_unpack(lua_State *L)
{
    size_t len;
    const char *bytes = luaL_checklstring(L, 1, &len);
    const lua_Integer all = (lua_Integer)(len / 4), from = luaL_optinteger(L, 2, 1);
    const lua_Integer n = luaL_optinteger(L, 3, all - from + 1);

    if (from < 1 || n < 0 || from - 1 > all || n > all - (from - 1))
        return luaL_error(L, "vec.unpack: %I numbers from the %Ith on; there are %I", n, from, all);
    cdz_lua_charge_elements(L, (size_t)n);
    cdz_lua_vec *v = cdz_lua_push_vec(L, (size_t)n, 0);
    for (size_t i = 0; i < (size_t)n; i++) {
        const unsigned char *b = (const unsigned char *)bytes + 4 * ((size_t)from - 1 + i);
        const uint32_t bits =
            b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&v->data[i], &bits, sizeof bits);
    }
    return 1;
}

void cdz_lua_push_vec_lib(lua_State *L)
{
    static const luaL_Reg functions[] = {{"new", vec_new},
                                         {"from", vec_from},
                                         {"unpack", vec_unpack},
                                         {"expr", cdz_lua_vec_expr},
                                         {NULL, NULL}};

    luaL_newlib(L, functions);
}

/* --- arithmetic ---------------------------------------------------------------------------------------------------- */

typedef enum binary { ADD, SUB, MUL, DIV, MAX, MIN } binary;

static void by_scalar(const cdz_vec *o, binary op, float *x, size_t n, float a)
{
    switch (op) {
    case ADD: o->add(x, n, a); break;
    case SUB: o->add(x, n, -a); break;
    case MUL: o->mul(x, n, a); break;
    case DIV: o->div(x, n, a); break;
    case MAX: o->clamp(x, n, a, INFINITY); break;
    case MIN: o->clamp(x, n, -INFINITY, a); break;
    }
}

static void by_vector(const cdz_vec *o, binary op, float *x, const float *v, size_t n)
{
    void (*const f[])(float *, const float *, size_t) = {
        [ADD] = o->add_v, [SUB] = o->sub_v, [MUL] = o->mul_v,
        [DIV] = o->div_v, [MAX] = o->max_v, [MIN] = o->min_v,
    };
    f[op](x, v, n);
}

/* v:add(x), v:add(vector), v:add(ids, x or values); ids that occur twice are added twice. */
static int arith(lua_State *L, binary op)
{
    const cdz_lua_vec *v = TARGET(L);

    if (!lua_isnoneornil(L, 3)) {
        const sparse s = check_sparse(L, 2, 3, v->n);
        for (uint32_t i = 0; i < s.ids.len; i++)
            by_scalar(ops(L), op, v->data + s.ids.at[i], 1, sparse_value(&s, i));
        return return_self(L);
    }
    cdz_lua_charge_elements(L, v->n);
    if (lua_type(L, 2) == LUA_TNUMBER)
        by_scalar(ops(L), op, v->data, v->n, cdz_lua_check_float(L, 2));
    else
        by_vector(ops(L), op, v->data, cdz_lua_check_vec_of(L, 2, v->n)->data, v->n);
    return return_self(L);
}

static int vec_add(lua_State *L)
{
    return arith(L, ADD);
}

static int vec_sub(lua_State *L)
{
    return arith(L, SUB);
}

static int vec_mul(lua_State *L)
{
    return arith(L, MUL);
}

static int vec_div(lua_State *L)
{
    return arith(L, DIV);
}

static int vec_max_with(lua_State *L)
{
    return arith(L, MAX);
}

static int vec_min_with(lua_State *L)
{
    return arith(L, MIN);
}

/* v:fill(x): every element; of a vector, its own. */
static int vec_fill(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, v->n);
    if (!cdz_lua_test_vec(L, 2))
        ops(L)->fill(v->data, v->n, cdz_lua_check_float(L, 2));
    else if (v->n > 0)
        memmove(v->data, cdz_lua_check_vec_of(L, 2, v->n)->data, v->n * sizeof(float));
    return return_self(L);
}

/* v:axpy(a, x): v = v + a * x */
static int vec_axpy(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const float a = cdz_lua_check_float(L, 2);

    cdz_lua_charge_elements(L, v->n);
    ops(L)->axpy(v->data, cdz_lua_check_vec_of(L, 3, v->n)->data, v->n, a);
    return return_self(L);
}

/* v:lerp(x, t): v = v + t * (x - v) */
static int vec_lerp(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const float t = cdz_lua_check_float(L, 3);

    cdz_lua_charge_elements(L, v->n);
    ops(L)->lerp(v->data, cdz_lua_check_vec_of(L, 2, v->n)->data, v->n, t);
    return return_self(L);
}

static int vec_clamp(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, v->n);
    ops(L)->clamp(v->data, v->n, cdz_lua_check_float(L, 2), cdz_lua_check_float(L, 3));
    return return_self(L);
}

static int vec_pow(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, 16 * v->n);
    ops(L)->pow(v->data, v->n, cdz_lua_check_float(L, 2));
    return return_self(L);
}

static int unary(lua_State *L, void (*f)(float *, size_t), size_t cost)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, cost * v->n);
    f(v->data, v->n);
    return return_self(L);
}

static int vec_exp(lua_State *L)
{
    return unary(L, ops(L)->exp, 4);
}

static int vec_log(lua_State *L)
{
    return unary(L, ops(L)->log, 4);
}

static int vec_abs(lua_State *L)
{
    return unary(L, ops(L)->abs, 1);
}

static int vec_neg(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, v->n);
    ops(L)->mul(v->data, v->n, -1.0f);
    return return_self(L);
}

/* v:where(mask, x or vector): takes x where the bit is set (of a vector: where it is not 0). */
static int vec_where(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const cdz_lua_vec *mask = cdz_lua_test_vec(L, 2);
    const cdz_lua_bitset *bits = mask ? NULL : cdz_lua_check_bitset(L, 2, v->n);
    const cdz_lua_vec *x = cdz_lua_test_vec(L, 3);
    const float a = x ? 0 : cdz_lua_check_float(L, 3);

    if (mask) cdz_lua_check_vec_of(L, 2, v->n);
    if (x) cdz_lua_check_vec_of(L, 3, v->n);
    cdz_lua_charge_elements(L, v->n);
    for (size_t i = 0; i < v->n; i++) {
        const bool take = mask ? mask->data[i] != 0 : cdz_bit_is_set(bits->words, i);
        if (take) v->data[i] = x ? x->data[i] : a;
    }
    return return_self(L);
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* v:mask(ids): ids the vector does not have are ignored, here and in mask_except. */
static int vec_mask(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);

    cdz_lua_charge_elements(L, ids.len);
    ops(L)->mask_ids(v->data, v->n, ids.at, ids.len);
    return return_self(L);
}

static int vec_mask_except(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);

    cdz_lua_charge_elements(L, v->n + ids.len);
    ops(L)->mask_except(v->data, v->n, ids.at, ids.len,
                        cdz_lua_scratch(L, cdz_vec_scratch(v->n + ids.len)));
    return return_self(L);
}

static int vec_mask_below(lua_State *L)
{
    const cdz_lua_vec *v = TARGET(L);

    cdz_lua_charge_elements(L, v->n);
    ops(L)->mask_below(v->data, v->n, cdz_lua_check_float(L, 2));
    return return_self(L);
}

static int mask_where(lua_State *L, bool set)
{
    const cdz_lua_vec *v = TARGET(L);
    const cdz_lua_bitset *bits = cdz_lua_check_bitset(L, 2, v->n);

    cdz_lua_charge_elements(L, v->n);
    for (size_t w = 0; w * 64 < v->n; w++) {
        const uint64_t word = set ? bits->words[w] : ~bits->words[w];
        const size_t n = v->n - w * 64 < 64 ? v->n - w * 64 : 64;
        for (size_t i = 0; word && i < n; i++)
            if (word >> i & 1) v->data[w * 64 + i] = -INFINITY;
    }
    return return_self(L);
}

/* v:mask_bits(set) masks what is in the set, v:keep_bits(set) what is not. */
static int vec_mask_bits(lua_State *L)
{
    return mask_where(L, true);
}

static int vec_keep_bits(lua_State *L)
{
    return mask_where(L, false);
}

const luaL_Reg cdz_lua_vec_access[] = {
    {"get", vec_get},         {"set", vec_set},    {"copy", vec_copy}, {"slice", vec_slice},
    {"totable", vec_totable}, {"item", vec_index}, {NULL, NULL}};

const luaL_Reg cdz_lua_vec_arith[] = {{"add", vec_add},
                                      {"sub", vec_sub},
                                      {"mul", vec_mul},
                                      {"div", vec_div},
                                      {"scale", vec_mul},
                                      {"temperature", vec_div},
                                      {"max_with", vec_max_with},
                                      {"min_with", vec_min_with},
                                      {"fill", vec_fill},
                                      {"axpy", vec_axpy},
                                      {"lerp", vec_lerp},
                                      {"clamp", vec_clamp},
                                      {"pow", vec_pow},
                                      {"exp", vec_exp},
                                      {"log", vec_log},
                                      {"abs", vec_abs},
                                      {"neg", vec_neg},
                                      {"where", vec_where},
                                      {"mask", vec_mask},
                                      {"mask_except", vec_mask_except},
                                      {"mask_below", vec_mask_below},
                                      {"mask_bits", vec_mask_bits},
                                      {"keep_bits", vec_keep_bits},
                                      {NULL, NULL}};

void cdz_lua_open_vec(lua_State *L)
{
    static const luaL_Reg meta[] = {
        {"__newindex", vec_newindex}, {"__len", vec_len}, {"__gc", vec_gc}, {NULL, NULL}};
    const luaL_Reg *const more[] = {cdz_lua_vec_arith, cdz_lua_vec_reduce, cdz_lua_vec_dist,
                                    cdz_lua_vec_history, cdz_lua_vec_formula};
    luaL_Reg all[96] = {{NULL, NULL}};
    size_t n = 0;

    for (const luaL_Reg *f = cdz_lua_vec_access; f->name; f++) all[n++] = *f;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        for (const luaL_Reg *f = more[i]; f->name && n < 95; f++) all[n++] = *f;
    cdz_lua_define_type(L, CDZ_LUA_VEC, all, meta, vec_index);
}
