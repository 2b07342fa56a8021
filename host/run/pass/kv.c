/* kv.c - block bookkeeping over the backend's KV store.
 *
 * Owns: who holds which block, and how much is promised. Not: what is in a block (the backend), which positions (sequence.c).
 * Invariant: a block has as many holders as sequences name it, used <= committed <= blocks, and committed is what accounts
 * have reserved or hold, whichever is more; the census counts all of it between two ticks (run/engine/walk.c). */
#include "run/pass/kv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct cdz_kv_pool {
    cdz_backend *backend;
    cdz_kv *store;
    cdz_kv_budget *budget;
    cdz_kv_packing packing; /* bits 0: a plain one */
    float **states; /* (n_blocks) of a pool of states, which has no store: memory of each; NULL: never handed out */
    float *all_states;  /* of a device, whose memory is taken at once; NULL: each is by itself */
    uint32_t positions; /* of a block */
    uint64_t block_bytes;
    uint32_t n_blocks, committed; /* in all, and held or reserved */
    uint32_t n_fresh;             /* blocks never handed out are [n_fresh, n_blocks) */
    uint32_t *holders;            /* (n_blocks) sequences that have the block in their table */
    int32_t *returned; /* (n_returned) blocks that came back, the last one goes out first */
    uint32_t n_returned;
    bool shares_nothing;
    cdz_prefix_list *list; /* NULL: there is none */
    bool distrusted;       /* nothing is listed or found any more */
    uint32_t n_common;     /* listed blocks that somebody holds: committed for the pool itself */
    cdz_kv_counts counts;
    uint32_t *seen,
        promised; /* census: (n_blocks) tables that name a block, and what accounts have; checked builds */
};

static uint64_t bytes_of_block(cdz_backend *backend, const cdz_kv_shape *shape,
                               const cdz_kv_packing *packing)
{
    if (!packing) return backend->api->kv_block_bytes(backend, shape);
    if (!backend->api->packed_block_bytes) return 0;
    return backend->api->packed_block_bytes(backend, shape, packing);
}

static cdz_kv *make_store(const cdz_kv_pool *pool, const cdz_kv_shape *shape)
{
    const cdz_backend_api *api = pool->backend->api;
    return pool->packing.bits
               ? api->packed_create(pool->backend, shape, &pool->packing, pool->n_blocks)
               : api->kv_create(pool->backend, shape, pool->n_blocks);
}

/* A pool of n blocks, but for what they lie in. */
static cdz_kv_pool *new_pool(cdz_backend *backend, cdz_kv_budget *budget, uint64_t n,
                             uint64_t bytes, uint32_t positions)
{
    cdz_kv_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->backend = backend;
    pool->budget = budget;
    pool->positions = positions;
    pool->block_bytes = bytes;
    pool->n_blocks = (uint32_t)n;
    pool->holders = calloc(n, sizeof *pool->holders);
    pool->returned = calloc(n, sizeof *pool->returned);
#ifdef CDZ_CHECKED
    pool->seen = calloc(n, sizeof *pool->seen);
#endif
    if (pool->holders && pool->returned) return pool;
    cdz_kv_pool_free(pool);
    return NULL;
}

