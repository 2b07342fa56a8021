/* verbs_branches.c - a strategy's verbs on many branches of a search at once. */
#include <string.h>

#include "lua/decoder.h"

static void *push_room(lua_State *L, size_t n, size_t bytes)
{
    void *room = lua_newuserdatauv(L, n * bytes, 0);
    memset(room, 0, n * bytes);
    return room;
}

/* --- seq_score ------------------------------------------------------------------------------------------------------ */

static cdz_status run_seq_score(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_seq_score(dec, v->seqs, v->n, v->row, v->extra);
}

static int push_numbers(lua_State *L, cdz_lua_verb *v)
{
    const float *x = v->extra;
    lua_createtable(L, (int)v->n, 0);
    for (uint32_t i = 0; i < v->n; i++) {
        lua_pushnumber(L, (double)x[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ctx:seq_score(sequences, last) */
static int verb_seq_score(lua_State *L)
{
    const lua_Integer last = luaL_checkinteger(L, 3);

    cdz_lua_decoder(L);
    luaL_argcheck(L, last >= 1 && last <= INT32_MAX, 3, "must be 1 or more");
    const uint32_t n = cdz_lua_count_seqs(L, 2);
    float *out = push_room(L, n, sizeof *out);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    cdz_lua_read_seqs(L, 2, v);
    v->row = (uint32_t)last;
    v->extra = out;
    v->run = run_seq_score;
    v->done = push_numbers;
    v->moves_passes = true;
    return cdz_lua_run_verb(L, v);
}

/* --- seq_value ------------------------------------------------------------------------------------------------------ */

static cdz_status run_seq_value(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_seq_value(dec, v->seqs, v->n, v->row, v->extra);
}

/* A list of values for each sequence. */
static int push_values(lua_State *L, cdz_lua_verb *v)
{
    const float *x = v->extra;
    lua_createtable(L, (int)v->n, 0);
    for (uint32_t i = 0; i < v->n; i++) {
        lua_createtable(L, (int)v->row, 0);
        for (uint32_t k = 0; k < v->row; k++) {
            lua_pushnumber(L, (double)*x++);
            lua_rawseti(L, -2, (lua_Integer)k + 1);
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ctx:seq_value(sequences) */
static int verb_seq_value(lua_State *L)
{
    cdz_lua_decoder(L);
    const uint32_t n = cdz_lua_count_seqs(L, 2), n_values = cdz_lua_seq_values(L, 2);
    float *out = push_room(L, (size_t)n + 1, n_values * sizeof *out);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    cdz_lua_read_seqs(L, 2, v);
    v->row = n_values;
    v->extra = out;
    v->run = run_seq_value;
    v->done = push_values;
    v->moves_passes = true;
    cdz_lua_charge_elements(L, (size_t)n * n_values);
    return cdz_lua_run_verb(L, v);
}

/* --- seq_append_forward --------------------------------------------------------------------------------------------- */

static cdz_status run_append_forward(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_seq_append_forward(dec, v->seqs, v->tokens, v->n, &v->out);
}

static int push_pass(lua_State *L, cdz_lua_verb *v)
{
    cdz_lua_push_pass(L, &v->out);
    return 1;
}

/* ctx:seq_append_forward(sequences, tokens) */
static int verb_append_forward(lua_State *L)
{
    cdz_lua_decoder(L);
    lua_settop(L, 3);
    const uint32_t n = cdz_lua_count_seqs(L, 2);
    const cdz_ids ids = cdz_lua_check_ids(L, 3);
    if (ids.len != n)
        return luaL_error(L, "%I tokens for %I sequences", (lua_Integer)ids.len, (lua_Integer)n);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    memcpy(v->tokens, ids.at, n * sizeof *v->tokens);
    cdz_lua_read_seqs(L, 2, v);
    v->run = run_append_forward;
    v->done = push_pass;
    v->moves_passes = v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

/* --- rollouts ------------------------------------------------------------------------------------------------------- */

static cdz_status run_rollouts(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_rollouts(dec, v->seqs, v->rows, v->n, v->row, v->token, v->extra);
}

static int push_rollouts(lua_State *L, cdz_lua_verb *v)
{
    const cdz_rollout *all = v->extra;
    lua_createtable(L, (int)v->n, 0);
    for (uint32_t i = 0; i < v->n; i++) {
        lua_createtable(L, 0, 3);
        lua_pushinteger(L, all[i].n_new);
        lua_setfield(L, -2, "n_new");
        lua_pushnumber(L, (double)all[i].logprob);
        lua_setfield(L, -2, "logprob");
        cdz_lua_push_stop(L, &all[i].stop);
        lua_setfield(L, -2, "stop");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* ctx:rollouts(sequences, most [, {rows =, greedy =}]) */
static int verb_rollouts(lua_State *L)
{
    static const char *const options[] = {"rows", "greedy"};
    const lua_Integer most = luaL_checkinteger(L, 3);

    cdz_lua_decoder(L);
    luaL_argcheck(L, most >= 0 && most <= INT32_MAX, 3, "must be 0 or more");
    lua_settop(L, 4);
    if (lua_isnil(L, 4)) {
        lua_newtable(L);
        lua_replace(L, 4);
    }
    luaL_checktype(L, 4, LUA_TTABLE);
    cdz_lua_check_keys(L, 4, options, sizeof options / sizeof *options, false,
                       "rollouts: no option");
    cdz_lua_field(L, 4, "rows");
    cdz_lua_field(L, 4, "greedy");
    const uint32_t n = cdz_lua_count_seqs(L, 2);
    cdz_rollout *out = push_room(L, n, sizeof *out);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    cdz_lua_read_seqs(L, 2, v);
    cdz_lua_read_rows(L, 5, v);
    v->row = (uint32_t)most;
    v->token = !lua_toboolean(L, 6);
    v->extra = out;
    v->run = run_rollouts;
    v->done = push_rollouts;
    v->moves_passes = v->moves_ids = true;
    cdz_lua_charge(L, 1000 * most / 8);
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_branch_verbs[] = {{"seq_score", verb_seq_score},
                                         {"seq_value", verb_seq_value},
                                         {"seq_append_forward", verb_append_forward},
                                         {"rollouts", verb_rollouts},
                                         {NULL, NULL}};
