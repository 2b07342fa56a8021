/* bnb.c - bitsandbytes' weights. A 4-bit weight X is a run of nibbles, first one high, over the
 * matrix row by row; beside it X.absmax has a factor for each block of the run, X.quant_map the
 * levels, X.quant_state.bitsandbytes__nf4 a JSON text. With double quantisation absmax is bytes:
 * their numbers are in X.nested_quant_map, times X.nested_absmax of every 256, plus an offset.
 * An 8-bit weight STEM.weight is int8, STEM.SCB has each row's largest magnitude.
 *
 * Blocks become ours, of 64 with their factor before them. */
#include "load/bnb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { BLOCK = 64, NAME_BYTES = 320, MAX_STATE = 4096, N_LEVELS = 16, N_BYTES = 256 };

/* --- tensors beside a weight --------------------------------------------------------------- */

static const cdz_tensor *beside(const cdz_tensors *set, const cdz_tensor *w, const char *suffix)
{
    char name[NAME_BYTES];
    const int n = snprintf(name, sizeof name, "%s%s", w->name, suffix);
    return n > 0 && (size_t)n < sizeof name ? cdz_tensors_find(set, name) : NULL;
}

/* STEM.weight's STEM.SCB. */
static const cdz_tensor *row_factors(const cdz_tensors *set, const cdz_tensor *w, const char *last)
{
    static const char ending[] = ".weight";
    char name[NAME_BYTES];
    const size_t len = strlen(w->name), tail = sizeof ending - 1;
    if (len < tail || strcmp(w->name + len - tail, ending) != 0) return NULL;
    const int n = snprintf(name, sizeof name, "%.*s.%s", (int)(len - tail), w->name, last);
    return n > 0 && (size_t)n < sizeof name ? cdz_tensors_find(set, name) : NULL;
}

static const cdz_tensor *state_of(const cdz_tensors *set, const cdz_tensor *w, cdz_dtype *type)
{
    const cdz_tensor *nf4 = beside(set, w, ".quant_state.bitsandbytes__nf4");
    *type = nf4 ? CDZ_NF4 : CDZ_FP4;
    return nf4 ? nf4 : beside(set, w, ".quant_state.bitsandbytes__fp4");
}

bool cdz_bnb_is(const cdz_tensors *set, const cdz_tensor *w)
{
    cdz_dtype type;
    if (strcmp(w->dtype, "I8") == 0) return row_factors(set, w, "SCB") != NULL;
    return strcmp(w->dtype, "U8") == 0 && state_of(set, w, &type) != NULL;
}

static cdz_status wrong(const cdz_bnb *b, const cdz_tensor *t, const char *expected)
{
    char shape[128];
    return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s is %s of %s, expected %s",
                   b->tensors->files[t->file].path, t->name,
                   cdz_tensor_shape_text(t, shape, sizeof shape), t->dtype, expected);
}

static cdz_status no_memory(const cdz_bnb *b, const cdz_tensor *t)
{
    return cdz_err_memory_in(b->err, b->tensors->files[t->file].path);
}

/* A copy of a tensor's bytes, allocated. t NULL: `name` is missing. */
static cdz_status read_bytes(const cdz_bnb *b, const cdz_tensor *t, const char *dtype,
                             uint64_t n_bytes, void **out)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%llu bytes of %s", (unsigned long long)n_bytes, dtype);
    if (strcmp(t->dtype, dtype) != 0 || t->n_bytes != n_bytes) return wrong(b, t, expected);
    const cdz_file *file = &b->tensors->files[t->file];
    const uint64_t offset = (uint64_t)((const char *)t->data - (const char *)file->data);
    *out = malloc(n_bytes ? (size_t)n_bytes : 1);
    if (!*out) return no_memory(b, t);
    b->used[t - b->tensors->items] = true;
    return cdz_file_read_at(file, offset, *out, (size_t)n_bytes, b->err);
}

