/* verbs_cache.c - a strategy's verbs on what caches hold: seq:drop, seq:kv, seq:attention. Tokens count from 1 among those that the
 * model sees, and `to` is the last one, as Lua counts; layers and heads count from 0, as the model does. */
#include <string.h>

#include "cadenza/ext/kv.h"
#include "lua/decoder.h"

/* Tokens at `at` and behind it, as positions [*from, *to). Without them: all. */
static void read_range(lua_State *L, int at, cdz_seq *seq, uint32_t *from, uint32_t *to)
{
    const lua_Integer first = luaL_optinteger(L, at, 1);
    const lua_Integer last = luaL_optinteger(L, at + 1, cdz_seq_length(cdz_lua_decoder(L), seq));

    luaL_argcheck(L, first >= 1 && first <= INT32_MAX, at, "must be 1 or more");
    luaL_argcheck(L, last >= first && last <= INT32_MAX, at + 1, "lies before the first token");
    *from = (uint32_t)first - 1;
    *to = (uint32_t)last;
}

static uint32_t check_number(lua_State *L, int at)
{
    const lua_Integer n = luaL_checkinteger(L, at);
    luaL_argcheck(L, n >= 0 && n <= INT32_MAX, at, "must be 0 or more");
    return (uint32_t)n;
}

/* seq:drop(from, to [, {renumber = true}]) */
static int drop_at(lua_State *L, int at)
{
    static const char *const options[] = {"renumber"};
    cdz_seq *seq = cdz_lua_check_seq(L, at);
    uint32_t from, to, flags = 0;

    luaL_checkinteger(L, at + 1);
    luaL_checkinteger(L, at + 2);
    read_range(L, at + 1, seq, &from, &to);
    if (!lua_isnoneornil(L, at + 3)) {
        luaL_checktype(L, at + 3, LUA_TTABLE);
        cdz_lua_check_keys(L, at + 3, options, 1, false, "drop: no option");
        cdz_lua_field(L, at + 3, "renumber");
        flags = lua_toboolean(L, -1) ? CDZ_DROP_RENUMBER : 0;
    }
    cdz_lua_charge(L, 1000);
    cdz_lua_try(L, cdz_seq_drop(cdz_lua_decoder(L), cdz_lua_of(L)->step, seq, from, to, flags));
    lua_settop(L, at);
    return 1;
}

/* --- kv ---------------------------------------------------------------------------------------------------------- */

typedef struct kv_look {
    const cdz_step *step;
    uint32_t layer, head, from, to;
    cdz_kv_entries out;
} kv_look;

static cdz_status run_kv(cdz_decoder *dec, cdz_lua_verb *v)
{
    kv_look *k = v->extra;
    return cdz_seq_kv(dec, k->step, v->seqs[0], k->layer, k->head, k->from, k->to, &k->out);
}

