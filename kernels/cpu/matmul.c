/* matmul.c - products of activations with weights: how they are cut in chunks, and which kernel
 * computes a chunk.
 *
 * Outputs are split, never k, so no cut can show in the result. Of few activation rows a chunk is a range of weight rows for
 * the dot kernel (up to 384 KiB of weights). From as many on as the set's lane_min_rows says it is 64 weight rows by a run of
 * packed activation tiles for the lane passes. All products of a set share one dispatch. Activations in bf16 take the same
 * ways: a pair of numbers stands for a float, of weights and activations, in half as many columns. Small products are done by
 * the caller alone, straight from its operands; that is also the way out when there is no memory for a copy of them. */
#include <string.h>

#include "cpu/blocks.h"
#include "cpu/product_set.h"
#include "ref/scalar_math.h"

enum {
    CHUNK_BYTES = 393216,  /* of weights, for the dot kernel: its far rows are 64 KiB apart */
    ROW_MULTIPLE = 12,     /* chunks of whole far-row groups: 6, 4, 3 and 2 divide it */
    DOT_ROWS = 64,         /* activation rows of one dispatch of the dot kernel */
    CHUNKS_PER_THREAD = 4, /* wanted at least */
    PACK_ALONE = 65536,    /* floats of activations that the caller packs by itself */
    MOST_HEIGHT = 12,      /* of a tile of any set */
    LEAST_PANEL = 16,      /* weight rows of a panel of any set */
    PACKED_FLOATS =
        CDZ_BLOCK_ROWS * CDZ_K_CHUNK + CDZ_BLOCK_ROWS / LEAST_PANEL * CDZ_LANES * CDZ_LANE_GAP
};

/* Operands of either kind of job, at the head of the claimed memory; parts and activations
 * follow. */
typedef struct operands {
    const cdz_kernel_set *set;
    bool bf16_pairs; /* then k, x and weights are in pairs */
    size_t m, k;
    cdz_set_part *parts;
    size_t n_parts, n_chunks;
    size_t rows;  /* weight rows of a chunk */
    float *x;     /* dot: (m, ldx) rows; lane passes: packed */
    size_t ldx;   /* dot */
    size_t tiles; /* lane passes: tiles of activation rows */
    size_t run;   /* of them in one chunk */
    size_t n_runs;
    size_t threads; /* of the pool */
} operands;

size_t cdz_matmul_scratch_bytes(void)
{
    const size_t own = CDZ_OUT_FLOATS + PACKED_FLOATS + CDZ_UNPACK_ROWS * CDZ_K_CHUNK,
                 by_parts = 2 * CDZ_PARTS_FLOATS;
    return sizeof(float) * (own > by_parts ? own : by_parts);
}

void cdz_add_bias(const cdz_kernel_set *set, float *y, size_t ldy, size_t m, const cdz_weight *bias,
                  size_t from, size_t n)
{
    float piece[256];
    for (size_t j = 0; bias->data && j < n; j += 256) {
        const size_t count = cdz_smaller(n - j, 256);
        set->widen[bias->dtype](piece, cdz_weight_at(bias, 0, from + j), count);
        for (size_t r = 0; r < m; r++) set->add(y + r * ldy + j, piece, count);
    }
}

/* ---- activations ---- */

/* n columns of a row: as they are, or twice as many rounded. */
static void copy_columns(const cdz_kernel_set *set, bool bf16_pairs, float *to, const float *x,
                         size_t n)
{
    if (bf16_pairs)
        set->round_bf16((uint16_t *)(void *)to, x, 2 * n);
    else
        memcpy(to, x, n * sizeof *x);
}

static size_t floats_of(bool bf16_pairs, size_t columns)
{
    return bf16_pairs ? 2 * columns : columns;
}

/* ---- alone ---- */

/* A piece of the k axis after the other, as much as is rounded at once; a row of weights after the other, for they have
 * no piece in common. */
static void alone_in_pairs(const cdz_kernel_set *set, const cdz_product *p, float *y, const float *x)
{
    float piece[CDZ_K_CHUNK];
    const size_t k = p->w->k;
    for (size_t from = 0; from < k; from += CDZ_K_CHUNK) {
        const size_t kc = cdz_smaller(k - from, CDZ_K_CHUNK);
        copy_columns(set, true, piece, x + 2 * from, kc);
        for (size_t j = 0; j < p->w->n; j++) {
            float sum;
            set->dot_pairs(&sum, 1, cdz_weight_at(p->w, j, from), 1, kc, piece, kc, 1);
            y[j] = from == 0 ? sum : cdz_small_to_zero(y[j] + sum);
        }
    }
}

