/* avx2_int8.h - products with int8 activations, by CDZ_INT8_NAMES_type: eight rows of a panel to a register, a word of four
 * weights each. On x86 unsigned weights times signed activations add up in pairs in 16 bits, as long as they cannot
 * overflow, then in 32; whole bytes (Q8_0) multiply as |w| and x with the sign of w, so that -128 is right
 * too. arm64 multiplies signed bytes, and adds in 32 at once. Integers are exact, so the bits are those of ref_int8.c. */
#ifndef CDZ_CPU_AVX2_INT8_H
#define CDZ_CPU_AVX2_INT8_H

#include "cpu/ahead.h"
#include "cpu/avx2.h"

enum { MOST_SUMS = 8 }; /* accumulators of a tile: height times far half panels */

typedef __m256i words;

/* Word i of the half panel at `at`. */
CDZ_INLINE words word_at(const uint8_t *at, size_t i)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(at + 64 * i));
}

CDZ_INLINE __m256 halves_at(const uint8_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

/* Where sub-block `sub` of a large block has its weights: a word, its nibbles, its upper bits. Known only as
 * the loop runs, so that the code is there once. */
typedef struct place {
    size_t word, upper;
    __m128i shift, upper_shift;
} place;

CDZ_INLINE place place_of(cdz_dtype type, int sub)
{
    const int half = sub / 4, group = sub % 4;
    if (type == CDZ_Q6_K)
        return (place){(size_t)(half * 24 + 8 + group % 2 * 8), (size_t)half * 24,
                       _mm_cvtsi32_si128(group / 2 * 4), _mm_cvtsi32_si128(2 * group)};
    if (type == CDZ_Q2_K || type == CDZ_Q3_K)
        return (place){(size_t)(half * 8), 0, _mm_cvtsi32_si128(group * 2), _mm_cvtsi32_si128(sub)};
    return (place){(size_t)(sub / 2 * 8), 0, _mm_cvtsi32_si128(sub % 2 * 4), _mm_cvtsi32_si128(sub)};
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

/* The same with fifth bits, which lie turned (ref/panels.c). */
CDZ_INLINE words five_bits(const uint8_t *w, const uint8_t *upper, int g)
{
    return with_bits(nibbles(w, g), _mm256_srli_epi16(word_at(upper, 0), g), 1);
}

CDZ_INLINE words large_nibbles(const uint8_t *w, const place *at, size_t i)
{
    return low_bits(_mm256_srl_epi16(word_at(w, at->word + i), at->shift));
}

/* Two bits of every byte of word i. */
CDZ_INLINE words two_bits(const uint8_t *w, const place *at, size_t i)
{
    return _mm256_and_si256(_mm256_srl_epi16(word_at(w, at->word + i), at->shift),
                            _mm256_set1_epi8(3));
}

/* The third bits of Q3_K at bit 2. */
CDZ_INLINE words third_bits(const uint8_t *w, const place *at, size_t i)
{
    const words bits = _mm256_srl_epi16(word_at(w, i), at->upper_shift);
    return _mm256_slli_epi16(_mm256_and_si256(bits, _mm256_set1_epi8(1)), 2);
}

/* Weights 4 g to 4 g + 3 of a block of 32: unsigned bytes, signed ones of Q8_0. w, past the two-byte
 * fields, and of the half panel already. */
CDZ_INLINE words weights(cdz_dtype type, const uint8_t *w, const place *at, int g)
{
    const size_t i = (size_t)g;
    switch (type) {
    case CDZ_Q8_0: return word_at(w, i);
    case CDZ_Q4_0:
    case CDZ_Q4_1: return nibbles(w, g);
    case CDZ_Q5_0:
    case CDZ_Q5_1: return five_bits(w + 64, w, g);
    case CDZ_Q2_K: return two_bits(w + 256, at, i);
    case CDZ_Q3_K: return _mm256_or_si256(two_bits(w + 704, at, i), third_bits(w + 192, at, i));
    case CDZ_Q4_K: return large_nibbles(w + 192, at, i);
    case CDZ_Q5_K:
        return with_bits(large_nibbles(w + 704, at, i),
                         _mm256_srl_epi16(word_at(w + 192, i), at->upper_shift), 1);
    default: /* CDZ_Q6_K */
        return with_bits(large_nibbles(w + 256, at, i),
                         _mm256_srl_epi16(word_at(w + 256, at->upper + i), at->upper_shift), 3);
    }
}

CDZ_INLINE int offset_of(cdz_dtype type)
{
    return type == CDZ_Q4_0   ? 8
           : type == CDZ_Q3_K ? 4
           : type == CDZ_Q5_0 ? 16
           : type == CDZ_Q6_K ? 32
                              : 0;
}

/* Words whose products with activations may be added in 16 bits: 2 * largest weight * 127 each. */
CDZ_INLINE int words_in_16_bits(cdz_dtype type)
{
    switch (type) {
    case CDZ_Q8_0: return 1;
    case CDZ_Q6_K: return 2;
    case CDZ_Q5_0:
    case CDZ_Q5_1:
    case CDZ_Q5_K: return 4;
    default: return 8;
    }
}

/* Whose halves of 16 have scales of their own. */
CDZ_INLINE bool has_halves(cdz_dtype type)
{
    return type == CDZ_Q2_K || type == CDZ_Q3_K || type == CDZ_Q6_K;
}

CDZ_INLINE bool has_minimum(cdz_dtype type)
{
    return type == CDZ_Q4_1 || type == CDZ_Q5_1 || type == CDZ_Q4_K || type == CDZ_Q5_K;
}

/* Of two bytes. */
CDZ_INLINE bool two_fields(cdz_dtype type)
{
    return has_minimum(type) || type == CDZ_Q2_K;
}

CDZ_INLINE bool is_large(cdz_dtype type)
{
    return type >= CDZ_Q2_K && type <= CDZ_Q6_K;
}

/* Byte `byte` of every word. */
CDZ_INLINE words byte_of(words v, int byte, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi32(v, byte * 8), _mm256_set1_epi32(mask));
}

/* Six bits of Q4_K's and Q5_K's scales (of = 0) or minima (of = 1), sub-block `sub`. */
CDZ_INLINE words six_bits(const uint8_t *w, int sub, int of)
{
    const words own = word_at(w, (size_t)of), last = word_at(w, 2);
    if (sub < 4) return byte_of(own, sub, 63);
    const words low = byte_of(of ? _mm256_srli_epi32(last, 4) : last, sub - 4, 15);
    return _mm256_or_si256(low, byte_of(_mm256_srli_epi32(own, 2), sub - 4, 0x30));
}

/* d_w, and m_w without its sign, of the sub-blocks of a block. */
typedef struct factors {
    __m256 d[8], m[8];
} factors;

/* fields: the two-byte ones of the half panel; w: what follows them. */
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

CDZ_INLINE words four_of_x(const cdz_x8 *x, int g)
{
    int32_t four;
    memcpy(&four, x->q + 4 * g, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Words [from, to) by all rows, added to sums in 32 bits. */
CDZ_INLINE void add_words(cdz_dtype type, int height, const uint8_t *w, const place *at, int from,
                          int to, const cdz_x8 *x, words *sums)
{
#if defined(CDZ_HAVE_X86)
    words part[MOST_SUMS];
    CDZ_UNROLL
    for (int g = from; g < to; g++) {
        const words u = weights(type, w, at, g);
        const words left = type == CDZ_Q8_0 ? _mm256_abs_epi8(u) : u;
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const words four = four_of_x(&x[r], g);
            const words right = type == CDZ_Q8_0 ? _mm256_sign_epi8(four, u) : four;
            const words pairs = _mm256_maddubs_epi16(left, right);
            part[r] = g == from ? pairs : _mm256_add_epi16(part[r], pairs);
        }
    }
    CDZ_UNROLL
    for (int r = 0; r < height; r++)
        sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(part[r], _mm256_set1_epi16(1)));
#else
    CDZ_UNROLL
    for (int g = from; g < to; g++) {
        const words u = weights(type, w, at, g);
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const words four = four_of_x(&x[r], g);
            sums[r].low = cdz_add_products(sums[r].low, u.low, four.low);
            sums[r].high = cdz_add_products(sums[r].high, u.high, four.high);
        }
    }
#endif
}

