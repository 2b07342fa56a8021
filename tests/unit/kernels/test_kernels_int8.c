/* test_kernels_int8.c - products with int8 activations: the definition against the weights' values, and
 * every variant, form, row count and thread count against the definition, bit for bit. */
#include "support/kernel_sets.h"

static const cdz_dtype types[] = {CDZ_Q8_0, CDZ_Q4_0, CDZ_Q4_1, CDZ_Q5_0, CDZ_Q5_1,
                                  CDZ_Q2_K, CDZ_Q3_K, CDZ_Q4_K, CDZ_Q5_K, CDZ_Q6_K};
enum { N_TYPES = sizeof types / sizeof *types };

/* Where a block has its float16 factors; -1: there is only one. */
static const int halves[CDZ_N_GGUF][2] = {
    [CDZ_Q8_0] = {0, -1}, [CDZ_Q4_0] = {0, -1},   [CDZ_Q4_1] = {0, 2},    [CDZ_Q5_0] = {0, -1},
    [CDZ_Q5_1] = {0, 2},  [CDZ_Q2_K] = {80, 82},  [CDZ_Q3_K] = {108, -1}, [CDZ_Q4_K] = {0, 2},
    [CDZ_Q5_K] = {0, 2},  [CDZ_Q6_K] = {208, -1},
};

/* Random blocks, all bytes, at the end of memory that may be touched. `fill` other than 0: every byte. */
static fenced make_blocks(rng *r, cdz_dtype dtype, size_t n, int fill)
{
    const size_t bytes = cdz_row_bytes(dtype, n), each = cdz_dtype_bytes(dtype);
    fenced f = fenced_alloc(bytes);
    for (size_t i = 0; i < bytes; i++) f.data[i] = (char)(fill ? fill : (int)(next_word(r) >> 8));
    for (size_t b = 0; b < bytes; b += each)
        for (int h = 0; h < 2; h++)
            if (halves[dtype][h] >= 0) put_random(r, CDZ_F16, f.data + b + halves[dtype][h]);
    return f;
}

static const struct shape {
    const char *name;
    size_t n, k;
} shapes[] = {
    {"a block", 1, 256},           {"less than a panel", 15, 512},     {"a panel", 16, 256},
    {"panels and a row", 33, 768}, {"far panels and some", 117, 1280}, {"many pieces", 19, 2304},
    {"many panels", 700, 256},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MOST_ROWS = 131 };
static const size_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 46, 67, 89, 131};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* Rounds activations as the definition's sentence says, in float and without its code. */
static void round_plainly(cdz_x8 *to, const float *x, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++, x += 32) {
        float largest = 0.0f;
        bool finite = true;
        for (int i = 0; i < 32; i++) {
            finite = finite && isfinite(x[i]);
            largest = fmaxf(largest, fabsf(x[i]));
        }
        memset(&to[b], 0, sizeof to[b]);
        if (!finite) to[b].d = to[b].s = NAN;
        if (!finite || largest < 0x1p-100f) continue;
        const float inverse = 127.0f / largest;
        to[b].d = largest / 127.0f;
        for (int i = 0; i < 32; i++) {
            const int q = (int)rintf(x[i] * inverse);
            assert_true(q >= -127 && q <= 127);
            to[b].q[i] = (int8_t)q;
            to[b].sum += q;
            to[b].half[i / 16] = (int16_t)(to[b].half[i / 16] + q);
        }
        to[b].s = to[b].d * (float)to[b].sum;
    }
}

/* ---- activations ---- */

