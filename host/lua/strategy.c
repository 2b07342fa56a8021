/* strategy.c - the bridge between a fibre and a script's coroutine.
 *
 * The script runs in a coroutine. A verb that may suspend, or that may run other plugins, makes it yield: the coroutine's
 * C frames are gone when the bridge calls the decoder, so a suspended fibre holds no frame of Lua, and a processor of the
 * same script meets no half-run state. What only looks or computes is called directly. */
#include <stdio.h>
#include <string.h>

#include "lua/decoder.h"

#define DECODER "cadenza.decoder"
#define VERB_COST                                                                                  \
    1000 /* instructions: a turn of the engine's, so that no loop of verbs is for ever */

/* --- verbs --------------------------------------------------------------------------------------------------- */

cdz_decoder *cdz_lua_decoder(lua_State *L)
{
    cdz_decoder *dec = cdz_lua_of(L)->dec;

    if (!dec) luaL_error(L, "ctx works inside a strategy's run only, and not in its on_hidden");
    return dec;
}

void cdz_lua_try(lua_State *L, cdz_status status)
{
    if (status != CDZ_OK) cdz_lua_host_failed(L, status);
}

cdz_lua_verb *cdz_lua_push_verb(lua_State *L, uint32_t n, size_t n_ids)
{
    const size_t each = sizeof(cdz_seq *) + sizeof(cdz_ids) + sizeof(cdz_stop) + sizeof(uint32_t);
    const size_t bytes = sizeof(cdz_lua_verb) + n * each + (n + n_ids) * sizeof(int32_t);
    char *at = lua_newuserdatauv(L, bytes, 0);
    cdz_lua_verb *v = (void *)at;

    memset(at, 0, bytes);
    at += sizeof *v;
    v->seqs = (void *)at;
    at += n * sizeof *v->seqs;
    v->ids = (void *)at;
    at += n * sizeof *v->ids;
    v->stops = (void *)at;
    at += n * sizeof *v->stops;
    v->rows = (void *)at;
    at += n * sizeof *v->rows;
    v->tokens = (void *)at;
    v->n = n;
    return v;
}

static int verb_resumed(lua_State *L, int status, lua_KContext at)
{
    cdz_lua_verb *v = lua_touserdata(L, (int)at);

    (void)status;
    cdz_lua_try(L, v->status);
    return v->done ? v->done(L, v) : 0;
}

int cdz_lua_run_verb(lua_State *L, cdz_lua_verb *verb)
{
    cdz_lua_charge(L, VERB_COST);
    (void)cdz_lua_decoder(L); /* not in on_hidden: another verb is under way */
    if (!lua_isyieldable(L)) return luaL_error(L, CDZ_LUA_NO_VERB_HERE);
    cdz_lua_of(L)->verb = verb;
    return lua_yieldk(L, 0, lua_gettop(L), verb_resumed);
}

/* --- arguments ------------------------------------------------------------------------------------------------- */

cdz_lua_batch *cdz_lua_check_scores(lua_State *L, int index)
{
    cdz_lua_batch *b = cdz_lua_check_batch(L, index);

    if (!b->decoder) luaL_error(L, "these scores are not the decoder's");
    return b;
}

uint32_t cdz_lua_check_row(lua_State *L, int index, uint32_t n_rows)
{
    const lua_Integer r = luaL_checkinteger(L, index);

    if (r < 1 || r > (lua_Integer)n_rows)
        luaL_error(L, "row %I is outside 1 to %I", r, (lua_Integer)n_rows);
    return (uint32_t)(r - 1);
}

uint32_t cdz_lua_opt_row(lua_State *L, int index)
{
    const uint32_t n = cdz_n_rows(cdz_lua_decoder(L));

    if (lua_isnoneornil(L, index) && n == 1) return 0;
    return cdz_lua_check_row(L, index, n);
}

int32_t cdz_lua_check_token(lua_State *L, int index)
{
    const lua_Integer id = luaL_checkinteger(L, index);
    const lua_Integer n = cdz_lua_of(L)->step->request->n_vocab;

    if (id < 0 || id >= n) luaL_error(L, "token %I is outside 0 to %I", id, n - 1);
    return (int32_t)id;
}

