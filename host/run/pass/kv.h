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
 * Accounts. A request opens one account per model and reserves its worst case on admission; blocks within the
 * reservation can always be had. Beyond it a request takes what nobody has reserved, or is told that there is none.
 *
 * Packed pools. A model has a pool more for each way of packing that requests ask for (kernels.h, cdz_kv_packing): its
 * blocks are spans. A sequence of such a request keeps its newest positions in a ring of plain blocks, as many as cdz_kv_ring
 * says, and older ones in spans of the account beside its own; a pass takes at most CDZ_KV_CHUNK of its positions, so that what they
 * read is still in the ring.
 * Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_KV_H
#define CDZ_HOST_RUN_PASS_KV_H

#include "base/error.h"
#include "kernels.h"

/* Of one pool: two million positions. Backends size the working memory of attention by it. */
enum { CDZ_KV_MOST_BLOCKS = 1 << 16, CDZ_KV_CHUNK = 128 };

typedef struct cdz_kv_pool cdz_kv_pool;

/* Bytes that all pools of one engine may hold, and have promised. */
typedef struct cdz_kv_budget {
    uint64_t limit, committed;
} cdz_kv_budget;

typedef struct cdz_kv_account cdz_kv_account;
struct cdz_kv_account {
    cdz_kv_pool *pool;
    uint32_t reserved, used; /* blocks */
    cdz_kv_account *spans;   /* where older positions are packed; NULL: nowhere */
};

typedef struct cdz_kv_counts {
    uint32_t used, peak; /* blocks */
} cdz_kv_counts;

/* bytes: of the store, at most the budget's limit. */
cdz_status cdz_kv_pool_create(cdz_backend *backend, const cdz_kv_shape *shape, cdz_kv_budget *budget,
                              uint64_t bytes, cdz_kv_pool **out, cdz_error *err);
cdz_status cdz_kv_pool_create_packed(cdz_backend *backend, const cdz_kv_shape *shape,
                                     const cdz_kv_packing *packing, cdz_kv_budget *budget,
                                     uint64_t bytes, cdz_kv_pool **out, cdz_error *err);
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

/* Gives back what is reserved beyond the blocks in use. */
void cdz_kv_trim(cdz_kv_account *account);

/* A block of one's own, holding anything finite. */
cdz_status cdz_kv_take(cdz_kv_account *account, int32_t *block, cdz_error *err);
void cdz_kv_share(cdz_kv_pool *pool, int32_t block); /* one more holder */
void cdz_kv_drop(cdz_kv_account *account, int32_t block);
bool cdz_kv_shared(const cdz_kv_pool *pool, int32_t block);
void cdz_kv_clone(cdz_kv_pool *pool, int32_t to, int32_t from); /* contents */

/* Checked builds: a count of who holds what, over a whole pool. Begin, show it every account and every table of blocks,
 * end: used <= committed <= there are, each block has as many holders as tables name it, accounts add up. */
void cdz_kv_census_begin(cdz_kv_pool *pool);
void cdz_kv_census_account(const cdz_kv_account *account); /* zeroed is fine */
void cdz_kv_census_blocks(const cdz_kv_account *account, const int32_t *blocks, uint32_t n);
void cdz_kv_census_end(const cdz_kv_pool *pool);
uint64_t cdz_kv_pool_committed(const cdz_kv_pool *pool); /* bytes held or promised */

#endif
