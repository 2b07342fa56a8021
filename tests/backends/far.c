/* far.c - a device for tests: the CPU's backend, but its memory is nobody else's.
 *
 * Everything from alloc and place lies in one range of addresses that nobody may read or write: a host that touches it
 * crashes. The same memory is mapped once more where the backend itself reaches it. The other way round, an operand that has to be on the device and is not ends the process with a
 * sentence. What is computed is what the CPU computes, bit for bit. FAR_MEMORY bytes of memory, 512 MiB unless said; with
 * FAR_NO_MASKS it takes no masks of scores. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend_abi.h"
#include "cadenza/base.h"

enum { N_DEVICES = 2, PIECES = 1 << 15, MOST_PRODUCTS = 8, MOST_RUNS = 512 };
static const size_t RANGE = (size_t)1 << 36; /* addresses; none is used twice */

typedef struct piece {
    char *at;
    size_t bytes;
} piece;

/* A copy that has not arrived; its bytes follow. */
typedef struct bringing {
    struct bringing *next;
    uint64_t ticket;
    void *to;
    size_t bytes;
} bringing;

typedef struct far {
    cdz_backend base; /* first */
    cdz_backend_api api;
    cdz_backend *cpu;
    char *range, *own; /* the same memory, closed and open */
    int fd;
    size_t top; /* of the range: handed out so far */
    piece pieces[PIECES];
    uint32_t n;
    size_t used, limit;
    bringing *bringing;
    uint64_t tickets;
    char device[64];
} far;

static far *of(cdz_backend *b)
{
    return (far *)b;
}

static const far *of_const(const cdz_backend *b)
{
    return (const far *)b;
}

/* --- the range ------------------------------------------------------------------------------------------------------ */

static bool there(const far *f, const void *p)
{
    const char *at = p;
    return at >= f->range && at < f->range + f->top;
}

static void must(const far *f, bool good, const char *call, const char *operand)
{
    if (good) return;
    fprintf(stderr, "%s: %s: %s is in the wrong memory\n", f->device, call, operand);
    abort();
}

static void on_device(const far *f, const void *p, const char *call, const char *operand)
{
    must(f, !p || there(f, p), call, operand);
}

static void on_host(const far *f, const void *p, const char *call, const char *operand)
{
    must(f, !there(f, p), call, operand);
}

static void weight_on_device(const far *f, const cdz_weight *w, const char *call)
{
    if (w) on_device(f, w->data, call, "a weight");
}

/* Where the backend reaches it. */
static void *reach(const far *f, const void *p)
{
    return p && there(f, p) ? f->own + ((const char *)p - f->range) : NULL;
}

static float *floats(const far *f, const float *p)
{
    return reach(f, p);
}

static cdz_weight weight(const far *f, const cdz_weight *w)
{
    cdz_weight reached = w ? *w : (cdz_weight){0};
    reached.data = reach(f, reached.data);
    return reached;
}

static size_t pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static void *take(far *f, size_t bytes)
{
    const size_t room = pages(bytes ? bytes : 1);
    if (room > f->limit - f->used || room > RANGE - f->top || f->n == PIECES) return NULL;
    char *at = f->range + f->top;
    f->pieces[f->n++] = (piece){at, room};
    f->top += room;
    f->used += room;
    return at;
}

static void give_back(far *f, const void *memory)
{
    if (!memory) return;
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->pieces[i].at != memory) continue;
        f->used -= f->pieces[i].bytes;
        madvise(reach(f, memory), f->pieces[i].bytes, MADV_REMOVE);
        f->pieces[i] = f->pieces[--f->n];
        return;
    }
    must(f, false, "free", "what was given back");
}

/* --- memory --------------------------------------------------------------------------------------------------------- */

static void *far_alloc(cdz_backend *b, size_t bytes)
{
    return take(of(b), bytes); /* fresh pages are zero */
}

static void far_free(cdz_backend *b, void *memory)
{
    give_back(of(b), memory);
}

static void far_sync(cdz_backend *b)
{
    (void)b;
}

static uint32_t far_n_threads(const cdz_backend *b)
{
    (void)b;
    return 1;
}

static bool far_takes_type(const cdz_backend *b, cdz_dtype dtype)
{
    const far *f = of_const(b);
    return f->cpu->api->takes_type(f->cpu, dtype);
}

static bool far_takes_int8(const cdz_backend *b, cdz_dtype dtype)
{
    (void)b, (void)dtype;
    return false;
}

