/* session.c - the state's life, its allocator, its budgets and its errors. What a script can call is sandbox.c's. */
#include "lua/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "lua/script.h"
#include "vec/vec.h"

/* 5.4 slows every instruction for any count hook, so a larger step would gain nothing. */
#define HOOK_COUNT  1000
#define MAX_FRAMES  20
#define SHORT_S     1e-3        /* of calls shorter than this the wall clock is enough */
#define LONG_OP     1000000     /* elements of an operation that may last as long */
#define STACK_BYTES (96u << 10) /* of a strategy's fibre of 256 KiB */

static const char slots[CDZ_LUA_SLOT_COUNT];

void cdz_lua_get(lua_State *L, cdz_lua_slot slot)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &slots[slot]);
}

void cdz_lua_set(lua_State *L, cdz_lua_slot slot)
{
    lua_rawsetp(L, LUA_REGISTRYINDEX, &slots[slot]);
}

/* --- time -------------------------------------------------------------------------------------------- */

/* The thread's own clock, not the wall's, decides: on a busy machine a script is not punished for waiting. It is a
 * system call, so the wall clock, which runs at least as fast, is asked first, and the other one only for calls that are
 * about to last: `long_work`, or a millisecond gone. */
static cdz_lua_spent time_spent(cdz_lua_session *S, bool long_work)
{
    const double wall = cdz_now_s(), gone = S->call_wall_s < 0 ? 0 : wall - S->call_wall_s;

    if (S->call_wall_s < 0) S->call_wall_s = wall;
    if (S->call_cpu_s < 0) {
        if (!long_work && gone < SHORT_S) return CDZ_LUA_NOT_SPENT;
        S->call_cpu_s = cdz_thread_s() - (gone < SHORT_S ? gone : SHORT_S);
    }
    const double limit = 1e-3 * (double)S->limits.ms;
    const double call = limit * S->call_rows;
    const double request = limit * CDZ_LUA_REQUEST_CALLS * S->request_rows - S->request_s;
    const double least = call < request ? call : request;

    if (gone <= least) return CDZ_LUA_NOT_SPENT;
    const double ran = cdz_thread_s() - S->call_cpu_s;
    if (ran > call) return CDZ_LUA_SPENT_TIME;
    return ran > request ? CDZ_LUA_SPENT_REQUEST_TIME : CDZ_LUA_NOT_SPENT;
}

/* What the call that ends has run. */
static double time_ran(const cdz_lua_session *S)
{
    if (S->call_cpu_s >= 0) return cdz_thread_s() - S->call_cpu_s;
    if (S->call_wall_s < 0) return 0;
    const double gone = cdz_now_s() - S->call_wall_s;
    return gone < SHORT_S ? gone : SHORT_S;
}

/* --- memory ------------------------------------------------------------------------------------------ */

/* A block that needs much copying is work of one instruction, as in s = s .. s: it is charged for its bytes, and a reason to
 * look at the clock. */
static bool spend_block(cdz_lua_session *S, size_t bytes, size_t had)
{
    const int64_t charge = (int64_t)((bytes - had) / 256);
    const int64_t call = S->limits.instructions * S->call_rows;
    const int64_t request = S->limits.instructions * CDZ_LUA_REQUEST_CALLS * S->request_rows;

    S->call_used += charge;
    S->request_used += charge;
    if (S->call_rows == 0 || bytes < CDZ_LUA_BIG_OP) return true;
    if (!S->spent && S->call_used > call) S->spent = CDZ_LUA_SPENT_INSTRUCTIONS;
    if (!S->spent && S->request_used > request) S->spent = CDZ_LUA_SPENT_REQUEST_INSTRUCTIONS;
    if (!S->spent) S->spent = time_spent(S, false);
    return !S->spent;
}

static void *allocate(void *user, void *old, size_t old_bytes, size_t bytes)
{
    cdz_lua_session *S = user;
    const size_t had = old ? old_bytes : 0;

    if (bytes == 0) {
        S->heap_used -= had;
        free(old);
        return NULL;
    }
    if (bytes > had) {
        const size_t limit = (size_t)S->limits.memory;
        if (S->heap_used > limit || bytes - had > limit - S->heap_used) return NULL;
        if (bytes >= 4096 && !spend_block(S, bytes, had)) return NULL;
    }
    void *block = realloc(old, bytes);
    if (!block && bytes <= had) return old;
    if (!block) {
        S->starved = true;
        return NULL;
    }
    S->heap_used = S->heap_used - had + bytes;
    return block;
}

