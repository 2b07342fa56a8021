/* test_cuda_attention.c - attention of a device: near the definition, and the same bits however a call is
 * cut into rows. */
#include "cuda_test.h"

enum { MOST_ROWS = 40, LAYERS = 2, LAYER = 1, GAP = 3 };

/* A model's shape and what attention does in it. */
typedef struct setting {
    const char *name;
    size_t heads, kv_heads, dim;
    uint32_t length; /* positions of the first sequence */
    uint32_t window;
    float soft_cap;
    bool biased;
    uint32_t ahead;
    cdz_dtype type; /* of the store */
    bool sinks;
    size_t value_dim; /* 0: values are not latents */
} setting;

static const setting settings[] = {
    {"one position", 2, 2, 16, 1, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a block less one", 4, 2, 20, 31, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a span", 4, 4, 64, 256, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a span and one", 3, 1, 16, 257, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"nine heads of a group", 9, 1, 8, 300, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"three spans", 8, 2, 128, 700, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"wide heads", 4, 2, 256, 520, 0, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a window within a span", 4, 2, 16, 400, 33, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a window over spans", 4, 2, 16, 900, 300, 0.0f, false, 0, CDZ_F32, false, 0},
    {"a soft cap", 4, 2, 32, 300, 0, 2.0f, false, 0, CDZ_F32, false, 0},
    {"a bias by distance", 4, 4, 16, 300, 0, 0.0f, true, 0, CDZ_F32, false, 0},
    {"what lies ahead", 2, 2, 16, 270, 0, 0.0f, true, 9, CDZ_F32, false, 0},
    {"all together", 6, 2, 24, 600, 500, 3.0f, true, 0, CDZ_F32, false, 0},
    {"sinks", 4, 2, 16, 100, 0, 0.0f, false, 0, CDZ_F32, true, 0},
    {"sinks over spans", 8, 1, 64, 700, 0, 0.0f, false, 0, CDZ_F32, true, 0},
    {"sinks and a window", 6, 2, 24, 600, 300, 0.0f, false, 0, CDZ_BF16, true, 0},
    {"sinks, all together", 6, 2, 24, 600, 500, 3.0f, true, 0, CDZ_F16, true, 0},
    {"latents", 8, 1, 40, 300, 0, 0.0f, false, 0, CDZ_F32, false, 32},
    {"wide latents", 3, 1, 576, 270, 0, 0.0f, false, 0, CDZ_F32, false, 512},
    {"latents of odd sizes, all together", 5, 1, 23, 600, 500, 3.0f, false, 0, CDZ_F32, true, 13},
    {"bfloat16 latents", 9, 1, 72, 600, 0, 0.0f, false, 0, CDZ_BF16, false, 64},
    {"float16 latents", 16, 1, 21, 260, 0, 0.0f, false, 0, CDZ_F16, false, 16},
    {"in float16", 9, 3, 20, 300, 0, 0.0f, false, 0, CDZ_F16, false, 0},
    {"float16, all together", 6, 2, 24, 600, 500, 3.0f, true, 0, CDZ_F16, false, 0},
    {"in bfloat16", 4, 1, 64, 270, 0, 0.0f, false, 0, CDZ_BF16, false, 0},
    {"bfloat16, all together", 6, 2, 24, 600, 500, 3.0f, true, 0, CDZ_BF16, false, 0},
    {"in Q8_0", 9, 3, 64, 300, 0, 0.0f, false, 0, CDZ_Q8_0, false, 0},
    {"Q8_0, one run", 4, 4, 32, 700, 0, 0.0f, false, 0, CDZ_Q8_0, true, 0},
    {"Q8_0, all together", 6, 2, 96, 600, 500, 3.0f, true, 0, CDZ_Q8_0, true, 0},
    {"in Q4_0", 9, 3, 64, 300, 0, 0.0f, false, 0, CDZ_Q4_0, false, 0},
    {"Q4_0, one run", 4, 4, 32, 700, 0, 0.0f, false, 0, CDZ_Q4_0, true, 0},
    {"Q4_0, all together", 6, 2, 96, 600, 500, 3.0f, true, 0, CDZ_Q4_0, true, 0},
};

/* Two sequences, the same on both sides, and queries: the last positions of the first, and one of the
 * second. */
typedef struct scene {
    const setting *s;
    cdz_backend *cpu, *b;
    cdz_kv *here, *there;
    int32_t *lists[2];
    uint32_t lengths[2];
    size_t wide, narrow, ld, m;
    cdz_kv_row rows[MOST_ROWS];
    float *q, *q_there, *bias, *bias_there, *sinks, *sinks_there;
    cdz_attention how, how_there;
} scene;

static void fill_store(scene *c, rng *r, int which)
{
    const uint32_t n = c->lengths[which];
    float *k = random_floats(r, n * c->narrow), *v = random_floats(r, n * c->narrow);
    float *kt = floats_there(c->b, k, n * c->narrow), *vt = floats_there(c->b, v, n * c->narrow);
    cdz_kv_row *rows = must_alloc(n * sizeof *rows);
    for (uint32_t p = 0; p < n; p++) rows[p] = (cdz_kv_row){c->lists[which], p, 0, NULL};
    const bool latents = c->s->value_dim;
    const float *second = latents ? NULL : v, *second_there = latents ? NULL : vt;
    c->cpu->api->kv_write(c->cpu, c->here, LAYER, k, c->narrow, second, c->narrow, rows, n);
    c->b->api->kv_write(c->b, c->there, LAYER, kt, c->narrow, second_there, c->narrow, rows, n);
    /* The other layer has something else in it. */
    c->cpu->api->kv_write(c->cpu, c->here, 0, v, c->narrow, latents ? NULL : k, c->narrow, rows, n);
    c->b->api->kv_write(c->b, c->there, 0, vt, c->narrow, latents ? NULL : kt, c->narrow, rows, n);
    c->b->api->free(c->b, kt);
    c->b->api->free(c->b, vt);
    free(k);
    free(v);
    free(rows);
}

/* Blocks of both sequences, dealt out in turn from the end. */
static void deal_blocks(scene *c, size_t n_blocks)
{
    size_t next = n_blocks;
    for (int s = 0; s < 2; s++) {
        c->lists[s] = must_alloc(n_blocks * sizeof(int32_t));
        for (size_t i = 0; i * CDZ_KV_BLOCK < c->lengths[s]; i++) c->lists[s][i] = (int32_t)--next;
    }
}

static void make_rows(scene *c)
{
    const setting *s = c->s;
    const uint32_t end = s->length - s->ahead;
    for (uint32_t i = 0; i < MOST_ROWS - 1 && i < end; i++)
        c->rows[c->m++] = (cdz_kv_row){c->lists[0], 0, s->ahead, NULL};
    for (size_t i = 0; i < c->m; i++) c->rows[i].position = end - (uint32_t)(c->m - i);
    c->rows[c->m++] = (cdz_kv_row){c->lists[1], c->lengths[1] - 1, 0, NULL};
}

static void open_scene(run *t, scene *c, const setting *s, cdz_backend *b)
{
    rng r = {s->length + 17};
    *c = (scene){.s = s, .cpu = t->cpu, .b = b, .lengths = {s->length, s->length / 2 + 3}};
    c->wide = s->heads * s->dim;
    c->narrow = s->kv_heads * s->dim;
    c->ld = c->wide + GAP;
    const size_t n_blocks = c->lengths[0] / CDZ_KV_BLOCK + c->lengths[1] / CDZ_KV_BLOCK + 3;
    const cdz_kv_shape shape = {LAYERS, s->kv_heads, s->dim, s->type, s->value_dim};
    expect(t, t->cpu->api->kv_block_bytes(t->cpu, &shape) == b->api->kv_block_bytes(b, &shape),
           "%s: a block has other bytes than the CPU's", s->name);
    c->here = t->cpu->api->kv_create(t->cpu, &shape, n_blocks);
    c->there = b->api->kv_create(b, &shape, n_blocks);
    expect(t, c->here && c->there, "no store");
    deal_blocks(c, n_blocks);
    for (int i = 0; i < 2; i++) fill_store(c, &r, i);
    make_rows(c);
    c->q = random_floats(&r, c->m * c->ld);
    c->q_there = floats_there(b, c->q, c->m * c->ld);
    const size_t stride = 2 * (size_t)s->length + 20;
    c->bias = random_floats(&r, s->heads * stride);
    c->bias_there = floats_there(b, c->bias, s->heads * stride);
    c->how = (cdz_attention){
        .n_heads = s->heads, .scale = 0.7f, .soft_cap = s->soft_cap, .window = s->window};
    if (s->biased) {
        c->how.bias = c->bias;
        c->how.bias_stride = stride;
        c->how.bias_zero = s->length + 5;
    }
    c->sinks = random_floats(&r, s->heads);
    for (size_t h = 0; h < s->heads; h++)
        c->sinks[h] *= h % 2 ? 1.0f : 10.0f; /* above all scores too */
    c->sinks_there = floats_there(b, c->sinks, s->heads);
    if (s->sinks) c->how.sinks = c->sinks;
    c->how_there = c->how;
    if (s->biased) c->how_there.bias = c->bias_there;
    if (s->sinks) c->how_there.sinks = c->sinks_there;
}

static void close_scene(scene *c)
{
    c->cpu->api->kv_destroy(c->cpu, c->here);
    c->b->api->kv_destroy(c->b, c->there);
    c->b->api->free(c->b, c->q_there);
    c->b->api->free(c->b, c->bias_there);
    c->b->api->free(c->b, c->sinks_there);
    for (int i = 0; i < 2; i++) free(c->lists[i]);
    free(c->q);
    free(c->bias);
    free(c->sinks);
}

/* Rows [first, first + n) in one call; what it leaves of a filled output. */
static float *attend(scene *c, size_t first, size_t n)
{
    float *fill = must_alloc(n * c->ld * sizeof *fill);
    for (size_t i = 0; i < n * c->ld; i++) fill[i] = 77.0f;
    float *out = floats_there(c->b, fill, n * c->ld);
    c->b->api->attention(c->b, out, c->ld, c->q_there + first * c->ld, c->ld, c->there, LAYER,
                         c->rows + first, n, &c->how_there);
    free(fill);
    fill = floats_back(c->b, out, n * c->ld);
    c->b->api->free(c->b, out);
    return fill;
}

static void in_each_setting(run *t, cdz_backend *b, void (*look)(run *t, scene *c))
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        scene c;
        open_scene(t, &c, &settings[i], b);
        look(t, &c);
        close_scene(&c);
    }
}

