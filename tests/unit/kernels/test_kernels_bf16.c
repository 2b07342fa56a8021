/* test_kernels_bf16.c - products with activations rounded to bf16: the definition spelled out once more, and every
 * variant, with the instruction for it and without, row count and thread count against it, bit for bit. */
#include <float.h>

#include "support/kernel_sets.h"

static const struct shape {
    const char *name;
    size_t n, k;
} shapes[] = {
    {"a pair", 1, 2},
    {"shorter than a group", 3, 6},
    {"a group and a tail", 17, 62},
    {"whole tiles", 64, 128},
    {"odd outputs", 71, 130},
    {"more than a block", 301, 200},
    {"a whole chunk", 66, 2048},
    {"two chunks and a tail", 40, 4114},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MOST_ROWS = 67 };
static const size_t row_counts[] = {1, 2, 3, 4, 5, 8, 13, 33, 66, 67};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* ---- the definition ---- */

static void rounds_as_weights_do(const cdz_kernel_set *set)
{
    static const uint32_t special[] = {0,          0x80000000, 0x3f808000, 0x3f818000, 0x3f808001,
                                       0x7f7fffff, 0xff7f8000, 0x7f800000, 0xff800000, 0x7f800001,
                                       0xffc12345, 1,          0x807fffff, 0x00008000, 0x7fffffff};
    enum { N = 5000, N_SPECIAL = sizeof special / sizeof *special };
    float x[N];
    uint16_t got[N], expected[N];
    rng r = {3};
    for (size_t i = 0; i < N; i++) {
        const uint32_t bits = i < N_SPECIAL ? special[i] : next_word(&r) << 16 ^ next_word(&r);
        memcpy(&x[i], &bits, sizeof bits);
    }
    set->round_bf16(got, x, N);
    cdz_quantise(CDZ_BF16, expected, x, N);
    assert_memory_equal(got, expected, sizeof got);
}

static void rounding_is_that_of_weights(void **state)
{
    (void)state;
    each_set(rounds_as_weights_do);
}

static float to_zero(float v)
{
    return fabsf(v) < FLT_MIN ? copysignf(0.0f, v) : v;
}

/* The sentence of kernels.h: lanes, cuts and order. */
static float written_dot(const void *w, const uint16_t *x, size_t k)
{
    float y = 0.0f;
    for (size_t from = 0; from < k; from += 2048) {
        float s[16] = {0};
        for (size_t i = from; i < k && i < from + 2048; i += 2)
            for (size_t j = i + 2; j-- > i;) {
                const float a = to_zero((float)element(CDZ_BF16, w, j)),
                            b = to_zero((float)element(CDZ_BF16, x, j));
                s[i / 2 % 16] = to_zero(fmaf(a, b, s[i / 2 % 16]));
            }
        for (int l = 0; l < 8; l++) s[l] = to_zero(s[l] + s[l + 8]);
        for (int l = 0; l < 4; l++) s[l] = to_zero(s[l] + s[l + 4]);
        const float chunk = to_zero(to_zero(s[0] + s[1]) + to_zero(s[2] + s[3]));
        y = from == 0 ? chunk : to_zero(y + chunk);
    }
    return y;
}

/* ---- products ---- */

typedef struct problem {
    cdz_weight w, bias;
    fenced weights, biases;
    float *x, *expected;
    uint16_t *rounded; /* (MOST_ROWS, k) */
    size_t ldx;
} problem;

/* How large the numbers are: `small` brings products near the smallest there are. */
static problem make_problem(const struct shape *s, bool small)
{
    rng r = {(uint32_t)(s->n * 131 + s->k * 7)};
    problem p = {.ldx = s->k + 3};
    p.weights = random_weights(&r, CDZ_BF16, s->n * s->k);
    p.biases = random_weights(&r, CDZ_F32, s->n);
    p.w = (cdz_weight){p.weights.data, CDZ_BF16, s->n, s->k, CDZ_WEIGHT_BF16};
    p.bias = (cdz_weight){p.biases.data, CDZ_F32, 1, s->n, CDZ_WEIGHT_ROWS};
    p.x = random_floats(&r, MOST_ROWS * p.ldx);
    uint16_t *w = (uint16_t *)(void *)p.weights.data;
    for (size_t i = 0; small && i < s->n * s->k; i++) /* exponents 0 to 15, subnormals too */
        w[i] = (uint16_t)((w[i] & 0x807f) | (next_word(&r) & 15) << 7);
    p.rounded = must_alloc(MOST_ROWS * s->k * sizeof *p.rounded);
    p.expected = must_alloc(MOST_ROWS * s->n * sizeof *p.expected);
    for (size_t m = 0; m < MOST_ROWS; m++) {
        cdz_quantise(CDZ_BF16, p.rounded + m * s->k, p.x + m * p.ldx, s->k);
        for (size_t j = 0; j < s->n; j++)
            p.expected[m * s->n + j] =
                written_dot(p.weights.data + 2 * j * s->k, p.rounded + m * s->k, s->k) +
                (float)element(CDZ_F32, p.biases.data, j);
    }
    return p;
}

