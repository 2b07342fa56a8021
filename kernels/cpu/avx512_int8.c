/* avx512_int8.c - products with int8 activations for AVX-512 with VNNI: one register holds a word of four
 * weights of each of a panel's sixteen rows, one instruction multiplies it with four activations and
 * adds. Weights enter unsigned, their offset times the activations' sum comes off first. Integers are exact,
 * so the bits are those of ref_int8.c. */
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

CDZ_INLINE void add_factors(cdz_dtype type, __m512 *acc, words whole, __m512 d, __m512 m,
                            const cdz_x8 *x)
{
    fma16(acc, _mm512_cvtepi32_ps(whole), _mm512_mul_ps(d, _mm512_set1_ps(x->d)));
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1) fma16(acc, m, _mm512_set1_ps(x->s));
    if (type == CDZ_Q4_K || type == CDZ_Q5_K)
        *acc = _mm512_fnmadd_ps(m, _mm512_set1_ps(x->s), *acc);
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
        add_factors(type, &acc[i], sums[i], f[i / height].d[at->sub], f[i / height].m[at->sub],
                    &s->x[i % height]);
}

/* Q2_K's minima of both halves times the sums of theirs; each fits in 16 bits. */
CDZ_INLINE void take_minima(int height, const uint8_t *w, int sub, const cdz_x8 *x, __m512 *acc)
{
    const int from = sub % 2 * 16;
    const words both = word_at(w + 64, (size_t)sub / 2);
    const words minima = _mm512_or_si512(field(both, from + 4, 15),
                                         _mm512_slli_epi32(field(both, from + 12, 15), 16));
    const __m512 dmin = halves_at(w + 32);
    CDZ_UNROLL
    for (int r = 0; r < height; r++) {
        const words j = _mm512_madd_epi16(minima, _mm512_set1_epi32(both_sums(&x[r])));
        acc[r] = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, _mm512_set1_ps(x[r].d)),
                                  _mm512_cvtepi32_ps(j), acc[r]);
    }
}

/* The same for the types whose halves of 16 have scales of their own. */
CDZ_INLINE void block_of_halves(cdz_dtype type, int height, const uint8_t *w, const place *at,
                                const cdz_x8 *x, __m512 *acc)
{
    words sums[MOST_SUMS];
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
        const words scale = scale_of_16(type, w, 2 * at->sub + h);
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const words scaled = _mm512_mullo_epi32(part[r], scale);
            sums[r] = h ? _mm512_add_epi32(sums[r], scaled) : scaled;
        }
    }
    const __m512 d = halves_at(w);
    CDZ_UNROLL
    for (int r = 0; r < height; r++) add_factors(type, &acc[r], sums[r], d, d, &x[r]);
    if (type == CDZ_Q2_K) take_minima(height, w, at->sub, x, acc);
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

/* Panels in step for `height` rows. Sums of halves leave no registers for those of a second panel. */
CDZ_INLINE int in_step(cdz_dtype type, int height)
{
    const int most = type == CDZ_Q3_K ? 1 : has_halves(type) ? 2 : 4;
    return height <= most ? 2 : 1;
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    switch (t->height) {
    case 24: all_panels(type, 24, is_large(type) ? 12 : 6, is_large(type) ? 1 : 2, t); break;
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
