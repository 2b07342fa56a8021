/* kv.h - the paged KV memory of one model: who holds which block, and how much may be held.
 *
 * A block holds CDZ_KV_BLOCK positions of every layer in the backend's store. Blocks are reference-counted:
 * sequences that share a beginning share its blocks, and the first to write into a shared block copies it.
 *
 * Memory. A pool's store is created once. On the CPU it is as large as the whole budget allows, in memory that the
 * system gives page by page on first touch; a device's memory is taken at once, and the pools there share it out.
 * Blocks are handed out lowest first and reused before fresh ones, so a pool occupies what its own peak needed. The
 * budget in bytes is common to all pools of one engine: what all requests together may hold at a time.
 *
 * Accounts. A request opens one account per model and reserves blocks on admission: its worst case, or where its
 * blocks may be taken from it (yields) those that it begins with. Blocks within the reservation can always be had. Beyond it a
 * request takes what nobody has reserved; where there is none it waits for the youngest's (engine/room.c), or is told so.
 *
 * Found again. Where a pool keeps a list (prefix.h), whole blocks are listed under the ids that they hold. A listed block
 * is the pool's: no account pays for it, its contents stay, and any request may come to hold it. What an account had
 * reserved for it is lent to the pool as long as anybody holds the block, and comes back with the last holder if that
 * is of the account. When nobody holds it, it rests: nothing is promised for it, and it is handed out when there is no
 * other block, or when those that rest and what is promised together are more than the budget.
 *
 * Packed pools. A model has a pool more for each way of packing that requests ask for (kernels.h, cdz_kv_packing): its
 * blocks are spans. A sequence of such a request keeps its newest positions in a ring of plain blocks, as many as cdz_kv_ring
 * says, and older ones in spans of the account beside its own; a pass takes at most CDZ_KV_CHUNK of its positions, so that what they
 * read is still in the ring.
 *
 * Pools of states. A model with recurrent layers has a pool more: a block of it is all that those layers have of one sequence after
 * some position. It is held, shared and copied before it is written as others are.
 * Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_KV_H
#define CDZ_HOST_RUN_PASS_KV_H

#include "base/error.h"
#include "kernels.h"
#include "run/pass/prefix.h"

/* Of one pool: two million positions. Backends size the working memory of attention by it. */
enum { CDZ_KV_MOST_BLOCKS = 1 << 16, CDZ_KV_CHUNK = 128 };

typedef struct cdz_kv_pool cdz_kv_pool;

/* Bytes that all pools of one engine may hold, and have promised. */
typedef struct cdz_kv_budget {
    uint64_t limit, committed;
    uint64_t resting; /* bytes of blocks that nobody holds and that may be found */
    /* So far: positions that were looked for and found; sequences that were not looked for; blocks given away. */
    uint64_t looked_for, found, refused, given_away;
} cdz_kv_budget;

typedef struct cdz_kv_account cdz_kv_account;
struct cdz_kv_account {
    cdz_kv_pool *pool;
    uint32_t reserved, used; /* blocks */
    uint32_t lent;           /* reserved once, for blocks that are listed now */
    cdz_kv_account *spans;   /* where older positions are packed; NULL: nowhere */
    cdz_kv_account *states;  /* of recurrent layers; NULL: there are none */
    bool lists;              /* its blocks may be found, and it may find some */
    bool yields;   /* its blocks may be taken from it, and computed again (engine/room.c) */
    bool short_of; /* a block was wanted, and there was none to take */
    uint8_t salt[CDZ_PREFIX_SALT];
};

typedef struct cdz_kv_counts {
    uint32_t used, peak, resting; /* blocks */
} cdz_kv_counts;

/* bytes: of the store, at most the budget's limit. */
cdz_status cdz_kv_pool_create(cdz_backend *backend, const cdz_kv_shape *shape, cdz_kv_budget *budget,
                              uint64_t bytes, cdz_kv_pool **out, cdz_error *err);
cdz_status cdz_kv_pool_create_packed(cdz_backend *backend, const cdz_kv_shape *shape,
                                     const cdz_kv_packing *packing, cdz_kv_budget *budget,
                                     uint64_t bytes, cdz_kv_pool **out, cdz_error *err);
/* floats: of a state. */
cdz_status cdz_kv_pool_create_states(cdz_backend *backend, uint64_t floats, cdz_kv_budget *budget,
                                     uint64_t bytes, cdz_kv_pool **out, cdz_error *err);
float *cdz_kv_state(const cdz_kv_pool *pool, int32_t block);     /* one that is held */
void cdz_kv_state_clear(const cdz_kv_pool *pool, int32_t block); /* as before the first position */
const cdz_kv_packing *cdz_kv_pool_packing(const cdz_kv_pool *pool); /* NULL: a plain one */
/* Plain blocks of a sequence that is packed so, at most. */
uint32_t cdz_kv_ring(const cdz_kv_packing *packing);
void cdz_kv_pool_free(cdz_kv_pool *pool); /* NULL is fine; no account may be open */
cdz_kv *cdz_kv_pool_store(cdz_kv_pool *pool);
cdz_kv_counts cdz_kv_pool_counts(const cdz_kv_pool *pool);
uint32_t cdz_kv_pool_blocks(const cdz_kv_pool *pool); /* in all */
uint64_t cdz_kv_pool_bytes(const cdz_kv_pool *pool);
bool cdz_kv_pool_idle(const cdz_kv_pool *pool); /* no account is open */
/* Whether sequences may hold blocks together; they may, unless told otherwise while the pool is idle. */
void cdz_kv_pool_set_sharing(cdz_kv_pool *pool, bool shares);
bool cdz_kv_pool_shares(const cdz_kv_pool *pool);

