/* session.h - one lua_State of one request: its budgets, its memory, the way in and the way errors come out.
 *
 * A script is loaded anew for every request that uses it, in a state of its own. So nothing a script leaves behind
 * (upvalues, a full heap, a spent budget) reaches another request, no lock is needed, and views of one request cannot
 * meet another's. Loading costs about a tenth of a millisecond.
 *
 * Budgets are spent once and for all: after that every instruction of the script raises the same error again, pcall does
 * not catch it, and the host sees it whatever the script returns. Thread: [engine], the one that runs the request. */
#ifndef CDZ_HOST_LUA_SESSION_H
#define CDZ_HOST_LUA_SESSION_H

#include <lauxlib.h>
#include <lua.h>

#include "base/error.h"
#include "cadenza/ext/vec.h"
#include "cadenza/strategy.h"

#ifdef __clang_analyzer__ /* it does not return, which Lua's declaration cannot say */
int luaL_error(lua_State *L, const char *fmt, ...) __attribute__((analyzer_noreturn));
#endif

typedef struct cdz_lua_module cdz_lua_module; /* script.h */
typedef struct cdz_lua_verb cdz_lua_verb;     /* strategy.c: the verb a strategy waits for */

/* Of one call; a request may spend CDZ_LUA_REQUEST_CALLS times as much per row and 1000 tokens. */
typedef struct cdz_lua_limits {
    int64_t instructions;
    int64_t ms; /* elapsed, as far as the thread really ran: time lost to other processes is not the script's */
    int64_t memory; /* bytes of the script's heap */
} cdz_lua_limits;

#define CDZ_LUA_REQUEST_CALLS 100
#define CDZ_LUA_MAX_FACTOR    10000 /* of limits: 10^12 instructions * 100 * this fits 63 bits */
#define CDZ_LUA_BEGIN_CALLS                                                                        \
    32 /* begin may go through a vocabulary: it may cost as much as so many calls */
#define CDZ_LUA_POOL_ROWS      16 /* vectors of the vocabulary's size a script may hold at once */
#define CDZ_LUA_BIG_OP         65536 /* elements from which an operation looks at the clock */
#define CDZ_LUA_DEFAULT_LIMITS ((cdz_lua_limits){2000000, 50, 8 << 20})
/* Of a file that is looked at: no request waits for it, and a slow machine may need more than a call's time. */
#define CDZ_LUA_FILE_LIMITS ((cdz_lua_limits){2000000, 2000, 8 << 20})

typedef enum cdz_lua_spent {
    CDZ_LUA_NOT_SPENT,
    CDZ_LUA_SPENT_INSTRUCTIONS,
    CDZ_LUA_SPENT_REQUEST_INSTRUCTIONS,
    CDZ_LUA_SPENT_TIME,
    CDZ_LUA_SPENT_REQUEST_TIME,
    CDZ_LUA_SPENT_MEMORY,
    CDZ_LUA_SPENT_PATIENCE, /* interrupted by whoever waits */
    CDZ_LUA_SPENT_STATUS, /* a verb of the host failed: `status` says how, its sentence is already recorded */
} cdz_lua_spent;

/* Values the host keeps in the registry, by address. */
typedef enum cdz_lua_slot {
    CDZ_LUA_SLOT_ENV,    /* the script's globals, as the script sees them */
    CDZ_LUA_SLOT_DEF,    /* the table given to cadenza.processor and its like */
    CDZ_LUA_SLOT_RESULT, /* what the script returned */
    CDZ_LUA_SLOT_PARAMS, /* p */
    CDZ_LUA_SLOT_CTX,
    CDZ_LUA_SLOT_CALL,   /* apply, test or run */
    CDZ_LUA_SLOT_ACCEPT, /* accept, or nil */
    CDZ_LUA_SLOT_STATE,  /* what begin returned */
    CDZ_LUA_SLOT_STATES, /* the rows' copies of it, by number */
    CDZ_LUA_SLOT_FACES,  /* their read-only faces; 0: of what begin returned */
    CDZ_LUA_SLOT_MEMORY, /* a drafter's tables, by row */
    CDZ_LUA_SLOT_COUNT,
} cdz_lua_slot;