CDZ_INLINE void add_factors(cdz_dtype type, __m256 *acc, words whole, __m256 d, __m256 m,
                            const cdz_x8 *x)
{
    fma8(acc, _mm256_cvtepi32_ps(whole), _mm256_mul_ps(d, _mm256_set1_ps(x->d)));
    if (!has_minimum(type)) return;
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1)
        fma8(acc, m, _mm256_set1_ps(x->s));
    else
        *acc = _mm256_fnmadd_ps(m, _mm256_set1_ps(x->s), *acc);
}

/* One block of 32 of half a panel by `height` rows. */
CDZ_INLINE void block(cdz_dtype type, int height, const uint8_t *w, const place *at, __m256 d,
                      __m256 m, const cdz_x8 *x, __m256 *acc)
{
    const int step = words_in_16_bits(type);
    words sums[MOST_SUMS];
    CDZ_UNROLL
    for (int r = 0; r < height; r++) sums[r] = _mm256_set1_epi32(-offset_of(type) * x[r].sum);
    CDZ_UNROLL
    for (int g = 0; g < 8; g += step) add_words(type, height, w, at, g, g + step, x, sums);
    CDZ_UNROLL
    for (int r = 0; r < height; r++) add_factors(type, &acc[r], sums[r], d, m, &x[r]);
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
    if (type == CDZ_Q2_K) return field(word_at(w, (size_t)k / 4), byte, 15);
    if (type == CDZ_Q3_K) {
        const words low = field(word_at(w, (size_t)(k % 8 / 4)), byte + k / 8 * 4, 15),
                    top = field(word_at(w, 2), byte + k / 4 * 2, 3);
        return _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(top, 4)),
                                _mm256_set1_epi32(32));
    }
    const __m128i up = _mm_cvtsi32_si128(24 - byte);
    return _mm256_srai_epi32(_mm256_sll_epi32(word_at(w, (size_t)k / 4), up), 24);
}