static void push_vectors(lua_State *L, const float *at, uint32_t n, uint32_t width)
{
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        cdz_lua_vec *v = cdz_lua_push_vec(L, width, 1);
        memcpy(v->data, at + (size_t)i * width, width * sizeof *at);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Keys, values, and which tokens they are of. */
static int push_kv(lua_State *L, cdz_lua_verb *v)
{
    const kv_look *k = v->extra;
    const cdz_kv_entries *e = &k->out;

    cdz_lua_charge_elements(L, 2 * (size_t)e->n * e->head_dim);
    push_vectors(L, e->keys, e->n, e->head_dim);
    push_vectors(L, e->values, e->n, e->head_dim);
    lua_createtable(L, (int)e->n, 0);
    for (uint32_t i = 0; i < e->n; i++) {
        lua_pushinteger(L, (lua_Integer)e->positions[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 3;
}

/* Of the sequence at index `seq`; what is asked for begins at `at`. */
static int look_at_kv(lua_State *L, int seq, int at)
{
    lua_settop(L, at + 3);
    cdz_seq *of = cdz_lua_check_seq(L, seq);
    kv_look k = {.step = cdz_lua_of(L)->step,
                 .layer = check_number(L, at),
                 .head = check_number(L, at + 1),
                 .out = {.size = sizeof k.out}};

    read_range(L, at + 2, of, &k.from, &k.to);
    kv_look *room = lua_newuserdatauv(L, sizeof *room, 0);
    *room = k;
    cdz_lua_verb *v = cdz_lua_push_verb(L, 1, 0);
    v->seqs[0] = of;
    v->extra = room;
    v->run = run_kv;
    v->done = push_kv;
    return cdz_lua_run_verb(L, v);
}

/* --- attention ------------------------------------------------------------------------------------------------------ */

enum { MOST_LAYERS = 1024 };

typedef struct attention_look {
    const cdz_step *step;
    uint32_t n_queries, n_layers, layers[MOST_LAYERS];
    cdz_attention_rows out;
} attention_look;

static cdz_status run_attention(cdz_decoder *dec, cdz_lua_verb *v)
{
    attention_look *a = v->extra;
    return cdz_seq_attention(dec, a->step, v->seqs[0], a->n_queries, a->layers, a->n_layers,
                             &a->out);
}

/* [layer, as they were named][head + 1][query, oldest first] a vector over the tokens. */
static int push_attention(lua_State *L, cdz_lua_verb *v)
{
    const attention_look *a = v->extra;
    const cdz_attention_rows *r = &a->out;
    const size_t of_head = (size_t)r->n_queries * r->n_keys;

    cdz_lua_charge_elements(L, r->n_layers * r->n_heads * of_head);
    lua_createtable(L, (int)r->n_layers, 0);
    for (uint32_t layer = 0; layer < r->n_layers; layer++) {
        lua_createtable(L, (int)r->n_heads, 0);
        for (uint32_t h = 0; h < r->n_heads; h++) {
            push_vectors(L, r->data + ((size_t)layer * r->n_heads + h) * of_head, r->n_queries,
                         r->n_keys);
            lua_rawseti(L, -2, (lua_Integer)h + 1);
        }
        lua_rawseti(L, -2, (lua_Integer)layer + 1);
    }
    return 1;
}

/* seq:attention({layer, ...} [, queries]) */
static int attention_at(lua_State *L, int at)
{
    lua_settop(L, at + 2);
    cdz_seq *seq = cdz_lua_check_seq(L, at);
    const lua_Integer queries = luaL_optinteger(L, at + 2, 1);

    luaL_checktype(L, at + 1, LUA_TTABLE);
    luaL_argcheck(L, queries >= 1 && queries <= INT32_MAX, at + 2, "must be 1 or more");
    const size_t n = lua_rawlen(L, at + 1);
    if (n > MOST_LAYERS) return luaL_error(L, "attention: %I layers; at most 1024", (lua_Integer)n);
    attention_look *a = lua_newuserdatauv(L, sizeof *a, 0);
    memset(a, 0, sizeof *a);
    a->step = cdz_lua_of(L)->step;
    a->n_queries = (uint32_t)queries;
    a->n_layers = (uint32_t)n;
    a->out.size = sizeof a->out;
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, at + 1, (lua_Integer)i + 1);
        a->layers[i] = check_number(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    cdz_lua_verb *v = cdz_lua_push_verb(L, 1, 0);
    v->seqs[0] = seq;
    v->extra = a;
    v->run = run_attention;
    v->done = push_attention;
    v->moves_passes = true;
    return cdz_lua_run_verb(L, v);
}

/* --- both ways to call them ------------------------------------------------------------------------------------------ */

static int verb_drop(lua_State *L)
{
    return drop_at(L, 2);
}

int cdz_lua_seq_drop(lua_State *L)
{
    return drop_at(L, 1);
}

static int verb_seq_kv(lua_State *L)
{
    return look_at_kv(L, 2, 3);
}

int cdz_lua_seq_kv(lua_State *L)
{
    return look_at_kv(L, 1, 2);
}

static int verb_attention(lua_State *L)
{
    return attention_at(L, 2);
}

int cdz_lua_seq_attention(lua_State *L)
{
    return attention_at(L, 1);
}

/* ctx:kv(layer, head [, from [, to]]): of the only row. */
static int verb_kv(lua_State *L)
{
    lua_settop(L, 5);
    cdz_lua_push_row_seq(L, cdz_lua_opt_row(L, 6));
    lua_insert(L, 2);
    return look_at_kv(L, 2, 3);
}

const void *cdz_lua_drops_extension(const char *id)
{
    static const cdz_kv_api api = {.size = sizeof api};
    return cdz_is_kv(id) ? &api : NULL;
}

const luaL_Reg cdz_lua_cache_verbs[] = {{"kv", verb_kv},
                                        {"seq_kv", verb_seq_kv},
                                        {"seq_drop", verb_drop},
                                        {"seq_attention", verb_attention},
                                        {NULL, NULL}};
