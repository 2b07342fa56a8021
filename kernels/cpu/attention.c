/* attention.c - paged attention: which query heads make a tile, and who computes it.
 *
 * A tile is some query heads that read the same kv head of the same sequence: the heads
 * of a group, and those of the rows next to it in a prompt. Its kernel reads every block of keys
 * and values once for all of them. A tile is a chunk; a row's result hangs on its own positions
 * only, so tiles may be cut anywhere. */
#include <string.h>

#include "cpu/cpu_backend.h"

enum {
    ALONE_MACS = 65536,
    ROWS_AT_ONCE = 512,
    TILES_PER_THREAD = 4 /* wanted at least, of many queries */
};
_Static_assert(CDZ_ATTEND_QUERIES % CDZ_ATTEND_FEW == 0, "tile_height comes down to the few");

/* The call's arguments, as the chunks see them: the caller's own, or copies in claimed memory. */
typedef struct call {
    const cdz_kernel_set *set;
    const cdz_kv *kv;
    size_t layer;
    float *out;
    size_t ldo;
    const float *q;
    size_t ldq;
    const cdz_kv_row *rows;
    size_t m;
    cdz_attention how;
} call;

/* Its queries are counted through the rows of a sequence: row * group + head of the group. */
typedef struct tile {
    uint32_t row, n_rows; /* the rows of one sequence that it lies in */
    uint32_t kv_head;
    uint32_t first, n; /* queries */
    uint32_t less;     /* than its rows' positions, of the entries that the head holds */
} tile;

typedef struct operands {
    call call;
    const tile *tiles;
} operands;

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t group_of(const call *c)
{
    return c->how.n_heads / c->kv->shape.n_kv_heads;
}

static size_t first_seen(const call *c, size_t position)
{
    return c->how.window && position >= c->how.window ? position - c->how.window + 1 : 0;
}

/* The first position after those a row sees. */
static size_t end_seen(const cdz_kv_row *row)
{
    return (size_t)row->position + 1 + row->ahead;
}

/* Positions that a row reads packed. */
static size_t packed_of(const call *c, const cdz_kv_row *row)
{
    return c->how.packed ? cdz_kv_packed_before(&c->how.packed->packing, row->position) : 0;
}

/* Row and head of a tile's query. */
static void locate(const call *c, const tile *t, size_t query, size_t *row, size_t *head)
{
    const size_t group = group_of(c), index = t->first + query;
    *row = t->row + index / group;
    *head = t->kv_head * group + index % group;
}

/* Rows from `row` on that belong to the same sequence, as far as their block lists tell, and read as much of it packed. */
static size_t run_length(const call *c, size_t row)
{
    const cdz_kv_row *rows = c->rows;
    const size_t packed = packed_of(c, &rows[row]);
    size_t n = 1;
    while (row + n < c->m && rows[row + n].blocks == rows[row].blocks &&
           packed_of(c, &rows[row + n]) == packed)
        n++;
    return n;
}

/* Calls visit for every tile of the call, none of more than `height` queries; returns how many
 * there are. */
static size_t each_tile(const call *c, size_t height, void (*visit)(void *arg, const tile *t),
                        void *arg)
{
    size_t count = 0;
    for (size_t row = 0, n; row < c->m; row += n) {
        n = run_length(c, row);
        const size_t queries = n * group_of(c), heads = c->kv->shape.n_kv_heads;
        const uint32_t *less = c->rows[row].less ? c->rows[row].less + c->layer * heads : NULL;
        for (size_t h = 0; h < heads; h++)
            for (size_t q = 0; q < queries; q += height, count++) {
                const size_t left = queries - q;
                const tile t = {(uint32_t)row,
                                (uint32_t)n,
                                (uint32_t)h,
                                (uint32_t)q,
                                (uint32_t)(left < height ? left : height),
                                less ? less[h] : 0};
                if (visit) visit(arg, &t);
            }
    }
    return count;
}

/* The packed store of a tile. */
static void beside(const call *c, const tile *t, cdz_attend *a)
{
    const cdz_kv *packed = c->how.packed;
    a->packing = &packed->packing;
    a->n_packed = packed_of(c, &c->rows[t->row]);
    a->span = cdz_kv_span(&packed->packing);
    a->packed_base = (const char *)packed->memory +
                     (c->layer * packed->shape.n_kv_heads + t->kv_head) * packed->head_bytes;
    a->packed_stride = packed->block_bytes;
    a->packed_blocks = c->how.packed_blocks[t->row];
}

/* Numbers of a value. */
static size_t value_dim(const call *c)
{
    const cdz_kv_shape *shape = &c->kv->shape;
    return shape->value_dim ? shape->value_dim : shape->head_dim;
}

