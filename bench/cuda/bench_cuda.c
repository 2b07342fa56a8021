/* bench_cuda.c - what a device gives beside what it could: passes of known models' shapes, with random
 * weights, through the same calls that the host makes, beside the device's copying and a library's products.
 *
 * usage: bench_cuda BACKEND.so [--shapes NAME,NAME] [--context N] [--steps N] [--f32]
 * It opens the backend alone: neither the host nor its libraries are needed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend_abi.h"

typedef struct model_shape {
    const char *name;
    size_t layers, hidden, heads, kv_heads, dim, inner, vocab;
} model_shape;

static const model_shape shapes[] = {
    {"0.5B", 24, 896, 14, 2, 64, 4864, 151936},
    {"1B", 16, 2048, 32, 8, 64, 8192, 128256},
    {"8B", 32, 4096, 32, 8, 128, 14336, 128256},
    {"tiny", 2, 64, 4, 2, 16, 128, 512}, /* to try the program itself */
};

enum { PREFILL = 2048, MOST_ROWS = 512, BATCH = 64 };

/* The matrices of a layer, then the head. */
enum { AT_Q, AT_K, AT_V, AT_O, AT_GATE, AT_UP, AT_DOWN, N_MATRICES };

typedef struct model {
    const model_shape *s;
    cdz_backend *b;
    cdz_weight *w; /* (layers, N_MATRICES), then the head and the embeddings, which may be one */
    cdz_weight norm, head;
    cdz_dtype dtype;
    size_t weight_bytes; /* read by a step */
    float *x, *normed, *q, *k, *v, *mixed, *gate, *up, *logits, *inv_freq, *row;
    cdz_kv *kv;
    int32_t *blocks; /* (BATCH, blocks_each) */
    size_t blocks_each;
    uint32_t positions[MOST_ROWS];
    int32_t ids[MOST_ROWS];
    cdz_kv_row rows[MOST_ROWS];
} model;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *must(void *p, const char *what)
{
    if (p) return p;
    fprintf(stderr, "bench_cuda: no memory for %s\n", what);
    exit(1);
}

/* ---- making a model ---- */

/* Small random numbers of the type, enough for the largest matrix; every matrix is a copy of its start. */
static char *random_bytes(const model_shape *s, cdz_dtype dtype)
{
    const size_t n =
        s->vocab * s->hidden > s->inner * s->hidden ? s->vocab * s->hidden : s->inner * s->hidden;
    char *data = must(malloc(n * cdz_dtype_bytes(dtype)), "weights");
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const float f = (float)(int32_t)state * 0x1p-31f * 0.03f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        const uint16_t half = (uint16_t)(bits >> 16);
        char *to = data + i * cdz_dtype_bytes(dtype);
        if (dtype == CDZ_F32)
            memcpy(to, &bits, sizeof bits);
        else
            memcpy(to, &half, sizeof half);
    }
    return data;
}

static cdz_weight place(model *m, const char *data, size_t n, size_t k)
{
    const size_t bytes = n * cdz_row_bytes(m->dtype, k);
    cdz_weight w = {m->b->api->place(m->b, data, bytes), m->dtype, n, k, CDZ_WEIGHT_ROWS};
    must((void *)(uintptr_t)w.data, "a weight on the device");
    m->weight_bytes += bytes;
    return w;
}

static void place_weights(model *m)
{
    const model_shape *s = m->s;
    const size_t wide = s->heads * s->dim, narrow = s->kv_heads * s->dim;
    const size_t sizes[N_MATRICES][2] = {
        {wide, s->hidden},     {narrow, s->hidden},   {narrow, s->hidden},  {s->hidden, wide},
        {s->inner, s->hidden}, {s->inner, s->hidden}, {s->hidden, s->inner}};
    char *data = random_bytes(s, m->dtype);
    m->w = must(calloc(s->layers * N_MATRICES, sizeof *m->w), "weights");
    for (size_t i = 0; i < s->layers * N_MATRICES; i++)
        m->w[i] = place(m, data, sizes[i % N_MATRICES][0], sizes[i % N_MATRICES][1]);
    m->head = place(m, data, s->vocab, s->hidden);
    m->norm = place(m, data, 1, s->hidden);
    free(data);
}

