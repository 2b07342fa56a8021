/* test_kernels_attention.c - attention over the paged store: every variant, thread count and
 * chunking gives the bits of the scalar set asked for one row at a time; those are near the
 * exact result; a row depends on what it sees and on nothing else. */
#include "base/sanitized.h"
#include "support/kernel_data.h"

enum { LAYERS = 2, MOST_BLOCKS = 12, LENGTH = 300 };

static const struct model {
    const char *name;
    size_t n_heads, n_kv_heads, head_dim;
    uint32_t window;
    float soft_cap;
    bool biased;    /* by distance */
    bool whole;     /* every position sees the text to its end */
    cdz_dtype type; /* of the store */
    bool sinks;
    size_t value_dim; /* values are the first so many numbers of keys; 0: they are apart */
} models[] = {
    {"seven heads to one", 14, 2, 64, 0, 0, false, false, CDZ_F32, false, 0},
    {"one to one", 4, 4, 16, 0, 0, false, false, CDZ_F32, false, 0},
    {"odd head size", 6, 2, 20, 0, 0, false, false, CDZ_F32, false, 0},
    {"head smaller than a register", 3, 1, 5, 0, 0, false, false, CDZ_F32, false, 0},
    {"window of one", 4, 2, 24, 1, 0, false, false, CDZ_F32, false, 0},
    {"window across blocks", 14, 2, 64, 40, 0, false, false, CDZ_F32, false, 0},
    {"window of a block", 9, 1, 32, 32, 0, false, false, CDZ_F32, false, 0},
    {"window longer than the text", 4, 2, 8, 4096, 0, false, false, CDZ_F32, false, 0},
    {"soft cap", 8, 2, 32, 0, 1.5f, false, false, CDZ_F32, false, 0},
    {"soft cap and window", 9, 3, 20, 45, 50.0f, false, false, CDZ_F32, false, 0},
    {"bias", 4, 4, 12, 0, 0, true, false, CDZ_F32, false, 0},
    {"bias, cap and window", 6, 3, 16, 70, 2.0f, true, false, CDZ_F32, false, 0},
    {"to the end", 4, 2, 16, 0, 0, false, true, CDZ_F32, false, 0},
    {"bias to the end", 4, 4, 12, 0, 0, true, true, CDZ_F32, false, 0},
    {"float16, seven heads to one", 14, 2, 64, 0, 0, false, false, CDZ_F16, false, 0},
    {"float16, odd head size and window", 6, 2, 20, 45, 0, false, false, CDZ_F16, false, 0},
    {"float16, all at once", 6, 3, 5, 70, 2.0f, true, false, CDZ_F16, false, 0},
    {"float16 to the end", 4, 2, 16, 0, 0, false, true, CDZ_F16, false, 0},
    {"bfloat16, seven heads to one", 14, 2, 64, 0, 0, false, false, CDZ_BF16, false, 0},
    {"bfloat16, odd head size and window", 6, 2, 20, 45, 0, false, false, CDZ_BF16, false, 0},
    {"bfloat16, all at once", 6, 3, 5, 70, 2.0f, true, false, CDZ_BF16, false, 0},
    {"bfloat16 to the end", 4, 2, 16, 0, 0, false, true, CDZ_BF16, false, 0},
    {"Q8_0, seven heads to one", 14, 2, 64, 0, 0, false, false, CDZ_Q8_0, false, 0},
    {"Q8_0, one to one and window", 3, 3, 32, 45, 0, false, false, CDZ_Q8_0, false, 0},
    {"Q8_0, all at once", 6, 3, 96, 70, 2.0f, true, false, CDZ_Q8_0, false, 0},
    {"Q8_0 to the end", 4, 2, 32, 0, 0, false, true, CDZ_Q8_0, false, 0},
    {"Q4_0, seven heads to one", 14, 2, 64, 0, 0, false, false, CDZ_Q4_0, false, 0},
    {"Q4_0, one to one and window", 3, 3, 32, 45, 0, false, false, CDZ_Q4_0, false, 0},
    {"Q4_0, all at once", 6, 3, 96, 70, 2.0f, true, false, CDZ_Q4_0, false, 0},
    {"Q4_0 to the end", 4, 2, 32, 0, 0, false, true, CDZ_Q4_0, false, 0},
    {"sinks, four heads to one", 8, 2, 16, 0, 0, false, false, CDZ_F32, true, 0},
    {"sinks and a window", 8, 1, 16, 45, 0, false, false, CDZ_F32, true, 0},
    {"sinks, bias and cap", 6, 2, 20, 0, 1.5f, true, false, CDZ_BF16, true, 0},
    {"latents, eight heads", 8, 1, 40, 0, 0, false, false, CDZ_F32, false, 32},
    {"latents, odd sizes and a window", 5, 1, 23, 45, 0, false, false, CDZ_F32, true, 13},
    {"float16 latents", 4, 1, 72, 0, 0, false, false, CDZ_F16, false, 64},
    {"bfloat16 latents, odd sizes", 3, 1, 21, 0, 0, false, false, CDZ_BF16, false, 16},
};
enum { N_MODELS = sizeof models / sizeof *models, Q8_0_MODEL = 22, Q4_0_MODEL = 26 };

