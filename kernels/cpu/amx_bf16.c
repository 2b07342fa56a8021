/* amx_bf16.c - products of weights in bf16 with activations in parts of bf16, for AMX. Sixteen weight rows are loaded from where
 * they lie, 32 columns of them, and multiplied with 32 columns of sixteen activation rows, packed in pairs. What comes out is
 * turned when it is done: sums have a row for each weight row. */
#include <math.h>

#include "cpu/amx.h"
#include "cpu/avx512.h"

enum {
    ROWS = CDZ_PART_ROWS,
    COLUMNS = CDZ_PART_COLUMNS,
    TILE = ROWS * COLUMNS, /* numbers of a register, */
    REGISTER = 2 * TILE    /* and bytes */
};

/* ---- activations ---- */

/* As cdz_narrow_bf16, in the upper halves of the words. */
CDZ_INLINE __m512i narrow(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), ones = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), ones);
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __mmask16 no_number = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(1 << 22));
    return _mm512_and_si512(_mm512_mask_mov_epi32(rounded, no_number, quiet),
                            _mm512_set1_epi32((int)0xffff0000));
}

/* What is left of x when its part is taken off. */
CDZ_INLINE __m512 rest(__m512 x, __m512i part)
{
    const __m512 wide = _mm512_castsi512_ps(part);
    const __mmask16 finite =
        _mm512_cmp_ps_mask(_mm512_abs_ps(wide), _mm512_set1_ps(INFINITY), _CMP_LT_OQ);
    return _mm512_maskz_sub_ps(finite, x, wide);
}

/* 32 columns of one row. */
typedef struct columns32 {
    __m512 low, high;
} columns32;

/* In sixteen words, a pair each. */
CDZ_INLINE __m512 next_part(columns32 *x)
{
    const __m512i low = narrow(x->low), high = narrow(x->high);
    x->low = rest(x->low, low);
    x->high = rest(x->high, high);
    static const uint16_t upper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                       23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                       45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_castsi512_ps(_mm512_permutex2var_epi16(low, _mm512_loadu_si512(upper), high));
}

CDZ_INLINE columns32 load_columns(const float *x, size_t n)
{
    const __mmask16 low = n < 16 ? first_columns(n) : 0xffff, high = n < 16 ? 0
                                                                     : n < 32
                                                                         ? first_columns(n - 16)
                                                                         : 0xffff;
    return (columns32){_mm512_maskz_loadu_ps(low, x), _mm512_maskz_loadu_ps(high, x + 16)};
}

/* One group of a tile. */
CDZ_INLINE void pack_group(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t columns,
                           size_t parts)
{
    __m512 pairs[CDZ_MOST_PARTS][ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        columns32 left = load_columns(x + r * ldx, r < rows ? columns : 0);
        for (size_t i = parts; i-- > 0;) pairs[i][r] = next_part(&left);
    }
    for (size_t i = 0; i < parts; i++) {
        transpose16(pairs[i]);
        CDZ_UNROLL
        for (int j = 0; j < 16; j++) _mm512_storeu_ps(to + i * TILE + 32 * j, pairs[i][j]);
    }
}

void cdz_amx_pack_parts(uint16_t *to, const float *x, size_t ldx, size_t rows, size_t k,
                        size_t parts)
{
    for (size_t i = 0; i < k; i += COLUMNS, to += parts * TILE)
        pack_group(to, x + i, ldx, rows, k - i < COLUMNS ? k - i : COLUMNS, parts);
}

/* ---- weights ---- */

/* Sixteen weight rows, or fewer. */
typedef struct rows16 {
    const char *at;
    size_t stride, n;
} rows16;

static rows16 rows_of(const cdz_parts_product *p, size_t row)
{
    const size_t n = row < p->n ? p->n - row : 0;
    return (rows16){p->w + (n ? row : 0) * p->stride, p->stride, n < ROWS ? n : ROWS};
}

/* The columns of a group from `from` on, `columns` of them: where they are to be loaded from. Where rows or columns are missing
 * they are copied to `edge`, with zeros for what is not there. */
CDZ_INLINE const void *group_of(const rows16 *w, size_t from, size_t columns, uint16_t *edge,
                                size_t *stride)
{
    *stride = w->stride;
    if (w->n == ROWS && columns == COLUMNS) return w->at + 2 * from;
    CDZ_LOADS_BETWEEN();
    memset(edge, 0, REGISTER);
    for (size_t i = 0; i < w->n; i++)
        memcpy(edge + i * COLUMNS, w->at + i * w->stride + 2 * from, 2 * columns);
    CDZ_LOADS_BETWEEN();
    *stride = 2 * COLUMNS;
    return edge;
}

/* ---- products ---- */

CDZ_INLINE void set_shapes(void)
{
    static const cdz_tile_shapes shapes = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shapes);
}

/* Registers 0 to 3 from and to four corners of the sums. */
typedef struct corners {
    float *at[4];
    size_t stride;
} corners;

CDZ_INLINE void load_sums(const corners *c, bool first)
{
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, c->at[0], c->stride);
    _tile_loadd(1, c->at[1], c->stride);
    _tile_loadd(2, c->at[2], c->stride);
    _tile_loadd(3, c->at[3], c->stride);
}

