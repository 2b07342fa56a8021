/* attend.h - one attention tile: included by one source file per instruction set and type of the store, after
 * attend_avx2.h or attend_avx512.h. ref_attention.c says what it computes.
 *
 * A block of 32 positions is visited once for all query heads of the tile: its keys (8 KiB at 64
 * dims) stay in the first-level cache while four or eight heads at a time take their scores; likewise its
 * values. Seven heads together instead of one by one: 1.5 to 2 times as fast at 512 to 4096
 * positions. */
#ifndef CDZ_ATTEND_H
#define CDZ_ATTEND_H

/* CDZ_ATTEND_PACKED: there is a packed store beside the plain one. */
#ifdef CDZ_ATTEND_PACKED
#include "cpu/attend_packed.h"
#endif

enum {
    EIGHT = 8,                  /* lanes of the softmax, whatever a word has */
    AT_ONCE = KEY_WORDS * WORD, /* positions that are scored */
    LINE = 64,                  /* bytes that the memory gives at once, at least */
    FAR = 4 * CDZ_KV_BLOCK,     /* positions ahead that are asked for */
    FACTORED = CDZ_ATTEND_TYPE == CDZ_Q8_0,
    ELEMENT = CDZ_ATTEND_TYPE == CDZ_F32 ? 4
              : FACTORED                 ? 1
                                         : 2 /* bytes */
};

/* cdz_exp, eight at a time: the same operations on the same values. */
CDZ_INLINE __m256 exp8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    /* max and min return the second operand for NaN: it stays NaN */
    const __m256 t = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));
    const __m256 shifted = _mm256_fmadd_ps(t, _mm256_set1_ps(1.44269504f), magic);
    const __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693145752f), t);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.38319808e-3f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.37550033e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16694112e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66664466e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.99999851e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i i = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
    const __m256i low = _mm256_srai_epi32(i, 1), high = _mm256_sub_epi32(i, low);
    const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(low, bias), 23));
    const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(high, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}

/* cdz_tanh, eight at a time. */
CDZ_INLINE __m256 tanh8(__m256 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    const __m256 a = _mm256_andnot_ps(sign, x), z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_set1_ps(-5.70498872745e-3f);
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.06390887954e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-5.37397155531e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(1.33314422036e-1f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-3.33332819422e-1f));
    const __m256 near_zero = _mm256_fmadd_ps(_mm256_mul_ps(x, z), p, x);
    const __m256 e = exp8(_mm256_add_ps(a, a));
    const __m256 m = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
    const __m256 far = _mm256_or_ps(_mm256_andnot_ps(sign, m), _mm256_and_ps(sign, x));
    return _mm256_blendv_ps(far, near_zero, _mm256_cmp_ps(a, _mm256_set1_ps(0.625f), _CMP_LT_OQ));
}

/* Adds a query's bias to the scores of [begin, end). */
static void add_bias(float *s, size_t first, const cdz_attend_query *query)
{
    for (size_t at = query->begin; at < query->end; at++) s[at - first] += query->bias[at];
}

/* Draws the scores of the words that [begin, end) touches into (-cap, cap). */
static void cap_scores(float *s, size_t first, size_t begin, size_t end, float soft_cap)
{
    const __m256 cap = _mm256_set1_ps(soft_cap);
    for (size_t at = begin / EIGHT * EIGHT; at < end; at += EIGHT) {
        float *to = s + (at - first);
        const __m256 x = _mm256_div_ps(_mm256_loadu_ps(to), cap);
        _mm256_storeu_ps(to, _mm256_mul_ps(tanh8(x), cap));
    }
}

/* Scores of nq heads for AT_ONCE positions: one chain over d per head and position. What lies
 * at `ahead` is asked for meanwhile, as much as is read. */