static void check_rounding(const cdz_kernel_set *set, const char *name, const float *x,
                           size_t blocks)
{
    cdz_x8 *expected = must_alloc(blocks * sizeof *expected),
           *got = must_alloc(2 * blocks * sizeof *got);
    round_plainly(expected, x, blocks);
    set->quantise_x(got, 2, x, blocks);
    for (size_t b = 0; b < blocks; b++) {
        const cdz_x8 *g = &got[2 * b], *e = &expected[b];
        if (memcmp(g->q, e->q, 32) != 0 || g->sum != e->sum ||
            memcmp(g->half, e->half, sizeof g->half) != 0 || !same_float(g->d, e->d) ||
            !same_float(g->s, e->s))
            fail_msg("%s, %s: block %zu differs: d %a for %a, sum %d for %d", set->name, name, b,
                     (double)g->d, (double)e->d, (int)g->sum, (int)e->sum);
    }
    free(expected);
    free(got);
}

static void check_set(const cdz_kernel_set *set)
{
    enum { BLOCKS = 40 };
    rng r = {9};
    float *x = random_floats(&r, BLOCKS * 32);
    check_rounding(set, "random", x, BLOCKS);
    for (size_t i = 0; i < BLOCKS * 32; i++) x[i] *= 0x1p-120f;
    check_rounding(set, "tiny", x, BLOCKS);
    for (size_t i = 0; i < BLOCKS * 32; i++) x[i] = ldexpf(next_float(&r), 126);
    check_rounding(set, "huge", x, BLOCKS);
    for (size_t i = 0; i < BLOCKS * 32; i++) x[i] = ((float)(i % 255) - 127.0f) * 0.5f;
    check_rounding(set, "ties", x, BLOCKS);
    x[5] = NAN;
    x[40] = INFINITY;
    x[99] = -INFINITY;
    check_rounding(set, "not finite", x, BLOCKS);
    free(x);
}

static void activations_are_rounded_as_written(void **state)
{
    (void)state;
    each_set(check_set);
}

/* ---- the definition ---- */

/* Block sums are exact: against the widened weights in double, only float32's rounding of one sum is left. */
static void the_definition_is_the_weights(void **state)
{
    (void)state;
    enum { K = 512 };
    for (size_t t = 0; t < N_TYPES; t++) {
        rng r = {(uint32_t)t + 3};
        fenced w = make_blocks(&r, types[t], K, 0);
        float *x = random_floats(&r, K), wide[K];
        cdz_x8 rounded[K / 32];
        double sum = 0.0, magnitude = 0.0;
        round_plainly(rounded, x, K / 32);
        cdz_widen(types[t], wide, w.data, K);
        for (size_t i = 0; i < K; i++) {
            const double term =
                (double)wide[i] * (double)rounded[i / 32].d * rounded[i / 32].q[i % 32];
            sum += term;
            magnitude += fabs(term);
        }
        const float got = cdz_int8_dot(types[t], w.data, rounded, 1, K / 32, 0.0f);
        if (fabs((double)got - sum) > 4e-6 * magnitude)
            fail_msg("%s: %.9g, exactly %.9g", cdz_dtype_name(types[t]), (double)got, sum);
        free(x);
        fenced_free(&w);
    }
}

/* ---- panels ---- */

static void panels_give_their_rows_back(void **state)
{
    (void)state;
    enum { N = 32, K = 512 };
    for (size_t t = 0; t < N_TYPES; t++) {
        rng r = {(uint32_t)t + 11};
        const size_t bytes = cdz_row_bytes(types[t], K);
        fenced rows = make_blocks(&r, types[t], N * K, 0);
        char *panels = must_alloc(N * bytes), *row = must_alloc(bytes);
        cdz_to_panels(types[t], panels, rows.data, bytes, N, K);
        for (size_t j = 0; j < N; j++) {
            cdz_row_of_panel(types[t], row, panels + j / 16 * 16 * bytes, j % 16, K);
            assert_memory_equal(row, rows.data + j * bytes, bytes);
        }
        free(panels);
        free(row);
        fenced_free(&rows);
    }
}