static void far_upload(cdz_backend *b, void *to, const void *from, size_t bytes)
{
    far *f = of(b);
    on_device(f, to, "upload", "to");
    on_host(f, from, "upload", "from");
    memcpy(reach(f, to), from, bytes);
}

static void far_download(cdz_backend *b, void *to, const void *from, size_t bytes)
{
    far *f = of(b);
    on_host(f, to, "download", "to");
    on_device(f, from, "download", "from");
    memcpy(to, reach(f, from), bytes);
}

/* What comes is what is there now; until it has arrived there is nothing but NaN. */
static uint64_t far_bring(cdz_backend *b, void *to, const void *from, size_t bytes)
{
    far *f = of(b);
    on_host(f, to, "bring", "to");
    on_device(f, from, "bring", "from");
    bringing *one = malloc(sizeof *one + bytes);
    must(f, one, "bring", "a copy");
    *one = (bringing){f->bringing, ++f->tickets, to, bytes};
    memcpy(one + 1, reach(f, from), bytes);
    memset(to, 0xff, bytes);
    f->bringing = one;
    return one->ticket;
}

static void far_arrive(cdz_backend *b, uint64_t ticket)
{
    for (bringing **at = &of(b)->bringing; *at; at = &(*at)->next) {
        bringing *one = *at;
        if (one->ticket != ticket) continue;
        memcpy(one->to, one + 1, one->bytes);
        *at = one->next;
        free(one);
        return;
    }
}

static void far_copy(cdz_backend *b, void *to, const void *from, size_t bytes)
{
    far *f = of(b);
    on_device(f, to, "copy", "to");
    on_device(f, from, "copy", "from");
    memmove(reach(f, to), reach(f, from), bytes);
}

static void far_clear(cdz_backend *b, void *to, size_t bytes)
{
    far *f = of(b);
    on_device(f, to, "clear", "to");
    memset(reach(f, to), 0, bytes);
}

static const void *far_place(cdz_backend *b, const void *data, size_t bytes)
{
    void *at = take(of(b), bytes);
    if (at) far_upload(b, at, data, bytes);
    return at;
}

static void far_unplace(cdz_backend *b, const void *placed)
{
    give_back(of(b), placed);
}

static void far_memory(const cdz_backend *b, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = of_const(b)->limit - of_const(b)->used;
    *total_bytes = of_const(b)->limit;
}

/* --- operations ----------------------------------------------------------------------------------------------------- */

static void far_matmul(cdz_backend *b, const cdz_product *products, size_t n, const float *x,
                       size_t ldx, size_t m)
{
    far *f = of(b);
    on_device(f, x, "matmul", "x");
    cdz_product reached[MOST_PRODUCTS];
    cdz_weight w[MOST_PRODUCTS], bias[MOST_PRODUCTS];
    must(f, n <= MOST_PRODUCTS, "matmul", "a set of so many products");
    for (size_t i = 0; i < n; i++) {
        weight_on_device(f, products[i].w, "matmul");
        weight_on_device(f, products[i].bias, "matmul");
        on_device(f, products[i].y, "matmul", "y");
        must(f, products[i].w->form == CDZ_WEIGHT_ROWS, "matmul", "a form for int8");
        w[i] = weight(f, products[i].w);
        bias[i] = weight(f, products[i].bias);
        reached[i] = (cdz_product){&w[i], products[i].bias ? &bias[i] : NULL,
                                   floats(f, products[i].y), products[i].ldy};
    }
    cdz_backend *cpu = f->cpu;
    cpu->api->matmul(cpu, reached, n, floats(f, x), ldx, m);
    cpu->api->sync(cpu);
}

static void far_embed(cdz_backend *b, float *y, size_t ldy, const cdz_weight *table,
                      const int32_t *ids, size_t m)
{
    far *f = of(b);
    on_device(f, y, "embed", "y");
    weight_on_device(f, table, "embed");
    on_host(f, ids, "embed", "ids");
    cdz_backend *cpu = f->cpu;
    const cdz_weight t = weight(f, table);
    cpu->api->embed(cpu, floats(f, y), ldy, &t, ids, m);
    cpu->api->sync(cpu);
}

