/* verbs_search.c - a strategy's verbs for searches over rows: rows that become other rows, flat distributions, and
 * answers that are no longer the rows themselves. */
#include <math.h>
#include <string.h>

#include "lua/decoder.h"

/* --- extend_rows ----------------------------------------------------------------------------------------------- */

static cdz_status run_extend_rows(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_extend_rows(dec, v->rows, v->tokens);
}

static void check_list(lua_State *L, int index, uint32_t n, const char *what)
{
    luaL_checktype(L, index, LUA_TTABLE);
    if (lua_rawlen(L, index) != n)
        luaL_error(L, "%I %s for %I", (lua_Integer)lua_rawlen(L, index), what, (lua_Integer)n);
}

/* ctx:extend_rows(parents, tokens): row r becomes a copy of row parents[r] and takes tokens[r]. */
static int verb_extend_rows(lua_State *L)
{
    const uint32_t n = cdz_n_rows(cdz_lua_decoder(L));

    check_list(L, 2, n, "parents");
    check_list(L, 3, n, "tokens");
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        v->rows[i] = cdz_lua_check_row(L, -1, n);
        if (cdz_row_done(cdz_lua_decoder(L), v->rows[i]))
            return luaL_error(L, "extend_rows: row %I has ended", (lua_Integer)v->rows[i] + 1);
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        v->tokens[i] = cdz_lua_check_token(L, -1);
        lua_pop(L, 2);
    }
    v->run = run_extend_rows;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

/* --- softmax_flat ------------------------------------------------------------------------------------------------ */

/* ctx:softmax_flat(scores, first, n [, addends [, out]]): n rows from first on as one distribution; addends is a list of
 * one number per row, or nil; out is scores itself when left out. */
static int verb_softmax_flat(lua_State *L)
{
    const cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;
    const uint32_t first = cdz_lua_check_row(L, 3, s->n_rows);
    const lua_Integer n = luaL_checkinteger(L, 4);

    lua_settop(L, 6);
    if (lua_isnil(L, 6)) {
        lua_pushvalue(L, 2);
        lua_replace(L, 6);
    }
    cdz_scores *out = &cdz_lua_check_scores(L, 6)->scores;
    if (n < 1 || n > (lua_Integer)(s->n_rows - first) || out->n_rows < first + (uint32_t)n)
        return luaL_error(L, "%I rows from row %I on: there are %I", n, (lua_Integer)first + 1,
                          (lua_Integer)(s->n_rows < out->n_rows ? s->n_rows : out->n_rows));
    cdz_lua_charge_elements(L, (size_t)n * s->n_vocab);
    const float *addends = cdz_lua_read_addends(L, 5, (uint32_t)n);
    cdz_lua_try(L, cdz_softmax_flat(cdz_lua_decoder(L), s, first, (uint32_t)n, addends, out));
    lua_settop(L, 6);
    return 1;
}

/* --- token_scores --------------------------------------------------------------------------------------------------- */

static void set_number(lua_State *L, const char *name, float x)
{
    if (isnan(x)) return; /* nobody asked for it */
    lua_pushnumber(L, (lua_Number)x);
    lua_setfield(L, -2, name);
}

/* ctx:token_scores(scores, rows, tokens): what row rows[i] says of tokens[i]: {score =, logprob =, raw_logprob =}. */
static int verb_token_scores(lua_State *L)
{
    const cdz_scores *s = &cdz_lua_check_scores(L, 2)->scores;

    luaL_checktype(L, 3, LUA_TTABLE);
    const uint32_t n = (uint32_t)lua_rawlen(L, 3);
    if (n > CDZ_LUA_MAX_SEQS) return luaL_error(L, "%I tokens; at most 4096", (lua_Integer)n);
    check_list(L, 4, n, "tokens");
    cdz_lua_charge_elements(L, (size_t)n * s->n_vocab);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        v->rows[i] = cdz_lua_check_row(L, -1, s->n_rows);
        lua_rawgeti(L, 4, (lua_Integer)i + 1);
        v->tokens[i] = cdz_lua_check_token(L, -1);
        lua_pop(L, 2);
    }
    cdz_token_score *out = lua_newuserdatauv(L, n * sizeof *out + 1, 0);
    cdz_lua_try(L, cdz_token_scores(cdz_lua_decoder(L), s, v->rows, v->tokens, n, out));
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_createtable(L, 0, 3);
        set_number(L, "score", out[i].score);
        set_number(L, "logprob", out[i].logprob);
        set_number(L, "raw_logprob", out[i].raw_logprob);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* --- return_rows ------------------------------------------------------------------------------------------------------ */

/* The sequences, and behind them the scores and the ids they point to. */
typedef struct answer {
    cdz_returned *rows;
    cdz_token_score *scores;
    int32_t *ids;
    uint32_t n;
} answer;

