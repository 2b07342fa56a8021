/* test_cuda_kernels.c - products and row operations of a device against the definition: the same bits
 * where the kernels are our own, within a stated distance where a library's are. */
#include "cuda_test.h"

/* ---- products ---- */

static const struct shape {
    size_t n, k;
} plain_shapes[] = {{1, 1},    {7, 3},    {8, 16},   {9, 20},   {33, 63}, {5, 64},
                    {16, 100}, {3, 1024}, {2, 1030}, {9, 2500}, {4, 9000}},
  block_shapes[] = {{1, 256}, {9, 512}, {3, 1280}, {17, 2304}};
static const size_t row_counts[] = {1, 2, 4, 5, 8, 9, 17};

enum { GAP = 3 };

/* Fresh outputs with something in them, so that what must not be written shows. */
static float *old_output(size_t n)
{
    float *y = must_alloc(n * sizeof *y);
    for (size_t i = 0; i < n; i++) y[i] = (float)i - 0.5f;
    return y;
}

/* Two products of one input, the second with a bias of another type. */
static void same_products(run *t, cdz_dtype dtype, const struct shape *s, size_t m)
{
    rng r = {(uint32_t)(s->n * 131 + s->k * 7 + m + 1)};
    cdz_backend *b = t->strict;
    const size_t ldx = s->k + (s->k % 2 ? 0 : GAP + 1), ldy = s->n + GAP;
    pair w[2], bias = random_weight(t, b, &r, m % 2 ? CDZ_F32 : CDZ_BF16, 1, s->n);
    float *x = random_floats(&r, m * ldx), *x_there = floats_there(b, x, m * ldx);
    float *y[2], *y_there[2];
    cdz_product here[2], far[2];
    for (size_t i = 0; i < 2; i++) {
        w[i] = random_weight(t, b, &r, dtype, s->n, s->k);
        y[i] = old_output(m * ldy);
        y_there[i] = floats_there(b, y[i], m * ldy);
        here[i] = (cdz_product){&w[i].here, i ? &bias.here : NULL, y[i], ldy};
        far[i] = (cdz_product){&w[i].there, i ? &bias.there : NULL, y_there[i], ldy};
    }
    t->cpu->api->matmul(t->cpu, here, 2, x, ldx, m);
    b->api->matmul(b, far, 2, x_there, ldx, m);
    for (size_t i = 0; i < 2; i++) {
        char what[128];
        snprintf(what, sizeof what, "%s %zu x %zu, %zu rows", cdz_dtype_name(dtype), s->n, s->k, m);
        expect_same(t, what, b, y_there[i], y[i], m * ldy);
        free_weight(b, &w[i]);
        free(y[i]);
        b->api->free(b, y_there[i]);
    }
    free_weight(b, &bias);
    free(x);
    b->api->free(b, x_there);
}

static void products_of(run *t, cdz_dtype first, cdz_dtype end, const struct shape *shapes, size_t n)
{
    for (cdz_dtype d = first; d < end && t->well; d++)
        for (size_t s = 0; s < n; s++)
            for (size_t m = 0; m < sizeof row_counts / sizeof *row_counts; m++)
                same_products(t, d, &shapes[s], row_counts[m]);
}

static void plain_products(run *t)
{
    products_of(t, CDZ_F32, CDZ_N_PLAIN, plain_shapes, sizeof plain_shapes / sizeof *plain_shapes);
}

static void block_products(run *t)
{
    products_of(t, CDZ_N_PLAIN, CDZ_N_DTYPES, block_shapes,
                sizeof block_shapes / sizeof *block_shapes);
}

/* Rows of float8 may end anywhere in a block, what it has past them is anything. */
static void float8_products(run *t)
{
    products_of(t, CDZ_FP8, CDZ_N_DTYPES, plain_shapes, sizeof plain_shapes / sizeof *plain_shapes);
}

