/* avx2_tall.h - tall tiles of products with int8 activations: a piece of a panel is unpacked once, and meets all rows of the
 * tile, four at a time by both halves of the panel: eight sums, a word of activations loaded for both. Without AVX-VNNI whole
 * bytes (Q8_0) have nothing to unpack: four rows meet a half of the panel as it lies. Part of avx2_int8.h, for x86. */
#ifndef CDZ_CPU_AVX2_TALL_H
#define CDZ_CPU_AVX2_TALL_H

#include "cpu/int8_tile.h"

enum {
    TALL_ROWS = 4, /* that are computed together */
    HALVES = 2,    /* of a panel */
    TALL_SUMS = TALL_ROWS * HALVES,
    MOST_PIECE = 8, /* blocks of 32 columns of a piece: a large block, */
    PIECE = 4       /* or as many small ones */
};

/* A piece of a panel, and the rows that meet it. */
typedef struct piece {
    const uint8_t *w;
    size_t n, tall;  /* blocks, rows */
    const cdz_x8 *x; /* of the first row */
    float *y;        /* its outputs */
    size_t ldy;
    bool first;
    bool ask_for_x;      /* of the piece that comes */
    size_t bytes_of_row; /* of the panel, that every few rows ask for: 0 where it lies in a cache */
} piece;

/* A block of a panel, by the panel's halves. */
typedef struct unpacked {
    words q[8][HALVES];     /* of four weights, unsigned */
    words scale[2][HALVES]; /* of both sixteens: where sums are in 16 bits, twice in a word */
    words off[HALVES];      /* start_of_halves, there */
    words minima[HALVES];
    __m256 d[HALVES], m[HALVES];
} unpacked;

CDZ_INLINE void unpack_half(cdz_dtype type, const place *at, size_t half, const factors *f,
                            unpacked *to)
{
    CDZ_UNROLL
    for (int g = 0; g < 8; g++) to->q[g][half] = operand(type, weights(type, at, g));
    to->d[half] = f->d[has_halves(type) ? 0 : at->sub];
    to->m[half] = f->m[has_halves(type) ? 0 : at->sub];
    if (!has_halves(type)) return;
#if defined(CDZ_SUMS_IN_16)
    const scales_of_16 s = both_scales(type, at);
    to->scale[0][half] = s.each[0];
    to->scale[1][half] = s.each[1];
    to->off[half] = s.off;
#else
    for (int h = 0; h < 2; h++) to->scale[h][half] = scale_of_16(type, at->w, 2 * at->sub + h);
#endif
    if (type == CDZ_Q2_K) to->minima[half] = minima_of(at->w, at->sub);
}

/* A block of the type. */
CDZ_INLINE void unpack(cdz_dtype type, const uint8_t *panel, unpacked *to)
{
    const int subs = is_large(type) ? 8 : 1;
    CDZ_UNROLL
    for (size_t half = 0; half < HALVES; half++) {
        const uint8_t *w = words_of(type, panel, half);
        factors f;
        find_factors(type, fields_of(panel, half), w, &f);
        CDZ_UNROLL
        for (int sub = 0; sub < subs; sub++) {
            const place at = place_of(type, w, sub);
            unpack_half(type, &at, half, &f, &to[sub]);
        }
    }
}

/* ---- four rows by a block ---- */

#if defined(CDZ_SUMS_IN_16)
CDZ_INLINE bool is_unpacked(cdz_dtype type)
{
    return type != CDZ_Q8_0;
}

/* Products of words [from, to) with four rows of activations, added in 16 bits. */
CDZ_INLINE void add_in_16(const unpacked *u, int from, int to, const cdz_x8 *x, words *part)
{
    CDZ_UNROLL
    for (int g = from; g < to; g++) {
        CDZ_UNROLL
        for (int i = 0; i < TALL_SUMS; i++) {
            const words pairs =
                _mm256_maddubs_epi16(u->q[g][i % HALVES], words_of_x(&x[i / HALVES], g));
            part[i] = g == from ? pairs : _mm256_add_epi16(part[i], pairs);
            in_order(&part[i]);
        }
    }
}