static float *activations(model *m, size_t columns)
{
    return must(m->b->api->alloc(m->b, MOST_ROWS * columns * sizeof(float)), "activations");
}

/* A store for BATCH sequences of `length` positions, or for one prompt. */
static void make_store(model *m, size_t length)
{
    const cdz_kv_shape shape = {m->s->layers, m->s->kv_heads, m->s->dim, CDZ_F32};
    m->blocks_each = length / CDZ_KV_BLOCK + 1;
    m->kv = must(m->b->api->kv_create(m->b, &shape, BATCH * m->blocks_each), "the KV store");
    m->blocks = must(malloc(BATCH * m->blocks_each * sizeof *m->blocks), "block lists");
    for (size_t i = 0; i < BATCH * m->blocks_each; i++) m->blocks[i] = (int32_t)i;
}

static void open_model(model *m, const model_shape *s, cdz_backend *b, cdz_dtype dtype,
                       size_t length)
{
    *m = (model){.s = s, .b = b, .dtype = dtype};
    place_weights(m);
    m->x = activations(m, s->hidden);
    m->normed = activations(m, s->hidden);
    m->q = activations(m, s->heads * s->dim);
    m->mixed = activations(m, s->heads * s->dim);
    m->k = activations(m, s->kv_heads * s->dim);
    m->v = activations(m, s->kv_heads * s->dim);
    m->gate = activations(m, s->inner);
    m->up = activations(m, s->inner);
    m->logits = must(b->api->alloc(b, BATCH * s->vocab * sizeof(float)), "logits");
    m->row = must(malloc(BATCH * s->vocab * sizeof(float)), "logits");
    m->inv_freq = must(malloc(s->dim / 2 * sizeof(float)), "frequencies");
    for (size_t i = 0; i < s->dim / 2; i++) m->inv_freq[i] = 1.0f / (float)(i + 1);
    make_store(m, length);
}

static void close_model(model *m)
{
    const cdz_backend_api *api = m->b->api;
    for (size_t i = 0; i < m->s->layers * N_MATRICES; i++) api->unplace(m->b, m->w[i].data);
    api->unplace(m->b, m->head.data);
    api->unplace(m->b, m->norm.data);
    float *const all[] = {m->x, m->normed, m->q, m->mixed, m->k, m->v, m->gate, m->up, m->logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) api->free(m->b, all[i]);
    api->kv_destroy(m->b, m->kv);
    free(m->w);
    free(m->row);
    free(m->inv_freq);
    free(m->blocks);
}

/* ---- a pass, as host/run/forward.c makes it ---- */

static void run_layer(model *m, size_t layer, size_t n)
{
    const model_shape *s = m->s;
    const cdz_backend_api *api = m->b->api;
    cdz_backend *b = m->b;
    const cdz_weight *w = m->w + layer * N_MATRICES;
    const size_t D = s->hidden, wide = s->heads * s->dim, narrow = s->kv_heads * s->dim,
                 F = s->inner;
    const cdz_rope rope = {m->inv_freq, s->dim, 1.0f, false, false};
    const cdz_attention how = {s->heads, 0.1f, 0.0f, 0, NULL, 0, 0};
    const cdz_product qkv[] = {{&w[AT_Q], NULL, m->q, wide},
                               {&w[AT_K], NULL, m->k, narrow},
                               {&w[AT_V], NULL, m->v, narrow}};
    const cdz_product o = {&w[AT_O], NULL, m->normed, D}, down = {&w[AT_DOWN], NULL, m->normed, D};
    const cdz_product halves[] = {{&w[AT_UP], NULL, m->up, F}, {&w[AT_GATE], NULL, m->gate, F}};
    api->rmsnorm(b, m->normed, D, m->x, D, n, &m->norm, 1e-5f, 1.0f);
    api->matmul(b, qkv, 3, m->normed, D, n);
    api->rope(b, m->q, wide, n, s->heads, s->dim, m->positions, &rope);
    api->rope(b, m->k, narrow, n, s->kv_heads, s->dim, m->positions, &rope);
    api->kv_write(b, m->kv, layer, m->k, narrow, m->v, narrow, m->rows, n);
    api->attention(b, m->mixed, wide, m->q, wide, m->kv, layer, m->rows, n, &how);
    api->matmul(b, &o, 1, m->mixed, wide, n);
    api->add(b, m->x, D, m->normed, D, n, D);
    api->rmsnorm(b, m->normed, D, m->x, D, n, &m->norm, 1e-5f, 1.0f);
    api->matmul(b, halves, 2, m->normed, D, n);
    api->silu_mul(b, m->gate, F, m->gate, m->up, F, n, F);
    api->matmul(b, &down, 1, m->gate, F, n);
    api->add(b, m->x, D, m->normed, D, n, D);
}

