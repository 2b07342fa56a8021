/* test_kernels_packed.c - packed keys and values: scales, zeros and whole numbers are those of optimum-quanto and hqq; attention
 * over them has the bits of the scalar set asked for one position at a time, whatever the variant, the threads and the chunks;
 * it is near the exact result; a position reads packed what its number says, and nothing of what a ring has overwritten. */
#include "support/kernel_data.h"

#include "kernels/packed_vectors.h"
#include "ref/kv_packed.h"

enum { LAYERS = 2, LENGTH = 300, MOST_BLOCKS = 12, MOST_CHUNK = 128 };

/* clang-format off */
#define ALONG(n) {1, n}
#define ACROSS(n) {n, 1}
#define SOME(p, n) {p, n}
/* clang-format on */

static const struct model {
    const char *name;
    size_t n_heads, n_kv_heads, head_dim;
    uint32_t window;
    float soft_cap;
    cdz_kv_packing packing;
} models[] = {
    {"4 bits, along heads", 14, 2, 64, 0, 0, {4, false, ALONG(64), ALONG(64), 40}},
    {"2 bits, along heads", 8, 1, 128, 0, 0, {2, false, ALONG(64), ALONG(32), 128}},
    {"8 bits, across positions", 4, 4, 16, 0, 0, {8, true, ACROSS(64), ACROSS(64), 40}},
    {"4 bits, keys across, values along", 6, 2, 24, 0, 0, {4, false, ACROSS(32), ALONG(24), 33}},
    {"3 bits, groups longer than a head", 4, 2, 16, 0, 0, {3, true, SOME(4, 16), SOME(2, 16), 1}},
    {"1 bit, groups shorter than a block", 3, 1, 8, 0, 0, {1, true, ACROSS(8), SOME(8, 8), 0}},
    {"window", 14, 2, 64, 150, 0, {4, false, ALONG(64), ACROSS(128), 32}},
    {"soft cap and a small window", 9, 3, 40, 45, 1.5f, {2, true, ALONG(8), ACROSS(16), 32}},
};
enum { N_MODELS = sizeof models / sizeof *models };

/* One sequence: keys, values and queries of every position; its blocks, scattered, of which the plain ones are a ring. */
typedef struct text {
    const struct model *model;
    size_t kv_width, q_width, span;
    float *k, *v, *q;
    int32_t blocks[MOST_BLOCKS], packed[MOST_BLOCKS];
    float scale;
} text;

static text make_text(const struct model *model, uint32_t seed, int32_t first)
{
    rng r = {seed};
    text t = {.model = model,
              .kv_width = model->n_kv_heads * model->head_dim,
              .q_width = model->n_heads * model->head_dim,
              .span = cdz_kv_span(&model->packing)};
    const size_t ring = (MOST_CHUNK + model->packing.residual + t.span) / CDZ_KV_BLOCK + 1;
    t.k = random_floats(&r, LENGTH * t.kv_width);
    t.v = random_floats(&r, LENGTH * t.kv_width);
    t.q = random_floats(&r, LENGTH * t.q_width);
    for (size_t i = 0; i < LENGTH * t.q_width; i++) t.q[i] *= 8.0f;
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        t.blocks[i] = first + (int32_t)(i % ring * 5 + 3) % MOST_BLOCKS;
        t.packed[i] = first + (int32_t)(i * 7 + 1) % MOST_BLOCKS;
    }
    t.scale = 1.0f / sqrtf((float)model->head_dim);
    return t;
}

static void free_text(text *t)
{
    free(t->k);
    free(t->v);
    free(t->q);
}

typedef struct stores {
    cdz_backend *b;
    cdz_kv *plain, *packed;
} stores;

static stores open_stores(const char *variant, uint32_t threads, const struct model *model)
{
    const cdz_kv_shape shape = {LAYERS, model->n_kv_heads, model->head_dim, CDZ_F32, 0};
    stores s = {.b = make_backend(variant, threads)};
    s.plain = s.b->api->kv_create(s.b, &shape, 2 * MOST_BLOCKS);
    s.packed = s.b->api->packed_create(s.b, &shape, &model->packing, 2 * MOST_BLOCKS);
    assert_non_null(s.plain);
    assert_non_null(s.packed);
    return s;
}

