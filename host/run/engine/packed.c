/* packed.c - requests whose keys and values are quantised: what their cache_config means for a model's heads, and the pools of
 * spans.
 *
 * transformers' groups are q_group_size numbers that lie one after the other in a tensor (rows, heads, positions, dims), or
 * of one dim. Here a group keeps to its head and begins at an absolute position: along a head's dims, over several positions where
 * a head is shorter, for quanto's axis 0 and hqq's axis 1; over positions of one dim for quanto's axis -1 and hqq's 0. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine/engine_parts.h"

/* --- what a request asks for --- */

static bool across(const cdz_quantized_cache *cache, int64_t axis)
{
    return cache->hqq ? axis == 0 : axis == -1;
}

/* The groups of one axis in heads of `dim`; false: they do not fit. */
static bool grouping_of(const cdz_quantized_cache *cache, int64_t axis, uint32_t dim,
                        cdz_kv_grouping *out)
{
    const uint32_t size = (uint32_t)cache->q_group_size;
    if (across(cache, axis)) {
        *out = (cdz_kv_grouping){size, 1};
        return size % 8 == 0 && size <= CDZ_KV_SPAN_MOST;
    }
    if (size <= dim) {
        *out = (cdz_kv_grouping){1, size};
        return size % 8 == 0 && dim % size == 0;
    }
    *out = (cdz_kv_grouping){size / dim, dim};
    return size % dim == 0 && size / dim <= CDZ_KV_SPAN_MOST;
}

static cdz_status check_device(const cdz_job *job, cdz_error *err)
{
    const cdz_run_model *model = job->model;
    const cdz_backend_api *api = model->device->api;
    if (model->weights->arch.encoder)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized: %s has an encoder, and its cache cannot be "
                       "quantised; nor can it in transformers",
                       model->weights->arch.architecture);
    if (model->state_bytes)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized: %s has recurrent layers, and its cache "
                       "cannot be quantised",
                       model->weights->arch.architecture);
    if (model->shape.type != CDZ_F32)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized keeps the newest positions in f32, and KV "
                       "caches are in %s here (--kv-cache, kv_cache); leave one of the two out",
                       cdz_dtype_name(model->shape.type));
    if (model->shape.head_dim % 8)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized: this model has heads of %zu numbers; those "
                       "of a multiple of 8 can be quantised",
                       model->shape.head_dim);
    if (model->shape.value_dim)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized: %s keeps latents, of which keys and values "
                       "are made; they are not quantised",
                       model->weights->arch.architecture);
    if (!api->kv_pack)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "cache_implementation = quantized: %s does not quantise keys and values; cpu "
                       "does",
                       api->name);
    return CDZ_OK;
}

static cdz_status bad_groups(const cdz_quantized_cache *cache, uint32_t dim, cdz_error *err)
{
    return cdz_err(
        err, CDZ_E_USAGE,
        "cache_config: groups of %" PRId64 " do not go into this model's heads of %" PRIu32
        ": q_group_size must be a multiple of 8, up to %d where a group is over "
        "positions (axis_key, axis_value), and elsewhere a divisor or a multiple of %" PRIu32,
        cache->q_group_size, dim, CDZ_KV_SPAN_MOST, dim);
}

/* Where a device computes, keys and values stay in its memory. */
static cdz_status check_offloaded(const cdz_job *job, cdz_error *err)
{
    const char *name = job->plan ? job->plan->generation.cache_implementation : NULL;
    const cdz_backend_api *api = job->model->device->api;
    if (!name || strncmp(name, "offloaded", 9) != 0 || api->host_memory) return CDZ_OK;
    return cdz_err(
        err, CDZ_E_UNSUPPORTED,
        "cache_implementation = %s: keys and values stay in the memory of %s; leave it out, "
        "or run on cpu",
        name, api->device);
}

cdz_status cdz_packed_choose(cdz_job *job, cdz_error *err)
{
    const cdz_quantized_cache *cache = job->plan ? &job->plan->generation.quantized : NULL;
    const uint32_t dim = (uint32_t)job->model->shape.head_dim;
    job->packing = (cdz_kv_packing){0};
    CDZ_TRY(check_offloaded(job, err));
    if (!cache || !cache->on || job->prompt_logits) return CDZ_OK;
    CDZ_TRY(check_device(job, err));
    cdz_kv_packing packing = {.bits = (uint32_t)cache->nbits,
                              .centred = cache->hqq,
                              .residual = (uint32_t)cache->residual_length};
    cdz_backend *device = job->model->device;
    if (!grouping_of(cache, cache->axis_key, dim, &packing.keys) ||
        !grouping_of(cache, cache->axis_value, dim, &packing.values) ||
        device->api->packed_block_bytes(device, &job->model->shape, &packing) == 0)
        return bad_groups(cache, dim, err);
    job->packing = packing;
    return CDZ_OK;
}

bool cdz_packed_bytes(const cdz_job *job, uint64_t *bytes)
{
    cdz_backend *device = job->model->device;
    *bytes = 0;
    if (job->packing.bits == 0) return true;
    const uint64_t each = device->api->packed_block_bytes(device, &job->model->shape, &job->packing);
    const uint64_t n = cdz_job_spans(job);
    const uint64_t most = (uint64_t)CDZ_KV_MOST_BLOCKS * CDZ_KV_BLOCK / cdz_kv_span(&job->packing);
    return n <= most && !__builtin_mul_overflow(n, each, bytes);
}

/* --- pools --- */

static bool same_groups(const cdz_kv_grouping *a, const cdz_kv_grouping *b)
{
    return a->positions == b->positions && a->dims == b->dims;
}

static bool same_packing(const cdz_kv_packing *a, const cdz_kv_packing *b)
{
    return a->bits == b->bits && a->centred == b->centred && a->residual == b->residual &&
           same_groups(&a->keys, &b->keys) && same_groups(&a->values, &b->values);
}

void cdz_packed_rest(cdz_run_model *model, const cdz_kv_pool *but)
{
    for (cdz_packed_pool **at = &model->packed; *at;) {
        cdz_packed_pool *p = *at;
        if (p->pool == but || !cdz_kv_pool_idle(p->pool)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        cdz_kv_pool_free(p->pool);
        free(p);
    }
}

/* One that is in use takes address space alone until it is written to, and keeps what its peak needed: so idle ones go when
 * another is wanted. */
cdz_status cdz_packed_ready(cdz_engine *engine, cdz_run_model *model, const cdz_kv_packing *packing,
                            cdz_kv_pool **out, cdz_error *err)
{
    *out = NULL;
    for (const cdz_packed_pool *p = model->packed; p; p = p->next)
        if (same_packing(cdz_kv_pool_packing(p->pool), packing)) *out = p->pool;
    cdz_packed_rest(model, *out);
    if (*out) return CDZ_OK;
    cdz_packed_pool *made = calloc(1, sizeof *made);
    if (!made) return cdz_err(err, CDZ_E_NOMEM, "KV memory: out of memory");
    const cdz_status status =
        cdz_kv_pool_create_packed(model->device, &model->shape, packing, &engine->budget,
                                  engine->budget.limit, &made->pool, err);
    if (status != CDZ_OK) {
        free(made);
        return status;
    }
    made->next = model->packed;
    model->packed = made;
    *out = made->pool;
    return CDZ_OK;
}
