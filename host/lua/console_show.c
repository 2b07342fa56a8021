/* console_show.c - values for a person to read. Nothing of a script runs here: no __tostring, no __index. */
#include "lua/console_show.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cadenza/ext/tokenizer.h"
#include "lua/decoder.h"

enum { TOP = 5, MOST_TOP = 1000, DEPTH = 3, ITEMS = 16, TEXT = 200 };

const char cdz_lua_console_help[] =
    "Statements of Lua, in the ctx of a decode loop (docs/lua.md, \"A decode loop\"). The value of an expression is shown.\n"
    "\n"
    "  ctx:forward()                      scores of the next token: the best ones, with probability and text\n"
    "  s = ctx:process(ctx:forward())     the same after the pipeline's processors; s:row(1) is a vector\n"
    "  top(s, 20)                         more of them\n"
    "  ctx:append(ctx:argmax(s))          take a token; ctx:rewind(1) takes one back; ctx:input_ids() shows the row\n"
    "  a = ctx:seq_of_row():fork()        a copy of the row with a KV cache of its own; ctx:seq_new() an empty one\n"
    "  a:append(ctx:encode(' hello'))     a:truncate(3), a:ids(), a:free()\n"
    "  ctx:seq_forward(a)                 scores after the sequence; ctx:seq_forward({a, b}) of several at once\n"
    "  ctx:encode('a river')              text to ids; ctx:decode(ids), ctx:token_text(id)\n"
    "  v = ctx:forward():row(1):copy()    vectors: v:temperature(0.7):keep_topk(50); v:entropy(), v:argmax()\n"
    "  v:apply(vec.expr('x > t ? x : x - 1', {'t'}), 2)\n"
    "\n"
    "Scores end with the next forward: copy what you want to keep. Ctrl-C ends a statement, Ctrl-D the program.\n";

/* --- text ---------------------------------------------------------------------------------------------------------- */

/* In quotes; what a terminal cannot show as \n, \x1b. At most so many bytes. */
static void quote(cdz_buf *out, const char *text, size_t len, size_t most)
{
    const size_t shown = len < most ? len : most;
    uint32_t code;

    cdz_buf_putc(out, '"');
    for (size_t i = 0, n; i < shown; i += n) {
        n = cdz_utf8_decode(text + i, len - i, &code);
        const bool control = n == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0);
        if (n > 0 && code == '\n')
            cdz_buf_puts(out, "\\n");
        else if (n > 0 && (code == '"' || code == '\\'))
            cdz_buf_printf(out, "\\%c", (char)code);
        else if (!control)
            cdz_buf_add(out, text + i, n);
        else
            for (size_t k = 0; k < (n ? n : 1); k++)
                cdz_buf_printf(out, "\\x%02x", (unsigned)(unsigned char)text[i + k]);
        if (n == 0) n = 1;
    }
    cdz_buf_puts(out, shown < len ? "\"..." : "\"");
}

static void token_text(lua_State *L, cdz_buf *out, int32_t id)
{
    const cdz_step *step = cdz_lua_of(L)->step;
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    cdz_string text = {NULL, 0};

    if (tokenizer && tokenizer->present(step)) text = tokenizer->token_text(step, id);
    if (text.at) quote(out, text.at, text.len, TEXT);
}

static void show_ids(lua_State *L, cdz_buf *out, const int32_t *ids, size_t n)
{
    cdz_buf_puts(out, "{");
    for (size_t i = 0; i < n && i < ITEMS; i++) cdz_buf_printf(out, i ? ", %d" : "%d", (int)ids[i]);
    if (n > ITEMS) cdz_buf_printf(out, ", ... %zu more", n - ITEMS);
    cdz_buf_puts(out, "}");
    for (size_t i = 0; i < n && i < ITEMS; i++) {
        cdz_buf_puts(out, i ? "|" : "  ");
        token_text(L, out, ids[i]);
    }
}

/* --- scores -------------------------------------------------------------------------------------------------------- */

/* Are they probabilities already, as ctx:softmax leaves them? */
static bool sums_to_one(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= 0 && x[i] <= 1)) return false;
        sum += (double)x[i];
    }
    return fabs(sum - 1) < 1e-3;
}

