/* int8_tile.h - products with int8 activations, the text that tiles by lanes (avx2_int8.h) and tiles by pairs (neon_i8mm.c)
 * share: what the bytes of a panel mean, and the order of the steps in float32. Who includes it has said how the numbers of a
 * part of a panel lie in a register:
 *   PART_ROWS, X_ROWS, AT_ONCE      weight rows of a part, activation rows of a sum, words of a load
 *   MOST_SUMS                       sums of the parts that are walked along in step
 *   activations                     a block of the rows of a sum
 *   word_at, fifth_bits             weights, as they are loaded
 *   each_word, halves_at            a number of each weight row, as sums have it
 *   d_of, s_of, start_of, both_of   the same of activation rows
 *   load_sums, store_sums           outputs
 *   words_together                  words by which add_words adds
 *   asked_of_block                  bytes that are asked for ahead of a block
 *   operand, words_of_x, multiply   where it adds in 32 bits: weights and activations as the instruction takes them, and it */
#ifndef CDZ_CPU_INT8_TILE_H
#define CDZ_CPU_INT8_TILE_H

#include "cpu/int8_types.h"

/* The two-byte fields of a part of a panel. */
CDZ_INLINE const uint8_t *fields_of(const uint8_t *panel, size_t part)
{
    return panel + 2 * PART_ROWS * part;
}

/* What follows them, of the part. */
CDZ_INLINE const uint8_t *words_of(cdz_dtype type, const uint8_t *panel, size_t part)
{
    return panel + (two_fields(type) ? 64 : 32) + 4 * PART_ROWS * part;
}

/* A block of 32 of a part of a panel, past the two-byte fields. Of a large block's sub-block `sub`: where its weights are, a
 * word, its nibbles, its upper bits. Known only as the loop runs, so that the code is there once. */
typedef struct place {
    const uint8_t *w;
    int sub;
    size_t word, upper;
    __m128i shift, upper_shift;
} place;

CDZ_INLINE place place_of(cdz_dtype type, const uint8_t *w, int sub)
{
    const int half = sub / 4, group = sub % 4;
    if (type == CDZ_Q6_K)
        return (place){w,
                       sub,
                       (size_t)(half * 24 + 8 + group % 2 * 8),
                       (size_t)half * 24,
                       _mm_cvtsi32_si128(group / 2 * 4),
                       _mm_cvtsi32_si128(2 * group)};
    if (type == CDZ_Q2_K || type == CDZ_Q3_K)
        return (place){
            w, sub, (size_t)(half * 8), 0, _mm_cvtsi32_si128(group * 2), _mm_cvtsi32_si128(sub)};
    return (place){
        w, sub, (size_t)(sub / 2 * 8), 0, _mm_cvtsi32_si128(sub % 2 * 4), _mm_cvtsi32_si128(sub)};
}

CDZ_INLINE words low_bits(words v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

/* v | (w & mask) << 4 */
CDZ_INLINE words with_bits(words v, words w, char mask)
{
    const words bits = _mm256_and_si256(w, _mm256_set1_epi8(mask));
    return _mm256_or_si256(v, _mm256_slli_epi16(bits, 4));
}

/* Nibbles of word g of four, the low ones first. */
CDZ_INLINE words nibbles(const uint8_t *w, int g)
{
    const words v = word_at(w, (size_t)g % 4);
    return low_bits(g < 4 ? v : _mm256_srli_epi16(v, 4));
}

/* The same with fifth bits. */
CDZ_INLINE words five_bits(const uint8_t *w, const uint8_t *upper, int g)
{
    return with_bits(nibbles(w, g), fifth_bits(upper, g), 1);
}

CDZ_INLINE words large_nibbles(const place *at, size_t from, size_t i)
{
    return low_bits(_mm256_srl_epi16(word_at(at->w + from, at->word + i), at->shift));
}

/* Two bits of every byte of word i. */
CDZ_INLINE words two_bits(const place *at, size_t from, size_t i)
{
    return _mm256_and_si256(_mm256_srl_epi16(word_at(at->w + from, at->word + i), at->shift),
                            _mm256_set1_epi8(3));
}

/* The upper bits of word i, at bit 0. */
CDZ_INLINE words upper_bits(const place *at, size_t from, size_t i)
{
    return _mm256_srl_epi16(word_at(at->w + from, at->upper + i), at->upper_shift);
}

/* The third bits of Q3_K at bit 2. */
CDZ_INLINE words third_bits(const place *at, size_t from, size_t i)
{
    const words bits = upper_bits(at, from, i);
    return _mm256_slli_epi16(_mm256_and_si256(bits, _mm256_set1_epi8(1)), 2);
}

/* Weights 4 g to 4 g + 3 of a block of 32, and of the words that are loaded with them: unsigned bytes, signed ones of
 * Q8_0. */
CDZ_INLINE words weights(cdz_dtype type, const place *at, int g)
{
    const uint8_t *w = at->w;
    const size_t i = (size_t)g;
    switch (type) {
    case CDZ_Q8_0: return word_at(w, i);
    case CDZ_Q4_0:
    case CDZ_Q4_1: return nibbles(w, g);
    case CDZ_Q5_0:
    case CDZ_Q5_1: return five_bits(w + 64, w, g);
    case CDZ_Q2_K: return two_bits(at, 256, i);
    case CDZ_Q3_K: return _mm256_or_si256(two_bits(at, 704, i), third_bits(at, 192, i));
    case CDZ_Q4_K: return large_nibbles(at, 192, i);
    case CDZ_Q5_K: return with_bits(large_nibbles(at, 704, i), upper_bits(at, 192, i), 1);
    default: /* CDZ_Q6_K */ return with_bits(large_nibbles(at, 256, i), upper_bits(at, 256, i), 3);
    }
}

/* Byte `byte` of every word. */
CDZ_INLINE words byte_of(words v, int byte, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi32(v, byte * 8), _mm256_set1_epi32(mask));
}