static void far_rmsnorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                        const cdz_weight *w, float eps, float offset)
{
    far *f = of(b);
    on_device(f, y, "rmsnorm", "y");
    on_device(f, x, "rmsnorm", "x");
    weight_on_device(f, w, "rmsnorm");
    cdz_backend *cpu = f->cpu;
    const cdz_weight factor = weight(f, w);
    cpu->api->rmsnorm(cpu, floats(f, y), ldy, floats(f, x), ldx, m, &factor, eps, offset);
    cpu->api->sync(cpu);
}

static void far_layernorm(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
                          size_t m, const cdz_weight *w, const cdz_weight *bias, float eps)
{
    far *f = of(b);
    on_device(f, y, "layernorm", "y");
    on_device(f, x, "layernorm", "x");
    weight_on_device(f, w, "layernorm");
    weight_on_device(f, bias, "layernorm");
    cdz_backend *cpu = f->cpu;
    const cdz_weight factor = weight(f, w), term = weight(f, bias);
    cpu->api->layernorm(cpu, floats(f, y), ldy, floats(f, x), ldx, m, &factor, bias ? &term : NULL,
                        eps);
    cpu->api->sync(cpu);
}

static void far_rope(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n_heads,
                     size_t head_dim, const uint32_t *positions, const cdz_rope *rope)
{
    far *f = of(b);
    on_device(f, x, "rope", "x");
    on_host(f, positions, "rope", "positions");
    on_host(f, rope->inv_freq, "rope", "inv_freq");
    cdz_backend *cpu = f->cpu;
    cpu->api->rope(cpu, floats(f, x), ldx, m, n_heads, head_dim, positions, rope);
    cpu->api->sync(cpu);
}

static void far_silu_mul(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                         size_t ldg, size_t m, size_t n)
{
    far *f = of(b);
    on_device(f, y, "silu_mul", "y");
    on_device(f, gate, "silu_mul", "gate");
    on_device(f, up, "silu_mul", "up");
    cdz_backend *cpu = f->cpu;
    cpu->api->silu_mul(cpu, floats(f, y), ldy, floats(f, gate), floats(f, up), ldg, m, n);
    cpu->api->sync(cpu);
}

static void far_clamped_mul(cdz_backend *b, float *y, size_t ldy, const float *gate,
                            const float *up, size_t ldg, size_t m, size_t n)
{
    far *f = of(b);
    on_device(f, y, "clamped_mul", "y");
    on_device(f, gate, "clamped_mul", "gate");
    on_device(f, up, "clamped_mul", "up");
    cdz_backend *cpu = f->cpu;
    cpu->api->clamped_mul(cpu, floats(f, y), ldy, floats(f, gate), floats(f, up), ldg, m, n);
    cpu->api->sync(cpu);
}

static void far_xielu(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                      size_t n, const cdz_xielu *how)
{
    far *f = of(b);
    on_device(f, y, "xielu", "y");
    on_device(f, x, "xielu", "x");
    cdz_backend *cpu = f->cpu;
    cpu->api->xielu(cpu, floats(f, y), ldy, floats(f, x), ldx, m, n, how);
    cpu->api->sync(cpu);
}

static void far_activate(cdz_backend *b, float *y, size_t ldy, const float *gate, const float *up,
                         size_t ldg, size_t m, size_t n, cdz_curve curve)
{
    far *f = of(b);
    on_device(f, y, "activate", "y");
    on_device(f, gate, "activate", "gate");
    on_device(f, up, "activate", "up");
    cdz_backend *cpu = f->cpu;
    cpu->api->activate(cpu, floats(f, y), ldy, floats(f, gate), floats(f, up), ldg, m, n, curve);
    cpu->api->sync(cpu);
}

static void far_add(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx, size_t m,
                    size_t n)
{
    far *f = of(b);
    on_device(f, y, "add", "y");
    on_device(f, x, "add", "x");
    cdz_backend *cpu = f->cpu;
    cpu->api->add(cpu, floats(f, y), ldy, floats(f, x), ldx, m, n);
    cpu->api->sync(cpu);
}

/* An operation on a matrix in place, with one number. */
static void in_place(cdz_backend *b, const char *call,
                     void (*run)(cdz_backend *, float *, size_t, size_t, size_t, float), float *x,
                     size_t ldx, size_t m, size_t n, float number)
{
    far *f = of(b);
    on_device(f, x, call, "x");
    run(f->cpu, floats(f, x), ldx, m, n, number);
    f->cpu->api->sync(f->cpu);
}

static void far_scale(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float factor)
{
    in_place(b, "scale", of(b)->cpu->api->scale, x, ldx, m, n, factor);
}

