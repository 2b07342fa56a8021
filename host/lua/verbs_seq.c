/* verbs_seq.c - sequences beyond the request's rows: ctx:seq_new and its like, and the same as methods of a sequence. */
#include <string.h>

#include "cadenza/ext/mask.h"
#include "lua/decoder.h"

#define SEQS_A_COLLECTION 16

/* A sequence, or the one of a row (found anew at each use: reordering changes it). */
typedef struct seq_object {
    cdz_seq *seq; /* NULL: freed, or of a row */
    uint32_t row,
        n_values; /* n_values: that its model's head for them gives; a row's is asked for */
    bool of_row;
} seq_object;

static seq_object *check_object(lua_State *L, int index)
{
    return luaL_checkudata(L, index, CDZ_LUA_SEQ);
}

cdz_seq *cdz_lua_check_seq(lua_State *L, int index)
{
    const seq_object *o = check_object(L, index);

    if (o->of_row) return cdz_seq_of_row(cdz_lua_decoder(L), o->row);
    if (!o->seq) luaL_error(L, "this sequence was freed");
    return o->seq;
}

/* A sequence the script may edit. */
static cdz_seq *check_own(lua_State *L, int index)
{
    if (check_object(L, index)->of_row)
        luaL_error(L, "a row's sequence is edited by ctx:append and ctx:rewind");
    return cdz_lua_check_seq(L, index);
}

/* The collector does not see how much a sequence holds, so it runs once for every few that are made: a search that drops
 * its branches without freeing them stays small. */
static void collect_dropped(lua_State *L)
{
    if (++cdz_lua_of(L)->seqs_made % SEQS_A_COLLECTION) return;
    cdz_lua_charge(L, 500);
    lua_gc(L, LUA_GCCOLLECT);
}

static seq_object *push_object(lua_State *L)
{
    seq_object *o = lua_newuserdatauv(L, sizeof *o, 0);

    memset(o, 0, sizeof *o);
    luaL_setmetatable(L, CDZ_LUA_SEQ);
    return o;
}

cdz_seq **cdz_lua_push_seq(lua_State *L)
{
    collect_dropped(L);
    return &push_object(L)->seq;
}

/* --- making and editing: (ctx, ...) and seq:...; `at` is where the sequence stands ---------------------------------- */

/* ctx:seq_new([model]) */
static int verb_seq_new(lua_State *L)
{
    const char *model = luaL_optstring(L, 2, NULL);
    collect_dropped(L);
    seq_object *o = push_object(L);

    cdz_lua_charge(L, 20);
    cdz_lua_try(L, cdz_seq_new(cdz_lua_decoder(L), model, &o->seq));
    o->n_values = cdz_n_values(cdz_lua_decoder(L), model);
    return 1;
}

void cdz_lua_push_row_seq(lua_State *L, uint32_t row)
{
    seq_object *o = push_object(L);

    o->of_row = true;
    o->row = row;
}

static int verb_seq_of_row(lua_State *L)
{
    cdz_lua_push_row_seq(L, cdz_lua_opt_row(L, 2));
    return 1;
}

static uint32_t values_of(lua_State *L, const seq_object *o)
{
    return o->of_row ? cdz_n_values(cdz_lua_decoder(L), NULL) : o->n_values;
}

static int fork_at(lua_State *L, int at)
{
    const cdz_seq *seq = cdz_lua_check_seq(L, at);

    collect_dropped(L);
    seq_object *o = push_object(L);

    cdz_lua_charge(L, 20);
    cdz_lua_try(L, cdz_seq_fork(cdz_lua_decoder(L), seq, &o->seq));
    o->n_values = values_of(L, check_object(L, at));
    return 1;
}

static int free_at(lua_State *L, int at)
{
    seq_object *o = check_object(L, at);

    if (o->of_row) return luaL_error(L, "a row's sequence is not the script's to free");
    if (o->seq) cdz_seq_free(cdz_lua_decoder(L), o->seq);
    o->seq = NULL;
    cdz_lua_of(L)->ids_clock++;
    return 0;
}

static int append_at(lua_State *L, int at)
{
    cdz_seq *seq = check_own(L, at);
    const cdz_ids ids = cdz_lua_check_ids(L, at + 1);

    cdz_lua_charge(L, 1 + ids.len / 16);
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] < 0) return luaL_error(L, "%d is no token id", (int)ids.at[i]);
    cdz_lua_try(L, cdz_seq_append(cdz_lua_decoder(L), seq, ids.at, ids.len));
    cdz_lua_of(L)->ids_clock++;
    lua_settop(L, at);
    return 1;
}

