/* matmul_parts.c - products of weights in bf16 with activations in parts of bf16: how they are cut in chunks.
 *
 * A chunk is a range of weight rows by a run of tiles of activations, which are packed once, before. Weights are read where
 * they lie. Of many activation rows the k axis is taken a piece at a time, so that both sides stay in a core's own cache; sums
 * go on from piece to piece. */
#include "cpu/product_set.h"

enum {
    CHUNK_BYTES = 393216,                          /* of weights, where few rows meet them */
    FEW_TILES = 2,                                 /* whose columns are taken all at once */
    ROWS = 128,                                    /* of a chunk otherwise: weight rows, */
    RUN = CDZ_PARTS_FLOATS / ROWS / CDZ_PART_ROWS, /* and tiles */
    PIECE = 1024,                                  /* columns */
    CHUNKS_PER_THREAD = 4,                         /* wanted at least */
    MOST_ROWS = 512,                               /* activation rows of one job */
    ALONE_PIECE = 256, /* columns that are packed together where there is no memory for all */
    PACK_ALONE = 65536 /* floats of activations that the caller packs by itself */
};

/* ---- alone ---- */

/* Up to CDZ_PART_ROWS activation rows. */
typedef struct few_rows {
    const float *x;
    size_t ldx, m;
} few_rows;

/* Those by up to CDZ_PART_BLOCK weight rows, some columns at a time: for small products, and when there is no memory for
 * more. */
static void block_alone(const cdz_kernel_set *set, const cdz_product *p, size_t parts, size_t row,
                        const few_rows *x, float *y)
{
    _Alignas(64) uint16_t packed[ALONE_PIECE * CDZ_PART_ROWS * CDZ_MOST_PARTS];
    _Alignas(64) float sums[CDZ_PART_BLOCK * CDZ_PART_ROWS];
    const cdz_weight *w = p->w;
    cdz_parts_product t = {.n = cdz_smaller(w->n - row, CDZ_PART_BLOCK),
                           .stride = cdz_row_bytes(w->dtype, w->k),
                           .x = packed,
                           .tiles = 1,
                           .parts = parts,
                           .sums = sums,
                           .y = y,
                           .ldy = p->ldy,
                           .m = x->m};
    for (size_t from = 0; from < w->k; from += ALONE_PIECE) {
        t.k = cdz_smaller(w->k - from, ALONE_PIECE);
        t.w = cdz_weight_at(w, row, from);
        t.first = from == 0;
        t.last = from + t.k == w->k;
        set->pack_parts(packed, x->x + from, x->ldx, x->m, t.k, parts);
        set->parts_product(&t);
    }
}

static void alone(const cdz_kernel_set *set, const cdz_product *products, size_t n, size_t parts,
                  const float *x, size_t ldx, size_t m)
{
    for (size_t i = 0; i < n; i++) {
        const cdz_product *p = &products[i];
        for (size_t r = 0; r < m; r += CDZ_PART_ROWS) {
            const few_rows rows = {x + r * ldx, ldx, cdz_smaller(m - r, CDZ_PART_ROWS)};
            for (size_t row = 0; row < p->w->n; row += CDZ_PART_BLOCK)
                block_alone(set, p, parts, row, &rows, p->y + r * p->ldy + row);
        }
        if (p->bias) cdz_add_bias(set, p->y, p->ldy, m, p->bias, 0, p->w->n);
    }
}

/* ---- a job ---- */

/* At the head of the claimed memory; packed activations follow. */
typedef struct operands {
    const cdz_kernel_set *set;
    size_t m, k, parts;
    uint16_t *x;
    size_t tiles, tile_step;
    size_t rows, run, n_runs; /* of a chunk: weight rows, tiles; and runs in all */
    size_t n_products;
    cdz_set_part products[CDZ_SET_PRODUCTS];
} operands;

/* What a chunk number means. */
typedef struct block {
    const cdz_set_part *p;
    size_t row, n;      /* weight rows */
    size_t tile, tiles; /* of activations */
    size_t first, m;    /* their rows */
} block;

static block block_of(const operands *ops, size_t chunk)
{
    const cdz_set_part *p = cdz_set_part_of(ops->products, ops->n_products, chunk);
    const size_t index = chunk - p->first_chunk;
    block b = {
        .p = p, .row = index / ops->n_runs * ops->rows, .tile = index % ops->n_runs * ops->run};
    b.n = cdz_smaller(ops->rows, p->w.n - b.row);
    b.tiles = cdz_smaller(ops->run, ops->tiles - b.tile);
    b.first = b.tile * CDZ_PART_ROWS;
    b.m = cdz_smaller(b.tiles * CDZ_PART_ROWS, ops->m - b.first);
    return b;
}

static void compute(const void *operand, size_t chunk, void *scratch)
{
    const operands *ops = operand;
    const block b = block_of(ops, chunk);
    const size_t piece = ops->tiles <= FEW_TILES ? ops->k : PIECE;
    float *sums = scratch, *out = sums + CDZ_PARTS_FLOATS;
    cdz_parts_product t = {.n = b.n,
                           .stride = cdz_row_bytes(b.p->w.dtype, ops->k),
                           .tiles = b.tiles,
                           .tile_step = ops->tile_step,
                           .parts = ops->parts,
                           .sums = sums,
                           .y = out,
                           .ldy = ops->rows,
                           .m = b.m};
    for (size_t from = 0; from < ops->k; from += piece) {
        t.w = cdz_weight_at(&b.p->w, b.row, from);
        t.k = cdz_smaller(ops->k - from, piece);
        t.x = ops->x + b.tile * ops->tile_step + cdz_tile_numbers(from, ops->parts);
        t.first = from == 0;
        t.last = from + t.k == ops->k;
        ops->set->parts_product(&t);
    }
    cdz_add_bias(ops->set, out, ops->rows, b.m, &b.p->bias, b.row, b.n);
}

