/* attend.h - one attention tile: included by one source file per instruction set and type of the store, after
 * attend_avx2.h or attend_avx512.h. ref_attention.c says what it computes.
 *
 * A block of 32 positions is visited twice, each time for all queries of the tile: its keys (8 KiB at 64 dims) stay in the
 * first-level cache while four or twelve at a time take their scores, and the largest of each is kept; then its scores become
 * weights and its values are added. Seven heads together instead of one by one: 1.5 to 2 times as fast at 512 to 4096
 * positions. */
#ifndef CDZ_ATTEND_H
#define CDZ_ATTEND_H

/* CDZ_ATTEND_PACKED: there is a packed store beside the plain one, or the plain one is in Q8_0 or Q4_0. */
#ifdef CDZ_ATTEND_PACKED
#include "cpu/attend_packed.h"
#include "cpu/attend_widen.h"
#endif

enum {
    EIGHT = 8,                  /* lanes of the softmax, whatever a word has */
    AT_ONCE = KEY_WORDS * WORD, /* positions that are scored */
    LINE = 64,                  /* bytes that the memory gives at once, at least */
    FAR = 4 * CDZ_KV_BLOCK,     /* positions ahead that are asked for */
    FACTORED = CDZ_ATTEND_TYPE >= CDZ_N_PLAIN,
    HALVES = CDZ_ATTEND_TYPE == CDZ_Q4_0, /* two numbers to a byte */
    ELEMENT = CDZ_ATTEND_TYPE == CDZ_F32 ? 4
              : FACTORED                 ? 1
                                         : 2 /* bytes */
};

CDZ_INLINE size_t bytes_of(size_t numbers)
{
    return HALVES ? numbers / 2 : numbers * ELEMENT;
}

/* Where number d of a position's values lies. */
CDZ_INLINE size_t byte_of(size_t d)
{
    return HALVES ? d / CDZ_KV_RUN * (CDZ_KV_RUN / 2) + d % (CDZ_KV_RUN / 2) : d * ELEMENT;
}