/* The k best of a row over the vocabulary. */
static void show_best(lua_State *L, cdz_buf *out, const float *x, size_t n, size_t k)
{
    const cdz_vec *vec = cdz_lua_of(L)->vec;
    const bool probs = sums_to_one(x, n);

    if (k > n) k = n;
    cdz_lua_charge_elements(L, 8 * n);
    const size_t row = (n * sizeof(float) + 63) / 64 * 64, few = (k * sizeof(float) + 63) / 64 * 64;
    char *room = cdz_lua_scratch(L, row + 2 * few + cdz_vec_scratch(n));
    float *prob = (float *)(void *)room, *values = (float *)(void *)(room + row);
    int32_t *ids = (int32_t *)(void *)(room + row + few);
    vec->topk(x, n, k, values, ids, room + row + 2 * few);
    if (probs)
        memcpy(prob, x, n * sizeof *prob);
    else
        vec->softmax(prob, x, n);
    for (size_t i = 0; i < k && (i == 0 || values[i] > -INFINITY); i++) {
        cdz_buf_printf(out, "\n  %8d  %9.4f  %7.4f  ", (int)ids[i], (double)values[i],
                       (double)prob[ids[i]]);
        token_text(L, out, ids[i]);
    }
}

static const char columns[] = "\n        id      score     prob  text";

static bool over_vocabulary(lua_State *L, const cdz_lua_vec *v)
{
    return v->base == 0 && v->n == cdz_lua_of(L)->step->request->n_vocab;
}

static void show_vec(lua_State *L, cdz_buf *out, const cdz_lua_vec *v, size_t k)
{
    cdz_buf_printf(out, "vec(%zu)", v->n);
    if (over_vocabulary(L, v)) {
        cdz_buf_puts(out, columns);
        show_best(L, out, v->data, v->n, k);
        return;
    }
    cdz_buf_puts(out, " {");
    for (size_t i = 0; i < v->n && i < ITEMS; i++)
        cdz_buf_printf(out, i ? ", %.6g" : "%.6g", (double)v->data[i]);
    if (v->n > ITEMS) cdz_buf_printf(out, ", ... %zu more", v->n - ITEMS);
    cdz_buf_puts(out, "}");
}

static void show_batch(lua_State *L, cdz_buf *out, cdz_lua_batch *b, size_t k)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (!b->scores.data && S->dec) cdz_lua_try(L, cdz_map(S->dec, &b->scores));
    cdz_buf_printf(out, "scores(%u, %u)%s", b->scores.n_rows, b->scores.n_vocab, columns);
    for (uint32_t r = 0; r < b->scores.n_rows; r++) {
        if (b->scores.n_rows > 1) cdz_buf_printf(out, "\nrow %u", r + 1);
        show_best(L, out, cdz_row(&b->scores, r), b->scores.n_vocab, k);
    }
}

/* --- any value ------------------------------------------------------------------------------------------------------ */

static void show(lua_State *L, cdz_buf *out, int index, int depth);

/* Calls ids() of the sequence: it is the host's own. */
static void show_seq(lua_State *L, cdz_buf *out, int index)
{
    lua_getfield(L, index, "ids");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    const cdz_ids ids = cdz_lua_check_ids(L, lua_gettop(L));
    cdz_buf_printf(out, "seq(%u) ", ids.len);
    show_ids(L, out, ids.at, ids.len);
    lua_pop(L, 1);
}

static void show_userdata(lua_State *L, cdz_buf *out, int index)
{
    if (luaL_testudata(L, index, CDZ_LUA_VEC)) {
        show_vec(L, out, cdz_lua_check_vec(L, index), TOP);
    } else if (luaL_testudata(L, index, CDZ_LUA_BATCH)) {
        show_batch(L, out, cdz_lua_check_batch(L, index), TOP);
    } else if (luaL_testudata(L, index, CDZ_LUA_IDS)) {
        const cdz_ids ids = cdz_lua_check_ids(L, index);
        cdz_buf_printf(out, "ids(%u) ", ids.len);
        show_ids(L, out, ids.at, ids.len);
    } else if (luaL_testudata(L, index, CDZ_LUA_SEQ)) {
        show_seq(L, out, index);
    } else {
        cdz_buf_puts(out, cdz_lua_text(L, index, NULL));
        lua_pop(L, 1);
    }
}