/* Blocks that n positions fill. */
uint32_t cdz_kv_blocks_for(uint64_t n_positions);

/* Opens an account with n_blocks reserved; false when the budget has not that many free now. */
bool cdz_kv_open(cdz_kv_pool *pool, uint32_t n_blocks, cdz_kv_account *out);
/* Gives the reservation back. All blocks must have been dropped. A zeroed account is fine. */
void cdz_kv_close(cdz_kv_account *account);

uint32_t cdz_kv_room(const cdz_kv_pool *pool); /* blocks that could be reserved now */

/* Gives back what is reserved beyond the blocks in use. */
void cdz_kv_trim(cdz_kv_account *account);

/* A block of one's own, holding anything finite. */
cdz_status cdz_kv_take(cdz_kv_account *account, int32_t *block, cdz_error *err);
void cdz_kv_share(cdz_kv_pool *pool, int32_t block); /* one more holder */
void cdz_kv_drop(cdz_kv_account *account, int32_t block);
bool cdz_kv_shared(const cdz_kv_pool *pool, int32_t block);     /* by two tables or more */
void cdz_kv_clone(cdz_kv_pool *pool, int32_t to, int32_t from); /* contents */

/* --- blocks that are found again --- */

/* Keeps a list from now on. */
cdz_status cdz_kv_pool_list(cdz_kv_pool *pool, cdz_error *err);
bool cdz_kv_pool_lists(const cdz_kv_pool *pool);
/* What blocks hold is not to be trusted: none is listed or found any more. */
void cdz_kv_pool_distrust(cdz_kv_pool *pool);
void cdz_kv_note_looked(cdz_kv_pool *pool, uint32_t n_positions);
void cdz_kv_note_found(cdz_kv_pool *pool, uint32_t n_positions);
void cdz_kv_note_refused(cdz_kv_pool *pool);
uint64_t cdz_kv_serial(const cdz_kv_pool *pool, int32_t block); /* 0: not listed */

/* One more holder of the block that is listed so; false: there is none, or no room to hold it. */
bool cdz_kv_find(cdz_kv_account *account, const cdz_prefix_key *key, int32_t *block);
/* Lists a block of the account's. Where another is listed so already, that one takes its place in the table. False: it is
 * not listed, and stays the account's. */
bool cdz_kv_list(cdz_kv_account *account, const cdz_prefix_key *key, int32_t *block);
/* Takes a block that only this account's one table holds off the list, to be written to. */
void cdz_kv_claim(cdz_kv_account *account, int32_t block);

/* --- blocks that are kept elsewhere, and come back --- */

/* A block of the list as it was seen; its contents never change while it has this serial. */
typedef struct cdz_kv_listed {
    int32_t block;
    uint64_t serial;
} cdz_kv_listed;

/* The contents of blocks can be had as bytes. */
bool cdz_kv_pool_reads(const cdz_kv_pool *pool);
uint64_t cdz_kv_pool_block_bytes(const cdz_kv_pool *pool);
/* All that are listed, each behind the block before it and then those first that are worth most (free it); NULL: out of
 * memory. */
cdz_kv_listed *cdz_kv_listing(const cdz_kv_pool *pool, uint32_t *n);
/* The one of this key behind another (NULL: none is before it). Nobody holds it for that. */
bool cdz_kv_peek(const cdz_kv_pool *pool, const cdz_kv_listed *before, cdz_prefix_key *key,
                 cdz_kv_listed *out);
/* Its key, which is good until the list changes, and its bytes. False: it is not listed so any more. */
bool cdz_kv_read(const cdz_kv_pool *pool, const cdz_kv_listed *listed, cdz_prefix_key *key,
                 void *bytes);
/* Lists a block of these contents, which nobody holds and which goes before all others when blocks are needed; where one is
 * listed so already that one stays. False: there is no room for it, or the block before is gone. */
bool cdz_kv_restore(cdz_kv_pool *pool, const cdz_kv_listed *before, cdz_prefix_key *key,
                    const void *bytes, cdz_kv_listed *out);

/* Checked builds: a count of who holds what, over a whole pool. Begin, show it every account and every table of blocks,
 * end: used <= committed <= there are, each block has as many holders as tables name it, accounts add up. */
void cdz_kv_census_begin(cdz_kv_pool *pool);
void cdz_kv_census_account(const cdz_kv_account *account); /* zeroed is fine */
void cdz_kv_census_blocks(const cdz_kv_account *account, const int32_t *blocks, uint32_t n);
void cdz_kv_census_end(const cdz_kv_pool *pool);
uint64_t cdz_kv_pool_committed(const cdz_kv_pool *pool); /* bytes held or promised */

#endif
