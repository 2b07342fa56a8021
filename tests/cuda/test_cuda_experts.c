/* test_cuda_experts.c - mixtures of experts that a device chooses among, against the definition put together of routing,
 * products, activation and sums: the same bits, whatever rows are beside a row. */
#include "cuda_test.h"

enum { DISTINCT = 7, GAP = 3, MOST_ROWS = 32, MOST_ACTIVE = 8 };

/* A mixture: D outside, F inside. Experts e and e + DISTINCT have the same matrices. */
typedef struct form {
    size_t D, F, n, k;
    cdz_dtype type[CDZ_EXPERT_PARTS];
    cdz_curve curve;
    bool ungated, plain; /* plain: weights are not normalised */
    bool biased, clamped;
} form;

typedef struct mixture {
    cdz_backend *b;
    pair matrix[DISTINCT][CDZ_EXPERT_PARTS], bias[DISTINCT][CDZ_EXPERT_PARTS];
    cdz_experts here, there;
    const void **table; /* matrices, then biases */
} mixture;

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void make_expert(run *t, mixture *x, size_t e, rng *r, const form *f)
{
    for (int p = f->ungated ? CDZ_EXPERT_UP : 0; p < CDZ_EXPERT_PARTS; p++) {
        const size_t n = p == CDZ_EXPERT_DOWN ? f->D : f->F, k = p == CDZ_EXPERT_DOWN ? f->F : f->D;
        x->matrix[e][p] = random_weight(t, x->b, r, f->type[p], n, k);
        if (f->biased) x->bias[e][p] = random_weight(t, x->b, r, CDZ_BF16, 1, n);
    }
}

static mixture make_mixture(run *t, cdz_backend *b, rng *r, const form *f)
{
    mixture x = {.b = b};
    const size_t entries = f->n * CDZ_EXPERT_PARTS;
    for (size_t e = 0; e < lesser(f->n, DISTINCT); e++) make_expert(t, &x, e, r, f);
    const void **there = must_alloc(2 * entries * sizeof *there);
    for (size_t i = 0; i < entries; i++) {
        const size_t e = i / CDZ_EXPERT_PARTS % DISTINCT, p = i % CDZ_EXPERT_PARTS;
        there[i] = x.matrix[e][p].there.data;
        there[entries + i] = x.bias[e][p].there.data;
    }
    x.table = b->api->alloc(b, 2 * entries * sizeof *there);
    b->api->upload(b, x.table, there, 2 * entries * sizeof *there);
    free(there);
    x.here = (cdz_experts){.n = f->n,
                           .n_active = f->k,
                           .normalise = !f->plain,
                           .clamped = f->clamped,
                           .curve = f->curve,
                           .at = x.table,
                           .bias_at = x.table + entries};
    x.there = x.here;
    for (int p = 0; p < CDZ_EXPERT_PARTS; p++) {
        x.here.part[p] = x.matrix[0][p].here;
        x.here.bias[p] = x.bias[0][p].here;
        x.there.part[p] = x.matrix[0][p].there;
        x.there.bias[p] = x.bias[0][p].there;
    }
    return x;
}

static void free_mixture(mixture *x)
{
    for (size_t e = 0; e < DISTINCT; e++)
        for (int p = 0; p < CDZ_EXPERT_PARTS; p++) {
            if (x->matrix[e][p].here.data) free_weight(x->b, &x->matrix[e][p]);
            if (x->bias[e][p].here.data) free_weight(x->b, &x->bias[e][p]);
        }
    x->b->api->free(x->b, x->table);
}

/* ---- the definition ---- */

/* gives (D) = what an expert gives of one row */
static void feed(cdz_backend *cpu, const mixture *x, size_t e, float *gives, const float *row)
{
    const pair *w = x->matrix[e % DISTINCT], *bias = x->bias[e % DISTINCT];
    const bool biased = bias[CDZ_EXPERT_UP].here.data;
    const cdz_weight *up_bias = biased ? &bias[CDZ_EXPERT_UP].here : NULL,
                     *gate_bias = biased ? &bias[CDZ_EXPERT_GATE].here : NULL,
                     *down_bias = biased ? &bias[CDZ_EXPERT_DOWN].here : NULL;
    const bool gated = w[CDZ_EXPERT_GATE].here.data;
    const size_t F = w[CDZ_EXPERT_UP].here.n, D = w[CDZ_EXPERT_UP].here.k;
    float *gate = must_alloc(F * sizeof *gate), *up = must_alloc(F * sizeof *up);
    const cdz_product halves[] = {{&w[CDZ_EXPERT_UP].here, up_bias, up, F},
                                  {&w[CDZ_EXPERT_GATE].here, gate_bias, gate, F}},
                      down = {&w[CDZ_EXPERT_DOWN].here, down_bias, gives, D};
    cpu->api->matmul(cpu, halves, gated ? 2 : 1, row, D, 1);
    if (x->here.clamped)
        cpu->api->clamped_mul(cpu, gate, F, gate, up, F, 1, F);
    else if (gated && x->here.curve == CDZ_CURVE_SILU)
        cpu->api->silu_mul(cpu, gate, F, gate, up, F, 1, F);
    else
        cpu->api->activate(cpu, gate, F, gated ? gate : up, gated ? up : NULL, F, 1, F,
                           x->here.curve);
    cpu->api->matmul(cpu, &down, 1, gate, F, 1);
    free(gate);
    free(up);
}

