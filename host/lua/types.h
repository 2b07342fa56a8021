/* types.h - the objects scripts hold: vectors, lists of ids, batches, bitsets, generators.
 *
 * A view points into memory of the host (a score row, the ids of a row) and carries the time of the session's clock at
 * which it was made; the clock moves when the call ends or the memory changes, and every use asks first. Objects that own
 * their memory take it from the pool, which is counted apart from the script's heap. */
#ifndef CDZ_HOST_LUA_TYPES_H
#define CDZ_HOST_LUA_TYPES_H

#include "cadenza/strategy.h"
#include "lua/session.h"

#define CDZ_LUA_MAX_LIST  1000000 /* ids read from one table */
#define CDZ_LUA_MAX_TABLE 4096    /* numbers given as one table */

#define CDZ_LUA_VEC     "cadenza.vec"
#define CDZ_LUA_IDS     "cadenza.ids"
#define CDZ_LUA_BATCH   "cadenza.batch"
#define CDZ_LUA_BITSET  "cadenza.bitset"
#define CDZ_LUA_GRAMMAR "cadenza.grammar"
#define CDZ_LUA_RNG     "cadenza.rng"
#define CDZ_LUA_EXPR    "cadenza.expr"

/* Valid for ever when clock is NULL. */
typedef struct cdz_lua_stamp {
    const uint64_t *clock;
    uint64_t time;
} cdz_lua_stamp;

/* Rows and vectors are indexed by token id, from 0; lists of values (of topk, of get) from 1, as Lua lists. */
typedef struct cdz_lua_vec {
    float *data;
    size_t n, owned; /* owned: bytes of the pool; 0: a view */
    cdz_lua_stamp stamp;
    uint32_t base; /* index of the first element */
    bool of_state; /* belongs to a row's state, written by accept only; or is shown to an observer */
} cdz_lua_vec;

/* Read-only token ids, indexed from 1. */
typedef struct cdz_lua_ids {
    const int32_t *at;
    size_t n, owned;
    cdz_lua_stamp stamp;
} cdz_lua_ids;

/* Score rows, numbered from 1. */
typedef struct cdz_lua_batch {
    cdz_scores scores;
    cdz_lua_stamp stamp;
    bool decoder;              /* of a strategy: may have to be mapped, softmax is the decoder's */
    struct cdz_lua_room *room; /* a copy's rows, given back when it is collected; NULL: it is no copy */
} cdz_lua_batch;

typedef struct cdz_lua_bitset {
    uint64_t *words;
    size_t n, owned; /* n: bits; those past n in the last word are 0 */
    bool of_state;
} cdz_lua_bitset;

/* Metatables. [protected] */
void cdz_lua_open_types(lua_State *L);
/* The text tostring shows of an object; pushes it. */
void cdz_lua_describe_object(lua_State *L, int index);
/* ": did you mean 'x'?" for the unknown key at stack index 2, or "": of the keys of the table on the stack's top, or of the
 * methods of the object at index 1. Pushes it. */
const char *cdz_lua_suggest_key(lua_State *L);
const char *cdz_lua_suggest_method(lua_State *L);
/* Every key of the table at `at` is one of these n names; else an error that begins as `wrong` says ("edit 1 has no field") and
 * tells the nearest name, or all where they are few. listed: whole numbers are keys, too. */
void cdz_lua_check_keys(lua_State *L, int at, const char *const *names, size_t n, bool listed,
                        const char *wrong);
/* Defines a type: methods, then metamethods; __index falls back from `index` (may be NULL) to the methods. */
void cdz_lua_define_type(lua_State *L, const char *name, const luaL_Reg *methods,
                         const luaL_Reg *meta, lua_CFunction index);

void *cdz_lua_pool_alloc(lua_State *L,
                         size_t bytes); /* collects garbage when the pool is full, then raises */
void cdz_lua_pool_free(cdz_lua_session *S, void *block, size_t bytes);

cdz_lua_vec *cdz_lua_push_vec(lua_State *L, size_t n, uint32_t base); /* owned, uninitialised */
cdz_lua_vec *cdz_lua_push_view(lua_State *L, float *data,
                               size_t n); /* valid until the scores clock moves */
cdz_lua_ids *cdz_lua_push_ids_view(lua_State *L, cdz_ids ids); /* until the ids clock moves */
int32_t *cdz_lua_push_ids(lua_State *L, size_t n);             /* owned, uninitialised */
cdz_lua_batch *cdz_lua_push_batch(lua_State *L, const cdz_scores *scores, bool decoder);
cdz_lua_batch *cdz_lua_push_pass(lua_State *L,
                                 const cdz_scores *scores);  /* of a pass over sequences */
cdz_lua_bitset *cdz_lua_push_bitset(lua_State *L, size_t n); /* all clear */

/* These raise when the value is of another type or no longer valid. */
cdz_lua_vec *cdz_lua_check_vec(lua_State *L, int index);
cdz_lua_vec *cdz_lua_check_vec_of(lua_State *L, int index,
                                  size_t n);            /* and when its length is not n */
cdz_lua_vec *cdz_lua_test_vec(lua_State *L, int index); /* NULL when it is no vector */
cdz_lua_vec *cdz_lua_check_target(lua_State *L);        /* the first argument, to be written */
void cdz_lua_check_writable(lua_State *L, bool of_state);
cdz_lua_batch *cdz_lua_check_batch(lua_State *L, int index);
cdz_lua_bitset *cdz_lua_check_bitset(lua_State *L, int index, size_t n); /* n 0: any length */
/* Token ids from an ids object, a table of integers or one integer. Valid until the next call that reads a table. */
cdz_ids cdz_lua_check_ids(lua_State *L, int index);
/* Finite or not, rounded once to float32. */
float cdz_lua_check_float(lua_State *L, int index);

void cdz_lua_push_vec_lib(lua_State *L);
void cdz_lua_push_bitset_lib(lua_State *L);
void cdz_lua_open_vec(lua_State *L);
void cdz_lua_open_batch(lua_State *L);
void cdz_lua_open_bitset(lua_State *L);
void cdz_lua_open_grammar(lua_State *L);
/* That of the grammar at index; NULL: it is none, or has not been asked in a request. */
struct cdz_constraint *cdz_lua_constraint_at(lua_State *L, int index);
/* A grammar over one that a request has, which is held. */
void cdz_lua_push_constraint(lua_State *L, struct cdz_constraint *constraint);
int cdz_lua_grammar(lua_State *L); /* cadenza.grammar */
void cdz_lua_open_rng(lua_State *L);
void cdz_lua_open_expr(lua_State *L);
int cdz_lua_vec_expr(lua_State *L); /* vec.expr */
/* Methods of vectors by file; each list ends with a NULL name. */
extern const luaL_Reg cdz_lua_vec_access[], cdz_lua_vec_arith[], cdz_lua_vec_reduce[],
    cdz_lua_vec_dist[], cdz_lua_vec_history[], cdz_lua_vec_formula[];

/* rng.c: the generator of the present call. */
uint32_t cdz_lua_rng_word(lua_State *L);
double cdz_lua_rng_uniform(lua_State *L); /* [0, 1), 32 bits */

#endif