static void alone(const cdz_kernel_set *set, bool bf16_pairs, const cdz_product *p, const float *x,
                  size_t ldx, size_t m)
{
    if (bf16_pairs)
        for (size_t r = 0; r < m; r++) alone_in_pairs(set, p, p->y + r * p->ldy, x + r * ldx);
    else
        cdz_dot_rows(set, p->w->dtype, p->y, p->ldy, p->w->data, p->w->n, p->w->k, x, ldx, m);
    if (p->bias) cdz_add_bias(set, p->y, p->ldy, m, p->bias, 0, p->w->n);
}

/* ---- what both kinds of job share ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Claims memory for n parts and x_floats of activations, and fills in the parts; every
 * `rows` weight rows of a part make `per_block` chunks. */
static operands *claim(cpu_backend *cpu, bool bf16_pairs, const cdz_product *products, size_t n,
                       size_t x_floats, size_t rows, size_t per_block)
{
    const size_t chunks = cdz_set_chunks(products, n, rows, per_block);
    const size_t head = aligned(sizeof(operands)), list = aligned(n * sizeof(cdz_set_part));
    operands *ops = cdz_pool_claim(cpu->pool, head + list + x_floats * sizeof(float), chunks);
    if (!ops) return NULL;
    char *memory = (char *)ops;
    *ops = (operands){.set = cpu->set,
                      .bf16_pairs = bf16_pairs,
                      .n_parts = n,
                      .n_chunks = chunks,
                      .rows = rows,
                      .k = products[0].w->k,
                      .parts = (cdz_set_part *)(void *)(memory + head),
                      .x = (float *)(void *)(memory + head + list)};
    cdz_set_copy(ops->parts, products, n, rows, per_block);
    return ops;
}

static const cdz_set_part *part_of(const operands *ops, size_t chunk)
{
    return cdz_set_part_of(ops->parts, ops->n_parts, chunk);
}

/* ---- dot kernel ---- */

static void dot_compute(const void *operand, size_t chunk, void *scratch)
{
    const operands *ops = operand;
    const cdz_set_part *p = part_of(ops, chunk);
    const size_t from = (chunk - p->first_chunk) * ops->rows,
                 n = cdz_smaller(ops->rows, p->w.n - from);
    const void *rows = cdz_weight_at(&p->w, from, 0);
    if (ops->bf16_pairs)
        ops->set->dot_pairs(scratch, n, rows, n, ops->k, ops->x, ops->ldx, ops->m);
    else
        cdz_dot_rows(ops->set, p->w.dtype, scratch, n, rows, n, ops->k, ops->x, ops->ldx, ops->m);
    cdz_add_bias(ops->set, scratch, n, ops->m, &p->bias, from, n);
}

static void dot_commit(const void *operand, size_t chunk, const void *scratch)
{
    const operands *ops = operand;
    const cdz_set_part *p = part_of(ops, chunk);
    const size_t from = (chunk - p->first_chunk) * ops->rows,
                 n = cdz_smaller(ops->rows, p->w.n - from);
    const float *out = scratch;
    cdz_copy_outputs(p->y + from, p->ldy, out, n, ops->m, n);
}

/* Weight rows of a chunk: by bytes, but leaving work for all threads, and whole groups of far
 * rows. */
static size_t dot_chunk_rows(const cdz_product *products, size_t n, uint32_t threads)
{
    const size_t chunks = cdz_ceil_div(cdz_set_bytes(products, n), CHUNK_BYTES),
                 wanted = (size_t)CHUNKS_PER_THREAD * threads;
    const size_t each = cdz_smaller(cdz_set_rows(products, n) / (chunks > wanted ? chunks : wanted),
                                    CDZ_OUT_FLOATS / DOT_ROWS);
    return each < ROW_MULTIPLE ? ROW_MULTIPLE : each / ROW_MULTIPLE * ROW_MULTIPLE;
}

/* Copies everything that a chunk reads but weights, then runs; false: no memory. */
static bool dot_job(cpu_backend *cpu, bool bf16_pairs, const cdz_product *products, size_t n,
                    const float *x, size_t ldx, size_t m)
{
    const size_t k = products[0].w->k, stride = cdz_ceil_div(k, CDZ_LANES) * CDZ_LANES;
    const size_t rows = dot_chunk_rows(products, n, cdz_pool_threads(cpu->pool));
    operands *ops = claim(cpu, bf16_pairs, products, n, m * stride, rows, 1);
    if (!ops) return false;
    ops->m = m;
    ops->ldx = stride;
    for (size_t r = 0; r < m; r++)
        copy_columns(ops->set, bf16_pairs, ops->x + r * stride, x + r * ldx, k);
    const cdz_pool_job job = {dot_compute, dot_commit, ops->n_chunks, 0};
    cdz_pool_run(cpu->pool, &job);
    return true;
}