typedef struct cdz_lua_session {
    lua_State *L;
    cdz_lua_module *module; /* outlives the session */
    uint32_t kind; /* cdz_kind of the plugin that runs, 0 while the file is being looked at */
    const cdz_step *step; /* of the call that runs; NULL outside and while loading */
    const cdz_vec *vec;
    bool loading; /* the file runs: globals may be written */

    cdz_lua_limits limits;
    uint32_t call_rows, request_rows; /* factors of the limits of a call and of the request */
    int64_t call_used, request_used;  /* instructions */
    double call_wall_s, call_cpu_s;   /* when the call first looked at these clocks; < 0: not yet */
    double request_s;                 /* run time of earlier calls */
    size_t heap_used, pool_used, pool_limit;
    bool starved; /* the system had no memory when the script asked for some */
    cdz_lua_spent spent;
    cdz_status status;
    uintptr_t stack_base; /* where the C stack stood when the call began */
    char where[80];       /* "file.lua:12: " of what spent the budget */
    char error[CDZ_ERROR_TEXT];

    /* Views are valid while the clock they were made under stands still. 0 never occurs. */
    uint64_t scores_clock, ids_clock;
    uint64_t pass_clock;   /* of rows that passes over sequences gave */
    uint64_t hidden_clock; /* of hidden states, a call of on_hidden's */
    /* The row a processor or criterion is asked about. */
    uint32_t row;        /* within the step */
    bool row_set;        /* false in calls that are about no row */
    bool state_writable; /* accept runs */
    bool in_begin;       /* begin or create runs: text may be encoded */
    bool noise_ready;    /* the generator of this row has begun */
    uint64_t noise_at;   /* words drawn from it */
    uint32_t noise[4], noise_block[4];
    int32_t next_state; /* numbers of row states are given once */
    uint32_t log_lines;

    void *scratch; /* 64-byte aligned, for vector operations */
    size_t scratch_bytes;
    int32_t *ints; /* ids read from a table */
    size_t n_ints;

    bool (*interrupted)(void *user); /* asked with every charge; NULL: nobody can */
    void *interrupt_user;
    cdz_decoder *dec; /* strategies */
    cdz_lua_verb *verb;
    bool is_called; /* the host knows its on_hidden */
    uint32_t seqs_made;
    struct cdz_lua_room *rooms; /* rows that copies of scores lie in, taken and free (verbs_copy.c) */
    uint32_t room_rows, room_limit; /* of all rooms; where the collector is asked for some back */
} cdz_lua_session;

/* A fresh state with the sandbox in it. n_vocab sizes the vector pool; 0 when no request exists yet. */
cdz_status cdz_lua_open(cdz_lua_module *module, uint32_t kind, const cdz_lua_limits *limits,
                        uint32_t n_vocab, cdz_lua_session **out, cdz_error *err);
void cdz_lua_close(cdz_lua_session *S); /* NULL is fine */
void cdz_lua_free_rooms(cdz_lua_session *S);

/* Runs fn protected, with arg as its only (light) argument, as one call of the script. On failure S->error has the
 * sentence. n_rows: factor of the call's limits. */
cdz_status cdz_lua_enter(cdz_lua_session *S, const cdz_step *step, uint32_t n_rows,
                         lua_CFunction fn, void *arg);

/* The two halves of enter, for a strategy's coroutine: one slice between two yields is one call. */
void cdz_lua_slice_begin(cdz_lua_session *S, const cdz_step *step, uint32_t n_rows);
/* L: the thread that ran; rc: what lua_pcall or lua_resume said (LUA_YIELD counts as success). */
cdz_status cdz_lua_slice_end(cdz_lua_session *S, lua_State *L, int rc);

static inline cdz_lua_session *cdz_lua_of(lua_State *L)
{
    return *(cdz_lua_session **)lua_getextraspace(L);
}

/* All of these raise a Lua error when a budget is spent. */
void cdz_lua_charge(lua_State *L, int64_t instructions);
void cdz_lua_charge_elements(lua_State *L, size_t n); /* ceil(n / 256), and the clock from BIG_OP */
void cdz_lua_check_time(lua_State *L);                /* now, whatever was charged */
void cdz_lua_check_spent(lua_State *L);
void cdz_lua_spend(lua_State *L, cdz_lua_spent why);
/* The host refused with a status whose sentence it has recorded: the script ends here. */
int cdz_lua_host_failed(lua_State *L, cdz_status status);
/* Before C code calls back into Lua: refuses when the C stack has grown too far. */
void cdz_lua_guard_stack(lua_State *L);

void *cdz_lua_scratch(lua_State *L,
                      size_t bytes); /* raises when memory is out; valid until the next call of it */
int32_t *cdz_lua_ints(lua_State *L, size_t n); /* another buffer of the same kind */

void cdz_lua_get(lua_State *L, cdz_lua_slot slot); /* pushes */
void cdz_lua_set(lua_State *L, cdz_lua_slot slot); /* pops */

#define CDZ_LUA_NO_VERB_HERE "this verb cannot be used inside a sort or gsub callback"

/* sandbox.c. [protected] Pushes nothing; fills the ENV slot. */
void cdz_lua_open_sandbox(lua_State *L);
/* Makes the table on the stack's top read-only: it is replaced by a face of it. */
void cdz_lua_seal(lua_State *L);
/* The text of any value without running script code and without addresses; pushes it. */
const char *cdz_lua_text(lua_State *L, int index, size_t *len);

int cdz_lua_print(lua_State *L); /* print(...): a line for the host's log */
/* Pushes a list of a table's keys: numbers ascending, then strings by bytes; raises for keys of other types. */
void cdz_lua_push_sorted_keys(lua_State *L, int table);

/* row_state.c: if the value at the absolute index is the read-only face of a state's table, replaces it by the table; for
 * functions that read tables raw. */
void cdz_lua_unwrap(lua_State *L, int index);
/* Pushes a field of what a script handed over, and returns its type: nil of what is no table. Reads raw, so that no function of
 * the script runs between two looks at it. */
int cdz_lua_field(lua_State *L, int index, const char *name);

/* Libraries, each pushes one table with its functions. */
void cdz_lua_push_string_lib(lua_State *L);
void cdz_lua_push_table_lib(lua_State *L);
void cdz_lua_push_coroutine_lib(lua_State *L);
/* Wraps the C function on the stack's top so that its string arguments cost an instruction for so many bytes: 256 where they
 * are at most copied, 16 where each is looked at. */
void cdz_lua_wrap_charged(lua_State *L, int bytes);

#endif