static void far_soft_cap(cdz_backend *b, float *x, size_t ldx, size_t m, size_t n, float cap)
{
    in_place(b, "soft_cap", of(b)->cpu->api->soft_cap, x, ldx, m, n, cap);
}

static void far_route(cdz_backend *b, float *weights, int32_t *ids, size_t k, const float *scores,
                      size_t lds, size_t m, size_t n, bool normalise)
{
    far *f = of(b);
    on_host(f, weights, "route", "weights");
    on_host(f, ids, "route", "ids");
    on_device(f, scores, "route", "scores");
    cdz_backend *cpu = f->cpu;
    cpu->api->route(cpu, weights, ids, k, floats(f, scores), lds, m, n, normalise);
    cpu->api->sync(cpu);
}

static void far_add_scaled(cdz_backend *b, float *y, size_t ldy, const int32_t *to,
                           const float *factors, const float *x, size_t ldx, size_t m, size_t n)
{
    far *f = of(b);
    on_device(f, y, "add_scaled", "y");
    on_host(f, to, "add_scaled", "to");
    on_host(f, factors, "add_scaled", "factors");
    on_device(f, x, "add_scaled", "x");
    cdz_backend *cpu = f->cpu;
    cpu->api->add_scaled(cpu, floats(f, y), ldy, to, factors, floats(f, x), ldx, m, n);
    cpu->api->sync(cpu);
}

/* As host/vec has it: any NaN is above all numbers. */
static int32_t best_of(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n && x[best] == x[best]; i++)
        if (x[i] > x[best] || x[i] != x[i]) best = i;
    return (int32_t)best;
}

static void far_argmax(cdz_backend *b, int32_t *ids, const float *x, size_t ldx, size_t m, size_t n)
{
    const far *f = of(b);
    on_host(f, ids, "argmax", "ids");
    on_device(f, x, "argmax", "x");
    for (size_t r = 0; r < m; r++) ids[r] = best_of(floats(f, x) + r * ldx, n);
}

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static bool any_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != x[i]) return true;
    return false;
}

/* The row as its mask leaves it, in `room` if it has one. */
static const float *masked(const cdz_leaders *row, const float *x, size_t n, float *room)
{
    if (!row->kept) return x;
    for (size_t i = 0; i < n; i++) room[i] = row->kept[i / 64] >> (i % 64) & 1 ? x[i] : -INFINITY;
    return room;
}

/* `sorted`: room for the row. */
static void lead_row(cdz_leaders *row, const float *x, size_t n, float *sorted)
{
    row->n = CDZ_LEADERS_MOST + 1;
    if (any_nan(x, n)) return;
    memcpy(sorted, x, n * sizeof *x);
    qsort(sorted, n, sizeof *sorted, falling);
    const bool part = row->least < n && sorted[row->least] > -FLT_MAX;
    row->low = part ? sorted[row->least - 1] - fabsf(sorted[row->least - 1]) * 1e-6f : -FLT_MAX;
    row->n = 0;
    row->mass = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (row->divisor != 0.0f)
            row->mass += exp((double)(x[i] / row->divisor - sorted[0] / row->divisor));
        if (x[i] < row->low || row->n > CDZ_LEADERS_MOST) continue;
        if (row->n < CDZ_LEADERS_MOST) {
            row->ids[row->n] = (int32_t)i;
            row->x[row->n] = x[i];
        }
        row->n++;
    }
}

static void far_leaders(cdz_backend *b, cdz_leaders *rows, const float *x, size_t ldx, size_t m,
                        size_t n)
{
    const far *f = of(b);
    on_host(f, rows, "leaders", "rows");
    on_device(f, x, "leaders", "x");
    float *sorted = malloc(2 * n * sizeof *sorted);
    must(f, sorted, "leaders", "a row");
    for (size_t r = 0; r < m; r++) {
        if (rows[r].least == 0) continue;
        on_host(f, rows[r].ids, "leaders", "ids");
        on_host(f, rows[r].x, "leaders", "x of a list");
        if (rows[r].n_edited) on_host(f, rows[r].edited, "leaders", "edited ids");
        if (rows[r].n_edited) on_host(f, rows[r].was, "leaders", "edited scores");
        for (uint32_t i = 0; i < rows[r].n_edited; i++)
            rows[r].was[i] = floats(f, x)[r * ldx + (size_t)rows[r].edited[i]];
        if (rows[r].kept) on_host(f, rows[r].kept, "leaders", "a mask");
        lead_row(&rows[r], masked(&rows[r], floats(f, x) + r * ldx, n, sorted + n), n, sorted);
    }
    free(sorted);
}

