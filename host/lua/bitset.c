/* bitset.c - sets of token ids, a bit each, so that a grammar's masks stay small and combine fast. */
#include <string.h>

#include "base/bits.h"
#include "lua/types.h"

static cdz_lua_bitset *self(lua_State *L)
{
    cdz_lua_bitset *b = cdz_lua_check_bitset(L, 1, 0);

    cdz_lua_charge_elements(L, b->n / 64);
    return b;
}

static cdz_lua_bitset *target(lua_State *L)
{
    cdz_lua_bitset *b = self(L);

    cdz_lua_check_writable(L, b->of_state);
    return b;
}

static size_t n_words(const cdz_lua_bitset *b)
{
    return (b->n + 63) / 64;
}

static int return_self(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

typedef enum change { SET, CLEAR, FLIP } change;

static void change_bit(cdz_lua_bitset *b, size_t i, change what)
{
    const uint64_t bit = UINT64_C(1) << (i % 64);

    switch (what) {
    case SET: b->words[i / 64] |= bit; break;
    case CLEAR: b->words[i / 64] &= ~bit; break;
    case FLIP: b->words[i / 64] ^= bit; break;
    }
}

/* For the ids at index 2. */
static int change_ids(lua_State *L, change what)
{
    cdz_lua_bitset *b = target(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);

    cdz_lua_charge(L, 1 + ids.len / 16);
    for (uint32_t i = 0; i < ids.len; i++) {
        if (ids.at[i] < 0 || (size_t)ids.at[i] >= b->n)
            return luaL_error(L, "bit %d is outside 0 to %I", (int)ids.at[i], (lua_Integer)b->n - 1);
        change_bit(b, (size_t)ids.at[i], what);
    }
    return return_self(L);
}

static int bitset_set(lua_State *L)
{
    return change_ids(L, SET);
}

static int bitset_clear(lua_State *L)
{
    return change_ids(L, CLEAR);
}

/* b:flip() flips all, b:flip(ids) those. */
static int bitset_flip(lua_State *L)
{
    cdz_lua_bitset *b = target(L);

    if (!lua_isnoneornil(L, 2)) return change_ids(L, FLIP);
    for (size_t w = 0; w < n_words(b); w++) b->words[w] = ~b->words[w];
    if (b->n % 64) b->words[n_words(b) - 1] &= (UINT64_C(1) << (b->n % 64)) - 1;
    return return_self(L);
}

static int bitset_and(lua_State *L)
{
    cdz_lua_bitset *b = target(L);
    const cdz_lua_bitset *other = cdz_lua_check_bitset(L, 2, b->n);

    for (size_t w = 0; w < n_words(b); w++) b->words[w] &= other->words[w];
    return return_self(L);
}

static int bitset_or(lua_State *L)
{
    cdz_lua_bitset *b = target(L);
    const cdz_lua_bitset *other = cdz_lua_check_bitset(L, 2, b->n);

    for (size_t w = 0; w < n_words(b); w++) b->words[w] |= other->words[w];
    return return_self(L);
}

static size_t count(const cdz_lua_bitset *b)
{
    size_t n = 0;

    for (size_t w = 0; w < n_words(b); w++) n += (size_t)__builtin_popcountll(b->words[w]);
    return n;
}

static int bitset_count(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)count(self(L)));
    return 1;
}

/* b:test(id) */
static int bitset_test(lua_State *L)
{
    const cdz_lua_bitset *b = cdz_lua_check_bitset(L, 1, 0);
    const lua_Integer i = luaL_checkinteger(L, 2);

    lua_pushboolean(L, i >= 0 && (lua_Unsigned)i < b->n && cdz_bit_is_set(b->words, (size_t)i));
    return 1;
}

/* b:ids(): the ids in the set, ascending. */
static int bitset_ids(lua_State *L)
{
    const cdz_lua_bitset *b = self(L);
    const size_t n = count(b);
    size_t at = 0;

    cdz_lua_charge_elements(L, n);
    int32_t *ids = cdz_lua_push_ids(L, n);
    for (size_t i = 0; i < b->n && at < n; i++)
        if (cdz_bit_is_set(b->words, i)) ids[at++] = (int32_t)i;
    return 1;
}

static int bitset_copy(lua_State *L)
{
    const cdz_lua_bitset *b = self(L);
    cdz_lua_bitset *out = cdz_lua_push_bitset(L, b->n);

    memcpy(out->words, b->words, b->owned);
    return 1;
}

static int bitset_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)cdz_lua_check_bitset(L, 1, 0)->n);
    return 1;
}

static int bitset_gc(lua_State *L)
{
    cdz_lua_bitset *b = luaL_checkudata(L, 1, CDZ_LUA_BITSET);

    cdz_lua_pool_free(cdz_lua_of(L), b->words, b->owned);
    b->words = NULL;
    return 0;
}

/* bitset.new(n) */
static int bitset_new(lua_State *L)
{
    const lua_Integer n = luaL_checkinteger(L, 1);

    if (n < 1 || n > INT32_MAX) return luaL_error(L, "bitset.new: %I bits", n);
    cdz_lua_charge_elements(L, (size_t)n / 64);
    cdz_lua_push_bitset(L, (size_t)n);
    return 1;
}

void cdz_lua_push_bitset_lib(lua_State *L)
{
    static const luaL_Reg functions[] = {{"new", bitset_new}, {NULL, NULL}};

    luaL_newlib(L, functions);
}

void cdz_lua_open_bitset(lua_State *L)
{
    static const luaL_Reg methods[] = {{"set", bitset_set},   {"clear", bitset_clear},
                                       {"flip", bitset_flip}, {"and_", bitset_and},
                                       {"or_", bitset_or},    {"count", bitset_count},
                                       {"ids", bitset_ids},   {"test", bitset_test},
                                       {"copy", bitset_copy}, {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__len", bitset_len}, {"__gc", bitset_gc}, {NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_BITSET, methods, meta, NULL);
}