static int truncate_at(lua_State *L, int at)
{
    cdz_seq *seq = check_own(L, at);
    const lua_Integer len = luaL_checkinteger(L, at + 1);
    const cdz_ids ids = cdz_seq_ids(cdz_lua_decoder(L), seq);

    if (len < 0 || len > (lua_Integer)ids.len)
        return luaL_error(L, "truncate to %I: the sequence has %I", len, (lua_Integer)ids.len);
    cdz_lua_try(L, cdz_seq_truncate(cdz_lua_decoder(L), seq, (uint32_t)len));
    cdz_lua_of(L)->ids_clock++;
    lua_settop(L, at);
    return 1;
}

static int hide_as_at(lua_State *L, int at)
{
    cdz_seq *seq = check_own(L, at);
    const uint32_t row = cdz_lua_opt_row(L, at + 1);

    cdz_lua_try(L, cdz_seq_hide_as(cdz_lua_decoder(L), cdz_lua_of(L)->step, seq, row));
    lua_settop(L, at);
    return 1;
}

/* seq:steer(edits): a row's, too. */
static int steer_at(lua_State *L, int at)
{
    cdz_lua_charge(L, 20);
    return cdz_lua_steer_at(L, at, cdz_lua_check_seq(L, at));
}

enum { MOST_VECTORS = 4096 };

/* Vectors at `at`, a list of as many numbers each: side by side; *width: how many numbers. */
static const float *read_embeds(lua_State *L, int at, uint32_t *n, uint32_t *width)
{
    luaL_checktype(L, at, LUA_TTABLE);
    const size_t len = lua_rawlen(L, at);
    if (len > MOST_VECTORS) luaL_error(L, "embeds: %I vectors; at most 4096", (lua_Integer)len);
    *n = (uint32_t)len;
    *width = 0;
    if (len == 0) return NULL;
    lua_rawgeti(L, at, 1);
    const size_t numbers = cdz_lua_check_vec(L, lua_gettop(L))->n;
    if (numbers > UINT32_MAX / len) luaL_error(L, "embeds: the vectors are too long");
    cdz_lua_charge_elements(L, numbers * len);
    *width = (uint32_t)numbers;
    return cdz_lua_read_vectors(L, at, "embeds", len, numbers);
}

/* seq:embeds(from, vectors), tokens counted from 1; seq:embeds(from, n): the ids again. A row's, too. */
static int embeds_at(lua_State *L, int at)
{
    cdz_seq *seq = cdz_lua_check_seq(L, at);
    const lua_Integer from = luaL_checkinteger(L, at + 1);
    uint32_t n = 0, width = 0;
    const float *vectors = NULL;

    luaL_argcheck(L, from >= 1 && from <= INT32_MAX, at + 1, "must be 1 or more");
    if (lua_type(L, at + 2) == LUA_TNUMBER) {
        const lua_Integer count = luaL_checkinteger(L, at + 2);
        luaL_argcheck(L, count >= 0 && count <= INT32_MAX, at + 2, "must be 0 or more");
        n = (uint32_t)count;
    } else {
        vectors = read_embeds(L, at + 2, &n, &width);
    }
    cdz_lua_try(L, cdz_seq_embeds(cdz_lua_decoder(L), seq, (uint32_t)from - 1, vectors, n, width));
    lua_settop(L, at);
    return 1;
}

/* seq:append_embeds(vectors [, id]): id, else 0, is what ids of the sequence have there. */
static int append_embeds_at(lua_State *L, int at)
{
    if (check_object(L, at)->of_row)
        return luaL_error(L,
                          "a row gets vectors by ctx:insert(ids), then seq:embeds(from, vectors)");
    cdz_seq *seq = cdz_lua_check_seq(L, at);
    const int32_t id = lua_isnoneornil(L, at + 2) ? 0 : cdz_lua_check_token(L, at + 2);
    uint32_t n, width;
    const float *vectors = read_embeds(L, at + 1, &n, &width);

    cdz_lua_try(L, cdz_seq_append_embeds(cdz_lua_decoder(L), seq, id, vectors, n, width));
    cdz_lua_of(L)->ids_clock++;
    lua_settop(L, at);
    return 1;
}

static int ids_at(lua_State *L, int at)
{
    cdz_lua_push_ids_view(L, cdz_seq_ids(cdz_lua_decoder(L), cdz_lua_check_seq(L, at)));
    return 1;
}

static int length_at(lua_State *L, int at)
{
    lua_pushinteger(L, cdz_seq_length(cdz_lua_decoder(L), cdz_lua_check_seq(L, at)));
    return 1;
}

