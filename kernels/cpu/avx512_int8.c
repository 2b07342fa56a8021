/* avx512_int8.c - products with int8 activations for AVX-512 with VNNI: one register holds a word of four
 * weights of each of a panel's sixteen rows, one instruction multiplies it with four activations and
 * adds. Weights enter unsigned, their offset times the activations' sum comes off first; in tall tiles, for which weights are
 * unpacked once, activations do, 128 times the weights' sum comes off. Integers are exact, so the bits are those of ref_int8.c. */
#include "cpu/avx512_int8.h"

enum {
    MOST_SUMS = 12, /* accumulators: rows times far panels */
    MOST_FAR = 2
};

CDZ_INLINE words four_of_x(const cdz_x8 *x, int g)
{
    int32_t four;
    memcpy(&four, x->q + 4 * g, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Some rows of a tile by panels that lie `apart` bytes from each other, at a block. Its bytes are here because a call that
 * asks for them within the loop takes all sums from their registers. */
typedef struct strip {
    const uint8_t *w;
    size_t apart, bytes;
    const cdz_x8 *x;
    size_t tall; /* rows of the tile */
    bool ask;    /* for what comes after the block */
} strip;

/* A block of 32 of `far` panels by `height` rows. Activations are loaded once for all panels: a load for each product
 * would take longer than the product. */
CDZ_INLINE void block(cdz_dtype type, int height, int far, const strip *s, const place *at,
                      const factors *f, __m512 *acc)
{
    words sums[MOST_SUMS];
    CDZ_UNROLL
    for (int i = 0; i < far * height; i++)
        sums[i] = _mm512_set1_epi32(-taken_off(type) * s->x[i % height].sum);
    CDZ_UNROLL
    for (int g = 0; g < 8; g++) {
        words u[MOST_FAR];
        CDZ_UNROLL
        for (int p = 0; p < far; p++) u[p] = weights(type, s->w + (size_t)p * s->apart, at, g);
        CDZ_UNROLL
        for (int i = 0; i < far * height; i++) {
            const int r = i / far, p = i % far;
            sums[p * height + r] =
                _mm512_dpbusd_epi32(sums[p * height + r], u[p], four_of_x(&s->x[r], g));
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < far * height; i++)
        add_factors(type, &acc[i], _mm512_cvtepi32_ps(sums[i]), f[i / height].d[at->sub],
                    f[i / height].m[at->sub], s->x[i % height].d, s->x[i % height].s);
}

/* The same for the types whose halves of 16 have scales of their own. What both halves come to is a whole number below 2^24, which
 * float32 holds, and multiplies faster than integers are. */
CDZ_INLINE void block_of_halves(cdz_dtype type, int height, const uint8_t *w, const place *at,
                                const cdz_x8 *x, __m512 *acc)
{
    __m512 whole[MOST_SUMS];
    CDZ_UNROLL
    for (int h = 0; h < 2; h++) {
        words part[MOST_SUMS];
        CDZ_UNROLL
        for (int r = 0; r < height; r++)
            part[r] = _mm512_set1_epi32(-taken_off(type) * sum_of(type, &x[r], h));
        CDZ_UNROLL
        for (int g = 4 * h; g < 4 * h + 4; g++) {
            const words u = weights(type, w, at, g);
            CDZ_UNROLL
            for (int r = 0; r < height; r++)
                part[r] = _mm512_dpbusd_epi32(part[r], u, four_of_x(&x[r], g));
        }
        const __m512 scale = _mm512_cvtepi32_ps(scale_of_16(type, w, 2 * at->sub + h));
        CDZ_UNROLL
        for (int r = 0; r < height; r++) add_half(h, &whole[r], part[r], scale);
    }
    const __m512 d = halves_at(w);
    CDZ_UNROLL
    for (int r = 0; r < height; r++) add_factors(type, &acc[r], whole[r], d, d, x[r].d, x[r].s);
    if (type != CDZ_Q2_K) return;
    const words minima = minima_of(w, at->sub);
    const __m512 dmin = halves_at(w + 32);
    CDZ_UNROLL
    for (int r = 0; r < height; r++) take_minima(minima, dmin, x[r].d, both_sums(&x[r]), &acc[r]);
}

/* For what comes after n bytes of the panels. Blocks of 32 are computed so fast that asking for them into the first cache keeps
 * other loads waiting. */
CDZ_INLINE void ask_ahead(cdz_dtype type, int far, const strip *s, size_t from, size_t n)
{
    CDZ_UNROLL
    for (int p = 0; p < far; p++)
        cdz_ask_in_panel(s->w + (size_t)p * s->apart + from, n,
                         s->tall < 8 ? CDZ_AHEAD_IN_FAR_PANELS : CDZ_AHEAD_IN_PANELS,
                         !is_large(type));
}

/* A block of the type. */
CDZ_INLINE void whole_block(cdz_dtype type, int height, int far, strip s, __m512 *acc)
{
    const int subs = is_large(type) ? 8 : 1;
    const size_t bytes = s.bytes / (size_t)subs;
    factors f[MOST_FAR];
    CDZ_UNROLL
    for (int p = 0; p < far; p++) find_factors(type, s.w + (size_t)p * s.apart, &f[p]);
    for (int sub = 0; sub < subs; sub++, s.x += s.tall) {
        const place at = place_of(type, sub);
        if (s.ask) ask_ahead(type, far, &s, (size_t)sub * bytes, bytes);
        if (!has_halves(type)) {
            block(type, height, far, &s, &at, f, acc);
            continue;
        }
        CDZ_UNROLL
        for (int p = 0; p < far; p++)
            block_of_halves(type, height, s.w + (size_t)p * s.apart, &at, s.x, acc + p * height);
    }
}

/* Rows [row, row + height) of a tile by panels p, p + apart ... */
typedef struct corner {
    size_t row, p, apart;
} corner;

/* Of its output i, row by row of one panel, then of the next. */
CDZ_INLINE float *output_at(const cdz_int8_tile *t, const corner *c, int height, int i)
{
    const size_t p = c->p + (size_t)(i / height) * c->apart, row = c->row + (size_t)(i % height);
    return t->y + row * t->ldy + p * CDZ_PANEL_ROWS;
}

/* Whole bytes by one row are so little work that nothing but reading takes time. */
CDZ_INLINE bool asks(cdz_dtype type, int tall)
{
    return type != CDZ_Q8_0 || tall > 1;
}

/* `far` panels in step: as many streams from memory. The first rows of a tile ask for what comes. */
CDZ_INLINE void far_panels(cdz_dtype type, int tall, int height, int far, const cdz_int8_tile *t,
                           const corner *c)
{
    const size_t per = cdz_dtype_block(type) / 32;
    strip s = {(const uint8_t *)t->w + c->p * t->stride,
               c->apart * t->stride,
               cdz_dtype_bytes(type) * CDZ_PANEL_ROWS,
               t->x + c->row,
               (size_t)tall,
               t->cold && c->row == 0 && asks(type, tall)};
    __m512 acc[MOST_SUMS];
    CDZ_UNROLL
    for (int i = 0; i < height * far; i++)
        acc[i] = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(output_at(t, c, height, i));
    for (size_t b = t->blocks; b > 0; b -= per, s.w += s.bytes, s.x += per * s.tall)
        whole_block(type, height, far, s, acc);
    CDZ_UNROLL
    for (int i = 0; i < height * far; i++) _mm512_storeu_ps(output_at(t, c, height, i), acc[i]);
}

/* A tile of `tall` rows, `height` at a time. */
CDZ_INLINE void all_panels(cdz_dtype type, int tall, int height, int far, const cdz_int8_tile *t)
{
    const size_t each = t->panels / (size_t)far;
    for (size_t p = 0; p < each; p++)
        for (int row = 0; row < tall; row += height)
            far_panels(type, tall, height, far, t, &(corner){(size_t)row, p, each});
    for (size_t p = each * (size_t)far; p < t->panels; p++)
        for (int row = 0; row < tall; row += height)
            far_panels(type, tall, height, 1, t, &(corner){(size_t)row, p, 0});
}

/* ---- tall tiles: weights are unpacked once for all rows ---- */

/* Blocks of one or two panels, from block `at` of a tile on. Activations are the unsigned ones here, 128 too great, so that what
 * comes off hangs on weights only: sums begin with it. What comes after the blocks is asked for meanwhile, n bytes of each panel,
 * some at every block of every few rows: all at once they would keep the next unpacking waiting. */
typedef struct unpacked {
    piece p[MOST_FAR];
    words begin[MOST_FAR][MOST_PIECE][2]; /* of both halves where they have scales of their own */
    size_t at;
    const uint8_t *w;
    size_t apart, n, each, asked;
} unpacked;

/* Parts of a block that are summed apart. */
CDZ_INLINE int parts_of(cdz_dtype type)
{
    return has_halves(type) ? 2 : 1;
}

/* What comes off the sums of words [from, to) of a block. */
CDZ_INLINE words begin_of(const int8_t *q, int from, int to)
{
    words sums = _mm512_setzero_si512();
    CDZ_UNROLL
    for (int g = from; g < to; g++)
        sums = _mm512_dpbusd_epi32(sums, bytes_of(128), _mm512_load_si512(q + 64 * g));
    return _mm512_sub_epi32(_mm512_setzero_si512(), sums);
}

/* n blocks of `bytes` of `far` panels. */
CDZ_INLINE void unpack_panels(cdz_dtype type, int far, size_t n, size_t bytes, unpacked *u)
{
    const int parts = parts_of(type), each = 8 / parts;
    for (int i = 0; i < far; i++) {
        unpack(type, u->w + (size_t)i * u->apart, n, bytes, &u->p[i]);
        for (size_t b = 0; b < n; b++)
            for (int h = 0; h < parts; h++)
                u->begin[i][b][h] = begin_of(u->p[i].q[b], each * h, each * (h + 1));
    }
}

CDZ_INLINE void ask_for_some(int far, unpacked *u)
{
    if (u->asked >= u->n) return;
    CDZ_UNROLL
    for (int i = 0; i < far; i++)
        cdz_ask_in_panel(u->w + (size_t)i * u->apart + u->asked, u->each, CDZ_AHEAD_IN_PANELS, true);
    u->asked += u->each;
}

/* Word g of block b. */
CDZ_INLINE void add_word(int height, int far, const unpacked *u, size_t b, int g, const cdz_x8 *x,
                         words *sums)
{
    words w[MOST_FAR];
    CDZ_UNROLL
    for (int i = 0; i < far; i++) w[i] = _mm512_load_si512(u->p[i].q[b] + 64 * g);
    CDZ_UNROLL
    for (int i = 0; i < far * height; i++) {
        const int r = i / far, f = i % far;
        sums[f * height + r] = _mm512_dpbusd_epi32(sums[f * height + r], four_of_x(&x[r], g), w[f]);
    }
}

CDZ_INLINE void unpacked_block(cdz_dtype type, int height, int far, const unpacked *u, size_t b,
                               const cdz_x8 *x, __m512 *acc)
{
    const int parts = parts_of(type), each = 8 / parts;
    __m512 whole[MOST_SUMS];
    CDZ_UNROLL
    for (int h = 0; h < parts; h++) {
        words sums[MOST_SUMS];
        CDZ_UNROLL
        for (int i = 0; i < far * height; i++) sums[i] = u->begin[i / height][b][h];
        CDZ_UNROLL
        for (int g = each * h; g < each * (h + 1); g++) add_word(height, far, u, b, g, x, sums);
        CDZ_UNROLL
        for (int i = 0; i < far * height; i++) {
            if (parts == 1)
                whole[i] = _mm512_cvtepi32_ps(sums[i]);
            else
                add_half(h, &whole[i], sums[i], u->p[i / height].scale[b][h]);
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < far * height; i++) {
        const piece *p = &u->p[i / height];
        const cdz_x8 *own = &x[i % height];
        add_factors(type, &acc[i], whole[i], p->d[b], p->m[b], own->d, own->s);
        if (type == CDZ_Q2_K) take_minima(p->minima[b], p->m[b], own->d, both_sums(own), &acc[i]);
    }
}

/* By the rows of a tile from c->row on. */
CDZ_INLINE void rows_by_unpacked(cdz_dtype type, int tall, int height, int far,
                                 const cdz_int8_tile *t, const corner *c, unpacked *u)
{
    const bool first = t->first && u->at == 0;
    const cdz_x8 *x = t->x + u->at * (size_t)tall + c->row;
    __m512 acc[MOST_SUMS];
    CDZ_UNROLL
    for (int i = 0; i < height * far; i++)
        acc[i] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(output_at(t, c, height, i));
    for (size_t b = 0; b < u->p[0].n; b++, x += tall) {
        ask_for_some(far, u);
        unpacked_block(type, height, far, u, b, x, acc);
    }
    CDZ_UNROLL
    for (int i = 0; i < height * far; i++) _mm512_storeu_ps(output_at(t, c, height, i), acc[i]);
}

/* `far` panels by all rows of a tile. */
CDZ_INLINE void tall_panels(cdz_dtype type, int tall, int height, int far, const cdz_int8_tile *t,
                            corner c)
{
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS / (is_large(type) ? 8 : 1),
                 most = is_large(type) ? MOST_PIECE : PIECE, groups = (size_t)(tall / height);
    unpacked u; /* much of it is never used: not cleared */
    u.w = (const uint8_t *)t->w + c.p * t->stride;
    u.apart = c.apart * t->stride;
    u.each = (bytes / groups + CDZ_LINE_BYTES) / CDZ_LINE_BYTES * CDZ_LINE_BYTES;
    for (u.at = 0; u.at < t->blocks; u.at += most, u.w += most * bytes) {
        const size_t n = t->blocks - u.at < most ? t->blocks - u.at : most;
        unpack_panels(type, far, n, bytes, &u);
        u.n = t->cold ? n * bytes : 0;
        u.asked = 0;
        for (c.row = 0; c.row < (size_t)tall; c.row += (size_t)height)
            rows_by_unpacked(type, tall, height, far, t, &c, &u);
    }
}

CDZ_INLINE void tall_tile(cdz_dtype type, int tall, const cdz_int8_tile *t)
{
    const size_t pairs = t->panels / 2;
    for (size_t p = 0; p < pairs; p++) tall_panels(type, tall, 6, 2, t, (corner){0, p, pairs});
    if (t->panels % 2 != 0) tall_panels(type, tall, 12, 1, t, (corner){0, t->panels - 1, 0});
}

/* Panels in step for `height` rows. Sums of halves leave no registers for those of a second panel. */
CDZ_INLINE int in_step(cdz_dtype type, int height)
{
    const int most = type == CDZ_Q3_K ? 1 : has_halves(type) ? 2 : 4;
    return height <= most ? 2 : 1;
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    switch (t->height) {
    case 96: tall_tile(type, 96, t); break;
    case 48: tall_tile(type, 48, t); break;
    case CDZ_VNNI_TALL: tall_tile(type, CDZ_VNNI_TALL, t); break;
    case 12: /* of a large block more is worked out for every six rows than a second panel saves */
        if (is_large(type))
            all_panels(type, 12, 12, 1, t);
        else
            all_panels(type, 12, 6, 2, t);
        break;
    case 8: all_panels(type, 8, 8, 1, t); break;
    case 4: all_panels(type, 4, 4, in_step(type, 4), t); break;
    case 2: all_panels(type, 2, 2, in_step(type, 2), t); break;
    default: all_panels(type, 1, 1, in_step(type, 1), t); break;
    }
}

#define TILE(name, dtype, prefix)                                                                  \
    void prefix##_##name(const cdz_int8_tile *t)                                                   \
    {                                                                                              \
        tile(dtype, t);                                                                            \
    }
CDZ_GGUF_TYPES(TILE, cdz_vnni_int8)