/* More products of one input than a launch takes, of several types. */
static void many_products(run *t)
{
    static const cdz_dtype types[] = {CDZ_BF16, CDZ_BF16, CDZ_BF16, CDZ_BF16,
                                      CDZ_BF16, CDZ_Q4_0, CDZ_F32};
    enum { N = 7, K = 96 };
    rng r = {5};
    cdz_backend *b = t->strict;
    pair w[N];
    float *y[N], *y_there[N], *x = random_floats(&r, 2 * K), *x_there = floats_there(b, x, 2 * K);
    cdz_product here[N], far[N];
    for (size_t i = 0; i < N; i++) {
        w[i] = random_weight(t, b, &r, types[i], 10 + i, K);
        y[i] = old_output(2 * (10 + i));
        y_there[i] = floats_there(b, y[i], 2 * (10 + i));
        here[i] = (cdz_product){&w[i].here, NULL, y[i], 10 + i};
        far[i] = (cdz_product){&w[i].there, NULL, y_there[i], 10 + i};
    }
    t->cpu->api->matmul(t->cpu, here, N, x, K, 2);
    b->api->matmul(b, far, N, x_there, K, 2);
    for (size_t i = 0; i < N; i++) {
        expect_same(t, "product", b, y_there[i], y[i], 2 * (10 + i));
        free_weight(b, &w[i]);
        free(y[i]);
        b->api->free(b, y_there[i]);
    }
    free(x);
    b->api->free(b, x_there);
}

/* A library's product: `share` of the sum of magnitudes away at most. */
static void near_products(run *t, cdz_backend *b, cdz_dtype dtype, double share)
{
    enum { N = 37, K = 512, M = 19, LDX = K + 4, LDY = N + 2 };
    rng r = {(uint32_t)dtype + 77};
    pair w = random_weight(t, b, &r, dtype, N, K), bias = random_weight(t, b, &r, CDZ_F32, 1, N);
    float *x = random_floats(&r, M * LDX), *x_there = floats_there(b, x, M * LDX);
    float *y = old_output(M * LDY), *y_there = floats_there(b, y, M * LDY);
    const cdz_product here = {&w.here, &bias.here, y, LDY},
                      far = {&w.there, &bias.there, y_there, LDY};
    t->cpu->api->matmul(t->cpu, &here, 1, x, LDX, M);
    b->api->matmul(b, &far, 1, x_there, LDX, M);
    float *got = floats_back(b, y_there, M * LDY), row[K];
    for (size_t j = 0; j < N; j++) {
        cdz_widen(dtype, row, (const char *)w.here.data + j * cdz_row_bytes(dtype, K), K);
        for (size_t i = 0; i < M; i++) {
            double size = 1e-6;
            for (size_t k = 0; k < K; k++) size += fabs((double)row[k] * (double)x[i * LDX + k]);
            const double off = fabs((double)got[i * LDY + j] - (double)y[i * LDY + j]);
            expect(t, off <= share * size, "%s row %zu column %zu: %.9g, expected %.9g",
                   cdz_dtype_name(dtype), i, j, (double)got[i * LDY + j], (double)y[i * LDY + j]);
        }
    }
    free_weight(b, &w);
    free_weight(b, &bias);
    free(x);
    free(y);
    free(got);
    b->api->free(b, x_there);
    b->api->free(b, y_there);
}

/* float32 sums of 512 terms: 512 half-units of the last place would be 3e-5, in practice a tenth. */
static void library_products_in_f32(run *t)
{
    for (cdz_dtype d = CDZ_F32; d < CDZ_N_DTYPES; d++) near_products(t, t->f32, d, 4e-6);
}

/* Activations rounded to 8 bits (bf16), and blocks to the same: 2^-8 each. */
static void library_products_in_bf16(run *t)
{
    for (cdz_dtype d = CDZ_F32; d < CDZ_N_DTYPES; d++) near_products(t, t->automatic, d, 1.0 / 128);
}

static void library_f32_weights_stay_f32(run *t)
{
    near_products(t, t->automatic, CDZ_F32, 4e-6);
}

/* ---- row operations ---- */

static void embeddings(run *t)
{
    static const int32_t ids[] = {4, 0, 4, 2};
    cdz_backend *b = t->strict;
    for (cdz_dtype d = CDZ_F32; d < CDZ_N_DTYPES; d++) {
        rng r = {(uint32_t)d + 3};
        const size_t k = d < CDZ_N_PLAIN || d == CDZ_FP8 ? 67 : 512, ld = k + GAP;
        pair w = random_weight(t, b, &r, d, 5, k);
        float *y = old_output(4 * ld), *y_there = floats_there(b, y, 4 * ld);
        t->cpu->api->embed(t->cpu, y, ld, &w.here, ids, 4);
        b->api->embed(b, y_there, ld, &w.there, ids, 4);
        expect_same(t, cdz_dtype_name(d), b, y_there, y, 4 * ld);
        free_weight(b, &w);
        free(y);
        b->api->free(b, y_there);
    }
}

