/* attention.cu - the key-value store on the device, and how an attention call is cut into items.
 *
 * What a call's rows say goes to the device as one small thing: rows, block lists, items. All layers of a
 * pass give the same rows, so it is copied once a pass (and kind of window). */
#include "attention.cuh"
#include "cuda_backend.h"

#include <stdlib.h>

static constexpr size_t PARTIAL_BYTES = (size_t)64 << 20;

struct cdz_kv {
    cdz_kv_shape shape;
    size_t n_blocks, block_bytes;
    uint8_t *memory;
};

/* ---- the store ---- */

/* 0 when the shape is empty or does not fit. */
size_t cuda_kv_block_bytes(cdz_backend *, const cdz_kv_shape *shape)
{
    size_t n;
    if (shape->type >= CDZ_N_KV || shape->head_dim % cdz_dtype_block(shape->type)) return 0;
    if (shape->value_dim > shape->head_dim || (shape->value_dim && shape->type >= CDZ_N_PLAIN))
        return 0;
    if (__builtin_mul_overflow(shape->n_layers, shape->n_kv_heads, &n)) return 0;
    if (__builtin_mul_overflow(n, shape->head_dim, &n)) return 0;
    if (__builtin_mul_overflow(n, (size_t)(shape->value_dim ? 1 : 2) * CDZ_KV_BLOCK, &n)) return 0;
    return n > SIZE_MAX / sizeof(float) ? 0 : cdz_row_bytes(shape->type, n);
}

cdz_kv *cuda_kv_create(cdz_backend *base, const cdz_kv_shape *shape, size_t n_blocks)
{
    const size_t block_bytes = cuda_kv_block_bytes(base, shape);
    size_t bytes;
    if (block_bytes == 0 || n_blocks == 0 || n_blocks > INT32_MAX) return nullptr;
    if (attend_shared(1, shape->head_dim) > ((size_t)48 << 10)) return nullptr;
    if (__builtin_mul_overflow(block_bytes, n_blocks, &bytes)) return nullptr;
    cdz_kv *kv = static_cast<cdz_kv *>(calloc(1, sizeof *kv));
    if (!kv) return nullptr;
    *kv = {*shape, n_blocks, block_bytes, static_cast<uint8_t *>(cuda_alloc(base, bytes))};
    if (kv->memory) return kv;
    free(kv);
    return nullptr;
}

void cuda_kv_destroy(cdz_backend *base, cdz_kv *kv)
{
    if (!kv) return;
    cuda_free(base, kv->memory);
    free(kv);
}

void cuda_kv_copy(cdz_backend *base, cdz_kv *kv, int32_t to, int32_t from)
{
    const size_t bytes = kv->block_bytes;
    gpu_within(cuda_of(base)->g, kv->memory + (size_t)to * bytes, kv->memory + (size_t)from * bytes,
               bytes);
}

static kv_view view_of(const cdz_kv *kv, size_t layer)
{
    const cdz_kv_shape *s = &kv->shape;
    const bool latents = s->value_dim;
    const size_t keys_bytes = CDZ_KV_BLOCK * cdz_row_bytes(s->type, s->head_dim);
    return {kv->memory,
            kv->block_bytes,
            (latents ? 1 : 2) * keys_bytes,
            keys_bytes,
            s->n_kv_heads,
            s->head_dim,
            layer,
            latents ? s->value_dim : s->head_dim,
            latents,
            s->type};
}

/* ---- what rows say ---- */

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static uint32_t end_of(const cdz_kv_row *row)
{
    return row->position + 1 + row->ahead;
}

/* Rows from `row` on that share its list of blocks. */
static size_t run_length(const cdz_kv_row *rows, size_t m, size_t row)
{
    size_t n = 1;
    while (row + n < m && rows[row + n].blocks == rows[row].blocks) n++;
    return n;
}

static size_t blocks_of_run(const cdz_kv_row *rows, size_t row, size_t n)
{
    uint32_t end = 0;
    for (size_t r = row; r < row + n; r++)
        if (end_of(&rows[r]) > end) end = end_of(&rows[r]);
    return ceil_div(end, CDZ_KV_BLOCK);
}

/* Counts and, with a place for them, writes the rows and their lists; returns how many blocks are listed. */
static size_t list_rows(const cdz_kv_row *rows, size_t m, device_row *to, int32_t *blocks)
{
    size_t listed = 0;
    for (size_t row = 0, n; row < m; row += n) {
        n = run_length(rows, m, row);
        const size_t count = blocks_of_run(rows, row, n);
        if (blocks) memcpy(blocks + listed, rows[row].blocks, count * sizeof *blocks);
        for (size_t r = row; to && r < row + n; r++)
            to[r] = {rows[r].position, end_of(&rows[r]), (uint32_t)listed};
        listed += count;
    }
    return listed;
}

