/* matmul_int8.c - products of quantised weights with activations rounded to int8: how they are cut in
 * chunks.
 *
 * A chunk is a range of weight rows by all activation rows, which are rounded once, before, and packed
 * in tiles of the set's heights. Panels are read where they lie. Rows that lie as rows, because a matrix
 * has no whole panel left, or is not or will not be brought into panels, become panels in a thread's own memory, sixteen at
 * a time, which costs no more than reading them and leaves nothing behind. */
#include <string.h>

#include "cpu/product_set.h"

enum {
    CHUNK_BYTES = 393216,  /* of weights, where few rows meet them: far panels are 96 KiB apart */
    CHUNKS_PER_THREAD = 4, /* wanted at least */
    FAR_ROWS = 64,         /* chunks of whole groups of far panels, */
    FAR_PER_THREAD = 2, /* of long rows too, if there are so many: lone panels read half as fast */
    PIECE =
        1024, /* columns that are rounded and brought into a panel together where there is no scratch */
    PIECE_BYTES = PIECE / 32 * 34 * CDZ_PANEL_ROWS,
    ROOM_FLOATS =
        CDZ_M_BLOCK * CDZ_PANEL_ROWS, /* in scratch, after a chunk's outputs: those of a panel */
    LARGEST_BLOCK = 256,
    ROUND_ALONE = 65536, /* floats of activations that the caller rounds by itself */
    ROUND_ROWS = 4       /* of a task: so many of a cdz_x8 fill whole lines */
};

/* ---- activations ---- */

/* Rounded rows in tiles: tile of `height` rows from `row` on at x + row * blocks, as (blocks, height). */
typedef struct rounded {
    const cdz_kernel_set *set;
    cdz_x8 *x;
    size_t m, blocks;
} rounded;

/* Of the tile that begins at row: the tallest, or the lowest that holds what is left, if it is not too sparse. */
static size_t height_at(const rounded *x, size_t row)
{
    const cdz_kernel_set *set = x->set;
    const size_t *heights = set->int8_heights, left = x->m - row;
    size_t i = 0;
    while (heights[i] > 1 && heights[i + 1] >= left) i++;
    while (heights[i] > set->int8_full && left < heights[i] &&
           (heights[i] - left) * set->int8_spare > heights[i])
        i++;
    return heights[i];
}

/* The tile that a row is in. */
static size_t tile_begin(const rounded *x, size_t row)
{
    const size_t tall = x->set->int8_heights[0];
    size_t first = row / tall * tall, height = height_at(x, first);
    while (first + height <= row) {
        first += height;
        height = height_at(x, first);
    }
    return first;
}

static size_t padded_rows(const rounded *x)
{
    size_t row = 0;
    while (row < x->m) row += height_at(x, row);
    return row;
}

typedef struct rounding {
    const rounded *to;
    const float *x;
    size_t ldx;
} rounding;

static void round_row(const rounding *r, size_t row)
{
    const rounded *to = r->to;
    const size_t first = tile_begin(to, row), height = height_at(to, first);
    cdz_x8 *tile = to->x + first * to->blocks;
    const float *x = r->x + row * r->ldx;
    if (to->set->quantise_in_tile)
        to->set->quantise_in_tile(tile, height, row - first, x, to->blocks);
    else
        to->set->quantise_x(tile + (row - first), height, x, to->blocks);
}

/* Rows that lie on the same lines of a cache are one thread's. */
static void round_some(void *arg, size_t task)
{
    const rounding *r = arg;
    const size_t row = task * ROUND_ROWS;
    for (size_t i = row; i < row + ROUND_ROWS && i < r->to->m; i++) round_row(r, i);
}

/* The last tile, where rows fill it up. */
static void clear_padding(const rounded *to)
{
    const size_t first = tile_begin(to, to->m - 1), height = height_at(to, first);
    cdz_x8 *tile = to->x + first * to->blocks;
    if (first + height > to->m) memset(tile, 0, to->blocks * height * sizeof *tile);
}

static void round_rows(cpu_backend *cpu, const rounded *to, const float *x, size_t ldx)
{
    rounding r = {to, x, ldx};
    clear_padding(to);
    if (to->m > 1 && to->m * to->blocks * CDZ_X8 > ROUND_ALONE)
        cdz_pool_tasks(cpu->pool, round_some, &r, cdz_ceil_div(to->m, ROUND_ROWS));
    else
        for (size_t i = 0; i < to->m; i++) round_row(&r, i);
}

/* ---- weight rows by all activations ---- */

/* Rows [row, row + n) of w, row at a panel's begin, by columns [from, from + kc). */
typedef struct span {
    const cdz_weight *w;
    size_t row, n, from, kc;
} span;