static const size_t widths[] = {1, 5, 16, 17, 63, 64, 1000, 1024, 1025, 4100, 20000};

static void norms_of(run *t, cdz_dtype dtype, size_t n, bool layer)
{
    enum { M = 3 };
    rng r = {(uint32_t)n + 1};
    cdz_backend *b = t->strict;
    const size_t ld = n + GAP;
    pair w = random_weight(t, b, &r, dtype, 1, n), bias = random_weight(t, b, &r, dtype, 1, n);
    float *x = random_floats(&r, M * ld), *x_there = floats_there(b, x, M * ld);
    float *y = old_output(M * ld), *y_there = floats_there(b, y, M * ld);
    if (layer) {
        t->cpu->api->layernorm(t->cpu, y, ld, x, ld, M, &w.here, &bias.here, 1e-5f);
        b->api->layernorm(b, y_there, ld, x_there, ld, M, &w.there, &bias.there, 1e-5f);
    } else {
        t->cpu->api->rmsnorm(t->cpu, y, ld, x, ld, M, &w.here, 1e-6f, 1.0f);
        b->api->rmsnorm(b, y_there, ld, x_there, ld, M, &w.there, 1e-6f, 1.0f);
    }
    expect_same(t, layer ? "layernorm" : "rmsnorm", b, y_there, y, M * ld);
    free_weight(b, &w);
    free_weight(b, &bias);
    free(x);
    free(y);
    b->api->free(b, x_there);
    b->api->free(b, y_there);
}

static void norms(run *t)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int layer = 0; layer < 2; layer++) {
            norms_of(t, CDZ_F32, widths[i], layer);
            norms_of(t, CDZ_BF16, widths[i], layer);
        }
    norms_of(t, CDZ_F16, 48, false);
    norms_of(t, CDZ_Q8_0, 64, true);
}

static void norm_in_place(run *t)
{
    enum { M = 2, N = 200 };
    rng r = {9};
    cdz_backend *b = t->strict;
    pair w = random_weight(t, b, &r, CDZ_F32, 1, N);
    float *x = random_floats(&r, M * N), *x_there = floats_there(b, x, M * N);
    t->cpu->api->rmsnorm(t->cpu, x, N, x, N, M, &w.here, 1e-6f, 0.0f);
    b->api->rmsnorm(b, x_there, N, x_there, N, M, &w.there, 1e-6f, 0.0f);
    t->cpu->api->layernorm(t->cpu, x, N, x, N, M, &w.here, &w.here, 1e-6f);
    b->api->layernorm(b, x_there, N, x_there, N, M, &w.there, &w.there, 1e-6f);
    expect_same(t, "in place", b, x_there, x, M * N);
    free_weight(b, &w);
    free(x);
    b->api->free(b, x_there);
}

static void rotations(run *t)
{
    static const struct {
        size_t heads, dim, rotated;
        float scale;
        bool interleaved, regroup;
    } cases[] = {{3, 16, 16, 1.0f, false, false},   {2, 20, 12, 1.2f, false, false},
                 {2, 64, 64, 1.0f, true, false},    {3, 24, 16, 1.0f, true, true},
                 {1, 600, 600, 1.0f, false, false}, {2, 2048, 2048, 1.0f, true, true},
                 {1, 1200, 1200, 0.9f, true, false}};
    static const uint32_t positions[] = {0, 7, 131071, 900000};
    enum { M = 4 };
    cdz_backend *b = t->strict;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rng r = {(uint32_t)i + 1};
        const size_t ld = cases[i].heads * cases[i].dim + GAP, half = cases[i].rotated / 2;
        float *x = random_floats(&r, M * ld), *x_there = floats_there(b, x, M * ld);
        float *freq = must_alloc(half * sizeof *freq);
        for (size_t j = 0; j < half; j++) freq[j] = powf(10000.0f, -(float)j / (float)half);
        const cdz_rope rope = {freq, cases[i].rotated, cases[i].scale, cases[i].interleaved,
                               cases[i].regroup};
        t->cpu->api->rope(t->cpu, x, ld, M, cases[i].heads, cases[i].dim, positions, &rope);
        b->api->rope(b, x_there, ld, M, cases[i].heads, cases[i].dim, positions, &rope);
        expect_same(t, "rotation", b, x_there, x, M * ld);
        free(x);
        free(freq);
        b->api->free(b, x_there);
    }
}

