/* context.c - ctx for processors and criteria: facts of the request, the row that is asked about, text. */
#include <string.h>

#include "cadenza/ext/observe.h"
#include "cadenza/ext/text.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/ext/trace.h"
#include "lua/decoder.h"

#define CONTEXT  "cadenza.context"
#define MAX_TAIL 4096

static const cdz_step *check_step(lua_State *L)
{
    const cdz_step *step = cdz_lua_of(L)->step;

    if (!step) luaL_error(L, "ctx works inside a call only");
    return step;
}

cdz_ids cdz_lua_current_ids(const cdz_lua_session *S)
{
    if (!S->step || !S->row_set || !S->step->input_ids) return (cdz_ids){NULL, 0};
    return S->step->input_ids[S->row];
}

/* --- fields ------------------------------------------------------------------------------------------------- */

static void push_id_table(lua_State *L, cdz_ids ids)
{
    lua_createtable(L, (int)ids.len, 0);
    for (uint32_t i = 0; i < ids.len; i++) {
        lua_pushinteger(L, ids.at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* The prompts live as long as the request, and so may these views. */
static void push_prompts(lua_State *L, const cdz_request_info *r)
{
    lua_createtable(L, (int)r->n_prompts, 0);
    for (uint32_t i = 0; i < r->n_prompts; i++) {
        cdz_lua_push_ids_view(L, r->prompts[i])->stamp = (cdz_lua_stamp){NULL, 0};
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_token_or_nil(lua_State *L, int32_t id)
{
    if (id >= 0)
        lua_pushinteger(L, id);
    else
        lua_pushnil(L);
}

/* Seconds since the request began, for scripts that say that what they do depends on the time. */
static void push_elapsed(lua_State *L, const cdz_step *step)
{
    if (!cdz_lua_def_of(step)->needs_clock)
        luaL_error(L, "ctx.elapsed_s needs needs_clock = true beside the id");
    lua_pushnumber(L, step->host->now_s(step) - step->request->start_s);
}

/* Of observers: what answers hang on is a script's input alone. nil where there is none. */
static void push_trace(lua_State *L, const cdz_step *step, bool id)
{
    const cdz_trace_api *trace = cdz_get_trace(step);
    lua_pushstring(L, !trace ? NULL : id ? trace->request_id(step) : trace->traceparent(step));
}

bool cdz_lua_push_request_field(lua_State *L, const char *name)
{
    const cdz_request_info *r = check_step(L)->request;
    const struct {
        const char *name;
        uint32_t value;
    } counts[] = {
        {"n_prompts", r ? r->n_prompts : 0},   {"n_rows", r ? r->n_rows : 0},
        {"prompt_len", r ? r->prompt_len : 0}, {"n_vocab", r ? r->n_vocab : 0},
        {"max_length", r ? r->max_length : 0}, {"min_length", r ? r->min_length : 0},
        {"context", r ? r->context : 0},       {"num_beams", r ? r->num_beams : 0},
    };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(name, counts[i].name) == 0) {
            if (!r) luaL_error(L, "ctx.%s is known from begin on", name);
            lua_pushinteger(L, counts[i].value);
            return true;
        }
    if (!r) return false;
    if (strcmp(name, "do_sample") == 0)
        lua_pushboolean(L, r->do_sample);
    else if (strcmp(name, "seed") == 0)
        lua_pushinteger(L, (lua_Integer)r->seed);
    else if (strcmp(name, "eos") == 0)
        push_id_table(L, r->eos);
    else if (strcmp(name, "pad") == 0)
        push_token_or_nil(L, r->pad);
    else if (strcmp(name, "bos") == 0)
        push_token_or_nil(L, r->bos);
    else if (strcmp(name, "prompts") == 0)
        push_prompts(L, r);
    else if (strcmp(name, "elapsed_s") == 0)
        push_elapsed(L, check_step(L));
    else if (check_step(L)->plugin->kind == CDZ_KIND_OBSERVER &&
             (strcmp(name, "request_id") == 0 || strcmp(name, "traceparent") == 0))
        push_trace(L, check_step(L), *name == 'r');
    else
        return false;
    return true;
}

static bool check_row(lua_State *L, const char *name)
{
    if (!cdz_lua_of(L)->row_set) luaL_error(L, "ctx.%s belongs to a row: not here", name);
    return true;
}

/* A drafter's table of a row: its own from the first time on, as begin returned it. */
static void push_memory(lua_State *L, uint32_t row)
{
    cdz_lua_get(L, CDZ_LUA_SLOT_MEMORY);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        cdz_lua_set(L, CDZ_LUA_SLOT_MEMORY);
    }
    if (lua_rawgeti(L, -1, (lua_Integer)row + 1) != LUA_TNIL) return;
    lua_pop(L, 1);
    cdz_lua_get(L, CDZ_LUA_SLOT_STATE);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
    } else {
        cdz_lua_copy_state(L);
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, (lua_Integer)row + 1);
}

static int context_index(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);
    const cdz_step *step = check_step(L);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";

    if (strcmp(name, "params") == 0) {
        cdz_lua_get(L, CDZ_LUA_SLOT_PARAMS);
    } else if (strcmp(name, "rng") == 0) {
        lua_newuserdatauv(L, 0, 0);
        luaL_setmetatable(L, CDZ_LUA_RNG);
    } else if (strcmp(name, "row") == 0 && check_row(L, name)) {
        lua_pushinteger(L, (lua_Integer)step->row_index[S->row] + 1);
    } else if (strcmp(name, "memory") == 0 && S->kind == CDZ_KIND_DRAFTER && check_row(L, name)) {
        push_memory(L, step->row_index[S->row]);
    } else if (strcmp(name, "tokens") == 0 && check_row(L, name)) {
        if (!step->input_ids) return luaL_error(L, "ctx.tokens needs needs_ids = true");
        cdz_lua_push_ids_view(L, cdz_lua_current_ids(S));
    } else if (strcmp(name, "state") == 0 && check_row(L, name)) {
        cdz_lua_push_row_state(L, step->row_state ? step->row_state[S->row] : NULL, false);
    } else if (!cdz_lua_push_request_field(L, name)) {
        const char *near = cdz_lua_suggest_method(L);
        return luaL_error(L, "ctx has no field '%s'%s", cdz_lua_text(L, 2, NULL), near);
    }
    return 1;
}

/* --- configuration and text ------------------------------------------------------------------------------------ */

/* ctx:config(name): a resolved generation parameter in whatever type it has; nil when it is unset. */
static int context_config(lua_State *L)
{
    const cdz_step *step = check_step(L);
    const char *name = luaL_checkstring(L, 2);
    union {
        cdz_int_lists largest;
        double aligned[8];
    } value;

    cdz_lua_charge(L, 20);
    if (!step->request) return luaL_error(L, "ctx:config works from begin on");
    const uint16_t last = CDZ_T_INT_CHOICES;
    for (uint16_t type = CDZ_T_BOOL; type <= last; type++) {
        if (type == CDZ_T_WORD || type == CDZ_T_BOOL_OR_WORD || type == CDZ_T_WORD_OR_INTS)
            continue; /* the words are not known here */
        memset(&value, 0, sizeof value);
        if (step->host->config(step, name, (cdz_param_type)type, &value) != CDZ_OK) continue;
        cdz_lua_push_param(L, &(cdz_param){.type = type}, &value);
        return 1;
    }
    const char *near = NULL;
    if (step->host->config(step, name, (cdz_param_type)0, &near) != CDZ_OK)
        return luaL_error(L, "ctx:config: there is no generation parameter '%s'%s%s%s", name,
                          near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
    lua_pushnil(L);
    return 1;
}

/* ctx:prompt_of([row]): which of ctx.prompts the row continues. A strategy names a row of the request, a script with
 * batched = true the place in its lists. */
static int context_prompt_of(lua_State *L)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    const cdz_step *step = check_step(L);
    const bool loop = S->kind == CDZ_KIND_STRATEGY;
    uint32_t row;

    if (!step->request) return luaL_error(L, "ctx:prompt_of works from begin on");
    const lua_Integer n = loop ? step->request->n_rows : step->n_rows;
    if (!lua_isnoneornil(L, 2)) {
        const lua_Integer given = luaL_checkinteger(L, 2);
        if (given < 1 || given > n) return luaL_error(L, "row %I is outside 1 to %I", given, n);
        row = (uint32_t)(given - 1);
    } else {
        if (!S->row_set && n != 1) return luaL_error(L, "ctx:prompt_of: of which row?");
        row = S->row_set ? S->row : 0;
    }
    row = step->row_index && !loop ? step->row_index[row] : row;
    lua_pushinteger(L, (lua_Integer)cdz_prompt_of(step->request, row) + 1);
    return 1;
}

static const cdz_tokenizer_api *check_tokenizer(lua_State *L, const cdz_step *step)
{
    const cdz_tokenizer_api *t = step->request ? cdz_get_tokenizer(step) : NULL;

    if (!t || !t->present(step)) luaL_error(L, "the model has no tokenizer");
    return t;
}

static void check_text_allowed(lua_State *L, const char *name)
{
    const cdz_lua_session *S = cdz_lua_of(L);

    if (S->kind != CDZ_KIND_STRATEGY && S->kind != CDZ_KIND_DRAFTER && !S->in_begin)
        luaL_error(
            L, "ctx:%s works in begin and in strategies (its results live as long as the request)",
            name);
}

/* ctx:encode(text [, special]): a table of ids; special: with the model's begin and end tokens. */
static int context_encode(lua_State *L)
{
    const cdz_step *step = check_step(L);
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    cdz_ids ids;

    check_text_allowed(L, "encode");
    const cdz_tokenizer_api *t = check_tokenizer(L, step);
    cdz_lua_charge_elements(L, 64 * len);
    const cdz_status st = t->encode(step, text, len, lua_toboolean(L, 3), &ids);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    push_id_table(L, ids);
    return 1;
}

/* ctx:decode(ids [, skip_special]) */
static int context_decode(lua_State *L)
{
    const cdz_step *step = check_step(L);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    cdz_string text;

    check_text_allowed(L, "decode");
    const cdz_tokenizer_api *t = check_tokenizer(L, step);
    cdz_lua_charge_elements(L, 64 * (size_t)ids.len);
    const cdz_status st = t->decode(step, ids, lua_toboolean(L, 3), &text);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    lua_pushlstring(L, text.at, text.len);
    return 1;
}

/* ctx:convert(ids, from, to [, special]): what the ids of one of the request's models say, in ids of another. */
static int context_convert(lua_State *L)
{
    const cdz_step *step = check_step(L);
    const char *from = luaL_checkstring(L, 3), *to = luaL_checkstring(L, 4);
    const bool special = lua_toboolean(L, 5);
    const cdz_ids ids = cdz_lua_check_ids(L, 2);
    cdz_ids out;

    check_text_allowed(L, "convert");
    const cdz_tokenizer_api *t = check_tokenizer(L, step);
    cdz_lua_charge_elements(L, 128 * (size_t)ids.len);
    const cdz_status st = t->convert(step, from, ids, to, special, &out);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    push_id_table(L, out);
    return 1;
}

/* ctx:token_text(id): what the token adds after other tokens, nil for ids without one. Anywhere. */
static int context_token_text(lua_State *L)
{
    const cdz_step *step = check_step(L);
    const lua_Integer id = luaL_checkinteger(L, 2);
    const cdz_tokenizer_api *t = check_tokenizer(L, step);

    cdz_lua_charge(L, 2);
    if (id < 0 || id > INT32_MAX) return luaL_error(L, "%I is no token id", id);
    const cdz_string text = t->token_text(step, (int32_t)id);
    if (text.at)
        lua_pushlstring(L, text.at, text.len);
    else
        lua_pushnil(L);
    return 1;
}

/* The row that is asked about: of the request in a strategy, at `index`, else that of the call. */
static uint32_t text_row(lua_State *L, int index, const char *name)
{
    const cdz_lua_session *S = cdz_lua_of(L);

    if (S->kind == CDZ_KIND_STRATEGY) return cdz_lua_opt_row(L, index);
    check_row(L, name);
    return S->row;
}

static int push_text(lua_State *L, uint32_t r, uint32_t most)
{
    const cdz_step *step = check_step(L);
    const cdz_text_api *api = cdz_get_text(step);
    cdz_string text;

    if (!api) return luaL_error(L, "this host has no cadenza.text/1");
    const cdz_status st = api->tail(step, r, most, &text);
    if (st != CDZ_OK) return cdz_lua_host_failed(L, st);
    cdz_lua_charge(L, 1 + text.len / 8);
    lua_pushlstring(L, text.at, text.len);
    return 1;
}

/* ctx:text_tail(n): the last n bytes of the text generated so far, never beginning inside a character.
 * Where the host keeps no text (in a process of its own) a character that several tokens spell is U+FFFD for each. */
static int context_text_tail(lua_State *L)
{
    const cdz_lua_session *S = cdz_lua_of(L);
    const cdz_step *step = check_step(L);
    const lua_Integer n = luaL_checkinteger(L, 2);
    const cdz_ids ids = cdz_lua_current_ids(S);
    const cdz_tokenizer_api *t = check_tokenizer(L, step);
    char tail[MAX_TAIL];
    size_t at = sizeof tail;

    luaL_argcheck(L, n >= 1 && n <= MAX_TAIL, 2, "must be from 1 to 4096");
    check_row(L, "text_tail");
    cdz_lua_charge(L, 1 + n / 8);
    if (cdz_get_text(step) && step->input_ids && step->row_index)
        return push_text(L, S->row, (uint32_t)n);
    for (uint32_t i = ids.len; i > step->request->prompt_len && sizeof tail - at < (size_t)n; i--) {
        const cdz_string text = t->token_text(step, ids.at[i - 1]);
        const size_t room = (size_t)n - (sizeof tail - at);
        const size_t take = text.len < room ? text.len : room;
        if (take == 0) continue;
        at -= take;
        memcpy(tail + at, text.at + text.len - take, take);
    }
    while (at < sizeof tail && ((unsigned char)tail[at] & 0xC0) == 0x80) at++;
    lua_pushlstring(L, tail + at, sizeof tail - at);
    return 1;
}

/* ctx:text(): all that was generated so far; in a strategy ctx:text([row]). */
static int context_text(lua_State *L)
{
    return push_text(L, text_row(L, 2, "text"), UINT32_MAX);
}

/* In a strategy: ctx:text_tail(n [, row]) */
static int decoder_text_tail(lua_State *L)
{
    const lua_Integer n = luaL_checkinteger(L, 2);

    luaL_argcheck(L, n >= 1 && n <= UINT32_MAX, 2, "must be 1 or more");
    return push_text(L, text_row(L, 3, "text_tail"), (uint32_t)n);
}

static void check_observer(lua_State *L, const char *name)
{
    if (cdz_lua_of(L)->kind != CDZ_KIND_OBSERVER)
        luaL_error(L, "ctx:%s works in observers and strategies", name);
}

/* ctx:result(name, value [, type]) of an observer. */
static int context_result(lua_State *L)
{
    check_observer(L, "result");
    return cdz_lua_result(L);
}

/* ctx:write(line): to whoever listens (--observe FILE). */
static int context_write(lua_State *L)
{
    const cdz_step *step = check_step(L);
    size_t len;
    const char *line = luaL_checklstring(L, 2, &len);
    const cdz_observe_api *api = cdz_get_observe(step);

    check_observer(L, "write");
    if (!api) return luaL_error(L, "ctx:write works in a request");
    if (memchr(line, '\n', len)) return luaL_error(L, "write: one line, without its end");
    cdz_lua_charge_elements(L, len);
    const cdz_status st = api->write(step, line, len);
    return st == CDZ_OK ? 0 : cdz_lua_host_failed(L, st);
}

static int context_log(lua_State *L)
{
    lua_remove(L, 1);
    return cdz_lua_print(L);
}

static const luaL_Reg request_methods[] = {{"config", context_config},
                                           {"encode", context_encode},
                                           {"decode", context_decode},
                                           {"convert", context_convert},
                                           {"log", context_log},
                                           {"token_text", context_token_text},
                                           {"prompt_of", context_prompt_of},
                                           {"text", context_text},
                                           {NULL, NULL}};

void cdz_lua_add_request_methods(lua_State *L)
{
    static const luaL_Reg own[] = {{"text_tail", decoder_text_tail}, {NULL, NULL}};

    luaL_setfuncs(L, request_methods, 0);
    luaL_setfuncs(L, own, 0);
}

void cdz_lua_push_ctx(lua_State *L)
{
    enum { SHARED = sizeof request_methods / sizeof request_methods[0] - 1 };
    luaL_Reg methods[SHARED + 6] = {{NULL, NULL}};
    static const luaL_Reg meta[] = {{NULL, NULL}};

    memcpy(methods, request_methods, sizeof request_methods);
    methods[SHARED] = (luaL_Reg){"text_tail", context_text_tail};
    methods[SHARED + 1] = (luaL_Reg){"companion_logits", cdz_lua_companion_logits};
    methods[SHARED + 2] = (luaL_Reg){"result", context_result};
    methods[SHARED + 3] = (luaL_Reg){"write", context_write};
    methods[SHARED + 4] = (luaL_Reg){"constraint", cdz_lua_context_constraint};
    cdz_lua_define_type(L, CONTEXT, methods, meta, context_index);
    lua_newuserdatauv(L, 0, 0);
    luaL_setmetatable(L, CONTEXT);
}