void *cdz_lua_scratch(lua_State *L, size_t bytes)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (bytes <= S->scratch_bytes) return S->scratch;
    const size_t rounded = (bytes + 63) / 64 * 64;
    void *block = aligned_alloc(64, rounded);
    if (!block) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    free(S->scratch);
    S->scratch = block;
    S->scratch_bytes = rounded;
    return block;
}

int32_t *cdz_lua_ints(lua_State *L, size_t n)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (n <= S->n_ints && S->ints) return S->ints;
    int32_t *block = realloc(S->ints, (n + 16) * sizeof *block);
    if (!block) cdz_lua_spend(L, CDZ_LUA_SPENT_MEMORY);
    S->ints = block;
    S->n_ints = n + 16;
    return block;
}

/* --- budgets ----------------------------------------------------------------------------------------- */

/* Notes where the script stands, without allocating. */
static void note_where(cdz_lua_session *S, lua_State *L)
{
    lua_Debug ar;

    S->where[0] = '\0';
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sl", &ar);
        if (ar.currentline <= 0) continue;
        snprintf(S->where, sizeof S->where, "%s:%d: ", ar.short_src, ar.currentline);
        return;
    }
}

static void spent_sentence(const cdz_lua_session *S, char *out, size_t n)
{
    const long long calls = CDZ_LUA_REQUEST_CALLS;

    switch (S->spent) {
    case CDZ_LUA_SPENT_INSTRUCTIONS:
        snprintf(out, n, "instruction budget spent: %lld per call (budget_instructions)",
                 (long long)S->limits.instructions * S->call_rows);
        break;
    case CDZ_LUA_SPENT_REQUEST_INSTRUCTIONS:
        snprintf(out, n, "instruction budget spent: %lld per request (budget_instructions)",
                 (long long)S->limits.instructions * calls * S->request_rows);
        break;
    case CDZ_LUA_SPENT_TIME:
        snprintf(out, n, "time budget spent: %lld ms per call (budget_ms)",
                 (long long)S->limits.ms * S->call_rows);
        break;
    case CDZ_LUA_SPENT_REQUEST_TIME:
        snprintf(out, n, "time budget spent: %lld ms per request (budget_ms)",
                 (long long)S->limits.ms * calls * S->request_rows);
        break;
    case CDZ_LUA_SPENT_MEMORY:
        snprintf(out, n, "memory budget spent: %lld bytes and %zu of vectors (budget_memory)",
                 (long long)S->limits.memory, S->pool_limit);
        break;
    case CDZ_LUA_SPENT_PATIENCE: snprintf(out, n, "interrupted"); break;
    default: snprintf(out, n, "%s", cdz_status_text(S->status)); break;
    }
}

/* From here on the hook fires at every instruction. */
static int raise_spent(lua_State *L)
{
    char text[160];
    void (*const hook)(lua_State *, lua_Debug *) = lua_gethook(L);

    lua_sethook(L, hook, LUA_MASKCOUNT, 1);
    spent_sentence(cdz_lua_of(L), text, sizeof text);
    return luaL_error(L, "%s", text);
}

void cdz_lua_spend(lua_State *L, cdz_lua_spent why)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (!S->spent) S->spent = why;
    if (!S->where[0]) note_where(S, L);
    raise_spent(L);
}

int cdz_lua_host_failed(lua_State *L, cdz_status status)
{
    cdz_lua_session *S = cdz_lua_of(L);

    if (!S->spent) S->status = status;
    cdz_lua_spend(L, CDZ_LUA_SPENT_STATUS);
    return 0;
}

void cdz_lua_check_spent(lua_State *L)
{
    const cdz_lua_session *S = cdz_lua_of(L);

    if (S->spent) cdz_lua_spend(L, S->spent);
}