static bool has_odd_keys(lua_State *L, int index)
{
    bool odd = false;

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        odd = odd || (lua_type(L, -2) != LUA_TSTRING && lua_type(L, -2) != LUA_TNUMBER);
    return odd;
}

/* {1, 2, name = 3}: what counts from 1 without its numbers. */
static void show_table(lua_State *L, cdz_buf *out, int index, int depth)
{
    cdz_lua_unwrap(L, index);
    if (depth == 0 || has_odd_keys(L, index) || !lua_checkstack(L, 8)) {
        cdz_buf_puts(out, "table");
        return;
    }
    cdz_lua_push_sorted_keys(L, index);
    const int keys = lua_gettop(L);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, keys);
    lua_Integer expected = 1;
    cdz_buf_putc(out, '{');
    for (lua_Integer i = 1; i <= n && i <= ITEMS; i++) {
        if (i > 1) cdz_buf_puts(out, ", ");
        lua_rawgeti(L, keys, i);
        if (lua_isinteger(L, -1) && lua_tointeger(L, -1) == expected) {
            expected++;
        } else if (lua_type(L, -1) == LUA_TSTRING) {
            cdz_buf_printf(out, "%.60s = ", lua_tostring(L, -1));
        } else {
            cdz_buf_printf(out, "[%s] = ", cdz_lua_text(L, -1, NULL));
            lua_pop(L, 1);
        }
        lua_rawget(L, index);
        show(L, out, lua_gettop(L), depth - 1);
        lua_pop(L, 1);
    }
    if (n > ITEMS) cdz_buf_printf(out, ", ... %lld more", (long long)(n - ITEMS));
    cdz_buf_putc(out, '}');
    lua_pop(L, 1);
}

static void show(lua_State *L, cdz_buf *out, int index, int depth)
{
    size_t len;
    const char *text;

    switch (lua_type(L, index)) {
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &len);
        quote(out, text, len, depth == DEPTH ? SIZE_MAX : TEXT);
        break;
    case LUA_TTABLE: show_table(L, out, index, depth); break;
    case LUA_TUSERDATA: show_userdata(L, out, index); break;
    default:
        cdz_buf_puts(out, cdz_lua_text(L, index, NULL));
        lua_pop(L, 1);
        break;
    }
}

/* A buffer that the state owns, so that an error on the way loses nothing. */
static int free_buf(lua_State *L)
{
    cdz_buf_free(lua_touserdata(L, 1));
    return 0;
}

static cdz_buf *push_buf(lua_State *L)
{
    cdz_buf *out = lua_newuserdatauv(L, sizeof *out, 0);

    *out = (cdz_buf){0};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, free_buf);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return out;
}

static void write_line(lua_State *L, cdz_buf *out)
{
    cdz_buf_putc(out, '\n');
    if (out->failed) luaL_error(L, "out of memory");
    cdz_lua_console_write(L, out->data, out->len);
    cdz_buf_free(out);
}

void cdz_lua_console_show(lua_State *L, int index)
{
    luaL_checkstack(L, 16, NULL);
    cdz_buf *out = push_buf(L);
    lua_pushvalue(L, index);
    show(L, out, lua_gettop(L), DEPTH);
    write_line(L, out);
    lua_pop(L, 2);
}

int cdz_lua_console_top(lua_State *L)
{
    const lua_Integer k = luaL_optinteger(L, 2, 10);

    luaL_argcheck(L, k >= 1 && k <= MOST_TOP, 2, "expected 1 to 1000");
    lua_settop(L, 1);
    cdz_buf *out = push_buf(L);
    if (luaL_testudata(L, 1, CDZ_LUA_BATCH)) {
        show_batch(L, out, cdz_lua_check_batch(L, 1), (size_t)k);
    } else {
        const cdz_lua_vec *v = cdz_lua_check_vec(L, 1);
        if (!over_vocabulary(L, v)) return luaL_error(L, "top: not a row over the vocabulary");
        show_vec(L, out, v, (size_t)k);
    }
    write_line(L, out);
    return 0;
}