/* Every variant's threads and vectors bring rows to the places of the definition, and touch nothing beside them. */
static void to_panels_in(const char *variant)
{
    static const size_t sizes[][2] = {{16, 256}, {48, 768}, {208, 2304}};
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        cdz_backend *b = make_backend(variant, threads);
        for (size_t t = 0; t < N_TYPES * 3; t++) {
            const cdz_dtype type = types[t / 3];
            const size_t n = sizes[t % 3][0], k = sizes[t % 3][1], bytes = cdz_row_bytes(type, k);
            rng r = {(uint32_t)t + 5};
            fenced rows = make_blocks(&r, type, n * k, 0), panels = fenced_alloc(n * bytes);
            char *expected = must_alloc(n * bytes);
            cdz_to_panels(type, expected, rows.data, bytes, n, k);
            b->api->to_panels(b, type, panels.data, rows.data, n, k);
            if (memcmp(panels.data, expected, n * bytes) != 0)
                fail_msg("%s: %zu rows of %zu %s, %u threads", variant, n, k, cdz_dtype_name(type),
                         (unsigned)threads);
            free(expected);
            fenced_free(&rows);
            fenced_free(&panels);
        }
        b->api->destroy(b);
    }
}

static void every_variant_makes_the_same_panels(void **state)
{
    (void)state;
    each_variant(to_panels_in);
}

/* ---- products ---- */

typedef struct problem {
    cdz_weight rows, panels, bias;
    fenced memory, biases;
    char *packed;
    float *x, *expected;
    size_t ldx;
} problem;

static problem make_problem(cdz_dtype dtype, const struct shape *s, int fill)
{
    rng r = {(uint32_t)(s->n * 131 + s->k + dtype)};
    const size_t n = s->n, bytes = cdz_row_bytes(dtype, s->k), whole = n / 16 * 16;
    problem p = {.ldx = s->k + 3};
    p.memory = make_blocks(&r, dtype, n * s->k, fill);
    p.biases = random_weights(&r, CDZ_F32, n);
    p.packed = must_alloc(n * bytes);
    cdz_to_panels(dtype, p.packed, p.memory.data, bytes, whole, s->k);
    memcpy(p.packed + whole * bytes, p.memory.data + whole * bytes, (n - whole) * bytes);
    p.rows = (cdz_weight){p.memory.data, dtype, n, s->k, CDZ_WEIGHT_INT8};
    p.panels = (cdz_weight){p.packed, dtype, n, s->k, CDZ_WEIGHT_PANELS};
    p.bias = (cdz_weight){p.biases.data, CDZ_F32, 1, n, CDZ_WEIGHT_ROWS};
    p.x = random_floats(&r, MOST_ROWS * p.ldx);
    p.x[2 * p.ldx + 7] = NAN; /* spoils row 2 and no other */
    p.expected = must_alloc(MOST_ROWS * n * sizeof(float));
    cdz_x8 *rounded = must_alloc(s->k / 32 * sizeof *rounded);
    for (size_t m = 0; m < MOST_ROWS; m++) {
        round_plainly(rounded, p.x + m * p.ldx, s->k / 32);
        for (size_t j = 0; j < n; j++)
            p.expected[m * n + j] =
                cdz_int8_dot(dtype, p.memory.data + j * bytes, rounded, 1, s->k / 32, 0.0f) +
                (float)element(CDZ_F32, p.biases.data, j);
    }
    free(rounded);
    return p;
}

static void free_problem(problem *p)
{
    fenced_free(&p->memory);
    fenced_free(&p->biases);
    free(p->packed);
    free(p->x);
    free(p->expected);
}

static void check_products(cdz_backend *b, const problem *p, const char *what, size_t step)
{
    const size_t n = p->rows.n, ldy = n + 1;
    float *y = must_alloc(MOST_ROWS * ldy * sizeof *y);
    for (size_t i = 0; i < N_ROW_COUNTS; i += step)
        for (int form = 0; form < 2; form++) {
            char text[160];
            const size_t m = row_counts[i];
            const cdz_product product = {form ? &p->panels : &p->rows, &p->bias, y, ldy};
            snprintf(text, sizeof text, "%s, %s, %s, %zu rows, %u threads", b->api->variant, what,
                     form ? "panels" : "rows", m, (unsigned)b->api->n_threads(b));
            for (size_t j = 0; j < MOST_ROWS * ldy; j++) y[j] = 12345.0f;
            b->api->matmul(b, &product, 1, p->x, p->ldx, m);
            assert_same_rows(text, y, ldy, p->expected, n, m, n);
            for (size_t r = 0; r < m; r++) assert_true(y[r * ldy + n] == 12345.0f);
        }
    b->api->sync(b);
    free(y);
}

