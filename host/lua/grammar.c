/* grammar.c - cadenza.grammar{...}: a constraint that scripts ask about texts and tokens (cadenza/ext/grammar.h).
 *
 * While a file is loaded there is no request: then texts alone can be asked about, by a grammar of the object's own, which
 * knows no tokens. From begin on the constraint is that of the request's model, shared with all who write it alike, and
 * states are its numbers. */
#include <string.h>

#include "cadenza/ext/grammar.h"
#include "grammar/store.h"
#include "lua/script.h"
#include "lua/session.h"
#include "lua/types.h"

enum { MOST_CHOICES = 100000, MOST_FORCED = 4096, PIECE = 8 };

typedef struct lua_grammar {
    cdz_grammar_kind kind;
    uint32_t n;
    cdz_grammar *own;           /* before there is a request; or NULL */
    const cdz_grammar_api *api; /* of constraint */
    cdz_constraint *constraint; /* or NULL */
} lua_grammar;

static lua_grammar *check_self(lua_State *L)
{
    return luaL_checkudata(L, 1, CDZ_LUA_GRAMMAR);
}

/* --- the constraint --------------------------------------------------------------------------------------- */

/* The texts, which the object keeps as its user value: a list of strings. Lives in a userdata that is pushed. */
static cdz_string *push_texts(lua_State *L, const lua_grammar *g, size_t *bytes)
{
    cdz_string *texts = lua_newuserdatauv(L, (g->n + 1) * sizeof *texts, 0);
    *bytes = 0;
    lua_getiuservalue(L, 1, 1);
    for (uint32_t i = 0; i < g->n; i++) {
        size_t len;
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        texts[i].at = lua_tolstring(L, -1, &len); /* the list keeps it */
        texts[i].len = (uint32_t)len;
        *bytes += len;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return texts;
}

static void compile_own(lua_State *L, lua_grammar *g)
{
    static const cdz_grammar_options options = {
        .limits = {.max_bytes = 1 << 20, .max_states = 200000, .max_ms = 500}};
    cdz_error err = {0};
    size_t bytes;
    const cdz_grammar_source source = {g->kind, push_texts(L, g, &bytes), g->n, NULL};
    cdz_lua_charge_elements(L, 64 * bytes);
    if (cdz_grammar_compile(&source, &options, &g->own, &err) != CDZ_OK)
        luaL_error(L, "cadenza.grammar: %s", err.text);
    lua_pop(L, 1);
}

static void compile_for_request(lua_State *L, lua_grammar *g, const cdz_step *step)
{
    size_t bytes;
    const cdz_grammar_api *api = cdz_get_grammar(step);
    const cdz_string *texts = push_texts(L, g, &bytes);
    cdz_lua_charge_elements(L, 64 * bytes);
    g->api = api;
    const cdz_status st = api->compile(step, g->kind, texts, g->n, &g->constraint);
    lua_pop(L, 1);
    if (st != CDZ_OK) cdz_lua_host_failed(L, st);
}

/* Whether the request's model can compile now, as it does in begin and for strategies. */
static bool may_compile(const cdz_lua_session *S)
{
    if (!S->step || !S->step->request || !cdz_get_grammar(S->step)) return false;
    return S->kind == CDZ_KIND_STRATEGY || S->kind == CDZ_KIND_DRAFTER || S->in_begin;
}

/* Makes the object ready to be asked. False: about texts only. */
static bool ready(lua_State *L, lua_grammar *g)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    cdz_lua_charge(L, 10);
    if (g->constraint) return true;
    if (may_compile(S)) {
        compile_for_request(L, g, S->step);
        return true;
    }
    if (!g->own) compile_own(L, g);
    return false;
}

static int only_texts(lua_State *L)
{
    return luaL_error(L,
                      "a grammar's states and tokens work where it was asked in begin first, as by "
                      "g:start(); not in an isolated plugin");
}

/* --- states ------------------------------------------------------------------------------------------------ */

static void try(lua_State *L, cdz_status status)
{
    if (status != CDZ_OK) cdz_lua_host_failed(L, status);
}

static uint32_t check_state(lua_State *L, int index)
{
    const lua_Integer state = luaL_checkinteger(L, index);
    luaL_argcheck(L, state >= 0 && state < UINT32_MAX, index, "is no state of a grammar");
    return (uint32_t)state;
}

