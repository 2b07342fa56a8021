/* test_kernels_rows.c - embedding, norms, rope, activations, sums and the router: against float64, against the scalar
 * set's bits, and row by row whatever the number of rows. */
#include "support/kernel_data.h"

#include "kernel_set.h"
#include "ref/scalar_math.h"

/* |a - b| in units of the last place of b. */
static double ulps(float a, double b)
{
    if (isnan(b)) return isnan(a) ? 0.0 : 1e30;
    if (isinf(b)) return (double)a == b ? 0.0 : 1e30;
    const int exponent = b == 0.0 ? -126 : ilogb(b);
    return fabs((double)a - b) / ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
}

/* ---- widening and exp ---- */

static void every_half_is_widened_exactly(void **state)
{
    (void)state;
    uint16_t halves[65536];
    float *scalar = must_alloc(sizeof(float) * 65536);
    for (size_t d = CDZ_F16; d <= CDZ_BF16; d++) {
        for (size_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
        cdz_scalar_set.widen[d](scalar, halves, 65536);
        for (size_t i = 0; i < 65536; i++) {
            const double exact = element((cdz_dtype)d, halves, i);
            if (!(isnan(exact)
                      ? isnan(scalar[i])
                      : (double)scalar[i] == exact && !signbit(scalar[i]) == !signbit(exact)))
                fail_msg("type %zu, bits %zx: %g, expected %g", d, i, (double)scalar[i], exact);
        }
    }
    free(scalar);
}

static void exp_is_within_two_ulp(void **state)
{
    (void)state;
    double worst = 0.0;
    for (int i = -400000; i <= 355000; i++) {
        const float x = (float)i * 0.00025f;
        const double exact = exp((double)x),
                     error =
                         ulps(cdz_exp(x), exact > (double)__FLT_MAX__ ? (double)INFINITY : exact);
        if (error > worst) worst = error;
    }
    print_message("exp: at most %.2f ulp\n", worst);
    assert_true(worst < 1.5);
}

static void exp_at_the_ends(void **state)
{
    (void)state;
    assert_true(cdz_exp(0.0f) == 1.0f);
    assert_true(cdz_exp(-0.0f) == 1.0f);
    assert_true(cdz_exp(-104.0f) == 0.0f);
    assert_true(cdz_exp(-INFINITY) == 0.0f);
    assert_true(cdz_exp(-1e30f) == 0.0f);
    assert_true(cdz_exp(INFINITY) == INFINITY);
    assert_true(cdz_exp(1e30f) == INFINITY);
    assert_true(isnan(cdz_exp(NAN)));
    assert_true(cdz_exp(-100.0f) > 0.0f); /* subnormal, not flushed */
}

static void tanh_and_erf_are_within_three_ulp(void **state)
{
    (void)state;
    double worst_tanh = 0.0, worst_erf = 0.0;
    for (int i = -200000; i <= 200000; i++) {
        const float x = (float)i * 0.0001f;
        worst_tanh = fmax(worst_tanh, ulps(cdz_tanh(x), tanh((double)x)));
        worst_erf = fmax(worst_erf, ulps(cdz_erf(x), erf((double)x)));
    }
    print_message("tanh: at most %.2f ulp, erf: %.2f ulp\n", worst_tanh, worst_erf);
    assert_true(worst_tanh < 3.0);
    assert_true(worst_erf < 2.0);
}

static void tanh_and_erf_at_the_ends(void **state)
{
    (void)state;
    static float (*const functions[])(float) = {cdz_tanh, cdz_erf};
    for (size_t i = 0; i < 2; i++) {
        assert_true(functions[i](0.0f) == 0.0f);
        assert_true(functions[i](1e-30f) > 0.0f);
        assert_true(functions[i](INFINITY) == 1.0f);
        assert_true(functions[i](-INFINITY) == -1.0f);
        assert_true(functions[i](3e38f) == 1.0f);
        assert_true(functions[i](-3e38f) == -1.0f);
        assert_true(isnan(functions[i](NAN)));
    }
}

/* ---- the operations on a backend; each is run on m rows of n and compared with the scalar
 * backend's ---- */

enum { M = 70, N = 1030, LD = N + 5 };

typedef struct inputs {
    float *x, *z;
    fenced weights;
    cdz_weight w;
    uint32_t positions[M];
    int32_t ids[M];
} inputs;

static inputs make_inputs(cdz_dtype dtype)
{
    rng r = {dtype + 41u};
    inputs in = {.x = random_floats(&r, (size_t)M * LD), .z = random_floats(&r, (size_t)M * LD)};
    in.weights = random_weights(&r, dtype, (size_t)20 * N);
    in.w = (cdz_weight){in.weights.data, dtype, 20, N, CDZ_WEIGHT_ROWS};
    for (size_t i = 0; i < M; i++) {
        in.positions[i] = i < 8 ? (uint32_t)i : next_word(&r) % 40000;
        in.ids[i] = i == 0 ? 19 : (int32_t)(next_word(&r) % 20);
        in.x[i * LD] *= 50.0f;
    }
    in.x[LD + 3] = -200.0f;
    in.x[LD + 4] = 90.0f;
    in.x[LD + 5] = 0.0f;
    return in;
}

static void free_inputs(inputs *in)
{
    free(in->x);
    free(in->z);
    fenced_free(&in->weights);
}

static float inv_freq[300];

static cdz_rope make_rope(size_t n_rotated, bool interleaved)
{
    for (size_t i = 0; i < n_rotated / 2; i++)
        inv_freq[i] = (float)pow(10000.0, -2.0 * (double)i / (double)n_rotated);
    return (cdz_rope){inv_freq, n_rotated, 1.0f, interleaved, false};
}

static void do_embed(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->embed(b, y, LD, &in->w, in->ids, m);
}

static void do_norm(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_weight w = {in->w.data, in->w.dtype, 1, N, CDZ_WEIGHT_ROWS};
    b->api->rmsnorm(b, y, LD, in->x, LD, m, &w, 1e-6f, 0.0f);
}

static void do_offset_norm(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_weight w = {in->w.data, in->w.dtype, 1, N, CDZ_WEIGHT_ROWS};
    b->api->rmsnorm(b, y, LD, in->x, LD, m, &w, 1e-5f, 1.0f);
}

static void do_silu(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->silu_mul(b, y, LD, in->x, in->z, LD, m, N);
}

static void do_clamped(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->clamped_mul(b, y, LD, in->x, in->z, LD, m, N);
}

static void do_xielu(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->xielu(b, y, LD, in->x, LD, m, N, &(cdz_xielu){1.3f, 0.9f, 0.5f});
}

static void do_layer_norm(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_weight w = {in->w.data, in->w.dtype, 1, N, CDZ_WEIGHT_ROWS};
    const cdz_weight bias = {(const char *)in->w.data + N * cdz_dtype_bytes(in->w.dtype),
                             in->w.dtype, 1, N, CDZ_WEIGHT_ROWS};
    b->api->layernorm(b, y, LD, in->x, LD, m, &w, &bias, 1e-5f);
}

static void do_gelu(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->activate(b, y, LD, in->x, NULL, LD, m, N, CDZ_CURVE_GELU);
}

static void do_gelu_tanh_mul(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->activate(b, y, LD, in->x, in->z, LD, m, N, CDZ_CURVE_GELU_TANH);
}

static void do_relu(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->activate(b, y, LD, in->x, NULL, LD, m, N, CDZ_CURVE_RELU);
}

static void do_curve_silu(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    b->api->activate(b, y, LD, in->x, NULL, LD, m, N, CDZ_CURVE_SILU);
}

static void do_scale(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    memcpy(y, in->x, m * LD * sizeof *y);
    b->api->scale(b, y, LD, m, N, 6.32455532f);
}

static void do_soft_cap(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    memcpy(y, in->x, m * LD * sizeof *y);
    b->api->soft_cap(b, y, LD, m, N, 0.7f);
}

/* Row r of the result hangs on row r of x and z alone. */
static void do_add_scaled(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    int32_t to[M];
    float factors[M];
    for (size_t i = 0; i < m; i++) to[i] = (int32_t)i;
    for (size_t i = 0; i < m; i++) factors[i] = in->x[i * LD + 1];
    memcpy(y, in->z, m * LD * sizeof *y);
    b->api->add_scaled(b, y, LD, to, factors, in->x, LD, m, N);
}

static void do_add(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    memcpy(y, in->z, m * LD * sizeof *y);
    b->api->add(b, y, LD, in->x, LD, m, N);
}

static void do_rope_halves(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_rope rope = make_rope(64, false);
    memcpy(y, in->x, m * LD * sizeof *y);
    b->api->rope(b, y, LD, m, 16, 64, in->positions, &rope);
}

static void do_rope_pairs(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_rope rope = make_rope(20, true);
    memcpy(y, in->x, m * LD * sizeof *y);
    b->api->rope(b, y, LD, m, 10, 100, in->positions, &rope);
}

static void do_rope_wide(cdz_backend *b, const inputs *in, float *y, size_t m)
{
    const cdz_rope rope = make_rope(600, false);
    memcpy(y, in->x, m * LD * sizeof *y);
    b->api->rope(b, y, LD, m, 1, 1000, in->positions, &rope);
}

static const struct {
    const char *name;
    void (*run)(cdz_backend *b, const inputs *in, float *y, size_t m);
} operations[] = {
    {"embed", do_embed},
    {"rmsnorm", do_norm},
    {"rmsnorm offset", do_offset_norm},
    {"silu_mul", do_silu},
    {"clamped_mul", do_clamped},
    {"xielu", do_xielu},
    {"layernorm", do_layer_norm},
    {"gelu", do_gelu},
    {"gelu_tanh times up", do_gelu_tanh_mul},
    {"relu", do_relu},
    {"silu alone", do_curve_silu},
    {"scale", do_scale},
    {"soft_cap", do_soft_cap},
    {"add", do_add},
    {"add_scaled", do_add_scaled},
    {"rope by halves", do_rope_halves},
    {"rope by pairs", do_rope_pairs},
    {"rope wider than a piece", do_rope_wide},
};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

static void bits_equal_in(const char *variant)
{
    static const size_t counts[] = {1, 2, 3, 40, M};
    float *y = must_alloc(M * LD * sizeof *y), *expected = must_alloc(M * LD * sizeof *y);
    cdz_backend *scalar = make_backend("scalar", 1);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        cdz_backend *b = make_backend(variant, threads);
        for (size_t d = 0; d < 3; d++) {
            inputs in = make_inputs((cdz_dtype)d);
            for (size_t o = 0; o < N_OPERATIONS; o++)
                for (size_t c = 0; c < 5; c++) {
                    char what[100];
                    snprintf(what, sizeof what, "%s, %s, type %zu, %zu rows", operations[o].name,
                             variant, d, counts[c]);
                    operations[o].run(scalar, &in, expected, M);
                    operations[o].run(b, &in, y, counts[c]);
                    assert_same_rows(what, y, LD, expected, LD, counts[c], N);
                }
            free_inputs(&in);
        }
        b->api->destroy(b);
    }
    scalar->api->destroy(scalar);
    free(y);
    free(expected);
}

