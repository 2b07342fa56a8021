/* verbs_end.c - how a strategy ends rows, and facts of the request's course. */
#include <string.h>

#include "lua/decoder.h"

/* ctx:finish(row, reason), ctx:finish(reason) with one row: "eos", "length", "time", "string" or a reason of its own. */
static int verb_finish(lua_State *L)
{
    const bool named = !lua_isnoneornil(L, 3);
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    size_t len;
    const char *reason = luaL_checklstring(L, named ? 3 : 2, &len);
    const char *text = cdz_lua_module_reason(cdz_lua_of(L)->module, reason, len);

    cdz_lua_try(L, cdz_finish(cdz_lua_decoder(L), row, cdz_lua_stop_reason(text), text));
    return 0;
}

/* ctx:record("scores" or "logits", scores) */
static int verb_record(lua_State *L)
{
    static const char *const names[] = {"logits", "scores", NULL};
    const cdz_record_kind what = (cdz_record_kind)luaL_checkoption(L, 2, NULL, names);
    const cdz_scores *s = &cdz_lua_check_scores(L, 3)->scores;

    cdz_lua_charge_elements(L, (size_t)s->n_rows * s->n_vocab);
    cdz_lua_try(L, cdz_record(cdz_lua_decoder(L), what, s));
    return 0;
}

/* --- facts ---------------------------------------------------------------------------------------------------------- */

static int verb_cancelled(lua_State *L)
{
    lua_pushboolean(L, cdz_cancelled(cdz_lua_decoder(L)));
    return 1;
}

/* ctx:deadline_s(): the monotonic second at which the request ends; nil when it has no deadline. */
static int verb_deadline_s(lua_State *L)
{
    const double s = cdz_deadline_s(cdz_lua_decoder(L));

    if (s > 0)
        lua_pushnumber(L, s);
    else
        lua_pushnil(L);
    return 1;
}

/* ctx:vocab_size([model]): nil when the request has no such model. */
static int verb_vocab_size(lua_State *L)
{
    const uint32_t n = cdz_vocab_size(cdz_lua_decoder(L), luaL_optstring(L, 2, NULL));

    if (n > 0)
        lua_pushinteger(L, n);
    else
        lua_pushnil(L);
    return 1;
}

/* ctx:n_values([model]): 0 where it has no head for values, or is not there. */
static int verb_n_values(lua_State *L)
{
    lua_pushinteger(L, cdz_n_values(cdz_lua_decoder(L), luaL_optstring(L, 2, NULL)));
    return 1;
}

/* ctx:value_label(i [, model]): nil where it has no such value, or that no name. */
static int verb_value_label(lua_State *L)
{
    const lua_Integer i = luaL_checkinteger(L, 2);
    const char *model = luaL_optstring(L, 3, NULL);
    const bool counts = i >= 1 && i <= UINT32_MAX;
    const cdz_string label = counts ? cdz_value_label(cdz_lua_decoder(L), model, (uint32_t)(i - 1))
                                    : (cdz_string){NULL, 0};

    if (label.at)
        lua_pushlstring(L, label.at, label.len);
    else
        lua_pushnil(L);
    return 1;
}

const luaL_Reg cdz_lua_end_verbs[] = {
    {"finish", verb_finish},           {"record", verb_record},
    {"result", cdz_lua_result},        {"put_result", cdz_lua_result},
    {"cancelled", verb_cancelled},     {"deadline_s", verb_deadline_s},
    {"vocab_size", verb_vocab_size},   {"n_values", verb_n_values},
    {"value_label", verb_value_label}, {NULL, NULL}};
