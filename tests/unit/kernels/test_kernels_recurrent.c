/* test_kernels_recurrent.c - the convolution and the recurrence: against float64, against the scalar set's bits, and however a
 * sequence is cut into calls, on however many threads. */
#include "support/kernel_data.h"

#include "kernel_set.h"
#include "ref/scalar_math.h"

enum { ROWS = 150, MOST_RUNS = 3 };

/* --- softplus --- */

static void softplus_is_within_three_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = -320000; i <= 120000; i++) {
        const float x = (float)i * 0.00025f;
        const double exact = x > 20.0f ? (double)x : log1p(exp((double)x));
        const double ulp = ldexp(1.0, (exact < 1e-37 ? -126 : ilogb(exact)) - 23);
        const double error = fabs((double)cdz_softplus(x) - exact) / ulp;
        if (error > worst) worst = error;
    }
    print_message("softplus: at most %.2f ulp\n", worst);
    assert_true(worst < 3.0);
    assert_true(cdz_softplus(1e30f) == 1e30f);
    assert_true(cdz_softplus(-1e30f) == 0.0f);
    assert_true(isnan(cdz_softplus(NAN)));
}

/* --- the convolution --- */

typedef struct conv_case {
    size_t channels, taps;
    bool bias, gates, silu;
} conv_case;

static const conv_case conv_cases[] = {{1, 2, false, false, false},  {16, 3, true, true, false},
                                       {64, 4, true, false, true},   {65, 4, false, false, true},
                                       {200, 3, false, true, false}, {31, 16, true, true, true}};
enum { N_CONV = sizeof conv_cases / sizeof *conv_cases };

typedef struct conv_data {
    cdz_conv how;
    float *x, *window;
} conv_data;

static conv_data conv_open(const conv_case *c)
{
    rng r = {77};
    const size_t C = c->channels;
    conv_data d = {.how = {.channels = C, .taps = c->taps, .silu = c->silu}};
    d.how.w = random_floats(&r, C * c->taps);
    if (c->bias) d.how.bias = random_floats(&r, C);
    if (c->gates) d.how.in_gate = random_floats(&r, ROWS * C);
    if (c->gates) d.how.out_gate = random_floats(&r, ROWS * C);
    d.x = random_floats(&r, ROWS * C);
    d.window = random_floats(&r, (c->taps - 1) * C);
    return d;
}

static void conv_close(conv_data *d)
{
    const float *const all[] = {d->how.w, d->how.bias, d->how.in_gate, d->how.out_gate};
    for (size_t i = 0; i < 4; i++) free((void *)(uintptr_t)all[i]);
    free(d->x);
    free(d->window);
}

/* Rows in calls of at most `step` of them; the window goes on from call to call. */
static void conv_run(cdz_backend *b, const conv_data *d, size_t step, float *y, float *window)
{
    const size_t C = d->how.channels;
    memcpy(window, d->window, (d->how.taps - 1) * C * sizeof *window);
    for (size_t r = 0; r < ROWS; r += step) {
        const size_t n = ROWS - r < step ? ROWS - r : step;
        const cdz_state_run run = {.first = 0, .n = (uint32_t)n, .state = window};
        cdz_conv how = d->how;
        if (how.in_gate) how.in_gate += r * C;
        if (how.out_gate) how.out_gate += r * C;
        b->api->conv(b, y + r * C, C, d->x + r * C, C, &run, 1, &how);
    }
}

static double conv_exact(const conv_data *d, size_t r, size_t c)
{
    const cdz_conv *h = &d->how;
    double sum = 0;
    for (size_t j = 0; j < h->taps; j++) {
        const size_t at = r + j;
        double u;
        if (at < h->taps - 1) {
            u = (double)d->window[at * h->channels + c];
        } else {
            const size_t i = (at - (h->taps - 1)) * h->channels + c;
            u = (double)d->x[i] * (h->in_gate ? (double)h->in_gate[i] : 1.0);
        }
        sum += (double)h->w[j * h->channels + c] * u;
    }
    if (h->bias) sum += (double)h->bias[c];
    if (h->silu) sum /= 1 + exp(-sum);
    return sum * (h->out_gate ? (double)h->out_gate[r * h->channels + c] : 1.0);
}

