/* verbs_scores.c - a strategy's verbs on scores, and the choices, which draw from the request's torch stream in program
 * order. All are called directly: they neither suspend nor run other plugins. */
#include <float.h>
#include <string.h>

#include "lua/decoder.h"
#include "vec/cut.h"

static void charge_scores(lua_State *L, const cdz_scores *s)
{
    cdz_lua_charge_elements(L, (size_t)s->n_rows * s->n_vocab);
}

static int return_scores(lua_State *L)
{
    lua_settop(L, 2);
    return 1;
}

/* ctx:map(scores): into host memory; done for you where elements are touched. */
static int verb_map(lua_State *L)
{
    cdz_lua_try(L, cdz_map(cdz_lua_decoder(L), &cdz_lua_check_scores(L, 2)->scores));
    return return_scores(L);
}

static int verb_softmax(lua_State *L)
{
    cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;

    charge_scores(L, s);
    cdz_lua_try(L, cdz_softmax(cdz_lua_decoder(L), s));
    return return_scores(L);
}

static int verb_log_softmax(lua_State *L)
{
    cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;

    charge_scores(L, s);
    cdz_lua_try(L, cdz_log_softmax(cdz_lua_decoder(L), s));
    return return_scores(L);
}

/* ctx:ban(scores, row, token), ctx:ban(scores, token) for scores of one row */
static int verb_ban(lua_State *L)
{
    cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;
    const bool named = !lua_isnoneornil(L, 4);

    if (!named && s->n_rows != 1)
        return luaL_error(L, "ban: which of the %I rows?", (lua_Integer)s->n_rows);
    const uint32_t row = named ? cdz_lua_check_row(L, 3, s->n_rows) : 0;
    cdz_lua_try(L, cdz_ban(cdz_lua_decoder(L), s, row, cdz_lua_check_token(L, named ? 4 : 3)));
    return return_scores(L);
}

/* ctx:scratch_scores(n): n rows of scores that stay until the strategy returns. */
static int verb_scratch_scores(lua_State *L)
{
    const lua_Integer n = luaL_checkinteger(L, 2);
    cdz_scores out;

    luaL_argcheck(L, n >= 1 && n <= CDZ_LUA_MAX_SEQS, 2, "must be from 1 to 4096");
    cdz_lua_try(L, cdz_scratch_scores(cdz_lua_decoder(L), (uint32_t)n, &out));
    cdz_lua_push_batch(L, &out, true)->stamp = (cdz_lua_stamp){NULL, 0};
    return 1;
}

/* --- choice ------------------------------------------------------------------------------------------------------ */

/* ctx:argmax(scores): a table of tokens; ctx:argmax(scores, row): token, its score, its probability. */
static int verb_argmax(lua_State *L)
{
    const cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;
    cdz_decoder *dec = cdz_lua_decoder(L);
    cdz_pick pick;

    charge_scores(L, s);
    if (lua_isnoneornil(L, 3)) {
        int32_t *tokens = lua_newuserdatauv(L, s->n_rows * sizeof *tokens, 0);
        cdz_lua_try(L, cdz_argmax_rows(dec, s, tokens));
        cdz_lua_push_tokens(L, tokens, s->n_rows);
        return 1;
    }
    cdz_lua_try(L, cdz_argmax(dec, s, cdz_lua_check_row(L, 3, s->n_rows), &pick));
    lua_pushinteger(L, pick.token);
    lua_pushnumber(L, (lua_Number)pick.score);
    lua_pushnumber(L, (lua_Number)pick.prob);
    return 3;
}

static int verb_argmax_rows(lua_State *L)
{
    lua_settop(L, 2);
    return verb_argmax(L);
}

static int verb_multinomial(lua_State *L)
{
    const cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;

    charge_scores(L, s);
    int32_t *tokens = lua_newuserdatauv(L, s->n_rows * sizeof *tokens, 0);
    cdz_lua_try(L, cdz_multinomial(cdz_lua_decoder(L), s, tokens));
    cdz_lua_push_tokens(L, tokens, s->n_rows);
    return 1;
}

/* ctx:draw_rows(scores): process, record, softmax and multinomial in one. */
static int verb_draw_rows(lua_State *L)
{
    cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;

    charge_scores(L, s);
    int32_t *tokens = lua_newuserdatauv(L, s->n_rows * sizeof *tokens, 0);
    cdz_lua_try(L, cdz_draw_rows(cdz_lua_decoder(L), s, tokens));
    cdz_lua_push_tokens(L, tokens, s->n_rows);
    return 1;
}

/* Rows in place: what the warpers of these settings leave. */
static void cut_rows(lua_State *L, cdz_scores *s, double temperature, size_t top_k, double top_p)
{
    cdz_lua_try(L, cdz_map(cdz_lua_decoder(L), s));
    void *scratch = cdz_lua_scratch(L, cdz_vec_scratch(s->n_vocab));
    for (uint32_t r = 0; r < s->n_rows; r++)
        cdz_vec_cut(cdz_lua_of(L)->vec, cdz_row(s, r), s->n_vocab, temperature, top_k, top_p,
                    scratch);
}