static void products_in(const char *variant)
{
    const size_t step = strcmp(variant, "scalar") == 0 ? 5 : 1;
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t s = 0; s < N_SHAPES; s += step == 1 ? 1 : 2) {
            char what[64];
            problem p = make_problem(types[t], &shapes[s], 0);
            snprintf(what, sizeof what, "%s, %s", cdz_dtype_name(types[t]), shapes[s].name);
            for (uint32_t threads = 1; threads <= 3; threads++) {
                cdz_backend *b = make_backend(variant, threads);
                assert_true(b->api->takes_int8(b, types[t]));
                check_products(b, &p, what, step);
                b->api->destroy(b);
            }
            free_problem(&p);
        }
}

static void products_are_the_definitions(void **state)
{
    (void)state;
    each_variant(products_in);
}

/* Without a backend: a tile of every height of sets that this machine would not choose, in two calls of which the second goes
 * on; with odd numbers of blocks where those are small. */
static void tile_of_set(const cdz_kernel_set *set, const problem *p, size_t height)
{
    const size_t n = p->panels.n, k = p->panels.k, blocks = k / 32, ldy = n + 1;
    const cdz_dtype type = p->panels.dtype;
    const size_t first = cdz_dtype_block(type) == 32 ? 1312 : 1280;
    char what[64];
    assert_true(height <= MOST_ROWS);
    cdz_x8 *x = must_alloc(blocks * height * sizeof *x);
    float *y = must_alloc(height * ldy * sizeof *y);
    for (size_t r = 0; r < height; r++)
        if (set->quantise_in_tile)
            set->quantise_in_tile(x, height, r, p->x + r * p->ldx, blocks);
        else
            set->quantise_x(x + r, height, p->x + r * p->ldx, blocks);
    for (size_t i = 0; i < height * ldy; i++) y[i] = 12345.0f;
    cdz_int8_tile t = {.w = p->packed, .panels = n / 16, .stride = 16 * cdz_row_bytes(type, k)};
    t.blocks = first / 32;
    t.x = x;
    t.height = height;
    t.y = y;
    t.ldy = ldy;
    t.first = t.cold = true;
    set->int8_tile[type](&t);
    t.w = p->packed + 16 * cdz_row_bytes(type, first);
    t.blocks = (k - first) / 32;
    t.x = x + first / 32 * height;
    t.first = t.cold = false;
    set->int8_tile[type](&t);
    for (size_t r = 0; r < height; r++) {
        assert_true(y[r * ldy + n] == 12345.0f);
        for (size_t j = 0; j < n; j++) y[r * ldy + j] += (float)element(CDZ_F32, p->biases.data, j);
    }
    snprintf(what, sizeof what, "%s, %s, a tile of %zu", set->name, cdz_dtype_name(type), height);
    assert_same_rows(what, y, ldy, p->expected, n, height, n);
    free(x);
    free(y);
}

static void tiles_of_set(const cdz_kernel_set *set)
{
    static const struct shape shape = {"tiles", 80, 1536};
    for (size_t t = 0; t < N_TYPES; t++) {
        problem p = make_problem(types[t], &shape, 0);
        for (const size_t *height = set->int8_heights;
             height == set->int8_heights || height[-1] > 1; height++)
            tile_of_set(set, &p, *height);
        free_problem(&p);
    }
}

static void tiles_of_every_set_are_too(void **state)
{
    (void)state;
    each_set(tiles_of_set);
}

