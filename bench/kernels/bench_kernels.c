/* bench_kernels.c - how near the kernels come to what the machine can do.
 *
 * Prints the limits (reading by two or four streams per thread, multiply-adds per second), then
 * products and attention as fractions of them. Limits and kernels are measured in turn and
 * medians taken, because a shared machine drifts: compare the ratios of one run. Usage:
 * bench_kernels [variant [threads [most activation rows [number of types]]]]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "kernels.h"
#include "run/pass/limits.h"

enum { REPEATS = 9 };

/* Median seconds of REPEATS calls, after one to warm up. */
static double median_seconds(void (*call)(void *arg), void *arg)
{
    double seconds[REPEATS];
    call(arg);
    for (int i = 0; i < REPEATS; i++) {
        const double start = cdz_now_s();
        call(arg);
        seconds[i] = cdz_now_s() - start;
    }
    return cdz_bench_median(seconds, REPEATS);
}

/* ---- limits ---- */

static double read_gbs(cdz_backend *b, const char *data, size_t bytes)
{
    cdz_limit_reader reader = {0};
    if (!cdz_limit_reader_add(&reader, data, bytes)) abort();
    for (int i = 0; i < REPEATS; i++) cdz_limit_reader_turn(&reader, b);
    const double gbs = cdz_limit_reader_gbs(&reader);
    cdz_limit_reader_free(&reader);
    return gbs;
}

/* Where there are no vectors there is nothing to compare with. */
static double fma_gmacs(cdz_backend *b)
{
    double gmacs[REPEATS];
    for (int i = 0; i < REPEATS; i++) gmacs[i] = cdz_limit_gmacs(b);
    const double median = cdz_bench_median(gmacs, REPEATS);
    return median > 0 ? median : 1.0;
}

/* ---- products ---- */

/* Small matrices are cycled through several copies, so that none stays in the cache. */
typedef struct product {
    cdz_backend *b;
    cdz_weight w;
    size_t m, copies;
    float *x, *y;
} product;

static void run_product(void *arg)
{
    product *p = arg;
    for (size_t c = 0; c < p->copies; c++) {
        cdz_weight w = p->w;
        w.data = (const char *)p->w.data + c * w.n * cdz_row_bytes(w.dtype, w.k);
        const cdz_product one = {&w, NULL, p->y, w.n};
        p->b->api->matmul(p->b, &one, 1, p->x, w.k, p->m);
    }
}

static const struct {
    const char *name;
    size_t n, k;
} shapes[] = {{"896 x 896", 896, 896},
              {"4864 x 896", 4864, 896},
              {"896 x 4864", 896, 4864},
              {"8192 x 2048", 8192, 2048},
              {"151936 x 896", 151936, 896}};

/* Of blocks: multiplied with int8 activations, in panels, then as they lie in a file. */
static const struct {
    const char *name;
    cdz_dtype dtype;
    cdz_weight_form form;
} dtypes[] = {{"bf16", CDZ_BF16, CDZ_WEIGHT_ROWS},      {"bf16 bf16", CDZ_BF16, CDZ_WEIGHT_BF16},
              {"f16", CDZ_F16, CDZ_WEIGHT_ROWS},        {"f32", CDZ_F32, CDZ_WEIGHT_ROWS},
              {"q8_0", CDZ_Q8_0, CDZ_WEIGHT_PANELS},    {"q4_0", CDZ_Q4_0, CDZ_WEIGHT_PANELS},
              {"q5_0", CDZ_Q5_0, CDZ_WEIGHT_PANELS},    {"q4_k", CDZ_Q4_K, CDZ_WEIGHT_PANELS},
              {"q6_k", CDZ_Q6_K, CDZ_WEIGHT_PANELS},    {"q8_0 rows", CDZ_Q8_0, CDZ_WEIGHT_INT8},
              {"q4_0 rows", CDZ_Q4_0, CDZ_WEIGHT_INT8}, {"q4_0 f32", CDZ_Q4_0, CDZ_WEIGHT_ROWS}};
enum { N_TYPES = sizeof dtypes / sizeof *dtypes };

