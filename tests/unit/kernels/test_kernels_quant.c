/* test_kernels_quant.c - block-quantised weights: every type against values of the format's own
 * package, and every product against the same product of the widened matrix, bit for bit. */
#include "support/kernel_data.h"

#include "kernel_set.h"
#include "load/gguf.h"

/* Where a block has its float16 factors; -1: there is only one. */
static const int halves[CDZ_N_GGUF][2] = {
    [CDZ_Q8_0] = {0, -1}, [CDZ_Q4_0] = {0, -1},   [CDZ_Q4_1] = {0, 2},    [CDZ_Q5_0] = {0, -1},
    [CDZ_Q5_1] = {0, 2},  [CDZ_Q2_K] = {80, 82},  [CDZ_Q3_K] = {108, -1}, [CDZ_Q4_K] = {0, 2},
    [CDZ_Q5_K] = {0, 2},  [CDZ_Q6_K] = {208, -1},
};

/* Rows of random blocks, at the end of memory that may be touched. */
static fenced random_blocks(rng *r, cdz_dtype dtype, size_t n, size_t k)
{
    const size_t bytes = n * cdz_row_bytes(dtype, k), each = cdz_dtype_bytes(dtype);
    fenced f = fenced_alloc(bytes);
    for (size_t i = 0; i < bytes; i++) f.data[i] = (char)(next_word(r) >> 8);
    for (size_t b = 0; b < bytes && dtype >= CDZ_N_GGUF && dtype < CDZ_N_MADE; b += each)
        put_random(r, CDZ_F32, f.data + b);
    for (size_t b = 0; b < bytes && dtype == CDZ_MXFP4; b += each) /* products stay finite */
        f.data[b] = (char)(next_word(r) % 140);
    for (size_t b = 0; b < bytes && dtype > CDZ_MXFP4; b += each)
        put_random(r, dtype == CDZ_FP8 ? CDZ_F32 : CDZ_F16, f.data + b);
    for (size_t b = 0; b < bytes && dtype < CDZ_N_GGUF; b += each)
        for (int h = 0; h < 2; h++)
            if (halves[dtype][h] >= 0) put_random(r, CDZ_F16, f.data + b + halves[dtype][h]);
    return f;
}

/* Row by row through the operation that looks rows up. */
static float *widen_by(const char *variant, const cdz_weight *w)
{
    cdz_backend *b = make_backend(variant, 1);
    float *wide = must_alloc(w->n * w->k * sizeof *wide);
    for (size_t i = 0; i < w->n; i++) {
        const int32_t id = (int32_t)i;
        b->api->embed(b, wide + i * w->k, w->k, w, &id, 1);
    }
    b->api->destroy(b);
    return wide;
}

/* ---- values ---- */