static void commit(const void *operand, size_t chunk, const void *scratch)
{
    const operands *ops = operand;
    const block b = block_of(ops, chunk);
    const float *out = (const float *)scratch + CDZ_PARTS_FLOATS;
    cdz_copy_outputs(b.p->y + b.first * b.p->ldy + b.row, b.p->ldy, out, ops->rows, b.m, b.n);
}

typedef struct packing {
    const operands *to;
    const float *x;
    size_t ldx;
} packing;

static void pack_tile(void *arg, size_t tile)
{
    const packing *p = arg;
    const operands *ops = p->to;
    const size_t row = tile * CDZ_PART_ROWS;
    ops->set->pack_parts(ops->x + tile * ops->tile_step, p->x + row * p->ldx, p->ldx,
                         cdz_smaller(ops->m - row, CDZ_PART_ROWS), ops->k, ops->parts);
}

static void pack_all(cpu_backend *cpu, const operands *ops, const float *x, size_t ldx)
{
    packing p = {ops, x, ldx};
    if (ops->tiles > 1 && ops->m * ops->k > PACK_ALONE)
        cdz_pool_tasks(cpu->pool, pack_tile, &p, ops->tiles);
    else
        for (size_t i = 0; i < ops->tiles; i++) pack_tile(&p, i);
}

/* Weight rows of a chunk: whole blocks of them, but leaving work for all threads. */
static size_t chunk_rows(const cdz_product *products, size_t n, size_t tiles, uint32_t threads)
{
    const size_t wanted = (size_t)CHUNKS_PER_THREAD * threads;
    const size_t bytes = cdz_row_bytes(products[0].w->dtype, products[0].w->k);
    const size_t most =
        tiles <= FEW_TILES
            ? cdz_smaller(CHUNK_BYTES / bytes, CDZ_PARTS_FLOATS / (FEW_TILES * CDZ_PART_ROWS))
            : ROWS;
    const size_t runs = cdz_ceil_div(tiles, RUN),
                 each = cdz_smaller(cdz_set_rows(products, n) * runs / wanted, most);
    return each < CDZ_PART_BLOCK ? CDZ_PART_BLOCK : each / CDZ_PART_BLOCK * CDZ_PART_BLOCK;
}

static bool run_job(cpu_backend *cpu, const cdz_product *products, size_t n, size_t parts,
                    const float *x, size_t ldx, size_t m)
{
    const size_t head = cdz_ceil_div(sizeof(operands), 64) * 64, k = products[0].w->k;
    const size_t tiles = cdz_ceil_div(m, CDZ_PART_ROWS), step = cdz_tile_numbers(k, parts);
    const size_t rows = chunk_rows(products, n, tiles, cdz_pool_threads(cpu->pool));
    const size_t n_runs = cdz_ceil_div(tiles, RUN);
    const size_t chunks = cdz_set_chunks(products, n, rows, n_runs);
    char *memory = cdz_pool_claim(cpu->pool, head + tiles * step * sizeof(uint16_t), chunks);
    if (!memory) return false;
    operands *ops = (operands *)(void *)memory;
    *ops = (operands){.set = cpu->set,
                      .m = m,
                      .k = k,
                      .parts = parts,
                      .x = (uint16_t *)(void *)(memory + head),
                      .tiles = tiles,
                      .tile_step = step,
                      .rows = rows,
                      .run = RUN,
                      .n_runs = n_runs,
                      .n_products = n};
    cdz_set_copy(ops->products, products, n, rows, n_runs);
    pack_all(cpu, ops, x, ldx);
    const cdz_pool_job job = {compute, commit, chunks, 0};
    cdz_pool_run(cpu->pool, &job);
    return true;
}

/* ---- the operation ---- */

static void matmul(cpu_backend *cpu, const cdz_product *products, size_t n, size_t parts,
                   const float *x, size_t ldx, size_t m)
{
    for (size_t i = 0; i < n; i += CDZ_SET_PRODUCTS)
        for (size_t row = 0, rows; row < m; row += rows) {
            cdz_product some[CDZ_SET_PRODUCTS];
            const size_t count = cdz_set_from_row(some, products + i, n - i, row);
            rows = cdz_smaller(m - row, MOST_ROWS);
            if (cdz_set_is_small(some, count, rows) ||
                !run_job(cpu, some, count, parts, x + row * ldx, ldx, rows))
                alone(cpu->set, some, count, parts, x + row * ldx, ldx, rows);
        }
}

void cdz_cpu_matmul_one_part(cpu_backend *cpu, const cdz_product *products, size_t n,
                             const float *x, size_t ldx, size_t m)
{
    matmul(cpu, products, n, 1, x, ldx, m);
}

void cdz_cpu_matmul_three_parts(cpu_backend *cpu, const cdz_product *products, size_t n,
                                const float *x, size_t ldx, size_t m)
{
    matmul(cpu, products, n, 3, x, ldx, m);
}
