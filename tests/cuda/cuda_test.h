/* cuda_test.h - what the tests of a backend's shared object share. They open the object given on the
 * command line, emulated or real, and compare its operations with the CPU's scalar set, which is the
 * definition. They need neither the host nor its libraries, so that they build on a bare machine. */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include <dlfcn.h>

#include "../support/random_data.h"
#include "backend_abi.h"

/* One run: the backends compared, and what came out. */
typedef struct run {
    const cdz_backend_entry *entry;
    cdz_backend *cpu, *strict, *f32, *automatic; /* the last three are the object's */
    unsigned passed, failed;
    bool well; /* the case so far */
} run;

/* Reports only a case's first difference. */
#define expect(t, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition) && (t)->well) {                                                           \
            (t)->well = false;                                                                     \
            printf("  %s:%d: ", __FILE__, __LINE__);                                               \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)

typedef struct test_case {
    const char *name;
    void (*test)(run *t);
} test_case;

/* ---- backends ---- */

static inline cdz_backend *open_device(const cdz_backend_entry *entry, cdz_precision precision,
                                       bool strict)
{
    char why[512] = "";
    const cdz_device_options options = {sizeof options, 0, precision, strict};
    cdz_backend *b = entry->create(&options, why, sizeof why);
    if (b) return b;
    printf("cannot create a backend: %s\n", why);
    exit(1);
}

/* Exits with 77 when there is no device. */
static inline void open_run(run *t, int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s BACKEND.so\n", argv[0]);
        exit(2);
    }
    void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *symbol = NULL;
    if (object) symbol = dlsym(object, CDZ_BACKEND_SYMBOL);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    cdz_backend_entry_fn *get;
    memcpy(&get, &symbol, sizeof get);
    char why[512] = "";
    *t = (run){.entry = get()};
    if (t->entry->count(why, sizeof why) <= 0) {
        printf("skipped device: %s\n", why);
        exit(77);
    }
    const cdz_cpu_options scalar = {"scalar", 1, NULL};
    t->cpu = cdz_cpu_backend_create(&scalar, why, sizeof why);
    t->strict = open_device(t->entry, CDZ_PRECISION_AUTO, true);
    t->f32 = open_device(t->entry, CDZ_PRECISION_F32, false);
    t->automatic = open_device(t->entry, CDZ_PRECISION_AUTO, false);
    cdz_device_info info;
    t->entry->describe(0, &info);
    printf("device: %s, %s\n", info.name, info.capability);
}

static inline int close_run(run *t)
{
    cdz_backend *const all[] = {t->cpu, t->strict, t->f32, t->automatic};
    for (size_t i = 0; i < 4; i++) {
        const char *trouble = all[i]->api->trouble ? all[i]->api->trouble(all[i]) : NULL;
        if (trouble) printf("FAILED: %s\n", trouble);
        if (trouble) t->failed++;
        all[i]->api->destroy(all[i]);
    }
    printf("COUNTED %u passed, %u failed, 0 skipped\n", t->passed, t->failed);
    return t->failed ? 1 : 0;
}

static inline void run_cases(run *t, const test_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        t->well = true;
        cases[i].test(t);
        printf("%s: %s\n", t->well ? "passed" : "FAILED", cases[i].name);
        if (t->well)
            t->passed++;
        else
            t->failed++;
    }
}

/* A whole test program. */
static inline int run_all(int argc, char **argv, const test_case *cases, size_t n)
{
    run t;
    open_run(&t, argc, argv);
    run_cases(&t, cases, n);
    return close_run(&t);
}

/* ---- memory there ---- */

static inline void *there(cdz_backend *b, const void *data, size_t bytes)
{
    void *at = b->api->alloc(b, bytes + 16);
    if (!at) {
        printf("out of device memory\n");
        exit(1);
    }
    b->api->upload(b, at, data, bytes);
    return at;
}

static inline float *floats_there(cdz_backend *b, const float *x, size_t n)
{
    return there(b, x, n * sizeof *x);
}

static inline float *floats_back(cdz_backend *b, const float *x, size_t n)
{
    float *y = must_alloc(n * sizeof *y);
    b->api->download(b, y, x, n * sizeof *y);
    return y;
}

/* The matrix `got` lies on b, the expected one here; all n floats of the memory. */
static inline void expect_same(run *t, const char *what, cdz_backend *b, const float *got,
                               const float *expected, size_t n)
{
    float *back = floats_back(b, got, n);
    for (size_t i = 0; i < n && t->well; i++)
        expect(t, same_float(back[i], expected[i]), "%s: float %zu is %.9g (%a), expected %.9g (%a)",
               what, i, (double)back[i], (double)back[i], (double)expected[i], (double)expected[i]);
    free(back);
}

/* Blocks of a type that is read and never made: any bytes, with factors that leave products finite. */
static inline void random_blocks(rng *r, cdz_dtype dtype, char *rows, size_t bytes)
{
    const size_t each = cdz_dtype_bytes(dtype);
    for (size_t i = 0; i < bytes; i++) rows[i] = (char)(next_word(r) >> 8);
    for (size_t b = 0; b < bytes; b += each) {
        float *d = random_floats(r, 1);
        if (dtype == CDZ_MXFP4)
            rows[b] = (char)(next_word(r) % 140);
        else
            cdz_quantise(dtype == CDZ_FP8 ? CDZ_F32 : CDZ_F16, rows + b, d, 1);
        free(d);
    }
}

/* A random matrix of a type, in host memory: plain elements, or blocks that stand for random numbers. */
static inline void *random_rows(rng *r, cdz_dtype dtype, size_t n, size_t k)
{
    char *rows = must_alloc(n * cdz_row_bytes(dtype, k));
    if (dtype >= CDZ_N_MADE) random_blocks(r, dtype, rows, n * cdz_row_bytes(dtype, k));
    for (size_t i = 0; i < n && dtype < CDZ_N_MADE; i++) {
        float *x = random_floats(r, k);
        cdz_quantise(dtype, rows + i * cdz_row_bytes(dtype, k), x, k);
        free(x);
    }
    return rows;
}

/* A weight here and its copy there. */
typedef struct pair {
    cdz_weight here, there;
} pair;

static inline pair random_weight(run *t, cdz_backend *b, rng *r, cdz_dtype dtype, size_t n, size_t k)
{
    pair p = {.here = {random_rows(r, dtype, n, k), dtype, n, k, CDZ_WEIGHT_ROWS}};
    p.there = p.here;
    p.there.data = b->api->place(b, p.here.data, n * cdz_row_bytes(dtype, k));
    expect(t, p.there.data, "no place for a weight");
    return p;
}

static inline void free_weight(cdz_backend *b, pair *p)
{
    free((void *)(uintptr_t)p->here.data);
    b->api->unplace(b, p->there.data);
}

#endif