static void bits_equal_on_every_variant(void **state)
{
    (void)state;
    each_variant(bits_equal_in);
}

/* ---- against float64 ---- */

static void norm_is_exact_to_a_few_ulp(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 2);
    inputs in = make_inputs(CDZ_BF16);
    float *y = must_alloc(M * LD * sizeof *y);
    do_offset_norm(b, &in, y, M);
    for (size_t r = 0; r < M; r++) {
        double squares = 0.0;
        for (size_t i = 0; i < N; i++)
            squares += (double)in.x[r * LD + i] * (double)in.x[r * LD + i];
        for (size_t i = 0; i < N; i++) {
            const double exact = (double)in.x[r * LD + i] / sqrt(squares / N + (double)1e-5f) *
                                 (1.0 + element(CDZ_BF16, in.w.data, i));
            assert_true(ulps(y[r * LD + i], exact) < 6.0);
        }
    }
    free_inputs(&in);
    free(y);
    b->api->destroy(b);
}

static void silu_is_exact_to_a_few_ulp(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 2);
    inputs in = make_inputs(CDZ_F32);
    float *y = must_alloc(M * LD * sizeof *y);
    do_silu(b, &in, y, M);
    for (size_t r = 0; r < M; r++)
        for (size_t i = 0; i < N; i++) {
            const double g = (double)in.x[r * LD + i],
                         exact = g / (1.0 + exp(-g)) * (double)in.z[r * LD + i];
            if (g > -80.0) assert_true(ulps(y[r * LD + i], exact) < 4.0);
        }
    assert_true(y[LD + 3] == 0.0f); /* gate -200 */
    free_inputs(&in);
    free(y);
    b->api->destroy(b);
}