/* All operations on elements in a row: what one leaves the next takes. */
static void elements_of(run *t, size_t m, size_t n)
{
    rng r = {(uint32_t)(m * 31 + n)};
    cdz_backend *b = t->strict;
    const size_t ld = n + GAP, all = m * ld;
    float *x = random_floats(&r, all), *u = random_floats(&r, all), *y = old_output(all);
    for (size_t i = 0; i < all; i++) x[i] *= 20.0f, u[i] *= i % 3 ? 1.0f : 9.0f;
    float *xt = floats_there(b, x, all), *ut = floats_there(b, u, all),
          *yt = floats_there(b, y, all);
    t->cpu->api->silu_mul(t->cpu, y, ld, x, u, ld, m, n);
    b->api->silu_mul(b, yt, ld, xt, ut, ld, m, n);
    t->cpu->api->add(t->cpu, y, ld, u, ld, m, n);
    b->api->add(b, yt, ld, ut, ld, m, n);
    t->cpu->api->scale(t->cpu, y, ld, m, n, 0.3f);
    b->api->scale(b, yt, ld, m, n, 0.3f);
    t->cpu->api->soft_cap(t->cpu, y, ld, m, n, 2.5f);
    b->api->soft_cap(b, yt, ld, m, n, 2.5f);
    expect_same(t, "elements", b, yt, y, all);
    t->cpu->api->clamped_mul(t->cpu, y, ld, x, u, ld, m, n);
    b->api->clamped_mul(b, yt, ld, xt, ut, ld, m, n);
    expect_same(t, "a clamped gate", b, yt, y, all);
    for (cdz_curve c = 0; c < CDZ_N_CURVES; c++)
        for (int gated = 0; gated < 2; gated++) {
            t->cpu->api->activate(t->cpu, y, ld, x, gated ? u : NULL, ld, m, n, c);
            b->api->activate(b, yt, ld, xt, gated ? ut : NULL, ld, m, n, c);
            expect_same(t, "activation", b, yt, y, all);
        }
    free(x);
    free(u);
    free(y);
    b->api->free(b, xt);
    b->api->free(b, ut);
    b->api->free(b, yt);
}

static void elements(run *t)
{
    static const size_t shapes[][2] = {{1, 1}, {1, 257}, {3, 100}, {7, 1500}, {300, 5}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        elements_of(t, shapes[i][0], shapes[i][1]);
}

static void routes(run *t)
{
    static const struct {
        size_t n, k;
        bool normalise;
    } cases[] = {{1, 1, false}, {8, 2, true}, {60, 4, false}, {128, 8, true}};
    enum { M = 5 };
    cdz_backend *b = t->strict;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rng r = {(uint32_t)i + 4};
        const size_t n = cases[i].n, k = cases[i].k, ld = n + 1;
        float *scores = random_floats(&r, M * ld), w[2][M * 8];
        int32_t ids[2][M * 8];
        scores[n / 2] = scores[0]; /* equals: the lower index first */
        float *scores_there = floats_there(b, scores, M * ld);
        t->cpu->api->route(t->cpu, w[0], ids[0], k, scores, ld, M, n, cases[i].normalise);
        b->api->route(b, w[1], ids[1], k, scores_there, ld, M, n, cases[i].normalise);
        expect(t, memcmp(ids[0], ids[1], M * k * sizeof(int32_t)) == 0, "%zu experts: other ids", n);
        expect(t, memcmp(w[0], w[1], M * k * sizeof(float)) == 0, "%zu experts: other weights", n);
        free(scores);
        b->api->free(b, scores_there);
    }
}

static void scaled_sums(run *t)
{
    static const int32_t to[] = {5, 0, 3};
    static const float factors[] = {0.5f, -1.25f, 0.3f};
    enum { M = 6, N = 300, LD = N + GAP };
    rng r = {21};
    cdz_backend *b = t->strict;
    float *x = random_floats(&r, 3 * LD), *y = random_floats(&r, M * LD);
    float *xt = floats_there(b, x, 3 * LD), *yt = floats_there(b, y, M * LD);
    t->cpu->api->add_scaled(t->cpu, y, LD, to, factors, x, LD, 3, N);
    b->api->add_scaled(b, yt, LD, to, factors, xt, LD, 3, N);
    expect_same(t, "sum", b, yt, y, M * LD);
    free(x);
    free(y);
    b->api->free(b, xt);
    b->api->free(b, yt);
}

/* ---- scores ---- */