CDZ_INLINE void sum_block(cdz_dtype type, const unpacked *u, const cdz_x8 *x, words *sums)
{
    const int step = has_halves(type) ? words_of_half(type) : words_together(type);
    CDZ_UNROLL
    for (int g = 0; g < 8; g += step) {
        words part[TALL_SUMS];
        add_in_16(u, g, g + step, x, part);
        CDZ_UNROLL
        for (int i = 0; i < TALL_SUMS; i++) {
            const words factor =
                has_halves(type) ? u->scale[g / 4][i % HALVES] : _mm256_set1_epi16(1);
            const words more = _mm256_madd_epi16(part[i], factor);
            sums[i] = g == 0 ? more : _mm256_add_epi32(sums[i], more);
        }
    }
    if (!offset_of(type)) return;
    CDZ_UNROLL
    for (int i = 0; i < TALL_SUMS; i++) {
        const cdz_x8 *own = &x[i / HALVES];
        const words begin =
            has_halves(type) ? start_of_halves(u->off[i % HALVES], own) : start_of(type, own, 0);
        sums[i] = _mm256_add_epi32(sums[i], begin);
    }
}
#else
CDZ_INLINE bool is_unpacked(cdz_dtype type)
{
    (void)type;
    return true;
}

CDZ_INLINE void sum_block(cdz_dtype type, const unpacked *u, const cdz_x8 *x, words *sums)
{
    const int parts = has_halves(type) ? 2 : 1, each = 8 / parts;
    CDZ_UNROLL
    for (int h = 0; h < parts; h++) {
        words part[TALL_SUMS];
        CDZ_UNROLL
        for (int i = 0; i < TALL_SUMS; i++) part[i] = start_of(type, &x[i / HALVES], h);
        CDZ_UNROLL
        for (int g = each * h; g < each * (h + 1); g++) {
            CDZ_UNROLL
            for (int i = 0; i < TALL_SUMS; i++)
                multiply(&part[i], words_of_x(&x[i / HALVES], g), u->q[g][i % HALVES]);
        }
        CDZ_UNROLL
        for (int i = 0; i < TALL_SUMS; i++) {
            const words scaled =
                parts == 2 ? _mm256_mullo_epi32(part[i], u->scale[h][i % HALVES]) : part[i];
            sums[i] = h == 0 ? scaled : _mm256_add_epi32(sums[i], scaled);
        }
    }
}
#endif

CDZ_INLINE void four_rows(cdz_dtype type, const unpacked *u, const cdz_x8 *x, __m256 *acc)
{
    words sums[TALL_SUMS];
    sum_block(type, u, x, sums);
    CDZ_UNROLL
    for (int i = 0; i < TALL_SUMS; i++) {
        const int half = i % HALVES;
        const cdz_x8 *own = &x[i / HALVES];
        add_factors(type, &acc[i], sums[i], u->d[half], u->m[half], own);
        if (type == CDZ_Q2_K) take_minima(u->minima[half], u->m[half], own, &acc[i]);
    }
}

/* ---- pieces ---- */

/* Activations of a piece lie one after the other, but four rows meet only some of every block: too scattered for the processor
 * to see what comes. */
CDZ_INLINE void ask_for_activations(const piece *p, const cdz_x8 *x)
{
    if (p->ask_for_x) cdz_ask_lines((const char *)(x + p->n * p->tall), TALL_ROWS * sizeof *x);
}

CDZ_INLINE void ask_for_weights(const piece *p, size_t row)
{
    cdz_ask_in_panel(p->w + row / TALL_ROWS * p->bytes_of_row, p->bytes_of_row, CDZ_AHEAD_IN_PANELS,
                     true);
}

/* Sum i of n is of row i / halves of four. */
CDZ_INLINE float *sums_at(const piece *p, float *y, int i, int halves)
{
    return y + (size_t)(i / halves) * p->ldy + (size_t)(i % halves) * PART_ROWS;
}

CDZ_INLINE void begin_sums(const piece *p, float *y, int n, int halves, __m256 *acc)
{
    CDZ_UNROLL
    for (int i = 0; i < n; i++)
        acc[i] = p->first ? _mm256_setzero_ps() : _mm256_loadu_ps(sums_at(p, y, i, halves));
}