/* Six bits of Q4_K's and Q5_K's scales (of = 0) or minima (of = 1), sub-block `sub`. */
CDZ_INLINE words six_bits(const uint8_t *w, int sub, int of)
{
    const words own = each_word(w, (size_t)of), last = each_word(w, 2);
    if (sub < 4) return byte_of(own, sub, 63);
    const words low = byte_of(of ? _mm256_srli_epi32(last, 4) : last, sub - 4, 15);
    return _mm256_or_si256(low, byte_of(_mm256_srli_epi32(own, 2), sub - 4, 0x30));
}

/* d_w, and m_w without its sign, of the sub-blocks of a block. */
typedef struct factors {
    __m256 d[8], m[8];
} factors;

/* fields: the two-byte ones of the part; w: what follows them. */
CDZ_INLINE void find_factors(cdz_dtype type, const uint8_t *fields, const uint8_t *w, factors *to)
{
    to->d[0] = halves_at(fields);
    to->m[0] = two_fields(type) ? halves_at(fields + 32) : to->d[0];
    if (type != CDZ_Q4_K && type != CDZ_Q5_K) return;
    const __m256 d = to->d[0], m = to->m[0];
    CDZ_UNROLL
    for (int sub = 0; sub < 8; sub++) {
        to->d[sub] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(six_bits(w, sub, 0)));
        to->m[sub] = _mm256_mul_ps(m, _mm256_cvtepi32_ps(six_bits(w, sub, 1)));
    }
}

/* `mask` bits from bit `from` on of every word. */
CDZ_INLINE words field(words v, int from, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(from)), _mm256_set1_epi32(mask));
}

/* The scale of sixteen weights, number `k` of a block's. */
CDZ_INLINE words scale_of_16(cdz_dtype type, const uint8_t *w, int k)
{
    const int byte = k % 4 * 8;
    if (type == CDZ_Q2_K) return field(each_word(w, (size_t)k / 4), byte, 15);
    if (type == CDZ_Q3_K) {
        const words low = field(each_word(w, (size_t)(k % 8 / 4)), byte + k / 8 * 4, 15),
                    top = field(each_word(w, 2), byte + k / 4 * 2, 3);
        return _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(top, 4)),
                                _mm256_set1_epi32(32));
    }
    const __m128i up = _mm_cvtsi32_si128(24 - byte);
    return _mm256_srai_epi32(_mm256_sll_epi32(each_word(w, (size_t)k / 4), up), 24);
}

/* Numbers of both halves of 16 side by side, each in 16 bits. */
CDZ_INLINE words pair_of(words first, words second)
{
    return _mm256_or_si256(_mm256_and_si256(first, _mm256_set1_epi32(0xffff)),
                           _mm256_slli_epi32(second, 16));
}

/* Q2_K's minima of both halves. */
CDZ_INLINE words minima_of(const uint8_t *w, int sub)
{
    const int from = sub % 2 * 16;
    const words both = each_word(w, (size_t)sub / 2);
    return pair_of(field(both, from + 4, 15), field(both, from + 12, 15));
}