CDZ_INLINE void score_groups(int nq, const cdz_attend *tile, const cdz_attend_query *query,
                             const char *keys, const char *ahead, float *scores)
{
    const size_t dim = tile->head_dim, run = FACTORED ? CDZ_Q8_RUN : dim;
    const size_t step = CDZ_POSITION_GROUP * ELEMENT, before = FACTORED ? CDZ_Q8_FACTORS : 0;
    const size_t run_bytes = before + run * step, group_bytes = dim / run * run_bytes;
    const word scale = word_of(tile->scale);
    word acc[KEY_WORDS * TILE_QUERIES], factors[KEY_WORDS];
    CDZ_UNROLL
    for (int i = 0; i < KEY_WORDS * nq; i++) acc[i] = word_of(0.0f);
    for (size_t from = 0; from < dim; from += run, keys += run_bytes) {
        CDZ_UNROLL
        for (int c = 0; FACTORED && c < KEY_WORDS; c++)
            factors[c] = widen_factors(c, keys, group_bytes);
        for (size_t d = 0; d < run; d++) {
            const char *at = keys + before + d * step;
            word k[KEY_WORDS];
            CDZ_UNROLL
            for (size_t b = 0; b < AT_ONCE * ELEMENT; b += LINE)
                if ((d * AT_ONCE * ELEMENT + b) % LINE == 0) {
                    _mm_prefetch(ahead, _MM_HINT_T1);
                    ahead += LINE;
                }
            CDZ_UNROLL
            for (int c = 0; c < KEY_WORDS; c++) {
                k[c] = widen_keys(c, at, group_bytes);
                if (FACTORED) k[c] = times(k[c], factors[c]);
            }
            CDZ_UNROLL
            for (int i = 0; i < nq; i++) {
                const word q = word_of(query[i].q[from + d]);
                CDZ_UNROLL
                for (int c = 0; c < KEY_WORDS; c++) fma_word(&acc[i * KEY_WORDS + c], k[c], q);
            }
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < KEY_WORDS * nq; i++)
        store_word(scores + (size_t)(i / KEY_WORDS) * tile->score_stride + i % KEY_WORDS * WORD,
                   times(acc[i], scale));
}

/* The values of one block: position 0's, and the factors of each run of dims. */
typedef struct values_at {
    const char *v, *factors;
} values_at;

/* acc[d..] += weight(p) * v[p][d..] for positions [from, to) of one block, one or two registers of
 * dims at once. */
CDZ_INLINE void add_values(int nq, int words, const cdz_attend_query *query, const float *weights,
                           size_t stride, const values_at *values, const char *ahead, size_t dim,
                           size_t d, size_t from, size_t to)
{
    word acc[2 * TILE_QUERIES];
    float factors[CDZ_KV_BLOCK];
    CDZ_UNROLL
    for (int i = 0; i < nq * words; i++)
        acc[i] = load_word(query[i / words].out + d + (size_t)(i % words) * WORD);
    for (size_t p = 0; FACTORED && p < CDZ_KV_BLOCK; p += EIGHT)
        _mm256_storeu_ps(factors + p,
                         load8(CDZ_F16, values->factors, d / CDZ_Q8_RUN * CDZ_KV_BLOCK + p));
    for (size_t p = from; p < to; p++) {
        const size_t at = (p * dim + d) * ELEMENT;
        word v[2];
        CDZ_UNROLL
        for (size_t b = 0; b < (size_t)words * WORD * ELEMENT; b += LINE)
            if ((d * ELEMENT + b) % LINE == 0) _mm_prefetch(ahead + at + b, _MM_HINT_T1);
        CDZ_UNROLL
        for (int c = 0; c < words; c++) {
            v[c] = widen_word(values->v + at + (size_t)c * WORD * ELEMENT);
            if (FACTORED) v[c] = times(v[c], word_of(factors[p]));
        }
        CDZ_UNROLL
        for (int i = 0; i < nq; i++) {
            const word w = word_of(weights[(size_t)i * stride + p]);
            CDZ_UNROLL
            for (int c = 0; c < words; c++) fma_word(&acc[i * words + c], v[c], w);
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < nq * words; i++)
        store_word(query[i / words].out + d + (size_t)(i % words) * WORD, acc[i]);
}

CDZ_INLINE void add_all_dims(int nq, const cdz_attend_query *query, const float *weights,
                             size_t stride, const values_at *values, const char *ahead, size_t dim,
                             size_t from, size_t to)
{
    size_t d = 0;
    for (; d + 2 * WORD <= dim; d += 2 * WORD)
        add_values(nq, 2, query, weights, stride, values, ahead, dim, d, from, to);
    for (; d + WORD <= dim; d += WORD)
        add_values(nq, 1, query, weights, stride, values, ahead, dim, d, from, to);
    if (!FACTORED && d < dim)
        add_values_rest((size_t)nq, query, weights, stride, values->v, dim, d, from, to);
}

static void score_any(size_t nq, const cdz_attend *tile, const cdz_attend_query *query,
                      const char *keys, const char *ahead, float *scores)
{
    switch (nq) {
#if CDZ_TILE_QUERIES == 8
    case 8: score_groups(8, tile, query, keys, ahead, scores); break;
    case 7: score_groups(7, tile, query, keys, ahead, scores); break;
    case 6: score_groups(6, tile, query, keys, ahead, scores); break;
    case 5: score_groups(5, tile, query, keys, ahead, scores); break;
#endif
    case 4: score_groups(4, tile, query, keys, ahead, scores); break;
    case 3: score_groups(3, tile, query, keys, ahead, scores); break;
    case 2: score_groups(2, tile, query, keys, ahead, scores); break;
    default: score_groups(1, tile, query, keys, ahead, scores); break;
    }
}

static void values_any(size_t nq, const cdz_attend_query *query, const float *weights,
                       size_t stride, const values_at *values, const char *ahead, size_t dim,
                       size_t from, size_t to)
{
    switch (nq) {
#if CDZ_TILE_QUERIES == 8
    case 8: add_all_dims(8, query, weights, stride, values, ahead, dim, from, to); break;
    case 7: add_all_dims(7, query, weights, stride, values, ahead, dim, from, to); break;
    case 6: add_all_dims(6, query, weights, stride, values, ahead, dim, from, to); break;
    case 5: add_all_dims(5, query, weights, stride, values, ahead, dim, from, to); break;
#endif
    case 4: add_all_dims(4, query, weights, stride, values, ahead, dim, from, to); break;
    case 3: add_all_dims(3, query, weights, stride, values, ahead, dim, from, to); break;
    case 2: add_all_dims(2, query, weights, stride, values, ahead, dim, from, to); break;
    default: add_all_dims(1, query, weights, stride, values, ahead, dim, from, to); break;
    }
}

/* The range of positions that any (widest) or every (common) query of the tile sees. */
typedef struct span {
    size_t begin, end;
} span;

static span widest(const cdz_attend_query *query, size_t n)
{
    span s = {query[0].begin, query[0].end};
    for (size_t i = 1; i < n; i++) {
        if (query[i].begin < s.begin) s.begin = query[i].begin;
        if (query[i].end > s.end) s.end = query[i].end;
    }
    return s;
}

static span common(const cdz_attend_query *query, size_t n)
{
    span s = {query[0].begin, query[0].end};
    for (size_t i = 1; i < n; i++) {
        if (query[i].begin > s.begin) s.begin = query[i].begin;
        if (query[i].end < s.end) s.end = query[i].end;
    }
    if (s.end < s.begin) s.end = s.begin;
    return s;
}

static const char *block_of(const cdz_attend *tile, size_t position)
{
    return (const char *)tile->base +
           (size_t)tile->blocks[position / CDZ_KV_BLOCK] * tile->block_stride;
}

/* Of all keys of a block, which its values follow. */
static size_t keys_bytes(const cdz_attend *tile)
{
    return cdz_kv_keys_bytes(CDZ_ATTEND_TYPE, tile->head_dim);
}

/* Memory is read in 4 KiB steps that lie far apart, which the processor's own prefetching does not see
 * coming: the kernels ask for the fourth block after the one that they compute with, into the second-level cache, which can
 * wait for more lines at a time than the first: 1.6 times as fast as asking the first for the next block, where float32 comes
 * from memory. After the last keys come the first values, after the last values nothing new. NULL: nothing. */
static const char *block_ahead(const cdz_attend *tile, size_t position, size_t first, size_t end)
{
    const size_t next = position / CDZ_KV_BLOCK * CDZ_KV_BLOCK + FAR;
    if (next < end) return block_of(tile, next);
    if (tile->latents) return NULL;
    const size_t value = next - (end + CDZ_KV_BLOCK - 1) / CDZ_KV_BLOCK * CDZ_KV_BLOCK + first;
    return value < end ? block_of(tile, value) + keys_bytes(tile) : NULL;
}

/* The keys of AT_ONCE positions, in the order of a plain block, and those to be asked for meanwhile. */
typedef struct keys_at {
    const char *keys, *next;
} keys_at;

static keys_at keys_of(const cdz_attend *tile, size_t position, size_t first, size_t end)
{
#ifdef CDZ_ATTEND_PACKED
    if (position < tile->n_packed) {
        unpack_keys(tile, position, AT_ONCE);
        return (keys_at){(const char *)tile->room, (const char *)tile->room};
    }
#endif
    const size_t within =
        position % CDZ_KV_BLOCK / AT_ONCE * keys_bytes(tile) * AT_ONCE / CDZ_KV_BLOCK;
    const char *keys = block_of(tile, position) + within;
    const char *next = block_ahead(tile, position, first, end);
    return (keys_at){keys, next ? next + within : keys};
}

/* Scores of every query at every position of the blocks that the tile touches; column 0 is
 * position `first`. */
static void score_blocks(const cdz_attend *tile, size_t first, size_t end)
{
    for (size_t position = first; position < end; position += AT_ONCE) {
        const keys_at at = keys_of(tile, position, first, end);
        for (size_t i = 0; i < tile->n_queries; i += TILE_QUERIES) {
            const size_t nq =
                tile->n_queries - i < TILE_QUERIES ? tile->n_queries - i : TILE_QUERIES;
            score_any(nq, tile, &tile->query[i], at.keys, i == 0 ? at.next : at.keys,
                      tile->scores + i * tile->score_stride + position - first);
        }
    }
}

/* All ones for the lanes of eight positions from `at` on that lie in [begin, end). */
CDZ_INLINE __m256 seen(size_t at, size_t begin, size_t end)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int low = begin > at ? (begin - at < EIGHT ? (int)(begin - at) : EIGHT) : 0;
    const int high = end > at ? (end - at < EIGHT ? (int)(end - at) : EIGHT) : 0;
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32(low - 1)),
                                                _mm256_cmpgt_epi32(_mm256_set1_epi32(high), lane)));
}