static cdz_gguf open_blocks(void)
{
    cdz_gguf g;
    cdz_error err = {0};
    if (cdz_gguf_open(CADENZA_TEST_DATA "/gguf/blocks.gguf", &g, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return g;
}

static void values_of(const char *variant)
{
    cdz_gguf g = open_blocks();
    for (int t = CDZ_N_PLAIN; t < CDZ_N_DTYPES; t++) {
        if ((t >= CDZ_N_GGUF && t < CDZ_N_MADE) || t == CDZ_FP8) continue; /* not GGUF's */
        char name[32];
        const char *type = cdz_dtype_name((cdz_dtype)t);
        snprintf(name, sizeof name, "%s.wide", type);
        const cdz_tensor *blocks = cdz_tensors_find(&g.tensors, type),
                         *wide = cdz_tensors_find(&g.tensors, name);
        assert_non_null(blocks);
        assert_non_null(wide);
        const cdz_weight w = {blocks->data, (cdz_dtype)t, 2, 512, CDZ_WEIGHT_ROWS};
        assert_int_equal(blocks->n_bytes, 2 * cdz_row_bytes(w.dtype, w.k));
        float *got = widen_by(variant, &w);
        assert_same_rows(type, got, 512, wide->data, 512, 2, 512);
        free(got);
    }
    cdz_gguf_close(&g);
}

static void values_are_the_formats_own(void **state)
{
    (void)state;
    each_variant(values_of);
}

static void layouts_are_the_formats_own(void **state)
{
    (void)state;
    static const uint32_t numbers[CDZ_N_GGUF] = {0, 1, 30, 8, 2, 3, 6, 7, 10, 11, 12, 13, 14};
    for (int t = 0; t < CDZ_N_GGUF; t++) {
        const cdz_gguf_layout *layout = cdz_gguf_layout_number(numbers[t]);
        assert_non_null(layout);
        assert_string_equal(layout->name, cdz_dtype_name((cdz_dtype)t));
        assert_int_equal(layout->n_block, cdz_dtype_block((cdz_dtype)t));
        assert_int_equal(layout->n_bytes, cdz_dtype_bytes((cdz_dtype)t));
    }
}

/* ---- products ---- */

static const struct shape {
    size_t n, k;
} shapes[] = {{7, 256}, {71, 512}, {19, 2304}, {13, 1088}}, /* the last one is for small blocks */
    ragged[] = {{7, 1}, {9, 17}, {71, 80}, {13, 200}, {19, 1023}, {8, 1026}, {37, 2128}};

enum { MOST_ROWS = 67 };
static const size_t row_counts[] = {1, 2, 3, 4, 6, 8, 17, 33, 67};

static void compare_products(const char *variant, cdz_dtype dtype, const struct shape *s)
{
    rng r = {(uint32_t)(s->n * 131 + s->k + dtype)};
    const size_t ldx = s->k + 3;
    fenced blocks = random_blocks(&r, dtype, s->n, s->k);
    const cdz_weight w = {blocks.data, dtype, s->n, s->k, CDZ_WEIGHT_ROWS};
    float *wide = widen_by("scalar", &w), *x = random_floats(&r, MOST_ROWS * ldx),
          *expected = must_alloc(MOST_ROWS * s->n * sizeof(float)),
          *y = must_alloc(MOST_ROWS * s->n * sizeof(float));
    cdz_scalar_set.dot[CDZ_F32](expected, s->n, wide, s->n, s->k, x, ldx, MOST_ROWS);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        cdz_backend *b = make_backend(variant, threads);
        for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
            char what[96];
            const size_t m = row_counts[i];
            const cdz_product p = {.w = &w, .y = y, .ldy = s->n};
            snprintf(what, sizeof what, "%s %s %zux%zu, %zu rows, %u threads", variant,
                     cdz_dtype_name(dtype), s->n, s->k, m, (unsigned)threads);
            memset(y, 0xff, MOST_ROWS * s->n * sizeof *y);
            b->api->matmul(b, &p, 1, x, ldx, m);
            assert_same_rows(what, y, s->n, expected, s->n, m, s->n);
        }
        b->api->destroy(b);
    }
    free(wide);
    free(x);
    free(expected);
    free(y);
    fenced_free(&blocks);
}

