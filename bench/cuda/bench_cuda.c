/* bench_cuda.c - what a device gives beside what it could: passes of known models' shapes, with random
 * weights, through the same calls that the host makes, beside the device's copying and a library's products.
 *
 * usage: bench_cuda BACKEND.so [--shapes LIST] [--weights LIST] [--kv TYPE] [--contexts LIST] [--batches LIST]
 *                   [--prompts LIST] [--steps N] [--read BYTES] [--f32] [--strict] [--json]
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
    {"0.5B", 24, 896, 14, 2, 64, 4864, 151936},  {"1B", 16, 2048, 32, 8, 64, 8192, 128256},
    {"7B", 28, 3584, 28, 4, 128, 18944, 152064}, {"8B", 32, 4096, 32, 8, 128, 14336, 128256},
    {"tiny", 2, 64, 4, 2, 16, 128, 512}, /* to try the program itself */
};

static const struct {
    const char *name;
    cdz_dtype dtype;
    size_t scales[2]; /* bytes of a block at which a factor lies; blocks only */
} weight_types[] = {
    {"f32", CDZ_F32, {0}},      {"bf16", CDZ_BF16, {0}},    {"q8_0", CDZ_Q8_0, {0, 0}},
    {"q4_0", CDZ_Q4_0, {0, 0}}, {"q4_k", CDZ_Q4_K, {0, 2}}, {"mxfp4", CDZ_MXFP4, {0, 0}},
    {"fp8", CDZ_FP8, {0, 0}},
};

enum { MOST_ROWS = 512, MOST_BATCH = 128, MOST_LIST = 16 };

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
    int32_t *blocks; /* (batch, blocks_each) */
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

static uint32_t next_random(uint32_t *state)
{
    return *state = *state * 1664525u + 1013904223u;
}

/* Any bytes are numbers of a block; its factors are set to some 0.002, float8's to less, so that sums stay small. */
static void fill_blocks(char *data, size_t bytes, cdz_dtype dtype, const size_t scales[2])
{
    static const uint16_t half = 0x1819;
    static const uint8_t power = 119; /* 2^-9, of numbers that are twice theirs */
    static const float whole = 0x1p-14f;
    const void *factor = dtype == CDZ_MXFP4 ? (const void *)&power
                         : dtype == CDZ_FP8 ? (const void *)&whole
                                            : (const void *)&half;
    const size_t block = cdz_dtype_bytes(dtype), size = dtype == CDZ_MXFP4 ? sizeof power
                                                        : dtype == CDZ_FP8 ? sizeof whole
                                                                           : sizeof half;
    uint32_t state = 12345;
    for (size_t i = 0; i < bytes; i++) data[i] = (char)(next_random(&state) >> 24);
    for (size_t at = 0; at + block <= bytes; at += block)
        for (int i = 0; i < 2; i++) memcpy(data + at + scales[i], factor, size);
}

static void fill_plain(char *data, size_t n, cdz_dtype dtype)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        const float f = (float)(int32_t)next_random(&state) * 0x1p-31f * 0.03f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        const uint16_t half = (uint16_t)(bits >> 16);
        char *to = data + i * cdz_dtype_bytes(dtype);
        if (dtype == CDZ_F32)
            memcpy(to, &bits, sizeof bits);
        else
            memcpy(to, &half, sizeof half);
    }
}

/* Small random numbers of the type, enough for the largest matrix; every matrix is a copy of its start. */
static char *random_bytes(const model_shape *s, size_t type)
{
    const cdz_dtype dtype = weight_types[type].dtype;
    const size_t n = s->vocab > s->inner ? s->vocab : s->inner;
    const size_t bytes = n * cdz_row_bytes(dtype, s->hidden);
    char *data = must(malloc(bytes), "weights");
    if (dtype < CDZ_N_PLAIN)
        fill_plain(data, n * s->hidden, dtype);
    else
        fill_blocks(data, bytes, dtype, weight_types[type].scales);
    return data;
}

static cdz_weight place(model *m, const char *data, cdz_dtype dtype, size_t n, size_t k)
{
    const size_t bytes = n * cdz_row_bytes(dtype, k);
    cdz_weight w = {m->b->api->place(m->b, data, bytes), dtype, n, k, CDZ_WEIGHT_ROWS};
    must((void *)(uintptr_t)w.data, "a weight on the device");
    m->weight_bytes += bytes;
    return w;
}