#define TWO_FACES(name)                                                                            \
    static int verb_seq_##name(lua_State *L)                                                       \
    {                                                                                              \
        return name##_at(L, 2);                                                                    \
    }                                                                                              \
    static int seq_##name(lua_State *L)                                                            \
    {                                                                                              \
        return name##_at(L, 1);                                                                    \
    }
TWO_FACES(fork)
TWO_FACES(free)
TWO_FACES(append)
TWO_FACES(truncate)
TWO_FACES(hide_as)
TWO_FACES(steer)
TWO_FACES(embeds)
TWO_FACES(append_embeds)
TWO_FACES(ids)
TWO_FACES(length)

static int seq_len(lua_State *L)
{
    lua_pushinteger(L, cdz_seq_ids(cdz_lua_decoder(L), cdz_lua_check_seq(L, 1)).len);
    return 1;
}

/* A forgotten sequence gives its KV blocks back; after run the request frees what is left. */
static int seq_gc(lua_State *L)
{
    seq_object *o = check_object(L, 1);

    if (o->seq && cdz_lua_of(L)->dec) cdz_seq_free(cdz_lua_of(L)->dec, o->seq);
    o->seq = NULL;
    return 0;
}

/* --- forward, process, stop_test -------------------------------------------------------------------------------------- */

uint32_t cdz_lua_count_seqs(lua_State *L, int index)
{
    if (!lua_istable(L, index)) return 1;
    const size_t n = lua_rawlen(L, index);
    if (n < 1 || n > CDZ_LUA_MAX_SEQS)
        luaL_error(L, "%I sequences; from 1 to 4096", (lua_Integer)n);
    return (uint32_t)n;
}

uint32_t cdz_lua_seq_values(lua_State *L, int index)
{
    if (lua_istable(L, index))
        lua_rawgeti(L, index, 1);
    else
        lua_pushvalue(L, index);
    const uint32_t n = values_of(L, check_object(L, lua_gettop(L)));
    lua_pop(L, 1);
    return n;
}

void cdz_lua_read_seqs(lua_State *L, int index, cdz_lua_verb *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        if (lua_istable(L, index))
            lua_rawgeti(L, index, (lua_Integer)i + 1);
        else
            lua_pushvalue(L, index);
        v->seqs[i] = cdz_lua_check_seq(L, lua_gettop(L));
        lua_pop(L, 1);
    }
}

void cdz_lua_read_rows(lua_State *L, int index, cdz_lua_verb *v)
{
    const bool list = lua_istable(L, index);

    if (list && lua_rawlen(L, index) != v->n)
        luaL_error(L, "%I rows for %I", (lua_Integer)lua_rawlen(L, index), (lua_Integer)v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        if (list)
            lua_rawgeti(L, index, (lua_Integer)i + 1);
        else
            lua_pushvalue(L, index);
        v->rows[i] = cdz_lua_opt_row(L, lua_gettop(L));
        lua_pop(L, 1);
    }
}

static cdz_status run_seq_forward(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_seq_forward(dec, v->seqs, v->n, v->positions,
                           v->positions == CDZ_POSITIONS_NONE ? NULL : &v->out);
}

static int push_out(lua_State *L, cdz_lua_verb *v)
{
    if (v->positions == CDZ_POSITIONS_NONE) return 0;
    cdz_lua_push_pass(L, &v->out);
    return 1;
}

