/* avx512_int8.h - what the kernels for int8 activations of AVX-512 and AMX share: a block of a panel, its weights a word of
 * four numbers for each of sixteen rows, and the factors beside them. */
#ifndef CDZ_CPU_AVX512_INT8_H
#define CDZ_CPU_AVX512_INT8_H

#include "cpu/avx512.h"
#include "cpu/int8_types.h"

typedef __m512i words;

CDZ_INLINE words word_at(const uint8_t *at, size_t i)
{
    return _mm512_loadu_si512(at + 64 * i);
}

/* The same by its halves. Words of half of all blocks lie across two lines of the cache, and loads that wait for two lines
 * keep fewer of them under way: a row by q8_0 is 13 to 23 % faster so, types that take more instructions are not. */
CDZ_INLINE words word_by_halves(const uint8_t *at, size_t i)
{
    const __m256i *half = (const __m256i *)(const void *)(at + 64 * i);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(half)),
                              _mm256_loadu_si256(half + 1), 1);
}

CDZ_INLINE __m512 halves_at(const uint8_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

CDZ_INLINE words bytes_of(int value)
{
    return _mm512_set1_epi8((char)value);
}

/* Where sub-block `sub` of a large block has its weights: a word, its nibbles, its upper bits. Known only as
 * the loop runs, so that the code is there once. */
typedef struct place {
    size_t word, upper;
    int sub;
    int shift;  /* of nibbles */
    words turn; /* right, brings the upper bits to bit 4, of Q3_K to bit 2 */
} place;

CDZ_INLINE place place_of(cdz_dtype type, int sub)
{
    const int half = sub / 4, group = sub % 4;
    if (type == CDZ_Q6_K)
        return (place){(size_t)(half * 24 + 8 + group % 2 * 8), (size_t)half * 24, sub,
                       group / 2 * 4, _mm512_set1_epi32(2 * group - 4)};
    if (type == CDZ_Q2_K || type == CDZ_Q3_K)
        return (place){(size_t)(half * 8), 0, sub, group * 2, _mm512_set1_epi32(sub - 2)};
    return (place){(size_t)(sub / 2 * 8), 0, sub, sub % 2 * 4, _mm512_set1_epi32(sub - 4)};
}

typedef uint16_t halves_of_words __attribute__((vector_size(64)));

/* Right by a number of bits that the compiler knows where loops are unrolled. */
CDZ_INLINE words turned(words v, int bits)
{
    return (words)((halves_of_words)v >> (uint16_t)bits);
}

CDZ_INLINE words low_bits(words v)
{
    return _mm512_and_si512(v, bytes_of(15));
}

/* v | w & mask */
CDZ_INLINE words with_bits(words v, words w, int mask)
{
    return _mm512_ternarylogic_epi32(v, w, bytes_of(mask), 0xf8);
}

/* Nibbles of word g of four, the low ones first. */
CDZ_INLINE words nibbles(const uint8_t *w, int g)
{
    const words v = word_at(w, (size_t)g % 4);
    return low_bits(g < 4 ? v : _mm512_srli_epi16(v, 4));
}

/* The same with fifth bits, which lie turned (ref/panels.c). */
CDZ_INLINE words five_bits(const uint8_t *w, const uint8_t *upper, int g)
{
    const words v = word_at(upper, 0);
    return with_bits(nibbles(w, g),
                     g < 4 ? _mm512_slli_epi32(v, 4 - (g & 3)) : _mm512_srli_epi32(v, g & 3), 0x10);
}

/* Two bits of every byte of a word. */
CDZ_INLINE words two_bits(words v, int shift)
{
    return _mm512_and_si512(turned(v, shift), bytes_of(3));
}

/* Weights 4 g to 4 g + 3 of a block of 32, as unsigned bytes. */
CDZ_INLINE words weights(cdz_dtype type, const uint8_t *w, const place *at, int g)
{
    const size_t i = (size_t)g;
    switch (type) {
    case CDZ_Q8_0: return _mm512_xor_si512(word_by_halves(w + 32, i), bytes_of(128));
    case CDZ_Q4_0: return nibbles(w + 32, g);
    case CDZ_Q4_1: return nibbles(w + 64, g);
    case CDZ_Q5_0: return five_bits(w + 96, w + 32, g);
    case CDZ_Q5_1: return five_bits(w + 128, w + 64, g);
    case CDZ_Q2_K: return two_bits(word_at(w + 320, at->word + i), at->shift);
    case CDZ_Q3_K:
        return with_bits(two_bits(word_at(w + 736, at->word + i), at->shift),
                         _mm512_rorv_epi32(word_at(w + 224, i), at->turn), 4);
    case CDZ_Q4_K: return low_bits(turned(word_at(w + 256, at->word + i), at->shift));
    case CDZ_Q5_K:
        return with_bits(low_bits(turned(word_at(w + 768, at->word + i), at->shift)),
                         _mm512_rorv_epi32(word_at(w + 256, i), at->turn), 0x10);
    default: /* CDZ_Q6_K */
        return with_bits(low_bits(turned(word_at(w + 288, at->word + i), at->shift)),
                         _mm512_rorv_epi32(word_at(w + 288, at->upper + i), at->turn), 0x30);
    }
}

/* What comes off the weights as they enter. */
CDZ_INLINE int taken_off(cdz_dtype type)
{
    return type == CDZ_Q8_0 ? 128 : offset_of(type);
}

/* Byte `byte` of every word. */
CDZ_INLINE words byte_of(words v, int byte, int mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)byte * 8), _mm512_set1_epi32(mask));
}