/* A weighted mean of values below 1: a few units of the last place, and what the order of a softmax's sums
 * over hundreds of positions does. */
static void compare_with_definition(run *t, scene *c)
{
    float *expected = must_alloc(c->m * c->ld * sizeof *expected);
    for (size_t j = 0; j < c->m * c->ld; j++) expected[j] = 77.0f;
    t->cpu->api->attention(t->cpu, expected, c->ld, c->q, c->ld, c->here, LAYER, c->rows, c->m,
                           &c->how);
    float *got = attend(c, 0, c->m);
    for (size_t j = 0; j < c->m * c->ld && t->well; j++)
        expect(t, fabsf(got[j] - expected[j]) <= 1e-6f,
               "%s: float %zu (of %zu a row) is %.9g, expected %.9g", c->s->name, j, c->ld,
               (double)got[j], (double)expected[j]);
    free(expected);
    free(got);
}

static void near_the_definition(run *t)
{
    in_each_setting(t, t->automatic, compare_with_definition);
}

/* Each row alone, in pairs, and all together. */
static void compare_companies(run *t, scene *c)
{
    float *all = attend(c, 0, c->m);
    for (size_t height = 1; height < c->m; height = height * 4 + 1)
        for (size_t row = 0; row < c->m; row += height) {
            const size_t n = c->m - row < height ? c->m - row : height;
            float *some = attend(c, row, n);
            expect(t, memcmp(some, all + row * c->ld, n * c->ld * sizeof *all) == 0,
                   "%s: rows %zu and on, %zu at a time, have other bits", c->s->name, row, height);
            free(some);
        }
    free(all);
}