/* ctx:seq_forward(sequences [, "last" | "all" | "none"]) */
static int verb_seq_forward(lua_State *L)
{
    static const char *const names[] = {"none", "last", "all", NULL};

    cdz_lua_decoder(L);
    lua_settop(L, 3);
    const cdz_positions positions = (cdz_positions)luaL_checkoption(L, 3, "last", names);
    cdz_lua_verb *v = cdz_lua_push_verb(L, cdz_lua_count_seqs(L, 2), 0);
    cdz_lua_read_seqs(L, 2, v);
    v->run = run_seq_forward;
    v->done = push_out;
    v->positions = positions;
    v->moves_passes = true;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_seq_process(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_seq_process(dec, v->seqs, v->rows, v->n, v->scores);
}

static int return_scores(lua_State *L, cdz_lua_verb *v)
{
    (void)v;
    lua_settop(L, 4);
    return 1;
}

/* ctx:seq_process(sequences, rows, scores): a score row per sequence, as if it continued that request row. */
static int verb_seq_process(lua_State *L)
{
    cdz_lua_decoder(L);
    lua_settop(L, 4);
    cdz_scores *scores = &cdz_lua_check_scores(L, 4)->scores;
    cdz_lua_verb *v = cdz_lua_push_verb(L, cdz_lua_count_seqs(L, 2), 0);
    if (scores->n_rows != v->n)
        return luaL_error(L, "%I rows of scores for %I sequences", (lua_Integer)scores->n_rows,
                          (lua_Integer)v->n);
    cdz_lua_read_seqs(L, 2, v);
    cdz_lua_read_rows(L, 3, v);
    v->run = run_seq_process;
    v->done = return_scores;
    v->scores = scores;
    return cdz_lua_run_verb(L, v);
}

static cdz_status run_stop_test(cdz_decoder *dec, cdz_lua_verb *v)
{
    return cdz_stop_test(dec, v->ids, v->rows, v->n, v->stops);
}

void cdz_lua_push_stop(lua_State *L, const cdz_stop *stop)
{
    static const char *const names[] = {"", "eos", "length", "time", "string", "custom"};

    if (stop->reason == CDZ_GO_ON)
        lua_pushboolean(L, 0);
    else if (stop->reason < CDZ_STOP_CUSTOM)
        lua_pushstring(L, names[stop->reason]);
    else
        lua_pushlstring(L, stop->text.at ? stop->text.at : "custom",
                        stop->text.at ? stop->text.len : 6);
}

static int push_stops(lua_State *L, cdz_lua_verb *v)
{
    lua_createtable(L, (int)v->n, 0);
    for (uint32_t i = 0; i < v->n; i++) {
        cdz_lua_push_stop(L, &v->stops[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

size_t cdz_lua_total_ids(lua_State *L, int index, uint32_t *n)
{
    luaL_checktype(L, index, LUA_TTABLE);
    const size_t lists = lua_rawlen(L, index);
    size_t total = 0;

    if (lists < 1 || lists > CDZ_LUA_MAX_SEQS)
        luaL_error(L, "%I lists of ids; from 1 to 4096", (lua_Integer)lists);
    for (size_t i = 0; i < lists; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        total += cdz_lua_check_ids(L, lua_gettop(L)).len;
        lua_pop(L, 1);
    }
    *n = (uint32_t)lists;
    return total;
}

void cdz_lua_read_id_lists(lua_State *L, int index, cdz_lua_verb *v)
{
    int32_t *at = v->tokens;

    for (uint32_t i = 0; i < v->n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        const cdz_ids ids = cdz_lua_check_ids(L, lua_gettop(L));
        if (ids.len > 0) memcpy(at, ids.at, ids.len * sizeof *at);
        v->ids[i] = (cdz_ids){at, ids.len};
        at += ids.len;
        lua_pop(L, 1);
    }
}

/* ctx:stop_test({ids, ...}, rows): false or the reason, for each. */
static int verb_stop_test(lua_State *L)
{
    uint32_t n;

    cdz_lua_decoder(L);
    lua_settop(L, 3);
    const size_t total = cdz_lua_total_ids(L, 2, &n);
    cdz_lua_verb *v = cdz_lua_push_verb(L, n, total);
    cdz_lua_read_id_lists(L, 2, v);
    cdz_lua_read_rows(L, 3, v);
    v->run = run_stop_test;
    v->done = push_stops;
    return cdz_lua_run_verb(L, v);
}

const luaL_Reg cdz_lua_seq_verbs[] = {
    {"seq_new", verb_seq_new},         {"seq_of_row", verb_seq_of_row},
    {"seq_fork", verb_seq_fork},       {"seq_free", verb_seq_free},
    {"seq_append", verb_seq_append},   {"seq_truncate", verb_seq_truncate},
    {"seq_hide_as", verb_seq_hide_as}, {"seq_steer", verb_seq_steer},
    {"seq_embeds", verb_seq_embeds},   {"seq_append_embeds", verb_seq_append_embeds},
    {"seq_ids", verb_seq_ids},         {"seq_length", verb_seq_length},
    {"seq_forward", verb_seq_forward}, {"seq_process", verb_seq_process},
    {"stop_test", verb_stop_test},     {NULL, NULL}};

void cdz_lua_open_seq(lua_State *L)
{
    static const luaL_Reg methods[] = {{"fork", seq_fork},
                                       {"free", seq_free},
                                       {"append", seq_append},
                                       {"truncate", seq_truncate},
                                       {"hide_as", seq_hide_as},
                                       {"ids", seq_ids},
                                       {"length", seq_length},
                                       {"steer", seq_steer},
                                       {"embeds", seq_embeds},
                                       {"append_embeds", seq_append_embeds},
                                       {"drop", cdz_lua_seq_drop},
                                       {"kv", cdz_lua_seq_kv},
                                       {"attention", cdz_lua_seq_attention},
                                       {NULL, NULL}};
    static const luaL_Reg meta[] = {{"__len", seq_len}, {"__gc", seq_gc}, {NULL, NULL}};

    cdz_lua_define_type(L, CDZ_LUA_SEQ, methods, meta, NULL);
}