/* Six bits of Q4_K's and Q5_K's scales (of = 0) or minima (of = 1), sub-block `sub`. */
CDZ_INLINE words six_bits(const uint8_t *w, int sub, int of)
{
    const words own = word_at(w + 64, (size_t)of), last = word_at(w + 64, 2);
    if (sub < 4) return byte_of(own, sub, 63);
    const words low = byte_of(of ? _mm512_srli_epi32(last, 4) : last, sub - 4, 15);
    const words top = byte_of(_mm512_srli_epi32(own, 2), sub - 4, 0x30);
    return _mm512_or_si512(low, top);
}

/* d_w, and m_w without its sign, of the sub-blocks of a block. */
typedef struct factors {
    __m512 d[8], m[8];
} factors;

CDZ_INLINE void find_factors(cdz_dtype type, const uint8_t *w, factors *to)
{
    const __m512 d = halves_at(w);
    to->d[0] = to->m[0] = d;
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1) to->m[0] = halves_at(w + 32);
    if (type != CDZ_Q4_K && type != CDZ_Q5_K) return;
    const __m512 m = halves_at(w + 32);
    CDZ_UNROLL
    for (int sub = 0; sub < 8; sub++) {
        to->d[sub] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(six_bits(w, sub, 0)));
        to->m[sub] = _mm512_mul_ps(m, _mm512_cvtepi32_ps(six_bits(w, sub, 1)));
    }
}

/* `mask` bits from bit `from` on of every word. */
CDZ_INLINE words field(words v, int from, int mask)
{
    return _mm512_and_si512(_mm512_srl_epi32(v, _mm_cvtsi32_si128(from)), _mm512_set1_epi32(mask));
}

/* The scale of sixteen weights, number `k` of a block's. */
CDZ_INLINE words scale_of_16(cdz_dtype type, const uint8_t *w, int k)
{
    const int byte = k % 4 * 8;
    if (type == CDZ_Q2_K) return field(word_at(w + 64, (size_t)k / 4), byte, 15);
    if (type == CDZ_Q3_K) {
        const words low = field(word_at(w + 32, (size_t)(k % 8 / 4)), byte + k / 8 * 4, 15),
                    top = field(word_at(w + 32, 2), byte + k / 4 * 2, 3);
        return _mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(top, 4)),
                                _mm512_set1_epi32(32));
    }
    const __m128i up = _mm_cvtsi32_si128(24 - byte);
    return _mm512_srai_epi32(_mm512_sll_epi32(word_at(w + 32, (size_t)k / 4), up), 24);
}

/* What the sums of half h of a block add to a number that float32 holds. */
CDZ_INLINE void add_half(int h, __m512 *whole, words sums, __m512 scale)
{
    const __m512 part = _mm512_cvtepi32_ps(sums);
    if (h == 0)
        *whole = _mm512_mul_ps(part, scale);
    else
        fma16(whole, part, scale);
}