static void products_of(const char *variant)
{
    for (int t = CDZ_N_PLAIN; t < CDZ_N_DTYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (shapes[s].k % cdz_dtype_block((cdz_dtype)t) == 0)
                compare_products(variant, (cdz_dtype)t, &shapes[s]);
}

static void products_are_those_of_the_widened(void **state)
{
    (void)state;
    each_variant(products_of);
}

/* Rows of float8 end anywhere in a block; what it has past them is anything, NaN too. */
static void float8_of(const char *variant)
{
    for (size_t s = 0; s < sizeof ragged / sizeof *ragged; s++)
        compare_products(variant, CDZ_FP8, &ragged[s]);
}

static void float8_rows_end_anywhere(void **state)
{
    (void)state;
    each_variant(float8_of);
}

/* Every set widens as the definition does, and no further than the row. */
static void widen_ragged(const char *variant)
{
    for (size_t s = 0; s < sizeof ragged / sizeof *ragged; s++) {
        const size_t n = ragged[s].n, k = ragged[s].k;
        rng r = {(uint32_t)(n + k)};
        fenced blocks = random_blocks(&r, CDZ_FP8, n, k);
        const cdz_weight w = {blocks.data, CDZ_FP8, n, k, CDZ_WEIGHT_ROWS};
        float *got = widen_by(variant, &w), *row = must_alloc((k + 1) * sizeof *row);
        for (size_t i = 0; i < n; i++) {
            row[k] = 77.0f;
            cdz_widen(CDZ_FP8, row, blocks.data + i * cdz_row_bytes(CDZ_FP8, k), k);
            assert_true(row[k] == 77.0f);
            assert_same_rows(variant, got + i * k, k, row, k, 1, k);
        }
        free(row);
        free(got);
        fenced_free(&blocks);
    }
}

static void float8_rows_widen_anywhere(void **state)
{
    (void)state;
    each_variant(widen_ragged);
}

/* Against float64, with the package's values. */
static void dot_products_are_exact_to_rounding(void **state)
{
    (void)state;
    enum { K = 512 };
    cdz_gguf g = open_blocks();
    rng r = {7};
    float *x = random_floats(&r, K), y[2];
    cdz_backend *b = make_backend(NULL, 1);
    for (int t = CDZ_N_PLAIN; t < CDZ_N_GGUF; t++) {
        char name[32];
        snprintf(name, sizeof name, "%s.wide", cdz_dtype_name((cdz_dtype)t));
        const float *wide = cdz_tensors_find(&g.tensors, name)->data;
        const cdz_weight w = {cdz_tensors_find(&g.tensors, cdz_dtype_name((cdz_dtype)t))->data,
                              (cdz_dtype)t, 2, K, CDZ_WEIGHT_ROWS};
        const cdz_product p = {.w = &w, .y = y, .ldy = 2};
        b->api->matmul(b, &p, 1, x, K, 1);
        for (size_t j = 0; j < 2; j++) {
            double sum = 0, magnitude = 0;
            for (size_t k = 0; k < K; k++) {
                const double term = (double)wide[j * K + k] * (double)x[k];
                sum += term;
                magnitude += fabs(term);
            }
            if (!(fabs((double)y[j] - sum) <= magnitude * 0x1p-24 * (K / 16 + 4)))
                fail_msg("%s: %.9g, expected %.9g", name, (double)y[j], sum);
        }
    }
    b->api->destroy(b);
    free(x);
    cdz_gguf_close(&g);
}

/* ---- making blocks ---- */

static void blocks_are_the_references(void **state)
{
    (void)state;
    enum { ROWS = 8, K = 512 };
    cdz_gguf g;
    cdz_error err = {0};
    if (cdz_gguf_open(CADENZA_TEST_DATA "/gguf/quantised.gguf", &g, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const float *rows = cdz_tensors_find(&g.tensors, "rows")->data;
    for (int t = CDZ_F16; t < CDZ_N_GGUF; t++) {
        const char *name = cdz_dtype_name((cdz_dtype)t);
        const cdz_tensor *expected = cdz_tensors_find(&g.tensors, name);
        assert_non_null(expected);
        const size_t stride = cdz_row_bytes((cdz_dtype)t, K);
        uint8_t *made = must_alloc(stride);
        for (size_t r = 0; r < ROWS; r++) {
            cdz_quantise((cdz_dtype)t, made, rows + r * K, K);
            if (memcmp(made, (const char *)expected->data + r * stride, stride) != 0)
                fail_msg("%s: row %zu differs", name, r);
        }
        free(made);
    }
    cdz_gguf_close(&g);
}

/* Infinities and what is no number make blocks too, and no undefined conversion. */
static void any_number_makes_a_block(void **state)
{
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-45f, -0.0f, 1.0f};
    float row[256];
    uint8_t block[1024];
    for (size_t first = 0; first < 8; first++)
        for (int t = CDZ_F32; t < CDZ_N_MADE; t++) {
            for (size_t i = 0; i < 256; i++) row[i] = odd[(first + i % 3) % 8];
            memset(block, 0xAA, sizeof block);
            cdz_quantise((cdz_dtype)t, block, row, 256);
            const size_t n = cdz_row_bytes((cdz_dtype)t, 256);
            for (size_t i = n; i < sizeof block; i++) assert_int_equal(block[i], 0xAA);
        }
}

/* The plain types come back from a widened row bit by bit. */
static void plain_types_come_back(void **state)
{
    (void)state;
    static const cdz_dtype types[] = {CDZ_F16, CDZ_BF16};
    for (size_t t = 0; t < 2; t++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            const uint16_t stored = (uint16_t)bits;
            uint16_t back;
            float wide;
            cdz_widen(types[t], &wide, &stored, 1);
            cdz_quantise(types[t], &back, &wide, 1);
            if (!isnan(wide) && back != stored)
                fail_msg("%s %04X: %04X", cdz_dtype_name(types[t]), (unsigned)stored,
                         (unsigned)back);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_formats_own),
        cmocka_unit_test(layouts_are_the_formats_own),
        cmocka_unit_test(products_are_those_of_the_widened),
        cmocka_unit_test(float8_rows_end_anywhere),
        cmocka_unit_test(float8_rows_widen_anywhere),
        cmocka_unit_test(dot_products_are_exact_to_rounding),
        cmocka_unit_test(blocks_are_the_references),
        cmocka_unit_test(any_number_makes_a_block),
        cmocka_unit_test(plain_types_come_back),
    };
    return cmocka_run_group_tests_name("kernels: quantised", tests, NULL, NULL);
}