static void close_stores(stores *s)
{
    s->b->api->kv_destroy(s->b, s->packed);
    s->b->api->kv_destroy(s->b, s->plain);
    s->b->api->destroy(s->b);
}

static cdz_attention how_of(const stores *s, const text *t, const int32_t *const *packed)
{
    return (cdz_attention){.n_heads = t->model->n_heads,
                           .scale = t->scale,
                           .soft_cap = t->model->soft_cap,
                           .window = t->model->window,
                           .packed = s->packed,
                           .packed_blocks = packed};
}

/* Positions [from, to) of a text: written to layer 1, packed, attended to. */
static void run_rows(const stores *s, const text *t, size_t from, size_t to, float *out)
{
    cdz_kv_row rows[LENGTH];
    const int32_t *packed[LENGTH];
    for (size_t p = from; p < to; p++) {
        rows[p - from] = (cdz_kv_row){t->blocks, (uint32_t)p, 0, NULL};
        packed[p - from] = t->packed;
    }
    s->b->api->kv_write(s->b, s->plain, 1, t->k + from * t->kv_width, t->kv_width,
                        t->v + from * t->kv_width, t->kv_width, rows, to - from);
    s->b->api->kv_pack(s->b, s->packed, s->plain, 1, rows, packed, to - from);
    const cdz_attention how = how_of(s, t, packed);
    s->b->api->attention(s->b, out + from * t->q_width, t->q_width, t->q + from * t->q_width,
                         t->q_width, s->plain, 1, rows, to - from, &how);
}

/* What the scalar set says, position by position. */
static float *expect(const text *t)
{
    stores s = open_stores("scalar", 1, t->model);
    float *out = must_alloc(LENGTH * t->q_width * sizeof *out);
    for (size_t p = 0; p < LENGTH; p++) run_rows(&s, t, p, p + 1, out);
    close_stores(&s);
    return out;
}

/* ---- the numbers ---- */

static size_t number_of_groups(const cdz_kv_grouping *g, size_t span, size_t dim)
{
    return span / g->positions * (dim / g->dims);
}

/* A span of (span, dim) numbers, as keys and as values, read again. */
static void read_again(const cdz_kv_packing *packing, size_t dim, const float *x, float *keys,
                       float *values)
{
    const size_t span = cdz_kv_span(packing);
    float *plain = must_alloc(2 * span * dim * sizeof *plain);
    cdz_packed_source from = {.dim = dim};
    for (size_t p = 0; p < span; p++) {
        float *block = plain + p / CDZ_KV_BLOCK * 2 * CDZ_KV_BLOCK * dim;
        const size_t w = p % CDZ_KV_BLOCK;
        from.blocks[p / CDZ_KV_BLOCK] = block;
        for (size_t d = 0; d < dim; d++) {
            block[(w / 8 * dim + d) * 8 + w % 8] = x[p * dim + d];
            block[CDZ_KV_BLOCK * dim + w * dim + d] = x[p * dim + d];
        }
    }
    const cdz_packed_side k = cdz_packed_keys(packing, dim), v = cdz_packed_values(packing, dim);
    assert_int_equal(v.numbers, k.end);
    assert_int_equal(k.end, span * dim * packing->bits / 8 +
                                8 * number_of_groups(&packing->keys, span, dim));
    char *head = must_alloc(v.end);
    cdz_pack_span(packing, head, &from);
    for (size_t p = 0; p < span; p++)
        for (size_t d = 0; d < dim; d++) {
            keys[p * dim + d] =
                cdz_packed_read(packing, &k, head, cdz_packed_key(&k, span, dim, p, d));
            values[p * dim + d] =
                cdz_packed_read(packing, &v, head, cdz_packed_value(&v, dim, p, d));
        }
    free(plain);
    free(head);
}