static cdz_status create(cdz_backend *backend, const cdz_kv_shape *shape,
                         const cdz_kv_packing *packing, cdz_kv_budget *budget, uint64_t all_bytes,
                         cdz_kv_pool **out, cdz_error *err)
{
    const uint64_t bytes = bytes_of_block(backend, shape, packing);
    const uint32_t positions = packing ? cdz_kv_span(packing) : CDZ_KV_BLOCK;
    if (bytes == 0 || all_bytes < bytes)
        return cdz_err(err, CDZ_E_LIMIT,
                       "KV memory: %" PRIu64 " bytes allowed, one block of %" PRIu32
                       " positions of this model takes %" PRIu64,
                       all_bytes, positions, bytes);
    const uint64_t most = (uint64_t)CDZ_KV_MOST_BLOCKS * CDZ_KV_BLOCK / positions;
    const uint64_t n = all_bytes / bytes < most ? all_bytes / bytes : most;

    cdz_kv_pool *pool = new_pool(backend, budget, n, bytes, positions);
    if (!pool) return cdz_err(err, CDZ_E_NOMEM, "KV memory: out of memory");
    if (packing) pool->packing = *packing;
    pool->store = make_store(pool, shape);
    if (!pool->store) {
        cdz_kv_pool_free(pool);
        return cdz_err(err, CDZ_E_NOMEM,
                       "KV memory: cannot get %s for %" PRIu64 " blocks of %" PRIu64
                       " bytes; lower the KV memory limit",
                       backend->api->host_memory ? "address space" : "memory of the device", n,
                       bytes);
    }
    *out = pool;
    return CDZ_OK;
}

cdz_status cdz_kv_pool_create(cdz_backend *backend, const cdz_kv_shape *shape, cdz_kv_budget *budget,
                              uint64_t bytes, cdz_kv_pool **out, cdz_error *err)
{
    return create(backend, shape, NULL, budget, bytes, out, err);
}

cdz_status cdz_kv_pool_create_packed(cdz_backend *backend, const cdz_kv_shape *shape,
                                     const cdz_kv_packing *packing, cdz_kv_budget *budget,
                                     uint64_t bytes, cdz_kv_pool **out, cdz_error *err)
{
    return create(backend, shape, packing, budget, bytes, out, err);
}

/* A device's memory is taken at once: what is free now may be another's later. */
static bool take_states(cdz_kv_pool *pool)
{
    const cdz_backend_api *api = pool->backend->api;
    pool->states = calloc(pool->n_blocks, sizeof *pool->states);
    if (!pool->states || api->host_memory) return pool->states;
    pool->all_states = api->alloc(pool->backend, pool->n_blocks * pool->block_bytes);
    for (uint32_t i = 0; pool->all_states && i < pool->n_blocks; i++)
        pool->states[i] = pool->all_states + i * (pool->block_bytes / sizeof(float));
    return pool->all_states;
}

cdz_status cdz_kv_pool_create_states(cdz_backend *backend, uint64_t floats, cdz_kv_budget *budget,
                                     uint64_t all_bytes, cdz_kv_pool **out, cdz_error *err)
{
    const uint64_t bytes = floats * sizeof(float);
    if (bytes == 0 || all_bytes < bytes)
        return cdz_err(err, CDZ_E_LIMIT,
                       "KV memory: %" PRIu64
                       " bytes allowed, the recurrent state of one sequence of this model takes "
                       "%" PRIu64,
                       all_bytes, bytes);
    const uint64_t n =
        all_bytes / bytes < CDZ_KV_MOST_BLOCKS ? all_bytes / bytes : CDZ_KV_MOST_BLOCKS;
    cdz_kv_pool *pool = new_pool(backend, budget, n, bytes, 1);
    if (!pool || !take_states(pool)) {
        cdz_kv_pool_free(pool);
        return cdz_err(err, CDZ_E_NOMEM,
                       "KV memory: cannot get memory for %" PRIu64 " recurrent states of %" PRIu64
                       " bytes; lower the KV memory limit",
                       n, bytes);
    }
    *out = pool;
    return CDZ_OK;
}

float *cdz_kv_state(const cdz_kv_pool *pool, int32_t block)
{
    cdz_assert(pool->holders[block] > 0);
    return pool->states[block];
}

void cdz_kv_state_clear(const cdz_kv_pool *pool, int32_t block)
{
    pool->backend->api->clear(pool->backend, cdz_kv_state(pool, block), pool->block_bytes);
}

const cdz_kv_packing *cdz_kv_pool_packing(const cdz_kv_pool *pool)
{
    return pool->packing.bits ? &pool->packing : NULL;
}

