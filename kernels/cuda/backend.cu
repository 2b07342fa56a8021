/* backend.cu - the backend as the host sees it: its table of operations, how one is made, and the one
 * symbol of the shared object. */
#include "cuda_backend.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef CDZ_CUDA_NAME
#define CDZ_CUDA_NAME "cuda"
#endif

static uint32_t n_threads(const cdz_backend *)
{
    return 1;
}

static bool takes_int8(const cdz_backend *, cdz_dtype)
{
    return false;
}

static bool takes_type(const cdz_backend *, cdz_dtype dtype)
{
    return dtype < CDZ_N_DTYPES;
}

static const char *trouble(const cdz_backend *base)
{
    const cuda_backend *b = reinterpret_cast<const cuda_backend *>(base);
    return b->trouble[0] ? b->trouble : gpu_trouble(b->g);
}

/* What the host wants done row by row is its own code: it runs where it was called. */
static void parallel(cdz_backend *, void (*task)(void *arg, size_t i), void *arg, size_t n)
{
    for (size_t i = 0; i < n; i++) task(arg, i);
}

static void destroy(cdz_backend *base)
{
    if (!base) return;
    cuda_backend *b = cuda_of(base);
    if (b->g) {
        cuda_bring_close(b);
        cuda_memory_close(b);
    }
    gpu_close(b->g);
    free(b);
}

static cdz_backend_api operations()
{
    cdz_backend_api api = {};
    api.size = sizeof api;
    api.name = CDZ_CUDA_NAME;
    api.host_memory = false;
    api.alloc = cuda_alloc;
    api.free = cuda_free;
    api.sync = cuda_sync;
    api.n_threads = n_threads;
    api.upload = cuda_upload;
    api.download = cuda_download;
    api.copy = cuda_copy;
    api.clear = cuda_clear;
    api.bring = cuda_bring;
    api.arrive = cuda_arrive;
    api.place = cuda_place;
    api.unplace = cuda_unplace;
    api.trouble = trouble;
    api.memory = cuda_memory;
    api.takes_int8 = takes_int8;
    api.takes_sinks = api.takes_latents = api.takes_masks = true;
    api.takes_type = takes_type;
    api.matmul = cuda_matmul;
    api.embed = cuda_embed;
    api.rmsnorm = cuda_rmsnorm;
    api.layernorm = cuda_layernorm;
    api.rope = cuda_rope;
    api.silu_mul = cuda_silu_mul;
    api.clamped_mul = cuda_clamped_mul;
    api.activate = cuda_activate;
    api.xielu = cuda_xielu;
    api.add = cuda_add;
    api.scale = cuda_scale;
    api.soft_cap = cuda_soft_cap;
    api.route = cuda_route;
    api.add_scaled = cuda_add_scaled;
    api.experts = cuda_experts;
    api.argmax = cuda_argmax;
    api.leaders = cuda_leaders;
    api.kv_create = cuda_kv_create;
    api.kv_destroy = cuda_kv_destroy;
    api.kv_block_bytes = cuda_kv_block_bytes;
    api.kv_copy = cuda_kv_copy;
    api.kv_write = cuda_kv_write;
    api.attention = cuda_attention;
    api.attention_weights = cuda_attention_weights;
    api.conv = cuda_conv;
    api.recur = cuda_recur;
    api.parallel = parallel;
    api.destroy = destroy;
    return api;
}

static cdz_backend *create(const cdz_device_options *options, char *why, size_t why_bytes)
{
    const int n = gpu_count(why, why_bytes);
    if (n <= 0) return nullptr;
    if (options->device < 0 || options->device >= n) {
        snprintf(why, why_bytes, "%s:%d does not exist; there %s %d, from 0", CDZ_CUDA_NAME,
                 options->device, n == 1 ? "is" : "are", n);
        return nullptr;
    }
    cuda_backend *b = static_cast<cuda_backend *>(calloc(1, sizeof *b));
    if (!b) {
        snprintf(why, why_bytes, "out of memory for a backend");
        return nullptr;
    }
    cdz_device_info info;
    gpu_describe(options->device, &info);
    snprintf(b->name, sizeof b->name, "%s:%d %s", CDZ_CUDA_NAME, options->device, info.name);
    b->precision = options->strict ? CDZ_PRECISION_F32 : options->precision;
    b->strict = options->strict;
    b->step = 1;
    b->api = operations();
    b->api.device = b->name;
    b->base.api = &b->api;
    b->g = gpu_open(options->device, why, why_bytes);
    if (b->g) b->api.variant = gpu_multiplies(b->g) ? "cublas" : "own kernels";
    if (b->g && cuda_stage_open(b)) return &b->base;
    if (b->g) snprintf(why, why_bytes, "%s: no pinned memory for copies", b->name);
    destroy(&b->base);
    return nullptr;
}

static const cdz_backend_entry entry = {
    sizeof(cdz_backend_entry),
    CDZ_BACKEND_INTERFACE,
    sizeof(cdz_backend_api),
    CDZ_BACKEND_BUILD,
    CDZ_CUDA_NAME,
    gpu_count,
    gpu_describe,
    create,
};

extern "C" __attribute__((visibility("default"))) const cdz_backend_entry *cadenza_backend(void);

extern "C" __attribute__((visibility("default"))) const cdz_backend_entry *cadenza_backend(void)
{
    return &entry;
}
