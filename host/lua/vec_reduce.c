/* vec_reduce.c - one number out of a vector. Sums run in the fixed order of "cadenza.vec/1", so they do not depend on
 * threads or instruction sets. */
#include <math.h>

#include "lua/types.h"

static const cdz_lua_vec *self(lua_State *L, size_t cost)
{
    const cdz_lua_vec *v = cdz_lua_check_vec(L, 1);

    cdz_lua_charge_elements(L, cost * v->n);
    return v;
}

static int push_float(lua_State *L, float x)
{
    lua_pushnumber(L, (lua_Number)x);
    return 1;
}

static int reduce(lua_State *L, float (*f)(const float *, size_t), size_t cost)
{
    const cdz_lua_vec *v = self(L, cost);

    if (v->n == 0) return luaL_error(L, "the vector is empty");
    return push_float(L, f(v->data, v->n));
}

#define OPS(L) (cdz_lua_of(L)->vec)

static int vec_max(lua_State *L)
{
    return reduce(L, OPS(L)->max, 1);
}

static int vec_min(lua_State *L)
{
    return reduce(L, OPS(L)->min, 1);
}

static int vec_sum(lua_State *L)
{
    return reduce(L, OPS(L)->sum, 1);
}

static int vec_logsumexp(lua_State *L)
{
    return reduce(L, OPS(L)->logsumexp, 4);
}

static int vec_entropy(lua_State *L)
{
    return reduce(L, OPS(L)->entropy, 8);
}

static int vec_mean(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);

    if (v->n == 0) return luaL_error(L, "the vector is empty");
    return push_float(L, OPS(L)->sum(v->data, v->n) / (float)v->n);
}

static int vec_norm(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);

    return push_float(L, sqrtf(OPS(L)->dot(v->data, v->data, v->n)));
}

/* The index of the greatest element; the lowest of equals, the first NaN before everything. */
static int vec_argmax(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);

    if (v->n == 0) return luaL_error(L, "the vector is empty");
    lua_pushinteger(L, (lua_Integer)OPS(L)->argmax(v->data, v->n) + v->base);
    return 1;
}

static int vec_count_above(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);

    lua_pushinteger(L, (lua_Integer)OPS(L)->count_above(v->data, v->n, cdz_lua_check_float(L, 2)));
    return 1;
}

static int vec_any_nan(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);

    lua_pushboolean(L, OPS(L)->any_nan(v->data, v->n));
    return 1;
}

static int vec_dot(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1), *w = cdz_lua_check_vec_of(L, 2, v->n);

    return push_float(L, OPS(L)->dot(v->data, w->data, v->n));
}

/* p:kl(q): sum of p * log(p / q) of two probability vectors; elements with p = 0 add nothing. In double. */
static int vec_kl(lua_State *L)
{
    const cdz_lua_vec *p = self(L, 8), *q = cdz_lua_check_vec_of(L, 2, p->n);
    double sum = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->data[i] > 0)
            sum += (double)p->data[i] * log((double)p->data[i] / (double)q->data[i]);
    lua_pushnumber(L, sum);
    return 1;
}

/* v:rank(id): 1 for the best; of equals the lower id comes first. */
static int vec_rank(lua_State *L)
{
    const cdz_lua_vec *v = self(L, 1);
    const lua_Integer asked = luaL_checkinteger(L, 2);
    const lua_Unsigned id = (lua_Unsigned)asked - v->base; /* below the first element: vast */
    lua_Integer rank = 1;

    if (id >= v->n)
        return luaL_error(L, "element %I is outside %I to %I", asked, (lua_Integer)v->base,
                          (lua_Integer)v->n - 1 + v->base);
    const float x = v->data[id];
    for (size_t i = 0; i < v->n; i++) rank += v->data[i] > x || (i < id && v->data[i] == x);
    lua_pushinteger(L, rank);
    return 1;
}

const luaL_Reg cdz_lua_vec_reduce[] = {
    {"max", vec_max},         {"min", vec_min},   {"argmax", vec_argmax},
    {"sum", vec_sum},         {"mean", vec_mean}, {"logsumexp", vec_logsumexp},
    {"entropy", vec_entropy}, {"norm", vec_norm}, {"count_above", vec_count_above},
    {"kl", vec_kl},           {"dot", vec_dot},   {"rank", vec_rank},
    {"any_nan", vec_any_nan}, {NULL, NULL}};