/* One sequence: keys, values and queries of every position, its blocks scattered over the store. */
typedef struct text {
    const struct model *model;
    size_t kv_width, q_width, out_width;
    float *k, *v, *q;
    float *sinks; /* (n_heads); NULL: none */
    float *bias;  /* (n_heads, 2 LENGTH - 1), distance 0 in the middle; NULL: none */
    int32_t blocks[MOST_BLOCKS];
    float scale;
} text;

static void round_all(cdz_dtype type, float *x, size_t n)
{
    const size_t block = cdz_dtype_block(type);
    assert_int_equal(n % block, 0);
    for (size_t i = 0; i < n; i += block) {
        _Alignas(float) uint8_t kept[64];
        cdz_quantise(type, kept, &x[i], block);
        cdz_widen(type, &x[i], kept, block);
    }
}

static text make_text(const struct model *model, uint32_t seed, int32_t first_block)
{
    rng r = {seed};
    text t = {.model = model,
              .kv_width = model->n_kv_heads * model->head_dim,
              .q_width = model->n_heads * model->head_dim};
    t.out_width = model->value_dim ? model->n_heads * model->value_dim : t.q_width;
    t.k = random_floats(&r, LENGTH * t.kv_width);
    t.v = random_floats(&r, LENGTH * t.kv_width);
    round_all(model->type, t.k, LENGTH * t.kv_width); /* what the store keeps as it is */
    round_all(model->type, t.v, LENGTH * t.kv_width);
    if (model->value_dim) memcpy(t.v, t.k, LENGTH * t.kv_width * sizeof *t.v);
    t.q = random_floats(&r, LENGTH * t.q_width);
    for (size_t i = 0; i < LENGTH * t.q_width; i++) t.q[i] *= 8.0f;
    if (model->sinks) t.sinks = random_floats(&r, model->n_heads);
    for (size_t i = 0; i < model->n_heads && t.sinks; i++) t.sinks[i] *= i % 2 ? 1.0f : 40.0f;
    if (model->biased) t.bias = random_floats(&r, model->n_heads * (2 * LENGTH - 1));
    for (int32_t i = 0; i < MOST_BLOCKS; i++) t.blocks[i] = first_block + (i * 5 + 3) % MOST_BLOCKS;
    t.scale = 1.0f / sqrtf((float)model->head_dim);
    return t;
}

static void free_text(text *t)
{
    free(t->k);
    free(t->v);
    free(t->q);
    free(t->bias);
    free(t->sinks);
}

static cdz_kv_row row_at(const text *t, size_t position)
{
    const size_t ahead = t->model->whole ? LENGTH - 1 - position : 0;
    return (cdz_kv_row){t->blocks, (uint32_t)position, (uint32_t)ahead, NULL};
}

