/* test_kernels_parts.c - products with activations in parts of bf16: the definition spelled out once more, and the scalar set and
 * AMX, where the machine has it, against it, bit for bit. */
#include <float.h>

#include "support/kernel_sets.h"

static const struct shape {
    const char *name;
    size_t n, k;
} shapes[] = {
    {"a pair", 1, 2},
    {"shorter than a group", 3, 6},
    {"a group and a tail", 17, 61},
    {"whole tiles", 64, 128},
    {"odd outputs", 71, 130},
    {"more than a chunk", 301, 200},
    {"two pieces", 34, 2048},
    {"two pieces and a tail", 20, 2066},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MOST_ROWS = 67 };
static const size_t row_counts[] = {1, 3, 16, 17, 40, 67};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* ---- the definition ---- */

static float to_zero(float v)
{
    return fabsf(v) < FLT_MIN ? copysignf(0.0f, v) : v;
}

/* What is left of x after `before` parts, rounded. */
static float part_of(float x, size_t before)
{
    for (;;) {
        uint16_t h;
        cdz_quantise(CDZ_BF16, &h, &x, 1);
        const float part = (float)element(CDZ_BF16, &h, 0);
        if (before-- == 0) return part;
        x = isfinite(part) ? x - part : 0.0f;
    }
}

/* The sentence of kernels.h: groups, parts, sums and order. x: the parts of each number. */
static float written_dot(const float *w, const float *x, size_t k, size_t parts)
{
    float y = 0.0f;
    for (size_t from = 0; from < k; from += 32)
        for (size_t part = parts; part-- > 0;) {
            float s[2] = {0};
            for (size_t i = from; i < from + 32; i++) {
                const float a = i < k ? to_zero(w[i]) : 0.0f,
                            b = i < k ? to_zero(x[i * parts + part]) : 0.0f;
                s[i % 2] = to_zero(fmaf(a, b, s[i % 2]));
            }
            y = to_zero(y + to_zero(s[0] + s[1]));
        }
    return y;
}

/* ---- products ---- */

typedef struct problem {
    cdz_weight w, bias;
    fenced weights, biases;
    float *x, *expected;
    size_t ldx;
} problem;

/* How large the numbers are: `small` brings products near the smallest there are. */
static problem make_problem(const struct shape *s, bool small, size_t parts)
{
    rng r = {(uint32_t)(s->n * 131 + s->k * 7)};
    problem p = {.ldx = s->k + 3};
    p.weights = random_weights(&r, CDZ_BF16, s->n * s->k);
    p.biases = random_weights(&r, CDZ_F32, s->n);
    p.w = (cdz_weight){p.weights.data, CDZ_BF16, s->n, s->k,
                       parts == 1 ? CDZ_WEIGHT_BF16X1 : CDZ_WEIGHT_BF16X3};
    p.bias = (cdz_weight){p.biases.data, CDZ_F32, 1, s->n, CDZ_WEIGHT_ROWS};
    p.x = random_floats(&r, MOST_ROWS * p.ldx);
    uint16_t *w = (uint16_t *)(void *)p.weights.data;
    for (size_t i = 0; small && i < s->n * s->k; i++) /* exponents 0 to 15, subnormals too */
        w[i] = (uint16_t)((w[i] & 0x807f) | (next_word(&r) & 15) << 7);
    p.expected = must_alloc(MOST_ROWS * s->n * sizeof *p.expected);
    float *x = must_alloc(s->k * parts * sizeof *x), *wide = must_alloc(s->n * s->k * sizeof *wide);
    for (size_t i = 0; i < s->n * s->k; i++) wide[i] = (float)element(CDZ_BF16, w, i);
    for (size_t m = 0; m < MOST_ROWS; m++) {
        for (size_t i = 0; i < s->k * parts; i++)
            x[i] = part_of(p.x[m * p.ldx + i / parts], i % parts);
        for (size_t j = 0; j < s->n; j++)
            p.expected[m * s->n + j] = written_dot(wide + j * s->k, x, s->k, parts) +
                                       (float)element(CDZ_F32, p.biases.data, j);
    }
    free(x);
    free(wide);
    return p;
}