/* --- keys and values: nobody but the backend can reach them anyway --------------------------------------------------- */

/* Counted as taken; the CPU's own memory is. */
typedef struct far_kv {
    cdz_kv *kv;
    size_t bytes;
} far_kv;

static far_kv *kv_of(const cdz_kv *kv)
{
    return (far_kv *)(uintptr_t)kv;
}

static size_t far_kv_block_bytes(cdz_backend *b, const cdz_kv_shape *shape)
{
    cdz_backend *cpu = of(b)->cpu;
    return cpu->api->kv_block_bytes(cpu, shape);
}

static cdz_kv *far_kv_create(cdz_backend *b, const cdz_kv_shape *shape, size_t n_blocks)
{
    far *f = of(b);
    size_t bytes;
    far_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    const size_t block = far_kv_block_bytes(b, shape);
    if (!__builtin_mul_overflow(block, n_blocks, &bytes) && bytes <= f->limit - f->used)
        kv->kv = f->cpu->api->kv_create(f->cpu, shape, n_blocks);
    if (!kv->kv) {
        free(kv);
        return NULL;
    }
    kv->bytes = bytes;
    f->used += bytes;
    return (cdz_kv *)kv;
}

static void far_kv_destroy(cdz_backend *b, cdz_kv *kv)
{
    if (!kv) return;
    far *f = of(b);
    f->cpu->api->kv_destroy(f->cpu, kv_of(kv)->kv);
    f->used -= kv_of(kv)->bytes;
    free(kv_of(kv));
}

static void far_kv_copy(cdz_backend *b, cdz_kv *kv, int32_t to, int32_t from)
{
    cdz_backend *cpu = of(b)->cpu;
    cpu->api->kv_copy(cpu, kv_of(kv)->kv, to, from);
}

static void far_kv_read(cdz_backend *b, const cdz_kv *kv, int32_t block, void *to)
{
    cdz_backend *cpu = of(b)->cpu;
    on_host(of(b), to, "kv_read", "to");
    cpu->api->kv_read(cpu, kv_of(kv)->kv, block, to);
}

static void far_kv_restore(cdz_backend *b, cdz_kv *kv, int32_t block, const void *from)
{
    cdz_backend *cpu = of(b)->cpu;
    on_host(of(b), from, "kv_restore", "from");
    cpu->api->kv_restore(cpu, kv_of(kv)->kv, block, from);
}

static void rows_on_host(const far *f, const cdz_kv_row *rows, size_t m, const char *call)
{
    on_host(f, rows, call, "rows");
    for (size_t i = 0; i < m; i++) on_host(f, rows[i].blocks, call, "blocks");
}

static void far_kv_write(cdz_backend *b, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                         const float *v, size_t ldv, const cdz_kv_row *rows, size_t m)
{
    far *f = of(b);
    on_device(f, k, "kv_write", "k");
    on_device(f, v, "kv_write", "v");
    rows_on_host(f, rows, m, "kv_write");
    cdz_backend *cpu = f->cpu;
    cpu->api->kv_write(cpu, kv_of(kv)->kv, layer, floats(f, k), ldk, floats(f, v), ldv, rows, m);
    cpu->api->sync(cpu);
}

static void far_attention(cdz_backend *b, float *out, size_t ldo, const float *q, size_t ldq,
                          const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                          const cdz_attention *how)
{
    far *f = of(b);
    on_device(f, out, "attention", "out");
    on_device(f, q, "attention", "q");
    on_device(f, how->bias, "attention", "bias");
    on_device(f, how->sinks, "attention", "sinks");
    rows_on_host(f, rows, m, "attention");
    cdz_backend *cpu = f->cpu;
    cdz_attention reached = *how;
    reached.bias = floats(f, how->bias);
    reached.sinks = floats(f, how->sinks);
    cpu->api->attention(cpu, floats(f, out), ldo, floats(f, q), ldq, kv_of(kv)->kv, layer, rows, m,
                        &reached);
    cpu->api->sync(cpu);
}