/* The tile's kernel call; outputs are (n, value_dim) at `out`, or in place when that is NULL. */
static void compute(const call *c, const tile *t, float *out, float *scores)
{
    const cdz_kv *kv = c->kv;
    const size_t dim = kv->shape.head_dim, wide = value_dim(c);
    cdz_attend a = {
        .n_queries = t->n,
        .head_dim = dim,
        .value_dim = wide,
        .latents = kv->shape.value_dim != 0,
        .base = (const char *)kv->memory +
                (c->layer * kv->shape.n_kv_heads + t->kv_head) * kv->head_bytes,
        .type = kv->shape.type,
        .block_stride = kv->block_bytes,
        .blocks = c->rows[t->row].blocks,
        .scale = c->how.scale,
        .soft_cap = c->how.soft_cap,
        .scores = scores + CDZ_ATTEND_QUERIES * dim,
        .queries = scores,
    };
    for (size_t i = 0; i < t->n; i++) {
        size_t row, head;
        locate(c, t, i, &row, &head);
        cdz_attend_query *query = &a.query[i];
        query->q = c->q + row * c->ldq + head * dim;
        query->out = out ? out + i * wide : c->out + row * c->ldo + head * wide;
        const size_t position = c->rows[row].position - t->less;
        query->begin = first_seen(c, position);
        query->end = position + 1 + c->rows[row].ahead;
        query->bias = c->how.bias
                          ? c->how.bias + head * c->how.bias_stride + c->how.bias_zero - position
                          : NULL;
        query->sink = c->how.sinks ? c->how.sinks + head : NULL;
    }
    const size_t from = c->set->attend_widens[kv->shape.type];
    const bool widens = from && t->n >= from;
    if (a.latents || widens || c->how.packed) {
        a.room = a.scores;
        a.scores += CDZ_KV_BLOCK * dim;
    }
    if (c->how.packed) beside(c, t, &a);
    (c->how.packed || widens ? c->set->attend_packed : c->set->attend[kv->shape.type])(&a);
}

/* ---- alone ---- */

typedef struct alone_arg {
    const call *call;
    float *scores;
} alone_arg;

static void visit_alone(void *arg, const tile *t)
{
    const alone_arg *a = arg;
    compute(a->call, t, NULL, a->scores);
}

static void alone(cpu_backend *cpu, const call *c)
{
    alone_arg arg = {c, cdz_pool_scratch(cpu->pool)};
    each_tile(c, CDZ_ATTEND_FEW, visit_alone, &arg);
}

static bool is_small(const call *c)
{
    const size_t per_position = 2 * c->how.n_heads * c->kv->shape.head_dim;
    size_t positions = 0;
    for (size_t r = 0; r < c->m; r++) {
        positions += end_seen(&c->rows[r]) - first_seen(c, c->rows[r].position);
        if (positions * per_position > ALONE_MACS) return false;
    }
    return true;
}

/* ---- shared ---- */

static void compute_chunk(const void *operand, size_t chunk, void *scratch)
{
    const operands *ops = operand;
    float *out = scratch;
    compute(&ops->call, &ops->tiles[chunk], out, out + CDZ_ATTEND_QUERIES * value_dim(&ops->call));
}

static void commit_chunk(const void *operand, size_t chunk, const void *scratch)
{
    const operands *ops = operand;
    const call *c = &ops->call;
    const size_t dim = value_dim(c);
    const float *out = scratch;
    for (size_t i = 0; i < ops->tiles[chunk].n; i++) {
        size_t row, head;
        locate(c, &ops->tiles[chunk], i, &row, &head);
        memcpy(c->out + row * c->ldo + head * dim, out + i * dim, dim * sizeof *out);
    }
}

/* Scores of one query of the widest tile of so many: its rows' ranges together, rounded out to whole blocks. */
static size_t widest_range(const call *c, size_t height)
{
    const size_t rows = height / group_of(c) + 2; /* of a tile, at most */
    size_t widest = 0;
    for (size_t row = 0, n; row < c->m; row += n) {
        n = run_length(c, row);
        for (size_t r = row; r < row + n; r++) {
            size_t begin = SIZE_MAX, end = 0;
            for (size_t i = r; i < row + n && i < r + rows; i++) {
                begin = cdz_smaller(begin, first_seen(c, c->rows[i].position));
                end = larger(end, end_seen(&c->rows[i]));
            }
            widest = larger(widest, cdz_ceil_div(end, CDZ_KV_BLOCK) - begin / CDZ_KV_BLOCK);
        }
    }
    return (widest + 1) * CDZ_KV_BLOCK; /* one more where a head holds less */
}

/* Queries of a tile: as many as their scores have room for, since each tile reads all keys and values of its range again,
 * but leaving work for all threads; a few at least, or fewer when the tiles would not go round. */
static size_t tile_height(const call *c, uint32_t threads)
{
    size_t height = CDZ_ATTEND_QUERIES;
    while (height > CDZ_ATTEND_FEW &&
           (height * widest_range(c, height) > CDZ_ATTEND_SCORES ||
            each_tile(c, height, NULL, NULL) < (size_t)TILES_PER_THREAD * threads))
        height -= CDZ_ATTEND_FEW;
    while (height > 1 && each_tile(c, height, NULL, NULL) < threads) height /= 2;
    return height;
}