/* Q2_K's minima of both halves times the sums of theirs; each fits in 16 bits. */
CDZ_INLINE void take_minima(int height, const uint8_t *w, int sub, __m256 dmin, const cdz_x8 *x,
                            __m256 *acc)
{
    const int from = sub % 2 * 16;
    const words both = word_at(w, (size_t)sub / 2);
    const words minima = _mm256_or_si256(field(both, from + 4, 15),
                                         _mm256_slli_epi32(field(both, from + 12, 15), 16));
    CDZ_UNROLL
    for (int r = 0; r < height; r++) {
        const uint32_t low = (uint32_t)x[r].half & 0xffff, high = (uint32_t)(x[r].sum - x[r].half);
        const words j = _mm256_madd_epi16(minima, _mm256_set1_epi32((int)(low | high << 16)));
        acc[r] = _mm256_fnmadd_ps(_mm256_mul_ps(dmin, _mm256_set1_ps(x[r].d)),
                                  _mm256_cvtepi32_ps(j), acc[r]);
    }
}

/* The same for the types whose halves of 16 have scales of their own; m: Q2_K's dmin. */
CDZ_INLINE void block_of_halves(cdz_dtype type, int height, const uint8_t *w, int sub,
                                const place *at, __m256 d, __m256 m, const cdz_x8 *x, __m256 *acc)
{
    const int step = type == CDZ_Q6_K ? 2 : 4; /* words whose products may be added in 16 bits */
    words sums[MOST_SUMS];
    CDZ_UNROLL
    for (int h = 0; h < 2; h++) {
        words part[MOST_SUMS];
        CDZ_UNROLL
        for (int r = 0; r < height; r++)
            part[r] = _mm256_set1_epi32(-offset_of(type) * (h ? x[r].sum - x[r].half : x[r].half));
        CDZ_UNROLL
        for (int g = 4 * h; g < 4 * h + 4; g += step)
            add_words(type, height, w, at, g, g + step, x, part);
        const words scale = scale_of_16(type, w, 2 * sub + h);
        CDZ_UNROLL
        for (int r = 0; r < height; r++) {
            const words scaled = _mm256_mullo_epi32(part[r], scale);
            sums[r] = h ? _mm256_add_epi32(sums[r], scaled) : scaled;
        }
    }
    CDZ_UNROLL
    for (int r = 0; r < height; r++) add_factors(type, &acc[r], sums[r], d, d, &x[r]);
    if (type == CDZ_Q2_K) take_minima(height, w, sub, m, x, acc);
}

