/* kernel_data.h - what the CPU's kernel tests share: random weights, backends of every
 * variant that runs here, memory that ends at a forbidden page, comparison of floats. */
#ifndef CDZ_TESTS_SUPPORT_KERNEL_DATA_H
#define CDZ_TESTS_SUPPORT_KERNEL_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"
#include "support/random_data.h"

/* A random element of the type, finite and of moderate size. */
static inline void put_random(rng *r, cdz_dtype dtype, void *at)
{
    const float f = next_float(r);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    if (dtype == CDZ_F16)
        half = (uint16_t)((next_word(r) & 0x83ffu) | (10 + next_word(r) % 6) << 10);
    memcpy(at, dtype == CDZ_F32 ? (void *)&bits : (void *)&half, cdz_dtype_bytes(dtype));
}

/* The value of an element, independently of the library. */
static inline double element(cdz_dtype dtype, const void *data, size_t i)
{
    if (dtype == CDZ_F32) return (double)((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    if (dtype == CDZ_BF16) {
        const uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    const int exponent = h >> 10 & 31;
    const double sign = h >> 15 ? -1.0 : 1.0, mantissa = (double)(h & 1023);
    if (exponent == 31) return mantissa != 0.0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024.0 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

/* Memory whose last byte is followed by a page that may not be touched, as at the end of a
 * mapped file. */
typedef struct fenced {
    char *pages, *data;
    size_t mapped;
} fenced;

static inline fenced fenced_alloc(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page) / page * page;
    fenced f = {.mapped = body + page};
    void *p = mmap(NULL, f.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    f.pages = p;
    assert_int_equal(mprotect(f.pages + body, page, PROT_NONE), 0);
    f.data = f.pages + body - bytes;
    return f;
}

static inline void fenced_free(fenced *f)
{
    munmap(f->pages, f->mapped);
}

static inline fenced random_weights(rng *r, cdz_dtype dtype, size_t n)
{
    const size_t bytes = cdz_dtype_bytes(dtype);
    fenced f = fenced_alloc(n * bytes);
    for (size_t i = 0; i < n; i++) put_random(r, dtype, f.data + i * bytes);
    return f;
}

static inline cdz_backend *make_backend(const char *variant, uint32_t n_threads)
{
    char why[256] = "";
    const cdz_cpu_options options = {.variant = variant, .n_threads = n_threads};
    cdz_backend *b = cdz_cpu_backend_create(&options, why, sizeof why);
    if (!b) fail_msg("%s", why);
    return b;
}

/* Calls test for every variant; names the ones that this machine cannot run. */
static inline void each_variant(void (*test)(const char *variant))
{
    for (const char *const *v = cdz_cpu_variants(); *v; v++) {
        if (cdz_cpu_variant_runs_here(*v))
            test(*v);
        else
            print_message("skipped: %s does not run on this machine\n", *v);
    }
}

/* Rows (m, n) of two matrices; reports the first difference with what was being tested. */
static inline void assert_same_rows(const char *what, const float *a, size_t lda, const float *b,
                                    size_t ldb, size_t m, size_t n)
{
    for (size_t r = 0; r < m; r++) {
        if (memcmp(a + r * lda, b + r * ldb, n * sizeof *a) == 0) continue;
        for (size_t j = 0; j < n; j++)
            if (!same_float(a[r * lda + j], b[r * ldb + j]))
                fail_msg("%s: row %zu column %zu is %.9g (%a), expected %.9g (%a)", what, r, j,
                         (double)a[r * lda + j], (double)a[r * lda + j], (double)b[r * ldb + j],
                         (double)b[r * ldb + j]);
    }
}

#endif
