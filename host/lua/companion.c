/* companion.c - processors in Lua that ask the model: `companion` says what a sequence beside each row begins with, and
 * ctx:companion_logits() gives, in apply, what the model expects after it (cadenza/ext/companion.h). */
#include <string.h>

#include "cadenza/ext/companion.h"
#include "cadenza/ext/state.h"
#include "lua/script.h"
#include "lua/types.h"

typedef struct call {
    const cdz_step *step;
    uint32_t row;
    cdz_companion *out;
} call;

/* Request-lifetime memory, or a Lua error. */
static void *keep(lua_State *L, const cdz_step *step, size_t bytes)
{
    void *memory = cdz_alloc(step, bytes + 1);
    if (!memory) luaL_error(L, "out of memory");
    return memory;
}

/* prefix = ids, of the companion at the stack's top. */
static void read_prefix(lua_State *L, const call *c)
{
    if (cdz_lua_field(L, -1, "prefix") != LUA_TNIL) {
        const cdz_ids ids = cdz_lua_check_ids(L, -1);
        int32_t *own = keep(L, c->step, ids.len * sizeof *own);
        if (ids.len) memcpy(own, ids.at, ids.len * sizeof *own);
        c->out->prefix = (cdz_ids){own, ids.len};
    }
    lua_pop(L, 1);
}

/* mask = { 0 or 1, ... }, as long as the prefix. */
static void read_mask(lua_State *L, const call *c)
{
    const uint32_t n = c->out->prefix.len;
    if (cdz_lua_field(L, -1, "mask") != LUA_TNIL) {
        const cdz_ids bits = cdz_lua_check_ids(L, -1);
        if (bits.len != n)
            luaL_error(L, "companion: a mask of %d for a prefix of %d ids", (int)bits.len, (int)n);
        uint8_t *own = keep(L, c->step, n);
        for (uint32_t i = 0; i < n; i++) own[i] = bits.at[i] != 0;
        c->out->mask = own;
    }
    lua_pop(L, 1);
}

static void read_companion(lua_State *L, const call *c)
{
    if (!lua_istable(L, -1))
        luaL_error(L, "companion returned a %s, expected a table or nothing", luaL_typename(L, -1));
    cdz_lua_unwrap(L, lua_gettop(L));
    read_prefix(L, c);
    read_mask(L, c);
    const int type = cdz_lua_field(L, -1, "from");
    const lua_Integer from = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
    if (type != LUA_TNIL && (from < 0 || from > (lua_Integer)UINT32_MAX))
        luaL_error(L, "companion: from must be an integer from 0");
    c->out->from = type == LUA_TNIL ? c->step->request->prompt_len : (uint32_t)from;
    cdz_lua_field(L, -2, "stays");
    c->out->stays = lua_toboolean(L, -1);
    lua_pop(L, 2);
}

/* companion(p, row, ctx) */
static int call_companion(lua_State *L)
{
    const call *c = lua_touserdata(L, 1);

    cdz_lua_get(L, CDZ_LUA_SLOT_DEF);
    lua_getfield(L, -1, "companion");
    cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    lua_pushinteger(L, (lua_Integer)c->row + 1);
    cdz_lua_get(L, CDZ_LUA_SLOT_CTX);
    cdz_lua_of(L)->in_begin = true; /* text may be encoded */
    lua_call(L, 3, 1);
    if (lua_toboolean(L, -1))
        read_companion(L, c);
    else
        c->out->none = true;
    return 0;
}

static cdz_status describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    cdz_lua_session *S = step->shared;
    call c = {.step = step, .row = row, .out = out};

    return cdz_lua_report(S, step, cdz_lua_enter(S, step, 1, call_companion, &c));
}

const void *cdz_lua_companion_extension(const char *id)
{
    static const cdz_companion_api api = {.size = sizeof api, .describe = describe};

    return cdz_is_companion(id) ? &api : NULL;
}

/* ctx:companion_logits([row]): the raw logits of the row's companion, to be read; nil when it has none. row: of a batch. */
int cdz_lua_companion_logits(lua_State *L)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    const cdz_step *step = S->step;

    if (!step || S->kind != CDZ_KIND_PROCESSOR || !cdz_lua_def_of(step)->has_companion)
        return luaL_error(L, "ctx:companion_logits works in apply of a processor with `companion`");
    const lua_Integer row = luaL_optinteger(L, 2, S->row_set ? (lua_Integer)S->row + 1 : 0);
    luaL_argcheck(L, row >= 1 && row <= step->n_rows, 2, "is no row of this call");
    const float *logits = cdz_companion_logits(step, (uint32_t)row - 1);
    if (!logits) return 0;
    float *data;
    memcpy(&data, &logits, sizeof data); /* of_state keeps the script from writing it */
    cdz_lua_push_view(L, data, step->request->n_vocab)->of_state = true;
    return 1;
}