/* What makes a row's best token worth a case: row r of `x` (n wide), all of it random before. */
static void set_row(float *x, size_t n, int kind)
{
    const size_t last = n - 1, middle = n / 2;
    switch (kind) {
    case 0: break;
    case 1: x[middle] = x[last] = 3.0f; break;      /* the first of equals */
    case 2: x[last] = NAN; break;                   /* above everything */
    case 3: x[middle] = -NAN, x[last] = NAN; break; /* its first, whatever its sign */
    case 4: x[last] = INFINITY; break;
    case 5:
        for (size_t i = 0; i < n; i++) x[i] = -INFINITY;
        break;
    case 6:
        for (size_t i = 0; i < n; i++) x[i] = i % 2 ? 0.0f : -0.0f;
        break;
    default:
        for (size_t i = 0; i < n; i++) x[i] = -fabsf(x[i]) - 1.0f;
    }
}

/* As host/vec has it. */
static int32_t best_of(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n && !isnan(x[best]); i++)
        if (x[i] > x[best] || isnan(x[i])) best = i;
    return (int32_t)best;
}

static void best_scores(run *t)
{
    static const size_t sizes[] = {1, 31, 256, 4095, 4096, 4097, 12345};
    enum { KINDS = 8 };
    cdz_backend *b = t->strict;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rng r = {(uint32_t)i + 90};
        const size_t n = sizes[i], ld = n + GAP;
        float *x = random_floats(&r, KINDS * ld);
        int32_t ids[KINDS];
        for (int kind = 0; kind < KINDS; kind++) {
            set_row(x + (size_t)kind * ld, n, kind);
            x[(size_t)kind * ld + n] = INFINITY; /* nobody's */
        }
        float *xt = floats_there(b, x, KINDS * ld);
        b->api->argmax(b, ids, xt, ld, KINDS, n);
        for (int kind = 0; kind < KINDS; kind++)
            expect(t, ids[kind] == best_of(x + (size_t)kind * ld, n),
                   "%zu scores of kind %d: %d is said to be the best, not %d", n, kind,
                   (int)ids[kind], (int)best_of(x + (size_t)kind * ld, n));
        free(x);
        b->api->free(b, xt);
    }
}

/* Row kinds as in set_row; what a list has to be, whatever it was asked for. */
static void expect_leaders(run *t, const cdz_leaders *row, const float *x, size_t n, int kind)
{
    size_t at = 0, above = 0, some = row->least < n / 64 ? row->least : n / 64, finite = 0;
    bool nan = false;
    for (size_t i = 0; i < n; i++) {
        nan |= isnan(x[i]);
        finite += x[i] > -INFINITY;
    }
    if (nan) {
        expect(t, row->n > CDZ_LEADERS_MOST, "%zu scores of kind %d: a list in spite of NaN", n,
               kind);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (x[i] < row->low) continue;
        above++;
        if (row->n > CDZ_LEADERS_MOST) continue;
        expect(t, at < row->n && row->ids[at] == (int32_t)i && same_float(row->x[at], x[i]),
               "%zu scores of kind %d: score %zu is not the list's %zu", n, kind, i, at);
        at++;
    }
    expect(t, row->n == above, "%zu scores of kind %d: %u are listed, %zu are not below", n, kind,
           (unsigned)row->n, above);
    expect(t, row->n >= (some < finite ? some : finite), "%zu scores of kind %d: no more than %u",
           n, kind, (unsigned)row->n);
}

static void expect_mass(run *t, const cdz_leaders *row, const float *x, size_t n, int kind)
{
    const float top = x[best_of(x, n)] / row->divisor;
    double mass = 0.0;
    for (size_t i = 0; i < n; i++) mass += exp((double)(x[i] / row->divisor - top));
    expect(t, fabs(row->mass - mass) <= mass * 8 * 0x1p-24,
           "%zu scores of kind %d: a mass of %.17g, expected %.17g", n, kind, row->mass, mass);
}

/* Scores that are wanted besides: some from all over the row, as many as its kind says. */
static uint32_t some_edited(int32_t *ids, size_t n, int kind)
{
    static const uint32_t counts[] = {3, 900, 0, 1, 40, 2, 300, 1025};
    const uint32_t count = counts[kind];
    for (uint32_t i = 0; i < count; i++) ids[i] = (int32_t)((n - 1) * i / count);
    if (count) ids[count - 1] = (int32_t)n - 1;
    return count;
}