static void far_attention_weights(cdz_backend *b, float *out, size_t ldo, const float *q,
                                  const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                                  const cdz_attention *how)
{
    far *f = of(b);
    on_host(f, out, "attention_weights", "out");
    on_device(f, q, "attention_weights", "q");
    on_device(f, how->bias, "attention_weights", "bias");
    on_device(f, how->sinks, "attention_weights", "sinks");
    rows_on_host(f, row, 1, "attention_weights");
    cdz_backend *cpu = f->cpu;
    cdz_attention reached = *how;
    reached.bias = floats(f, how->bias);
    reached.sinks = floats(f, how->sinks);
    cpu->api->attention_weights(cpu, out, ldo, floats(f, q), kv_of(kv)->kv, layer, row, &reached);
    cpu->api->sync(cpu);
}

/* --- recurrent layers ------------------------------------------------------------------------------------------------ */

static const cdz_state_run *reach_runs(const far *f, cdz_state_run *reached,
                                       const cdz_state_run *runs, size_t n, const char *call)
{
    on_host(f, runs, call, "runs");
    must(f, n <= MOST_RUNS, call, "a set of so many runs");
    for (size_t i = 0; i < n; i++) {
        on_device(f, runs[i].state, call, "a state");
        reached[i] = (cdz_state_run){runs[i].first, runs[i].n, floats(f, runs[i].state)};
    }
    return reached;
}

/* The operand where the backend reaches it. */
static const float *reach_operand(const far *f, const float *p, const char *call, const char *name)
{
    on_device(f, p, call, name);
    return floats(f, p);
}

static void far_conv(cdz_backend *b, float *y, size_t ldy, const float *x, size_t ldx,
                     const cdz_state_run *runs, size_t n_runs, const cdz_conv *how)
{
    far *f = of(b);
    on_device(f, y, "conv", "y");
    on_device(f, x, "conv", "x");
    cdz_state_run there[MOST_RUNS];
    cdz_conv reached = *how;
    reached.w = reach_operand(f, how->w, "conv", "w");
    reached.bias = reach_operand(f, how->bias, "conv", "bias");
    reached.in_gate = reach_operand(f, how->in_gate, "conv", "in_gate");
    reached.out_gate = reach_operand(f, how->out_gate, "conv", "out_gate");
    f->cpu->api->conv(f->cpu, floats(f, y), ldy, floats(f, x), ldx,
                      reach_runs(f, there, runs, n_runs, "conv"), n_runs, &reached);
    f->cpu->api->sync(f->cpu);
}

static void far_recur(cdz_backend *b, float *y, size_t ldy, const cdz_state_run *runs,
                      size_t n_runs, const cdz_recurrence *how)
{
    far *f = of(b);
    on_device(f, y, "recur", "y");
    cdz_state_run there[MOST_RUNS];
    cdz_recurrence reached = *how;
    reached.rate = reach_operand(f, how->rate, "recur", "rate");
    reached.shift = reach_operand(f, how->shift, "recur", "shift");
    reached.skip = reach_operand(f, how->skip, "recur", "skip");
    reached.k = reach_operand(f, how->k, "recur", "k");
    reached.q = reach_operand(f, how->q, "recur", "q");
    reached.v = reach_operand(f, how->v, "recur", "v");
    reached.a = reach_operand(f, how->a, "recur", "a");
    reached.b = reach_operand(f, how->b, "recur", "b");
    f->cpu->api->recur(f->cpu, floats(f, y), ldy, reach_runs(f, there, runs, n_runs, "recur"),
                       n_runs, &reached);
    f->cpu->api->sync(f->cpu);
}

static void far_parallel(cdz_backend *b, void (*task)(void *arg, size_t i), void *arg, size_t n)
{
    (void)b;
    for (size_t i = 0; i < n; i++) task(arg, i);
}

/* --- made and unmade ------------------------------------------------------------------------------------------------ */

static void far_destroy(cdz_backend *b)
{
    if (!b) return;
    far *f = of(b);
    if (f->n)
        fprintf(stderr, "%s: %" PRIu32 " pieces of memory were not given back\n", f->device, f->n);
    if (f->bringing) fprintf(stderr, "%s: nobody waited for a copy\n", f->device);
    const bool leaks = f->n > 0 || f->bringing;
    f->cpu->api->destroy(f->cpu);
    munmap(f->range, RANGE);
    munmap(f->own, RANGE);
    close(f->fd);
    free(f);
    if (leaks) abort();
}