static void all_tiles(const rounded *x, cdz_dtype dtype, cdz_int8_tile t, size_t from_block)
{
    const bool cold = t.cold;
    float *y = t.y;
    for (size_t row = 0; row < x->m; row += t.height) {
        t.height = height_at(x, row);
        t.cold = cold && row == 0;
        t.x = x->x + row * x->blocks + from_block * t.height;
        t.y = y + row * t.ldy;
        x->set->int8_tile[dtype](&t);
    }
}

/* Where rows become a panel. */
typedef struct workbench {
    float *room; /* outputs of a panel: (m, CDZ_PANEL_ROWS) */
    uint8_t *panel;
    size_t bytes;
} workbench;

static size_t piece_columns(const workbench *at, cdz_dtype dtype)
{
    return at->bytes / (cdz_row_bytes(dtype, LARGEST_BLOCK) * CDZ_PANEL_ROWS) * LARGEST_BLOCK;
}

/* Up to a panel's number of rows that lie as rows, k columns from `from` on. */
static void panel_of(const rounded *x, const span *s, size_t from, size_t k, const workbench *at)
{
    const cdz_dtype dtype = s->w->dtype;
    const size_t stride = cdz_row_bytes(dtype, s->w->k);
    const char *rows = (const char *)s->w->data + s->row * stride + cdz_row_bytes(dtype, from);
    if (s->n == CDZ_PANEL_ROWS) {
        x->set->to_panel(dtype, at->panel, rows, stride, k, k == s->w->k ? stride * s->n : 0);
        return;
    }
    memset(at->panel, 0, cdz_row_bytes(dtype, k) * CDZ_PANEL_ROWS);
    cdz_to_panels(dtype, at->panel, rows, stride, s->n, k);
}

static void few_rows(const rounded *x, const span *s, float *y, size_t ldy, bool first,
                     const workbench *at)
{
    const size_t most = piece_columns(at, s->w->dtype);
    for (size_t r = 0; !first && r < x->m; r++)
        memcpy(at->room + r * CDZ_PANEL_ROWS, y + r * ldy, s->n * sizeof *y);
    for (size_t done = 0; done < s->kc; done += most) {
        const size_t kc = cdz_smaller(s->kc - done, most);
        panel_of(x, s, s->from + done, kc, at);
        const cdz_int8_tile t = {.w = at->panel,
                                 .panels = 1,
                                 .blocks = kc / CDZ_X8,
                                 .y = at->room,
                                 .ldy = CDZ_PANEL_ROWS,
                                 .first = first && done == 0};
        all_tiles(x, s->w->dtype, t, done / CDZ_X8);
    }
    for (size_t r = 0; r < x->m; r++)
        memcpy(y + r * ldy, at->room + r * CDZ_PANEL_ROWS, s->n * sizeof *y);
}

/* y (m, n) is set when first and gone on with otherwise. x begins at column `from`. */
static void span_by_all(const rounded *x, const span *s, float *y, size_t ldy, bool first,
                        const workbench *at)
{
    const cdz_dtype dtype = s->w->dtype;
    const size_t row_bytes = cdz_row_bytes(dtype, s->w->k);
    size_t done = 0;
    if (s->w->form == CDZ_WEIGHT_PANELS && s->n >= CDZ_PANEL_ROWS) {
        const cdz_int8_tile t = {.w = (const char *)s->w->data + s->row * row_bytes +
                                      cdz_row_bytes(dtype, s->from) * CDZ_PANEL_ROWS,
                                 .panels = s->n / CDZ_PANEL_ROWS,
                                 .stride = row_bytes * CDZ_PANEL_ROWS,
                                 .blocks = s->kc / CDZ_X8,
                                 .y = y,
                                 .ldy = ldy,
                                 .first = first,
                                 .cold = true};
        all_tiles(x, dtype, t, 0);
        done = t.panels * CDZ_PANEL_ROWS;
    }
    for (; done < s->n; done += CDZ_PANEL_ROWS) {
        const span few = {s->w, s->row + done, cdz_smaller(s->n - done, CDZ_PANEL_ROWS), s->from,
                          s->kc};
        few_rows(x, &few, y + done, ldy, first, at);
    }
}

/* ---- alone ---- */

/* One activation row, a piece at a time: for small products, and when there is no memory for more. */
static void row_alone(const cdz_kernel_set *set, const cdz_product *p, float *y, const float *x)
{
    _Alignas(64) uint8_t panel[PIECE_BYTES];
    cdz_x8 piece[PIECE / CDZ_X8];
    float room[CDZ_PANEL_ROWS];
    const workbench at = {room, panel, sizeof panel};
    for (size_t from = 0; from < p->w->k; from += PIECE) {
        const span s = {p->w, 0, p->w->n, from, cdz_smaller(p->w->k - from, PIECE)};
        const rounded r = {set, piece, 1, s.kc / CDZ_X8};
        set->quantise_x(piece, 1, x + from, r.blocks);
        span_by_all(&r, &s, y, p->w->n, from == 0, &at);
    }
    if (p->bias) cdz_add_bias(set, y, p->w->n, 1, p->bias, 0, p->w->n);
}