static void free_problem(problem *p)
{
    fenced_free(&p->weights);
    fenced_free(&p->biases);
    free(p->x);
    free(p->rounded);
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
    for (size_t s = 0; s < N_SHAPES; s++) {
        problem p = make_problem(&shapes[s], s % 2);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            cdz_backend *b = make_backend(variant, threads);
            assert_true(b->api->takes_bf16);
            check_products(b, &p, shapes[s].name);
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

/* Without a backend: the dot kernel of sets that this machine would not choose. */
static void dots_of_set(const cdz_kernel_set *set)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        problem p = make_problem(&shapes[s], s % 2 == 0);
        const size_t n = p.w.n, pairs = p.w.k / 2;
        float *y = must_alloc(MOST_ROWS * n * sizeof *y),
              *x = must_alloc(MOST_ROWS * pairs * sizeof *x);
        memcpy(x, p.rounded, MOST_ROWS * pairs * sizeof *x);
        set->dot_pairs(y, n, p.w.data, n, pairs, x, pairs, MOST_ROWS);
        for (size_t m = 0; m < MOST_ROWS; m++)
            for (size_t j = 0; j < n; j++)
                y[m * n + j] += (float)element(CDZ_F32, p.biases.data, j);
        assert_same_rows(set->name, y, n, p.expected, n, MOST_ROWS, n);
        free(x);
        free(y);
        free_problem(&p);
    }
}

static void every_set_has_the_written_order(void **state)
{
    (void)state;
    each_set(dots_of_set);
}

/* One packed tile, of which the dot kernel says what is in it. */
static void lanes_of_set(const cdz_kernel_set *set)
{
    enum { PAIRS = 53, GROUPS = 4 };
    static const struct shape shape = {"a tile", 32, 2 * PAIRS};
    if (!set->lane_tile_pairs) return; /* dot does them alone */
    problem p = make_problem(&shape, false);
    float *w = must_alloc(cdz_panel_floats(PAIRS, set->n_tile) * sizeof *w), x[16 * GROUPS * 12],
          y[12 * 32], rows[MOST_ROWS * PAIRS], expected[12 * 32];
    memcpy(rows, p.rounded, sizeof rows);
    for (size_t h = 0; h < 3; h++) {
        const size_t height = set->heights[h];
        set->pack_weights[CDZ_F32](w, p.w.data, set->n_tile, PAIRS, PAIRS);
        set->pack_rows(x, rows, PAIRS, height, height, PAIRS);
        const cdz_lane_tile tile = {w, x, GROUPS, height, height, y, set->n_tile, true, {0}};
        set->lane_tile_pairs(&tile);
        set->dot_pairs(expected, set->n_tile, p.w.data, set->n_tile, PAIRS, rows, PAIRS, height);
        assert_same_rows(set->name, y, set->n_tile, expected, set->n_tile, height, set->n_tile);
    }
    free(w);
    free_problem(&p);
}

static void lane_passes_have_it_too(void **state)
{
    (void)state;
    each_set(lanes_of_set);
}

/* What rounding the activations costs: at most half of a unit in the eighth bit of each term. */
static void near_the_exact_product(void **state)
{
    (void)state;
    problem p = make_problem(&shapes[6], false);
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
            if (off > magnitude / 256) fail_msg("row %zu, output %zu: %g off", m, j, off);
        }
    free_problem(&p);
}

/* Products of one input with activations of all kinds: each as if it were alone. */
static void mixed_set_in(const char *variant)
{
    static const struct shape shape = {"mixed", 80, 512};
    cdz_backend *b = make_backend(variant, 2);
    problem p = make_problem(&shape, false);
    cdz_weight floats = p.w;
    floats.form = CDZ_WEIGHT_ROWS;
    float *y[4], *alone = must_alloc(MOST_ROWS * shape.n * sizeof *alone);
    const cdz_weight *w[] = {&p.w, &floats, &p.w, &p.w};
    cdz_product products[4];
    for (int i = 0; i < 4; i++) {
        y[i] = must_alloc(MOST_ROWS * shape.n * sizeof *y[i]);
        products[i] = (cdz_product){w[i], &p.bias, y[i], shape.n};
    }
    b->api->matmul(b, products, 4, p.x, p.ldx, MOST_ROWS);
    const cdz_product one = {&floats, &p.bias, alone, shape.n};
    b->api->matmul(b, &one, 1, p.x, p.ldx, MOST_ROWS);
    b->api->sync(b); /* a late thread may be reading weights until then */
    for (int i = 0; i < 4; i++) {
        assert_same_rows("mixed", y[i], shape.n, i == 1 ? alone : p.expected, shape.n, MOST_ROWS,
                         shape.n);
        free(y[i]);
    }
    free(alone);
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
        cmocka_unit_test(rounding_is_that_of_weights),
        cmocka_unit_test(every_variant_has_the_written_order),
        cmocka_unit_test(every_set_has_the_written_order),
        cmocka_unit_test(lane_passes_have_it_too),
        cmocka_unit_test(near_the_exact_product),
        cmocka_unit_test(a_set_may_be_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