static cdz_kv *make_store(cdz_backend *b, const struct model *model, size_t n_blocks)
{
    const cdz_kv_shape shape = {LAYERS, model->n_kv_heads, model->head_dim, model->type,
                                model->value_dim};
    cdz_kv *kv = b->api->kv_create(b, &shape, n_blocks);
    assert_non_null(kv);
    return kv;
}

/* Writes positions [from, to) of a text to layer 1. */
static void write_text(cdz_backend *b, cdz_kv *kv, const text *t, size_t from, size_t to)
{
    cdz_kv_row rows[LENGTH];
    for (size_t p = from; p < to; p++) rows[p - from] = row_at(t, p);
    b->api->kv_write(b, kv, 1, t->k + from * t->kv_width, t->kv_width, t->v + from * t->kv_width,
                     t->kv_width, rows, to - from);
}

static void attend(cdz_backend *b, const cdz_kv *kv, const text *t, size_t from, size_t to,
                   float *out)
{
    cdz_kv_row rows[LENGTH];
    for (size_t p = from; p < to; p++) rows[p - from] = row_at(t, p);
    const cdz_attention how = {.n_heads = t->model->n_heads,
                               .scale = t->scale,
                               .soft_cap = t->model->soft_cap,
                               .window = t->model->window,
                               .sinks = t->sinks,
                               .bias = t->bias,
                               .bias_stride = 2 * LENGTH - 1,
                               .bias_zero = LENGTH - 1};
    b->api->attention(b, out + from * t->q_width, t->q_width, t->q + from * t->q_width, t->q_width,
                      kv, 1, rows, to - from, &how);
}

/* What the scalar set says, position by position, each written just before it is asked for unless
 * earlier ones see it. */
static float *expect(const text *t)
{
    cdz_backend *b = make_backend("scalar", 1);
    cdz_kv *kv = make_store(b, t->model, 2 * MOST_BLOCKS);
    float *out = must_alloc(LENGTH * t->q_width * sizeof *out);
    if (t->model->whole) write_text(b, kv, t, 0, LENGTH);
    for (size_t p = 0; p < LENGTH; p++) {
        if (!t->model->whole) write_text(b, kv, t, p, p + 1);
        attend(b, kv, t, p, p + 1, out);
    }
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    return out;
}

/* ---- exactness ---- */

/* Attention of one head at one position in float64. */
static void exact_head(const text *t, size_t position, size_t head, double *out)
{
    const size_t dim = t->model->head_dim,
                 kv_head = head / (t->model->n_heads / t->model->n_kv_heads);
    const size_t begin =
        t->model->window && position + 1 > t->model->window ? position + 1 - t->model->window : 0;
    double scores[LENGTH], largest = -INFINITY, sum = 0.0;
    const size_t end = t->model->whole ? LENGTH : position + 1;
    for (size_t p = begin; p < end; p++) {
        scores[p] = 0.0;
        for (size_t d = 0; d < dim; d++)
            scores[p] += (double)t->q[position * t->q_width + head * dim + d] *
                         (double)t->k[p * t->kv_width + kv_head * dim + d];
        scores[p] *= (double)t->scale;
        if (t->bias)
            scores[p] += (double)t->bias[head * (2 * LENGTH - 1) + LENGTH - 1 + p - position];
        const double cap = (double)t->model->soft_cap;
        if (cap > 0) scores[p] = tanh(scores[p] / cap) * cap;
        if (scores[p] > largest) largest = scores[p];
    }
    for (size_t d = 0; d < dim; d++) out[d] = 0.0;
    const double sink = t->sinks ? (double)t->sinks[head] : -INFINITY;
    if (sink > largest) largest = sink;
    sum = exp(sink - largest);
    for (size_t p = begin; p < end; p++) {
        const double weight = exp(scores[p] - largest);
        sum += weight;
        for (size_t d = 0; d < dim; d++)
            out[d] += weight * (double)t->v[p * t->kv_width + kv_head * dim + d];
    }
    for (size_t d = 0; d < dim; d++) out[d] /= sum;
}