static void bench_products(cdz_backend *b, const char *data, size_t bytes, size_t most_rows,
                           size_t types)
{
    static const size_t rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 48, 64, 96, 128, 512};
    float *x = b->api->alloc(b, (size_t)512 * 4864 * sizeof(float));
    float *y =
        b->api->alloc(b, (size_t)512 * 4864 * sizeof(float) + (size_t)128 * 151936 * sizeof(float));
    for (size_t i = 0; i < (size_t)512 * 4864; i++) x[i] = (float)(i % 17) * 0.1f - 0.8f;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t d = 0; d < types; d++)
            for (size_t m = 0; m < sizeof rows / sizeof *rows; m++) {
                if (rows[m] > most_rows || (shapes[s].n > 10000 && rows[m] > 128)) continue;
                if (shapes[s].k % cdz_dtype_block(dtypes[d].dtype)) continue;
                product p = {
                    b,       {data, dtypes[d].dtype, shapes[s].n, shapes[s].k, dtypes[d].form},
                    rows[m], 1,
                    x,       y};
                const size_t one = p.w.n * cdz_row_bytes(p.w.dtype, p.w.k);
                if (one > bytes) continue;
                p.copies = rows[m] >= 16 ? 1 : bytes / one;
                const double read = read_gbs(b, data, bytes), peak_macs = fma_gmacs(b);
                const double seconds = median_seconds(run_product, &p) / (double)p.copies;
                const double gbs = (double)one / seconds * 1e-9;
                const double macs = (double)(p.w.n * p.w.k * rows[m]) / seconds * 1e-9;
                printf("%-14s %-9s m %3zu  %7.1f GB/s = %3.0f %% of read  %7.1f GMAC/s = %3.0f %% "
                       "of peak\n",
                       shapes[s].name, dtypes[d].name, rows[m], gbs, 100.0 * gbs / read, macs,
                       100.0 * macs / peak_macs);
                fflush(stdout);
            }
    b->api->free(b, x);
    b->api->free(b, y);
}

/* ---- attention ---- */

typedef struct attention {
    cdz_backend *b;
    cdz_kv *kv;
    size_t layers, m;
    cdz_kv_row *rows;
    float *q, *out;
    cdz_attention how;
} attention;

static void run_attention(void *arg)
{
    attention *a = arg;
    for (size_t l = 0; l < a->layers; l++)
        a->b->api->attention(a->b, a->out, 896, a->q, 896, a->kv, l, a->rows, a->m, &a->how);
}

static void bench_attention(cdz_backend *b, cdz_dtype type)
{
    enum { LAYERS = 24, BLOCKS = 4096 / CDZ_KV_BLOCK };
    const cdz_kv_shape shape = {LAYERS, 2, 64, type, 0};
    const char *name = cdz_dtype_name(type);
    cdz_kv *kv = b->api->kv_create(b, &shape, BLOCKS);
    int32_t blocks[BLOCKS];
    float *q = b->api->alloc(b, 896 * sizeof *q), *out = b->api->alloc(b, 896 * sizeof *q);
    for (size_t i = 0; i < 896; i++) q[i] = (float)(i % 13) * 0.1f;
    for (int32_t i = 0; i < BLOCKS; i++) blocks[i] = i;
    for (uint32_t p = 0; p < 4096; p++) { /* the pages have to exist */
        const cdz_kv_row row = {blocks, p, 0, NULL};
        for (size_t l = 0; l < LAYERS; l++) b->api->kv_write(b, kv, l, q, 128, q, 128, &row, 1);
    }
    for (uint32_t context = 128; context <= 4096; context *= 2) {
        cdz_kv_row row = {blocks, context - 1, 0, NULL};
        attention a = {b, kv, LAYERS, 1, &row, q, out, {.n_heads = 14, .scale = 0.125f}};
        const double seconds = median_seconds(run_attention, &a);
        printf("decode attention, %-4s, 24 layers, context %4u: %6.2f ms, %5.1f GB/s\n", name,
               (unsigned)context, seconds * 1e3,
               (double)(context * cdz_row_bytes(type, 256) * LAYERS) / seconds * 1e-9);
    }
    b->api->kv_destroy(b, kv);
    b->api->free(b, q);
    b->api->free(b, out);
}