void cdz_lua_charge(lua_State *L, int64_t instructions)
{
    cdz_lua_session *S = cdz_lua_of(L);
    const int64_t call = S->limits.instructions * S->call_rows;
    const int64_t request = S->limits.instructions * CDZ_LUA_REQUEST_CALLS * S->request_rows;

    S->call_used += instructions;
    S->request_used += instructions;
    if (S->spent) cdz_lua_spend(L, S->spent);
    if (S->interrupted && S->interrupted(S->interrupt_user))
        cdz_lua_spend(L, CDZ_LUA_SPENT_PATIENCE);
    if (S->call_used > call) cdz_lua_spend(L, CDZ_LUA_SPENT_INSTRUCTIONS);
    if (S->request_used > request) cdz_lua_spend(L, CDZ_LUA_SPENT_REQUEST_INSTRUCTIONS);
}

static void check_time(lua_State *L, bool long_work)
{
    const cdz_lua_spent why = time_spent(cdz_lua_of(L), long_work);

    if (why) cdz_lua_spend(L, why);
}

void cdz_lua_check_time(lua_State *L)
{
    check_time(L, false);
}

void cdz_lua_charge_elements(lua_State *L, size_t n)
{
    cdz_lua_charge(L, (int64_t)(n / 256 + 1));
    if (n >= CDZ_LUA_BIG_OP) check_time(L, n >= LONG_OP);
}

static void on_count(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    cdz_lua_charge(L, HOOK_COUNT);
    check_time(L, false);
}

void cdz_lua_guard_stack(lua_State *L)
{
    const char here = 0;
    const uintptr_t base = cdz_lua_of(L)->stack_base, now = (uintptr_t)&here;

    if ((base > now ? base - now : now - base) > STACK_BYTES) luaL_error(L, "C stack overflow");
}

/* --- errors ------------------------------------------------------------------------------------------ */

static void append(cdz_lua_session *S, size_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(cdz_lua_session *S, size_t *at, const char *fmt, ...)
{
    va_list args;

    if (*at + 1 >= sizeof S->error) return;
    va_start(args, fmt);
    const int n = vsnprintf(S->error + *at, sizeof S->error - *at, fmt, args);
    va_end(args);
    if (n > 0) *at += (size_t)n;
}

/* What a script says must not steer a terminal or break the UTF-8 of an answer: control characters but line ends, and bytes
 * that are no text, become question marks. */
static void clean(char *text)
{
    uint32_t code;

    for (size_t len = strlen(text), n; len > 0; text += n, len -= n) {
        n = cdz_utf8_decode(text, len, &code);
        const bool control = n > 0 && (code < 0x20 || (code >= 0x7f && code < 0xa0));
        if (n > 0 && (!control || code == '\n' || code == '\t')) continue;
        n = n > 0 ? n : 1;
        memset(text, '?', n);
    }
}

/* Only text and numbers are printed: anything else could run the script's __tostring, outside every budget. */
static void write_message(cdz_lua_session *S, size_t *at, lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TSTRING: append(S, at, "%.700s", lua_tostring(L, index)); break;
    case LUA_TNUMBER: append(S, at, "error object: %.14g", lua_tonumber(L, index)); break;
    default: append(S, at, "error object: %s", luaL_typename(L, index)); break;
    }
}

/* The message at index and the calls that led to it into S->error. Allocates nothing in the state. */
static void describe(cdz_lua_session *S, lua_State *L, int index, int level)
{
    lua_Debug ar;
    size_t at = 0;

    write_message(S, &at, L, index);
    for (int n = 0; n < MAX_FRAMES && lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sln", &ar);
        if (ar.currentline <= 0) continue;
        append(S, &at, "\n  at %s:%d", ar.short_src, ar.currentline);
        if (ar.name) append(S, &at, " in %.40s", ar.name);
        n++;
    }
    clean(S->error);
}

static int on_error(lua_State *L)
{
    describe(cdz_lua_of(L), L, 1, 1);
    return 1;
}

/* --- a call ------------------------------------------------------------------------------------------ */

