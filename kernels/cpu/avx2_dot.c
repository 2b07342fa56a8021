/* avx2_dot.c - dot products of a few activation rows with many weight rows, at the speed of
 * memory.
 *
 * A tile takes nr weight rows that lie far apart: the range is cut in nr parts that are walked
 * in step, so the loads form nr streams in different pages. Neighbouring rows would share pages
 * and halve the bandwidth. Each (activation row, weight row) pair has 16 lanes in two registers;
 * a tile has six pairs, twelve chains. */
#include "cpu/avx2.h"
#include "cpu/dot_rows.h"
#include "cpu/group16.h"

enum { MAX_PAIRS = 6 };

/* Adds eight columns to every pair's accumulators. One activation row stays in a register;
 * several share each weight instead, which leaves room for twelve accumulators, the weights and
 * one activation. */
CDZ_INLINE void add_half(int mr, int nr, cdz_dtype dtype, bool bf16_pairs, const char *w,
                         size_t w_stride, size_t wk, const float *x, size_t ldx, __m256 *acc)
{
    __m256 wj[MAX_PAIRS];
    const __m256 x0 = _mm256_loadu_ps(x);
    CDZ_UNROLL
    for (int j = 0; j < nr; j++) {
        wj[j] = load8(dtype, w + (size_t)j * w_stride, wk);
        if (mr == 1) multiply_add8(bf16_pairs, &acc[j], wj[j], x0);
    }
    CDZ_UNROLL
    for (int r = 0; r < mr && mr > 1; r++) {
        const __m256 xr = _mm256_loadu_ps(x + (size_t)r * ldx);
        CDZ_UNROLL
        for (int j = 0; j < nr; j++) multiply_add8(bf16_pairs, &acc[r * nr + j], wj[j], xr);
    }
}

/* Eight of a group's levels: two tables of eight, the upper one where the fourth bit is set. */
CDZ_INLINE __m256 level8(const float *levels, __m256i q)
{
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels), q),
                 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(levels + 8), q);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(q, 28)));
}

/* Half h of a group of a row of blocks, rounded as ref/quant_rows.h says. */
CDZ_INLINE __m256 group8(cdz_dtype dtype, const group16 *g, int h)
{
    if (dtype == CDZ_FP8) {
        const __m128i codes = _mm_cvtepu8_epi16(h ? _mm_srli_si128(g->q, 8) : g->q);
        return _mm256_mul_ps(_mm256_cvtph_ps(half_of_e4m3(codes)), _mm256_set1_ps(g->d));
    }
    const __m256i q = _mm256_cvtepi8_epi32(h ? _mm_srli_si128(g->q, 8) : g->q);
    const __m256 wide = has_levels(dtype) ? level8(levels_of(dtype), q) : _mm256_cvtepi32_ps(q);
    const __m256 v = _mm256_mul_ps(wide, _mm256_set1_ps(g->d));
    if (dtype == CDZ_INT8) return _mm256_mul_ps(v, _mm256_set1_ps(1.0f / 127.0f));
    const int sign = sign_of_minimum(dtype);
    if (sign == 0) return v;
    return sign > 0 ? _mm256_add_ps(v, _mm256_set1_ps(g->m))
                    : _mm256_sub_ps(v, _mm256_set1_ps(g->m));
}

/* Adds one group of 16 columns of blocks: a weight row after the other, which is widened once. */
CDZ_INLINE void add_blocks(int mr, int nr, const weights *w, size_t k, const float *x, size_t ldx,
                           __m256 *low, __m256 *high)
{
    CDZ_UNROLL
    for (int j = 0; j < nr; j++) {
        const group16 g = group_at(w->dtype, w->row + (size_t)j * w->row_stride, k);
        const __m256 w0 = group8(w->dtype, &g, 0), w1 = group8(w->dtype, &g, 1);
        CDZ_UNROLL
        for (int r = 0; r < mr; r++) {
            fma8(&low[r * nr + j], w0, _mm256_loadu_ps(x + (size_t)r * ldx));
            fma8(&high[r * nr + j], w1, _mm256_loadu_ps(x + (size_t)r * ldx + 8));
        }
    }
}