/* The last 512 rows of prompts, one layer. */
static void bench_prompt_attention(cdz_backend *b, cdz_dtype type)
{
    enum { LONGEST = 32768, BLOCKS = LONGEST / CDZ_KV_BLOCK, PROMPT = 512 };
    const cdz_kv_shape shape = {1, 2, 64, type, 0};
    cdz_kv *kv = b->api->kv_create(b, &shape, BLOCKS);
    static int32_t blocks[BLOCKS];
    cdz_kv_row rows[PROMPT];
    float *q = b->api->alloc(b, (size_t)PROMPT * 896 * sizeof *q),
          *out = b->api->alloc(b, (size_t)PROMPT * 896 * sizeof *q);
    for (size_t i = 0; i < (size_t)PROMPT * 896; i++) q[i] = (float)(i % 13) * 0.1f;
    for (int32_t i = 0; i < BLOCKS; i++) blocks[i] = i;
    for (uint32_t p = 0; p < LONGEST; p++) { /* the pages have to exist */
        const cdz_kv_row row = {blocks, p, 0, NULL};
        b->api->kv_write(b, kv, 0, q, 128, q, 128, &row, 1);
    }
    for (uint32_t context = PROMPT; context <= LONGEST; context *= 4) {
        for (uint32_t p = 0; p < PROMPT; p++)
            rows[p] = (cdz_kv_row){blocks, context - PROMPT + p, 0, NULL};
        attention a = {b, kv, 1, PROMPT, rows, q, out, {.n_heads = 14, .scale = 0.125f}};
        const double peak = fma_gmacs(b), seconds = median_seconds(run_attention, &a);
        const double macs = (double)PROMPT * (context - PROMPT / 2) * 14 * 128 / seconds * 1e-9;
        printf(
            "prompt attention, %-4s, %d rows at the end of %5u: %6.1f ms, %.1f GMAC/s = %.0f %% of peak\n",
            cdz_dtype_name(type), PROMPT, (unsigned)context, seconds * 1e3, macs,
            100.0 * macs / peak);
    }
    b->api->kv_destroy(b, kv);
    b->api->free(b, q);
    b->api->free(b, out);
}

/* One row at 4,096 positions of 24 layers of two heads of 64, by bits, in one run; and what packing a position takes. */
static void bench_packed(cdz_backend *b)
{
    enum { LAYERS = 24, CONTEXT = 4096, BLOCKS = CONTEXT / CDZ_KV_BLOCK };
    static const cdz_kv_packing packings[] = {
        {2, false, {1, 64}, {1, 64}, 128},
        {4, false, {1, 64}, {1, 64}, 128},
        {4, false, {64, 1}, {64, 1}, 128},
        {8, true, {1, 64}, {1, 64}, 128},
    };
    const cdz_kv_shape shape = {LAYERS, 2, 64, CDZ_F32, 0};
    cdz_kv *kv = b->api->kv_create(b, &shape, BLOCKS);
    int32_t blocks[BLOCKS];
    float *q = b->api->alloc(b, 896 * sizeof *q), *out = b->api->alloc(b, 896 * sizeof *q);
    for (size_t i = 0; i < 896; i++) q[i] = (float)(i % 13) * 0.1f;
    for (int32_t i = 0; i < BLOCKS; i++) blocks[i] = i;
    cdz_kv_row row = {blocks, CONTEXT - 1, 0, NULL};
    const int32_t *packed_blocks = blocks;
    for (row.position = 0; row.position < CONTEXT; row.position++)
        for (size_t l = 0; l < LAYERS; l++) b->api->kv_write(b, kv, l, q, 128, q, 128, &row, 1);
    row.position = CONTEXT - 1;
    attention plain = {b, kv, LAYERS, 1, &row, q, out, {.n_heads = 14, .scale = 0.125f}};
    for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
        const cdz_kv_packing *p = &packings[i];
        cdz_kv *packed = b->api->packed_create(b, &shape, p, BLOCKS);
        for (row.position = 0; row.position < CONTEXT; row.position++)
            for (size_t l = 0; l < LAYERS; l++)
                b->api->kv_pack(b, packed, kv, l, &row, &packed_blocks, 1);
        row.position = CONTEXT - 1;
        attention a = plain;
        a.how.packed = packed;
        a.how.packed_blocks = &packed_blocks;
        const double before = median_seconds(run_attention, &plain),
                     seconds = median_seconds(run_attention, &a);
        const double bytes = (double)b->api->packed_block_bytes(b, &shape, p) / cdz_kv_span(p),
                     whole = (double)b->api->kv_block_bytes(b, &shape) / CDZ_KV_BLOCK;
        printf("decode attention, %u bits %s, context %d: %6.2f ms, float32 %6.2f ms, ratio %.2f; "
               "%.0f bytes a position, float32 %.0f\n",
               (unsigned)p->bits, p->keys.dims == 1 ? "across positions" : "along heads", CONTEXT,
               seconds * 1e3, before * 1e3, seconds / before, bytes, whole);
        b->api->kv_destroy(b, packed);
    }
    b->api->kv_destroy(b, kv);
    b->api->free(b, q);
    b->api->free(b, out);
}