static void the_company_does_not_show(run *t)
{
    in_each_setting(t, t->strict, compare_companies);
}

static void compare_weights(run *t, scene *c)
{
    const size_t row = c->m - 2, n = c->lengths[0] + 2;
    float *here = must_alloc(c->s->heads * n * sizeof *here);
    float *back = must_alloc(c->s->heads * n * sizeof *back);
    t->cpu->api->attention_weights(t->cpu, here, n, c->q + row * c->ld, c->here, LAYER,
                                   &c->rows[row], &c->how);
    c->b->api->attention_weights(c->b, back, n, c->q_there + row * c->ld, c->there, LAYER,
                                 &c->rows[row], &c->how_there);
    for (size_t j = 0; j < c->s->heads * n && t->well; j++)
        expect(t, same_float(here[j], back[j]), "%s: weight %zu is %.9g, expected %.9g", c->s->name,
               j, (double)back[j], (double)here[j]);
    free(here);
    free(back);
}

static void weights_are_the_cpus(run *t)
{
    in_each_setting(t, t->strict, compare_weights);
}

/* A fork's copy, written to afterwards, leaves the first as it was. */
static void forks(run *t)
{
    scene c;
    open_scene(t, &c, &settings[2], t->strict);
    const int32_t fresh = 0; /* dealt to nobody */
    const size_t last = (c.lengths[0] - 1) / CDZ_KV_BLOCK;
    float *before = attend(&c, c.m - 2, 1);
    c.b->api->kv_copy(c.b, c.there, fresh, c.lists[0][last]);
    int32_t *fork = must_alloc((last + 1) * sizeof *fork);
    memcpy(fork, c.lists[0], (last + 1) * sizeof *fork);
    fork[last] = fresh;
    const cdz_kv_row row = c.rows[c.m - 2];
    c.rows[c.m - 2].blocks = fork;
    float *copied = attend(&c, c.m - 2, 1);
    expect(t, memcmp(before, copied, c.ld * sizeof *before) == 0, "the copy differs");
    c.b->api->kv_write(c.b, c.there, LAYER, c.q_there, c.narrow, c.q_there, c.narrow,
                       &c.rows[c.m - 2], 1);
    float *written = attend(&c, c.m - 2, 1);
    expect(t, memcmp(before, written, c.ld * sizeof *before) != 0,
           "writing to the copy does not show");
    c.rows[c.m - 2] = row;
    float *first = attend(&c, c.m - 2, 1);
    expect(t, memcmp(before, first, c.ld * sizeof *before) == 0,
           "writing to the copy reached the first");
    free(before);
    free(copied);
    free(written);
    free(first);
    free(fork);
    close_scene(&c);
}

