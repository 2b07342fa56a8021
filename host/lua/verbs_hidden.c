/* verbs_hidden.c - a strategy's verbs on hidden states: what passes keep, the head on its own, facts of a model. All of it
 * is handed to the script as copies: the engine's own rooms are written anew by the next pass. */
#include <string.h>

#include "lua/decoder.h"

enum { MOST_LAYERS = 1024, MOST_ROWS = 4096 };

/* ctx:keep_hidden("last" or "all", {layer, ...}): layers count from 0, what enters the first; no layers: keep none. */
static int verb_keep_hidden(lua_State *L)
{
    static const char *const names[] = {"last", "all", NULL};
    static const cdz_positions positions[] = {CDZ_POSITIONS_LAST, CDZ_POSITIONS_ALL};
    uint32_t layers[MOST_LAYERS];
    const cdz_positions of = positions[luaL_checkoption(L, 2, NULL, names)];

    luaL_checktype(L, 3, LUA_TTABLE);
    const size_t n = lua_rawlen(L, 3);
    if (n > MOST_LAYERS)
        return luaL_error(L, "keep_hidden: %I layers; at most 1024", (lua_Integer)n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, (lua_Integer)i + 1);
        const lua_Integer layer = luaL_checkinteger(L, -1);
        if (layer < 0 || layer > INT32_MAX)
            return luaL_error(L, "keep_hidden: %I is no layer", layer);
        layers[i] = (uint32_t)layer;
        lua_pop(L, 1);
    }
    cdz_lua_try(L, cdz_keep_hidden(cdz_lua_decoder(L), of, layers, (uint32_t)n));
    return 0;
}

/* ctx:hidden_states(): [layer, as they were named][row] vectors of `width` numbers. */
static int verb_hidden_states(lua_State *L)
{
    cdz_hidden h;

    cdz_lua_try(L, cdz_hidden_states(cdz_lua_decoder(L), &h));
    cdz_lua_charge_elements(L, (size_t)h.n_layers * h.n_rows * h.width);
    lua_createtable(L, (int)h.n_layers, 0);
    for (uint32_t layer = 0; layer < h.n_layers; layer++) {
        lua_createtable(L, (int)(h.n_rows < MOST_ROWS ? h.n_rows : MOST_ROWS), 0);
        for (uint32_t row = 0; row < h.n_rows; row++) {
            cdz_lua_vec *v = cdz_lua_push_vec(L, h.width, 1);
            memcpy(v->data, cdz_hidden_row(&h, layer, row), h.width * sizeof(float));
            lua_rawseti(L, -2, (lua_Integer)row + 1);
        }
        lua_rawseti(L, -2, (lua_Integer)layer + 1);
    }
    return 1;
}

const float *cdz_lua_read_vectors(lua_State *L, int at, const char *name, size_t n, size_t width)
{
    float *all = lua_newuserdatauv(L, n * width * sizeof *all, 0);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, at, (lua_Integer)i + 1);
        const cdz_lua_vec *v = cdz_lua_check_vec(L, lua_gettop(L));
        if (v->n != width)
            luaL_error(L, "%s: vector %I has %I numbers; expected %I", name, (lua_Integer)i + 1,
                       (lua_Integer)v->n, (lua_Integer)width);
        memcpy(all + i * width, v->data, width * sizeof *all);
        lua_pop(L, 1);
    }
    return all;
}

typedef cdz_status score_verb(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out);