static float bits_as_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void numbers_are_the_references(void **state)
{
    enum { N = PACKED_SPAN * PACKED_DIM };
    static float x[N], keys[N], values[N];
    (void)state;
    for (size_t i = 0; i < N; i++) x[i] = bits_as_float(packed_input[i]);
    for (size_t c = 0; c < sizeof packed_cases / sizeof *packed_cases; c++) {
        const struct packed_case *pc = &packed_cases[c];
        const cdz_kv_grouping g = {pc->positions, pc->dims};
        const cdz_kv_packing packing = {pc->bits, pc->centred, g, g, 0};
        assert_int_equal(PACKED_SPAN % cdz_kv_span(&packing), 0);
        for (size_t from = 0; from < PACKED_SPAN; from += cdz_kv_span(&packing))
            read_again(&packing, PACKED_DIM, x + from * PACKED_DIM, keys + from * PACKED_DIM,
                       values + from * PACKED_DIM);
        for (size_t i = 0; i < N; i++) {
            const float want = bits_as_float(pc->read[i]);
            if (keys[i] != want || values[i] != want)
                fail_msg("%s: number %zu is %a and %a, in the reference %a", pc->name, i,
                         (double)keys[i], (double)values[i], (double)want);
        }
    }
}

/* No number is further from what it was than half a step of its group, and the roundings. */
static void half_a_step_away(void **state)
{
    enum { DIM = 64, SPAN = 64 };
    static float x[SPAN * DIM], keys[SPAN * DIM], values[SPAN * DIM];
    static const uint32_t bits[] = {1, 2, 3, 4, 8};
    (void)state;
    rng r = {77};
    for (size_t i = 0; i < SPAN * DIM; i++) x[i] = next_float(&r);
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++)
        for (int centred = 0; centred < 2; centred++) {
            const cdz_kv_packing packing = {bits[b], centred, {1, 64}, {64, 1}, 0};
            const float step = 2.0f / (float)((1u << bits[b]) - 1);
            read_again(&packing, DIM, x, keys, values);
            for (size_t i = 0; i < SPAN * DIM; i++) {
                assert_true(fabsf(keys[i] - x[i]) <= step / 2 + 1e-6f);
                assert_true(fabsf(values[i] - x[i]) <= step / 2 + 1e-6f);
            }
        }
}

/* Equal numbers come back; a group with anything but numbers is none, and its neighbours are well. */
static void odd_groups(void **state)
{
    enum { DIM = 16, SPAN = 32 };
    static float x[SPAN * DIM], keys[SPAN * DIM], values[SPAN * DIM];
    (void)state;
    for (int centred = 0; centred < 2; centred++)
        for (uint32_t bits = 2; bits <= 8; bits *= 2) {
            const cdz_kv_packing packing = {bits, centred, {1, 16}, {1, 16}, 0};
            for (size_t i = 0; i < SPAN * DIM; i++) x[i] = 0.25f;
            x[3] = NAN;
            x[DIM + 5] = INFINITY;
            x[2 * DIM] = 3e38f;
            x[2 * DIM + 1] = -3e38f;
            read_again(&packing, DIM, x, keys, values);
            for (size_t i = 0; i < SPAN * DIM; i++) {
                assert_true(isnan(keys[i]) == (i < 3 * DIM));
                assert_true(isnan(values[i]) == (i < 3 * DIM));
                if (i >= 3 * DIM) assert_true(keys[i] == 0.25f && values[i] == 0.25f);
            }
        }
}

/* ---- attention ---- */

static const size_t chunkings[][12] = {
    {128, 256, LENGTH},
    {31, 32, 33, 64, 97, 161, 162, 256, LENGTH},
    {1, 8, 9, 127, 128, 129, 240, 241, 299, LENGTH},
};