static void layer_norm_is_exact_to_rounding(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 2);
    inputs in = make_inputs(CDZ_F16);
    float *y = must_alloc(M * LD * sizeof *y);
    do_layer_norm(b, &in, y, M);
    for (size_t r = 0; r < M; r++) {
        double mean = 0.0, squares = 0.0;
        for (size_t i = 0; i < N; i++) mean += (double)in.x[r * LD + i] / N;
        for (size_t i = 0; i < N; i++) squares += pow((double)in.x[r * LD + i] - mean, 2) / N;
        for (size_t i = 0; i < N; i++) {
            const double exact = ((double)in.x[r * LD + i] - mean) / sqrt(squares + 1e-5) *
                                     element(CDZ_F16, in.w.data, i) +
                                 element(CDZ_F16, in.w.data, N + i);
            assert_true(fabs((double)y[r * LD + i] - exact) < 2e-6 * (1.0 + fabs(exact)));
        }
    }
    free_inputs(&in);
    free(y);
    b->api->destroy(b);
}

static void curves_are_exact_to_rounding(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 1);
    float x[2001], y[2001];
    for (size_t i = 0; i < 2001; i++) x[i] = ((float)i - 1000.0f) * 0.01f;
    const size_t n = 2001;
    b->api->activate(b, y, n, x, NULL, n, 1, n, CDZ_CURVE_GELU);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i];
        assert_true(fabs((double)y[i] - v / 2 * (1 + erf(v / sqrt(2.0)))) < 1e-6);
    }
    b->api->activate(b, y, n, x, x, n, 1, n, CDZ_CURVE_GELU_TANH);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], inner = 0.7978845608028654 * (v + 0.044715 * v * v * v);
        assert_true(fabs((double)y[i] - v / 2 * (1 + tanh(inner)) * v) < 1e-5);
    }
    b->api->activate(b, y, n, x, NULL, n, 1, n, CDZ_CURVE_RELU);
    for (size_t i = 0; i < n; i++) assert_true(y[i] == (x[i] > 0 ? x[i] : 0.0f));
    b->api->activate(b, y, n, x, NULL, n, 1, n, CDZ_CURVE_SILU);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)y[i] - (double)x[i] / (1 + exp(-(double)x[i]))) < 2e-6);
    memcpy(y, x, sizeof y);
    b->api->soft_cap(b, y, n, 1, n, 4.0f);
    for (size_t i = 0; i < n; i++)
        assert_true(fabs((double)y[i] - tanh((double)x[i] / 4) * 4) < 2e-6);
    b->api->destroy(b);
}