/* y (m, D), each row's experts in ascending index */
static void expect_from(cdz_backend *cpu, const mixture *x, float *y, size_t ldy,
                        const float *scores, size_t lds, const float *rows, size_t ldx, size_t m)
{
    static const int32_t first[] = {0};
    const size_t D = x->here.part[CDZ_EXPERT_DOWN].n, k = x->here.n_active;
    float weights[MOST_ROWS * MOST_ACTIVE], *gives = must_alloc(D * sizeof *gives);
    int32_t ids[MOST_ROWS * MOST_ACTIVE];
    cpu->api->route(cpu, weights, ids, k, scores, lds, m, x->here.n, x->here.normalise);
    for (size_t r = 0; r < m; r++) {
        memset(y + r * ldy, 0, D * sizeof *y);
        for (size_t e = 0; e < x->here.n; e++)
            for (size_t j = r * k; j < (r + 1) * k; j++) {
                if (ids[j] != (int32_t)e) continue;
                feed(cpu, x, e, gives, rows + r * ldx);
                cpu->api->add_scaled(cpu, y + r * ldy, ldy, first, &weights[j], gives, D, 1, D);
            }
    }
    free(gives);
}

/* ---- comparing ---- */

/* How scores are: random; equal in a row; alike in all rows; of few different values; with infinities, zeros of either sign and,
 * in every third row, a NaN. */
enum { RANDOM, EQUAL, ALIKE, FEW, WILD, N_KINDS };

static float wild_score(size_t row, size_t expert, float score)
{
    static const float values[] = {0.0f, -INFINITY, -0.0f};
    if (row % 3 == 2 && expert == row / 3) return NAN;
    return expert % 4 < 3 ? values[(expert + row) % 3] : score;
}

static float *make_scores(rng *r, size_t m, size_t n, size_t lds, int kind)
{
    float *scores = random_floats(r, m * lds);
    for (size_t i = 0; i < m; i++)
        for (size_t e = 0; e < n; e++) {
            float *s = &scores[i * lds + e];
            *s = kind == EQUAL   ? 0.25f
                 : kind == ALIKE ? scores[e]
                 : kind == FEW   ? (float)(int)(*s * 3.0f)
                 : kind == WILD  ? wild_score(i, e, *s)
                                 : *s * 5.0f;
        }
    return scores;
}

static void same_mixture(run *t, cdz_backend *b, const form *f, size_t m, int kind)
{
    rng r = {(uint32_t)(f->D * 131 + f->n * 7 + f->k * 3 + m * 17 + (unsigned)kind + 1)};
    mixture mix = make_mixture(t, b, &r, f);
    const size_t ldx = f->D + (f->D % 2 ? 0 : GAP + 1), ldy = f->D + GAP, lds = f->n + 1;
    float *x = random_floats(&r, m * ldx), *scores = make_scores(&r, m, f->n, lds, kind);
    float *y = random_floats(&r, m * ldy);
    float *xt = floats_there(b, x, m * ldx), *st = floats_there(b, scores, m * lds),
          *yt = floats_there(b, y, m * ldy);
    char what[128];
    snprintf(what, sizeof what, "%s/%s/%s, %zu of %zu experts, %zu rows, scores of kind %d",
             cdz_dtype_name(f->type[0]), cdz_dtype_name(f->type[1]), cdz_dtype_name(f->type[2]),
             f->k, f->n, m, kind);
    expect(t, b->api->experts(b, yt, ldy, &mix.there, st, lds, xt, ldx, m), "%s: refused", what);
    expect_from(t->cpu, &mix, y, ldy, scores, lds, x, ldx, m);
    expect_same(t, what, b, yt, y, m * ldy);
    float *const there[] = {xt, st, yt}, *const here[] = {x, scores, y};
    for (size_t i = 0; i < 3; i++) {
        b->api->free(b, there[i]);
        free(here[i]);
    }
    free_mixture(&mix);
}