/* Rows and lists on the device: rows first. */
static bool rows_on_device(cuda_backend *b, const cdz_kv_row *rows, size_t m,
                           const device_row **there, const int32_t **blocks)
{
    const size_t listed = list_rows(rows, m, nullptr, nullptr);
    const size_t bytes = m * sizeof(device_row) + listed * sizeof(int32_t);
    char *scratch = cuda_scratch(b, bytes);
    if (!scratch) return false;
    list_rows(rows, m, reinterpret_cast<device_row *>(scratch),
              reinterpret_cast<int32_t *>(scratch + m * sizeof(device_row)));
    const char *at = static_cast<const char *>(cuda_on_device(b, CUDA_ROWS, scratch, bytes));
    *there = reinterpret_cast<const device_row *>(at);
    *blocks = reinterpret_cast<const int32_t *>(at + m * sizeof(device_row));
    return at;
}

void cuda_kv_write(cdz_backend *base, cdz_kv *kv, size_t layer, const float *k, size_t ldk,
                   const float *v, size_t ldv, const cdz_kv_row *rows, size_t m)
{
    cuda_backend *b = cuda_of(base);
    const device_row *there;
    const int32_t *blocks;
    if (m == 0 || !rows_on_device(b, rows, m, &there, &blocks)) return;
    gpu_launch(b->g, "kv_store", kv_store, {m, 256, 0}, view_of(kv, layer), there, blocks, k, ldk,
               v, ldv);
}

/* ---- items ---- */

/* How a call is cut. Items are counted before they are written: `items` may be NULL. */
struct cutting {
    const cdz_kv_row *rows;
    size_t m, n_kv_heads, group, height, window;
    bool split;
    attend_item *items, *merges;
    size_t n_items, n_merges, n_slots;
};

static uint32_t span_of(const cutting *c, uint32_t position)
{
    const uint32_t window = (uint32_t)c->window;
    return (window && position >= window ? position - window + 1 : 0) / SPAN;
}

/* One tile of queries: an item over all its spans, or one for each and a merge. */
static void cut_tile(cutting *c, size_t row, size_t first, size_t n)
{
    const size_t from = row + first / c->group, to = row + (first + n - 1) / c->group;
    uint32_t begin = UINT32_MAX, end = 0;
    for (size_t r = from; r <= to; r++) {
        const uint32_t span = span_of(c, c->rows[r].position);
        const uint32_t last = (uint32_t)ceil_div(end_of(&c->rows[r]), SPAN);
        if (span < begin) begin = span;
        if (last > end) end = last;
    }
    attend_item item = {(uint32_t)row, (uint32_t)first, (uint32_t)n, begin, end - begin, NO_SLOT};
    if (!c->split || end - begin < 2) {
        if (c->items) c->items[c->n_items] = item;
        c->n_items++;
        return;
    }
    item.slot = (uint32_t)c->n_slots;
    if (c->merges) c->merges[c->n_merges] = item;
    c->n_merges++;
    for (uint32_t span = begin; span < end; span++) {
        if (c->items)
            c->items[c->n_items] = {item.row, item.first, item.n, span, 1, (uint32_t)c->n_slots};
        c->n_items++;
        c->n_slots++;
    }
}

static void cut(cutting *c)
{
    c->n_items = c->n_merges = c->n_slots = 0;
    for (size_t row = 0, n; row < c->m; row += n) {
        n = run_length(c->rows, c->m, row);
        const size_t queries = n * c->group;
        for (size_t q = 0; q < queries; q += c->height)
            cut_tile(c, row, q, queries - q < c->height ? queries - q : c->height);
    }
}

/* Queries of an item: as many as its shared memory holds, and no more than there are. */
static size_t item_height(const cutting *c, size_t dim)
{
    size_t most = c->m * c->group, height = ATTEND_MOST;
    for (size_t row = 0, n; row < c->m && c->m > 1; row += n) { /* the longest run */
        n = run_length(c->rows, c->m, row);
        if (row == 0 || n * c->group > most) most = n * c->group;
    }
    while (height > 1 && attend_shared(height, dim) > ((size_t)48 << 10)) height /= 2;
    while (height > 1 && height / 2 >= most) height /= 2;
    return height;
}

/* Spans get blocks of their own where the items alone would leave the device idle. No bit depends on it. */
static bool wants_split(cutting *c, int processors, size_t dim)
{
    c->split = false;
    cut(c);
    if (c->n_items * c->n_kv_heads >= (size_t)processors * 2) return false;
    c->split = true;
    cut(c);
    const size_t slot = c->n_kv_heads * ATTEND_MOST * (dim + 2) * sizeof(float);
    return c->n_slots <= PARTIAL_BYTES / slot;
}

template <int T>
static void launch_items_of(cuda_backend *b, const attend_call &call, size_t height,
                            const gpu_shape &shape)
{
    switch (height) {
    case 8: gpu_launch(b->g, "attend", attend<8, T>, shape, call); break;
    case 4: gpu_launch(b->g, "attend", attend<4, T>, shape, call); break;
    case 2: gpu_launch(b->g, "attend", attend<2, T>, shape, call); break;
    default: gpu_launch(b->g, "attend", attend<1, T>, shape, call);
    }
}