void cdz_lua_push_tokens(lua_State *L, const int32_t *tokens, uint32_t n)
{
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_pushinteger(L, tokens[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* --- ctx ------------------------------------------------------------------------------------------------------- */

static int decoder_index(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";

    if (strcmp(name, "params") == 0)
        cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    else if (strcmp(name, "rng") == 0) {
        lua_newuserdatauv(L, 0, 0);
        luaL_setmetatable(L, CDZ_LUA_RNG);
    } else if (!cdz_lua_push_request_field(L, name)) {
        const char *near = cdz_lua_suggest_method(L);
        return luaL_error(L, "ctx has no field or verb '%s'%s", cdz_lua_text(L, 2, NULL), near);
    }
    return 1;
}

void cdz_lua_push_decoder_ctx(lua_State *L)
{
    static const luaL_Reg meta[] = {{NULL, NULL}};

    cdz_lua_open_seq(L);
    cdz_lua_define_type(L, DECODER, cdz_lua_row_verbs, meta, decoder_index);
    luaL_getmetatable(L, DECODER);
    lua_getfield(L, -1, "__index");
    lua_getupvalue(L, -1, 1);
    luaL_setfuncs(L, cdz_lua_score_verbs, 0);
    luaL_setfuncs(L, cdz_lua_seq_verbs, 0);
    luaL_setfuncs(L, cdz_lua_end_verbs, 0);
    luaL_setfuncs(L, cdz_lua_search_verbs, 0);
    luaL_setfuncs(L, cdz_lua_draft_verbs, 0);
    luaL_setfuncs(L, cdz_lua_hidden_verbs, 0);
    luaL_setfuncs(L, cdz_lua_outside_verbs, 0);
    luaL_setfuncs(L, cdz_lua_insert_verbs, 0);
    luaL_setfuncs(L, cdz_lua_branch_verbs, 0);
    luaL_setfuncs(L, cdz_lua_cache_verbs, 0);
    cdz_lua_add_request_methods(L);
    lua_pop(L, 3);
    lua_newuserdatauv(L, 0, 0);
    luaL_setmetatable(L, DECODER);
}

/* --- the bridge ------------------------------------------------------------------------------------------------- */

/* [protected] The coroutine, ready to start; kept alive in the slot of what accept would be. */
static int prepare(lua_State *L)
{
    lua_State **out = lua_touserdata(L, 1);
    lua_State *co = lua_newthread(L);

    cdz_lua_set(L, CDZ_LUA_SLOT_ACCEPT);
    cdz_lua_get(L, CDZ_LUA_SLOT_CALL);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    lua_xmove(L, co, 2);
    *out = co;
    return 0;
}

static void run_pending(cdz_lua_session *S)
{
    cdz_lua_verb *v = S->verb;

    S->verb = NULL;
    S->scores_clock += v->moves_scores;
    S->pass_clock += v->moves_passes;
    S->ids_clock += v->moves_ids;
    v->status = v->run(S->dec, v);
}

cdz_status cdz_lua_bridge(cdz_lua_session *S, const cdz_step *step, lua_State *co, int n_args)
{
    for (;; n_args = 0) {
        int n_results = 0;
        cdz_lua_slice_begin(S, step, 1);
        const int rc = lua_resume(co, S->L, n_args, &n_results);
        if (rc == LUA_YIELD && !S->verb)
            snprintf(S->error, sizeof S->error, "%s: coroutine.yield outside a coroutine of its own",
                     cdz_lua_module_name(S->module));
        CDZ_TRY(cdz_lua_slice_end(S, co, rc == LUA_YIELD && !S->verb ? LUA_ERRRUN : rc));
        if (rc != LUA_YIELD) return CDZ_OK;
        run_pending(S);
    }
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    cdz_lua_session *S = NULL;
    lua_State *co = NULL;

    CDZ_TRY(cdz_lua_start(cdz_lua_def_of(step), step, &S));
    S->dec = dec;
    cdz_status st = cdz_lua_enter(S, step, 1, prepare, &co);
    if (st == CDZ_OK) st = cdz_lua_bridge(S, step, co, 1);
    st = cdz_lua_report(S, step, st);
    S->dec = NULL;
    cdz_lua_close(S);
    return st;
}

const cdz_strategy cdz_lua_strategy = {
    .base = {CDZ_STRATEGY_BASE},
    .create = cdz_lua_create,
    .run = run,
};
