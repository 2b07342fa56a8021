/* verbs_rows.c - a strategy's verbs on the request's rows: forward, process, append, rewind, reorder. Rows count from 1;
 * a script of one row may leave the row out. */
#include <string.h>

#include "lua/decoder.h"

static int verb_input_ids(lua_State *L)
{
    const uint32_t row = cdz_lua_opt_row(L, 2);

    cdz_lua_push_ids_view(L, cdz_input_ids(cdz_lua_decoder(L), row));
    return 1;
}

/* ctx:done(): all rows; ctx:done(r) one. */
static int verb_done(lua_State *L)
{
    cdz_decoder *dec = cdz_lua_decoder(L);

    if (lua_isnoneornil(L, 2))
        lua_pushboolean(L, cdz_done(dec));
    else
        lua_pushboolean(L, cdz_row_done(dec, cdz_lua_opt_row(L, 2)));
    return 1;
}

static int verb_row_done(lua_State *L)
{
    const uint32_t row = cdz_lua_opt_row(L, 2);

    lua_pushboolean(L, cdz_row_done(cdz_lua_decoder(L), row));
    return 1;
}

/* --- forward and process ----------------------------------------------------------------------------------------- */

static cdz_status run_forward(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_forward(dec, &v->out);
}

static int push_out(lua_State *L, cdz_lua_verb *v)
{
    cdz_lua_push_batch(L, &v->out, true);
    return 1;
}

/* ctx:forward(): one row of scores for every row of the request. */
static int verb_forward(lua_State *L)
{
    cdz_lua_decoder(L);
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_forward;
    v->done = push_out;
    v->moves_scores = true;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_process(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_process(dec, v->scores);
}

static int return_scores(lua_State *L, cdz_lua_verb *v)
{
    (void)v;
    lua_settop(L, 2);
    return 1;
}

/* ctx:process(scores): in place; returns them. */
static int verb_process(lua_State *L)
{
    cdz_lua_decoder(L);
    cdz_scores *scores = &cdz_lua_check_scores(L, 2)->scores;
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_process;
    v->done = return_scores;
    v->scores = scores;
    return cdz_lua_run_verb(L, v);
}

/* --- append ------------------------------------------------------------------------------------------------------- */

static cdz_status run_append(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_append(dec, v->row, v->token);
}

static cdz_status run_append_rows(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_append_rows(dec, v->tokens);
}

/* The table shows what was really appended: pads in rows that are done. */
static int return_tokens(lua_State *L, cdz_lua_verb *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        lua_pushinteger(L, v->tokens[i]);
        lua_rawseti(L, 2, (lua_Integer)i + 1);
    }
    lua_settop(L, 2);
    return 1;
}

static int verb_append_rows(lua_State *L)
{
    const uint32_t n = cdz_n_rows(cdz_lua_decoder(L));

    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    if (lua_rawlen(L, 2) != n)
        return luaL_error(L, "%I tokens for %I rows", (lua_Integer)lua_rawlen(L, 2), (lua_Integer)n);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        v->tokens[i] = cdz_lua_check_token(L, -1);
        lua_pop(L, 1);
    }
    v->run = run_append_rows;
    v->done = return_tokens;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

static bool is_whole(lua_State *L, int index)
{
    int ok;

    (void)lua_tointegerx(L, index, &ok);
    return ok;
}

/* A row that ended takes no more, where an end-of-sequence rule fills it up with pads. */
static void check_running(lua_State *L, const char *verb, uint32_t row)
{
    const cdz_request_info *request = cdz_lua_of(L)->step->request;

    if (request->eos.len && cdz_row_done(cdz_lua_decoder(L), row))
        luaL_error(L, "%s: row %I has ended", verb, (lua_Integer)row + 1);
}

/* ctx:append(tokens) for all rows, ctx:append(row, token), ctx:append(token) with one row. */
static int verb_append(lua_State *L)
{
    if (lua_istable(L, 2)) return verb_append_rows(L);
    const bool named = !lua_isnoneornil(L, 3);
    if (!lua_isnone(L, 4) || (lua_type(L, 3) == LUA_TNUMBER && !is_whole(L, 3)))
        return luaL_error(L, "append(row, token): did you pass all of argmax's answers? put it in "
                             "( ): ctx:append((ctx:argmax(scores, 1)))");
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    const int32_t token = cdz_lua_check_token(L, named ? 3 : 2);
    check_running(L, "append", row);
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_append;
    v->row = row;
    v->token = token;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

/* --- rewind and reorder ------------------------------------------------------------------------------------------- */

static int verb_rewindable(lua_State *L)
{
    const uint32_t row = cdz_lua_opt_row(L, 2);

    lua_pushinteger(L, cdz_rewindable(cdz_lua_decoder(L), row));
    return 1;
}

static cdz_status run_rewind(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_rewind(dec, v->row, v->n);
}

/* ctx:rewind(row, n), ctx:rewind(n) with one row */
static int verb_rewind(lua_State *L)
{
    const bool named = !lua_isnoneornil(L, 3);
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    const lua_Integer n = luaL_checkinteger(L, named ? 3 : 2);
    const lua_Integer most = cdz_rewindable(cdz_lua_decoder(L), row);

    const cdz_strategy *own = (const void *)cdz_lua_of(L)->step->plugin;
    if (!(own->caps & (CDZ_REWINDS | CDZ_BEAMS)))
        return luaL_error(L, "rewind: the strategy does not declare rewinds = true (CDZ_REWINDS)");
    if (n < 0 || n > most) return luaL_error(L, "rewind by %I: only %I can be taken back", n, most);
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_rewind;
    v->row = row;
    v->n = (uint32_t)n;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_reorder(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_reorder(dec, v->rows);
}

/* ctx:reorder(parents): row r becomes a copy of row parents[r]. */
static int verb_reorder(lua_State *L)
{
    const uint32_t n = cdz_n_rows(cdz_lua_decoder(L));

    luaL_checktype(L, 2, LUA_TTABLE);
    if (lua_rawlen(L, 2) != n)
        return luaL_error(L, "%I parents for %I rows", (lua_Integer)lua_rawlen(L, 2),
                          (lua_Integer)n);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        v->rows[i] = cdz_lua_check_row(L, -1, n);
        lua_pop(L, 1);
    }
    v->run = run_reorder;
    v->moves_ids = true;
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_row_verbs[] = {{"input_ids", verb_input_ids},
                                      {"done", verb_done},
                                      {"row_done", verb_row_done},
                                      {"forward", verb_forward},
                                      {"process", verb_process},
                                      {"append", verb_append},
                                      {"append_rows", verb_append_rows},
                                      {"rewindable", verb_rewindable},
                                      {"rewind", verb_rewind},
                                      {"reorder", verb_reorder},
                                      {NULL, NULL}};