static int score(lua_State *L, const char *name, score_verb *verb)
{
    cdz_decoder *dec = cdz_lua_decoder(L);
    cdz_model_facts facts = {.size = sizeof facts};
    cdz_scores out;

    luaL_checktype(L, 2, LUA_TTABLE);
    const size_t n = lua_rawlen(L, 2);
    if (n < 1 || n > MOST_ROWS)
        return luaL_error(L, "%s: %I vectors; from 1 to 4096", name, (lua_Integer)n);
    if (!cdz_facts(dec, NULL, &facts)) return luaL_error(L, "%s: the request has no model", name);
    cdz_lua_charge_elements(L, n * facts.width + n * facts.n_vocab);
    cdz_lua_try(L, verb(dec, cdz_lua_read_vectors(L, 2, name, n, facts.width), (uint32_t)n, &out));
    lua_createtable(L, (int)n, 0);
    for (uint32_t row = 0; row < out.n_rows; row++) {
        cdz_lua_vec *v = cdz_lua_push_vec(L, out.n_vocab, 0);
        memcpy(v->data, cdz_row(&out, row), out.n_vocab * sizeof(float));
        lua_rawseti(L, -2, (lua_Integer)row + 1);
    }
    return 1;
}

/* ctx:head({vector, ...}): a vector of scores for each, indexed by token id. */
static int verb_head(lua_State *L)
{
    return score(L, "head", cdz_head);
}

/* ctx:lens({vector, ...}): the same after the final norm, as the model ends. */
static int verb_lens(lua_State *L)
{
    return score(L, "lens", cdz_lens);
}

/* ctx:embed(ids [, model]): the vector that the model has for each. */
static int verb_embed(lua_State *L)
{
    cdz_decoder *dec = cdz_lua_decoder(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    const char *model = luaL_optstring(L, 3, NULL);
    cdz_model_facts facts = {.size = sizeof facts};

    if (!cdz_facts(dec, model, &facts))
        return luaL_error(L, "embed: the request has no model '%s'", model ? model : "target");
    if (ids.len > MOST_ROWS)
        return luaL_error(L, "embed: %I ids; at most 4096", (lua_Integer)ids.len);
    cdz_lua_charge_elements(L, 2 * (size_t)ids.len * facts.width);
    float *all = lua_newuserdatauv(L, ((size_t)ids.len * facts.width + 1) * sizeof *all, 0);
    cdz_lua_try(L, cdz_embed(dec, model, ids.at, ids.len, all));
    lua_createtable(L, (int)ids.len, 0);
    for (uint32_t i = 0; i < ids.len; i++) {
        cdz_lua_vec *v = cdz_lua_push_vec(L, facts.width, 1);
        memcpy(v->data, all + (size_t)i * facts.width, facts.width * sizeof *all);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static void set_integer(lua_State *L, const char *name, lua_Integer n)
{
    lua_pushinteger(L, n);
    lua_setfield(L, -2, name);
}

/* ctx:facts([model]): a table of n_vocab, n_layers, width, tied, has_encoder, n_positions, n_values; nil when the request has no
 * such model. */
static int verb_facts(lua_State *L)
{
    cdz_decoder *dec = cdz_lua_decoder(L);
    const char *model = luaL_optstring(L, 2, NULL);
    cdz_model_facts facts = {.size = sizeof facts};

    if (!cdz_facts(dec, model, &facts)) {
        lua_pushnil(L);
        return 1;
    }
    lua_createtable(L, 0, 7);
    set_integer(L, "n_vocab", facts.n_vocab);
    set_integer(L, "n_layers", facts.n_layers);
    set_integer(L, "width", facts.width);
    set_integer(L, "n_positions", facts.n_positions);
    set_integer(L, "n_values", cdz_n_values(dec, model));
    lua_pushboolean(L, facts.tied);
    lua_setfield(L, -2, "tied");
    lua_pushboolean(L, facts.has_encoder);
    lua_setfield(L, -2, "has_encoder");
    return 1;
}

const luaL_Reg cdz_lua_hidden_verbs[] = {{"keep_hidden", verb_keep_hidden},
                                         {"hidden_states", verb_hidden_states},
                                         {"head", verb_head},
                                         {"lens", verb_lens},
                                         {"embed", verb_embed},
                                         {"facts", verb_facts},
                                         {NULL, NULL}};