uint32_t cdz_kv_ring(const cdz_kv_packing *packing)
{
    const uint64_t positions =
        (uint64_t)CDZ_KV_CHUNK + packing->residual + cdz_kv_span(packing) + CDZ_KV_BLOCK - 1;
    return (uint32_t)(positions / CDZ_KV_BLOCK);
}

static void free_states(cdz_kv_pool *pool)
{
    cdz_backend *b = pool->backend;
    if (pool->all_states) b->api->free(b, pool->all_states);
    for (uint32_t i = 0; pool->states && !pool->all_states && i < pool->n_blocks; i++)
        if (pool->states[i]) b->api->free(b, pool->states[i]);
    free(pool->states);
}

void cdz_kv_pool_free(cdz_kv_pool *pool)
{
    if (!pool) return;
    cdz_assert(pool->committed == 0 && pool->counts.used == 0);
    if (pool->list) pool->budget->resting -= cdz_prefix_n_resting(pool->list) * pool->block_bytes;
    cdz_prefix_free(pool->list);
    if (pool->store) pool->backend->api->kv_destroy(pool->backend, pool->store);
    free_states(pool);
    free(pool->holders);
    free(pool->returned);
    free(pool->seen);
    free(pool);
}

cdz_kv *cdz_kv_pool_store(cdz_kv_pool *pool)
{
    return pool->store;
}

uint32_t cdz_kv_pool_blocks(const cdz_kv_pool *pool)
{
    return pool->n_blocks;
}

uint64_t cdz_kv_pool_bytes(const cdz_kv_pool *pool)
{
    return pool->n_blocks * pool->block_bytes;
}

bool cdz_kv_pool_idle(const cdz_kv_pool *pool)
{
    return pool->committed == 0;
}

void cdz_kv_pool_set_sharing(cdz_kv_pool *pool, bool shares)
{
    pool->shares_nothing = !shares;
}

bool cdz_kv_pool_shares(const cdz_kv_pool *pool)
{
    return !pool->shares_nothing;
}

cdz_kv_counts cdz_kv_pool_counts(const cdz_kv_pool *pool)
{
    cdz_kv_counts counts = pool->counts;
    if (pool->list) counts.resting = cdz_prefix_n_resting(pool->list);
    return counts;
}