CDZ_INLINE void end_sums(const piece *p, float *y, int n, int halves, const __m256 *acc)
{
    CDZ_UNROLL
    for (int i = 0; i < n; i++) _mm256_storeu_ps(sums_at(p, y, i, halves), acc[i]);
}

CDZ_INLINE void rows_by_unpacked(cdz_dtype type, const piece *p, size_t row, const unpacked *u)
{
    const cdz_x8 *x = p->x + row;
    float *y = p->y + row * p->ldy;
    __m256 acc[TALL_SUMS];
    begin_sums(p, y, TALL_SUMS, HALVES, acc);
    for (size_t b = 0; b < p->n; b++, x += p->tall) {
        ask_for_activations(p, x);
        four_rows(type, &u[b], x, acc);
    }
    end_sums(p, y, TALL_SUMS, HALVES, acc);
}

CDZ_INLINE void rows_by_bytes(const piece *p, size_t row, size_t half)
{
    const size_t bytes = cdz_dtype_bytes(CDZ_Q8_0) * CDZ_PANEL_ROWS;
    const cdz_x8 *x = p->x + row;
    const uint8_t *w = p->w;
    float *y = p->y + row * p->ldy + PART_ROWS * half;
    __m256 acc[TALL_ROWS];
    begin_sums(p, y, TALL_ROWS, 1, acc);
    for (size_t b = 0; b < p->n; b++, x += p->tall, w += bytes) {
        const place at = place_of(CDZ_Q8_0, words_of(CDZ_Q8_0, w, half), 0);
        const __m256 d = halves_at(fields_of(w, half));
        if (half == 0) ask_for_activations(p, x);
        block(CDZ_Q8_0, TALL_ROWS, &at, d, d, x, acc);
    }
    end_sums(p, y, TALL_ROWS, 1, acc);
}

CDZ_INLINE void all_rows(cdz_dtype type, const piece *p)
{
    const size_t per = cdz_dtype_block(type) / 32, bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS;
    unpacked u[MOST_PIECE]; /* much of it is never used: not cleared */
    for (size_t b = 0; is_unpacked(type) && b < p->n; b += per)
        unpack(type, p->w + b / per * bytes, u + b);
    for (size_t row = 0; row < p->tall; row += TALL_ROWS) {
        if (p->bytes_of_row) ask_for_weights(p, row);
        if (is_unpacked(type)) {
            rows_by_unpacked(type, p, row, u);
            continue;
        }
        for (size_t half = 0; half < HALVES; half++) rows_by_bytes(p, row, half);
    }
}

/* Blocks of a panel from `at` on. */
CDZ_INLINE void tall_piece(cdz_dtype type, const cdz_int8_tile *t, size_t panel, size_t at)
{
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS / (cdz_dtype_block(type) / 32),
                 most = is_large(type) ? MOST_PIECE : PIECE,
                 n = t->blocks - at < most ? t->blocks - at : most;
    const size_t each = n * bytes / (t->height / TALL_ROWS);
    const piece p = {.w = (const uint8_t *)t->w + panel * t->stride + at * bytes,
                     .n = n,
                     .tall = t->height,
                     .x = t->x + at * t->height,
                     .y = t->y + panel * CDZ_PANEL_ROWS,
                     .ldy = t->ldy,
                     .first = t->first && at == 0,
                     .ask_for_x = t->cold || panel == 0,
                     .bytes_of_row = t->cold ? (each / CDZ_LINE_BYTES + 1) * CDZ_LINE_BYTES : 0};
    all_rows(type, &p);
}

/* Memory is read panel by panel. Weights that lie in a cache meet the activations of a piece while the nearest has those. */
CDZ_INLINE void tall_tile(cdz_dtype type, const cdz_int8_tile *t)
{
    const size_t most = is_large(type) ? MOST_PIECE : PIECE;
    for (size_t p = 0; t->cold && p < t->panels; p++)
        for (size_t at = 0; at < t->blocks; at += most) tall_piece(type, t, p, at);
    for (size_t at = 0; !t->cold && at < t->blocks; at += most)
        for (size_t p = 0; p < t->panels; p++) tall_piece(type, t, p, at);
}

#endif