static const cdz_backend_api operations = {
    .size = sizeof(cdz_backend_api),
    .name = "far",
    .variant = "far",
    .host_memory = false,
    .alloc = far_alloc,
    .free = far_free,
    .sync = far_sync,
    .n_threads = far_n_threads,
    .upload = far_upload,
    .download = far_download,
    .copy = far_copy,
    .clear = far_clear,
    .bring = far_bring,
    .arrive = far_arrive,
    .place = far_place,
    .unplace = far_unplace,
    .memory = far_memory,
    .takes_int8 = far_takes_int8,
    .takes_sinks = true,
    .takes_latents = true,
    .takes_masks = true,
    .takes_type = far_takes_type,
    .matmul = far_matmul,
    .embed = far_embed,
    .rmsnorm = far_rmsnorm,
    .layernorm = far_layernorm,
    .rope = far_rope,
    .silu_mul = far_silu_mul,
    .clamped_mul = far_clamped_mul,
    .xielu = far_xielu,
    .activate = far_activate,
    .add = far_add,
    .scale = far_scale,
    .soft_cap = far_soft_cap,
    .route = far_route,
    .add_scaled = far_add_scaled,
    .argmax = far_argmax,
    .leaders = far_leaders,
    .kv_create = far_kv_create,
    .kv_destroy = far_kv_destroy,
    .kv_block_bytes = far_kv_block_bytes,
    .kv_copy = far_kv_copy,
    .kv_read = far_kv_read,
    .kv_restore = far_kv_restore,
    .kv_write = far_kv_write,
    .attention = far_attention,
    .attention_weights = far_attention_weights,
    .conv = far_conv,
    .recur = far_recur,
    .parallel = far_parallel,
    .destroy = far_destroy,
};

static size_t memory_wished(void)
{
    const char *text = getenv("FAR_MEMORY");
    const unsigned long long n = text ? strtoull(text, NULL, 10) : 0;
    return n ? (size_t)n : (size_t)512 << 20;
}

/* One piece of memory at two places. */
static bool map(far *f)
{
    f->fd = memfd_create("far", MFD_CLOEXEC);
    if (f->fd < 0 || ftruncate(f->fd, (off_t)RANGE) != 0) return false;
    f->range = mmap(NULL, RANGE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, f->fd, 0);
    f->own = mmap(NULL, RANGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, f->fd, 0);
    return f->range != MAP_FAILED && f->own != MAP_FAILED;
}

static cdz_backend *far_create(const cdz_device_options *options, char *why, size_t why_bytes)
{
    far *f = calloc(1, sizeof *f);
    const cdz_cpu_options cpu = {.n_threads = 1};
    if (f) f->cpu = cdz_cpu_backend_create(&cpu, why, why_bytes);
    if (!f || !f->cpu || !map(f)) { /* what was mapped goes with the process that asked in vain */
        if (f && f->cpu) f->cpu->api->destroy(f->cpu);
        free(f);
        snprintf(why, why_bytes, "out of memory");
        return NULL;
    }
    f->limit = memory_wished();
    snprintf(f->device, sizeof f->device, "far:%d a far place", options->device);
    f->api = operations;
    f->api.device = f->device;
    f->api.takes_masks = !getenv("FAR_NO_MASKS");
    f->base.api = &f->api;
    return &f->base;
}

static int far_count(char *why, size_t why_bytes)
{
    if (!getenv("FAR_NONE")) return N_DEVICES;
    snprintf(why, why_bytes, "there is nothing far from here");
    return 0;
}

static void far_describe(int device, cdz_device_info *info)
{
    (void)device;
    snprintf(info->name, sizeof info->name, "a far place");
    snprintf(info->capability, sizeof info->capability, "of capability 1");
    info->free_bytes = info->total_bytes = memory_wished();
}

CDZ_EXPORT cdz_backend_entry_fn cadenza_backend;

const cdz_backend_entry *cadenza_backend(void)
{
    static const cdz_backend_entry entry = {
        .size = sizeof entry,
#ifdef FAR_INTERFACE
        .interface = FAR_INTERFACE,
#else
        .interface = CDZ_BACKEND_INTERFACE,
#endif
#ifdef FAR_API_SIZE
        .api_size = FAR_API_SIZE,
#else
        .api_size = sizeof(cdz_backend_api),
#endif
#ifdef FAR_BUILD
        .build = FAR_BUILD,
#else
        .build = CDZ_BACKEND_BUILD,
#endif
        .name = "far",
        .count = far_count,
        .describe = far_describe,
        .create = far_create,
    };
    return &entry;
}