/* By a few bytes at a time: each may lead to a state of thousands of places, so the clock is looked at between them. */
static uint32_t feed_text(lua_State *L, const lua_grammar *g, uint32_t state, const char *text,
                          size_t len)
{
    cdz_lua_charge_elements(L, 16 * len);
    while (len > 0 && state) {
        const size_t n = len < PIECE ? len : PIECE;
        if (g->constraint)
            try(L, g->api->feed(cdz_lua_of(L)->step, g->constraint, text, n, &state));
        else
            state = cdz_grammar_feed(g->own, state, text, n);
        cdz_lua_check_time(L);
        text += n;
        len -= n;
    }
    return state;
}

/* The state at index 2: a text's, or a state as it is; nothing: that of the empty text. */
static uint32_t state_at(lua_State *L, lua_grammar *g)
{
    const bool bound = ready(L, g);
    size_t len = 0;
    if (lua_type(L, 2) == LUA_TNUMBER) {
        if (!bound) only_texts(L);
        return check_state(L, 2);
    }
    const char *text = luaL_optlstring(L, 2, "", &len);
    const uint32_t start = bound ? g->api->start(g->constraint) : cdz_grammar_start(g->own);
    return feed_text(L, g, start, text, len);
}

static lua_grammar *check_bound(lua_State *L)
{
    lua_grammar *g = check_self(L);
    if (!ready(L, g)) only_texts(L);
    return g;
}

static int grammar_viable(lua_State *L)
{
    lua_pushboolean(L, state_at(L, check_self(L)) != 0);
    return 1;
}

static int grammar_accepts(lua_State *L)
{
    lua_grammar *g = check_self(L);
    const uint32_t state = state_at(L, g);
    lua_pushboolean(L, g->constraint ? g->api->accepts(g->constraint, state)
                                     : cdz_grammar_accepts(g->own, state));
    return 1;
}

/* g:start() */
static int grammar_start(lua_State *L)
{
    lua_grammar *g = check_bound(L);
    lua_pushinteger(L, g->api->start(g->constraint));
    return 1;
}

/* g:feed(state, text or ids): the state after them; 0: nothing in the language goes on so. */
static int grammar_feed(lua_State *L)
{
    lua_grammar *g = check_bound(L);
    const cdz_step *step = cdz_lua_of(L)->step;
    uint32_t state = check_state(L, 2);
    size_t len;
    if (lua_type(L, 3) == LUA_TSTRING) {
        const char *text = lua_tolstring(L, 3, &len);
        state = feed_text(L, g, state, text, len);
    } else {
        const cdz_ids ids = cdz_lua_check_ids(L, 3);
        cdz_lua_charge_elements(L, 64 * (size_t)ids.len);
        for (uint32_t i = 0; i < ids.len && state; i++) {
            try(L, g->api->feed_token(step, g->constraint, ids.at[i], &state));
            cdz_lua_check_time(L);
        }
    }
    lua_pushinteger(L, state);
    return 1;
}

/* g:allowed(state or text): a bitset of the tokens that may come; those that end a text are not among them. */
static int grammar_allowed(lua_State *L)
{
    lua_grammar *g = check_bound(L);
    const cdz_step *step = cdz_lua_of(L)->step;
    const uint32_t state = state_at(L, g), n_vocab = step->request->n_vocab;
    cdz_lua_bitset *bits = cdz_lua_push_bitset(L, n_vocab);
    const uint32_t n_words = (n_vocab + 63) / 64;
    cdz_lua_charge_elements(L, n_vocab);
    if (state) try(L, g->api->allowed(step, g->constraint, state, bits->words, n_words));
    if (n_vocab % 64) bits->words[n_words - 1] &= (UINT64_C(1) << (n_vocab % 64)) - 1;
    return 1;
}

/* g:forced(state or text): the text that must come, as far as there is one only. */
static int grammar_forced(lua_State *L)
{
    lua_grammar *g = check_self(L);
    const uint32_t state = state_at(L, g);
    char out[MOST_FORCED];
    const size_t n = g->constraint ? g->api->forced(g->constraint, state, out, sizeof out)
                                   : cdz_grammar_forced(g->own, state, out, sizeof out);
    cdz_lua_charge_elements(L, 64 * n);
    lua_pushlstring(L, out, n);
    return 1;
}