void cdz_lua_slice_begin(cdz_lua_session *S, const cdz_step *step, uint32_t n_rows)
{
    const char here = 0;

    S->step = step;
    S->call_rows = n_rows == 0 ? 1 : n_rows < CDZ_LUA_MAX_FACTOR ? n_rows : CDZ_LUA_MAX_FACTOR;
    S->call_used = 0;
    S->call_wall_s = S->call_cpu_s = -1;
    S->stack_base = (uintptr_t)&here;
    S->error[0] = '\0';
    S->row_set = S->state_writable = S->in_begin = false;
    if (S->kind != CDZ_KIND_STRATEGY)
        S->noise_ready = false; /* a strategy's calls are slices of one */
}

cdz_status cdz_lua_slice_end(cdz_lua_session *S, lua_State *L, int rc)
{
    S->request_s += time_ran(S);
    S->step = NULL;
    if (rc == LUA_ERRMEM && !S->spent) S->spent = CDZ_LUA_SPENT_MEMORY;
    if (S->spent) {
        char text[160];
        if (!S->where[0]) note_where(S, L);
        spent_sentence(S, text, sizeof text);
        snprintf(S->error, sizeof S->error, "%s%s%s",
                 S->where[0] ? "" : cdz_lua_module_name(S->module), S->where[0] ? S->where : ": ",
                 text);
        return S->spent == CDZ_LUA_SPENT_STATUS ? S->status : CDZ_E_PLUGIN;
    }
    if (rc == LUA_OK || rc == LUA_YIELD) return CDZ_OK;
    if (!S->error[0]) describe(S, L, -1, 0);
    return CDZ_E_PLUGIN;
}

cdz_status cdz_lua_enter(cdz_lua_session *S, const cdz_step *step, uint32_t n_rows,
                         lua_CFunction fn, void *arg)
{
    lua_State *L = S->L;

    cdz_lua_slice_begin(S, step, n_rows);
    if (S->spent) return cdz_lua_slice_end(S, L, LUA_OK);
    lua_settop(L, 0);
    lua_pushcfunction(L, on_error);
    lua_pushcfunction(L, fn);
    lua_pushlightuserdata(L, arg);
    const int rc = lua_pcall(L, 1, 0, 1);
    const cdz_status st = cdz_lua_slice_end(S, L, rc);
    lua_settop(L, 0);
    S->scores_clock++;
    S->pass_clock++;
    S->ids_clock++;
    return st;
}

/* --- life -------------------------------------------------------------------------------------------- */

static int open_protected(lua_State *L)
{
    cdz_lua_open_sandbox(L);
    return 0;
}

cdz_status cdz_lua_open(cdz_lua_module *module, uint32_t kind, const cdz_lua_limits *limits,
                        uint32_t n_vocab, cdz_lua_session **out, cdz_error *err)
{
    cdz_lua_session *S = calloc(1, sizeof *S);

    if (!S) return cdz_err_memory_in(err, cdz_lua_module_name(module));
    S->module = module;
    S->kind = kind;
    S->limits = *limits;
    S->vec = cdz_vec_table();
    S->request_rows = 1;
    S->pool_limit =
        CDZ_LUA_POOL_ROWS * sizeof(float) * ((size_t)(n_vocab > 0 ? n_vocab : 65536) + 64);
    S->scores_clock = S->pass_clock = S->ids_clock = S->hidden_clock = 1;
    S->L = lua_newstate(allocate, S);
    if (!S->L) {
        const bool starved = S->starved;
        free(S);
        return starved
                   ? cdz_err_memory_in(err, cdz_lua_module_name(module))
                   : cdz_err(err, CDZ_E_LIMIT, "%s: memory budget spent: no room for a Lua state",
                             cdz_lua_module_name(module));
    }
    *(cdz_lua_session **)lua_getextraspace(S->L) = S;
    const cdz_status st = cdz_lua_enter(S, NULL, 1, open_protected, NULL);
    if (st != CDZ_OK) {
        cdz_err(err, st, "%s", S->error);
        cdz_lua_close(S);
        return st;
    }
    S->request_used = 0;
    lua_sethook(S->L, on_count, LUA_MASKCOUNT, HOOK_COUNT);
    *out = S;
    return CDZ_OK;
}

void cdz_lua_close(cdz_lua_session *S)
{
    if (!S) return;
    lua_close(S->L);
    cdz_lua_free_rooms(S);
    free(S->scratch);
    free(S->ints);
    free(S);
}