static void check_chunkings(const char *variant, uint32_t threads, const text *t,
                            const float *expected)
{
    /* The scalar set is slow, and the expectation itself. */
    const size_t step = strcmp(variant, "scalar") == 0 ? 2 : 1;
    float *out = must_alloc(LENGTH * t->q_width * sizeof *out);
    for (size_t c = step - 1; c < sizeof chunkings / sizeof *chunkings; c += step) {
        stores s = open_stores(variant, threads, t->model);
        for (size_t at = 0, from = 0; from < LENGTH; from = chunkings[c][at++])
            run_rows(&s, t, from, chunkings[c][at], out);
        assert_same_rows(t->model->name, out, t->q_width, expected, t->q_width, LENGTH, t->q_width);
        close_stores(&s);
    }
    free(out);
}

static void bits_equal_for_all_chunkings_and_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        text t = make_text(&models[i], (uint32_t)i + 1, (int32_t)(i % 2 ? MOST_BLOCKS : 0));
        float *expected = expect(&t);
        for (const char *const *v = cdz_cpu_variants(); *v; v++)
            for (uint32_t threads = 1; threads <= 3 && cdz_cpu_variant_runs_here(*v); threads += 2)
                check_chunkings(*v, threads, &t, expected);
        free(expected);
        free_text(&t);
    }
}

/* Attention of one head at one position in float64, over what was packed and read again. */
static void exact_head(const text *t, const float *k, const float *v, size_t position, size_t head,
                       double *out)
{
    const size_t dim = t->model->head_dim, group = t->model->n_heads / t->model->n_kv_heads;
    const size_t window = t->model->window, from = head / group * dim;
    const size_t begin = window && position + 1 > window ? position + 1 - window : 0;
    const size_t packed = cdz_kv_packed_before(&t->model->packing, (uint32_t)position);
    double sum = 0.0, cap = (double)t->model->soft_cap;
    for (size_t d = 0; d < dim; d++) out[d] = 0.0;
    for (size_t p = begin; p <= position; p++) {
        const float *key = (p < packed ? k : t->k) + p * t->kv_width + from,
                    *value = (p < packed ? v : t->v) + p * t->kv_width + from;
        double score = 0.0;
        for (size_t d = 0; d < dim; d++)
            score += (double)t->q[position * t->q_width + head * dim + d] * (double)key[d];
        score *= (double)t->scale;
        const double weight = exp(cap > 0 ? tanh(score / cap) * cap : score);
        sum += weight;
        for (size_t d = 0; d < dim; d++) out[d] += weight * (double)value[d];
    }
    for (size_t d = 0; d < dim; d++) out[d] /= sum;
}

/* Whole spans of a text packed and read again. */
static void pack_text(const text *t, float *k, float *v)
{
    const size_t dim = t->model->head_dim, n = t->span * dim;
    float *x = must_alloc(3 * n * sizeof *x), *keys = x + n, *values = keys + n;
    for (size_t first = 0; first + t->span <= LENGTH; first += t->span)
        for (size_t h = 0; h < t->model->n_kv_heads; h++)
            for (int side = 0; side < 2; side++) {
                const float *from = side ? t->v : t->k;
                float *to = side ? v : k, *read = side ? values : keys;
                for (size_t i = 0; i < n; i++)
                    x[i] = from[(first + i / dim) * t->kv_width + h * dim + i % dim];
                read_again(&t->model->packing, dim, x, keys, values);
                for (size_t i = 0; i < n; i++)
                    to[(first + i / dim) * t->kv_width + h * dim + i % dim] = read[i];
            }
    free(x);
}