/* ctx:sample(scores [, temperature [, top_k [, top_p]]]): cuts the rows, and draws a token of each. */
static int verb_sample(lua_State *L)
{
    enum { SORTS = 16 };
    cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;
    const lua_Number temperature = luaL_optnumber(L, 3, 1), top_p = luaL_optnumber(L, 5, 1);
    const lua_Integer top_k = luaL_optinteger(L, 4, 0);

    luaL_argcheck(L, temperature >= 0 && temperature <= (lua_Number)FLT_MAX, 3,
                  "temperature must be a number from 0");
    luaL_argcheck(L, top_k >= 0, 4, "top_k must be at least 0, which keeps all");
    luaL_argcheck(L, top_p >= 0 && top_p <= 1, 5, "top_p must be from 0 to 1");
    lua_settop(L, 2);
    if (temperature == 0) return verb_argmax(L);
    cdz_lua_charge_elements(L, (size_t)SORTS * s->n_rows * s->n_vocab);
    cut_rows(L, s, temperature, (size_t)top_k, top_p);
    cdz_lua_try(L, cdz_softmax(cdz_lua_decoder(L), s));
    return verb_multinomial(L);
}

/* {{row =, token =, score =}, ...}; row counts from 1 within the group. */
static int push_candidates(lua_State *L, const cdz_candidate *c, uint32_t m)
{
    lua_createtable(L, (int)m, 0);
    for (uint32_t i = 0; i < m; i++) {
        lua_createtable(L, 0, 3);
        lua_pushinteger(L, (lua_Integer)c[i].row + 1);
        lua_setfield(L, -2, "row");
        lua_pushinteger(L, c[i].token);
        lua_setfield(L, -2, "token");
        lua_pushnumber(L, (lua_Number)c[i].score);
        lua_setfield(L, -2, "score");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

typedef struct group {
    cdz_scores *scores;
    uint32_t first, n, m;
    cdz_candidate *out;
} group;

/* scores, first row, number of rows, then at m_at how many are wanted. Pushes room for the candidates. */
static group check_group(lua_State *L, int m_at)
{
    group g = {.scores = &cdz_lua_check_scores(L, 2)->scores};
    const lua_Integer n = luaL_checkinteger(L, 4), m = luaL_checkinteger(L, m_at);

    g.first = cdz_lua_check_row(L, 3, g.scores->n_rows);
    if (n < 1 || n > (lua_Integer)(g.scores->n_rows - g.first))
        luaL_error(L, "%I rows from row %I on: there are %I", n, (lua_Integer)g.first + 1,
                   (lua_Integer)g.scores->n_rows);
    g.n = (uint32_t)n;
    if (m < 1 || m > CDZ_LUA_MAX_TABLE || m > n * (lua_Integer)g.scores->n_vocab)
        luaL_error(L, "%I candidates of %I scores (at most %d)", m,
                   n * (lua_Integer)g.scores->n_vocab, CDZ_LUA_MAX_TABLE);
    g.m = (uint32_t)m;
    charge_scores(L, g.scores);
    g.out = lua_newuserdatauv(L, g.m * sizeof *g.out, 0);
    return g;
}

const float *cdz_lua_read_addends(lua_State *L, int index, uint32_t n)
{
    float *addends = lua_newuserdatauv(L, n * sizeof *addends, 0);

    memset(addends, 0, n * sizeof *addends);
    if (lua_isnil(L, index)) return addends;
    cdz_lua_unwrap(L, index);
    luaL_checktype(L, index, LUA_TTABLE);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        addends[i] = cdz_lua_check_float(L, -1);
        lua_pop(L, 1);
    }
    return addends;
}

/* ctx:topk_flat(scores, first, n, addends, m): addends is a list of one number per row, or nil. */
static int verb_topk_flat(lua_State *L)
{
    lua_settop(L, 6);
    const group g = check_group(L, 6);
    const float *addends = cdz_lua_read_addends(L, 5, g.n);

    cdz_lua_try(L, cdz_topk_flat(cdz_lua_decoder(L), g.scores, g.first, g.n, addends, g.m, g.out));
    return push_candidates(L, g.out, g.m);
}

/* ctx:multinomial_flat(probs, first, n, m) */
static int verb_multinomial_flat(lua_State *L)
{
    lua_settop(L, 5);
    const group g = check_group(L, 5);

    cdz_lua_try(L, cdz_multinomial_flat(cdz_lua_decoder(L), g.scores, g.first, g.n, g.m, g.out));
    return push_candidates(L, g.out, g.m);
}

/* ctx:uniform(): a number; ctx:uniform(n): a table of n. */
static int verb_uniform(lua_State *L)
{
    const bool one = lua_isnoneornil(L, 2);
    const lua_Integer n = one ? 1 : luaL_checkinteger(L, 2);

    luaL_argcheck(L, n >= 0 && n <= CDZ_LUA_MAX_TABLE, 2, "must be from 0 to 4096");
    cdz_lua_charge(L, 1 + n / 4);
    float *u = lua_newuserdatauv(L, (size_t)n * sizeof *u + 1, 0);
    cdz_lua_try(L, cdz_uniform(cdz_lua_decoder(L), (uint32_t)n, u));
    if (one) {
        lua_pushnumber(L, (lua_Number)u[0]);
        return 1;
    }
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 0; i < n; i++) {
        lua_pushnumber(L, (lua_Number)u[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

const luaL_Reg cdz_lua_score_verbs[] = {{"map", verb_map},
                                        {"softmax", verb_softmax},
                                        {"log_softmax", verb_log_softmax},
                                        {"ban", verb_ban},
                                        {"scratch_scores", verb_scratch_scores},
                                        {"argmax", verb_argmax},
                                        {"argmax_rows", verb_argmax_rows},
                                        {"multinomial", verb_multinomial},
                                        {"draw_rows", verb_draw_rows},
                                        {"sample", verb_sample},
                                        {"topk_flat", verb_topk_flat},
                                        {"multinomial_flat", verb_multinomial_flat},
                                        {"uniform", verb_uniform},
                                        {NULL, NULL}};
