/* vec_history.c - what looks at the tokens so far: penalties, n-grams, biases of sequences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lua/types.h"
#include "vec/history.h"

#define OPS(L) (cdz_lua_of(L)->vec)

static int return_self(lua_State *L)
{
    lua_settop(L, 1);
    return 1;
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* Subtracts x once per distinct id, or x times the number of its uses (one rounding). Ids outside are ignored. */
static void subtract_used(lua_State *L, const cdz_lua_vec *v, cdz_ids ids, double x, bool counted)
{
    int32_t *sorted = cdz_lua_scratch(L, ids.len * sizeof *sorted + 64);

    if (ids.len > 0) memcpy(sorted, ids.at, ids.len * sizeof *sorted);
    qsort(sorted, ids.len, sizeof *sorted, compare_ids);
    for (uint32_t i = 0, next; i < ids.len; i = next) {
        for (next = i + 1; next < ids.len && sorted[next] == sorted[i];) next++;
        if (sorted[i] < 0 || (size_t)sorted[i] >= v->n) continue;
        v->data[sorted[i]] -= (float)(counted ? x * (double)(next - i) : x);
    }
}

/* v:penalize(ids, kind, x): "repetition" (divides positive scores, multiplies negative ones, once per distinct id),
 * "frequency" (subtracts x per use), "presence" (subtracts x). */
