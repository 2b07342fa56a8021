/* verbs_draft.c - a strategy's verbs on drafts, and on histories that are no rows. */
#include <string.h>

#include "lua/decoder.h"

enum { MOST_IDS = 64 }; /* plugin ids in one list of pipeline_derive */

/* --- sequences and selections ------------------------------------------------------------------------------------ */

/* ctx:seq_new_exit(model, n_layers) */
static int verb_seq_new_exit(lua_State *L)
{
    const char *model = luaL_optstring(L, 2, NULL);
    const lua_Integer n = luaL_checkinteger(L, 3);

    luaL_argcheck(L, n >= 1 && n <= INT32_MAX, 3, "must be 1 or more");
    cdz_decoder *dec = cdz_lua_decoder(L);
    cdz_seq **seq = cdz_lua_push_seq(L);
    cdz_lua_charge(L, 20);
    cdz_lua_try(L, cdz_seq_new_exit(dec, model, (uint32_t)n, seq));
    return 1;
}

/* The strings of the list at index, which keeps them alive. */
static uint32_t read_names(lua_State *L, int index, const char **names)
{
    if (lua_isnoneornil(L, index)) return 0;
    luaL_checktype(L, index, LUA_TTABLE);
    const size_t n = lua_rawlen(L, index);
    if (n > MOST_IDS) luaL_error(L, "%I plugin ids; at most 64", (lua_Integer)n);
    for (size_t i = 0; i < n; i++) {
        if (lua_rawgeti(L, index, (lua_Integer)i + 1) != LUA_TSTRING)
            luaL_error(L, "pipeline_derive takes lists of plugin ids");
        names[i] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    return (uint32_t)n;
}

/* ctx:pipeline_derive(exclude, append) */
static int verb_pipeline_derive(lua_State *L)
{
    const char *exclude[MOST_IDS], *append[MOST_IDS];
    uint32_t out = 0;

    lua_settop(L, 3);
    const uint32_t n_exclude = read_names(L, 2, exclude), n_append = read_names(L, 3, append);
    cdz_lua_charge(L, 20);
    cdz_lua_try(
        L, cdz_pipeline_derive(cdz_lua_decoder(L), exclude, n_exclude, append, n_append, &out));
    lua_pushinteger(L, out);
    return 1;
}

static cdz_status run_process_ids(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_process_ids(dec, v->row, v->ids, v->rows, v->n, v->scores);
}

static int return_scores(lua_State *L, cdz_lua_verb *v)
{
    (void)v;
    lua_settop(L, 5);
    return 1;
}

/* ctx:process_ids(pipeline, {ids, ...}, rows, scores) */
static int verb_process_ids(lua_State *L)
{
    uint32_t n;

    cdz_lua_decoder(L);
    lua_settop(L, 5);
    const lua_Integer pipeline = luaL_checkinteger(L, 2);
    luaL_argcheck(L, pipeline >= 0 && pipeline <= INT32_MAX, 2, "is no pipeline");
    cdz_scores *scores = &cdz_lua_check_scores(L, 5)->scores;
    const size_t total = cdz_lua_total_ids(L, 3, &n);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, total);
    cdz_lua_read_id_lists(L, 3, v);
    cdz_lua_read_rows(L, 4, v);
    v->run = run_process_ids;
    v->done = return_scores;
    v->row = (uint32_t)pipeline;
    v->scores = scores;
    return cdz_lua_run_verb(L, v);
}

/* --- chunks -------------------------------------------------------------------------------------------------------- */

/* Scores at index, or NULL for nothing; the argument keeps them alive. */
static cdz_scores *opt_scores(lua_State *L, int index)
{
    return lua_isnoneornil(L, index) ? NULL : &cdz_lua_check_scores(L, index)->scores;
}

static cdz_status run_append_chunk(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_append_chunk(dec, v->row, v->tokens, v->n, v->extra, v->scores, &v->rows[0]);
}

static int push_taken(lua_State *L, cdz_lua_verb *v)
{
    lua_pushinteger(L, v->rows[0]);
    return 1;
}

/* ctx:append_chunk(row, tokens [, logits [, scores]]) */
static int verb_append_chunk(lua_State *L)
{
    const uint32_t row = cdz_lua_opt_row(L, 2);

    lua_settop(L, 5);
    const cdz_ids tokens = cdz_lua_check_ids(L, 3);
    if (tokens.len < 1) return luaL_error(L, "append_chunk: no tokens");
    if (cdz_row_done(cdz_lua_decoder(L), row))
        return luaL_error(L, "append_chunk: row %I has ended", (lua_Integer)row + 1);
    cdz_scores *logits = opt_scores(L, 4), *scores = opt_scores(L, 5);
    cdz_lua_verb *v = cdz_lua_push_verb(L, tokens.len, 0);
    memcpy(v->tokens, tokens.at, tokens.len * sizeof *v->tokens);
    v->run = run_append_chunk;
    v->done = push_taken;
    v->row = row;
    v->extra = logits;
    v->scores = scores;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

/* --- drafts -------------------------------------------------------------------------------------------------------- */

static int verb_has_drafter(lua_State *L)
{
    lua_pushboolean(L, cdz_has_drafter(cdz_lua_decoder(L)));
    return 1;
}

/* What the pipeline's drafter declares, by the names of its caps; false where there is none. */
static int verb_drafter_caps(lua_State *L)
{
    cdz_lua_push_caps(L, CDZ_KIND_DRAFTER, cdz_drafter_caps(cdz_lua_decoder(L)));
    return 1;
}

/* The draft's tokens stay with the host until the next one. */
static cdz_status run_propose(cdz_decoder *dec, cdz_lua_verb *v)
{
    cdz_draft draft;
    const cdz_status st = cdz_propose(dec, v->row, &draft);
    if (st != CDZ_OK) return st;
    v->ids[0] = draft.tokens;
    v->out = draft.scores;
    return CDZ_OK;
}

static int push_draft(lua_State *L, cdz_lua_verb *v)
{
    cdz_lua_push_tokens(L, v->ids[0].at, v->ids[0].len);
    if (v->out.id == 0 || v->ids[0].len == 0) return 1;
    cdz_lua_push_pass(L, &v->out);
    return 2;
}

/* ctx:propose([row]): the tokens, and the scores they were drawn from */
static int verb_propose(lua_State *L)
{
    const uint32_t row = cdz_lua_opt_row(L, 2);
    cdz_lua_verb *v = cdz_lua_push_verb(L, 1, 0);

    v->run = run_propose;
    v->done = push_draft;
    v->row = row;
    v->moves_passes = true;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_judged(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_judged(dec, v->row, v->n);
}

/* ctx:judged(row, n), ctx:judged(n) with one row */
static int verb_judged(lua_State *L)
{
    const bool named = !lua_isnoneornil(L, 3);
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    const lua_Integer n = luaL_checkinteger(L, named ? 3 : 2);

    luaL_argcheck(L, n >= 0 && n <= INT32_MAX, named ? 3 : 2, "must be 0 or more");
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_judged;
    v->row = row;
    v->n = (uint32_t)n;
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_draft_verbs[] = {{"seq_new_exit", verb_seq_new_exit},
                                        {"pipeline_derive", verb_pipeline_derive},
                                        {"process_ids", verb_process_ids},
                                        {"append_chunk", verb_append_chunk},
                                        {"has_drafter", verb_has_drafter},
                                        {"drafter_caps", verb_drafter_caps},
                                        {"propose", verb_propose},
                                        {"judged", verb_judged},
                                        {NULL, NULL}};