static cdz_status read_beside(const cdz_bnb *b, const cdz_tensor *w, const char *suffix,
                              const char *dtype, uint64_t n_bytes, void **out)
{
    const cdz_tensor *t = beside(b->tensors, w, suffix);
    if (!t)
        return cdz_err(b->err, CDZ_E_INPUT, "%s: tensor %s%s is missing",
                       b->tensors->files[w->file].path, w->name, suffix);
    return read_bytes(b, t, dtype, n_bytes, out);
}

/* --- 4 bits -------------------------------------------------------------------------------- */

typedef struct state {
    cdz_dtype type;
    uint64_t block, nested_block; /* nested_block 0: factors are float32 */
    double nested_offset;
} state;

static bool power_of_two(const cdz_json *v, uint64_t *out)
{
    if (!cdz_json_is(v, CDZ_JSON_INT) || v->integer < 16 || v->integer > 1 << 20) return false;
    *out = (uint64_t)v->integer;
    return (*out & (*out - 1)) == 0;
}

static bool shape_is(const cdz_json *shape, size_t n, size_t k)
{
    return cdz_json_is(shape, CDZ_JSON_ARRAY) && shape->len == 2 &&
           shape->items[0].type == CDZ_JSON_INT && shape->items[0].integer == (int64_t)n &&
           shape->items[1].type == CDZ_JSON_INT && shape->items[1].integer == (int64_t)k;
}

static cdz_status parse_state(const cdz_bnb *b, const cdz_tensor *t, const char *text, size_t n,
                              size_t k, state *s)
{
    cdz_arena arena = {0};
    cdz_json root;
    cdz_status st = cdz_json_parse(text, (size_t)t->n_bytes, t->name, NULL, &arena, &root, b->err);
    if (st == CDZ_OK && !shape_is(cdz_json_get(&root, "shape"), n, k))
        st = cdz_err(b->err, CDZ_E_INPUT,
                     "%s: its shape is not [%zu, %zu], which config.json makes it", t->name, n, k);
    if (st == CDZ_OK && !power_of_two(cdz_json_get(&root, "blocksize"), &s->block))
        st = cdz_err(b->err, CDZ_E_INPUT, "%s: blocksize is no power of two from 16", t->name);
    const cdz_json *nested = st == CDZ_OK ? cdz_json_get(&root, "nested_blocksize") : NULL;
    if (nested && (!power_of_two(nested, &s->nested_block) ||
                   !cdz_json_number(cdz_json_get(&root, "nested_offset"), &s->nested_offset)))
        st = cdz_err(b->err, CDZ_E_INPUT,
                     "%s: nested_blocksize or nested_offset is not as bitsandbytes writes it",
                     t->name);
    cdz_arena_free(&arena);
    return st;
}

static cdz_status read_state(const cdz_bnb *b, const cdz_tensor *w, size_t n, size_t k, state *s)
{
    const cdz_tensor *t = state_of(b->tensors, w, &s->type);
    void *text = NULL;
    if (t->n_bytes > MAX_STATE) return wrong(b, t, "a short JSON text");
    cdz_status st = read_bytes(b, t, "U8", t->n_bytes, &text);
    if (st == CDZ_OK) st = parse_state(b, t, text, n, k, s);
    free(text);
    return st;
}

/* Factors that are bytes: their numbers times one of every nested_block, plus the offset. */
static cdz_status read_nested(const cdz_bnb *b, const cdz_tensor *w, const state *s, uint64_t n,
                              float *to)
{
    void *bytes = NULL, *outer = NULL, *map = NULL;
    const uint64_t n_outer = (n + s->nested_block - 1) / s->nested_block;
    cdz_status st = read_beside(b, w, ".absmax", "U8", n, &bytes);
    if (st == CDZ_OK) st = read_beside(b, w, ".nested_absmax", "F32", n_outer * 4, &outer);
    if (st == CDZ_OK) st = read_beside(b, w, ".nested_quant_map", "F32", N_BYTES * 4, &map);
    const uint8_t *byte = bytes;
    const float *numbers = map, *factors = outer, offset = (float)s->nested_offset;
    for (uint64_t i = 0; st == CDZ_OK && i < n; i++)
        to[i] = numbers[byte[i]] * factors[i / s->nested_block] + offset;
    free(bytes);
    free(outer);
    free(map);
    return st;
}

