/* verbs_insert.c - a strategy's verbs on what stays in a row: text of others, and tokens that are not taken back. */
#include <string.h>

#include "lua/decoder.h"

typedef struct inserting {
    const char *who; /* a string on the coroutine's stack, or NULL */
    uint32_t flags;
} inserting;

static cdz_status run_insert(cdz_decoder *dec, cdz_lua_verb *v)
{
    const inserting *in = v->extra;
    return cdz_insert(dec, v->row, v->tokens, v->n, in->flags, in->who);
}

static int return_row_done(lua_State *L, cdz_lua_verb *v)
{
    lua_pushboolean(L, cdz_row_done(cdz_lua_decoder(L), v->row));
    return 1;
}

static uint32_t flag_of(lua_State *L, int index, const char *name, uint32_t flag)
{
    cdz_lua_field(L, index, name);
    const bool set = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return set ? flag : 0;
}

static inserting *read_options(lua_State *L, int index)
{
    static const char *const options[] = {"shown", "counts", "stops", "who"};
    inserting *in = lua_newuserdatauv(L, sizeof *in, 1);
    *in = (inserting){0};
    if (lua_isnoneornil(L, index)) return in;
    luaL_checktype(L, index, LUA_TTABLE);
    cdz_lua_check_keys(L, index, options, sizeof options / sizeof *options, false,
                       "insert: no option");
    in->flags = flag_of(L, index, "shown", CDZ_INSERT_SHOWN) |
                flag_of(L, index, "counts", CDZ_INSERT_COUNTS) |
                flag_of(L, index, "stops", CDZ_INSERT_STOPS);
    if (cdz_lua_field(L, index, "who") != LUA_TNIL) {
        size_t len;
        in->who = luaL_checklstring(L, -1, &len);
        if (strlen(in->who) != len) luaL_error(L, "insert: who without NUL bytes");
    }
    lua_setiuservalue(L, -2, 1); /* keeps the name */
    return in;
}

/* ctx:insert(row, ids [, {shown=, counts=, stops=, who=}]), without the row where there is one: has the row ended? */
static int verb_insert(lua_State *L)
{
    const bool named = lua_type(L, 2) == LUA_TNUMBER;
    const int at = named ? 3 : 2;
    const uint32_t row = named ? cdz_lua_opt_row(L, 2) : cdz_lua_opt_row(L, 5);

    lua_settop(L, at + 1);
    inserting *in = read_options(L, at + 1);
    const cdz_ids ids = cdz_lua_check_ids(L, at);
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, ids.len);
    if (ids.len) memcpy(v->tokens, ids.at, ids.len * sizeof *v->tokens);
    v->n = ids.len;
    v->row = row;
    v->extra = in;
    v->moves_ids = true;
    v->run = run_insert;
    v->done = return_row_done;
    cdz_lua_charge_elements(L, ids.len);
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_commit(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_commit(dec, v->row, v->n);
}

/* ctx:commit(row, n), ctx:commit(n) with one row */
static int verb_commit(lua_State *L)
{
    const bool named = !lua_isnoneornil(L, 3);
    const uint32_t row = cdz_lua_opt_row(L, named ? 2 : 3);
    const lua_Integer n = luaL_checkinteger(L, named ? 3 : 2);

    luaL_argcheck(L, n >= 0 && n <= INT32_MAX, named ? 3 : 2, "must be 0 or more");
    cdz_lua_verb *v = cdz_lua_push_verb(L, 0, 0);
    v->run = run_commit;
    v->row = row;
    v->n = (uint32_t)n;
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_insert_verbs[] = {
    {"insert", verb_insert}, {"commit", verb_commit}, {NULL, NULL}};