static void near_the_exact_attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        text t = make_text(&models[i], 9, 0);
        float *out = expect(&t);
        double exact[96];
        for (size_t p = 0; p < LENGTH; p += 7)
            for (size_t h = 0; h < models[i].n_heads; h++) {
                exact_head(&t, p, h, exact);
                for (size_t d = 0; d < t.out_width / models[i].n_heads; d++) { /* below 1 in size */
                    const double got =
                        (double)out[p * t.q_width + h * (t.out_width / models[i].n_heads) + d];
                    if (fabs(got - exact[d]) > 2e-6)
                        fail_msg("%s: position %zu head %zu dim %zu is %.9g, exactly %.9g",
                                 models[i].name, p, h, d, got, exact[d]);
                }
            }
        free(out);
        free_text(&t);
    }
}

/* ---- bits ---- */

static const struct chunking {
    const char *name;
    size_t cuts[8]; /* ascending, ends with LENGTH */
} chunkings[] = {
    {"whole prompt", {LENGTH}},
    {"halves", {150, LENGTH}},
    {"around block borders", {31, 32, 33, 64, 97, LENGTH}},
    {"single rows at the ends", {1, 8, 9, 256, 257, 299, LENGTH}},
};

static void check_chunking(cdz_backend *b, const text *t, const float *expected,
                           const struct chunking *c, const char *what)
{
    cdz_kv *kv = make_store(b, t->model, 2 * MOST_BLOCKS);
    float *out = must_alloc(LENGTH * t->q_width * sizeof *out);
    if (t->model->whole) write_text(b, kv, t, 0, LENGTH);
    for (size_t i = 0, from = 0; from < LENGTH; from = c->cuts[i++]) {
        if (!t->model->whole) write_text(b, kv, t, from, c->cuts[i]);
        attend(b, kv, t, from, c->cuts[i], out);
    }
    assert_same_rows(what, out, t->q_width, expected, t->q_width, LENGTH, t->out_width);
    free(out);
    b->api->kv_destroy(b, kv);
}

static float *
    expectations[N_MODELS]; /* the scalar set's, by one row at a time; owned, made once for all variants */

static void bits_equal_in(const char *variant)
{
    static const uint32_t threads[] = {1, 2, 3, 8};
    const bool scalar = strcmp(variant, "scalar") == 0;
    /* The scalar set is slow, and the expectation itself; a sanitizer looks at memory, not at bits. */
    const size_t step = CDZ_SANITIZED || scalar ? 3 : 1, first = CDZ_SANITIZED && scalar ? 3 : 0;
    for (size_t i = 0; i < N_MODELS; i++) {
        text t = make_text(&models[i], (uint32_t)i + 1, 0);
        if (!expectations[i]) expectations[i] = expect(&t);
        for (size_t n = first; n < 4; n += step) {
            cdz_backend *b = make_backend(variant, threads[n]);
            for (size_t c = first; c < 4; c += step) {
                char what[160];
                snprintf(what, sizeof what, "%s, %u threads, %s, %s", variant, (unsigned)threads[n],
                         models[i].name, chunkings[c].name);
                check_chunking(b, &t, expectations[i], &chunkings[c], what);
            }
            b->api->destroy(b);
        }
        free_text(&t);
    }
}

static void bits_equal_for_all_chunkings_and_threads(void **state)
{
    (void)state;
    each_variant(bits_equal_in);
    for (size_t i = 0; i < N_MODELS; i++) free(expectations[i]);
}

/* Rows of two sequences at unlike positions in one call, a prompt of one beside single steps of
 * the other. */