static void near_the_exact_attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        text t = make_text(&models[i], 9, 0);
        float *out = must_alloc(LENGTH * t.q_width * sizeof *out),
              *k = must_alloc(2 * LENGTH * t.kv_width * sizeof *k), *v = k + LENGTH * t.kv_width;
        double exact[128];
        stores s = open_stores(NULL, 1, &models[i]);
        for (size_t from = 0; from < LENGTH; from += 100) run_rows(&s, &t, from, from + 100, out);
        close_stores(&s);
        pack_text(&t, k, v);
        for (size_t p = 0; p < LENGTH; p += 7)
            for (size_t h = 0; h < models[i].n_heads; h++) {
                exact_head(&t, k, v, p, h, exact);
                for (size_t d = 0; d < models[i].head_dim; d++) {
                    const double got = (double)out[p * t.q_width + h * models[i].head_dim + d];
                    if (fabs(got - exact[d]) > 4e-6)
                        fail_msg("%s: position %zu head %zu dim %zu is %.9g, exactly %.9g",
                                 models[i].name, p, h, d, got, exact[d]);
                }
            }
        free(out);
        free(k);
        free_text(&t);
    }
}

/* Two sequences in one call, a prompt's rows beside single ones. */
static void company_in(const char *variant)
{
    enum { ROWS = 64 };
    const struct model *model = &models[0];
    text a = make_text(model, 21, 0), c = make_text(model, 22, MOST_BLOCKS);
    float *expected_a = must_alloc(LENGTH * a.q_width * sizeof *expected_a),
          *expected_c = must_alloc(LENGTH * a.q_width * sizeof *expected_c);
    stores s = open_stores(variant, 2, model);
    float *q = must_alloc(2 * ROWS * a.q_width * sizeof *q), *out = q + ROWS * a.q_width;
    for (size_t from = 0; from < LENGTH; from += 100) { /* the last rows are read again below */
        run_rows(&s, &a, from, from + 100, expected_a);
        run_rows(&s, &c, from, from + 100, expected_c);
    }
    cdz_kv_row rows[ROWS];
    const int32_t *packed[ROWS];
    const float *expected[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        const bool first = i < 40 || i % 2;
        const text *t = first ? &a : &c;
        const size_t position = i < 40 ? 250 + i : LENGTH - 1 - i % 50;
        rows[i] = (cdz_kv_row){t->blocks, (uint32_t)position, 0, NULL};
        packed[i] = t->packed;
        memcpy(q + i * a.q_width, t->q + position * a.q_width, a.q_width * sizeof *q);
        expected[i] = (first ? expected_a : expected_c) + position * a.q_width;
    }
    const cdz_attention how = how_of(&s, &a, packed);
    s.b->api->attention(s.b, out, a.q_width, q, a.q_width, s.plain, 1, rows, ROWS, &how);
    for (size_t i = 0; i < ROWS; i++)
        assert_same_rows(variant, out + i * a.q_width, a.q_width, expected[i], a.q_width, 1,
                         a.q_width);
    close_stores(&s);
    free(q);
    free(expected_a);
    free(expected_c);
    free_text(&a);
    free_text(&c);
}

static void a_row_does_not_feel_its_company(void **state)
{
    (void)state;
    each_variant(company_in);
}

/* Weights that are looked at: they add up to one, and give the attention that was computed. */
static void weights_are_those_of_attention(void **state)
{
    (void)state;
    const struct model *model = &models[3];
    text t = make_text(model, 5, 0);
    const size_t dim = model->head_dim, last = LENGTH - 1;
    float *out = must_alloc(LENGTH * t.q_width * sizeof *out),
          *k = must_alloc(2 * LENGTH * t.kv_width * sizeof *k), *v = k + LENGTH * t.kv_width;
    static float weights[6 * LENGTH];
    stores s = open_stores(NULL, 1, model);
    for (size_t from = 0; from < LENGTH; from += 100) run_rows(&s, &t, from, from + 100, out);
    pack_text(&t, k, v);
    const int32_t *packed = t.packed;
    const cdz_attention how = how_of(&s, &t, &packed);
    const cdz_kv_row row = {t.blocks, (uint32_t)last, 0, NULL};
    s.b->api->attention_weights(s.b, weights, LENGTH, t.q + last * t.q_width, s.plain, 1, &row,
                                &how);
    const size_t before = cdz_kv_packed_before(&model->packing, (uint32_t)last);
    for (size_t h = 0; h < model->n_heads; h++)
        for (size_t d = 0; d < dim; d++) {
            double sum = 0.0;
            for (size_t p = 0; p <= last; p++)
                sum += (double)weights[h * LENGTH + p] *
                       (double)(p < before ? v : t.v)[p * t.kv_width + h / 3 * dim + d];
            assert_true(fabs(sum - (double)out[last * t.q_width + h * dim + d]) < 1e-5);
        }
    close_stores(&s);
    free(out);
    free(k);
    free_text(&t);
}