static void scaled_rows_land_where_they_belong(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4}, factors[2] = {10, 0.5f};
    static const int32_t to[2] = {2, 0};
    float y[6] = {1, 1, 1, 1, 1, 1};
    static const float expected[6] = {2.5f, 3, 1, 1, 11, 21};
    cdz_backend *b = make_backend(NULL, 1);
    b->api->add_scaled(b, y, 2, to, factors, x, 2, 2, 2);
    assert_memory_equal(y, expected, sizeof y);
    b->api->destroy(b);
}

static void routes_take_the_largest(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float scores[4];
        int32_t ids[2];
        bool normalise;
        double weights[2];
    } cases[] = {
        {"normalised", {0.0f, 1.0f, -1.0f, 3.0f}, {3, 1}, true, {0.8807970780, 0.1192029220}},
        {"as they are", {0.0f, 1.0f, -1.0f, 3.0f}, {3, 1}, false, {0.8309527, 0.1124573}},
        {"equal: the lower index", {2.0f, 5.0f, 5.0f, 5.0f}, {1, 2}, true, {0.5, 0.5}},
        {"far apart", {-300.0f, 0.0f, 300.0f, -1.0f}, {2, 1}, true, {1.0, 0.0}},
    };
    cdz_backend *b = make_backend(NULL, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float weights[2];
        int32_t ids[2];
        b->api->route(b, weights, ids, 2, cases[i].scores, 4, 1, 4, cases[i].normalise);
        for (size_t j = 0; j < 2; j++) {
            if (ids[j] != cases[i].ids[j])
                fail_msg("%s: expert %d, expected %d", cases[i].name, ids[j], cases[i].ids[j]);
            assert_true(fabs((double)weights[j] - cases[i].weights[j]) < 1e-6);
        }
    }
    b->api->destroy(b);
}

/* The angle is the float product, as in the reference; cos and sin of it are then right to half
 * an ulp or so. */
static void rope_turns_by_the_float_angle(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 1);
    const cdz_rope rope = make_rope(64, false);
    for (uint32_t position = 0; position < 200000; position = position * 5 / 4 + 1) {
        float x[64];
        for (size_t i = 0; i < 64; i++) x[i] = i < 32 ? 1.0f : 0.0f; /* becomes cos and sin */
        b->api->rope(b, x, 64, 1, 1, 64, &position, &rope);
        for (size_t i = 0; i < 32; i++) {
            const double angle = (double)((float)position * inv_freq[i]);
            assert_true(ulps(x[i], cos(angle)) <= 0.51);
            assert_true(ulps(x[i + 32], sin(angle)) <= 0.51);
        }
    }
    b->api->destroy(b);
}

