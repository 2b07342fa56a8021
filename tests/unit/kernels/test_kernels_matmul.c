/* test_kernels_matmul.c - products: every variant, row count, split and thread count has the
 * scalar set's bits, the scalar set has the written order, and that order is near the exact
 * result. */
#include "support/kernel_data.h"

#include "kernel_set.h"

static const size_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33, 64, 67, 99, 130};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts, MOST_ROWS = 130 };

static const struct shape {
    const char *name;
    size_t n, k;
} shapes[] = {
    {"one by one", 1, 1},
    {"shorter than a group", 3, 5},
    {"one group", 7, 16},
    {"a group and a tail", 17, 31},
    {"whole tiles", 64, 64},
    {"odd outputs", 71, 130},
    {"more than a block of outputs", 301, 200},
    {"many short rows", 700, 24},
    {"a whole chunk", 100, 1024},
    {"a chunk and one", 33, 1025},
    {"two chunks and a tail", 40, 2057},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static const struct {
    const char *name;
    cdz_dtype dtype;
} dtypes[] = {{"f32", CDZ_F32}, {"f16", CDZ_F16}, {"bf16", CDZ_BF16}};

/* A case: weights at the end of mapped memory, a bias, activations with a gap between rows. */
typedef struct problem {
    cdz_weight w, bias;
    fenced weights, biases;
    float *x, *expected;
    size_t ldx;
} problem;

/* y + bias as the scalar set computes it, the whole matrix row by row. */
static void expect(problem *p)
{
    const size_t n = p->w.n;
    p->expected = must_alloc(MOST_ROWS * n * sizeof(float));
    cdz_scalar_set.dot[p->w.dtype](p->expected, n, p->w.data, n, p->w.k, p->x, p->ldx, MOST_ROWS);
    for (size_t r = 0; r < MOST_ROWS; r++)
        for (size_t j = 0; j < n; j++)
            p->expected[r * n + j] += (float)element(p->bias.dtype, p->bias.data, j);
}

static problem make_problem(const struct shape *shape, cdz_dtype dtype)
{
    rng r = {(uint32_t)(shape->n * 131 + shape->k * 7 + dtype + 1)};
    problem p = {.ldx = shape->k + 3};
    p.weights = random_weights(&r, dtype, shape->n * shape->k);
    p.biases = random_weights(&r, dtype, shape->n);
    p.w = (cdz_weight){p.weights.data, dtype, shape->n, shape->k, CDZ_WEIGHT_ROWS};
    p.bias = (cdz_weight){p.biases.data, dtype, 1, shape->n, CDZ_WEIGHT_ROWS};
    p.x = random_floats(&r, MOST_ROWS * p.ldx);
    expect(&p);
    return p;
}

static void free_problem(problem *p)
{
    fenced_free(&p->weights);
    fenced_free(&p->biases);
    free(p->x);
    free(p->expected);
}

/* ---- the written order ---- */

/* The head comment of kernels.h, spelled out once more for one row and one output. */
static float written_dot(const float *w, const float *x, size_t k)
{
    float y = 0.0f;
    for (size_t from = 0; from < k; from += 1024) {
        float s[16] = {0};
        for (size_t i = from; i < k && i < from + 1024; i++)
            s[i % 16] = fmaf(w[i], x[i], s[i % 16]);
        for (int l = 0; l < 8; l++) s[l] = s[l] + s[l + 8];
        for (int l = 0; l < 4; l++) s[l] = s[l] + s[l + 4];
        const float chunk = (s[0] + s[1]) + (s[2] + s[3]);
        y = from == 0 ? chunk : y + chunk;
    }
    return y;
}

static void scalar_set_has_the_written_order(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        const size_t n = shapes[s].n, k = shapes[s].k;
        rng r = {(uint32_t)s + 1};
        float *w = random_floats(&r, n * k), *x = random_floats(&r, k),
              *y = must_alloc(n * sizeof *y);
        cdz_scalar_set.dot[CDZ_F32](y, n, w, n, k, x, k, 1);
        for (size_t j = 0; j < n; j++) {
            const float expected = written_dot(w + j * k, x, k);
            assert_same_rows(shapes[s].name, &y[j], 1, &expected, 1, 1, 1);
        }
        free(w);
        free(x);
        free(y);
    }
}