static void expect_edited(run *t, const cdz_leaders *row, const float *x, size_t n, int kind)
{
    for (uint32_t i = 0; i < row->n_edited; i++)
        expect(t, same_float(row->was[i], x[row->edited[i]]),
               "%zu scores of kind %d: score %d is said to be %.9g, not %.9g", n, kind,
               (int)row->edited[i], (double)row->was[i], (double)x[row->edited[i]]);
}

static void leaders_of(run *t, size_t n, uint32_t least, float divisor)
{
    enum { KINDS = 8, EDITED = 1025 };
    static int32_t edited[KINDS][EDITED];
    static float was[KINDS][EDITED];
    cdz_backend *b = t->strict;
    rng r = {(uint32_t)n + least};
    const size_t ld = n + GAP;
    float *x = random_floats(&r, KINDS * ld);
    int32_t *ids = must_alloc(KINDS * CDZ_LEADERS_MOST * sizeof *ids);
    float *values = must_alloc(KINDS * CDZ_LEADERS_MOST * sizeof *values);
    cdz_leaders rows[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        const size_t at = (size_t)kind;
        set_row(x + at * ld, n, kind);
        x[at * ld + n] = INFINITY; /* nobody's */
        rows[kind] = (cdz_leaders){.least = kind == 1 ? 0 : least,
                                   .divisor = kind == 7 ? 0.0f : divisor,
                                   .ids = ids + at * CDZ_LEADERS_MOST,
                                   .x = values + at * CDZ_LEADERS_MOST,
                                   .edited = edited[kind],
                                   .n_edited = some_edited(edited[kind], n, kind),
                                   .was = was[kind]};
        was[kind][0] = -77.0f;
    }
    float *xt = floats_there(b, x, KINDS * ld);
    b->api->leaders(b, rows, xt, ld, KINDS, n);
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == 1) {
            expect(t, was[kind][0] == -77.0f, "%zu scores: a row that is to be left alone is not",
                   n);
            continue;
        }
        expect_edited(t, &rows[kind], x + (size_t)kind * ld, n, kind);
        expect_leaders(t, &rows[kind], x + (size_t)kind * ld, n, kind);
        if (kind == 0 && divisor != 0.0f) expect_mass(t, &rows[kind], x, n, kind);
    }
    free(x);
    free(ids);
    free(values);
    b->api->free(b, xt);
}