uint32_t cdz_kv_blocks_for(uint64_t n_positions)
{
    const uint64_t n = n_positions / CDZ_KV_BLOCK + (n_positions % CDZ_KV_BLOCK != 0);
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Promises n more blocks of this pool, or none. */
static bool commit(cdz_kv_pool *pool, uint32_t n)
{
    cdz_kv_budget *budget = pool->budget;
    const uint64_t bytes = (uint64_t)n * pool->block_bytes;
    if (n && bytes / n != pool->block_bytes) return false;
    if (n > pool->n_blocks - pool->committed || bytes > budget->limit - budget->committed)
        return false;
    pool->committed += n;
    budget->committed += bytes;
    return true;
}

static void uncommit(cdz_kv_pool *pool, uint32_t n)
{
    cdz_assert(n <= pool->committed);
    pool->committed -= n;
    pool->budget->committed -= (uint64_t)n * pool->block_bytes;
}

uint32_t cdz_kv_room(const cdz_kv_pool *pool)
{
    const cdz_kv_budget *budget = pool->budget;
    const uint64_t own = pool->n_blocks - pool->committed,
                   all = (budget->limit - budget->committed) / pool->block_bytes;
    return (uint32_t)(own < all ? own : all);
}

bool cdz_kv_open(cdz_kv_pool *pool, uint32_t n_blocks, cdz_kv_account *out)
{
    if (!commit(pool, n_blocks)) return false;
    *out = (cdz_kv_account){.pool = pool, .reserved = n_blocks};
    return true;
}

void cdz_kv_close(cdz_kv_account *account)
{
    if (!account->pool) return;
    cdz_assert(account->used == 0);
    uncommit(account->pool, account->reserved);
    *account = (cdz_kv_account){0};
}

void cdz_kv_trim(cdz_kv_account *account)
{
    if (!account->pool) return;
    if (account->reserved > account->used)
        uncommit(account->pool, account->reserved - account->used);
    account->reserved =
        account->used; /* what was taken beyond the reservation is committed already */
    account->lent = 0;
}

static bool is_listed(const cdz_kv_pool *pool, int32_t block)
{
    return pool->list && cdz_prefix_serial(pool->list, block) != 0;
}

/* A block that has rested longest, off the list. */
static int32_t give_away(cdz_kv_pool *pool)
{
    const int32_t block = cdz_prefix_give(pool->list);
    pool->budget->resting -= pool->block_bytes;
    pool->budget->given_away++;
    return block;
}

/* A block that nobody holds: there is one, since fewer are held than there are. */
static int32_t free_block(cdz_kv_pool *pool)
{
    const cdz_kv_budget *budget = pool->budget;
    const uint32_t resting = pool->list ? cdz_prefix_n_resting(pool->list) : 0;
    if (pool->n_returned) return pool->returned[--pool->n_returned];
    const bool full =
        pool->n_fresh == pool->n_blocks || budget->committed + budget->resting > budget->limit;
    return resting && full ? give_away(pool) : (int32_t)pool->n_fresh++;
}

static void note_held(cdz_kv_pool *pool)
{
    if (++pool->counts.used > pool->counts.peak) pool->counts.peak = pool->counts.used;
}

static cdz_status is_full(const cdz_kv_account *account, cdz_error *err)
{
    const cdz_kv_pool *pool = account->pool;
    if (pool->states)
        return cdz_err(err, CDZ_E_LIMIT,
                       "KV memory is full: this request holds %" PRIu32
                       " recurrent states (%" PRIu32 " were reserved for it), and of %" PRIu64
                       " bytes allowed %" PRIu64 " are held or reserved",
                       account->used, account->reserved, pool->budget->limit,
                       pool->budget->committed);
    return cdz_err(err, CDZ_E_LIMIT,
                   "KV memory is full: this request holds %" PRIu32 " blocks of %" PRIu32
                   " positions (%" PRIu32 " were reserved for it), and of %" PRIu64
                   " bytes allowed %" PRIu64 " are held or reserved",
                   account->used, pool->positions, account->reserved, pool->budget->limit,
                   pool->budget->committed);
}

/* Memory of a state that has never been handed out. */
static bool has_memory(cdz_kv_pool *pool, int32_t block)
{
    if (!pool->states || pool->states[block]) return true;
    pool->states[block] = pool->backend->api->alloc(pool->backend, pool->block_bytes);
    return pool->states[block] != NULL;
}

/* Blocks in use are never more than those committed: when committing succeeded there is a block. */
cdz_status cdz_kv_take(cdz_kv_account *account, int32_t *block, cdz_error *err)
{
    cdz_kv_pool *pool = account->pool;
    account->short_of = account->used >= account->reserved && !commit(pool, 1);
    if (account->short_of) return is_full(account, err);
    cdz_assert(pool->counts.used < pool->committed);
    *block = free_block(pool);
    pool->holders[*block] = 1;
    account->used++;
    note_held(pool);
    if (has_memory(pool, *block)) return CDZ_OK;
    cdz_kv_drop(account, *block);
    return cdz_err_memory(err, "the recurrent state of a sequence");
}

void cdz_kv_share(cdz_kv_pool *pool, int32_t block)
{
    cdz_assert(pool->holders[block] > 0);
    pool->holders[block]++;
}

/* What the pool had committed for a block goes back to the account that lent it, or to nobody. */
static void return_lent(cdz_kv_account *account)
{
    account->pool->n_common--;
    if (account->lent == 0 || account->used > account->reserved) uncommit(account->pool, 1);
    if (account->lent == 0) return;
    account->lent--;
    account->reserved++;
}

void cdz_kv_drop(cdz_kv_account *account, int32_t block)
{
    cdz_kv_pool *pool = account->pool;
    cdz_assert(pool->holders[block] > 0);
    if (--pool->holders[block] > 0) return;
    if (is_listed(pool, block)) {
        return_lent(account);
        pool->counts.used--;
        cdz_prefix_rest(pool->list, block);
        pool->budget->resting += pool->block_bytes;
        return;
    }
    cdz_assert(account->used > 0);
    pool->returned[pool->n_returned++] = block;
    pool->counts.used--;
    account->used--;
    if (account->used >= account->reserved) uncommit(pool, 1);
}

bool cdz_kv_shared(const cdz_kv_pool *pool, int32_t block)
{
    cdz_assert(pool->holders[block] > 0);
    return pool->holders[block] > 1;
}

void cdz_kv_clone(cdz_kv_pool *pool, int32_t to, int32_t from)
{
    cdz_backend *b = pool->backend;
    if (pool->states)
        b->api->copy(b, pool->states[to], pool->states[from], pool->block_bytes);
    else
        b->api->kv_copy(b, pool->store, to, from);
}

/* --- blocks that are found again ----------------------------------------------------------------------------------- */

cdz_status cdz_kv_pool_list(cdz_kv_pool *pool, cdz_error *err)
{
    if (!pool->list) pool->list = cdz_prefix_create(pool->n_blocks);
    return pool->list ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "KV memory: out of memory");
}