static void conv_of_variant(const char *variant)
{
    static const size_t steps[] = {1, 7, 64, ROWS};
    for (size_t i = 0; i < N_CONV; i++) {
        conv_data d = conv_open(&conv_cases[i]);
        const size_t C = d.how.channels, past = (d.how.taps - 1) * C;
        float *y = must_alloc(ROWS * C * sizeof *y), *want = must_alloc(ROWS * C * sizeof *want);
        float *window = must_alloc(past * sizeof *window), *kept = must_alloc(past * sizeof *kept);
        cdz_backend *scalar = make_backend("scalar", 1), *b = make_backend(variant, 3);
        conv_run(scalar, &d, ROWS, want, kept);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < C; c++)
                assert_true(fabs((double)want[r * C + c] - conv_exact(&d, r, c)) < 1e-4);
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            conv_run(b, &d, steps[s], y, window);
            assert_same_rows(variant, y, C, want, C, ROWS, C);
            assert_same_rows("its window", window, past, kept, past, 1, past);
        }
        scalar->api->destroy(scalar);
        b->api->destroy(b);
        free(y), free(want), free(window), free(kept);
        conv_close(&d);
    }
}

static void a_convolution_is_one_however_it_is_cut(void **state)
{
    (void)state;
    each_variant(conv_of_variant);
}

/* --- the recurrence --- */

typedef struct recur_case {
    size_t heads, groups, rows, columns;
    bool corrects, alternate, skip;
} recur_case;

static const recur_case recur_cases[] = {
    {4, 2, 8, 12, true, false, false},  {4, 2, 8, 12, true, true, false},
    {8, 2, 16, 8, false, false, true},  {2, 1, 13, 16, true, false, false},
    {3, 3, 5, 37, false, true, false},  {2, 2, 128, 64, true, false, false},
    {2, 1, 64, 128, false, false, true}};
enum { N_RECUR = sizeof recur_cases / sizeof *recur_cases };

typedef struct recur_data {
    cdz_recurrence how;
    float *state;
    size_t state_floats, keys, width;
} recur_data;

static recur_data recur_open(const recur_case *c)
{
    rng r = {99};
    recur_data d = {.how = {.heads = c->heads,
                            .groups = c->groups,
                            .rows = c->rows,
                            .columns = c->columns,
                            .corrects = c->corrects,
                            .groups_alternate = c->alternate,
                            .low = 0.01f,
                            .high = 1.5f},
                    .state_floats = c->heads * c->rows * c->columns,
                    .keys = c->groups * c->rows,
                    .width = c->heads * c->columns};
    float *rate = random_floats(&r, c->heads), *k = random_floats(&r, ROWS * d.keys);
    for (size_t h = 0; h < c->heads; h++) rate[h] = -0.1f - fabsf(rate[h]);
    for (size_t i = 0; i < ROWS * d.keys; i++) k[i] /= sqrtf((float)c->rows);
    d.how.rate = rate;
    d.how.shift = random_floats(&r, c->heads);
    if (c->skip) d.how.skip = random_floats(&r, c->heads);
    d.how.k = k;
    d.how.q = random_floats(&r, ROWS * d.keys);
    d.how.ldk = d.keys;
    d.how.v = random_floats(&r, ROWS * d.width);
    d.how.ldv = d.width;
    d.how.a = random_floats(&r, ROWS * c->heads);
    if (c->corrects) d.how.b = random_floats(&r, ROWS * c->heads);
    d.state = random_floats(&r, d.state_floats);
    return d;
}