/* Pushes field `name` of the entry at the top. */
static int push_field(lua_State *L, const char *name)
{
    if (!lua_istable(L, -1)) luaL_error(L, "return_rows: an entry is a %s", luaL_typename(L, -1));
    return cdz_lua_field(L, -1, name);
}

static answer make_answer(lua_State *L, uint32_t n)
{
    size_t n_ids = 0, n_scores = 0;

    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        push_field(L, "ids");
        n_ids += cdz_lua_check_ids(L, lua_gettop(L)).len;
        lua_pop(L, 1);
        if (push_field(L, "scores") == LUA_TTABLE) n_scores += lua_rawlen(L, -1);
        lua_pop(L, 2);
    }
    if (n_ids > CDZ_LUA_MAX_LIST || n_scores > n_ids)
        luaL_error(L, "return_rows: too many ids or scores");
    answer a = {.n = n};
    char *at = lua_newuserdatauv(
        L, n * sizeof *a.rows + n_scores * sizeof *a.scores + n_ids * sizeof *a.ids + 1, 0);
    memset(at, 0, n * sizeof *a.rows);
    a.rows = (void *)at;
    at += n * sizeof *a.rows;
    a.scores = (void *)at;
    at += n_scores * sizeof *a.scores;
    a.ids = (void *)at;
    return a;
}

static float number_or_nan(lua_State *L, const char *name)
{
    const float x = push_field(L, name) == LUA_TNIL ? NAN : cdz_lua_check_float(L, -1);

    lua_pop(L, 1);
    return x;
}

/* The list of scores at the top, one per new token; advances `to`. */
static void read_scores(lua_State *L, cdz_returned *row, cdz_token_score **to)
{
    const uint32_t n = (uint32_t)lua_rawlen(L, -1);

    if (n != row->n_new)
        luaL_error(L, "return_rows: %I scores for %I new tokens", (lua_Integer)n,
                   (lua_Integer)row->n_new);
    row->scores = *to;
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        *(*to)++ = (cdz_token_score){number_or_nan(L, "score"), number_or_nan(L, "logprob"),
                                     number_or_nan(L, "raw_logprob")};
        lua_pop(L, 1);
    }
}

static void read_reason(lua_State *L, cdz_returned *row)
{
    size_t len;

    push_field(L, "reason");
    if (lua_toboolean(L, -1)) {
        const char *text = luaL_checklstring(L, -1, &len);
        text = cdz_lua_module_reason(cdz_lua_of(L)->module, text, len);
        row->stop = (cdz_stop){cdz_lua_stop_reason(text), {text, (uint32_t)strlen(text)}};
    }
    lua_pop(L, 1);
}

/* The entry at the top of the stack. */
static void read_returned(lua_State *L, cdz_returned *row, answer *a)
{
    push_field(L, "row");
    row->row = cdz_lua_check_row(L, -1, cdz_n_rows(cdz_lua_decoder(L)));
    lua_pop(L, 1);
    push_field(L, "ids");
    const cdz_ids ids = cdz_lua_check_ids(L, lua_gettop(L));
    if (ids.len > 0) memcpy(a->ids, ids.at, ids.len * sizeof *a->ids);
    row->ids = (cdz_ids){a->ids, ids.len};
    a->ids += ids.len;
    lua_pop(L, 1);
    push_field(L, "n_new");
    const lua_Integer n_new = luaL_optinteger(L, -1, ids.len);
    if (n_new < 0 || n_new > ids.len)
        luaL_error(L, "return_rows: n_new is %I of %I ids", n_new, (lua_Integer)ids.len);
    row->n_new = (uint32_t)n_new;
    lua_pop(L, 1);
    read_reason(L, row);
    if (push_field(L, "scores") == LUA_TTABLE) read_scores(L, row, &a->scores);
    lua_pop(L, 1);
}

/* ctx:return_rows({{row =, ids =, n_new =, reason =, scores =}, ...}): these are the answer, in place of the rows. ids come
 * after the prompt; n_new of them (all, unless given) are new tokens; scores are what token_scores said of each. */
static int verb_return_rows(lua_State *L)
{
    const uint32_t n_rows = cdz_n_rows(cdz_lua_decoder(L));

    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    const size_t n = lua_rawlen(L, 2);
    if (n < 1 || n > n_rows)
        return luaL_error(L, "return_rows: %I sequences; from 1 to %I", (lua_Integer)n,
                          (lua_Integer)n_rows);
    answer a = make_answer(L, (uint32_t)n);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        read_returned(L, &a.rows[i], &a);
        lua_pop(L, 1);
    }
    cdz_lua_try(L, cdz_return_rows(cdz_lua_decoder(L), a.rows, a.n));
    return 0;
}

const luaL_Reg cdz_lua_search_verbs[] = {{"extend_rows", verb_extend_rows},
                                         {"softmax_flat", verb_softmax_flat},
                                         {"token_scores", verb_token_scores},
                                         {"return_rows", verb_return_rows},
                                         {NULL, NULL}};