/* Of one position attention gives the value back, as the store holds it. */
static void stores_round(run *t)
{
    enum { RUN = 32, DIM = 7 * RUN };
    static const float some[] = {1e6f,           -1e6f, 65519.0f,  65520.0f, -65504.0f, 1.0009765f,
                                 1.00048828125f, 6e-8f, -2.98e-8f, 3e-8f,    6.1e-5f,   1e-40f,
                                 3e38f,          -0.0f, 0.1f,      1.0f};
    static const float zeros[DIM]; /* keys, and a query: whatever the values are no score overflows */
    /* runs of blocks: of all sizes; halves of steps; one that is no number; tiny ones; zeros; 3e38 alone;
     * two of the largest size */
    float values[DIM] = {0};
    for (int i = 0; i < RUN; i++) {
        values[i] = i < 16 ? some[i] : 0.0f;
        values[RUN + i] = i == 0 ? -127.0f : (float)(i - 16) * 0.5f;
        values[2 * RUN + i] = i == 9 ? NAN : (float)i - 7.3f;
        values[3 * RUN + i] = (float)(i - 5) * 1e-41f;
    }
    values[5 * RUN + 3] = -3e38f;
    for (int i = 0; i < RUN; i++) values[6 * RUN + i] = i == 9 ? -8.0f : (float)(16 - i) * 0.5f;
    cdz_backend *const both[] = {t->cpu, t->strict};
    const cdz_attention how = {.n_heads = 1, .scale = 1.0f};
    const int32_t block = 0;
    const cdz_kv_row row = {&block, 0, 0, NULL};
    const cdz_kv_shape part = {1, 1, 48, CDZ_Q8_0, 0}, latents = {1, 1, 64, CDZ_Q8_0, 32},
                       other = {1, 1, 64, CDZ_Q4_1, 0};
    expect(t, both[1]->api->kv_block_bytes(both[1], &part) == 0, "half a run is kept");
    expect(t, both[1]->api->kv_block_bytes(both[1], &latents) == 0, "latents are kept in runs");
    expect(t, both[1]->api->kv_block_bytes(both[1], &other) == 0, "Q4_1 is kept, untested");
    for (int type = CDZ_F32; type < CDZ_N_KV; type++) {
        const cdz_kv_shape shape = {1, 1, DIM, (cdz_dtype)type, 0};
        float out[2][DIM];
        expect(t,
               both[0]->api->kv_block_bytes(both[0], &shape) ==
                   both[1]->api->kv_block_bytes(both[1], &shape),
               "%s: a block has other bytes than the CPU's", cdz_dtype_name(shape.type));
        for (int i = 0; i < 2; i++) {
            cdz_backend *b = both[i];
            float *x = floats_there(b, values, DIM), *y = floats_there(b, values, DIM),
                  *zero = floats_there(b, zeros, DIM);
            cdz_kv *kv = b->api->kv_create(b, &shape, 1);
            b->api->kv_write(b, kv, 0, zero, DIM, x, DIM, &row, 1);
            b->api->attention(b, y, DIM, zero, DIM, kv, 0, &row, 1, &how);
            b->api->download(b, out[i], y, sizeof out[i]);
            b->api->kv_destroy(b, kv);
            b->api->free(b, x);
            b->api->free(b, y);
            b->api->free(b, zero);
        }
        for (int i = 0; i < DIM; i++)
            expect(t, same_float(out[0][i], out[1][i]), "%s: %a is kept as %a, expected %a",
                   cdz_dtype_name(shape.type), (double)values[i], (double)out[1][i],
                   (double)out[0][i]);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"attention is near the definition", near_the_definition},
        {"the company of a row does not show", the_company_does_not_show},
        {"weights have the CPU's bits", weights_are_the_cpus},
        {"stores round as the CPU's do", stores_round},
        {"forks", forks},
    };
    return run_all(argc, argv, cases, sizeof cases / sizeof *cases);
}