/* Every weight -128, or every bit set, by activations of the largest step: nothing may saturate. */
static void extremes_in(const char *variant)
{
    static const int fills[] = {0x80, 0xff, 0x7f};
    static const struct shape shape = {"extremes", 48, 512};
    cdz_backend *b = make_backend(variant, 2);
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t f = 0; f < 3; f++) {
            problem p = make_problem(types[t], &shape, fills[f]);
            const size_t bytes = cdz_row_bytes(types[t], shape.k);
            cdz_x8 rounded[512 / 32];
            for (size_t i = 0; i < MOST_ROWS * p.ldx; i++) p.x[i] = i / p.ldx % 2 ? 1.5f : -1.5f;
            for (size_t m = 0; m < MOST_ROWS; m++) {
                round_plainly(rounded, p.x + m * p.ldx, shape.k / 32);
                for (size_t j = 0; j < shape.n; j++)
                    p.expected[m * shape.n + j] = cdz_int8_dot(types[t], p.memory.data + j * bytes,
                                                               rounded, 1, shape.k / 32, 0.0f) +
                                                  (float)element(CDZ_F32, p.biases.data, j);
            }
            check_products(b, &p, cdz_dtype_name(types[t]), 1);
            free_problem(&p);
        }
    b->api->destroy(b);
}

static void extremes_do_not_saturate(void **state)
{
    (void)state;
    each_variant(extremes_in);
}

/* Factors that are infinite or NaN spoil their outputs alone, the same ones in every set. */
static void special_factors_in(const char *variant)
{
    static const struct shape shape = {"special factors", 40, 256};
    static const uint16_t special[] = {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x8000};
    cdz_backend *b = make_backend(variant, 2);
    for (size_t t = 0; t < N_TYPES; t++) {
        problem p = make_problem(types[t], &shape, 0);
        const size_t bytes = cdz_row_bytes(types[t], shape.k);
        cdz_x8 rounded[256 / 32];
        for (size_t j = 0; j < 5; j++)
            memcpy(p.memory.data + 3 * j * bytes + halves[types[t]][0], &special[j], 2);
        cdz_to_panels(types[t], p.packed, p.memory.data, bytes, 32, shape.k);
        for (size_t m = 0; m < MOST_ROWS; m++) {
            round_plainly(rounded, p.x + m * p.ldx, shape.k / 32);
            for (size_t j = 0; j < shape.n; j++)
                p.expected[m * shape.n + j] = cdz_int8_dot(types[t], p.memory.data + j * bytes,
                                                           rounded, 1, shape.k / 32, 0.0f) +
                                              (float)element(CDZ_F32, p.biases.data, j);
        }
        check_products(b, &p, cdz_dtype_name(types[t]), 3);
        free_problem(&p);
    }
    b->api->destroy(b);
}

static void special_factors_stay_where_they_are(void **state)
{
    (void)state;
    each_variant(special_factors_in);
}

/* Some products take int8, some float32, of one input: each as if it were alone. */
static void mixed_set_in(const char *variant)
{
    static const struct shape shape = {"mixed", 80, 512};
    cdz_backend *b = make_backend(variant, 2);
    problem p[3] = {make_problem(CDZ_Q4_K, &shape, 0), make_problem(CDZ_Q8_0, &shape, 0),
                    make_problem(CDZ_Q6_K, &shape, 0)};
    float *y[3], *alone = must_alloc(MOST_ROWS * shape.n * sizeof *alone);
    p[1].rows.form = CDZ_WEIGHT_ROWS;
    const cdz_weight *w[] = {&p[0].panels, &p[1].rows, &p[2].panels};
    cdz_product products[3];
    for (int i = 0; i < 3; i++) {
        y[i] = must_alloc(MOST_ROWS * shape.n * sizeof *y[i]);
        products[i] = (cdz_product){w[i], &p[i].bias, y[i], shape.n};
    }
    for (size_t c = 0; c < N_ROW_COUNTS; c++) {
        b->api->matmul(b, products, 3, p[0].x, p[0].ldx, row_counts[c]);
        for (int i = 0; i < 3; i++) {
            const cdz_product one = {w[i], &p[i].bias, alone, shape.n};
            b->api->matmul(b, &one, 1, p[0].x, p[0].ldx, row_counts[c]);
            assert_same_rows(cdz_dtype_name(w[i]->dtype), y[i], shape.n, alone, shape.n,
                             row_counts[c], shape.n);
        }
    }
    b->api->sync(b);
    for (int i = 0; i < 3; i++) {
        free(y[i]);
        free_problem(&p[i]);
    }
    free(alone);
    b->api->destroy(b);
}

