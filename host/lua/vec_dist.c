/* vec_dist.c - distributions: normalising, filters, sorting, drawing. The filters are those of the built-in processors.
 * Sorting and selecting n elements is charged as n * log2(n) element operations. */
#include <math.h>
#include <string.h>

#include "lua/types.h"

#define OPS(L)    (cdz_lua_of(L)->vec)
#define SORT_COST 16
#define EXP_COST  4

static const cdz_lua_vec *self(lua_State *L, size_t cost)
{
    const cdz_lua_vec *v = cdz_lua_check_vec(L, 1);

    cdz_lua_charge_elements(L, cost * v->n);
    return v;
}

static const cdz_lua_vec *target(lua_State *L, size_t cost)
{
    cdz_lua_check_target(L);
    return self(L, cost);
}

static int return_self(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

static void *scratch_for(lua_State *L, const cdz_lua_vec *v)
{
    return cdz_lua_scratch(L, cdz_vec_scratch(v->n));
}

static int vec_softmax(lua_State *L)
{
    const cdz_lua_vec *v = target(L, EXP_COST);

    if (v->n > 0) OPS(L)->softmax(v->data, v->data, v->n);
    return return_self(L);
}

static int vec_log_softmax(lua_State *L)
{
    const cdz_lua_vec *v = target(L, EXP_COST);

    if (v->n > 0) OPS(L)->log_softmax(v->data, v->data, v->n);
    return return_self(L);
}

static int vec_cumsum(lua_State *L)
{
    const cdz_lua_vec *v = target(L, 1);

    OPS(L)->cumsum(v->data, v->data, v->n);
    return return_self(L);
}

/* --- sorting ----------------------------------------------------------------------------------------------- */

static void add_base(const cdz_lua_vec *v, int32_t *ids, size_t n)
{
    for (size_t i = 0; v->base && i < n; i++) ids[i] += (int32_t)v->base;
}

/* v:topk(k): the k greatest, descending: a list of ids and a list of values. k is cut to the length. */
static int vec_topk(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 2);
    const lua_Integer asked = luaL_checkinteger(L, 2);

    if (asked < 1) return luaL_argerror(L, 2, "must be at least 1");
    const size_t k = (size_t)asked < v->n ? (size_t)asked : v->n;
    cdz_lua_charge_elements(L, SORT_COST * k);
    int32_t *ids = cdz_lua_push_ids(L, k);
    const cdz_lua_vec *values = cdz_lua_push_vec(L, k, 1);
    if (k > 0) OPS(L)->topk(v->data, v->n, k, values->data, ids, scratch_for(L, v));
    add_base(v, ids, k);
    return 2;
}

/* v:sort_desc(): all elements, descending: a list of ids and a list of values. */
static int vec_sort_desc(lua_State *L)
{
    const cdz_lua_vec *v = self(L, SORT_COST);

    int32_t *ids = cdz_lua_push_ids(L, v->n);
    const cdz_lua_vec *values = cdz_lua_push_vec(L, v->n, 1);
    if (v->n > 0) OPS(L)->sort(v->data, v->n, true, values->data, ids, scratch_for(L, v));
    add_base(v, ids, v->n);
    return 2;
}

/* --- filters -------------------------------------------------------------------------------------------------- */

static size_t check_keep(lua_State *L, int index)
{
    const lua_Integer keep = luaL_optinteger(L, index, 1);

    luaL_argcheck(L, keep >= 1, index, "must be at least 1");
    return (size_t)keep;
}

/* v:keep_topk(k [, min_tokens_to_keep]): masks all below the k-th largest; ties with it stay. */
static int vec_keep_topk(lua_State *L)
{
    const cdz_lua_vec *v = target(L, 2);
    const lua_Integer k = luaL_checkinteger(L, 2);
    const size_t keep = check_keep(L, 3);

    luaL_argcheck(L, k >= 1, 2, "must be at least 1");
    const size_t most = (size_t)k > keep ? (size_t)k : keep;
    if (v->n > 0) OPS(L)->keep_topk(v->data, v->n, most < v->n ? most : v->n, scratch_for(L, v));
    return return_self(L);
}

typedef void filter(float *x, size_t n, double p, size_t keep, void *scratch);