static void recur_close(recur_data *d)
{
    const cdz_recurrence *h = &d->how;
    const float *const all[] = {h->rate, h->shift, h->skip, h->k, h->q, h->v, h->a, h->b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free((void *)(uintptr_t)all[i]);
    free(d->state);
}

static void recur_run(cdz_backend *b, const recur_data *d, size_t step, float *y, float *state)
{
    memcpy(state, d->state, d->state_floats * sizeof *state);
    for (size_t r = 0; r < ROWS; r += step) {
        const size_t n = ROWS - r < step ? ROWS - r : step;
        const cdz_state_run run = {.first = 0, .n = (uint32_t)n, .state = state};
        cdz_recurrence how = d->how;
        how.k += r * d->keys;
        how.q += r * d->keys;
        how.v += r * d->width;
        how.a += r * how.heads;
        if (how.b) how.b += r * how.heads;
        b->api->recur(b, y + r * d->width, d->width, &run, 1, &how);
    }
}

/* One head in float64. */
static void recur_exact(const recur_data *d, size_t h, double *y)
{
    const cdz_recurrence *w = &d->how;
    const size_t N = w->rows, P = w->columns,
                 g = w->groups_alternate ? h % w->groups : h / (w->heads / w->groups);
    double *S = must_alloc(N * P * sizeof *S);
    for (size_t i = 0; i < N * P; i++) S[i] = (double)d->state[h * N * P + i];
    for (size_t r = 0; r < ROWS; r++) {
        const float *k = w->k + r * w->ldk + g * N, *q = w->q + r * w->ldk + g * N,
                    *v = w->v + r * w->ldv + h * P;
        double t = log1p(exp((double)w->a[r * w->heads + h] + (double)w->shift[h]));
        t = fmin(fmax(t, (double)w->low), (double)w->high);
        const double e = exp((double)w->rate[h] * t);
        for (size_t c = 0; c < P; c++) {
            double said = 0, delta = t * (double)v[c], out = 0;
            for (size_t i = 0; i < N; i++) said += (S[i * P + c] *= e) * (double)k[i];
            if (w->corrects)
                delta = ((double)v[c] - said) / (1 + exp(-(double)w->b[r * w->heads + h]));
            for (size_t i = 0; i < N; i++)
                out += (S[i * P + c] += (double)k[i] * delta) * (double)q[i];
            y[r * P + c] = out + (w->skip ? (double)w->skip[h] * (double)v[c] : 0);
        }
    }
    free(S);
}

static void near_exact(const recur_data *d, const float *y)
{
    const size_t P = d->how.columns;
    double *exact = must_alloc(ROWS * P * sizeof *exact);
    for (size_t h = 0; h < d->how.heads; h++) {
        recur_exact(d, h, exact);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < P; c++) {
                const double got = (double)y[r * d->width + h * P + c], want = exact[r * P + c];
                if (!(fabs(got - want) < 2e-4 + 2e-4 * fabs(want)))
                    fail_msg("head %zu row %zu column %zu: %g, expected %g", h, r, c, got, want);
            }
    }
    free(exact);
}

static void recur_of_variant(const char *variant)
{
    static const size_t steps[] = {1, 5, 64, 65, ROWS};
    for (size_t i = 0; i < N_RECUR; i++) {
        recur_data d = recur_open(&recur_cases[i]);
        float *y = must_alloc(ROWS * d.width * sizeof *y),
              *want = must_alloc(ROWS * d.width * sizeof *want),
              *state = must_alloc(d.state_floats * sizeof *state),
              *kept = must_alloc(d.state_floats * sizeof *kept);
        cdz_backend *scalar = make_backend("scalar", 1), *b = make_backend(variant, 3);
        recur_run(scalar, &d, ROWS, want, kept);
        near_exact(&d, want);
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            recur_run(b, &d, steps[s], y, state);
            assert_same_rows(variant, y, d.width, want, d.width, ROWS, d.width);
            assert_same_rows("its state", state, d.state_floats, kept, d.state_floats, 1,
                             d.state_floats);
        }
        scalar->api->destroy(scalar);
        b->api->destroy(b);
        free(y), free(want), free(state), free(kept);
        recur_close(&d);
    }
}

static void a_recurrence_is_one_however_it_is_cut(void **state)
{
    (void)state;
    each_variant(recur_of_variant);
}

/* Sequences side by side in one call have the bits that they have alone. */
static void company_of_variant(const char *variant)
{
    static const uint32_t lengths[MOST_RUNS] = {1, 40, ROWS - 41};
    recur_data d = recur_open(&recur_cases[0]);
    float *alone = must_alloc(ROWS * d.width * sizeof *alone),
          *y = must_alloc(ROWS * d.width * sizeof *y),
          *states = must_alloc(MOST_RUNS * d.state_floats * sizeof *states),
          *one = must_alloc(d.state_floats * sizeof *one);
    cdz_backend *b = make_backend(variant, 3);
    cdz_state_run runs[MOST_RUNS];
    uint32_t first = 0;
    for (uint32_t i = 0; i < MOST_RUNS; first += lengths[i++]) {
        memcpy(states + i * d.state_floats, d.state, d.state_floats * sizeof *states);
        memcpy(one, d.state, d.state_floats * sizeof *one);
        runs[i] = (cdz_state_run){first, lengths[i], states + i * d.state_floats};
        const cdz_state_run run = {first, lengths[i], one};
        b->api->recur(b, alone, d.width, &run, 1, &d.how);
    }
    b->api->recur(b, y, d.width, runs, MOST_RUNS, &d.how);
    assert_same_rows(variant, y, d.width, alone, d.width, ROWS, d.width);
    b->api->destroy(b);
    free(alone), free(y), free(states), free(one);
    recur_close(&d);
}

static void sequences_side_by_side_are_as_alone(void **state)
{
    (void)state;
    each_variant(company_of_variant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softplus_is_within_three_ulp),
        cmocka_unit_test(a_convolution_is_one_however_it_is_cut),
        cmocka_unit_test(a_recurrence_is_one_however_it_is_cut),
        cmocka_unit_test(sequences_side_by_side_are_as_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