/* Blocks that a run of rows of one sequence reads. */
static size_t blocks_of_run(const call *c, size_t row, size_t n)
{
    size_t last = 0;
    for (size_t r = row; r < row + n; r++)
        if (end_seen(&c->rows[r]) > last) last = end_seen(&c->rows[r]);
    return cdz_ceil_div(last, CDZ_KV_BLOCK);
}

/* Likewise of the packed store, at most. */
static size_t packed_of_run(const call *c, size_t row)
{
    return packed_of(c, &c->rows[row]) / CDZ_KV_BLOCK;
}

static size_t all_blocks(const call *c)
{
    size_t blocks = 0;
    for (size_t row = 0, n; row < c->m; row += n) {
        n = run_length(c, row);
        blocks += blocks_of_run(c, row, n) + packed_of_run(c, row);
    }
    return blocks;
}

/* The list of a run in the packed store, for all its rows; returns where the next one may lie. */
static int32_t *copy_packed(const call *c, size_t row, size_t n, const int32_t **lists,
                            int32_t *blocks)
{
    if (!c->how.packed) return blocks;
    const size_t count = packed_of(c, &c->rows[row]) / cdz_kv_span(&c->how.packed->packing);
    if (count) memcpy(blocks, c->how.packed_blocks[row], count * sizeof *blocks);
    for (size_t r = row; r < row + n; r++) lists[r] = blocks;
    return blocks + count;
}

/* Copies rows and their block lists; rows that shared a list still do. */
static void copy_rows(const call *c, cdz_kv_row *rows, const int32_t **lists, int32_t *blocks)
{
    for (size_t row = 0, n; row < c->m; row += n) {
        n = run_length(c, row);
        const size_t count = blocks_of_run(c, row, n);
        memcpy(blocks, c->rows[row].blocks, count * sizeof *blocks);
        for (size_t r = row; r < row + n; r++) {
            rows[r] = c->rows[r];
            rows[r].blocks = blocks;
            rows[r].less = NULL; /* the tiles have it */
        }
        blocks = copy_packed(c, row, n, lists, blocks + count);
    }
}

static void append_tile(void *arg, const tile *t)
{
    tile **next = arg;
    *(*next)++ = *t;
}

static void *take(char **memory, size_t bytes)
{
    void *start = *memory;
    *memory += (bytes + 63) / 64 * 64;
    return start;
}

/* Copies what the chunks read, but for the store, and runs them; false: no memory. */
static bool shared(cpu_backend *cpu, const call *c)
{
    const size_t height = tile_height(c, cdz_pool_threads(cpu->pool));
    const size_t n_tiles = each_tile(c, height, NULL, NULL),
                 width = c->how.n_heads * c->kv->shape.head_dim;
    const size_t rows_bytes = c->m * sizeof(cdz_kv_row),
                 blocks_bytes = all_blocks(c) * sizeof(int32_t);
    const size_t q_bytes = c->m * width * sizeof(float), tiles_bytes = n_tiles * sizeof(tile);
    const size_t lists_bytes = c->how.packed ? c->m * sizeof(int32_t *) : 0;
    char *memory = cdz_pool_claim(cpu->pool,
                                  sizeof(operands) + rows_bytes + blocks_bytes + q_bytes +
                                      tiles_bytes + lists_bytes + (size_t)6 * 64,
                                  n_tiles);
    if (!memory) return false;

    operands *ops = take(&memory, sizeof *ops);
    cdz_kv_row *rows = take(&memory, rows_bytes);
    int32_t *blocks = take(&memory, blocks_bytes);
    float *q = take(&memory, q_bytes);
    tile *tiles = take(&memory, tiles_bytes), *next = tiles;
    const int32_t **lists = take(&memory, lists_bytes);
    copy_rows(c, rows, lists, blocks);
    for (size_t r = 0; r < c->m; r++) memcpy(q + r * width, c->q + r * c->ldq, width * sizeof *q);
    each_tile(c, height, append_tile, &next);
    *ops = (operands){*c, tiles};
    ops->call.rows = rows;
    ops->call.q = q;
    ops->call.ldq = width;
    ops->call.how.packed_blocks = lists;
    const cdz_pool_job job = {compute_chunk, commit_chunk, n_tiles, c->kv->name | (c->layer + 1)};
    cdz_pool_run(cpu->pool, &job);
    return true;
}

void cdz_cpu_attention(cdz_backend *b, float *out, size_t ldo, const float *q, size_t ldq,
                       const cdz_kv *kv, size_t layer, const cdz_kv_row *rows, size_t m,
                       const cdz_attention *how)
{
    cpu_backend *cpu = cdz_cpu(b);
    for (size_t r = 0; r < m; r += ROWS_AT_ONCE) {
        call c = {cpu->set,      kv,       layer,
                  out + r * ldo, ldo,      q + r * ldq,
                  ldq,           rows + r, m - r < ROWS_AT_ONCE ? m - r : ROWS_AT_ONCE,
                  *how};
        if (how->packed) c.how.packed_blocks += r;
        if (is_small(&c) || !shared(cpu, &c)) alone(cpu, &c);
    }
}