static void leaders(run *t)
{
    static const struct {
        size_t n;
        uint32_t least;
        float divisor;
    } cases[] = {{1, 1, 1.0f},     {40, 5, 0.5f},     {1024, 50, 0.0f},   {1025, 8, 1.0f},
                 {4097, 64, 0.7f}, {12345, 50, 1.5f}, {50000, 256, 1.0f}, {300001, 512, 0.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        leaders_of(t, cases[i].n, cases[i].least, cases[i].divisor);
}

/* Which scores a row keeps: all, none, one, a few pieces', more pieces' than a list takes, some, most, those from 7 on. */
enum { MASKS = 8 };

static bool is_kept(size_t i, size_t n, int mask)
{
    switch (mask) {
    case 0: return true;
    case 1: return false;
    case 2: return i == n - 1;
    case 3: return i / 64 == n / 128;
    case 4: return i < 2000;
    case 5: return i % 97 == 5 || i == 0;
    case 6: return i % 5 != 0;
    default: return i >= 7;
    }
}

/* The mask's bits; those past the row's end are anybody's. */
static void write_mask(uint64_t *bits, size_t n, int mask)
{
    for (size_t i = 0; i < (n + 63) / 64 * 64; i++)
        if (i >= n || is_kept(i, n, mask)) bits[i / 64] |= (uint64_t)1 << (i % 64);
}

/* Rows that differ in kind, the same mask for half of them; what is told has to be what would be told of them masked. */
static void masked_leaders_of(run *t, size_t n, uint32_t least, float divisor, int mask)
{
    enum { ROWS = 8, EDITED = 1025 };
    static int32_t edited[EDITED], ids[ROWS][CDZ_LEADERS_MOST];
    static float was[ROWS][EDITED], values[ROWS][CDZ_LEADERS_MOST];
    cdz_backend *b = t->strict;
    rng r = {(uint32_t)n + least + (uint32_t)mask};
    const size_t ld = n + GAP;
    const uint32_t n_edited = some_edited(edited, n, 4);
    float *x = random_floats(&r, ROWS * ld);
    uint64_t *bits = must_alloc((n + 63) / 64 * sizeof *bits);
    cdz_leaders rows[ROWS];
    write_mask(bits, n, mask);
    for (int k = 0; k < ROWS; k++) {
        set_row(x + (size_t)k * ld, n, k);
        rows[k] = (cdz_leaders){.least = k == 1 ? 0 : least,
                                .divisor = divisor,
                                .ids = ids[k],
                                .x = values[k],
                                .edited = edited,
                                .n_edited = n_edited,
                                .was = was[k],
                                .kept = k % 2 || k == 0 ? bits : NULL};
    }
    float *xt = floats_there(b, x, ROWS * ld);
    b->api->leaders(b, rows, xt, ld, ROWS, n);
    for (int k = 0; k < ROWS; k++) {
        float *row = x + (size_t)k * ld;
        if (rows[k].least == 0) continue;
        expect_edited(t, &rows[k], row, n, k); /* as they are, masked or not */
        for (size_t i = 0; rows[k].kept && i < n; i++)
            if (!is_kept(i, n, mask)) row[i] = -INFINITY;
        expect_leaders(t, &rows[k], row, n, k);
        if (rows[k].n > 0 && rows[k].n <= CDZ_LEADERS_MOST && k != 4 && divisor != 0.0f)
            expect_mass(t, &rows[k], row, n, k);
        if (mask == 4 && k == 0)
            expect(t, rows[k].n <= CDZ_LEADERS_MOST, "%zu scores: too many of 2000", n);
    }
    free(x);
    free(bits);
    b->api->free(b, xt);
}

static void masked_leaders(run *t)
{
    static const struct {
        size_t n;
        uint32_t least;
        float divisor;
    } cases[] = {{1, 1, 1.0f},     {40, 5, 0.5f},     {1025, 8, 1.0f},
                 {4097, 64, 0.7f}, {12345, 50, 1.5f}, {50001, 512, 1.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int mask = 0; mask < MASKS; mask++)
            masked_leaders_of(t, cases[i].n, cases[i].least, cases[i].divisor, mask);
}

/* ---- memory ---- */

static void copies_of_any_length(run *t)
{
    static const size_t lengths[] = {1, 4095, 4194304, 9000001};
    cdz_backend *b = t->automatic;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        unsigned char *data = must_alloc(n), *back = must_alloc(n);
        for (size_t j = 0; j < n; j++) data[j] = (unsigned char)(j * 31 + j / 1000);
        char *a = b->api->alloc(b, n), *c = b->api->alloc(b, n);
        expect(t, a && c, "no memory");
        if (a && c) {
            b->api->download(b, back, a, n);
            expect(t, back[0] == 0 && back[n - 1] == 0, "memory is not zeroed");
            b->api->upload(b, a, data, n);
            b->api->copy(b, c, a, n);
            b->api->download(b, back, c, n);
            expect(t, memcmp(data, back, n) == 0, "%zu bytes came back otherwise", n);
        }
        b->api->free(b, a);
        b->api->free(b, c);
        free(data);
        free(back);
    }
}

/* Copies that are waited for later: more than there are places for, in any order, of what was there when they were given. */
static void copies_that_arrive_later(run *t)
{
    enum { N = 40, MOST = 70000 };
    static unsigned char back[N][MOST], data[MOST];
    cdz_backend *b = t->automatic;
    uint64_t tickets[N];
    unsigned char *there = b->api->alloc(b, MOST);
    expect(t, there != NULL, "no memory");
    if (!there) return;
    for (size_t round = 0; round < 2; round++) {
        size_t later = 0;
        for (size_t i = 0; i < N; i++) {
            memset(data, (int)(i + 100 * round), MOST);
            b->api->upload(b, there, data, MOST);
            tickets[i] = b->api->bring(b, back[i], there, MOST - 1000 * i);
            later += tickets[i] != 0;
        }
        expect(t, later > 0, "nothing comes later");
        for (size_t k = 0; k < N; k++) {
            const size_t i = k * 17 % N, last = MOST - 1000 * i - 1;
            b->api->arrive(b, tickets[i]);
            b->api->arrive(b, tickets[i]);
            expect(t, back[i][0] == i + 100 * round && back[i][last] == back[i][0],
                   "copy %zu brought %d and %d", i, (int)back[i][0], (int)back[i][last]);
        }
    }
    b->api->arrive(b, 0);
    b->api->free(b, there);
}

static void many_weights(run *t)
{
    enum { N = 300, BYTES = 70001 };
    cdz_backend *b = t->automatic;
    size_t free_before, free_after, total;
    const void *placed[N];
    unsigned char *data = must_alloc(BYTES), *back = must_alloc(BYTES);
    b->api->memory(b, &free_before, &total);
    for (size_t i = 0; i < N; i++) {
        memset(data, (int)i, BYTES);
        placed[i] = b->api->place(b, data, BYTES);
        expect(t, placed[i] && (uintptr_t)placed[i] % 64 == 0, "weight %zu has no place", i);
    }
    for (size_t i = 0; i < N && t->well; i += 37) {
        b->api->download(b, back, placed[i], BYTES);
        memset(data, (int)i, BYTES);
        expect(t, memcmp(data, back, BYTES) == 0, "weight %zu was overwritten", i);
    }
    for (size_t i = 0; i < N; i++) b->api->unplace(b, placed[i]);
    b->api->unplace(b, NULL);
    b->api->memory(b, &free_after, &total);
    expect(t, free_after == free_before, "weights leave %zu bytes behind", free_before - free_after);
    free(data);
    free(back);
}

static void too_much_is_refused(run *t)
{
    size_t left, total;
    cdz_backend *b = t->automatic;
    b->api->memory(b, &left, &total);
    expect(t, left <= total, "more is free than there is");
    expect(t, !b->api->alloc(b, total + 1), "more than there is was given");
    const cdz_kv_shape shape = {2, 2, 64, CDZ_F32, 0};
    expect(t, !b->api->kv_create(b, &shape, total / b->api->kv_block_bytes(b, &shape) + 1),
           "a store larger than the memory");
    const cdz_kv_shape huge = {SIZE_MAX / 2, 8, 64, CDZ_F32, 0};
    expect(t, b->api->kv_block_bytes(b, &huge) == 0, "a shape that does not fit has a size");
    char why[256] = "";
    const cdz_device_options options = {sizeof options, 99, CDZ_PRECISION_AUTO, false};
    expect(t, !t->entry->create(&options, why, sizeof why) && strstr(why, ":99 does not exist"),
           "device 99: %s", why);
}

/* The emulation fails when it is asked to; a device is not. What comes after does nothing, and says why. */
static void trouble_is_told(run *t)
{
    cdz_device_info info;
    t->entry->describe(0, &info);
    if (strncmp(info.name, "emulated", 8) != 0) return;
    setenv("CADENZA_EMULATED_FAULT", "1", 1);
    cdz_backend *b = open_device(t->entry, CDZ_PRECISION_AUTO, false);
    unsetenv("CADENZA_EMULATED_FAULT");
    const float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    float *x = floats_there(b, ones, 4), back[4];
    b->api->scale(b, x, 4, 1, 4, 2.0f);
    b->api->download(b, back, x, sizeof back);
    expect(t, !b->api->trouble(b) && back[0] == 2.0f, "trouble too early");
    for (int i = 0; i < 3; i++) b->api->scale(b, x, 4, 1, 4, 2.0f);
    b->api->download(b, back, x, sizeof back);
    const char *trouble = b->api->trouble(b);
    expect(t, trouble && strstr(trouble, "kernel each_element"), "the trouble: %s",
           trouble ? trouble : "none");
    expect(t, back[0] < 8.0f, "it went on after trouble");
    b->api->free(b, x);
    b->api->destroy(b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"plain products have the CPU's bits", plain_products},
        {"block products have the CPU's bits", block_products},
        {"float8 products of any width have the CPU's bits", float8_products},
        {"many products of one input", many_products},
        {"a library's products in f32", library_products_in_f32},
        {"a library's products in bf16", library_products_in_bf16},
        {"float32 weights are multiplied in float32", library_f32_weights_stay_f32},
        {"embeddings of every type", embeddings},
        {"norms", norms},
        {"norms in place", norm_in_place},
        {"rotations", rotations},
        {"operations on elements", elements},
        {"routes", routes},
        {"scaled sums", scaled_sums},
        {"the best of rows of scores", best_scores},
        {"the leaders of rows of scores", leaders},
        {"the leaders of masked rows of scores", masked_leaders},
        {"copies of any length", copies_of_any_length},
        {"copies that arrive later", copies_that_arrive_later},
        {"many weights", many_weights},
        {"too much is refused", too_much_is_refused},
        {"trouble is told", trouble_is_told},
    };
    return run_all(argc, argv, cases, sizeof cases / sizeof *cases);
}