static void place_weights(model *m, size_t type)
{
    const model_shape *s = m->s;
    const size_t wide = s->heads * s->dim, narrow = s->kv_heads * s->dim;
    const size_t sizes[N_MATRICES][2] = {
        {wide, s->hidden},     {narrow, s->hidden},   {narrow, s->hidden},  {s->hidden, wide},
        {s->inner, s->hidden}, {s->inner, s->hidden}, {s->hidden, s->inner}};
    char *data = random_bytes(s, type), norm[4 * 8192];
    fill_plain(norm, s->hidden, CDZ_F32);
    m->w = must(calloc(s->layers * N_MATRICES, sizeof *m->w), "weights");
    for (size_t i = 0; i < s->layers * N_MATRICES; i++)
        m->w[i] = place(m, data, m->dtype, sizes[i % N_MATRICES][0], sizes[i % N_MATRICES][1]);
    m->head = place(m, data, m->dtype, s->vocab, s->hidden);
    m->norm = place(m, norm, CDZ_F32, 1, s->hidden);
    free(data);
}

static float *activations(model *m, size_t columns)
{
    return must(m->b->api->alloc(m->b, MOST_ROWS * columns * sizeof(float)), "activations");
}

static const char *const kv_names[] = {"f32", "f16", "bf16", "q8_0", "q4_0"};
static const cdz_dtype kv_types[] = {CDZ_F32, CDZ_F16, CDZ_BF16, CDZ_Q8_0, CDZ_Q4_0};
enum { N_KV_TYPES = sizeof kv_types / sizeof *kv_types };

/* A store for n sequences of `length` positions. False: the device has no room for it. */
static bool make_store(model *m, size_t n, size_t length, cdz_dtype kv_type)
{
    const cdz_kv_shape shape = {m->s->layers, m->s->kv_heads, m->s->dim, kv_type, 0};
    size_t left, total;
    m->b->api->memory(m->b, &left, &total);
    m->blocks_each = length / CDZ_KV_BLOCK + 1;
    const size_t bytes = 2 * m->s->layers * n * m->blocks_each * CDZ_KV_BLOCK * m->s->kv_heads *
                         cdz_row_bytes(kv_type, m->s->dim);
    m->kv = bytes < left - left / 16 ? m->b->api->kv_create(m->b, &shape, n * m->blocks_each) : NULL;
    if (!m->kv) return false;
    m->blocks = must(malloc(n * m->blocks_each * sizeof *m->blocks), "block lists");
    for (size_t i = 0; i < n * m->blocks_each; i++) m->blocks[i] = (int32_t)i;
    return true;
}

static void drop_store(model *m)
{
    m->b->api->kv_destroy(m->b, m->kv);
    free(m->blocks);
    m->kv = NULL;
    m->blocks = NULL;
}

static void open_model(model *m, const model_shape *s, cdz_backend *b, size_t type)
{
    *m = (model){.s = s, .b = b, .dtype = weight_types[type].dtype};
    place_weights(m, type);
    m->x = activations(m, s->hidden);
    m->normed = activations(m, s->hidden);
    m->q = activations(m, s->heads * s->dim);
    m->mixed = activations(m, s->heads * s->dim);
    m->k = activations(m, s->kv_heads * s->dim);
    m->v = activations(m, s->kv_heads * s->dim);
    m->gate = activations(m, s->inner);
    m->up = activations(m, s->inner);
    m->logits = must(b->api->alloc(b, MOST_BATCH * s->vocab * sizeof(float)), "logits");
    m->row = must(malloc(MOST_BATCH * s->vocab * sizeof(float)), "logits");
    m->inv_freq = must(malloc(s->dim / 2 * sizeof(float)), "frequencies");
    for (size_t i = 0; i < s->dim / 2; i++) m->inv_freq[i] = 1.0f / (float)(i + 1);
}

static void close_model(model *m)
{
    const cdz_backend_api *api = m->b->api;
    for (size_t i = 0; i < m->s->layers * N_MATRICES; i++) api->unplace(m->b, m->w[i].data);
    api->unplace(m->b, m->head.data);
    api->unplace(m->b, m->norm.data);
    float *const all[] = {m->x, m->normed, m->q, m->k, m->v, m->mixed, m->gate, m->up, m->logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) api->free(m->b, all[i]);
    free(m->w);
    free(m->row);
    free(m->inv_freq);
}

/* ---- a pass, as host/run/pass/forward.c makes it ---- */