/* What the bytes are turned right by, so that number d of a head is below: it counts where numbers are half bytes. */
CDZ_INLINE __m128i shift_of(size_t d)
{
    return _mm_cvtsi32_si128(HALVES && d % CDZ_KV_RUN >= CDZ_KV_RUN / 2 ? 4 : 0);
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

/* A query's score at a position, of (blocks from `first` on, n_queries, CDZ_KV_BLOCK): so those that are computed at once lie at
 * distances known beforehand, and no two at one that a cache maps to the same place. */
CDZ_INLINE float *score_at(const cdz_attend *tile, size_t i, size_t first, size_t position)
{
    return tile->scores + (position - first) / CDZ_KV_BLOCK * CDZ_KV_BLOCK * tile->n_queries +
           i * CDZ_KV_BLOCK + position % CDZ_KV_BLOCK;
}

/* Draws n scores, whole eights of them, into (-cap, cap). */
static void cap_scores(float *s, size_t n, float soft_cap)
{
    const __m256 cap = _mm256_set1_ps(soft_cap);
    for (size_t i = 0; i < n; i += EIGHT) {
        const __m256 x = _mm256_div_ps(_mm256_loadu_ps(s + i), cap);
        _mm256_storeu_ps(s + i, _mm256_mul_ps(tanh8(x), cap));
    }
}

/* Scores of nq queries, (head_dim, nq) of them, for AT_ONCE positions: one chain over d per query and position. What lies
 * at `ahead` is asked for meanwhile, as much as is read. */
CDZ_INLINE void score_groups(int nq, const cdz_attend *tile, const float *queries, const char *keys,
                             const char *ahead, float *scores)
{
    const size_t dim = tile->head_dim, run = FACTORED ? CDZ_KV_RUN : dim;
    const size_t rows = HALVES ? run / 2 : run; /* of numbers that lie above each other */
    const size_t step = CDZ_POSITION_GROUP * ELEMENT, before = FACTORED ? CDZ_KV_FACTORS : 0;
    const size_t run_bytes = before + rows * step, group_bytes = dim / run * run_bytes;
    const word scale = word_of(tile->scale);
    word acc[KEY_WORDS * TILE_QUERIES], factors[KEY_WORDS];
    CDZ_UNROLL
    for (int i = 0; i < KEY_WORDS * nq; i++) acc[i] = word_of(0.0f);
    for (size_t from = 0; from < dim; from += rows) {
        const char *numbers = keys + from / run * run_bytes;
        const __m128i shift = shift_of(from);
        CDZ_UNROLL
        for (int c = 0; FACTORED && c < KEY_WORDS; c++)
            factors[c] = widen_factors(c, numbers, group_bytes);
        for (size_t d = 0; d < rows; d++, queries += nq) {
            const char *at = numbers + before + d * step;
            word k[KEY_WORDS];
            CDZ_UNROLL
            for (size_t b = 0; b < bytes_of(AT_ONCE); b += LINE)
                if ((bytes_of(d * AT_ONCE) + b) % LINE == 0) {
                    _mm_prefetch(ahead, _MM_HINT_T1);
                    ahead += LINE;
                }
            CDZ_UNROLL
            for (int c = 0; c < KEY_WORDS; c++) {
                k[c] = widen_keys(c, at, group_bytes, shift);
                if (FACTORED) k[c] = times(k[c], factors[c]);
            }
            CDZ_UNROLL
            for (int i = 0; i < nq; i++) {
                const word q = word_of(queries[i]);
                CDZ_UNROLL
                for (int c = 0; c < KEY_WORDS; c++) fma_word(&acc[i * KEY_WORDS + c], k[c], q);
            }
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < KEY_WORDS * nq; i++)
        store_word(scores + i / KEY_WORDS * CDZ_KV_BLOCK + i % KEY_WORDS * WORD,
                   times(acc[i], scale));
}

/* The values of one block: position 0's, and the factors of each run of dims. */
typedef struct values_at {
    const char *v, *factors;
} values_at;

/* acc[d..] += weight(p) * v[p][d..] for positions [from, to) of one block, one or two registers of
 * dims at once. */
CDZ_INLINE void add_values(int nq, int words, const cdz_attend_query *query, const float *weights,
                           const values_at *values, const char *ahead, size_t dim, size_t d,
                           size_t from, size_t to)
{
    const size_t row = bytes_of(dim);
    const __m128i shift[2] = {shift_of(d), shift_of(d + WORD)};
    word acc[2 * TILE_QUERIES];
    float factors[CDZ_KV_BLOCK];
    CDZ_UNROLL
    for (int i = 0; i < nq * words; i++)
        acc[i] = load_word(query[i / words].out + d + (size_t)(i % words) * WORD);
    for (size_t p = 0; FACTORED && p < CDZ_KV_BLOCK; p += EIGHT)
        _mm256_storeu_ps(factors + p,
                         load8(CDZ_F16, values->factors, d / CDZ_KV_RUN * CDZ_KV_BLOCK + p));
    for (size_t p = from; p < to; p++) {
        word v[2];
        CDZ_UNROLL
        for (size_t b = bytes_of(d); b < bytes_of(d + (size_t)words * WORD); b += LINE)
            if (b % LINE == 0) _mm_prefetch(ahead + p * row + b, _MM_HINT_T1);
        CDZ_UNROLL
        for (int c = 0; c < words; c++) {
            v[c] = widen_word(values->v + p * row + byte_of(d + (size_t)c * WORD), shift[c]);
            if (FACTORED) v[c] = times(v[c], word_of(factors[p]));
        }
        CDZ_UNROLL
        for (int i = 0; i < nq; i++) {
            const word w = word_of(weights[(size_t)i * CDZ_KV_BLOCK + p]);
            CDZ_UNROLL
            for (int c = 0; c < words; c++) fma_word(&acc[i * words + c], v[c], w);
        }
    }
    CDZ_UNROLL
    for (int i = 0; i < nq * words; i++)
        store_word(query[i / words].out + d + (size_t)(i % words) * WORD, acc[i]);
}

CDZ_INLINE void add_all_dims(int nq, const cdz_attend_query *query, const float *weights,
                             const values_at *values, const char *ahead, size_t dim, size_t from,
                             size_t to)
{
    size_t d = 0;
    for (; d + 2 * WORD <= dim; d += 2 * WORD)
        add_values(nq, 2, query, weights, values, ahead, dim, d, from, to);
    for (; d + WORD <= dim; d += WORD)
        add_values(nq, 1, query, weights, values, ahead, dim, d, from, to);
    if (!FACTORED && d < dim)
        add_values_rest((size_t)nq, query, weights, values->v, dim, d, from, to);
}

static void score_any(size_t nq, const cdz_attend *tile, const float *queries, const char *keys,
                      const char *ahead, float *scores)
{
    switch (nq) {
#if CDZ_TILE_QUERIES == 12
    case 12: score_groups(12, tile, queries, keys, ahead, scores); break;
    case 11: score_groups(11, tile, queries, keys, ahead, scores); break;
    case 10: score_groups(10, tile, queries, keys, ahead, scores); break;
    case 9: score_groups(9, tile, queries, keys, ahead, scores); break;
    case 8: score_groups(8, tile, queries, keys, ahead, scores); break;
    case 7: score_groups(7, tile, queries, keys, ahead, scores); break;
    case 6: score_groups(6, tile, queries, keys, ahead, scores); break;
    case 5: score_groups(5, tile, queries, keys, ahead, scores); break;
#endif
    case 4: score_groups(4, tile, queries, keys, ahead, scores); break;
    case 3: score_groups(3, tile, queries, keys, ahead, scores); break;
    case 2: score_groups(2, tile, queries, keys, ahead, scores); break;
    default: score_groups(1, tile, queries, keys, ahead, scores); break;
    }
}

static void values_any(size_t nq, const cdz_attend_query *query, const float *weights,
                       const values_at *values, const char *ahead, size_t dim, size_t from,
                       size_t to)
{
    switch (nq) {
#if CDZ_TILE_QUERIES == 12
    case 12: add_all_dims(12, query, weights, values, ahead, dim, from, to); break;
    case 11: add_all_dims(11, query, weights, values, ahead, dim, from, to); break;
    case 10: add_all_dims(10, query, weights, values, ahead, dim, from, to); break;
    case 9: add_all_dims(9, query, weights, values, ahead, dim, from, to); break;
    case 8: add_all_dims(8, query, weights, values, ahead, dim, from, to); break;
    case 7: add_all_dims(7, query, weights, values, ahead, dim, from, to); break;
    case 6: add_all_dims(6, query, weights, values, ahead, dim, from, to); break;
    case 5: add_all_dims(5, query, weights, values, ahead, dim, from, to); break;
#endif
    case 4: add_all_dims(4, query, weights, values, ahead, dim, from, to); break;
    case 3: add_all_dims(3, query, weights, values, ahead, dim, from, to); break;
    case 2: add_all_dims(2, query, weights, values, ahead, dim, from, to); break;
    default: add_all_dims(1, query, weights, values, ahead, dim, from, to); break;
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

#ifdef CDZ_ATTEND_PACKED
/* Whether a position's keys and values are brought to the room first. */
static bool to_room(const cdz_attend *tile, size_t position)
{
    return position < tile->n_packed || tile->type != CDZ_F32;
}

/* The keys of AT_ONCE positions to the room. */
static void widen_keys_of(const cdz_attend *tile, size_t position, size_t end)
{
    const size_t bytes = cdz_kv_keys_bytes(tile->type, tile->head_dim) * AT_ONCE / CDZ_KV_BLOCK,
                 within = position % CDZ_KV_BLOCK / AT_ONCE * bytes,
                 runs = AT_ONCE / CDZ_POSITION_GROUP * tile->head_dim / CDZ_KV_RUN;
    const char *from = block_of(tile, position) + within,
               *ahead = position + FAR < end ? block_of(tile, position + FAR) + within : NULL;
    if (tile->type == CDZ_Q8_0)
        widen_key_runs(CDZ_Q8_0, tile->room, from, runs, ahead);
    else
        widen_key_runs(CDZ_Q4_0, tile->room, from, runs, ahead);
}

/* The values of a block to the room. */
static void widen_values_of(const cdz_attend *tile, size_t block, size_t end)
{
    const size_t keys = cdz_kv_keys_bytes(tile->type, tile->head_dim);
    const char *from = block_of(tile, block) + keys,
               *ahead = block + FAR < end ? block_of(tile, block + FAR) + keys : NULL;
    if (tile->type == CDZ_Q8_0)
        widen_value_runs(CDZ_Q8_0, tile->room, from, tile->head_dim, ahead);
    else
        widen_value_runs(CDZ_Q4_0, tile->room, from, tile->head_dim, ahead);
}
#endif

/* The keys of AT_ONCE positions, in the order of a plain block, and those to be asked for meanwhile. */
typedef struct keys_at {
    const char *keys, *next;
} keys_at;

static keys_at keys_of(const cdz_attend *tile, size_t position, size_t first, size_t end)
{
#ifdef CDZ_ATTEND_PACKED
    if (to_room(tile, position)) {
        if (position < tile->n_packed)
            unpack_keys(tile, position, AT_ONCE);
        else
            widen_keys_of(tile, position, end);
        return (keys_at){(const char *)tile->room, (const char *)tile->room};
    }
#endif
    const size_t within =
        position % CDZ_KV_BLOCK / AT_ONCE * keys_bytes(tile) * AT_ONCE / CDZ_KV_BLOCK;
    const char *keys = block_of(tile, position) + within;
    const char *next = block_ahead(tile, position, first, end);
    return (keys_at){keys, next ? next + within : keys};
}

/* Queries from i on that are computed at once: as many as registers hold sums of, or equal parts of all. */
static size_t together(const cdz_attend *tile, size_t i)
{
    const size_t n = tile->n_queries, parts = (n + TILE_QUERIES - 1) / TILE_QUERIES,
                 each = (n + parts - 1) / parts;
    return n - i < each ? n - i : each;
}

/* The queries that are computed at once, number by number. */
static void turn_queries(const cdz_attend *tile)
{
    float *to = tile->queries;
    for (size_t i = 0, nq; i < tile->n_queries; i += nq) {
        nq = together(tile, i);
        for (size_t d = 0; d < tile->head_dim; d++)
            for (size_t q = 0; q < nq; q++) *to++ = tile->query[i + q].q[d];
    }
}

/* Adds the bias of the positions from `at` on to their AT_ONCE scores, draws them under the cap, and keeps the largest of those that
 * the query sees. */
CDZ_INLINE void finish_scores(const cdz_attend *tile, const cdz_attend_query *query, float *scores,
                              size_t at, word *largest)
{
    if (at + AT_ONCE <= query->begin || at >= query->end) return;
    for (size_t p = at; query->bias && p < at + AT_ONCE; p++)
        if (p >= query->begin && p < query->end) scores[p - at] += query->bias[p];
    if (tile->soft_cap != 0.0f) cap_scores(scores, AT_ONCE, tile->soft_cap);
    const bool whole = at >= query->begin && at + AT_ONCE <= query->end;
    CDZ_UNROLL
    for (int c = 0; c < KEY_WORDS; c++) {
        const size_t from = (size_t)c * WORD;
        word v = load_word(scores + from);
        if (!whole) v = within(v, at + from, query->begin, query->end, word_of(-INFINITY));
        *largest = larger_of(v, *largest);
    }
}

/* Scores of every query at every position of the blocks that the tile touches, from position `first` on; and the largest that it
 * sees, lane by lane. */
static void score_blocks(const cdz_attend *tile, size_t first, size_t end, word *largest)
{
    for (size_t i = 0; i < tile->n_queries; i++) largest[i] = word_of(-INFINITY);
    turn_queries(tile);
    for (size_t position = first; position < end; position += AT_ONCE) {
        const keys_at at = keys_of(tile, position, first, end);
        float *scores = score_at(tile, 0, first, position);
        for (size_t i = 0, nq; i < tile->n_queries; i += nq) {
            nq = together(tile, i);
            score_any(nq, tile, tile->queries + i * tile->head_dim, at.keys,
                      i == 0 ? at.next : at.keys, scores + i * CDZ_KV_BLOCK);
        }
        for (size_t i = 0; i < tile->n_queries; i++)
            finish_scores(tile, &tile->query[i], scores + i * CDZ_KV_BLOCK, position, &largest[i]);
    }
}

/* What a query's weights are taken from, and their sum so far. */
typedef struct weighing {
    float most; /* score */
    __m256 sum;
} weighing;

static weighing weighing_of(const cdz_attend_query *query, word largest)
{
    weighing w = {largest_lane(largest), _mm256_setzero_ps()};
    if (query->sink && *query->sink > w.most) w.most = *query->sink;
    return w;
}

/* A query's scores at a block to weights in place, +0 where it does not see. */
CDZ_INLINE void weigh(const cdz_attend_query *query, float *scores, size_t block, weighing *w)
{
    if (block + CDZ_KV_BLOCK <= query->begin || block >= query->end) return;
    const word most = word_of(w->most);
    const bool whole = block >= query->begin && block + CDZ_KV_BLOCK <= query->end;
    CDZ_UNROLL
    for (size_t p = 0; p < CDZ_KV_BLOCK; p += WORD) {
        word weight = exp_of(minus(load_word(scores + p), most));
        if (!whole) weight = within(weight, block + p, query->begin, query->end, word_of(0.0f));
        store_word(scores + p, weight);
        w->sum = add_eights(w->sum, weight);
    }
}

/* 1 / the sum of all its weights. */
static float inverse_of(const cdz_attend_query *query, const weighing *w)
{
    if (!query->sink) return 1.0f / fold8(w->sum);
    const __m256 sink = exp8(_mm256_set1_ps(*query->sink - w->most));
    return 1.0f / (fold8(w->sum) + _mm256_cvtss_f32(sink));
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
static const char *values_of(const cdz_attend *tile, size_t position, size_t end)
{
    (void)end;
#ifdef CDZ_ATTEND_PACKED
    if (to_room(tile, position)) {
        if (position < tile->n_packed)
            unpack_values(tile, position / CDZ_KV_BLOCK * CDZ_KV_BLOCK);
        else
            widen_values_of(tile, position, end);
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

/* The values of a block, and what is asked for meanwhile. */
typedef struct block_values {
    size_t block, first; /* its first position, and that of the scores */
    values_at values;
    const char *ahead;
} block_values;

/* Adds those that lie in [begin, end) to nq queries from i on, positions ascending. */
static void add_within(const cdz_attend *tile, size_t i, size_t nq, const block_values *b,
                       size_t begin, size_t end)
{
    const size_t from = begin > b->block ? begin - b->block : 0;
    const size_t to = end < b->block                  ? 0
                      : end - b->block < CDZ_KV_BLOCK ? end - b->block
                                                      : CDZ_KV_BLOCK;
    if (from < to)
        values_any(nq, &tile->query[i], score_at(tile, i, b->first, b->block), &b->values, b->ahead,
                   tile->value_dim, from, to);
}

/* Queries of neighbouring positions see nearly the same range: what they share is read once, and
 * each takes the positions before and after it alone, so that the order of a query's sum is its
 * own. */
static void weigh_block(const cdz_attend *tile, size_t i, size_t nq, const span *shared,
                        const block_values *b)
{
    const cdz_attend_query *query = &tile->query[i];
    for (size_t q = 0; q < nq && b->block < shared->begin; q++)
        add_within(tile, i + q, 1, b, query[q].begin,
                   query[q].end < shared->begin ? query[q].end : shared->begin);
    add_within(tile, i, nq, b, shared->begin, shared->end);
    for (size_t q = 0; q < nq && b->block + CDZ_KV_BLOCK > shared->end; q++)
        add_within(tile, i + q, 1, b, query[q].begin > shared->end ? query[q].begin : shared->end,
                   query[q].end);
}

/* Block by block, each for all queries of the tile. */
static void weigh_values(const cdz_attend *tile, size_t first, size_t end, weighing *weighings)
{
    const size_t factors = FACTORED ? 2 * tile->head_dim : 0, keys = keys_bytes(tile);
    span shared[CDZ_ATTEND_QUERIES]; /* of those that are computed at once, at the first of them */
    for (size_t i = 0; i < tile->n_queries; i++)
        memset(tile->query[i].out, 0, tile->value_dim * sizeof(float));
    for (size_t i = 0, nq; i < tile->n_queries; i += nq) {
        nq = together(tile, i);
        shared[i] = common(&tile->query[i], nq);
    }
    for (size_t block = first; block < end; block += CDZ_KV_BLOCK) {
        const char *from = values_of(tile, block, end);
        const size_t ahead = block + FAR;
        const bool asks = ahead < end && !tile->latents && tile->type == CDZ_ATTEND_TYPE;
        block_values b = {block, first, {from + factors, from}, NULL};
        b.ahead = asks ? block_of(tile, ahead) + keys + factors : b.values.v;
        for (size_t i = 0; i < tile->n_queries; i++)
            weigh(&tile->query[i], score_at(tile, i, first, block), block, &weighings[i]);
        for (size_t i = 0, nq; i < tile->n_queries; i += nq, b.ahead = b.values.v) {
            nq = together(tile, i);
            weigh_block(tile, i, nq, &shared[i], &b);
        }
    }
}

static void attend(const cdz_attend *tile)
{
    const span all = widest(tile->query, tile->n_queries);
    const size_t first = all.begin / CDZ_KV_BLOCK * CDZ_KV_BLOCK;
    word largest[CDZ_ATTEND_QUERIES];
    weighing weighings[CDZ_ATTEND_QUERIES];

    score_blocks(tile, first, all.end, largest);
    for (size_t i = 0; i < tile->n_queries; i++)
        weighings[i] = weighing_of(&tile->query[i], largest[i]);
    weigh_values(tile, first, all.end, weighings);
    for (size_t i = 0; i < tile->n_queries; i++) {
        const float inverse = inverse_of(&tile->query[i], &weighings[i]);
        for (size_t d = 0; d < tile->value_dim; d++) tile->query[i].out[d] *= inverse;
    }
}

#endif