/* ---- cases ---- */

static void every_type(run *t)
{
    static const size_t rows[] = {1, 2, 6};
    for (cdz_dtype d = CDZ_F32; d < CDZ_N_DTYPES && t->well; d++) {
        const bool blocks = d >= CDZ_N_PLAIN;
        const form f = {.D = blocks ? 512 : 36,
                        .F = blocks ? 256 : 20,
                        .n = 5,
                        .k = 2,
                        .type = {d, d, d},
                        .curve = CDZ_CURVE_SILU};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            same_mixture(t, i % 2 ? t->automatic : t->strict, &f, rows[i], RANDOM);
    }
}

/* Odd sizes, several chunks of columns, several blocks of outputs. */
static void every_size(run *t)
{
    static const size_t sizes[][2] = {{1, 1}, {37, 21}, {17, 1030}, {2500, 9}, {300, 66}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (cdz_dtype d = CDZ_F32; d < CDZ_N_PLAIN; d++)
            for (size_t m = 1; m < 4; m++) {
                const form f = {.D = sizes[i][0],
                                .F = sizes[i][1],
                                .n = 4,
                                .k = 2,
                                .type = {d, d, d},
                                .curve = CDZ_CURVE_SILU};
                same_mixture(t, t->strict, &f, m, RANDOM);
            }
}

static void every_choice(run *t)
{
    static const struct {
        size_t n, k;
    } cases[] = {{1, 1}, {2, 2}, {8, 1}, {8, 2}, {8, 8}, {60, 4}, {128, 1}, {128, 2}, {128, 8}};
    static const size_t rows[] = {1, 2, 3, 9, MOST_ROWS};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int kind = RANDOM; kind < N_KINDS; kind++) {
                const form f = {.D = 24,
                                .F = 12,
                                .n = cases[c].n,
                                .k = cases[c].k,
                                .type = {CDZ_BF16, CDZ_BF16, CDZ_BF16},
                                .curve = CDZ_CURVE_SILU,
                                .plain = i % 2};
                same_mixture(t, kind % 2 ? t->f32 : t->strict, &f, rows[i], kind);
            }
}

/* Whatever the scores: who is chosen is there, and chosen once. */
static void choices_are_distinct(run *t)
{
    enum { N = 8, ROWS = 4 };
    cdz_backend *b = t->strict;
    float scores[ROWS * N], weights[ROWS * N];
    int32_t ids[ROWS * N];
    for (size_t i = 0; i < ROWS * N; i++)
        scores[i] = i % N < 2 * (i / N) + 2 ? NAN : (float)(i % 3); /* 2, 4, 6, all */
    float *st = floats_there(b, scores, ROWS * N);
    b->api->route(b, weights, ids, N, st, N, ROWS, N, true);
    for (size_t r = 0; r < ROWS; r++) {
        uint32_t seen = 0;
        for (size_t j = r * N; j < (r + 1) * N; j++)
            if (ids[j] >= 0 && ids[j] < N) seen |= 1u << ids[j];
        expect(t, seen == (1u << N) - 1, "row %zu with NaN goes to experts %#x", r, (unsigned)seen);
    }
    b->api->free(b, st);
}

/* Matrices of an expert in types of their own; every curve, with a gate and without. */
static void every_form(run *t)
{
    for (cdz_curve c = 0; c < CDZ_N_CURVES; c++)
        for (int ungated = 0; ungated < 2; ungated++)
            for (size_t m = 1; m < 6; m += 4) {
                const form f = {.D = 256,
                                .F = 64,
                                .n = 6,
                                .k = 3,
                                .type = {CDZ_Q4_K, CDZ_Q6_K, CDZ_Q5_0},
                                .curve = c,
                                .ungated = ungated};
                same_mixture(t, t->strict, &f, m, RANDOM);
            }
}