static void embed(model *m, size_t n)
{
    for (size_t i = 0; i < n; i++) m->ids[i] = (int32_t)(i % 100);
    m->b->api->embed(m->b, m->x, m->s->hidden, &m->head, m->ids, n);
}

/* The last `scored` rows' logits, brought to the host. */
static void score(model *m, size_t n, size_t scored)
{
    const size_t D = m->s->hidden, V = m->s->vocab;
    const cdz_product head = {&m->head, NULL, m->logits, V};
    m->b->api->matmul(m->b, &head, 1, m->x + (n - scored) * D, D, scored);
    m->b->api->download(m->b, m->row, m->logits, scored * V * sizeof(float));
}

/* One new token for each of n sequences at `position`. */
static void decode_step(model *m, size_t n, uint32_t position)
{
    for (size_t i = 0; i < n; i++) {
        m->positions[i] = position;
        m->rows[i] = (cdz_kv_row){m->blocks + i * m->blocks_each, position, 0};
    }
    embed(m, n);
    for (size_t layer = 0; layer < m->s->layers; layer++) run_layer(m, layer, n);
    score(m, n, n);
}

/* A prompt, in passes of MOST_ROWS rows. */
static void prefill(model *m, size_t length)
{
    for (size_t at = 0; at < length; at += MOST_ROWS) {
        const size_t n = length - at < MOST_ROWS ? length - at : (size_t)MOST_ROWS;
        for (size_t i = 0; i < n; i++) {
            m->positions[i] = (uint32_t)(at + i);
            m->rows[i] = (cdz_kv_row){m->blocks, (uint32_t)(at + i), 0};
        }
        embed(m, n);
        for (size_t layer = 0; layer < m->s->layers; layer++) run_layer(m, layer, n);
    }
    score(m, length < MOST_ROWS ? length : (size_t)MOST_ROWS, 1);
}

/* The prompt's products alone. */
static void products_alone(model *m, size_t length)
{
    float *const to[N_MATRICES] = {m->q, m->k, m->v, m->normed, m->gate, m->up, m->normed};
    const float *const from[N_MATRICES] = {m->x, m->x, m->x, m->mixed, m->x, m->x, m->gate};
    for (size_t at = 0; at < length; at += MOST_ROWS) {
        const size_t n = length - at < MOST_ROWS ? length - at : (size_t)MOST_ROWS;
        for (size_t i = 0; i < m->s->layers * N_MATRICES; i++) {
            const cdz_product p = {&m->w[i], NULL, to[i % N_MATRICES], m->w[i].n};
            m->b->api->matmul(m->b, &p, 1, from[i % N_MATRICES], m->w[i].k, n);
        }
    }
    m->b->api->sync(m->b);
}

/* ---- what the device could do ---- */

/* Bytes read and written in a second by a copy within the device: the best of some. */
static double copy_rate(cdz_backend *b)
{
    size_t left, total;
    b->api->memory(b, &left, &total);
    const size_t bytes = left / 8 < ((size_t)2 << 30) ? left / 8 : (size_t)2 << 30;
    void *from = must(b->api->alloc(b, bytes), "a copy"),
         *to = must(b->api->alloc(b, bytes), "a copy");
    double best = 0.0;
    for (int i = 0; i < 5; i++) {
        b->api->sync(b);
        const double start = now();
        for (int j = 0; j < 4; j++) b->api->copy(b, to, from, bytes);
        b->api->sync(b);
        const double rate = 8.0 * (double)bytes / (now() - start);
        if (rate > best) best = rate;
    }
    b->api->free(b, from);
    b->api->free(b, to);
    return best;
}

/* ---- the table ---- */

typedef struct settings {
    const char *shapes;
    size_t context, steps;
    bool f32;
} settings;