static void the_types_agree_on_equal_values(void **state)
{
    (void)state;
    enum { N = 9, K = 77 };
    rng r = {5};
    uint16_t bf16[N * K], f16[N * K];
    float f32[N * K], x[K], y[3][N];
    for (size_t i = 0; i < N * K; i++) { /* multiples of 1/8 below 16 fit all three */
        f32[i] = (float)((int)(next_word(&r) % 255) - 127) / 8.0f;
        uint32_t bits;
        memcpy(&bits, &f32[i], sizeof bits);
        bf16[i] = (uint16_t)(bits >> 16);
        const uint32_t exponent = (bits >> 23 & 255) - 112;
        f16[i] =
            (uint16_t)(f32[i] == 0.0f ? 0
                                      : (bits >> 31 << 15 | exponent << 10 | (bits >> 13 & 1023)));
    }
    for (size_t i = 0; i < K; i++) x[i] = next_float(&r);
    const void *const data[] = {f32, f16, bf16};
    for (size_t d = 0; d < 3; d++) cdz_scalar_set.dot[d](y[d], N, data[d], N, K, x, K, 1);
    assert_same_rows("f16", y[CDZ_F16], N, y[CDZ_F32], N, 1, N);
    assert_same_rows("bf16", y[CDZ_BF16], N, y[CDZ_F32], N, 1, N);
}

/* A sum of 16 lanes and chunks errs by a few units of the last place of the sum of magnitudes. */
static void near_the_exact_product(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t d = 0; d < 3; d++) {
            problem p = make_problem(&shapes[s], dtypes[d].dtype);
            for (size_t j = 0; j < p.w.n; j++) {
                double sum = element(p.bias.dtype, p.bias.data, j), magnitude = fabs(sum);
                for (size_t i = 0; i < p.w.k; i++) {
                    const double term = element(p.w.dtype, p.w.data, j * p.w.k + i) * (double)p.x[i];
                    sum += term;
                    magnitude += fabs(term);
                }
                if (fabs((double)p.expected[j] - sum) > 1e-6 * magnitude)
                    fail_msg("%s %s: output %zu is %.9g, exactly %.9g", shapes[s].name,
                             dtypes[d].name, j, (double)p.expected[j], sum);
            }
            free_problem(&p);
        }
}

/* ---- variants ---- */

static void check_problem(cdz_backend *b, const problem *p, const char *what, size_t m)
{
    const size_t n = p->w.n, ldy = n + 2;
    float *y = must_alloc(m * ldy * sizeof *y);
    for (size_t i = 0; i < m * ldy; i++) y[i] = 12345.0f;
    const cdz_product product = {&p->w, &p->bias, y, ldy};
    b->api->matmul(b, &product, 1, p->x, p->ldx, m);
    assert_same_rows(what, y, ldy, p->expected, n, m, n);
    for (size_t r = 0; r < m; r++)
        for (size_t j = n; j < ldy; j++) assert_true(y[r * ldy + j] == 12345.0f);
    free(y);
}

static void check_counts(const char *variant, uint32_t threads, const problem *p, const char *shape,
                         const char *dtype)
{
    cdz_backend *b = make_backend(variant, threads);
    /* The scalar variant is slow, and its kernel is the expectation: some row counts test its
     * dispatch. */
    const size_t step = strcmp(variant, "scalar") == 0 ? 4 : 1;
    for (size_t i = 0; i < N_ROW_COUNTS; i += step) {
        char what[160];
        snprintf(what, sizeof what, "%s, %u threads, %s, %s, %zu rows", variant, (unsigned)threads,
                 shape, dtype, row_counts[i]);
        check_problem(b, p, what, row_counts[i]);
    }
    b->api->destroy(b);
}

static void bits_equal_in(const char *variant)
{
    static const uint32_t threads[] = {1, 2, 3, 8};
    for (size_t s = 0; s < N_SHAPES; s++)
        for (size_t d = 0; d < 3; d++) {
            problem p = make_problem(&shapes[s], dtypes[d].dtype);
            for (size_t t = 0; t < 4; t++)
                check_counts(variant, threads[t], &p, shapes[s].name, dtypes[d].name);
            free_problem(&p);
        }
}

static void bits_equal_for_all_rows_splits_and_threads(void **state)
{
    (void)state;
    each_variant(bits_equal_in);
}

/* q, k, v of different heights and types in one call, with and without biases. */
static void fused_set_in(const char *variant)
{
    static const struct shape set[] = {{"q", 130, 300}, {"k", 20, 300}, {"v", 67, 300}};
    cdz_backend *b = make_backend(variant, 3);
    problem p[3];
    float *y[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = make_problem(&set[i], dtypes[i].dtype);
        y[i] = must_alloc(MOST_ROWS * set[i].n * sizeof(float));
    }
    for (size_t i = 0; i < 3; i++) { /* the expectation for the shared input */
        cdz_scalar_set.dot[p[i].w.dtype](p[i].expected, set[i].n, p[i].w.data, set[i].n, 300,
                                         p[0].x, p[0].ldx, MOST_ROWS);
        for (size_t j = 0; i != 1 && j < MOST_ROWS * set[i].n; j++)
            p[i].expected[j] += (float)element(p[i].bias.dtype, p[i].bias.data, j % set[i].n);
    }
    for (size_t c = 0; c < N_ROW_COUNTS; c++) {
        cdz_product products[3];
        for (size_t i = 0; i < 3; i++)
            products[i] = (cdz_product){&p[i].w, i == 1 ? NULL : &p[i].bias, y[i], set[i].n};
        b->api->matmul(b, products, 3, p[0].x, p[0].ldx, row_counts[c]);
        for (size_t i = 0; i < 3; i++)
            assert_same_rows(set[i].name, y[i], set[i].n, p[i].expected, set[i].n, row_counts[c],
                             set[i].n);
    }
    b->api->sync(b); /* a late thread may be reading weights until then */
    for (size_t i = 0; i < 3; i++) {
        free_problem(&p[i]);
        free(y[i]);
    }
    b->api->destroy(b);
}