/* ---- lane passes ---- */

/* The height of tile i: the tallest but for the last, which takes the lowest that holds what is
 * left. */
static size_t tile_height(const operands *ops, size_t tile)
{
    const size_t *heights = ops->set->heights;
    const size_t left = ops->m - tile * heights[0];
    if (left > heights[1]) return heights[0];
    return left > heights[2] ? heights[1] : heights[2];
}

/* Rows that the tiles take, with the last one's padding. */
static size_t padded_rows(const operands *ops)
{
    return (ops->tiles - 1) * ops->set->heights[0] + tile_height(ops, ops->tiles - 1);
}

static size_t chunk_groups(size_t k, size_t from)
{
    return cdz_ceil_div(cdz_smaller(k - from, CDZ_K_CHUNK), CDZ_LANES);
}

/* Packed activations: [chunk of k][tile][16][groups][height]. */
static float *packed_tile(const operands *ops, size_t from, size_t tile)
{
    return ops->x + from * padded_rows(ops) +
           tile * ops->set->heights[0] * chunk_groups(ops->k, from) * CDZ_LANES;
}

typedef struct packing {
    const operands *ops;
    const float *x;
    size_t ldx;
} packing;

/* Task i packs tile i % tiles of chunk i / tiles of the k axis. */
static void pack_task(void *argument, size_t i)
{
    const packing *p = argument;
    const operands *ops = p->ops;
    const size_t tile = i % ops->tiles, from = i / ops->tiles * CDZ_K_CHUNK;
    const size_t row = tile * ops->set->heights[0], height = tile_height(ops, tile);
    const size_t rows = cdz_smaller(height, ops->m - row),
                 kc = cdz_smaller(ops->k - from, CDZ_K_CHUNK);
    const float *x = p->x + row * p->ldx + floats_of(ops->bf16_pairs, from);
    if (!ops->bf16_pairs) {
        ops->set->pack_rows(packed_tile(ops, from, tile), x, p->ldx, rows, height, kc);
        return;
    }
    float pairs[MOST_HEIGHT * CDZ_K_CHUNK];
    for (size_t r = 0; r < rows; r++)
        copy_columns(ops->set, true, pairs + r * kc, x + r * p->ldx, kc);
    ops->set->pack_rows(packed_tile(ops, from, tile), pairs, kc, rows, height, kc);
}

static void pack_activations(cpu_backend *cpu, const operands *ops, const float *x, size_t ldx)
{
    packing p = {ops, x, ldx};
    const size_t n = ops->tiles * cdz_ceil_div(ops->k, CDZ_K_CHUNK);
    if (ops->m * ops->k > PACK_ALONE)
        cdz_pool_tasks(cpu->pool, pack_task, &p, n);
    else
        for (size_t i = 0; i < n; i++) pack_task(&p, i);
}

/* What a chunk number means: 64 weight rows from `row` on, tiles [tile, last). */
typedef struct block {
    const cdz_set_part *p;
    size_t row, n;     /* weight rows */
    size_t tile, last; /* tiles of activations */
    size_t first, m;   /* their rows */
} block;

static block block_of(const operands *ops, size_t chunk)
{
    const cdz_set_part *p = part_of(ops, chunk);
    const size_t index = chunk - p->first_chunk, tall = ops->set->heights[0];
    block b = {
        .p = p, .row = index / ops->n_runs * ops->rows, .tile = index % ops->n_runs * ops->run};
    b.n = cdz_smaller(ops->rows, p->w.n - b.row);
    b.last = cdz_smaller(b.tile + ops->run, ops->tiles);
    b.first = b.tile * tall;
    b.m = cdz_smaller(b.last * tall, ops->m) - b.first;
    return b;
}

/* What a thread packs after the columns from `from` on of a chunk: others of the same rows, or rows of the chunk that it is likely
 * to draw then. */
static cdz_coming what_comes(const operands *ops, size_t chunk, const block *b, size_t from)
{
    block next = *b;
    from += CDZ_K_CHUNK;
    if (from >= ops->k) {
        if (chunk + ops->threads >= ops->n_chunks) return (cdz_coming){0};
        next = block_of(ops, chunk + ops->threads);
        from = 0;
    }
    const cdz_weight *w = &next.p->w;
    return (cdz_coming){cdz_weight_at(w, next.row, from), next.n, cdz_row_bytes(w->dtype, w->k),
                        cdz_row_bytes(w->dtype, cdz_smaller(ops->k - from, CDZ_K_CHUNK))};
}