static int keep(lua_State *L, filter *f, size_t cost)
{
    const cdz_lua_vec *v = target(L, cost);
    const double p = luaL_checknumber(L, 2);
    const size_t least = check_keep(L, 3);

    luaL_argcheck(L, p >= 0 && p <= 1, 2, "must be from 0 to 1");
    if (v->n > 0) f(v->data, v->n, p, least, scratch_for(L, v));
    return return_self(L);
}

static int vec_keep_topp(lua_State *L)
{
    return keep(L, OPS(L)->keep_topp, SORT_COST);
}

static int vec_keep_minp(lua_State *L)
{
    return keep(L, OPS(L)->keep_minp, EXP_COST);
}

static int vec_keep_typical(lua_State *L)
{
    return keep(L, OPS(L)->keep_typical, SORT_COST);
}

static int vec_keep_epsilon(lua_State *L)
{
    return keep(L, OPS(L)->keep_epsilon, EXP_COST);
}

static int vec_keep_eta(lua_State *L)
{
    return keep(L, OPS(L)->keep_eta, EXP_COST);
}

/* --- drawing ------------------------------------------------------------------------------------------------- */

static void check_rng(lua_State *L, int index)
{
    luaL_checkudata(L, index, CDZ_LUA_RNG);
}

/* One draw from probabilities (they need not sum to 1) by the running sum, in double. */
static size_t draw(lua_State *L, const cdz_lua_vec *v)
{
    double total = 0, at = 0;
    size_t last = 0;

    for (size_t i = 0; i < v->n; i++) total += (double)v->data[i];
    if (!(total > 0) || isinf(total)) luaL_error(L, "sample: the probabilities sum to %f", total);
    const double u = cdz_lua_rng_uniform(L) * total;
    for (size_t i = 0; i < v->n; i++) {
        const double p = (double)v->data[i];
        if (p < 0) luaL_error(L, "sample: element %I is negative", (lua_Integer)i + v->base);
        if (p == 0) continue;
        last = i;
        at += p;
        if (u < at) break;
    }
    return last + v->base;
}

/* p:sample(rng) */
static int vec_sample(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 4);

    check_rng(L, 2);
    lua_pushinteger(L, (lua_Integer)draw(L, v));
    return 1;
}

/* p:sample_n(rng, n): n independent draws, as a table. */
static int vec_sample_n(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);
    const lua_Integer n = luaL_checkinteger(L, 3);

    check_rng(L, 2);
    luaL_argcheck(L, n >= 0 && n <= CDZ_LUA_MAX_TABLE, 3, "must be from 0 to 4096");
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        cdz_lua_charge_elements(L, 4 * v->n);
        lua_pushinteger(L, (lua_Integer)draw(L, v));
        lua_rawseti(L, -2, i);
    }
    return 1;
}

/* v:gumbel(rng): adds -log(-log(u)) to every element, so that argmax draws from softmax(v). */
static int vec_gumbel(lua_State *L)
{
    const cdz_lua_vec *v = target(L, 16);

    check_rng(L, 2);
    float *u = cdz_lua_scratch(L, v->n * sizeof *u);
    for (size_t i = 0; i < v->n; i++) u[i] = ((float)(cdz_lua_rng_word(L) >> 9) + 0.5f) * 0x1p-23f;
    OPS(L)->log(u, v->n);
    OPS(L)->mul(u, v->n, -1.0f);
    OPS(L)->log(u, v->n);
    OPS(L)->sub_v(v->data, u, v->n);
    return return_self(L);
}

const luaL_Reg cdz_lua_vec_dist[] = {{"softmax", vec_softmax},
                                     {"log_softmax", vec_log_softmax},
                                     {"topk", vec_topk},
                                     {"sort_desc", vec_sort_desc},
                                     {"keep_topk", vec_keep_topk},
                                     {"keep_topp", vec_keep_topp},
                                     {"keep_minp", vec_keep_minp},
                                     {"keep_typical", vec_keep_typical},
                                     {"keep_epsilon", vec_keep_epsilon},
                                     {"keep_eta", vec_keep_eta},
                                     {"cumsum", vec_cumsum},
                                     {"sample", vec_sample},
                                     {"sample_n", vec_sample_n},
                                     {"gumbel", vec_gumbel},
                                     {NULL, NULL}};