static void company_in(const char *variant)
{
    const struct model *model = &models[0];
    text a = make_text(model, 21, 0), c = make_text(model, 22, MOST_BLOCKS);
    float *expected_a = expect(&a), *expected_c = expect(&c);
    cdz_backend *b = make_backend(variant, 2);
    cdz_kv *kv = make_store(b, model, 2 * MOST_BLOCKS);
    write_text(b, kv, &a, 0, LENGTH);
    write_text(b, kv, &c, 0, LENGTH);

    enum { ROWS = 40 };
    cdz_kv_row rows[ROWS];
    float *q = must_alloc(ROWS * a.q_width * sizeof *q),
          *out = must_alloc(ROWS * a.q_width * sizeof *q);
    const float *expected[ROWS];
    for (size_t i = 0; i < ROWS; i++) { /* a: 100..129, then a and c in turn from far apart */
        const bool first = i < 30 || i % 2;
        const size_t position = i < 30 ? 100 + i : (i * 67) % LENGTH;
        rows[i] = (cdz_kv_row){first ? a.blocks : c.blocks, (uint32_t)position, 0, NULL};
        memcpy(q + i * a.q_width, (first ? a.q : c.q) + position * a.q_width, a.q_width * sizeof *q);
        expected[i] = (first ? expected_a : expected_c) + position * a.q_width;
    }
    const cdz_attention how = {.n_heads = model->n_heads, .scale = a.scale};
    b->api->attention(b, out, a.q_width, q, a.q_width, kv, 1, rows, ROWS, &how);
    for (size_t i = 0; i < ROWS; i++)
        assert_same_rows(variant, out + i * a.q_width, a.q_width, expected[i], a.q_width, 1,
                         a.q_width);

    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    free(q);
    free(out);
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

/* A tile has fewer queries where their scores would take too much room: the last rows of texts so long that it has 24, 16 and 8, and
 * of one that looks back over a window. The scalar set, asked row by row, makes one tile of each. */
enum { LONG_ROWS = 90, LONG_BLOCKS = 17000 / CDZ_KV_BLOCK + 1, LONG_DIM = 8, LONG_HEADS = 3 };

typedef struct long_text {
    int32_t blocks[LONG_BLOCKS];
    float *kv, *q;
} long_text;

static void attend_long(const char *variant, const long_text *t, size_t end, size_t window,
                        bool row_by_row, float *out)
{
    const size_t width = LONG_HEADS * LONG_DIM, step = row_by_row ? 1 : LONG_ROWS;
    const cdz_kv_shape shape = {1, 1, LONG_DIM, CDZ_F32, 0};
    const cdz_attention how = {.n_heads = LONG_HEADS, .scale = 0.5f, .window = (uint32_t)window};
    cdz_backend *b = make_backend(variant, 2);
    cdz_kv *kv = b->api->kv_create(b, &shape, LONG_BLOCKS);
    cdz_kv_row *rows = must_alloc(end * sizeof *rows);
    for (size_t p = 0; p < end; p++) rows[p] = (cdz_kv_row){t->blocks, (uint32_t)p, 0, NULL};
    b->api->kv_write(b, kv, 0, t->kv, LONG_DIM, t->kv + LONG_DIM, LONG_DIM, rows, end);
    for (size_t r = 0; r < LONG_ROWS; r += step)
        b->api->attention(b, out + r * width, width, t->q + r * width, width, kv, 0,
                          rows + end - LONG_ROWS + r, step, &how);
    free(rows);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
}

static long_text long_one;
static float *long_expected[8];

static void long_in(const char *variant)
{
    static const struct {
        size_t end, window;
    } cases[] = {{10700, 0}, {10950, 0}, {16300, 0}, {16900, 0}, {17000, 10850}, {17000, 16200}};
    const size_t width = LONG_HEADS * LONG_DIM, bytes = LONG_ROWS * width * sizeof(float);
    float *out = must_alloc(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!long_expected[i]) {
            long_expected[i] = must_alloc(bytes);
            attend_long("scalar", &long_one, cases[i].end, cases[i].window, true, long_expected[i]);
        }
        attend_long(variant, &long_one, cases[i].end, cases[i].window, false, out);
        assert_same_rows(variant, out, width, long_expected[i], width, LONG_ROWS, width);
    }
    free(out);
}