static void launch_items(cuda_backend *b, const attend_call &call, size_t height, size_t n_items)
{
    const gpu_shape shape = {n_items * call.kv.n_kv_heads, SPAN, attend_shared(height, call.kv.dim)};
    switch (call.kv.type) {
    case CDZ_F16: launch_items_of<CDZ_F16>(b, call, height, shape); break;
    case CDZ_BF16: launch_items_of<CDZ_BF16>(b, call, height, shape); break;
    case CDZ_Q8_0: launch_items_of<CDZ_Q8_0>(b, call, height, shape); break;
    case CDZ_Q4_0: launch_items_of<CDZ_Q4_0>(b, call, height, shape); break;
    default: launch_items_of<CDZ_F32>(b, call, height, shape);
    }
}

/* Rows, items, merges and lists, together one small thing. */
static char *put_together(cuda_backend *b, cutting *c, size_t *bytes, size_t *lists_at)
{
    const size_t listed = list_rows(c->rows, c->m, nullptr, nullptr);
    const size_t items_at = c->m * sizeof(device_row);
    *lists_at = items_at + (c->n_items + c->n_merges) * sizeof(attend_item);
    *bytes = *lists_at + listed * sizeof(int32_t);
    char *scratch = cuda_scratch(b, *bytes);
    if (!scratch) return nullptr;
    list_rows(c->rows, c->m, reinterpret_cast<device_row *>(scratch),
              reinterpret_cast<int32_t *>(scratch + *lists_at));
    c->items = reinterpret_cast<attend_item *>(scratch + items_at);
    c->merges = c->items + c->n_items;
    cut(c);
    return scratch;
}

static attend_call call_of(const cdz_kv *kv, size_t layer, const cdz_attention *how, const float *q,
                           size_t ldq)
{
    attend_call call = {};
    call.q = q;
    call.ldq = ldq;
    call.kv = view_of(kv, layer);
    call.sinks = how->sinks;
    call.bias = how->bias;
    call.bias_stride = how->bias_stride;
    call.bias_zero = how->bias_zero;
    call.scale = how->scale;
    call.soft_cap = how->soft_cap;
    call.window = how->window;
    call.group = (uint32_t)(how->n_heads / kv->shape.n_kv_heads);
    return call;
}

void cuda_attention(cdz_backend *base, float *out, size_t ldo, const float *q, size_t ldq,
                    const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                    const cdz_attention *how)
{
    cuda_backend *b = cuda_of(base);
    if (m == 0) return;
    attend_call call = call_of(kv, layer, how, q, ldq);
    call.out = out;
    call.ldo = ldo;
    cutting c = {
        rows, m, kv->shape.n_kv_heads, call.group, 0, how->window, false, nullptr, nullptr, 0,
        0,    0};
    c.height = item_height(&c, call.kv.dim);
    c.split = wants_split(&c, gpu_processors(b->g), call.kv.dim);
    cut(&c);

    size_t bytes, lists_at;
    const char *scratch = put_together(b, &c, &bytes, &lists_at);
    const char *at =
        scratch ? static_cast<const char *>(cuda_on_device(b, CUDA_ROWS, scratch, bytes)) : nullptr;
    if (!at) return;
    call.rows = reinterpret_cast<const device_row *>(at);
    call.items = reinterpret_cast<const attend_item *>(at + m * sizeof(device_row));
    call.blocks = reinterpret_cast<const int32_t *>(at + lists_at);
    if (c.n_slots) {
        const size_t slot = call.kv.n_kv_heads * ATTEND_MOST * (call.kv.dim + 2) * sizeof(float);
        call.partial = static_cast<float *>(cuda_work_memory(b, CUDA_WORK_RESULT, c.n_slots * slot));
        if (!call.partial) return;
    }
    launch_items(b, call, c.height, c.n_items);
    if (!c.n_merges) return;
    call.items += c.n_items;
    gpu_launch(b->g, "merge_spans", merge_spans, {c.n_merges * call.kv.n_kv_heads, SPAN, 0}, call);
}

void cuda_attention_weights(cdz_backend *base, float *out, size_t ldo, const float *q,
                            const cdz_kv *kv, size_t layer, const cdz_kv_row *row,
                            const cdz_attention *how)
{
    cuda_backend *b = cuda_of(base);
    const size_t end = end_of(row);
    attend_call call = call_of(kv, layer, how, q, 0);
    if (!rows_on_device(b, row, 1, &call.rows, &call.blocks)) return;
    float *weights = static_cast<float *>(
        cuda_work_memory(b, CUDA_WORK_RESULT, how->n_heads * end * sizeof(float)));
    if (!weights) return;
    gpu_launch(b->g, "show_weights", show_weights, {how->n_heads, SPAN, 0}, call, weights, end);
    for (size_t h = 0; h < how->n_heads; h++)
        cuda_download(base, out + h * ldo, weights + h * end, end * sizeof(float));
}