static void free_problem(problem *p)
{
    fenced_free(&p->weights);
    fenced_free(&p->biases);
    free(p->x);
    free(p->expected);
}

static void check_products(cdz_backend *b, const problem *p, const char *what)
{
    const size_t n = p->w.n;
    float *y = must_alloc(MOST_ROWS * (n + 5) * sizeof *y);
    for (size_t c = 0; c < N_ROW_COUNTS; c++) {
        const size_t m = row_counts[c];
        const cdz_product one = {&p->w, &p->bias, y, n + 5};
        b->api->matmul(b, &one, 1, p->x, p->ldx, m);
        assert_same_rows(what, y, n + 5, p->expected, n, m, n);
    }
    free(y);
}

static void products_in(const char *variant)
{
    for (size_t s = 0; s < 2 * N_SHAPES; s++) {
        const struct shape *shape = &shapes[s / 2];
        problem p = make_problem(shape, s / 2 % 2, s % 2 ? 3 : 1);
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            cdz_backend *b = make_backend(variant, threads);
            if (b->api->takes_parts) check_products(b, &p, shape->name);
            b->api->destroy(b);
        }
        free_problem(&p);
    }
}

static void every_variant_has_the_written_order(void **state)
{
    (void)state;
    each_variant(products_in);
}

/* Without a backend: tiles packed and multiplied a piece of the columns after the other. */
static void product_of_set(const cdz_kernel_set *set, const struct shape *shape, size_t parts)
{
    problem p = make_problem(shape, false, parts);
    const size_t n = shape->n, k = shape->k, tiles = (MOST_ROWS + 15) / 16, cut = k / 64 * 32;
    const size_t step = cdz_tile_numbers(k, parts);
    uint16_t *x = must_alloc(tiles * step * sizeof *x);
    float *sums = aligned_alloc(64, (n + 63) / 64 * 64 * tiles * 16 * sizeof *sums),
          *y = must_alloc(MOST_ROWS * n * sizeof *y);
    assert_non_null(sums);
    for (size_t t = 0; t < tiles; t++)
        set->pack_parts(x + t * step, p.x + 16 * t * p.ldx, p.ldx,
                        MOST_ROWS - 16 * t < 16 ? MOST_ROWS - 16 * t : 16, k, parts);
    cdz_parts_product product = {.n = n, .stride = 2 * k, .tiles = tiles, .tile_step = step};
    product.parts = parts;
    product.sums = sums;
    product.y = y;
    product.ldy = n;
    product.m = MOST_ROWS;
    for (size_t from = 0; from < k; from = from == 0 && cut ? cut : k) {
        product.w = p.weights.data + 2 * from;
        product.k = from == 0 && cut ? cut : k - from;
        product.x = x + cdz_tile_numbers(from, parts);
        product.first = from == 0;
        product.last = from + product.k == k;
        set->parts_product(&product);
    }
    for (size_t i = 0; i < MOST_ROWS * n; i++)
        y[i] += (float)element(CDZ_F32, p.biases.data, i % n);
    assert_same_rows(set->name, y, n, p.expected, n, MOST_ROWS, n);
    free(x);
    free(sums);
    free(y);
    free_problem(&p);
}

static void products_of_set(const cdz_kernel_set *set)
{
    if (!set->parts_product) return;
    for (size_t s = 0; s < N_SHAPES; s++) {
        product_of_set(set, &shapes[s], 1);
        product_of_set(set, &shapes[s], 3);
    }
}

static void every_set_has_the_written_order(void **state)
{
    (void)state;
    each_set(products_of_set);
}