static void sets_may_be_mixed(void **state)
{
    (void)state;
    each_variant(mixed_set_in);
}

/* More rows than one block of activations holds. */
static void long_prompt_in(const char *variant)
{
    enum { M = 1100, N = 20, K = 256 };
    rng r = {31};
    fenced w = make_blocks(&r, CDZ_Q4_0, N * K, 0);
    const size_t bytes = cdz_row_bytes(CDZ_Q4_0, K);
    const cdz_weight weight = {w.data, CDZ_Q4_0, N, K, CDZ_WEIGHT_INT8};
    float *x = random_floats(&r, (size_t)M * K), *y = must_alloc(M * N * sizeof *y),
          *expected = must_alloc(M * N * sizeof *y);
    cdz_x8 rounded[K / 32];
    for (size_t m = 0; m < M; m++) {
        round_plainly(rounded, x + m * K, K / 32);
        for (size_t j = 0; j < N; j++)
            expected[m * N + j] =
                cdz_int8_dot(CDZ_Q4_0, w.data + j * bytes, rounded, 1, K / 32, 0.0f);
    }
    cdz_backend *b = make_backend(variant, 3);
    const cdz_product product = {&weight, NULL, y, N};
    b->api->matmul(b, &product, 1, x, K, M);
    assert_same_rows(variant, y, N, expected, N, M, N);
    b->api->destroy(b);
    fenced_free(&w);
    free(x);
    free(y);
    free(expected);
}

static void long_prompts_are_cut_without_a_trace(void **state)
{
    (void)state;
    each_variant(long_prompt_in);
}

/* A table in panels gives the rows that it had. */
static void lookup_in(const char *variant)
{
    static const struct shape shape = {"lookup", 37, 768};
    cdz_backend *b = make_backend(variant, 1);
    for (size_t t = 0; t < N_TYPES; t++) {
        problem p = make_problem(types[t], &shape, 0);
        float wide[2][768];
        for (int32_t id = 0; id < 37; id++) {
            b->api->embed(b, wide[0], 768, &p.rows, &id, 1);
            b->api->embed(b, wide[1], 768, &p.panels, &id, 1);
            assert_same_rows(cdz_dtype_name(types[t]), wide[1], 768, wide[0], 768, 1, 768);
        }
        free_problem(&p);
    }
    b->api->destroy(b);
}

static void tables_in_panels_are_looked_up(void **state)
{
    (void)state;
    each_variant(lookup_in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_rounded_as_written),
        cmocka_unit_test(the_definition_is_the_weights),
        cmocka_unit_test(panels_give_their_rows_back),
        cmocka_unit_test(every_variant_makes_the_same_panels),
        cmocka_unit_test(products_are_the_definitions),
        cmocka_unit_test(tiles_of_every_set_are_too),
        cmocka_unit_test(extremes_do_not_saturate),
        cmocka_unit_test(special_factors_stay_where_they_are),
        cmocka_unit_test(sets_may_be_mixed),
        cmocka_unit_test(long_prompts_are_cut_without_a_trace),
        cmocka_unit_test(tables_in_panels_are_looked_up),
    };
    return cmocka_run_group_tests_name("kernels: int8 activations", tests, NULL, NULL);
}
