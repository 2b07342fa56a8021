/* kv.c - block bookkeeping over the backend's KV store. */
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
    uint32_t positions;     /* of a block */
    uint64_t block_bytes;
    uint32_t n_blocks, committed; /* in all, and held or reserved */
    uint32_t n_fresh;             /* blocks never handed out are [n_fresh, n_blocks) */
    uint32_t *holders;            /* (n_blocks) sequences that have the block in their table */
    int32_t *returned; /* (n_returned) blocks that came back, the last one goes out first */
    uint32_t n_returned;
    bool shares_nothing;
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

    cdz_kv_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return cdz_err(err, CDZ_E_NOMEM, "KV memory: out of memory");
    pool->backend = backend;
    pool->budget = budget;
    if (packing) pool->packing = *packing;
    pool->positions = positions;
    pool->block_bytes = bytes;
    pool->n_blocks = (uint32_t)n;
    pool->holders = calloc(n, sizeof *pool->holders);
    pool->returned = calloc(n, sizeof *pool->returned);
    pool->store = make_store(pool, shape);
#ifdef CDZ_CHECKED
    pool->seen = calloc(n, sizeof *pool->seen);
#endif
    if (!pool->holders || !pool->returned || !pool->store) {
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

void cdz_kv_pool_free(cdz_kv_pool *pool)
{
    if (!pool) return;
    cdz_assert(pool->committed == 0 && pool->counts.used == 0);
    if (pool->store) pool->backend->api->kv_destroy(pool->backend, pool->store);
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
    return pool->counts;
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
}

/* Blocks in use are never more than those committed: when committing succeeded there is a block. */
cdz_status cdz_kv_take(cdz_kv_account *account, int32_t *block, cdz_error *err)
{
    cdz_kv_pool *pool = account->pool;
    if (account->used >= account->reserved && !commit(pool, 1))
        return cdz_err(err, CDZ_E_LIMIT,
                       "KV memory is full: this request holds %" PRIu32 " blocks of %" PRIu32
                       " positions "
                       "(%" PRIu32 " were reserved for it), and of %" PRIu64
                       " bytes allowed %" PRIu64 " are held or reserved",
                       account->used, pool->positions, account->reserved, pool->budget->limit,
                       pool->budget->committed);
    cdz_assert(pool->counts.used < pool->committed);
    *block = pool->n_returned ? pool->returned[--pool->n_returned] : (int32_t)pool->n_fresh++;
    pool->holders[*block] = 1;
    account->used++;
    if (++pool->counts.used > pool->counts.peak) pool->counts.peak = pool->counts.used;
    return CDZ_OK;
}

void cdz_kv_share(cdz_kv_pool *pool, int32_t block)
{
    cdz_assert(pool->holders[block] > 0);
    pool->holders[block]++;
}

void cdz_kv_drop(cdz_kv_account *account, int32_t block)
{
    cdz_kv_pool *pool = account->pool;
    cdz_assert(pool->holders[block] > 0);
    if (--pool->holders[block] > 0) return;
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
    pool->backend->api->kv_copy(pool->backend, pool->store, to, from);
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

void cdz_kv_census_end(const cdz_kv_pool *pool)
{
    uint32_t used = 0;
    for (uint32_t b = 0; pool->seen && b < pool->n_fresh; b++) {
        cdz_assert(pool->holders[b] == pool->seen[b]);
        used += pool->seen[b] > 0;
    }
    cdz_assert(!pool->seen || used == pool->counts.used);
    cdz_assert(pool->n_fresh - pool->n_returned == pool->counts.used);
    cdz_assert(pool->counts.used <= pool->committed && pool->committed <= pool->n_blocks);
    cdz_assert(pool->promised == pool->committed);
    (void)used;
}