/* Adds one group of 16 columns. */
CDZ_INLINE void add_group(int mr, int nr, cdz_dtype dtype, bool bf16_pairs, const char *w,
                          size_t w_stride, size_t wk, const float *x, size_t ldx, __m256 *low,
                          __m256 *high)
{
    add_half(mr, nr, dtype, bf16_pairs, w, w_stride, wk, x, ldx, low);
    add_half(mr, nr, dtype, bf16_pairs, w, w_stride, wk + 8, x + 8, ldx, high);
}

/* The first n columns of a group of blocks as float32, zeros past them. */
CDZ_INLINE void widen_tail(tail_group *tail, cdz_dtype dtype, const void *row, size_t k, size_t n)
{
    const group16 g = group_at(dtype, row, k);
    _mm256_storeu_ps(tail->f, group8(dtype, &g, 0));
    _mm256_storeu_ps(tail->f + 8, group8(dtype, &g, 1));
    memset(tail->f + n, 0, (CDZ_LANES - n) * sizeof *tail->f);
}

/* The last n columns, copied out and padded with zeros. */
CDZ_INLINE void add_tail(int mr, int nr, const weights *w, const float *x, size_t ldx, size_t k,
                         size_t n, __m256 *low, __m256 *high)
{
    tail_group wt[MAX_PAIRS], xt[MAX_PAIRS];
    const bool blocks = w->dtype >= CDZ_N_PLAIN;
    for (int j = 0; j < nr; j++) {
        const char *row = w->row + (size_t)j * w->row_stride;
        if (blocks)
            widen_tail(&wt[j], w->dtype, row, k, n);
        else
            copy_tail(&wt[j], w->dtype, row, k, n);
    }
    for (int r = 0; r < mr; r++) copy_tail(&xt[r], CDZ_F32, x + (size_t)r * ldx, k, n);
    add_group(mr, nr, blocks ? CDZ_F32 : w->dtype, w->bf16_pairs, (const char *)wt, sizeof *wt, 0,
              xt[0].f, CDZ_LANES, low, high);
}

CDZ_INLINE void dot_tile(int mr, int nr, cdz_ask ask, const char *asked, const weights *w, size_t k,
                         const float *x, size_t ldx, float *y, size_t ldy, size_t y_step)
{
    size_t from = 0;
    do {
        const size_t to = k - from < CDZ_K_CHUNK ? k : from + CDZ_K_CHUNK;
        const size_t whole = from + (to - from) / CDZ_LANES * CDZ_LANES;
        __m256 low[MAX_PAIRS], high[MAX_PAIRS];
        CDZ_UNROLL
        for (int i = 0; i < mr * nr; i++) low[i] = high[i] = _mm256_setzero_ps();
        for (size_t at = from; at < whole; at += CDZ_LANES) {
            cdz_ask_for(ask, nr, asked, w->row_stride, at * element_bytes(w->dtype));
            if (w->dtype < CDZ_N_PLAIN)
                add_group(mr, nr, w->dtype, w->bf16_pairs, w->row, w->row_stride, at, x + at, ldx,
                          low, high);
            else
                add_blocks(mr, nr, w, at, x + at, ldx, low, high);
        }
        if (has_tail(w->dtype) && whole < to)
            add_tail(mr, nr, w, x, ldx, whole, to - whole, low, high);
        CDZ_UNROLL
        for (int i = 0; i < mr * nr; i++) {
            float *out = y + (size_t)(i / nr) * ldy + (size_t)(i % nr) * y_step;
            const float sum = fold8(_mm256_add_ps(low[i], high[i]));
            *out = from == 0 ? sum : *out + sum;
        }
        from = to;
    } while (from < k);
}

/* 2 x 3 and 3 x 2 pairs, or one row by any number. */
CDZ_INLINE size_t most_rows(cdz_dtype dtype, int nr)
{
    (void)dtype;
    return nr == 2 ? 3 : nr == 3 ? 2 : 1;
}

