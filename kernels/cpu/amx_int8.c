/* amx_int8.c - products with int8 activations for AMX: one instruction multiplies 32 columns of sixteen activation rows by
 * those of a panel's sixteen weight rows. A panel's words lie as a register takes them; types of fewer bits are unpacked, four
 * blocks (or a large one) at a time, for up to 64 activation rows. What comes out is scaled a block at a time by AVX-512,
 * which takes as long as multiplying. Integers are exact, so the bits are those of ref_int8.c. */
#include "cpu/amx.h"
#include "cpu/avx512_int8.h"

enum {
    ROWS = CDZ_AMX_ROWS,          /* activation rows of a register */
    STEP = 2,                     /* blocks whose sums are worked out before they are scaled */
    SUMS = ROWS * CDZ_PANEL_ROWS, /* of a block of a panel by sixteen rows */
    MOST_GROUPS = 4               /* of sixteen rows */
};

/* Where the sums of STEP blocks, or of their halves, go. The first ones are of nothing: a tile is stored while the next are
 * multiplied. */
typedef struct sums {
    int32_t nothing[2 * SUMS];
    int32_t of[2 * STEP][2][2][SUMS]; /* rows, panels */
} sums;

/* Columns of two panels by those of 32 rows. Sums from before are stored meanwhile, below `to`. */
CDZ_INLINE void multiply(const int8_t *q0, const int8_t *q1, const int8_t *x, int32_t *to)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(4, x, CDZ_X8);
    _tile_loadd(6, q0, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, q1, 64);
    _tile_dpbssd(1, 4, 7);
    _tile_stored(2, to - 2 * SUMS, 64);
    _tile_stored(3, to - SUMS, 64);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(5, x + ROWS * CDZ_X8, CDZ_X8);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
    _tile_stored(0, to, 64);
    _tile_stored(1, to + SUMS, 64);
}

/* What the sums of sixteen rows make of block b; `second` are those of second halves. */
CDZ_INLINE void scale(cdz_dtype type, const piece *p, size_t b, const cdz_x8_apart *x,
                      const int32_t *of, const int32_t *second, __m512 *acc)
{
    CDZ_UNROLL
    for (size_t r = 0; r < ROWS; r++) {
        const words first = word_at((const uint8_t *)of, r);
        __m512 whole;
        if (has_halves(type)) {
            add_half(0, &whole, first, p->scale[b][0]);
            add_half(1, &whole, word_at((const uint8_t *)second, r), p->scale[b][1]);
        } else
            whole = _mm512_cvtepi32_ps(first);
        add_factors(type, &acc[r], whole, p->d[b], p->m[b], x->d[r], x->s[r]);
        if (type == CDZ_Q2_K) take_minima(p->minima[b], p->m[b], x->d[r], x->both[r], &acc[r]);
    }
}

/* Outputs of two panels. */
typedef __m512 outputs[MOST_GROUPS][2][ROWS];

/* Blocks [from, from + n) of pieces that begin at block `at` of a tile: as many as panels. */
typedef struct step {
    const piece *p;
    size_t panels, at, from, n;
} step;

/* Those of panel i by the sixteen rows from `row` on. */
CDZ_INLINE void scale_rows(cdz_dtype type, const cdz_int8_tile *t, const step *s, size_t i,
                           size_t row, const int32_t *of, __m512 *y)
{
    const size_t apart = 4 * SUMS, both = (has_halves(type) ? 2 : 1) * apart;
    __m512 acc[ROWS];
    CDZ_UNROLL
    for (size_t r = 0; r < ROWS; r++) acc[r] = y[r];
    for (size_t b = s->from; b < s->from + s->n; b++, of += both) {
        const cdz_x8_apart x = cdz_x8_apart_at(t->x, t->height, s->at + b, row);
        scale(type, &s->p[i], b, &x, of, of + apart, acc);
    }
    CDZ_UNROLL
    for (size_t r = 0; r < ROWS; r++) y[r] = acc[r];
}