static void run_layer(model *m, size_t layer, size_t n)
{
    const model_shape *s = m->s;
    const cdz_backend_api *api = m->b->api;
    cdz_backend *b = m->b;
    const cdz_weight *w = m->w + layer * N_MATRICES;
    const size_t D = s->hidden, wide = s->heads * s->dim, narrow = s->kv_heads * s->dim,
                 F = s->inner;
    const cdz_rope rope = {m->inv_freq, s->dim, 1.0f, false, false};
    const cdz_attention how = {.n_heads = s->heads, .scale = 0.1f};
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
        m->rows[i] = (cdz_kv_row){m->blocks + i * m->blocks_each, position, 0, NULL};
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
            m->rows[i] = (cdz_kv_row){m->blocks, (uint32_t)(at + i), 0, NULL};
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

typedef struct list {
    size_t at[MOST_LIST], n;
} list;

typedef struct settings {
    const char *shapes, *weights, *kv;
    list contexts, batches, prompts;
    size_t steps;
    double read; /* bytes a second that the device reads; 0: what its copy moves stands for it */
    bool f32, strict, json;
} settings;

/* What a row of the table is about. */
typedef struct subject {
    const model_shape *s;
    const char *weights, *kv;
    double rate; /* bytes a second */
} subject;

static void print_left_out(const subject *of, const settings *o, const char *why)
{
    if (o->json)
        printf("{\"work\": \"left out\", \"shape\": \"%s\", \"weights\": \"%s\", \"kv\": \"%s\", "
               "\"why\": \"%s\"}\n",
               of->s->name, of->weights, of->kv, why);
    else
        printf("%-5s %-5s left out: %s\n", of->s->name, of->weights, why);
    fflush(stdout);
}

static void no_room(const subject *of, const settings *o, size_t batch, size_t length)
{
    char why[128];
    snprintf(why, sizeof why, "no room for the keys and values of %zu x %zu positions", batch,
             length);
    print_left_out(of, o, why);
}

static void print_decode(const subject *of, const settings *o, size_t batch, size_t context,
                         double step, double bytes)
{
    const double share = bytes / step / of->rate;
    if (o->json)
        printf("{\"work\": \"decode\", \"shape\": \"%s\", \"weights\": \"%s\", \"kv\": \"%s\", "
               "\"batch\": %zu, \"context\": %zu, \"step_ms\": %.4f, \"tokens_s\": %.1f, "
               "\"bytes\": %.0f, \"share\": %.3f}\n",
               of->s->name, of->weights, of->kv, batch, context, step * 1e3, (double)batch / step,
               bytes, share);
    else
        printf("%-5s %-5s decode  %4zu at %6zu: %10.1f tokens/s %7.2f of the bandwidth\n",
               of->s->name, of->weights, batch, context, (double)batch / step, share);
    fflush(stdout);
}

static void print_prefill(const subject *of, const settings *o, size_t length, double whole,
                          double alone)
{
    if (o->json)
        printf("{\"work\": \"prefill\", \"shape\": \"%s\", \"weights\": \"%s\", \"kv\": \"%s\", "
               "\"length\": %zu, \"ms\": %.3f, \"tokens_s\": %.0f, \"products_ms\": %.3f, "
               "\"share_of_products\": %.3f}\n",
               of->s->name, of->weights, of->kv, length, whole * 1e3, (double)length / whole,
               alone * 1e3, alone / whole);
    else
        printf("%-5s %-5s prompt %12zu: %10.0f tokens/s %7.2f of its products\n", of->s->name,
               of->weights, length, (double)length / whole, alone / whole);
    fflush(stdout);
}

static double decode_time(model *m, size_t n, size_t context, size_t steps)
{
    for (int i = 0; i < 3; i++) decode_step(m, n, (uint32_t)context);
    const double start = now();
    for (size_t i = 0; i < steps; i++) decode_step(m, n, (uint32_t)(context + 1 + i));
    return (now() - start) / (double)steps;
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

static void measure_decode(model *m, const subject *of, const settings *o, cdz_dtype kv_type,
                           size_t batch, size_t context)
{
    const size_t length = context + o->steps + 2;
    if (!make_store(m, batch, length, kv_type)) {
        no_room(of, o, batch, length);
        return;
    }
    const double step = decode_time(m, batch, context, o->steps);
    const double kv = 2.0 * (double)(m->s->layers * m->s->kv_heads * context * batch) *
                      (double)cdz_row_bytes(kv_type, m->s->dim);
    print_decode(of, o, batch, context, step, (double)m->weight_bytes + kv);
    drop_store(m);
}

static void measure_prefill(model *m, const subject *of, const settings *o, cdz_dtype kv_type,
                            size_t length)
{
    if (!make_store(m, 1, length, kv_type)) {
        no_room(of, o, 1, length);
        return;
    }
    const double whole = time_of(prefill, m, length), alone = time_of(products_alone, m, length);
    print_prefill(of, o, length, whole, alone);
    drop_store(m);
}

static void measure(const model_shape *s, size_t type, cdz_backend *b, double rate,
                    const settings *o)
{
    model m;
    cdz_dtype kv_type = CDZ_F32;
    for (size_t i = 0; i < N_KV_TYPES; i++)
        if (strcmp(o->kv, kv_names[i]) == 0) kv_type = kv_types[i];
    const subject of = {s, weight_types[type].name, o->kv, rate};
    if (s->hidden % cdz_dtype_block(weight_types[type].dtype)) {
        print_left_out(&of, o, "its rows are no whole blocks");
        return;
    }
    open_model(&m, s, b, type);
    for (size_t i = 0; i < o->contexts.n; i++)
        for (size_t k = 0; k < o->batches.n; k++)
            measure_decode(&m, &of, o, kv_type, o->batches.at[k], o->contexts.at[i]);
    for (size_t i = 0; i < o->prompts.n; i++)
        measure_prefill(&m, &of, o, kv_type, o->prompts.at[i]);
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
                                        o->f32 ? CDZ_PRECISION_F32 : CDZ_PRECISION_AUTO, o->strict};
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

/* Numbers from 1 to most, separated by commas; "none": no number. */
static bool read_list(const char *text, size_t most, list *out)
{
    *out = (list){0};
    if (strcmp(text, "none") == 0) return true;
    for (const char *at = text; *at;) {
        char *end;
        const unsigned long n = strtoul(at, &end, 10);
        if (end == at || n == 0 || n > most || out->n == MOST_LIST || (*end && *end != ',') ||
            (*end && !end[1]))
            return false;
        out->at[out->n++] = n;
        at = *end ? end + 1 : end;
    }
    return out->n > 0;
}

static bool are_names(const char *names, const char *const *known, size_t n)
{
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',') {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found |=
                strlen(known[i]) == strcspn(at, ",") && memcmp(at, known[i], strlen(known[i])) == 0;
        if (!found) return false;
    }
    return *names != '\0';
}

static bool take_value(settings *o, const char *name, const char *value)
{
    static const char *const shape_names[] = {"0.5B", "1B", "7B", "8B", "tiny"},
                             *const type_names[] = {"f32",  "bf16",  "q8_0", "q4_0",
                                                    "q4_k", "mxfp4", "fp8"};
    if (strcmp(name, "--shapes") == 0) return are_names(o->shapes = value, shape_names, 5);
    if (strcmp(name, "--weights") == 0) return are_names(o->weights = value, type_names, 7);
    if (strcmp(name, "--kv") == 0)
        return are_names(o->kv = value, kv_names, N_KV_TYPES) && !strchr(value, ',');
    if (strcmp(name, "--contexts") == 0) return read_list(value, 1u << 20, &o->contexts);
    if (strcmp(name, "--batches") == 0) return read_list(value, MOST_BATCH, &o->batches);
    if (strcmp(name, "--prompts") == 0) return read_list(value, 1u << 20, &o->prompts);
    if (strcmp(name, "--read") == 0) return (o->read = strtod(value, NULL)) > 0;
    list one;
    if (strcmp(name, "--steps") != 0 || !read_list(value, 100000, &one) || one.n != 1) return false;
    o->steps = one.at[0];
    return true;
}

static bool take_options(settings *o, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--f32") == 0)
            o->f32 = true;
        else if (strcmp(argv[i], "--strict") == 0)
            o->strict = true;
        else if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (i + 1 == argc || !take_value(o, argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return argc >= 2;
}

int main(int argc, char **argv)
{
    settings o = {.shapes = "0.5B,1B,8B", .weights = "bf16", .kv = "f32", .steps = 64};
    o.contexts = (list){{512}, 1};
    o.batches = (list){{1, 64}, 2};
    o.prompts = (list){{2048}, 1};
    if (!take_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_cuda BACKEND.so [--shapes 0.5B,1B,7B,8B,tiny] [--weights "
                        "f32,bf16,q8_0,q4_0,q4_k,mxfp4,fp8]\n"
                        "                  [--kv f32|f16|bf16] [--contexts LIST] [--batches LIST] "
                        "[--prompts LIST]\n"
                        "                  [--steps N] [--read BYTES_A_SECOND] [--f32] [--strict] "
                        "[--json]\n"
                        "LIST: numbers separated by commas, or none; batches are at most 128\n");
        return 2;
    }
    cdz_backend *b = open_backend(argv[1], &o);
    if (!b) return 1;
    const double copy = copy_rate(b), rate = o.read > 0 ? o.read : copy;
    if (o.json)
        printf("{\"work\": \"device\", \"device\": \"%s\", \"products\": \"%s\", \"copy\": %.0f, "
               "\"read\": %.0f}\n",
               b->api->device, b->api->variant, copy, rate);
    else
        printf(
            "%s, products: %s; a copy moves %.0f GB/s, read and written; shares are of %.0f GB/s\n",
            b->api->device, b->api->variant, copy / 1e9, rate / 1e9);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t k = 0; k < sizeof weight_types / sizeof *weight_types; k++)
            if (asked_for(o.shapes, shapes[i].name) && asked_for(o.weights, weight_types[k].name))
                measure(&shapes[i], k, b, rate, &o);
    b->api->destroy(b);
    return 0;
}