CDZ_INLINE void store_sums(const corners *c)
{
    _tile_stored(0, c->at[0], c->stride);
    _tile_stored(1, c->at[1], c->stride);
    _tile_stored(2, c->at[2], c->stride);
    _tile_stored(3, c->at[3], c->stride);
}

/* 32 weight rows by two tiles. */
CDZ_INLINE void two_by_two(const cdz_parts_product *p, size_t row, size_t tile, size_t parts)
{
    const size_t ld = p->tiles * ROWS;
    float *sums = p->sums + row * ld + tile * ROWS;
    const corners c = {{sums, sums + ROWS, sums + ROWS * ld, sums + ROWS * ld + ROWS},
                       ld * sizeof *sums};
    const rows16 w0 = rows_of(p, row), w1 = rows_of(p, row + ROWS);
    _Alignas(64) uint16_t edge[TILE];
    const uint16_t *x0 = p->x + tile * p->tile_step, *x1 = x0 + p->tile_step;
    load_sums(&c, p->first);
    for (size_t i = 0; i < p->k; i += COLUMNS) {
        const size_t columns = p->k - i < COLUMNS ? p->k - i : COLUMNS;
        size_t stride;
        const void *a = group_of(&w0, i, columns, edge, &stride);
        _tile_loadd(4, a, stride);
        a = group_of(&w1, i, columns, edge, &stride);
        _tile_loadd(5, a, stride);
        CDZ_UNROLL
        for (size_t part = 0; part < parts; part++, x0 += TILE, x1 += TILE) {
            _tile_loadd(6, x0, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, x1, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    store_sums(&c);
}

/* Rows number `i` of four by a group of one tile, which registers 5 to 7 hold. A number of a register is part of an instruction. */
#define BY_GROUP(i, from, columns, parts)                                                          \
    do {                                                                                           \
        size_t stride;                                                                             \
        const void *a = group_of(&w[i], from, columns, edge, &stride);                             \
        _tile_loadd(4, a, stride);                                                                 \
        _tile_dpbf16ps(i, 4, 5);                                                                   \
        if ((parts) == 1) break;                                                                   \
        _tile_dpbf16ps(i, 4, 6);                                                                   \
        _tile_dpbf16ps(i, 4, 7);                                                                   \
    } while (0)

/* 64 weight rows by one tile. */
CDZ_INLINE void four_by_one(const cdz_parts_product *p, size_t row, size_t tile, size_t parts)
{
    const size_t ld = p->tiles * ROWS;
    float *sums = p->sums + row * ld + tile * ROWS;
    const corners c = {{sums, sums + ROWS * ld, sums + 2 * ROWS * ld, sums + 3 * ROWS * ld},
                       ld * sizeof *sums};
    const rows16 w[4] = {rows_of(p, row), rows_of(p, row + ROWS), rows_of(p, row + 2 * ROWS),
                         rows_of(p, row + 3 * ROWS)};
    _Alignas(64) uint16_t edge[TILE];
    const uint16_t *x = p->x + tile * p->tile_step;
    load_sums(&c, p->first);
    for (size_t i = 0; i < p->k; i += COLUMNS, x += parts * TILE) {
        const size_t columns = p->k - i < COLUMNS ? p->k - i : COLUMNS;
        _tile_loadd(5, x, 64);
        if (parts > 1) {
            _tile_loadd(6, x + TILE, 64);
            _tile_loadd(7, x + 2 * TILE, 64);
        }
        BY_GROUP(0, i, columns, parts);
        BY_GROUP(1, i, columns, parts);
        BY_GROUP(2, i, columns, parts);
        BY_GROUP(3, i, columns, parts);
    }
    store_sums(&c);
}

CDZ_INLINE void all_rows(const cdz_parts_product *p, size_t parts)
{
    const size_t pairs = p->tiles / 2 * 2;
    for (size_t tile = 0; tile < pairs; tile += 2)
        for (size_t row = 0; row < p->n; row += 2 * ROWS) two_by_two(p, row, tile, parts);
    for (size_t row = 0; pairs < p->tiles && row < p->n; row += 4 * ROWS)
        four_by_one(p, row, pairs, parts);
}

/* Sums, sixteen weight rows of sixteen activation rows at a time. */
CDZ_INLINE void turn_sums(const cdz_parts_product *p)
{
    const size_t ld = p->tiles * ROWS;
    for (size_t row = 0; row < p->n; row += ROWS)
        for (size_t r = 0; r < p->m; r += ROWS) {
            const __mmask16 there = p->n - row < ROWS ? first_columns(p->n - row) : 0xffff;
            __m512 v[ROWS];
            CDZ_UNROLL
            for (size_t i = 0; i < ROWS; i++) v[i] = _mm512_loadu_ps(p->sums + (row + i) * ld + r);
            transpose16(v);
            float *y = p->y + r * p->ldy + row;
            CDZ_UNROLL
            for (size_t i = 0; i < ROWS; i++)
                if (r + i < p->m) _mm512_mask_storeu_ps(y + i * p->ldy, there, v[i]);
        }
}

void cdz_amx_parts_product(const cdz_parts_product *p)
{
    set_shapes();
    if (p->parts == 1)
        all_rows(p, 1);
    else
        all_rows(p, 3);
    _tile_release();
    if (p->last) turn_sums(p);
}