static int grammar_gc(lua_State *L)
{
    lua_grammar *g = check_self(L);
    if (g->constraint) g->api->release(g->constraint);
    cdz_grammar_free(g->own);
    g->constraint = NULL;
    g->own = NULL;
    return 0;
}

/* --- making ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    cdz_grammar_kind kind;
} kinds[] = {
    {"json_schema", CDZ_GRAMMAR_SCHEMA},  {"regex", CDZ_GRAMMAR_REGEX},
    {"gbnf", CDZ_GRAMMAR_GBNF},           {"lark", CDZ_GRAMMAR_LARK},
    {"grammar", CDZ_GRAMMAR_EITHER},      {"choice", CDZ_GRAMMAR_CHOICE},
    {"structural_tag", CDZ_GRAMMAR_TAGS},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* The field's value as a list of strings, pushed. */
static uint32_t push_list(lua_State *L, bool list, const char *name)
{
    if (!list) {
        if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "cadenza.grammar: %s is no text", name);
        lua_createtable(L, 1, 0);
        lua_insert(L, -2);
        lua_rawseti(L, -2, 1);
        return 1;
    }
    const lua_Unsigned n = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
    if (!n || n > MOST_CHOICES)
        luaL_error(L, "cadenza.grammar: %s must be a list of 1 to %d texts", name, MOST_CHOICES);
    lua_createtable(L, (int)n, 0);
    for (lua_Unsigned i = 1; i <= n; i++) {
        if (lua_rawgeti(L, -2, (lua_Integer)i) != LUA_TSTRING)
            luaL_error(L, "cadenza.grammar: %s: entry %d is no text", name, (int)i);
        lua_rawseti(L, -2, (lua_Integer)i);
    }
    cdz_lua_charge_elements(L, 64 * (size_t)n);
    lua_remove(L, -2);
    return (uint32_t)n;
}

static size_t kind_named(lua_State *L, int index)
{
    size_t k = 0;
    const char *name = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : "";
    while (k < N_KINDS && strcmp(kinds[k].name, name) != 0) k++;
    if (k == N_KINDS)
        luaL_error(L,
                   "cadenza.grammar has json_schema, regex, grammar, gbnf, lark, structural_tag and "
                   "choice, not '%s'",
                   name);
    return k;
}

/* cadenza.grammar { regex = "..." } */
int cdz_lua_grammar(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_pushnil(L);
    if (!lua_next(L, 1))
        return luaL_error(L, "cadenza.grammar: no constraint; expected { regex = \"...\" }");
    const size_t k = kind_named(L, -2);
    const uint32_t n = push_list(L, kinds[k].kind == CDZ_GRAMMAR_CHOICE, kinds[k].name);
    lua_insert(L, -2); /* the list, the key */
    if (lua_next(L, 1)) return luaL_error(L, "cadenza.grammar: one constraint at a time");
    lua_grammar *g = lua_newuserdatauv(L, sizeof *g, 1);
    *g = (lua_grammar){.kind = kinds[k].kind, .n = n};
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, CDZ_LUA_GRAMMAR);
    return 1;
}

struct cdz_constraint *cdz_lua_constraint_at(lua_State *L, int index)
{
    const lua_grammar *g = luaL_testudata(L, index, CDZ_LUA_GRAMMAR);
    return g ? g->constraint : NULL;
}

void cdz_lua_push_constraint(lua_State *L, struct cdz_constraint *constraint)
{
    lua_grammar *g = lua_newuserdatauv(L, sizeof *g, 1);
    *g = (lua_grammar){0};
    luaL_setmetatable(L, CDZ_LUA_GRAMMAR);
    g->api = cdz_get_grammar(cdz_lua_of(L)->step);
    cdz_constraint_hold(constraint);
    g->constraint = constraint;
}

void cdz_lua_open_grammar(lua_State *L)
{
    static const luaL_Reg methods[] = {{"viable", grammar_viable},
                                       {"accepts", grammar_accepts},
                                       {"allowed", grammar_allowed},
                                       {"forced", grammar_forced},
                                       {"start", grammar_start},
                                       {"feed", grammar_feed},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__gc", grammar_gc}, {NULL, NULL}};
    cdz_lua_define_type(L, CDZ_LUA_GRAMMAR, methods, meta, NULL);
}
