/* rng.c - ctx.rng: random numbers keyed by request seed, plugin, row and position, so that they are the same on any
 * number of threads and whoever else draws.
 *
 * The first four words of a call are the host's noise(row, position), what a C plugin gets; further ones come from the
 * same generator keyed by them and counted from 1. A strategy has one such stream, of row 0 and position 0, in the order in
 * which it draws. */
#include <math.h>
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"
#include "random/torch_rng.h"

static void begin_noise(lua_State *L, cdz_lua_session *S)
{
    const bool loop = S->kind == CDZ_KIND_STRATEGY;

    if (!S->step || (!loop && (!S->row_set || !S->step->input_ids)))
        luaL_error(L, "the generator works where a row and its ids are at hand");
    S->step->host->noise(S->step, loop ? 0 : S->step->row_index[S->row],
                         loop ? 0 : cdz_lua_current_ids(S).len, S->noise);
    memcpy(S->noise_block, S->noise, sizeof S->noise);
    S->noise_at = 0;
    S->noise_ready = true;
}

uint32_t cdz_lua_rng_word(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (!S->noise_ready) begin_noise(L, S);
    if (S->noise_at > 0 && S->noise_at % 4 == 0)
        cdz_philox((uint64_t)S->noise[0] << 32 | S->noise[1],
                   (uint64_t)S->noise[2] << 32 | S->noise[3], (uint32_t)(S->noise_at / 4),
                   (uint32_t)(S->noise_at / 4 >> 32), S->noise_block);
    return S->noise_block[S->noise_at++ % 4];
}

double cdz_lua_rng_uniform(lua_State *L)
{
    return cdz_lua_rng_word(L) * 0x1p-32;
}

static void check_self(lua_State *L)
{
    luaL_checkudata(L, 1, CDZ_LUA_RNG);
    cdz_lua_charge(L, 4);
}

/* rng:uniform(): [0, 1) */
static int rng_uniform(lua_State *L)
{
    check_self(L);
    lua_pushnumber(L, cdz_lua_rng_uniform(L));
    return 1;
}

/* rng:normal(): mean 0, deviation 1, by Box and Muller; two words */
static int rng_normal(lua_State *L)
{
    check_self(L);
    const double u = (cdz_lua_rng_word(L) + 1.0) * 0x1p-32, v = cdz_lua_rng_uniform(L);
    lua_pushnumber(L, sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    return 1;
}

/* rng:int(a, b): a to b, both included, each equally likely */
static int rng_int(lua_State *L)
{
    const lua_Integer a = luaL_checkinteger(L, 2), b = luaL_checkinteger(L, 3);

    check_self(L);
    luaL_argcheck(L, a <= b, 3, "must not be below the first");
    const uint64_t span = (uint64_t)b - (uint64_t)a;
    const uint64_t reject = span == UINT64_MAX ? 0 : -(span + 1) % (span + 1);
    uint64_t r;
    do {
        const uint64_t high = cdz_lua_rng_word(L);
        r = high << 32 | cdz_lua_rng_word(L);
    } while (r < reject);
    r = (uint64_t)a + (span == UINT64_MAX ? r : r % (span + 1));
    lua_pushinteger(L, (lua_Integer)r);
    return 1;
}

/* rng:sample(probs) */
static int rng_sample(lua_State *L)
{
    check_self(L);
    lua_settop(L, 2);
    cdz_lua_check_vec(L, 2);
    lua_getfield(L, 2, "sample");
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 1);
    lua_call(L, 2, 1);
    return 1;
}

void cdz_lua_open_rng(lua_State *L)
{
    static const luaL_Reg methods[] = {{"uniform", rng_uniform},
                                       {"normal", rng_normal},
                                       {"int", rng_int},
                                       {"sample", rng_sample},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_RNG, methods, meta, NULL);
}