/* ---- row operations ---- */

typedef struct row_op {
    cdz_backend *b;
    float *x, *y;
    cdz_weight w;
    int which;
} row_op;

static void run_row_op(void *arg)
{
    static const uint32_t position = 1234;
    static const float inv_freq[32] = {1.0f, 0.5f, 0.25f};
    const cdz_rope rope = {.inv_freq = inv_freq, .n_rotated = 64, .scale = 1.0f};
    row_op *r = arg;
    for (int i = 0; i < 1000; i++) switch (r->which) {
        case 0: r->b->api->rmsnorm(r->b, r->y, 896, r->x, 896, 1, &r->w, 1e-6f, 0.0f); break;
        case 1: r->b->api->silu_mul(r->b, r->y, 4864, r->x, r->x, 4864, 1, 4864); break;
        case 2: r->b->api->rope(r->b, r->y, 896, 1, 14, 64, &position, &rope); break;
        default: r->b->api->add(r->b, r->y, 896, r->x, 896, 1, 896); break;
        }
}

static void bench_rows(cdz_backend *b)
{
    static const char *const names[] = {"rmsnorm 896", "silu_mul 4864", "rope 14 x 64", "add 896"};
    float *x = b->api->alloc(b, 8192 * sizeof *x), *y = b->api->alloc(b, 8192 * sizeof *y);
    for (int i = 0; i < 8192; i++) x[i] = (float)(i % 19) * 0.3f - 2.0f;
    row_op r = {b, x, y, {x, CDZ_F16, 1, 896, CDZ_WEIGHT_ROWS}, 0};
    for (; r.which < 4; r.which++)
        printf("one row of %-14s %6.2f us\n", names[r.which], median_seconds(run_row_op, &r) * 1e3);
    b->api->free(b, x);
    b->api->free(b, y);
}

int main(int argc, char **argv)
{
    char why[256] = "";
    const char *variant = argc > 1 ? argv[1] : NULL;
    const cdz_cpu_options options = {
        .variant = variant, .n_threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0};
    const size_t most_rows = argc > 3 ? strtoul(argv[3], NULL, 10) : 512;
    const size_t types = argc > 4 ? strtoul(argv[4], NULL, 10) : N_TYPES;
    cdz_backend *b = cdz_cpu_backend_create(&options, why, sizeof why);
    if (!b) {
        fprintf(stderr, "bench_kernels: %s\n", why);
        return 1;
    }
    const size_t bytes = (size_t)151936 * 896 * 2;
    char *data = b->api->alloc(b, bytes);
    if (!data) return 1;
    for (size_t i = 0; i + 1 < bytes; i += 2) /* small numbers in every type, all pages written */
        memcpy(data + i, (const uint16_t[]){(uint16_t)(0x3c00 | (i * 2654435761u >> 20 & 0x7f))}, 2);
    printf("%s, %u threads: read %.1f GB/s, multiply-add %.1f GMAC/s\n", b->api->variant,
           (unsigned)b->api->n_threads(b), read_gbs(b, data, bytes), fma_gmacs(b));
    bench_rows(b);
    const cdz_dtype stores[] = {CDZ_F32, CDZ_F16, CDZ_Q8_0, CDZ_Q4_0};
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        bench_attention(b, stores[i]);
        bench_prompt_attention(b, stores[i]);
    }
    bench_packed(b);
    bench_products(b, data, bytes, most_rows, types < N_TYPES ? types : N_TYPES);
    b->api->free(b, data);
    b->api->destroy(b);
    return 0;
}