/* The share of one of n tiles, taken from what is left. */
static cdz_coming share_of(cdz_coming *left, size_t n)
{
    cdz_coming share = *left;
    share.rows = cdz_smaller(cdz_smaller(cdz_ceil_div(left->rows, n), CDZ_LANES), left->rows);
    left->at += share.rows * left->stride;
    left->rows -= share.rows;
    return share;
}

/* Adds the columns [from, from + 1024) to the outputs (b->m, 64). */
static void add_columns(const operands *ops, const block *b, size_t from, cdz_coming coming,
                        float *out, float *packed)
{
    const cdz_kernel_set *set = ops->set;
    const size_t kc = cdz_smaller(ops->k - from, CDZ_K_CHUNK), groups = chunk_groups(ops->k, from),
                 panel = cdz_panel_floats(kc, set->n_tile);
    size_t n_tiles = (b->last - b->tile) * cdz_ceil_div(b->n, set->n_tile);
    cdz_pack_rows(set, b->p->w.dtype, packed, cdz_weight_at(&b->p->w, b->row, from), b->n, ops->k,
                  kc, packed + PACKED_FLOATS);
    for (size_t tile = b->tile; tile < b->last; tile++) {
        const size_t at = tile * set->heights[0], height = tile_height(ops, tile);
        cdz_lane_tile t = {.x = packed_tile(ops, from, tile),
                           .groups = groups,
                           .height = height,
                           .rows = cdz_smaller(height, ops->m - at),
                           .ldy = CDZ_BLOCK_ROWS,
                           .first = from == 0};
        for (size_t column = 0; column < b->n; column += set->n_tile) {
            t.w = packed + column / set->n_tile * panel;
            t.y = out + (at - b->first) * CDZ_BLOCK_ROWS + column;
            t.coming = share_of(&coming, n_tiles--);
            (ops->bf16_pairs ? set->lane_tile_pairs : set->lane_tile)(&t);
        }
    }
}

static void lanes_compute(const void *operand, size_t chunk, void *scratch)
{
    const operands *ops = operand;
    const block b = block_of(ops, chunk);
    float *out = scratch, *packed = out + CDZ_OUT_FLOATS;
    for (size_t from = 0; from < ops->k; from += CDZ_K_CHUNK)
        add_columns(ops, &b, from, what_comes(ops, chunk, &b, from), out, packed);
    cdz_add_bias(ops->set, out, CDZ_BLOCK_ROWS, b.m, &b.p->bias, b.row, b.n);
}

static void lanes_commit(const void *operand, size_t chunk, const void *scratch)
{
    const block b = block_of(operand, chunk);
    const float *out = scratch;
    float *y = b.p->y + b.first * b.p->ldy + b.row;
    cdz_copy_outputs(y, b.p->ldy, out, CDZ_BLOCK_ROWS, b.m, b.n);
}

/* Tiles of a chunk: all of them, unless the weight rows alone make too few chunks for the
 * threads. Every run packs the weights again, so one is kept to four tiles at least. */
static size_t tiles_per_run(const cdz_product *products, size_t n, size_t tiles, uint32_t threads)
{
    size_t blocks = 0;
    for (size_t i = 0; i < n; i++) blocks += cdz_ceil_div(products[i].w->n, CDZ_BLOCK_ROWS);
    size_t run = tiles;
    while (run > 8 && blocks * cdz_ceil_div(tiles, run) < 2 * (size_t)threads)
        run = cdz_ceil_div(run, 2);
    return run;
}

static bool lanes_job(cpu_backend *cpu, bool bf16_pairs, const cdz_product *products, size_t n,
                      const float *x, size_t ldx, size_t m)
{
    const size_t k = products[0].w->k, tall = cpu->set->heights[0], tiles = cdz_ceil_div(m, tall);
    const size_t run = tiles_per_run(products, n, tiles, cdz_pool_threads(cpu->pool));
    const size_t n_runs = cdz_ceil_div(tiles, run),
                 k_padded = cdz_ceil_div(k, CDZ_LANES) * CDZ_LANES;
    operands *ops =
        claim(cpu, bf16_pairs, products, n, tiles * tall * k_padded, CDZ_BLOCK_ROWS, n_runs);
    if (!ops) return false;
    ops->m = m;
    ops->tiles = tiles;
    ops->run = run;
    ops->n_runs = n_runs;
    ops->threads = cdz_pool_threads(cpu->pool);
    pack_activations(cpu, ops, x, ldx);
    const cdz_pool_job job = {lanes_compute, lanes_commit, ops->n_chunks, 0};
    cdz_pool_run(cpu->pool, &job);
    return true;
}