static void alone(const cdz_kernel_set *set, const cdz_product *products, size_t n, const float *x,
                  size_t ldx, size_t m)
{
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < m; r++)
            row_alone(set, &products[i], products[i].y + r * products[i].ldy, x + r * ldx);
}

/* ---- a job ---- */

/* At the head of the claimed memory. */
typedef struct operands {
    rounded x;
    size_t rows, padded; /* weight rows of a chunk; activation rows of all tiles */
    size_t n_parts;
    cdz_set_part parts[CDZ_SET_PRODUCTS];
} operands;

/* What a chunk number means. */
static const cdz_set_part *part_of(const operands *ops, size_t chunk, span *s)
{
    const cdz_set_part *p = cdz_set_part_of(ops->parts, ops->n_parts, chunk);
    s->w = &p->w;
    s->row = (chunk - p->first_chunk) * ops->rows;
    s->n = cdz_smaller(ops->rows, p->w.n - s->row);
    s->from = 0;
    s->kc = p->w.k;
    return p;
}

static void compute(const void *operand, size_t chunk, void *scratch)
{
    const operands *ops = operand;
    span s;
    const cdz_set_part *p = part_of(ops, chunk, &s);
    float *out = scratch, *room = out + CDZ_OUT_FLOATS;
    const workbench at = {room, (uint8_t *)(room + ROOM_FLOATS),
                          cdz_matmul_scratch_bytes() -
                              (CDZ_OUT_FLOATS + ROOM_FLOATS) * sizeof(float)};
    span_by_all(&ops->x, &s, out, ops->rows, true, &at);
    cdz_add_bias(ops->x.set, out, ops->rows, ops->x.m, &p->bias, s.row, s.n);
}

static void commit(const void *operand, size_t chunk, const void *scratch)
{
    const operands *ops = operand;
    const float *out = scratch;
    span s;
    const cdz_set_part *p = part_of(ops, chunk, &s);
    cdz_copy_outputs(p->y + s.row, p->ldy, out, ops->rows, ops->x.m, s.n);
}

/* Weight rows of a chunk: by bytes, but leaving work for all threads, and no more outputs than
 * scratch holds. */
static size_t chunk_rows(const cdz_product *products, size_t n, size_t padded, uint32_t threads)
{
    const size_t rows = cdz_set_rows(products, n);
    const size_t chunks = cdz_ceil_div(cdz_set_bytes(products, n), CHUNK_BYTES),
                 wanted = (size_t)CHUNKS_PER_THREAD * threads;
    const size_t each =
        cdz_smaller(rows / (chunks > wanted ? chunks : wanted), CDZ_OUT_FLOATS / padded);
    const bool all_far = rows / FAR_ROWS >= FAR_PER_THREAD * (size_t)threads;
    const size_t whole = each < FAR_ROWS && !all_far ? CDZ_PANEL_ROWS : FAR_ROWS;
    return each < whole ? whole : each / whole * whole;
}

static bool run_job(cpu_backend *cpu, const cdz_product *products, size_t n, const float *x,
                    size_t ldx, size_t m)
{
    const size_t head = cdz_ceil_div(sizeof(operands), 64) * 64;
    rounded r = {cpu->set, NULL, m, products[0].w->k / CDZ_X8};
    const size_t padded = padded_rows(&r);
    const size_t rows = chunk_rows(products, n, padded, cdz_pool_threads(cpu->pool));
    const size_t chunks = cdz_set_chunks(products, n, rows, 1);
    char *memory = cdz_pool_claim(cpu->pool, head + padded * r.blocks * sizeof *r.x, chunks);
    if (!memory) return false;
    operands *ops = (operands *)(void *)memory;
    r.x = (cdz_x8 *)(void *)(memory + head);
    *ops = (operands){.x = r, .rows = rows, .padded = padded, .n_parts = n};
    cdz_set_copy(ops->parts, products, n, rows, 1);
    round_rows(cpu, &ops->x, x, ldx);
    const cdz_pool_job job = {compute, commit, chunks, 0};
    cdz_pool_run(cpu->pool, &job);
    return true;
}

void cdz_cpu_matmul_int8(cpu_backend *cpu, const cdz_product *products, size_t n, const float *x,
                         size_t ldx, size_t m)
{
    for (size_t i = 0; i < n; i += CDZ_SET_PRODUCTS)
        for (size_t row = 0, rows; row < m; row += rows) {
            cdz_product some[CDZ_SET_PRODUCTS];
            const size_t count = cdz_set_from_row(some, products + i, n - i, row);
            rows = cdz_smaller(m - row, CDZ_M_BLOCK);
            if (cdz_set_is_small(some, count, rows) ||
                !run_job(cpu, some, count, x + row * ldx, ldx, rows))
                alone(cpu->set, some, count, x + row * ldx, ldx, rows);
        }
}