static void products_of_a_set_do_not_mix(void **state)
{
    (void)state;
    each_variant(fused_set_in);
}

/* Infinities, NaN, subnormals and signed zeros come out as in the scalar set. */
static void special_values_in(const char *variant)
{
    static const uint16_t f16[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff,
                                   0x7c00, 0xfc00, 0x7e00, 0x3c00};
    enum { N = 40, K = 50, M = 20 };
    uint16_t weights[N * K];
    float x[M * K], y[M * N], expected[M * N];
    rng r = {77};
    for (size_t i = 0; i < N * K; i++)
        weights[i] = i / K < 30 ? f16[next_word(&r) % 5] : f16[next_word(&r) % 9];
    for (size_t i = 0; i < M * K; i++) x[i] = next_float(&r) * (i % 7 ? 1.0f : 1e-38f);
    cdz_scalar_set.dot[CDZ_F16](expected, N, weights, N, K, x, K, M);
    cdz_backend *b = make_backend(variant, 2);
    const cdz_weight w = {weights, CDZ_F16, N, K, CDZ_WEIGHT_ROWS};
    for (size_t m = 1; m <= M; m++) {
        const cdz_product product = {&w, NULL, y, N};
        b->api->matmul(b, &product, 1, x, K, m);
        assert_same_rows(variant, y, N, expected, N, m, N);
    }
    b->api->destroy(b);
}

static void special_values_survive(void **state)
{
    (void)state;
    each_variant(special_values_in);
}

/* More rows than one packed block holds. */
static void long_prompt_in(const char *variant)
{
    enum { N = 24, K = 80, M = 1100 };
    rng r = {3};
    fenced weights = random_weights(&r, CDZ_BF16, N * K);
    const cdz_weight w = {weights.data, CDZ_BF16, N, K, CDZ_WEIGHT_ROWS};
    float *x = random_floats(&r, (size_t)M * K), *y = must_alloc(M * N * sizeof *y);
    float *expected = must_alloc(M * N * sizeof *y);
    cdz_scalar_set.dot[CDZ_BF16](expected, N, weights.data, N, K, x, K, M);
    cdz_backend *b = make_backend(variant, 8);
    const cdz_product product = {&w, NULL, y, N};
    b->api->matmul(b, &product, 1, x, K, M);
    assert_same_rows(variant, y, N, expected, N, M, N);
    b->api->destroy(b);
    fenced_free(&weights);
    free(x);
    free(y);
    free(expected);
}

static void long_prompts_are_cut_without_a_trace(void **state)
{
    (void)state;
    each_variant(long_prompt_in);
}

/* ---- creation ---- */

static void unknown_variant_is_refused(void **state)
{
    (void)state;
    char why[256] = "";
    const cdz_cpu_options options = {.variant = "avx1024", .n_threads = 1};
    assert_null(cdz_cpu_backend_create(&options, why, sizeof why));
    assert_non_null(strstr(why, "avx1024"));
    assert_non_null(strstr(why, "scalar"));
    assert_false(cdz_cpu_variant_runs_here("avx1024"));
}

static void the_default_runs(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 0);
    assert_true(b->api->n_threads(b) >= 1);
    assert_string_equal(b->api->name, "cpu");
    assert_true(cdz_cpu_variant_runs_here(b->api->variant));
    cdz_backend *other = make_backend("scalar", 2); /* two at once */
    assert_string_equal(other->api->variant, "scalar");
    assert_int_equal(other->api->n_threads(other), 2);
    float *memory = b->api->alloc(b, 1000);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t i = 0; i < 250; i++) assert_true(memory[i] == 0.0f);
    b->api->free(b, memory);
    b->api->free(b, NULL);
    b->api->sync(b);
    b->api->destroy(b);
    other->api->destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_set_has_the_written_order),
        cmocka_unit_test(the_types_agree_on_equal_values),
        cmocka_unit_test(near_the_exact_product),
        cmocka_unit_test(bits_equal_for_all_rows_splits_and_threads),
        cmocka_unit_test(products_of_a_set_do_not_mix),
        cmocka_unit_test(special_values_survive),
        cmocka_unit_test(long_prompts_are_cut_without_a_trace),
        cmocka_unit_test(unknown_variant_is_refused),
        cmocka_unit_test(the_default_runs),
    };
    return cmocka_run_group_tests_name("kernels: matmul", tests, NULL, NULL);
}