bool cdz_kv_pool_lists(const cdz_kv_pool *pool)
{
    return pool->list && !pool->distrusted;
}

void cdz_kv_pool_distrust(cdz_kv_pool *pool)
{
    pool->distrusted = true;
}

void cdz_kv_note_looked(cdz_kv_pool *pool, uint32_t n_positions)
{
    pool->budget->looked_for += n_positions;
}

void cdz_kv_note_found(cdz_kv_pool *pool, uint32_t n_positions)
{
    pool->budget->found += n_positions;
}

void cdz_kv_note_refused(cdz_kv_pool *pool)
{
    pool->budget->refused++;
}

uint64_t cdz_kv_serial(const cdz_kv_pool *pool, int32_t block)
{
    return pool->list ? cdz_prefix_serial(pool->list, block) : 0;
}

/* The account's promise for a block is not needed while it holds a listed one. False: it has none to spare. */
static bool lend(cdz_kv_account *account)
{
    if (account->used >= account->reserved) return false;
    account->reserved--;
    account->lent++;
    return true;
}

/* One more holder of a listed block. */
static bool hold(cdz_kv_account *account, int32_t block)
{
    cdz_kv_pool *pool = account->pool;
    if (cdz_prefix_rests(pool->list, block)) {
        if (!lend(account) && !commit(pool, 1)) return false;
        cdz_prefix_wake(pool->list, block);
        pool->budget->resting -= pool->block_bytes;
        pool->n_common++;
        note_held(pool);
    }
    pool->holders[block]++;
    return true;
}

bool cdz_kv_find(cdz_kv_account *account, const cdz_prefix_key *key, int32_t *block)
{
    cdz_kv_pool *pool = account->pool;
    if (!cdz_kv_pool_lists(pool)) return false;
    const int32_t found = cdz_prefix_find(pool->list, key);
    if (found < 0 || !hold(account, found)) return false;
    *block = found;
    return true;
}