static int vec_penalize(lua_State *L)
{
    static const char *const kinds[] = {"repetition", "frequency", "presence", NULL};
    const cdz_lua_vec *v = cdz_lua_check_target(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    const int kind = luaL_checkoption(L, 3, NULL, kinds);
    const double x = luaL_checknumber(L, 4);

    cdz_lua_charge_elements(L, 8 * (size_t)ids.len);
    if (kind > 0) {
        subtract_used(L, v, ids, x, kind == 1);
        return return_self(L);
    }
    luaL_argcheck(L, x > 0, 4, "must be above 0");
    OPS(L)->penalize(v->data, v->n, ids.at, ids.len, (float)x,
                     cdz_lua_scratch(L, cdz_vec_scratch(v->n + ids.len)));
    return return_self(L);
}

/* v:encoder_penalty(ids, x): rewards those ids for x above 1: the penalty of 1/x, the reciprocal taken in double. */
static int vec_encoder_penalty(lua_State *L)
{
    const cdz_lua_vec *v = cdz_lua_check_target(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    const double x = luaL_checknumber(L, 3);

    luaL_argcheck(L, x > 0, 3, "must be above 0");
    cdz_lua_charge_elements(L, 8 * (size_t)ids.len);
    OPS(L)->penalize(v->data, v->n, ids.at, ids.len, (float)(1.0 / x),
                     cdz_lua_scratch(L, cdz_vec_scratch(v->n + ids.len)));
    return return_self(L);
}

/* v:ngram_ban(ids, n [, of]): masks every token that would complete an n-gram already in ids, or in `of`. */
static int vec_ngram_ban(lua_State *L)
{
    const cdz_lua_vec *v = cdz_lua_check_target(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    const lua_Integer n = luaL_checkinteger(L, 3);

    luaL_argcheck(L, n >= 1 && n <= INT32_MAX, 3, "must be at least 1");
    if (lua_isnoneornil(L, 4)) {
        cdz_lua_charge_elements(L, 4 * (size_t)ids.len);
        OPS(L)->ban_ngrams(v->data, v->n, ids.at, ids.len, (size_t)n);
        return return_self(L);
    }
    luaL_checkudata(L, 2, CDZ_LUA_IDS); /* two tables would share one buffer */
    const cdz_ids of = cdz_lua_check_ids(L, 4);
    cdz_lua_charge_elements(L, 4 * (size_t)of.len);
    cdz_history_ban_ngrams_of(v->data, v->n, ids.at, ids.len, of.at, of.len, (size_t)n);
    return return_self(L);
}

/* --- sequence_bias --------------------------------------------------------------------------------------------- */

/* One entry of the list at index 2: {ids, bias}. The ids live in S->ints. */
typedef struct entry {
    cdz_ids ids;
    float bias;
} entry;

static entry read_entry(lua_State *L, lua_Integer i, size_t n)
{
    entry e;

    lua_rawgeti(L, 2, i);
    cdz_lua_unwrap(L, lua_gettop(L));
    if (!lua_istable(L, -1)) luaL_error(L, "sequence_bias: entry %I is no {ids, bias}", i);
    lua_rawgeti(L, -1, 2);
    e.bias = cdz_lua_check_float(L, -1);
    lua_rawgeti(L, -2, 1);
    e.ids = cdz_lua_check_ids(L, lua_gettop(L));
    if (e.ids.len == 0) luaL_error(L, "sequence_bias: entry %I has no ids", i);
    for (uint32_t k = 0; k < e.ids.len; k++)
        if (e.ids.at[k] < 0 || (size_t)e.ids.at[k] >= n)
            luaL_error(L, "sequence_bias: id %d of entry %I is outside 0 to %I", (int)e.ids.at[k],
                       i, (lua_Integer)n - 1);
    lua_pop(L, 3);
    return e;
}

/* Does the row, oldest first, end with the entry's first ids? Shorter rows than the whole entry do not count. */
static bool fires(const entry *e, cdz_ids row)
{
    const uint32_t k = e->ids.len - 1;

    if (e->ids.len > row.len) return false;
    return k == 0 || memcmp(e->ids.at, row.at + row.len - k, k * sizeof *row.at) == 0;
}

/* Sums by id, of the ids that have one. */
typedef struct biases {
    float *at;     /* n, set where seen */
    uint8_t *seen; /* a bit per id */
    int32_t *ids;  /* n_ids of them, each once */
    size_t n_ids;
} biases;

static biases new_biases(lua_State *L, size_t n)
{
    biases b = {.at = cdz_lua_scratch(L, 8 * n + n / 8 + 64)};

    b.ids = (int32_t *)(void *)(b.at + n);
    b.seen = (uint8_t *)(void *)(b.ids + n);
    memset(b.seen, 0, n / 8 + 1);
    return b;
}

static float *bias_of(biases *b, int32_t id)
{
    uint8_t *byte = &b->seen[id / 8];
    const uint8_t bit = (uint8_t)(1u << (id % 8));

    if (!(*byte & bit)) {
        *byte = (uint8_t)(*byte | bit);
        b->ids[b->n_ids++] = id;
        b->at[id] = 0;
    }
    return &b->at[id];
}

/* v:sequence_bias({{ids, bias}, ...}, ids of the row): biases are summed first, single tokens before sequences. Every
 * element is added to, if only 0, which makes +0 of -0: the reference's bits. */
static int vec_sequence_bias(lua_State *L)
{
    const cdz_lua_vec *v = cdz_lua_check_target(L);

    luaL_checktype(L, 2, LUA_TTABLE);
    cdz_lua_unwrap(L, 2);
    luaL_checkudata(L, 3, CDZ_LUA_IDS); /* a table would share the buffer of the entries */
    const cdz_ids row = cdz_lua_check_ids(L, 3);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, 2);

    cdz_lua_charge_elements(L, 2 * v->n);
    cdz_lua_charge(L, 4 * n);
    biases b = new_biases(L, v->n);
    for (lua_Integer i = 1; i <= n; i++) {
        const entry e = read_entry(L, i, v->n);
        if (e.ids.len == 1) *bias_of(&b, e.ids.at[0]) = e.bias;
    }
    for (lua_Integer i = 1; i <= n; i++) {
        const entry e = read_entry(L, i, v->n);
        if (e.ids.len > 1 && fires(&e, row)) *bias_of(&b, e.ids.at[e.ids.len - 1]) += e.bias;
    }
    for (size_t i = 0; i < b.n_ids; i++) b.at[b.ids[i]] = v->data[b.ids[i]] + b.at[b.ids[i]];
    OPS(L)->add(v->data, v->n, 0.0f);
    for (size_t i = 0; i < b.n_ids; i++) v->data[b.ids[i]] = b.at[b.ids[i]];
    return return_self(L);
}

const luaL_Reg cdz_lua_vec_history[] = {{"penalize", vec_penalize},
                                        {"encoder_penalty", vec_encoder_penalty},
                                        {"ngram_ban", vec_ngram_ban},
                                        {"sequence_bias", vec_sequence_bias},
                                        {NULL, NULL}};