/* Numbers that are none, that are infinite, that round to infinity, and the smallest: their parts. */
static void packs_as_written(const cdz_kernel_set *set)
{
    if (!set->pack_parts) return;
    static const uint32_t special[] = {0,          0x80000000, 0x3f808000, 0x3f818000, 0x3f808001,
                                       0x7f7fffff, 0xff7f8000, 0x7f800000, 0xff800000, 0x7f800001,
                                       0xffc12345, 1,          0x807fffff, 0x00008000, 0x7fffffff};
    enum { K = 70, ROWS = 13, N_SPECIAL = sizeof special / sizeof *special };
    float x[ROWS * K];
    uint16_t got[3 * 3 * 512];
    rng r = {3};
    for (size_t i = 0; i < ROWS * K; i++) {
        const uint32_t bits = i < N_SPECIAL ? special[i] : next_word(&r) << 16 ^ next_word(&r);
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (size_t parts = 1; parts <= 3; parts += 2) {
        memset(got, 0xee, sizeof got);
        set->pack_parts(got, x, K, ROWS, K, parts);
        for (size_t i = 0; i < 96; i++)
            for (size_t row = 0; row < 16; row++)
                for (size_t part = 0; part < parts; part++) {
                    const float wide =
                        i < K && row < ROWS ? part_of(x[row * K + i], parts - 1 - part) : 0.0f;
                    uint16_t expected;
                    cdz_quantise(CDZ_BF16, &expected, &wide, 1);
                    assert_int_equal(
                        got[(i / 32 * parts + part) * 512 + i % 32 / 2 * 32 + row * 2 + i % 2],
                        expected);
                }
    }
}

static void parts_are_those_written(void **state)
{
    (void)state;
    each_set(packs_as_written);
}

/* Three parts lose nothing: the product is as near the exact one as that of float32. */
static void near_the_exact_product(void **state)
{
    (void)state;
    for (size_t parts = 1; parts <= 3; parts += 2) {
        problem p = make_problem(&shapes[6], false, parts);
        for (size_t m = 0; m < MOST_ROWS; m++)
            for (size_t j = 0; j < p.w.n; j++) {
                double sum = element(CDZ_F32, p.biases.data, j), magnitude = fabs(sum);
                for (size_t i = 0; i < p.w.k; i++) {
                    const double term =
                        element(CDZ_BF16, p.w.data, j * p.w.k + i) * (double)p.x[m * p.ldx + i];
                    sum += term;
                    magnitude += fabs(term);
                }
                const double off = fabs((double)p.expected[m * p.w.n + j] - sum);
                if (off > magnitude / (parts == 1 ? 256 : 1 << 20))
                    fail_msg("%zu parts, row %zu, output %zu: %g off", parts, m, j, off);
            }
        free_problem(&p);
    }
}

/* Products of one input with activations of all kinds: each as if it were alone. */
static void mixed_set_in(const char *variant)
{
    static const struct shape shape = {"mixed", 80, 512};
    cdz_backend *b = make_backend(variant, 2);
    problem p = make_problem(&shape, false, 3);
    float *y[5], *alone[5];
    const cdz_weight_form forms[] = {p.w.form, CDZ_WEIGHT_ROWS, CDZ_WEIGHT_BF16X1, p.w.form,
                                     CDZ_WEIGHT_BF16};
    cdz_weight w[5];
    cdz_product products[5];
    for (int i = 0; i < 5; i++) {
        y[i] = must_alloc(MOST_ROWS * shape.n * sizeof *y[i]);
        alone[i] = must_alloc(MOST_ROWS * shape.n * sizeof *alone[i]);
        w[i] = p.w;
        w[i].form = forms[i];
        products[i] = (cdz_product){&w[i], &p.bias, y[i], shape.n};
    }
    if (b->api->takes_parts) b->api->matmul(b, products, 5, p.x, p.ldx, MOST_ROWS);
    for (int i = 0; i < 5 && b->api->takes_parts; i++) {
        products[i].y = alone[i];
        b->api->matmul(b, &products[i], 1, p.x, p.ldx, MOST_ROWS);
        assert_same_rows("mixed", y[i], shape.n, alone[i], shape.n, MOST_ROWS, shape.n);
    }
    b->api->sync(b); /* a late thread may be reading weights until then */
    for (int i = 0; i < 5; i++) {
        free(y[i]);
        free(alone[i]);
    }
    free_problem(&p);
    b->api->destroy(b);
}

static void a_set_may_be_mixed(void **state)
{
    (void)state;
    each_variant(mixed_set_in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_those_written),
        cmocka_unit_test(every_variant_has_the_written_order),
        cmocka_unit_test(every_set_has_the_written_order),
        cmocka_unit_test(near_the_exact_product),
        cmocka_unit_test(a_set_may_be_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
