/* backend.c - makes a CPU backend: picks the kernel set, starts the threads, fills the table of
 * operations. Everything hangs off the object, so any number of backends may live in one
 * process. */
#include <stdio.h>
#include <string.h>

#include "cpu/aligned.h"
#include "cpu/cpu_backend.h"
#include "cpu/machine.h"

static bool anywhere(void)
{
    return true;
}

/* Best first; of those of one name, the first that runs. A build for one machine has not all (CADENZA_CPU_SETS). */
static const struct variant {
    const char *name;
    const cdz_kernel_set *set;
    bool (*runs_here)(void);
} variants[] = {
#if defined(CDZ_SET_AMX)
    {"avx512", &cdz_amx_set, cdz_machine_has_amx},
#endif
#if defined(CDZ_SET_BF16)
    {"avx512", &cdz_avx512_bf16_set, cdz_machine_has_bf16},
#endif
#if defined(CDZ_SET_VNNI)
    {"avx512", &cdz_avx512_vnni_set, cdz_machine_has_vnni},
#endif
#if defined(CDZ_SET_AVX512)
    {"avx512", &cdz_avx512_set, cdz_machine_has_avx512},
#endif
#if defined(CDZ_SET_AVXVNNI)
    {"avx2", &cdz_avx2_vnni_set, cdz_machine_has_avx_vnni},
#endif
#if defined(CDZ_SET_AVX2)
    {"avx2", &cdz_avx2_set, cdz_machine_has_avx2},
#endif
#if defined(__aarch64__)
    {"neon", &cdz_neon_i8mm_set, cdz_machine_has_i8mm},
    {"neon", &cdz_neon_dotprod_set, cdz_machine_has_dotprod},
    {"neon", &cdz_neon_set, anywhere},
#endif
    {"scalar", &cdz_scalar_set, anywhere},
};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

const char *const *cdz_cpu_variants(void)
{
    static const char *const names[] = {
#if defined(CDZ_HAVE_X86)
        "avx512",
        "avx2",
#elif defined(__aarch64__)
        "neon",
#endif
        "scalar",
        NULL,
    };
    return names;
}

static const struct variant *find_variant(const char *name)
{
    const struct variant *found = NULL;
    for (size_t i = 0; i < N_VARIANTS; i++)
        if (strcmp(variants[i].name, name) == 0 && !(found && found->runs_here()))
            found = &variants[i];
    return found;
}

static const struct variant *best_variant(void)
{
    size_t i = 0;
    while (!variants[i].runs_here()) i++; /* the last one does */
    return &variants[i];
}

bool cdz_cpu_variant_runs_here(const char *variant)
{
    const struct variant *v = find_variant(variant);
    return v && v->runs_here();
}

bool cdz_cpu_variant_is_built(const char *variant)
{
    return find_variant(variant) != NULL;
}

cpu_backend *cdz_cpu(cdz_backend *b)
{
    return (cpu_backend *)b;
}

static void *alloc(cdz_backend *b, size_t bytes)
{
    (void)b;
    return cdz_aligned_zeroed(bytes);
}

void cdz_cpu_free(void *memory)
{
    cdz_aligned_free(memory);
}

static void release(cdz_backend *b, void *memory)
{
    (void)b;
    cdz_cpu_free(memory);
}

/* Results are there when an operation returns; what may go on is the reading of weights by a
 * late worker. */
static void sync(cdz_backend *b)
{
    cdz_pool_await_readers(cdz_cpu(b)->pool, 0, 0);
}

static bool takes_type(const cdz_backend *b, cdz_dtype dtype)
{
    (void)b;
    return dtype < CDZ_N_DTYPES;
}

static bool takes_int8(const cdz_backend *b, cdz_dtype dtype)
{
    return ((const cpu_backend *)b)->set->int8_tile[dtype] != NULL;
}

static uint32_t n_threads(const cdz_backend *b)
{
    return cdz_pool_threads(((const cpu_backend *)b)->pool);
}

static void use_threads(cdz_backend *b, uint32_t n)
{
    cdz_pool_use(cdz_cpu(b)->pool, n);
}

static void parallel(cdz_backend *b, void (*task)(void *arg, size_t i), void *arg, size_t n)
{
    cdz_pool_tasks(cdz_cpu(b)->pool, task, arg, n);
}

static void move(cdz_backend *b, void *to, const void *from, size_t bytes)
{
    (void)b;
    memcpy(to, from, bytes);
}

static void clear(cdz_backend *b, void *to, size_t bytes)
{
    (void)b;
    memset(to, 0, bytes);
}

/* Where the system refuses, pages come from the node of who touches them first. */
void cdz_cpu_spread_pages(cdz_backend *b, void *memory, size_t bytes)
{
    const cdz_numa *numa = &cdz_cpu(b)->numa;
    if (numa->n > 1) (void)cdz_numa_spread(numa, memory, bytes);
}

uint32_t cdz_cpu_nodes(const char *folder)
{
    cdz_numa numa;
    cdz_numa_read(folder, &numa);
    return numa.n > 1 ? numa.n : 1;
}

uint32_t cdz_cpu_spread(cdz_backend *b, const char *folder)
{
    cpu_backend *cpu = cdz_cpu(b);
    cdz_numa_read(folder, &cpu->numa);
    if (cpu->numa.n <= 1) return 1;
    (void)cdz_numa_bind(&cpu->numa, pthread_self(), 0);
    cdz_pool_bind(cpu->pool, &cpu->numa);
    return cpu->numa.n;
}