static double decode_time(model *m, size_t n, const settings *o)
{
    for (int i = 0; i < 3; i++) decode_step(m, n, (uint32_t)o->context);
    const double start = now();
    for (size_t i = 0; i < o->steps; i++) decode_step(m, n, (uint32_t)(o->context + 1 + i));
    return (now() - start) / (double)o->steps;
}

/* The best of some; the first is not counted. */
static double time_of(void (*run)(model *, size_t), model *m, size_t length)
{
    double best = 1e30;
    for (int i = 0; i < 4; i++) {
        const double start = now();
        run(m, length);
        const double took = now() - start;
        if (i > 0 && took < best) best = took;
    }
    return best;
}

static void measure(const model_shape *s, cdz_backend *b, double rate, const settings *o)
{
    model m;
    const size_t length =
        o->context + o->steps + 2 > PREFILL ? o->context + o->steps + 2 : (size_t)PREFILL;
    open_model(&m, s, b, o->f32 ? CDZ_F32 : CDZ_BF16, length);
    const size_t prompt = strcmp(s->name, "tiny") == 0 ? 64 : (size_t)PREFILL;
    const double one = decode_time(&m, 1, o), many = decode_time(&m, BATCH, o);
    const double whole = time_of(prefill, &m, prompt), alone = time_of(products_alone, &m, prompt);
    const double kv = 2.0 * (double)(s->layers * s->kv_heads * s->dim * o->context) * sizeof(float);
    const double share = ((double)m.weight_bytes + kv) / one / rate;
    printf("%-5s %9.1f %12.2f %15.1f %9.0f %15.2f\n", s->name, 1.0 / one, share, BATCH / many,
           (double)prompt / whole, alone / whole);
    fflush(stdout);
    close_model(&m);
}

static cdz_backend *open_backend(const char *path, const settings *o)
{
    char why[512] = "";
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = NULL;
    if (object) symbol = dlsym(object, CDZ_BACKEND_SYMBOL);
    if (!symbol) {
        fprintf(stderr, "bench_cuda: %s\n", dlerror());
        exit(1);
    }
    cdz_backend_entry_fn *get;
    memcpy(&get, &symbol, sizeof get);
    const cdz_backend_entry *entry = get();
    if (entry->count(why, sizeof why) <= 0) {
        printf("not run: %s\n", why);
        exit(77);
    }
    const cdz_device_options options = {sizeof options, 0,
                                        o->f32 ? CDZ_PRECISION_F32 : CDZ_PRECISION_AUTO, false};
    cdz_backend *b = entry->create(&options, why, sizeof why);
    if (!b) fprintf(stderr, "bench_cuda: %s\n", why);
    return b;
}

static bool asked_for(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && memcmp(at, name, n) == 0) return true;
    return false;
}

int main(int argc, char **argv)
{
    settings o = {"0.5B,1B,8B", 512, 64, false};
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--f32") == 0)
            o.f32 = true;
        else if (strcmp(argv[i], "--shapes") == 0)
            o.shapes = value, i++;
        else if (strcmp(argv[i], "--context") == 0)
            o.context = strtoul(value, NULL, 10), i++;
        else if (strcmp(argv[i], "--steps") == 0)
            o.steps = strtoul(value, NULL, 10), i++;
        else
            argc = 0;
    }
    if (argc < 2 || o.context == 0 || o.steps == 0) {
        fprintf(
            stderr,
            "usage: bench_cuda BACKEND.so [--shapes NAME,NAME] [--context N] [--steps N] [--f32]\n");
        return 2;
    }
    cdz_backend *b = open_backend(argv[1], &o);
    if (!b) return 1;
    const double rate = copy_rate(b);
    printf("%s, products: %s, weights %s; a copy moves %.0f GB/s, read and written\n",
           b->api->device, b->api->variant, o.f32 ? "f32" : "bf16", rate / 1e9);
    printf("%-5s %9s %12s %15s %9s %15s\n", "shape", "tokens/s", "of the copy", "batch 64, t/s",
           "prompt/s", "of its products");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (asked_for(o.shapes, shapes[i].name)) measure(&shapes[i], b, rate, &o);
    b->api->destroy(b);
    return 0;
}