bool cdz_kv_list(cdz_kv_account *account, const cdz_prefix_key *key, int32_t *block)
{
    cdz_kv_pool *pool = account->pool;
    if (!cdz_kv_pool_lists(pool)) return false;
    const int32_t same = cdz_prefix_find(pool->list, key);
    if (same >= 0) { /* what only one table holds goes first: then there is room for the other */
        const bool alone = pool->holders[*block] == 1;
        if (alone) cdz_kv_drop(account, *block);
        const bool held = hold(account, same);
        cdz_assert(held || !alone);
        if (!held) return false;
        if (!alone) cdz_kv_drop(account, *block);
        *block = same;
        return true;
    }
    cdz_assert(account->used > 0 && !is_listed(pool, *block));
    cdz_prefix_add(pool->list, *block, key);
    account->used--;
    pool->n_common++;
    if (account->reserved) { /* the promise goes over to the pool; what was taken beyond it is committed already */
        account->reserved--;
        account->lent++;
    }
    return true;
}

void cdz_kv_claim(cdz_kv_account *account, int32_t block)
{
    cdz_kv_pool *pool = account->pool;
    if (!is_listed(pool, block)) return;
    cdz_assert(pool->holders[block] == 1);
    cdz_prefix_remove(pool->list, block);
    return_lent(account);
    if (account->used++ >= account->reserved) {
        pool->committed++;
        pool->budget->committed += pool->block_bytes;
    }
}

/* --- blocks that are kept elsewhere, and come back ------------------------------------------------------------------- */

bool cdz_kv_pool_reads(const cdz_kv_pool *pool)
{
    const cdz_backend_api *api = pool->backend->api;
    return pool->store && pool->packing.bits == 0 && api->kv_read && api->kv_restore;
}

uint64_t cdz_kv_pool_block_bytes(const cdz_kv_pool *pool)
{
    return pool->block_bytes;
}

cdz_kv_listed *cdz_kv_listing(const cdz_kv_pool *pool, uint32_t *n)
{
    int32_t *blocks = calloc(pool->n_fresh + 1, sizeof *blocks);
    cdz_kv_listed *all = calloc(pool->n_fresh + 1, sizeof *all);
    *n = 0;
    if (blocks && all && cdz_kv_pool_lists(pool))
        *n = cdz_prefix_order(pool->list, pool->n_fresh, blocks);
    for (uint32_t i = 0; i < *n; i++)
        all[i] = (cdz_kv_listed){blocks[i], cdz_prefix_serial(pool->list, blocks[i])};
    if (!blocks) {
        free(all);
        all = NULL;
    }
    free(blocks);
    return all;
}

static bool is_there(const cdz_kv_pool *pool, const cdz_kv_listed *at)
{
    return cdz_kv_pool_lists(pool) && cdz_prefix_serial(pool->list, at->block) == at->serial;
}

bool cdz_kv_peek(const cdz_kv_pool *pool, const cdz_kv_listed *before, cdz_prefix_key *key,
                 cdz_kv_listed *out)
{
    if (!cdz_kv_pool_lists(pool) || (before && !is_there(pool, before))) return false;
    key->before = before ? before->serial : 0;
    const int32_t block = cdz_prefix_find(pool->list, key);
    if (block >= 0) *out = (cdz_kv_listed){block, cdz_prefix_serial(pool->list, block)};
    return block >= 0;
}

bool cdz_kv_read(const cdz_kv_pool *pool, const cdz_kv_listed *at, cdz_prefix_key *key, void *bytes)
{
    if (!is_there(pool, at)) return false;
    *key = cdz_prefix_key_of(pool->list, at->block);
    pool->backend->api->kv_read(pool->backend, pool->store, at->block, bytes);
    return true;
}

/* A block that holds nothing; -1: what is there is held, promised, or rests. */
static int32_t spare_block(cdz_kv_pool *pool)
{
    const cdz_kv_budget *budget = pool->budget;
    const uint64_t left = budget->limit - budget->committed;
    if (left < budget->resting || left - budget->resting < pool->block_bytes) return -1;
    if (pool->n_returned) return pool->returned[--pool->n_returned];
    return pool->n_fresh < pool->n_blocks ? (int32_t)pool->n_fresh++ : -1;
}