static const void *place(cdz_backend *b, const void *data, size_t bytes)
{
    (void)b, (void)bytes;
    return data;
}

static void unplace(cdz_backend *b, const void *placed)
{
    (void)b, (void)placed;
}

static void memory(const cdz_backend *b, size_t *free_bytes, size_t *total_bytes)
{
    (void)b;
    cdz_machine_memory(free_bytes, total_bytes);
}

static void destroy(cdz_backend *b)
{
    if (!b) return;
    cpu_backend *cpu = cdz_cpu(b);
    cdz_pool_destroy(cpu->pool);
    cdz_aligned_free(cpu);
}

static const cdz_backend_api operations = {
    .size = sizeof(cdz_backend_api),
    .name = "cpu",
    .device = "cpu",
    .host_memory = true,
    .alloc = alloc,
    .free = release,
    .sync = sync,
    .n_threads = n_threads,
    .use_threads = use_threads,
    .spread = cdz_cpu_spread_pages,
    .upload = move,
    .download = move,
    .copy = move,
    .clear = clear,
    .place = place,
    .unplace = unplace,
    .memory = memory,
    .takes_int8 = takes_int8,
    .takes_bf16 = true,
    .takes_sinks = true,
    .takes_latents = true,
    .takes_type = takes_type,
    .to_panels = cdz_cpu_to_panels,
    .matmul = cdz_cpu_matmul,
    .embed = cdz_cpu_embed,
    .rmsnorm = cdz_cpu_rmsnorm,
    .rope = cdz_cpu_rope,
    .silu_mul = cdz_cpu_silu_mul,
    .clamped_mul = cdz_cpu_clamped_mul,
    .xielu = cdz_cpu_xielu,
    .layernorm = cdz_cpu_layernorm,
    .activate = cdz_cpu_activate,
    .scale = cdz_cpu_scale,
    .soft_cap = cdz_cpu_soft_cap,
    .route = cdz_cpu_route,
    .add_scaled = cdz_cpu_add_scaled,
    .add = cdz_cpu_add,
    .kv_create = cdz_cpu_kv_create,
    .kv_destroy = cdz_cpu_kv_destroy,
    .kv_block_bytes = cdz_cpu_kv_block_bytes,
    .kv_copy = cdz_cpu_kv_copy,
    .kv_read = cdz_cpu_kv_read,
    .kv_restore = cdz_cpu_kv_restore,
    .kv_get = cdz_cpu_kv_get,
    .kv_keep = cdz_cpu_kv_keep,
    .kv_put_keys = cdz_cpu_kv_put_keys,
    .kv_write = cdz_cpu_kv_write,
    .packed_create = cdz_cpu_packed_create,
    .packed_block_bytes = cdz_cpu_packed_block_bytes,
    .kv_pack = cdz_cpu_kv_pack,
    .attention = cdz_cpu_attention,
    .attention_weights = cdz_cpu_attention_weights,
    .conv = cdz_cpu_conv,
    .recur = cdz_cpu_recur,
    .parallel = parallel,
    .destroy = destroy,
};

static void say_unknown(const char *name, char *why, size_t why_bytes)
{
    size_t used = (size_t)snprintf(why, why_bytes, "CPU variant '%.60s' is unknown; expected", name);
    for (const char *const *v = cdz_cpu_variants(); *v && used < why_bytes; v++)
        used += (size_t)snprintf(why + used, why_bytes - used, "%s %s",
                                 v == cdz_cpu_variants() ? " one of" : ",", *v);
}

static bool is_known(const char *name)
{
    const char *const *v = cdz_cpu_variants();
    while (*v && strcmp(*v, name) != 0) v++;
    return *v;
}

static const struct variant *choose(const char *name, char *why, size_t why_bytes)
{
    if (!name) return best_variant();
    const struct variant *v = find_variant(name);
    if (v && v->runs_here()) return v;
    if (!is_known(name))
        say_unknown(name, why, why_bytes);
    else if (!v)
        snprintf(
            why, why_bytes,
            "CPU variant '%s' is not in this build, which is for one machine; './dev build' has all",
            name);
    else
        snprintf(why, why_bytes,
                 "CPU variant '%s' does not run on this machine: the processor or the system lacks "
                 "it; the best that runs here is '%s'",
                 name, best_variant()->name);
    return NULL;
}

cdz_backend *cdz_cpu_backend_create(const cdz_cpu_options *options, char *why, size_t why_bytes)
{
    const struct variant *v = choose(options->variant, why, why_bytes);
    if (!v) return NULL;
    const uint32_t threads = options->n_threads ? options->n_threads : cdz_machine_cores();
    cpu_backend *cpu = cdz_aligned_zeroed(sizeof *cpu);
    if (cpu) cpu->pool = cdz_pool_create(threads, cdz_matmul_scratch_bytes(), options->on_thread);
    if (!cpu || !cpu->pool) {
        snprintf(why, why_bytes, "out of memory for a CPU backend of %u threads", (unsigned)threads);
        cdz_aligned_free(cpu);
        return NULL;
    }
    cpu->set = v->set;
    cpu->api = operations;
    cpu->api.variant = v->name;
    cpu->api.takes_parts = v->set->parts_product != NULL;
    cpu->base.api = &cpu->api;
    return &cpu->base;
}