/* Heads so wide that the angles are tabulated in several pieces. */
static void wide_heads_turn_by_their_own_angles(void **state)
{
    (void)state;
    enum { WIDE = 600 };
    cdz_backend *b = make_backend(NULL, 1);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        const cdz_rope rope = make_rope(WIDE, interleaved);
        const size_t step = interleaved ? 2 : 1, partner = interleaved ? 1 : WIDE / 2;
        const uint32_t position = 777;
        float x[WIDE] = {0};
        for (size_t i = 0; i < WIDE / 2; i++) x[i * step] = 1.0f;
        b->api->rope(b, x, WIDE, 1, 1, WIDE, &position, &rope);
        for (size_t i = 0; i < WIDE / 2; i++) {
            const double angle = (double)((float)position * inv_freq[i]);
            assert_true(ulps(x[i * step], cos(angle)) <= 0.51);
            assert_true(ulps(x[i * step + partner], sin(angle)) <= 0.51);
        }
    }
    b->api->destroy(b);
}

static void embed_and_add_are_exact(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 2);
    float *y = must_alloc(M * LD * sizeof *y);
    for (size_t d = 0; d < 3; d++) {
        inputs in = make_inputs((cdz_dtype)d);
        do_embed(b, &in, y, M);
        for (size_t r = 0; r < M; r++)
            for (size_t i = 0; i < N; i++)
                assert_true((double)y[r * LD + i] ==
                            element((cdz_dtype)d, in.w.data, (size_t)in.ids[r] * N + i));
        do_add(b, &in, y, M);
        for (size_t r = 0; r < M; r++)
            for (size_t i = 0; i < N; i++)
                assert_true(y[r * LD + i] == in.x[r * LD + i] + in.z[r * LD + i]);
        free_inputs(&in);
    }
    free(y);
    b->api->destroy(b);
}

static void rope_pairs_are_where_they_belong(void **state)
{
    (void)state;
    static const float one[] = {1.0f, 0.0f};
    const uint32_t position = 1;
    cdz_backend *b = make_backend(NULL, 1);
    float halves[6] = {1, 2, 3, 4, 5, 6}, pairs[6] = {1, 2, 3, 4, 5, 6};
    cdz_rope rope = {one, 4, 2.0f, false, false}; /* the factor is on cos and sin: twice as long */
    b->api->rope(b, halves, 6, 1, 1, 6, &position, &rope);
    rope.interleaved = true;
    b->api->rope(b, pairs, 6, 1, 1, 6, &position, &rope);
    const float c = 2.0f * (float)cos(1.0), s = 2.0f * (float)sin(1.0);
    const float by_halves[6] = {1 * c - 3 * s, 4, 3 * c + 1 * s, 8, 5, 6};
    const float by_pairs[6] = {1 * c - 2 * s, 2 * c + 1 * s, 6, 8, 5, 6};
    for (size_t i = 0; i < 6; i++) {
        assert_true(fabsf(halves[i] - by_halves[i]) < 1e-5f);
        assert_true(fabsf(pairs[i] - by_pairs[i]) < 1e-5f);
    }
    b->api->destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_widened_exactly),
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(exp_at_the_ends),
        cmocka_unit_test(tanh_and_erf_are_within_three_ulp),
        cmocka_unit_test(tanh_and_erf_at_the_ends),
        cmocka_unit_test(bits_equal_on_every_variant),
        cmocka_unit_test(norm_is_exact_to_a_few_ulp),
        cmocka_unit_test(silu_is_exact_to_a_few_ulp),
        cmocka_unit_test(layer_norm_is_exact_to_rounding),
        cmocka_unit_test(curves_are_exact_to_rounding),
        cmocka_unit_test(scaled_rows_land_where_they_belong),
        cmocka_unit_test(routes_take_the_largest),
        cmocka_unit_test(rope_turns_by_the_float_angle),
        cmocka_unit_test(wide_heads_turn_by_their_own_angles),
        cmocka_unit_test(embed_and_add_are_exact),
        cmocka_unit_test(rope_pairs_are_where_they_belong),
    };
    return cmocka_run_group_tests_name("kernels: rows", tests, NULL, NULL);
}