static void long_texts_have_the_same_bits(void **state)
{
    (void)state;
    rng r = {91};
    for (int32_t i = 0; i < LONG_BLOCKS; i++) long_one.blocks[i] = (i * 5 + 3) % LONG_BLOCKS;
    long_one.kv = random_floats(&r, (LONG_BLOCKS * CDZ_KV_BLOCK + 1) * LONG_DIM);
    long_one.q = random_floats(&r, LONG_ROWS * LONG_HEADS * LONG_DIM);
    each_variant(long_in);
    free(long_one.kv);
    free(long_one.q);
    for (size_t i = 0; i < 8; i++) free(long_expected[i]);
}

/* Positions that a row does not see may hold anything: what a truncated sequence left there,
 * even NaN. */
static void leftovers_in(const char *variant)
{
    const struct model *const some[] = {&models[0], &models[5], &models[Q8_0_MODEL],
                                        &models[Q4_0_MODEL]};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        text t = make_text(some[i], 31, 0), junk = make_text(some[i], 32, 0);
        float *expected = expect(&t), *out = must_alloc(LENGTH * t.q_width * sizeof *out);
        for (size_t j = 0; j < LENGTH * t.kv_width; j++)
            junk.k[j] = junk.v[j] = j % 3 ? NAN : INFINITY;
        cdz_backend *b = make_backend(variant, 2);
        cdz_kv *kv = make_store(b, some[i], MOST_BLOCKS);
        write_text(b, kv, &junk, 0, LENGTH);
        for (size_t from = 0; from < LENGTH; from += 50) {
            write_text(b, kv, &t, from, from + 50);
            attend(b, kv, &t, from, from + 50, out);
        }
        assert_same_rows(variant, out, t.q_width, expected, t.q_width, LENGTH, t.out_width);
        b->api->kv_destroy(b, kv);
        b->api->destroy(b);
        free(expected);
        free(out);
        free_text(&t);
        free_text(&junk);
    }
}

static void unseen_positions_do_not_matter(void **state)
{
    (void)state;
    each_variant(leftovers_in);
}

static void nan_in_means_nan_out_of(const char *variant, const struct model *model)
{
    text t = make_text(model, 51, 0);
    t.k[40 * t.kv_width + 3] = NAN; /* kv head 0, position 40 */
    float *out = must_alloc(LENGTH * t.q_width * sizeof *out);
    cdz_backend *b = make_backend(variant, 2);
    cdz_kv *kv = make_store(b, t.model, MOST_BLOCKS);
    write_text(b, kv, &t, 0, LENGTH);
    attend(b, kv, &t, 0, LENGTH, out);
    for (size_t p = 0; p < LENGTH; p++)
        for (size_t j = 0; j < t.q_width; j++)
            assert_int_equal(!!isnan(out[p * t.q_width + j]), p >= 40 && j < 7 * 64);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    free(out);
    free_text(&t);
}

static void nan_in_means_nan_out_in(const char *variant)
{
    nan_in_means_nan_out_of(variant, &models[0]);
    nan_in_means_nan_out_of(variant, &models[Q8_0_MODEL]);
    nan_in_means_nan_out_of(variant, &models[Q4_0_MODEL]);
}

static void nan_is_not_hidden(void **state)
{
    (void)state;
    each_variant(nan_in_means_nan_out_in);
}

/* ---- the store ---- */

static void copied_read_the_same_in(const struct model *model)
{
    text t = make_text(model, 61, 0);
    cdz_backend *b = make_backend(NULL, 2);
    cdz_kv *kv = make_store(b, t.model, 2 * MOST_BLOCKS);
    float *out = must_alloc(LENGTH * t.q_width * sizeof *out),
          *again = must_alloc(LENGTH * t.q_width * sizeof *out);
    write_text(b, kv, &t, 0, LENGTH);
    attend(b, kv, &t, 0, LENGTH, out);
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        b->api->kv_copy(b, kv, (int32_t)(MOST_BLOCKS + i), t.blocks[i]);
        t.blocks[i] = (int32_t)(MOST_BLOCKS + i);
    }
    attend(b, kv, &t, 0, LENGTH, again);
    assert_same_rows("copied", again, t.q_width, out, t.q_width, LENGTH, t.q_width);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    free(out);
    free(again);
    free_text(&t);
}

