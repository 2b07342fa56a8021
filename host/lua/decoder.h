/* decoder.h - what the files of a strategy's ctx share: the bridge (strategy.c), the verbs (verbs_*.c). */
#ifndef CDZ_HOST_LUA_DECODER_H
#define CDZ_HOST_LUA_DECODER_H

#include "lua/script.h"
#include "lua/types.h"

#define CDZ_LUA_SEQ      "cadenza.seq"
#define CDZ_LUA_MAX_SEQS 4096

/* A verb that may suspend the fibre or run other plugins. The script's coroutine yields to the bridge, which runs it
 * with no Lua frame on the C stack, and resumes the script with `done`. Lies in a userdata on the coroutine's stack. */
struct cdz_lua_verb {
    cdz_status (*run)(cdz_decoder *dec, cdz_lua_verb *verb);
    int (*done)(lua_State *L, cdz_lua_verb *verb); /* pushes the results; NULL: none */
    cdz_status status;
    cdz_scores *scores; /* of a batch that an argument keeps alive */
    cdz_scores out;
    uint32_t row, n;
    int32_t token;
    cdz_positions positions;
    bool moves_ids, moves_scores, moves_passes; /* views of them end */
    /* Arrays inside the same userdata. */
    int32_t *tokens;
    uint32_t *rows;
    cdz_seq **seqs;
    cdz_ids *ids;
    cdz_stop *stops;
    void *extra;
};

/* Pushes a zeroed verb with n elements in each array and n_ids further ids behind `tokens`. */
cdz_lua_verb *cdz_lua_push_verb(lua_State *L, uint32_t n, size_t n_ids);
/* Yields to the bridge. The verb is at the top of the stack. return cdz_lua_run_verb(L, v); */
int cdz_lua_run_verb(lua_State *L, cdz_lua_verb *verb);

/* Runs a coroutine that has its function and n_args arguments on its stack to its end, and the verbs that it waits for.
 * On failure S->error has the sentence. */
cdz_status cdz_lua_bridge(cdz_lua_session *S, const cdz_step *step, lua_State *co, int n_args);

cdz_decoder *cdz_lua_decoder(lua_State *L); /* raises outside a strategy */
/* A status of a verb that was called directly. */
void cdz_lua_try(lua_State *L, cdz_status status);
cdz_lua_batch *cdz_lua_check_scores(lua_State *L, int index); /* a batch of the decoder's */
/* A row of the request, from 0; without an argument the only one. */
uint32_t cdz_lua_opt_row(lua_State *L, int index);
uint32_t cdz_lua_check_row(lua_State *L, int index, uint32_t n_rows);
int32_t cdz_lua_check_token(lua_State *L, int index);
void cdz_lua_push_tokens(lua_State *L, const int32_t *tokens, uint32_t n);

extern const luaL_Reg cdz_lua_row_verbs[], cdz_lua_score_verbs[], cdz_lua_seq_verbs[],
    cdz_lua_end_verbs[], cdz_lua_search_verbs[], cdz_lua_draft_verbs[], cdz_lua_hidden_verbs[],
    cdz_lua_outside_verbs[], cdz_lua_insert_verbs[], cdz_lua_branch_verbs[], cdz_lua_cache_verbs[];
/* verbs_cache.c: methods of sequences. */
int cdz_lua_seq_drop(lua_State *L);
int cdz_lua_seq_kv(lua_State *L);
int cdz_lua_seq_attention(lua_State *L);
void cdz_lua_open_seq(lua_State *L);
/* steer.c: gives the sequence the edits that are listed behind `at`. */
int cdz_lua_steer_at(lua_State *L, int at, cdz_seq *seq);
/* verbs_copy.c: pushes a copy of the decoder's scores, and what the metatable of scores does with one that is collected. */
int cdz_lua_copy_scores(lua_State *L, const cdz_lua_batch *b);
int cdz_lua_copy_collected(lua_State *L);
int cdz_lua_result(lua_State *L); /* verbs_result.c: ctx:result */
/* verbs_scores.c: a number for each of n rows, of the list at `index`; nil: zeros. Pushes their room. */
const float *cdz_lua_read_addends(lua_State *L, int index, uint32_t n);
/* verbs_hidden.c: the n vectors of the list at `at`, side by side in a userdata that is pushed, `width` numbers each. */
const float *cdz_lua_read_vectors(lua_State *L, int at, const char *name, size_t n, size_t width);
/* verbs_seq.c: what its verbs share with those on drafts. */
cdz_seq **cdz_lua_push_seq(lua_State *L); /* a new, empty object; where its sequence goes */
cdz_seq *cdz_lua_check_seq(lua_State *L, int index);
void cdz_lua_push_row_seq(lua_State *L, uint32_t row);
/* Lists of ids at `index` into the verb's ids, copied; the verb was pushed with room for them. */
size_t cdz_lua_total_ids(lua_State *L, int index, uint32_t *n);
void cdz_lua_read_id_lists(lua_State *L, int index, cdz_lua_verb *v);
/* Request rows at index: a list of as many as the verb has, one number for one; nothing with one row. */
void cdz_lua_read_rows(lua_State *L, int index, cdz_lua_verb *v);
/* The number of sequences at index, a list or one; and the verb's n of them. */
uint32_t cdz_lua_count_seqs(lua_State *L, int index);
void cdz_lua_read_seqs(lua_State *L, int index, cdz_lua_verb *v);
uint32_t cdz_lua_seq_values(lua_State *L,
                            int index); /* that their model's head gives, of the first */
void cdz_lua_push_stop(lua_State *L, const cdz_stop *stop); /* its reason; false: it goes on */

#endif