/* ---- the rule, and what is refused ---- */

static void which_positions_are_packed(void **state)
{
    static const struct {
        uint32_t positions, residual, t, before;
    } cases[] = {
        {1, 0, 0, 0},
        {1, 0, 30, 0},
        {1, 0, 31, 32},
        {1, 1, 31, 0},
        {1, 1, 32, 32},
        {1, 128, 158, 0},
        {1, 128, 159, 32},
        {1, 128, 190, 32},
        {1, 128, 191, 64},
        {64, 128, 190, 0},
        {64, 128, 191, 64},
        {128, 5, 400, 384},
        {64, 4000000000u, 299, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cdz_kv_packing p = {4,
                                  false,
                                  {cases[i].positions, cases[i].positions == 1 ? 64 : 1},
                                  {1, 64},
                                  cases[i].residual};
        assert_int_equal(cdz_kv_packed_before(&p, cases[i].t), cases[i].before);
    }
}

static void impossible_stores_are_refused(void **state)
{
    static const cdz_kv_packing bad[] = {
        {0, false, {1, 64}, {1, 64}, 0},  {5, false, {1, 64}, {1, 64}, 0},
        {16, false, {1, 64}, {1, 64}, 0}, {4, false, {1, 48}, {1, 64}, 0},
        {4, false, {1, 4}, {1, 64}, 0},   {4, false, {4, 1}, {1, 64}, 0},
        {4, false, {0, 64}, {1, 64}, 0},  {4, false, {1, 64}, {1, 0}, 0},
        {4, false, {512, 1}, {1, 64}, 0}, {4, false, {200, 1}, {1, 64}, 0},
        {4, false, {1, 128}, {1, 64}, 0},
    };
    (void)state;
    cdz_backend *b = make_backend(NULL, 1);
    const cdz_kv_packing good = {4, false, {1, 64}, {64, 1}, 0};
    const cdz_kv_shape shape = {2, 3, 64, CDZ_F32, 0}, half = {2, 3, 64, CDZ_F16, 0},
                       odd = {2, 3, 20, CDZ_F32, 0}, huge = {SIZE_MAX / 2, 3, 64, CDZ_F32, 0};
    /* Four bits a number and two floats for each 64. */
    assert_int_equal(b->api->packed_block_bytes(b, &shape, &good), 2 * 3 * 2 * 64 * (32 + 8));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(b->api->packed_block_bytes(b, &shape, &bad[i]), 0);
        assert_null(b->api->packed_create(b, &shape, &bad[i], 4));
    }
    assert_int_equal(b->api->packed_block_bytes(b, &half, &good), 0);
    assert_int_equal(b->api->packed_block_bytes(b, &odd, &good), 0);
    assert_int_equal(b->api->packed_block_bytes(b, &huge, &good), 0);
    assert_null(b->api->packed_create(b, &shape, &good, 0));
    assert_null(b->api->packed_create(b, &shape, &good, SIZE_MAX / 8));
    b->api->destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_references),
        cmocka_unit_test(half_a_step_away),
        cmocka_unit_test(odd_groups),
        cmocka_unit_test(bits_equal_for_all_chunkings_and_threads),
        cmocka_unit_test(near_the_exact_attention),
        cmocka_unit_test(a_row_does_not_feel_its_company),
        cmocka_unit_test(weights_are_those_of_attention),
        cmocka_unit_test(which_positions_are_packed),
        cmocka_unit_test(impossible_stores_are_refused),
    };
    return cmocka_run_group_tests_name("kernels: packed keys and values", tests, NULL, NULL);
}