static void copied_blocks_read_the_same(void **state)
{
    (void)state;
    copied_read_the_same_in(&models[0]);
    copied_read_the_same_in(&models[Q8_0_MODEL]);
    copied_read_the_same_in(&models[Q4_0_MODEL]);
}

static void fresh_hold_zeros_in(const struct model *model)
{
    text t = make_text(model, 71, 0);
    cdz_backend *b = make_backend(NULL, 2);
    cdz_kv *kv = make_store(b, t.model, MOST_BLOCKS);
    float *out = must_alloc(LENGTH * t.q_width * sizeof *out);
    attend(b, kv, &t, 0, LENGTH, out);
    for (size_t i = 0; i < LENGTH * t.q_width; i++) assert_true(out[i] == 0.0f);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    free(out);
    free_text(&t);
}

static void fresh_blocks_hold_zeros(void **state)
{
    (void)state;
    fresh_hold_zeros_in(&models[0]);
    fresh_hold_zeros_in(&models[Q8_0_MODEL]);
    fresh_hold_zeros_in(&models[Q4_0_MODEL]);
}

/* Entry i of head g is what entry from[i] was written as. */
static void entries_are(cdz_backend *b, const cdz_kv *kv, const text *t, size_t g,
                        const uint32_t *from, size_t n)
{
    const size_t d = t->model->head_dim;
    float *k = must_alloc(n * d * sizeof *k), *v = must_alloc(n * d * sizeof *v);
    for (int values = 0; values < 2; values++) {
        memset(k, 0xff, n * d * sizeof *k);
        b->api->kv_get(b, kv, 1, g, t->blocks, n, k, values ? v : NULL);
        for (size_t i = 0; i < n; i++) {
            const size_t at = from[i] * t->kv_width + g * d;
            assert_memory_equal(k + i * d, t->k + at, d * sizeof *k);
            if (values) assert_memory_equal(v + i * d, t->v + at, d * sizeof *v);
        }
    }
    free(k);
    free(v);
}

static void kept_in(const struct model *model)
{
    text t = make_text(model, 81, 0);
    cdz_backend *b = make_backend(NULL, 2);
    cdz_kv *kv = make_store(b, model, MOST_BLOCKS);
    const size_t d = model->head_dim;
    uint32_t all[LENGTH], some[LENGTH];
    size_t n = 0;
    for (uint32_t i = 0; i < LENGTH; i++) all[i] = i;
    for (uint32_t i = 0; i < LENGTH; i++)
        if (i < 5 || i * 7 % 5 < 2) some[n++] = i;
    write_text(b, kv, &t, 0, LENGTH);
    for (size_t g = 0; g < model->n_kv_heads; g++) entries_are(b, kv, &t, g, all, LENGTH);
    b->api->kv_keep(b, kv, 1, 0, t.blocks, some, n); /* the other heads stay */
    entries_are(b, kv, &t, 0, some, n);
    for (size_t g = 1; g < model->n_kv_heads; g++) entries_are(b, kv, &t, g, all, LENGTH);

    float *keys = must_alloc(n * d * sizeof *keys); /* those of the entries behind */
    for (size_t i = 0; i < n; i++)
        memcpy(keys + i * d, t.k + (LENGTH - n + i) * t.kv_width, d * sizeof *keys);
    b->api->kv_put_keys(b, kv, 1, 0, t.blocks, n, keys);
    for (size_t i = 0; i < n; i++)
        memcpy(t.k + some[i] * t.kv_width, keys + i * d, d * sizeof *keys);
    entries_are(b, kv, &t, 0, some, n);
    free(keys);
    b->api->kv_destroy(b, kv);
    b->api->destroy(b);
    free_text(&t);
}

/* Pressing moves them so. */
static void entries_are_moved_as_they_lie(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++)
        if (!models[i].value_dim) kept_in(&models[i]);
}