/* ---- the operation ---- */

/* Of several types that which wants the most rows says it. */
static bool by_lanes(const cdz_kernel_set *set, bool bf16_pairs, const cdz_product *products,
                     size_t n, size_t m)
{
    if (set->n_tile == 0) return false;
    if (bf16_pairs) return set->lane_tile_pairs && m >= set->lane_min_pairs;
    for (size_t i = 0; i < n; i++)
        if (m < set->lane_min_rows[products[i].w->dtype]) return false;
    return true;
}

/* Activation rows that one job takes of the m that are left: equal blocks, whole tiles. */
static size_t block_rows(const cdz_kernel_set *set, bool bf16_pairs, const cdz_product *products,
                         size_t n, size_t m)
{
    if (!by_lanes(set, bf16_pairs, products, n, m)) return cdz_smaller(m, DOT_ROWS);
    const size_t blocks = cdz_ceil_div(m, CDZ_M_BLOCK);
    return cdz_smaller(m, cdz_ceil_div(cdz_ceil_div(m, blocks), set->heights[0]) * set->heights[0]);
}

static void some_rows(cpu_backend *cpu, bool bf16_pairs, const cdz_product *products, size_t n,
                      const float *x, size_t ldx, size_t m)
{
    const bool lanes = by_lanes(cpu->set, bf16_pairs, products, n, m) && products[0].w->k > 0;
    if (!cdz_set_is_small(products, n, m) &&
        (lanes ? lanes_job : dot_job)(cpu, bf16_pairs, products, n, x, ldx, m))
        return;
    for (size_t i = 0; i < n; i++) alone(cpu->set, bf16_pairs, &products[i], x, ldx, m);
}

/* In pairs, weights are seen as half as many columns. */
static void matmul_rows(cpu_backend *cpu, bool bf16_pairs, const cdz_product *products, size_t n,
                        const float *x, size_t ldx, size_t m)
{
    cdz_product some[CDZ_SET_PRODUCTS];
    cdz_weight seen[CDZ_SET_PRODUCTS];
    for (size_t i = 0; i < n; i += CDZ_SET_PRODUCTS)
        for (size_t row = 0, rows; row < m; row += rows) {
            const size_t count = cdz_set_from_row(some, products + i, n - i, row);
            for (size_t j = 0; bf16_pairs && j < count; j++) {
                const cdz_weight *w = some[j].w;
                seen[j] = (cdz_weight){w->data, CDZ_F32, w->n, w->k / 2, CDZ_WEIGHT_ROWS};
                some[j].w = &seen[j];
            }
            rows = block_rows(cpu->set, bf16_pairs, some, count, m - row);
            some_rows(cpu, bf16_pairs, some, count, x + row * ldx, ldx, rows);
        }
}

static void matmul_float(cpu_backend *cpu, const cdz_product *products, size_t n, const float *x,
                         size_t ldx, size_t m)
{
    matmul_rows(cpu, false, products, n, x, ldx, m);
}

static void matmul_pairs(cpu_backend *cpu, const cdz_product *products, size_t n, const float *x,
                         size_t ldx, size_t m)
{
    matmul_rows(cpu, true, products, n, x, ldx, m);
}

typedef void kind_of_product(cpu_backend *cpu, const cdz_product *products, size_t n,
                             const float *x, size_t ldx, size_t m);

static kind_of_product *kind_of(const cdz_product *p)
{
    switch (p->w->form) {
    case CDZ_WEIGHT_ROWS: return matmul_float;
    case CDZ_WEIGHT_BF16: return matmul_pairs;
    case CDZ_WEIGHT_BF16X1: return cdz_cpu_matmul_one_part;
    case CDZ_WEIGHT_BF16X3: return cdz_cpu_matmul_three_parts;
    default: return cdz_cpu_matmul_int8;
    }
}

/* Neighbours that take the same kind of activations go together. */
void cdz_cpu_matmul(cdz_backend *b, const cdz_product *products, size_t n, const float *x,
                    size_t ldx, size_t m)
{
    for (size_t i = 0, same; i < n; i += same) {
        kind_of_product *kind = kind_of(&products[i]);
        same = 1;
        while (i + same < n && kind_of(&products[i + same]) == kind) same++;
        kind(cdz_cpu(b), products + i, same, x, ldx, m);
    }
}