CDZ_INLINE float largest_lane(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

/* Scores to weights in place, +0 outside [begin, end); returns 1 / sum. s is at position
 * `first`. */
static float softmax(float *s, const float *sink, size_t first, size_t begin, size_t end)
{
    const size_t from = begin / EIGHT * EIGHT;
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 largest = lowest, sum = _mm256_setzero_ps();
    for (size_t at = from; at < end; at += EIGHT) {
        __m256 v = _mm256_loadu_ps(s + (at - first));
        if (at < begin || at + EIGHT > end) v = _mm256_blendv_ps(lowest, v, seen(at, begin, end));
        largest = _mm256_max_ps(v, largest);
    }
    float most = largest_lane(largest);
    if (sink && *sink > most) most = *sink;
    const __m256 shift = _mm256_set1_ps(most);
    for (size_t at = from; at < end; at += EIGHT) {
        float *to = s + (at - first);
        __m256 weight = exp8(_mm256_sub_ps(_mm256_loadu_ps(to), shift));
        if (at < begin || at + EIGHT > end) weight = _mm256_and_ps(weight, seen(at, begin, end));
        _mm256_storeu_ps(to, weight);
        sum = _mm256_add_ps(sum, weight);
    }
    if (!sink) return 1.0f / fold8(sum);
    return 1.0f / (fold8(sum) + _mm256_cvtss_f32(exp8(_mm256_set1_ps(*sink - most))));
}

#ifndef CDZ_ATTEND_PACKED
/* Eight numbers of eight positions, from position after position at each number to number after number at each position. */
CDZ_INLINE void turn8(float *to, size_t stride, const float *from)
{
    __m256 a[8], b[8];
    CDZ_UNROLL
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * 8);
    CDZ_UNROLL
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    CDZ_UNROLL
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    CDZ_UNROLL
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

/* The values of a block whose keys hold them, laid as values are, in the store's type. */
static void part_values(const cdz_attend *tile, size_t position)
{
    const size_t dim = tile->head_dim, n = tile->value_dim, group = dim * CDZ_POSITION_GROUP;
    const size_t whole = ELEMENT == sizeof(float) ? n / EIGHT * EIGHT : 0;
    const char *keys = block_of(tile, position);
    char *room = (char *)tile->room;
    for (size_t g = 0; g < CDZ_KV_BLOCK; g += CDZ_POSITION_GROUP, keys += group * ELEMENT)
        for (size_t d = 0; d < whole; d += EIGHT)
            turn8(tile->room + g * n + d, n, (const float *)(const void *)keys + d * EIGHT);
    keys = block_of(tile, position);
    for (size_t p = 0; p < CDZ_KV_BLOCK; p++)
        for (size_t d = whole; d < n; d++)
            memcpy(room + (p * n + d) * ELEMENT,
                   keys + (p / EIGHT * group + d * EIGHT + p % EIGHT) * ELEMENT, ELEMENT);
}
#endif

/* The values of the block that holds a position, before them their factors where there are some. */
static const char *values_of(const cdz_attend *tile, size_t position)
{
#ifdef CDZ_ATTEND_PACKED
    if (position < tile->n_packed) {
        unpack_values(tile, position / CDZ_KV_BLOCK * CDZ_KV_BLOCK);
        return (const char *)tile->room;
    }
#else
    if (tile->latents) {
        part_values(tile, position);
        return (const char *)tile->room;
    }
#endif
    return block_of(tile, position) + keys_bytes(tile);
}

/* Adds the values of [begin, end) to nq queries, block by block, positions ascending. */
static void add_span(const cdz_attend *tile, size_t i, size_t nq, size_t first, size_t begin,
                     size_t end)
{
    const float *weights = tile->scores + i * tile->score_stride;
    const size_t factors = FACTORED ? 2 * tile->head_dim : 0, keys = keys_bytes(tile);
    for (size_t at = begin; at < end;) {
        const size_t block = at / CDZ_KV_BLOCK * CDZ_KV_BLOCK;
        const size_t to = end < block + CDZ_KV_BLOCK ? end : block + CDZ_KV_BLOCK;
        const char *from = values_of(tile, at);
        const size_t ahead = block + FAR;
        const bool asks = i == 0 && ahead < end && !tile->latents;
        const char *next = asks ? block_of(tile, ahead) + keys : from;
        const values_at values = {from + factors, from};
        values_any(nq, &tile->query[i], weights + block - first, tile->score_stride, &values,
                   next + factors, tile->value_dim, at - block, to - block);
        at = to;
    }
}

/* Queries of neighbouring positions see nearly the same range: what they share is read once, and
 * each takes the positions before and after it alone, so that the order of a query's sum is its
 * own. */
static void weigh_values(const cdz_attend *tile, size_t i, size_t nq, size_t first)
{
    const cdz_attend_query *query = &tile->query[i];
    const span shared = common(query, nq);
    for (size_t q = 0; q < nq; q++) {
        memset(query[q].out, 0, tile->value_dim * sizeof(float));
        const size_t stop = query[q].end < shared.begin ? query[q].end : shared.begin;
        add_span(tile, i + q, 1, first, query[q].begin, stop);
    }
    add_span(tile, i, nq, first, shared.begin, shared.end);
    for (size_t q = 0; q < nq; q++) {
        const size_t start = query[q].begin > shared.end ? query[q].begin : shared.end;
        add_span(tile, i + q, 1, first, start, query[q].end);
    }
}

static void attend(const cdz_attend *tile)
{
    const span all = widest(tile->query, tile->n_queries);
    const size_t first = all.begin / CDZ_KV_BLOCK * CDZ_KV_BLOCK;
    float inverse[CDZ_ATTEND_QUERIES];

    score_blocks(tile, first, all.end);
    for (size_t i = 0; i < tile->n_queries; i++) {
        float *scores = tile->scores + i * tile->score_stride;
        const cdz_attend_query *query = &tile->query[i];
        if (query->bias) add_bias(scores, first, query);
        if (tile->soft_cap != 0.0f)
            cap_scores(scores, first, query->begin, query->end, tile->soft_cap);
        inverse[i] = softmax(scores, query->sink, first, query->begin, query->end);
    }
    for (size_t i = 0; i < tile->n_queries; i += TILE_QUERIES)
        weigh_values(tile, i,
                     tile->n_queries - i < TILE_QUERIES ? tile->n_queries - i : TILE_QUERIES, first);
    for (size_t i = 0; i < tile->n_queries; i++)
        /* cppcheck-suppress uninitvar ; written for every i above */
        for (size_t d = 0; d < tile->value_dim; d++) tile->query[i].out[d] *= inverse[i];
}

#endif