/* Keys and values of any size are rounded as weights of the type are, and never become infinite. */
static void what_is_written_is_rounded(void **state)
{
    static const struct {
        cdz_dtype type;
        float largest; /* what 1e9 becomes */
    } types[] = {{CDZ_F16, 65504.0f},
                 {CDZ_BF16, 1e9f},
                 {CDZ_Q8_0, 65504.0f * 127.0f},
                 {CDZ_Q4_0, 65504.0f * 8.0f}};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct model plain = {"", 4, 2, 32, 0, 0, false, false, CDZ_F32, false, 0};
        struct model model = plain;
        model.type = types[i].type;
        text raw = make_text(&plain, 21, 0), rounded = make_text(&plain, 21, 0);
        raw.v[3] = 1e9f;
        rounded.v[3] = types[i].largest;
        raw.model = rounded.model = &model;
        round_all(types[i].type, rounded.k, LENGTH * rounded.kv_width);
        round_all(types[i].type, rounded.v, LENGTH * rounded.kv_width);
        float *a = expect(&raw), *b = expect(&rounded);
        assert_memory_equal(a, b, LENGTH * raw.q_width * sizeof *a);
        for (size_t at = 0; at < LENGTH * raw.q_width; at++) assert_true(isfinite(a[at]));
        free(a);
        free(b);
        free_text(&raw);
        free_text(&rounded);
    }
}

static void impossible_stores_are_refused(void **state)
{
    (void)state;
    cdz_backend *b = make_backend(NULL, 1);
    const cdz_kv_shape good = {2, 2, 64, CDZ_F32, 0}, empty = {0, 2, 64, CDZ_F32, 0},
                       huge = {SIZE_MAX / 2, 3, 64, CDZ_BF16, 0}, half = {2, 2, 64, CDZ_F16, 0},
                       blocks = {2, 2, 64, CDZ_Q8_0, 0}, part = {2, 2, 48, CDZ_Q8_0, 0},
                       fours = {2, 2, 64, CDZ_Q4_0, 0}, other = {2, 2, 64, CDZ_Q4_1, 0};
    assert_int_equal(b->api->kv_block_bytes(b, &good),
                     2 * 2 * 64 * 2 * CDZ_KV_BLOCK * sizeof(float));
    assert_int_equal(b->api->kv_block_bytes(b, &half), b->api->kv_block_bytes(b, &good) / 2);
    assert_int_equal(b->api->kv_block_bytes(b, &huge), 0);
    assert_int_equal(b->api->kv_block_bytes(b, &blocks),
                     b->api->kv_block_bytes(b, &good) / 128 * 34); /* 34 bytes for 32 numbers */
    assert_int_equal(b->api->kv_block_bytes(b, &fours), b->api->kv_block_bytes(b, &good) / 128 * 18);
    assert_int_equal(b->api->kv_block_bytes(b, &part), 0);
    assert_int_equal(b->api->kv_block_bytes(b, &other), 0);
    assert_null(b->api->kv_create(b, &part, 4));
    assert_null(b->api->kv_create(b, &other, 4));
    assert_null(b->api->kv_create(b, &empty, 4));
    assert_null(b->api->kv_create(b, &huge, 4));
    assert_null(b->api->kv_create(b, &good, 0));
    assert_null(b->api->kv_create(b, &good, SIZE_MAX / 8));
    b->api->kv_destroy(b, NULL);
    b->api->destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_exact_attention),
        cmocka_unit_test(bits_equal_for_all_chunkings_and_threads),
        cmocka_unit_test(a_row_does_not_feel_its_company),
        cmocka_unit_test(long_texts_have_the_same_bits),
        cmocka_unit_test(unseen_positions_do_not_matter),
        cmocka_unit_test(nan_is_not_hidden),
        cmocka_unit_test(copied_blocks_read_the_same),
        cmocka_unit_test(fresh_blocks_hold_zeros),
        cmocka_unit_test(entries_are_moved_as_they_lie),
        cmocka_unit_test(what_is_written_is_rounded),
        cmocka_unit_test(impossible_stores_are_refused),
    };
    return cmocka_run_group_tests_name("kernels: attention", tests, NULL, NULL);
}