static cdz_status read_factors(const cdz_bnb *b, const cdz_tensor *w, const state *s, uint64_t n,
                               float **out)
{
    void *stored = NULL;
    if (s->nested_block == 0) {
        const cdz_status st = read_beside(b, w, ".absmax", "F32", n * 4, &stored);
        *out = stored;
        return st;
    }
    *out = calloc(n ? (size_t)n : 1, sizeof **out);
    return *out ? read_nested(b, w, s, n, *out) : no_memory(b, w);
}

/* The levels must be those that we know: a block holds no table. */
static cdz_status check_levels(const cdz_bnb *b, const cdz_tensor *w, cdz_dtype type)
{
    uint8_t block[4 + BLOCK / 2] = {0};
    float one = 1, known[BLOCK];
    void *stored = NULL;
    memcpy(block, &one, sizeof one);
    for (size_t i = 0; i < N_LEVELS; i++) block[4 + i] = (uint8_t)(i << 4);
    cdz_widen(type, known, block, BLOCK);
    cdz_status st = read_beside(b, w, ".quant_map", "F32", N_LEVELS * 4, &stored);
    const float *levels = stored;
    for (size_t i = 0; st == CDZ_OK && i < N_LEVELS; i++)
        if (!(fabsf(levels[i] - known[2 * i]) <= 1e-6f))
            st = cdz_err(b->err, CDZ_E_UNSUPPORTED,
                         "%s: tensor %s.quant_map: level %zu is %g, expected %s's %g",
                         b->tensors->files[w->file].path, w->name, i, (double)levels[i],
                         cdz_dtype_name(type), (double)known[2 * i]);
    free(stored);
    return st;
}

static void put_block(uint8_t *to, float factor, const uint8_t *nibbles)
{
    memcpy(to, &factor, sizeof factor);
    memcpy(to + 4, nibbles, BLOCK / 2);
}

static void put_blocks(uint8_t *to, const state *s, const uint8_t *run, const float *factors,
                       uint64_t n)
{
    for (uint64_t at = 0; at < n; at += BLOCK, to += 4 + BLOCK / 2)
        put_block(to, factors[at / s->block], run + at / 2);
}

/* The numbers themselves, where a block of the run is cut by the end of a row. */
static void put_numbers(float *to, const state *s, const uint8_t *run, const float *factors,
                        uint64_t n)
{
    for (uint64_t at = 0; at < n; at++) {
        uint8_t block[4 + BLOCK / 2] = {0};
        float wide[BLOCK];
        memcpy(block, &factors[at / s->block], sizeof *factors);
        const unsigned pair = run[at / 2];
        block[4] = (uint8_t)(at % 2 ? pair << 4 : pair);
        cdz_widen(s->type, wide, block, BLOCK);
        to[at] = wide[0];
    }
}

static cdz_status lay_four(const cdz_bnb *b, const cdz_tensor *w, const state *s, const void *run,
                           const float *factors, cdz_weight *out)
{
    const bool fits = out->k % BLOCK == 0 && s->block % BLOCK == 0;
    out->dtype = fits ? s->type : CDZ_F32;
    void *data = cdz_arena_alloc_aligned(b->arena, out->n * cdz_row_bytes(out->dtype, out->k), 64);
    if (!data) return no_memory(b, w);
    out->data = data;
    if (fits)
        put_blocks(data, s, run, factors, (uint64_t)out->n * out->k);
    else
        put_numbers(data, s, run, factors, (uint64_t)out->n * out->k);
    return CDZ_OK;
}