CDZ_INLINE void all_rows(int nr, const weights *w, size_t k, const float *x, size_t ldx,
                         const cdz_row_tiles *rows, float *y, size_t ldy, size_t y_step)
{
    for (size_t i = 0, r = 0, height; i < rows->n; i++, r += height) {
        height = rows->height + (i < rows->taller);
        switch (height) {
        case 3: tile_at(i, rows, r, nr == 2 ? 3 : 1, nr, w, k, x, ldx, y, ldy, y_step); break;
        case 2:
            tile_at(i, rows, r, nr == 2 || nr == 3 ? 2 : 1, nr, w, k, x, ldx, y, ldy, y_step);
            break;
        default: tile_at(i, rows, r, 1, nr, w, k, x, ldx, y, ldy, y_step); break;
        }
    }
}

/* How many streams suit m activation rows: 1x6, 2x3 or 3x2 pairs; the rows left over go one by
 * one. */
CDZ_INLINE void dot_any(cdz_dtype dtype, bool bf16_pairs, float *y, size_t ldy, const void *w,
                        size_t n, size_t k, const float *x, size_t ldx, size_t m)
{
    size_t done;
    if (m == 1)
        done = far_rows(6, dtype, bf16_pairs, w, n, k, x, ldx, m, y, ldy);
    else if (m == 2)
        done = far_rows(3, dtype, bf16_pairs, w, n, k, x, ldx, m, y, ldy);
    else
        done = far_rows(2, dtype, bf16_pairs, w, n, k, x, ldx, m, y, ldy);
    const char *rest = (const char *)w + done * cdz_row_bytes(dtype, k);
    far_rows(1, dtype, bf16_pairs, rest, n - done, k, x, ldx, m, y + done, ldy);
}

void cdz_avx2_dot_f32(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                      size_t ldx, size_t m)
{
    dot_any(CDZ_F32, false, y, ldy, w, n, k, x, ldx, m);
}

void cdz_avx2_dot_f16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                      size_t ldx, size_t m)
{
    dot_any(CDZ_F16, false, y, ldy, w, n, k, x, ldx, m);
}

void cdz_avx2_dot_bf16(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                       size_t ldx, size_t m)
{
    dot_any(CDZ_BF16, false, y, ldy, w, n, k, x, ldx, m);
}

/* The last group of a row that ends within it. */
CDZ_INLINE void widen_end(cdz_dtype dtype, float *y, const void *row, size_t k, size_t n)
{
    tail_group last;
    widen_tail(&last, dtype, row, k, n);
    memcpy(y, last.f, n * sizeof *y);
}

#define BLOCKS(name, dtype, set)                                                                   \
    void set##_dot_##name(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x, \
                          size_t ldx, size_t m)                                                    \
    {                                                                                              \
        const size_t done = far_rows(2, dtype, false, w, n, k, x, ldx, m, y, ldy);                 \
        const char *rest = (const char *)w + done * cdz_row_bytes(dtype, k);                       \
        far_rows(1, dtype, false, rest, n - done, k, x, ldx, m, y + done, ldy);                    \
    }                                                                                              \
    void set##_widen_##name(float *restrict y, const void *restrict x, size_t n)                   \
    {                                                                                              \
        const size_t whole = has_tail(dtype) ? n / CDZ_LANES * CDZ_LANES : n;                      \
        for (size_t k = 0; k < whole; k += CDZ_LANES) {                                            \
            const group16 g = group_at(dtype, x, k);                                               \
            _mm256_storeu_ps(y + k, group8(dtype, &g, 0));                                         \
            _mm256_storeu_ps(y + k + 8, group8(dtype, &g, 1));                                     \
        }                                                                                          \
        if (whole < n) widen_end(dtype, y + whole, x, whole, n - whole);                           \
    }
CDZ_BLOCK_TYPES(BLOCKS, cdz_avx2)

#if defined(CDZ_HAVE_X86)
static __attribute__((noinline)) void dot_pairs(float *y, size_t ldy, const void *w, size_t n,
                                                size_t k, const float *x, size_t ldx, size_t m)
{
    dot_any(CDZ_F32, true, y, ldy, w, n, k, x, ldx, m);
}

void cdz_avx2_dot_pairs(float *y, size_t ldy, const void *w, size_t n, size_t k, const float *x,
                        size_t ldx, size_t m)
{
    const unsigned before = small_to_zero();
    dot_pairs(y, ldy, w, n, k, x, ldx, m);
    _mm_setcsr(before);
}
#endif