/* All of them by the 32 rows from `row` on. */
CDZ_INLINE void multiply_rows(cdz_dtype type, const cdz_int8_tile *t, const step *s, size_t row,
                              sums *to_all)
{
    int32_t *to = to_all->of[0][0][0];
    for (size_t b = s->from; b < s->from + s->n; b++) {
        const int8_t *q0 = s->p[0].q[b], *q1 = s->p[s->panels - 1].q[b];
        const int8_t *x = cdz_x8_apart_at(t->x, t->height, s->at + b, row).q;
        multiply(q0, q1, x, to);
        to += 4 * SUMS;
        if (!has_halves(type)) continue;
        multiply(q0 + 256, q1 + 256, x + 16, to);
        to += 4 * SUMS;
    }
    _tile_stored(2, to - 2 * SUMS, 64);
    _tile_stored(3, to - SUMS, 64);
}

/* The 32 rows from `row` on by a piece of one or two panels that begins at block `at`. */
CDZ_INLINE void rows_by_piece(cdz_dtype type, const cdz_int8_tile *t, const piece *p, size_t panels,
                              size_t row, size_t at, outputs y)
{
    _Alignas(64) sums all;
    for (size_t from = 0; from < p->n; from += STEP) {
        const step s = {p, panels, at, from, p->n - from < STEP ? p->n - from : STEP};
        multiply_rows(type, t, &s, row, &all);
        for (size_t g = 0; g < 2; g++)
            for (size_t i = 0; i < panels; i++)
                scale_rows(type, t, &s, i, row + g * ROWS, all.of[0][g][i], y[row / ROWS + g][i]);
    }
}

/* Of 0 to 3 sums, of 4 and 5 activations, of 6 and 7 weights. */
CDZ_INLINE void set_shapes(bool halves)
{
    static const cdz_tile_shapes
        whole = {1, 0, {0}, {64, 64, 64, 64, 32, 32, 64, 64}, {16, 16, 16, 16, 16, 16, 8, 8}},
        half = {1, 0, {0}, {64, 64, 64, 64, 16, 16, 64, 64}, {16, 16, 16, 16, 16, 16, 4, 4}};
    _tile_loadconfig(halves ? &half : &whole);
}

CDZ_INLINE void begin_outputs(const cdz_int8_tile *t, size_t panel, size_t panels, outputs y)
{
    for (size_t row = 0; row < t->height; row++)
        for (size_t i = 0; i < panels; i++)
            y[row / ROWS][i][row % ROWS] =
                t->first ? _mm512_setzero_ps()
                         : _mm512_loadu_ps(t->y + row * t->ldy + (panel + i) * CDZ_PANEL_ROWS);
}

CDZ_INLINE void end_outputs(const cdz_int8_tile *t, size_t panel, size_t panels, outputs y)
{
    for (size_t row = 0; row < t->height; row++)
        for (size_t i = 0; i < panels; i++)
            _mm512_storeu_ps(t->y + row * t->ldy + (panel + i) * CDZ_PANEL_ROWS,
                             y[row / ROWS][i][row % ROWS]);
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS / (is_large(type) ? 8 : 1);
    const size_t most = is_large(type) ? MOST_PIECE : PIECE;
    piece p[2];
    outputs y;
    set_shapes(has_halves(type));
    for (size_t panel = 0; panel < t->panels; panel += 2) {
        const uint8_t *w = (const uint8_t *)t->w + panel * t->stride;
        const size_t panels = t->panels - panel < 2 ? 1 : 2;
        begin_outputs(t, panel, panels, y);
        for (size_t b = 0; b < t->blocks; b += most, w += most * bytes) {
            const size_t n = t->blocks - b < most ? t->blocks - b : most;
            for (size_t i = 0; i < panels; i++) unpack(type, w + i * t->stride, n, bytes, &p[i]);
            CDZ_LOADS_BETWEEN();
            for (size_t row = 0; row < t->height; row += 2 * ROWS)
                rows_by_piece(type, t, p, panels, row, b, y);
        }
        end_outputs(t, panel, panels, y);
    }
    _tile_release();
}

#define TILE(name, dtype, prefix)                                                                  \
    void prefix##_##name(const cdz_int8_tile *t)                                                   \
    {                                                                                              \
        if (t->height < CDZ_AMX_TALL)                                                              \
            cdz_vnni_int8_##name(t);                                                               \
        else                                                                                       \
            tile(dtype, t);                                                                        \
    }
CDZ_GGUF_TYPES(TILE, cdz_amx_int8)