static cdz_status read_four(const cdz_bnb *b, const cdz_tensor *w, cdz_weight *out)
{
    state s = {0};
    void *run = NULL;
    float *factors = NULL;
    const uint64_t n = (uint64_t)out->n * out->k;
    CDZ_TRY(read_state(b, w, out->n, out->k, &s));
    CDZ_TRY(check_levels(b, w, s.type));
    cdz_status st = read_factors(b, w, &s, (n + s.block - 1) / s.block, &factors);
    if (st == CDZ_OK) st = read_bytes(b, w, "U8", (n + 1) / 2, &run);
    if (st == CDZ_OK) st = lay_four(b, w, &s, run, factors, out);
    free(run);
    free(factors);
    return st;
}

/* --- 8 bits -------------------------------------------------------------------------------- */

/* Older files name an order of the rows; 0 is none. */
static cdz_status check_format(const cdz_bnb *b, const cdz_tensor *w)
{
    const cdz_tensor *t = row_factors(b->tensors, w, "weight_format");
    void *format = NULL;
    if (!t) return CDZ_OK;
    cdz_status st = read_bytes(b, t, "U8", 1, &format);
    if (st == CDZ_OK && *(const uint8_t *)format != 0)
        st = cdz_err(b->err, CDZ_E_UNSUPPORTED,
                     "%s: tensor %s: weight_format %u is not supported; 0, by rows, is",
                     b->tensors->files[t->file].path, w->name, (unsigned)*(const uint8_t *)format);
    free(format);
    return st;
}

static cdz_status lay_eight(const cdz_bnb *b, const cdz_tensor *w, const uint8_t *bytes,
                            const float *factors, cdz_weight *out)
{
    const bool fits = out->k % BLOCK == 0;
    out->dtype = fits ? CDZ_INT8 : CDZ_F32;
    const size_t stride = cdz_row_bytes(out->dtype, out->k);
    char *data = cdz_arena_alloc_aligned(b->arena, out->n * stride, 64);
    if (!data) return no_memory(b, w);
    out->data = data;
    for (size_t i = 0; i < out->n; i++, data += stride, bytes += out->k)
        for (size_t c = 0; c < out->k; c += BLOCK) {
            const size_t n = out->k - c < BLOCK ? out->k - c : BLOCK;
            uint8_t block[4 + BLOCK] = {0};
            float wide[BLOCK];
            memcpy(block, &factors[i], sizeof *factors);
            memcpy(block + 4, bytes + c, n);
            cdz_widen(CDZ_INT8, wide, block, BLOCK);
            if (fits)
                memcpy(data + c / BLOCK * sizeof block, block, sizeof block);
            else
                memcpy(data + c * sizeof *wide, wide, n * sizeof *wide);
        }
    return CDZ_OK;
}

static cdz_status read_eight(const cdz_bnb *b, const cdz_tensor *w, cdz_weight *out)
{
    void *bytes = NULL, *factors = NULL;
    if (w->n_dims != 2 || w->shape[0] != out->n || w->shape[1] != out->k) {
        char expected[64];
        snprintf(expected, sizeof expected, "[%zu, %zu], which config.json makes it", out->n,
                 out->k);
        return wrong(b, w, expected);
    }
    CDZ_TRY(check_format(b, w));
    cdz_status st =
        read_bytes(b, row_factors(b->tensors, w, "SCB"), "F32", (uint64_t)out->n * 4, &factors);
    if (st == CDZ_OK) st = read_bytes(b, w, "I8", (uint64_t)out->n * out->k, &bytes);
    if (st == CDZ_OK) st = lay_eight(b, w, bytes, factors, out);
    free(bytes);
    free(factors);
    return st;
}

cdz_status cdz_bnb_read(const cdz_bnb *b, const cdz_tensor *weight, size_t n, size_t k,
                        cdz_weight *out)
{
    *out = (cdz_weight){.n = n, .k = k};
    return strcmp(weight->dtype, "I8") == 0 ? read_eight(b, weight, out) : read_four(b, weight, out);
}