/* Biases and clamped gates, as gpt_oss has them; more experts than have matrices of their own. */
static void biased_and_clamped(run *t)
{
    static const size_t rows[] = {1, 2, 7, MOST_ROWS};
    static const cdz_dtype types[] = {CDZ_MXFP4, CDZ_BF16, CDZ_FP8};
    for (size_t d = 0; d < sizeof types / sizeof *types; d++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int clamped = 0; clamped < 2; clamped++) {
                const form f = {.D = 96,
                                .F = 64,
                                .n = 9,
                                .k = 4,
                                .type = {types[d], types[d], types[d]},
                                .curve = CDZ_CURVE_SILU,
                                .biased = true,
                                .clamped = clamped};
                same_mixture(t, i % 2 ? t->automatic : t->strict, &f, rows[i], RANDOM);
            }
    const form ungated = {.D = 24, .F = 12, .n = 4, .k = 2, .ungated = true, .biased = true};
    same_mixture(t, t->strict, &ungated, 3, RANDOM);
}

/* Different mixtures and numbers of rows by turns on one backend, as layers and batches come: work memory is theirs in turn. */
static void many_in_turn(run *t)
{
    for (size_t i = 0; i < 12; i++) {
        const form f = {.D = 20 + 8 * (i % 3),
                        .F = 16 + i,
                        .n = 3 + 9 * (i % 4),
                        .k = 1 + i % 3,
                        .type = {CDZ_F16, CDZ_F32, CDZ_BF16},
                        .curve = CDZ_CURVE_GELU};
        same_mixture(t, t->automatic, &f, 1 + i * 5 % 11, RANDOM);
    }
}

/* Many rows are the caller's, and untouched. */
static void many_rows_are_refused(run *t)
{
    static const struct {
        size_t n, k, m;
    } cases[] = {{8, 2, MOST_ROWS + 1}, {64, 33, 8}, {2000, 2, 1}};
    cdz_backend *b = t->strict;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rng r = {(uint32_t)i + 1};
        const size_t m = cases[i].m, n = cases[i].n;
        const form f = {.D = 8, .F = 4, .n = n, .k = cases[i].k};
        mixture mix = make_mixture(t, b, &r, &f);
        float *x = random_floats(&r, m * n), *xt = floats_there(b, x, m * n);
        float *y = random_floats(&r, m * f.D), *yt = floats_there(b, y, m * f.D);
        expect(t, !b->api->experts(b, yt, f.D, &mix.there, xt, n, xt, f.D, m),
               "%zu rows with %zu of %zu experts are taken", m, f.k, n);
        expect_same(t, "what was refused", b, yt, y, m * f.D);
        free(x);
        free(y);
        b->api->free(b, xt);
        b->api->free(b, yt);
        free_mixture(&mix);
    }
}

/* The emulation has as much memory as it is told to. */
static void memory_runs_out(run *t)
{
    cdz_device_info info;
    t->entry->describe(0, &info);
    if (strncmp(info.name, "emulated", 8) != 0) return;
    setenv("CADENZA_EMULATED_BYTES", "4000000", 1);
    cdz_backend *b = open_device(t->entry, CDZ_PRECISION_AUTO, false);
    unsetenv("CADENZA_EMULATED_BYTES");
    rng r = {3};
    const form f = {.D = 16, .F = 8, .n = 4, .k = 2};
    mixture mix = make_mixture(t, b, &r, &f);
    float *x = random_floats(&r, 2 * f.D), *xt = floats_there(b, x, 2 * f.D);
    float *y = random_floats(&r, 2 * f.D), *yt = floats_there(b, y, 2 * f.D);
    size_t left, total;
    b->api->memory(b, &left, &total);
    void *rest = b->api->alloc(b, left);
    expect(t, rest && !b->api->trouble(b), "trouble too early");
    (void)b->api->experts(b, yt, f.D, &mix.there, xt, f.n, xt, f.D, 2);
    const char *trouble = b->api->trouble(b);
    expect(t, trouble && strstr(trouble, "out of device memory for work memory"), "the trouble: %s",
           trouble ? trouble : "none");
    expect_same(t, "what had no memory", b, yt, y, 2 * f.D);
    free(x);
    free(y);
    void *const all[] = {xt, yt, rest};
    for (size_t i = 0; i < 3; i++) b->api->free(b, all[i]);
    free_mixture(&mix);
    b->api->destroy(b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"experts of every type", every_type},
        {"experts of every size", every_size},
        {"experts of every choice", every_choice},
        {"choices are distinct", choices_are_distinct},
        {"experts of every form", every_form},
        {"experts with biases and clamped gates", biased_and_clamped},
        {"many mixtures in turn", many_in_turn},
        {"many rows are refused", many_rows_are_refused},
        {"memory runs out", memory_runs_out},
    };
    return run_all(argc, argv, cases, sizeof cases / sizeof *cases);
}