/* Times the sums of their halves. */
CDZ_INLINE void take_minima(words minima, __m256 dmin, const activations *x, __m256 *acc)
{
    const words j = _mm256_madd_epi16(minima, both_of(x));
    *acc = _mm256_fnmadd_ps(_mm256_mul_ps(dmin, d_of(x)), _mm256_cvtepi32_ps(j), *acc);
}

/* Of one half of 16. */
CDZ_INLINE int words_of_half(cdz_dtype type)
{
    return words_together(type) < 4 ? words_together(type) : 4;
}

#if defined(CDZ_SUMS_IN_16)
/* Words [from, to) by all rows: their products are added in 16 bits, pairs of those, times factors, to n sums in 32. */
CDZ_INLINE void add_scaled(cdz_dtype type, int n, const place *at, int from, int to,
                           const activations *x, words factor, words *sums)
{
    words part[MOST_SUMS];
    CDZ_UNROLL
    for (int g = from; g < to; g++) {
        const words u = weights(type, at, g);
        const words left = type == CDZ_Q8_0 ? _mm256_abs_epi8(u) : u;
        CDZ_UNROLL
        for (int r = 0; r < n; r++) {
            const words four = words_of_x(&x[r], g);
            const words right = type == CDZ_Q8_0 ? _mm256_sign_epi8(four, u) : four;
            const words pairs = _mm256_maddubs_epi16(left, right);
            part[r] = g == from ? pairs : _mm256_add_epi16(part[r], pairs);
            in_order(&part[r]);
        }
    }
    CDZ_UNROLL
    for (int r = 0; r < n; r++) {
        sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(part[r], factor));
        in_order(&sums[r]);
    }
}

/* Words [from, to) by all rows, added to n sums in 32 bits. */
CDZ_INLINE void add_words(cdz_dtype type, int n, const place *at, int from, int to,
                          const activations *x, words *sums)
{
    add_scaled(type, n, at, from, to, x, _mm256_set1_epi16(1), sums);
}

/* Of a block whose halves have scales of their own: each half's, twice in a word; both times the weights' offset, what comes off
 * times both sums of activations. */
typedef struct scales_of_16 {
    words each[2], off;
} scales_of_16;

CDZ_INLINE scales_of_16 both_scales(cdz_dtype type, const place *at)
{
    const words first = scale_of_16(type, at->w, 2 * at->sub),
                second = scale_of_16(type, at->w, 2 * at->sub + 1);
    const words offset = _mm256_set1_epi16((short)offset_of(type));
    return (scales_of_16){{pair_of(first, first), pair_of(second, second)},
                          _mm256_mullo_epi16(pair_of(first, second), offset)};
}

CDZ_INLINE words start_of_halves(words off, const activations *x)
{
    return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_madd_epi16(off, both_of(x)));
}

/* Both halves of a block, each times its scale: pairs of 16 bits are multiplied as they become sums of 32. */
CDZ_INLINE void sum_halves(cdz_dtype type, int n, const place *at, const activations *x, words *sums)
{
    const int step = words_of_half(type);
    const scales_of_16 s = both_scales(type, at);
    CDZ_UNROLL
    for (int r = 0; r < n; r++)
        sums[r] = offset_of(type) ? start_of_halves(s.off, &x[r]) : _mm256_setzero_si256();
    CDZ_UNROLL
    for (int g = 0; g < 8; g += step) add_scaled(type, n, at, g, g + step, x, s.each[g / 4], sums);
}
#else
CDZ_INLINE void add_words(cdz_dtype type, int n, const place *at, int from, int to,
                          const activations *x, words *sums)
{
    words u[8];
    CDZ_UNROLL
    for (int g = from; g < to; g += AT_ONCE) u[g - from] = operand(type, weights(type, at, g));
    CDZ_UNROLL
    for (int r = 0; r < n; r++) {
        CDZ_UNROLL
        for (int g = from; g < to; g += AT_ONCE)
            multiply(&sums[r], words_of_x(&x[r], g), u[g - from]);
    }
}

CDZ_INLINE void sum_halves(cdz_dtype type, int n, const place *at, const activations *x, words *sums)
{
    const int step = words_of_half(type);
    CDZ_UNROLL
    for (int h = 0; h < 2; h++) {
        words part[MOST_SUMS];
        CDZ_UNROLL
        for (int r = 0; r < n; r++) part[r] = start_of(type, &x[r], h);
        CDZ_UNROLL
        for (int g = 4 * h; g < 4 * h + 4; g += step) add_words(type, n, at, g, g + step, x, part);
        const words scale = scale_of_16(type, at->w, 2 * at->sub + h);
        CDZ_UNROLL
        for (int r = 0; r < n; r++) {
            const words scaled = _mm256_mullo_epi32(part[r], scale);
            sums[r] = h ? _mm256_add_epi32(sums[r], scaled) : scaled;
        }
    }
}
#endif