/* A block of the type by all rows, of half a panel (0 or 1). */
CDZ_INLINE void whole_block(cdz_dtype type, int height, const uint8_t *panel, size_t half,
                            const cdz_x8 *x, __m256 *acc)
{
    const uint8_t *fields = panel + 16 * half, *w = panel + (two_fields(type) ? 64 : 32) + 32 * half;
    const int subs = is_large(type) ? 8 : 1;
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS / (size_t)subs;
    factors f;
    find_factors(type, fields, w, &f);
    for (int sub = 0; sub < subs; sub++, x += height) {
        const place at = place_of(type, sub);
        if (half == 0 && cdz_asks_in_panels(type, height))
            cdz_ask_in_panel(panel + (size_t)sub * bytes, bytes, CDZ_AHEAD_IN_PANEL);
        if (has_halves(type))
            block_of_halves(type, height, w, sub, &at, f.d[0], f.m[0], x, acc);
        else
            block(type, height, w, &at, f.d[sub], f.m[sub], x, acc);
    }
}

/* `far` panels in step, `apart` bytes from each other: as many streams from memory. Accumulator
 * (panel, half, row). */
CDZ_INLINE void far_panels(cdz_dtype type, int height, int far, const cdz_int8_tile *t,
                           const uint8_t *w, size_t apart, float *y, size_t apart_y)
{
    const size_t bytes = cdz_dtype_bytes(type) * CDZ_PANEL_ROWS, per = cdz_dtype_block(type) / 32;
    const cdz_x8 *x = t->x;
    __m256 acc[MOST_SUMS];
    float *at[MOST_SUMS];
    CDZ_UNROLL
    for (int i = 0; i < 2 * far * height; i++) {
        const size_t row = (size_t)(i % height), half = (size_t)(i / height % 2),
                     p = (size_t)(i / height / 2);
        at[i] = y + row * t->ldy + p * apart_y + 8 * half;
        acc[i] = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(at[i]);
    }
    for (size_t b = 0; b < t->blocks; b += per, w += bytes, x += per * (size_t)height) {
        CDZ_UNROLL
        for (int i = 0; i < 2 * far; i++)
            whole_block(type, height, w + (size_t)(i / 2) * apart, (size_t)i % 2, x,
                        acc + i * height);
    }
    CDZ_UNROLL
    for (int i = 0; i < 2 * far * height; i++) _mm256_storeu_ps(at[i], acc[i]);
}

CDZ_INLINE void all_panels(cdz_dtype type, int height, int far, const cdz_int8_tile *t)
{
    const size_t each = t->panels / (size_t)far;
    const uint8_t *w = t->w;
    for (size_t p = 0; p < each; p++)
        far_panels(type, height, far, t, w + p * t->stride, each * t->stride,
                   t->y + p * CDZ_PANEL_ROWS, each * CDZ_PANEL_ROWS);
    for (size_t p = each * (size_t)far; p < t->panels; p++)
        far_panels(type, height, 1, t, w + p * t->stride, 0, t->y + p * CDZ_PANEL_ROWS, 0);
}

CDZ_INLINE void tile(cdz_dtype type, const cdz_int8_tile *t)
{
    switch (t->height) {
    case 4: all_panels(type, 4, 1, t); break;
    case 2: all_panels(type, 2, 2, t); break;
    default: all_panels(type, 1, is_large(type) ? 2 : 4, t); break;
    }
}

#define NAMED(prefix, name) prefix##_##name
#define TILE(name, dtype, prefix)                                                                  \
    void NAMED(prefix, name)(const cdz_int8_tile *t)                                               \
    {                                                                                              \
        tile(dtype, t);                                                                            \
    }
CDZ_GGUF_TYPES(TILE, CDZ_INT8_NAMES)

#endif
