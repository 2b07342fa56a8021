/* neon_i8mm.c - products with int8 activations by arm64's instruction for matrices (SMMLA): eight columns of two activation
 * rows by those of two weight rows give four sums. A part of a panel is four weight rows, so that eight activation rows share
 * the work on its bytes, and all sums are registers. Sums stay two by two until outputs are stored; what they meet lies so too.
 * A row alone is multiplied as without the instruction: half of the sums would be nobody's. */
#include "cpu/int8_types.h"

/* PIECE: blocks of columns between loading and storing outputs; the nearest cache holds a panel's. */
enum { PART_ROWS = 4, X_ROWS = 2, AT_ONCE = 2, MOST_SUMS = 4, PIECE = 32 };

typedef __m256i words;

/* A block of two activation rows. Of numbers, the first row's twice, then the second's. */
typedef struct activations {
    int8_t q[4][16]; /* eight of the first row, eight of the second */
    float d[4], s[4];
    int32_t start[2][4], both[4]; /* start_of, both_sums */
} activations;

/* The first halves of a and b, and the second. */
CDZ_INLINE int32x4_t firsts(int32x4_t a, int32x4_t b)
{
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

CDZ_INLINE int32x4_t seconds(int32x4_t a, int32x4_t b)
{
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

/* a and b from rows to pairs, or back. */
CDZ_INLINE words paired(int32x4_t a, int32x4_t b)
{
    return (words){firsts(a, b), seconds(a, b)};
}

CDZ_INLINE words twice(int32x4_t v)
{
    return (words){v, v};
}

/* ---- weights ---- */

/* Words i and i + 1 of the part at `at`, one in each register. */
CDZ_INLINE words word_at(const uint8_t *at, size_t i)
{
    const int8_t *word = (const int8_t *)at + 64 * i;
    return (words){vreinterpretq_s32_s8(vld1q_s8(word)), vreinterpretq_s32_s8(vld1q_s8(word + 64))};
}

/* Those of words g and g + 1 at bit 0: they lie turned in one word (ref/panels.c). */
CDZ_INLINE words fifth_bits(const uint8_t *at, int g)
{
    const int32x4_t bits = word_at(at, 0).low;
    return (words){cdz_shift_halves(bits, -g), cdz_shift_halves(bits, -g - 1)};
}

CDZ_INLINE words each_word(const uint8_t *at, size_t i)
{
    const int32x4_t v = vreinterpretq_s32_s8(vld1q_s8((const int8_t *)at + 64 * i));
    return paired(v, v);
}

CDZ_INLINE __m256 halves_at(const uint8_t *at)
{
    const float16x4_t halves = vreinterpret_f16_u8(vld1_u8(at));
    const int32x4_t v = vreinterpretq_s32_f32(vcvt_f32_f16(halves));
    return _mm256_castsi256_ps(paired(v, v));
}

/* Eight columns of a row in a half of a register. */
CDZ_INLINE words operand(cdz_dtype type, words w)
{
    (void)type;
    return (words){vzip1q_s32(w.low, w.high), vzip2q_s32(w.low, w.high)};
}

/* ---- activations ---- */

CDZ_INLINE __m256 d_of(const activations *x)
{
    return _mm256_castsi256_ps(twice(vreinterpretq_s32_f32(vld1q_f32(x->d))));
}

CDZ_INLINE __m256 s_of(const activations *x)
{
    return _mm256_castsi256_ps(twice(vreinterpretq_s32_f32(vld1q_f32(x->s))));
}

CDZ_INLINE words start_of(cdz_dtype type, const activations *x, int half)
{
    return twice(offset_of(type) ? vld1q_s32(x->start[half]) : vdupq_n_s32(0));
}

CDZ_INLINE words both_of(const activations *x)
{
    return twice(vld1q_s32(x->both));
}

CDZ_INLINE words words_of_x(const activations *x, int g)
{
    return twice(vreinterpretq_s32_s8(vld1q_s8(x->q[g / 2])));
}

CDZ_INLINE void pair_rows(cdz_dtype type, activations *to, const cdz_x8 *rows)
{
    for (int half = 0; half < 2; half++) {
        const words q = paired(vreinterpretq_s32_s8(vld1q_s8(rows[0].q + 16 * half)),
                               vreinterpretq_s32_s8(vld1q_s8(rows[1].q + 16 * half)));
        vst1q_s8(to->q[2 * half], vreinterpretq_s8_s32(q.low));
        vst1q_s8(to->q[2 * half + 1], vreinterpretq_s8_s32(q.high));
    }
    for (int i = 0; i < 4; i++) {
        const cdz_x8 *x = &rows[i / 2];
        to->d[i] = x->d;
        to->s[i] = x->s;
        to->both[i] = both_sums(x);
        for (int half = 0; half < 2; half++)
            to->start[half][i] = -offset_of(type) * sum_of(type, x, half);
    }
}

/* ---- sums ---- */

/* Four outputs of two rows. */
CDZ_INLINE __m256 load_sums(const float *y, size_t ldy)
{
    return _mm256_castsi256_ps(
        paired(vreinterpretq_s32_f32(vld1q_f32(y)), vreinterpretq_s32_f32(vld1q_f32(y + ldy))));
}

CDZ_INLINE void store_sums(float *y, size_t ldy, __m256 sums)
{
    const __m256i pairs = _mm256_castps_si256(sums);
    const __m256 rows = _mm256_castsi256_ps(paired(pairs.low, pairs.high));
    vst1q_f32(y, rows.low);
    vst1q_f32(y + ldy, rows.high);
}

/* All of a block, or of a half that has a scale: a sum is done before the next one begins. */
CDZ_INLINE int words_together(cdz_dtype type)
{
    (void)type;
    return 8;
}

/* Nothing: three parts of four find their bytes in the nearest cache. */
CDZ_INLINE size_t asked_of_block(cdz_dtype type)
{
    (void)type;
    return 0;
}

CDZ_INLINE void multiply(words *sum, words x, words w)
{
    sum->low = vmmlaq_s32(sum->low, vreinterpretq_s8_s32(x.low), vreinterpretq_s8_s32(w.low));
    sum->high = vmmlaq_s32(sum->high, vreinterpretq_s8_s32(x.high), vreinterpretq_s8_s32(w.high));
}

#include "cpu/int8_tile.h"

/* ---- tiles ---- */

/* n blocks of columns from one on, of all panels. */
CDZ_INLINE void piece(cdz_dtype type, int height, const cdz_int8_tile *t, size_t from, size_t n)
{
    enum { PARTS = CDZ_PANEL_ROWS / PART_ROWS };
    const size_t pairs = (size_t)height / X_ROWS;
    const uint8_t *w = (const uint8_t *)t->w + cdz_row_bytes(type, from * CDZ_X8) * CDZ_PANEL_ROWS;
    activations x[PIECE * MOST_SUMS];
    for (size_t i = 0; i < n * pairs; i++)
        pair_rows(type, &x[i], t->x + from * (size_t)height + X_ROWS * i);
    cdz_int8_tile some = *t;
    some.x = (const cdz_x8 *)(const void *)x;
    some.blocks = n;
    some.first = t->first && from == 0;
    for (size_t p = 0; p < t->panels; p++)
        for (size_t part = 0; part < PARTS; part++)
            parts_in_step(type, height, part, 1, &some, w + p * t->stride, 0,
                          t->y + p * CDZ_PANEL_ROWS, 0);
}

CDZ_INLINE void pieces(cdz_dtype type, int height, const cdz_int8_tile *t)
{
    for (size_t from = 0; from < t->blocks; from += PIECE)
        piece(type, height, t, from, t->blocks - from < PIECE ? t->blocks - from : PIECE);
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    switch (t->height) {
    case 8: pieces(type, 8, t); break;
    case 4: pieces(type, 4, t); break;
    default: pieces(type, 2, t); break;
    }
}

#define TILE(name, dtype, prefix)                                                                  \
    void prefix##_##name(const cdz_int8_tile *t)                                                   \
    {                                                                                              \
        if (t->height == 1)                                                                        \
            cdz_neon_dotprod_##name(t);                                                            \
        else                                                                                       \
            tile(dtype, t);                                                                        \
    }
CDZ_GGUF_TYPES(TILE, cdz_neon_i8mm)