bool cdz_kv_restore(cdz_kv_pool *pool, const cdz_kv_listed *before, cdz_prefix_key *key,
                    const void *bytes, cdz_kv_listed *out)
{
    if (cdz_kv_peek(pool, before, key, out)) return true;
    if (!cdz_kv_pool_lists(pool) || (before && !is_there(pool, before))) return false;
    const int32_t block = spare_block(pool);
    if (block < 0) return false;
    pool->backend->api->kv_restore(pool->backend, pool->store, block, bytes);
    cdz_prefix_add(pool->list, block, key);
    cdz_prefix_rest_last(pool->list, block);
    pool->budget->resting += pool->block_bytes;
    *out = (cdz_kv_listed){block, cdz_prefix_serial(pool->list, block)};
    return true;
}

/* --- the census ---------------------------------------------------------------------------------------------- */

uint64_t cdz_kv_pool_committed(const cdz_kv_pool *pool)
{
    return pool->committed * pool->block_bytes;
}

void cdz_kv_census_begin(cdz_kv_pool *pool)
{
    if (pool->seen) memset(pool->seen, 0, pool->n_blocks * sizeof *pool->seen);
    pool->promised = 0;
}

void cdz_kv_census_account(const cdz_kv_account *account)
{
    if (!account->pool) return;
    account->pool->promised += account->used > account->reserved ? account->used : account->reserved;
}

void cdz_kv_census_blocks(const cdz_kv_account *account, const int32_t *blocks, uint32_t n)
{
    if (n == 0 || !account->pool->seen) return;
    for (uint32_t i = 0; i < n; i++) {
        cdz_assert(blocks[i] >= 0 && (uint32_t)blocks[i] < account->pool->n_fresh);
        account->pool->seen[blocks[i]]++;
    }
}

#ifdef CDZ_CHECKED

/* A block that came back is nobody's, is not listed, and came back once. */
static void check_returned(const cdz_kv_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_returned; i++) {
        const int32_t block = pool->returned[i];
        cdz_assert(block >= 0 && (uint32_t)block < pool->n_fresh && !is_listed(pool, block));
        cdz_assert(!pool->seen || pool->seen[block] == 0);
        if (pool->seen) pool->seen[block] = 1; /* a second time is told by the line above */
    }
}

/* Each block has as many holders as tables name it, rests if it is listed and has none, and is otherwise free. */
static void check_holders(const cdz_kv_pool *pool)
{
    uint32_t used = 0, common = 0, resting = 0;
    for (uint32_t b = 0; pool->seen && b < pool->n_fresh; b++) {
        const bool listed = is_listed(pool, (int32_t)b), held = pool->seen[b] > 0;
        cdz_assert(pool->holders[b] == pool->seen[b]);
        cdz_assert(!listed || cdz_prefix_rests(pool->list, (int32_t)b) == !held);
        cdz_assert(!held || !pool->states || pool->states[b]);
        used += held;
        common += held && listed;
        resting += !held && listed;
    }
    if (!pool->seen) return;
    cdz_assert(used == pool->counts.used && common == pool->n_common);
    cdz_assert(resting == cdz_kv_pool_counts(pool).resting);
}

void cdz_kv_census_end(const cdz_kv_pool *pool)
{
    const cdz_kv_counts counts = cdz_kv_pool_counts(pool);
    if (pool->list) cdz_prefix_check(pool->list, pool->n_fresh);
    check_holders(pool);
    check_returned(pool);
    cdz_assert(pool->n_fresh - pool->n_returned == counts.used + counts.resting);
    cdz_assert(counts.used <= pool->committed && pool->committed <= pool->n_blocks);
    cdz_assert(pool->promised + pool->n_common == pool->committed);
}

#else

void cdz_kv_census_end(const cdz_kv_pool *pool)
{
    (void)pool;
}

#endif