/* What a block's sums make of an output: d and m are the weights' factors, xd and xs the activations'. */
CDZ_INLINE void add_factors(cdz_dtype type, __m512 *acc, __m512 whole, __m512 d, __m512 m, float xd,
                            float xs)
{
    fma16(acc, whole, _mm512_mul_ps(d, _mm512_set1_ps(xd)));
    if (type == CDZ_Q4_1 || type == CDZ_Q5_1) fma16(acc, m, _mm512_set1_ps(xs));
    if (type == CDZ_Q4_K || type == CDZ_Q5_K) *acc = _mm512_fnmadd_ps(m, _mm512_set1_ps(xs), *acc);
}

/* Q2_K's minima of both halves times the sums of theirs; each fits in 16 bits. */
CDZ_INLINE void take_minima(words minima, __m512 dmin, float xd, int both, __m512 *acc)
{
    const words j = _mm512_madd_epi16(minima, _mm512_set1_epi32(both));
    *acc = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, _mm512_set1_ps(xd)), _mm512_cvtepi32_ps(j), *acc);
}

enum {
    MOST_PIECE = 8, /* blocks of 32 columns that are unpacked together: a large block, */
    PIECE = 4       /* or as many small ones */
};

/* Blocks of a panel as whole numbers, and what scales them. Of halves that have scales of their own, d is of the
 * block and scale of both. */
typedef struct piece {
    int8_t q[MOST_PIECE][CDZ_X8 * CDZ_PANEL_ROWS];
    __m512 d[MOST_PIECE], m[MOST_PIECE];
    __m512 scale[MOST_PIECE][2];
    words minima[MOST_PIECE]; /* of Q2_K, of both halves */
    size_t n;
} piece;

/* Words of weights four at a time, with their signs. */
CDZ_INLINE words signed_weights(cdz_dtype type, const uint8_t *w, const place *at, int g)
{
    if (type == CDZ_Q8_0) return word_at(w + 32, (size_t)g);
    const words u = weights(type, w, at, g);
    return offset_of(type) ? _mm512_sub_epi8(u, bytes_of(offset_of(type))) : u;
}

CDZ_INLINE void unpack_block(cdz_dtype type, const uint8_t *w, const place *at, int8_t *q)
{
    CDZ_UNROLL
    for (int g = 0; g < 8; g++) _mm512_store_si512(q + 64 * g, signed_weights(type, w, at, g));
}

/* Q2_K's minima of the halves of sub-block `sub`, sixteen bits each. */
CDZ_INLINE words minima_of(const uint8_t *w, int sub)
{
    const int from = sub % 2 * 16;
    const words both = word_at(w + 64, (size_t)sub / 2);
    return _mm512_or_si512(field(both, from + 4, 15),
                           _mm512_slli_epi32(field(both, from + 12, 15), 16));
}

/* A block of 256. */
CDZ_INLINE void unpack_large(cdz_dtype type, const uint8_t *w, piece *to)
{
    factors f;
    find_factors(type, w, &f);
    const __m512 dmin = type == CDZ_Q2_K ? halves_at(w + 32) : f.d[0];
    CDZ_UNROLL
    for (int sub = 0; sub < 8; sub++) {
        const place at = place_of(type, sub);
        unpack_block(type, w, &at, to->q[sub]);
        to->d[sub] = has_halves(type) ? f.d[0] : f.d[sub];
        to->m[sub] = has_halves(type) ? dmin : f.m[sub];
        for (int h = 0; has_halves(type) && h < 2; h++)
            to->scale[sub][h] = _mm512_cvtepi32_ps(scale_of_16(type, w, 2 * sub + h));
        if (type == CDZ_Q2_K) to->minima[sub] = minima_of(w, sub);
    }
}

/* n blocks of 32, `bytes` each. */
CDZ_INLINE void unpack(cdz_dtype type, const uint8_t *w, size_t n, size_t bytes, piece *to)
{
    to->n = n;
    if (is_large(type)) {
        unpack_large(type, w, to);
        return;
    }
    for (size_t b = 0; b < n; b++, w += bytes) {
        const place at = place_of(type, 0);
        factors f;
        find_factors(type, w, &f);
        unpack_block(type, w, &at, to->q[b]);
        to->d[b] = f.d[0];
        to->m[b] = f.m[0];
    }
}

#endif