CDZ_INLINE void add_factors(cdz_dtype type, __m256 *acc, words whole, __m256 d, __m256 m,
                            const activations *x)
{
    fma8(acc, _mm256_cvtepi32_ps(whole), _mm256_mul_ps(d, d_of(x)));
    if (!has_minimum(type)) return;
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1)
        fma8(acc, m, s_of(x));
    else
        *acc = _mm256_fnmadd_ps(m, s_of(x), *acc);
}

/* One block of 32 of a part by the rows of n sums. */
CDZ_INLINE void block(cdz_dtype type, int n, const place *at, __m256 d, __m256 m,
                      const activations *x, __m256 *acc)
{
    const int step = words_together(type);
    words sums[MOST_SUMS];
    CDZ_UNROLL
    for (int r = 0; r < n; r++) sums[r] = start_of(type, &x[r], 0);
    CDZ_UNROLL
    for (int g = 0; g < 8; g += step) add_words(type, n, at, g, g + step, x, sums);
    CDZ_UNROLL
    for (int r = 0; r < n; r++) add_factors(type, &acc[r], sums[r], d, m, &x[r]);
}

/* The same for the types whose halves of 16 have scales of their own; m: Q2_K's dmin. */
CDZ_INLINE void block_of_halves(cdz_dtype type, int n, const place *at, __m256 d, __m256 m,
                                const activations *x, __m256 *acc)
{
    words sums[MOST_SUMS];
    sum_halves(type, n, at, x, sums);
    CDZ_UNROLL
    for (int r = 0; r < n; r++) add_factors(type, &acc[r], sums[r], d, d, &x[r]);
    if (type != CDZ_Q2_K) return;
    const words minima = minima_of(at->w, at->sub);
    CDZ_UNROLL
    for (int r = 0; r < n; r++) take_minima(minima, m, &x[r], &acc[r]);
}

/* A block of the type by all rows, of a part of a panel. */
CDZ_INLINE void whole_block(cdz_dtype type, int height, const uint8_t *panel, size_t part,
                            size_t asked, const activations *x, __m256 *acc)
{
    const uint8_t *w = words_of(type, panel, part);
    const int subs = is_large(type) ? 8 : 1, n = height / X_ROWS;
    const size_t bytes = asked / (size_t)subs;
    factors f;
    find_factors(type, fields_of(panel, part), w, &f);
    for (int sub = 0; sub < subs; sub++, x += n) {
        const place at = place_of(type, w, sub);
        if (part == 0 && cdz_asks_in_panels(type, height))
            cdz_ask_in_panel(panel + (size_t)sub * bytes, bytes, CDZ_AHEAD_IN_PANEL, false);
        if (has_halves(type))
            block_of_halves(type, n, &at, f.d[0], f.m[0], x, acc);
        else
            block(type, n, &at, f.d[sub], f.m[sub], x, acc);
    }
}

/* `parts` parts in step, from one on, of panels `apart` bytes from each other; of the tile t, with its activations as x.
 * Accumulator (part, sum). */
CDZ_INLINE void parts_in_step(cdz_dtype type, int height, size_t from, int parts,
                              const cdz_int8_tile *t, const uint8_t *w, size_t apart, float *y,
                              size_t apart_y)
{
    enum { PARTS = CDZ_PANEL_ROWS / PART_ROWS };
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS, per = cdz_dtype_block(type) / 32,
                 asked = cdz_asks_in_panels(type, height) ? asked_of_block(type) : 0;
    const int n = height / X_ROWS;
    const activations *x = (const activations *)(const void *)t->x;
    __m256 acc[MOST_SUMS];
    float *at[MOST_SUMS];
    CDZ_UNROLL
    for (int i = 0; i < parts * n; i++) {
        const size_t row = (size_t)(i % n) * X_ROWS, part = from + (size_t)(i / n);
        at[i] = y + row * t->ldy + part / PARTS * apart_y + PART_ROWS * (part % PARTS);
        acc[i] = t->first ? _mm256_setzero_ps() : load_sums(at[i], t->ldy);
    }
    for (size_t b = 0; b < t->blocks; b += per, w += bytes, x += per * (size_t)n) {
        CDZ_UNROLL
        for (int i = 0; i < parts; i++) {
            const size_t part = from + (size_t)i;
            whole_block(type, height, w + part / PARTS * apart, part % PARTS, asked, x, acc + i * n);
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < parts * n; i++) store_sums(at[i], t->ldy, acc[i]);
}

#endif
