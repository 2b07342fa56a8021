/* scores.cuh - kernels that look at rows of scores, so that a row need not leave the device to be looked at. */
#ifndef CDZ_CUDA_SCORES_CUH
#define CDZ_CUDA_SCORES_CUH

#include <float.h>

#include "device.h"

enum {
    SCORE_THREADS = 256,
    SCORE_SLICE = 4096, /* elements of a row that one block looks at */
};

/* Rows of scores. */
struct score_view {
    const float *at;
    size_t ld;
};

/* Rises with the score, and among equal ones with a lower index; both zeros are equal, and so are all NaN, which are above
 * everything. */
__device__ inline uint64_t score_rank(float x, size_t i)
{
    const uint32_t bits = cdz_bits_of_float(x == 0.0f ? 0.0f : x);
    const uint32_t rises = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)(x != x ? 0xffffffffu : rises) << 32 | (0xffffffffu - (uint32_t)i);
}

/* The largest of all threads' ranks, to thread 0. */
__device__ inline uint64_t largest_rank(uint64_t rank)
{
    __shared__ uint64_t of_warp[SCORE_THREADS / GPU_WARP];
    for (unsigned lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        const uint64_t other = __shfl_xor_sync(GPU_ALL, rank, lanes);
        rank = other > rank ? other : rank;
    }
    if (threadIdx.x % GPU_WARP == 0) of_warp[threadIdx.x / GPU_WARP] = rank;
    __syncthreads();
    for (unsigned w = 1; threadIdx.x == 0 && w < SCORE_THREADS / GPU_WARP; w++)
        rank = of_warp[w] > rank ? of_warp[w] : rank;
    return rank;
}

/* Block r * slices + s: the best of slice s of row r. best (m, slices) */
__global__ void __launch_bounds__(SCORE_THREADS)
    best_of_slices(uint64_t *best, score_view x, size_t n, size_t slices)
{
    const float *row = x.at + blockIdx.x / slices * x.ld;
    const size_t first = blockIdx.x % slices * SCORE_SLICE;
    const size_t end = first + SCORE_SLICE < n ? first + SCORE_SLICE : n;
    uint64_t rank = 0;
    for (size_t i = first + threadIdx.x; i < end; i += SCORE_THREADS) {
        const uint64_t other = score_rank(row[i], i);
        rank = other > rank ? other : rank;
    }
    rank = largest_rank(rank);
    if (threadIdx.x == 0) best[blockIdx.x] = rank;
}

/* Block r: the index of row r's best. */
__global__ void __launch_bounds__(SCORE_THREADS)
    best_of_rows(int32_t *ids, const uint64_t *best, size_t slices)
{
    uint64_t rank = 0;
    for (size_t s = threadIdx.x; s < slices; s += SCORE_THREADS) {
        const uint64_t other = best[blockIdx.x * slices + s];
        rank = other > rank ? other : rank;
    }
    rank = largest_rank(rank);
    if (threadIdx.x == 0) ids[blockIdx.x] = (int32_t)(0xffffffffu - (uint32_t)rank);
}

/* ---- the best of a row ---- */

enum {
    LEAD_SPANS = 4096, /* at most: pieces of a row whose largest are known */
    LEAD_WARPS = SCORE_THREADS / GPU_WARP,
    LEAD_GROUP = 8 * LEAD_WARPS, /* pieces of a block */
};

/* What is asked of a row, and what is told beside the list. */
struct lead_wish {
    uint32_t least;
    float divisor;
    uint32_t mask; /* which of the masks it has, from 1; 0: none */
};
struct lead_head {
    uint32_t n;
    float low, top;
};

struct lead_call {
    const float *x;
    size_t ld, n;
    size_t span, n_spans;  /* elements of a piece; pieces of a row */
    const lead_wish *wish; /* (m) */
    float *tops;           /* (m, n_spans) the largest of each piece, NaN if one is in it */
    lead_head *head;       /* (m) */
    int32_t *ids;          /* (m, CDZ_LEADERS_MOST) */
    float *values;         /* (m, CDZ_LEADERS_MOST) */
    double *mass;          /* (m, slices) */
    size_t slices;
    const uint64_t *masks; /* (masks, n_words) */
    size_t n_words;
};

/* A row as it is looked at: through its mask, if it has one. */
struct lead_row {
    const float *x;
    const uint64_t *kept; /* NULL: all */
};

__device__ inline lead_row lead_row_of(const lead_call &c, size_t row)
{
    const uint32_t mask = c.wish[row].mask;
    return {c.x + row * c.ld, mask ? c.masks + (mask - 1) * c.n_words : nullptr};
}

__device__ inline float lead_at(const lead_row &row, size_t i)
{
    return !row.kept || (row.kept[i / 64] >> (i % 64) & 1) ? row.x[i] : -INFINITY;
}

/* A score that is wanted whatever it is. */
struct lead_place {
    uint32_t row;
    int32_t id;
};

enum { LEAD_GATHERS = 4 }; /* blocks of a row */

/* to[i] = the score at places[i], n in all. */
__global__ void __launch_bounds__(SCORE_THREADS)
    lead_gather(float *to, score_view x, const lead_place *places, size_t n)
{
    const size_t step = (size_t)gridDim.x * SCORE_THREADS;
    for (size_t i = (size_t)blockIdx.x * SCORE_THREADS + threadIdx.x; i < n; i += step)
        to[i] = x.at[places[i].row * x.ld + (size_t)places[i].id];
}

/* Rises with the score; no NaN. */
__device__ inline uint32_t lead_key(float x)
{
    const uint32_t bits = cdz_bits_of_float(x == 0.0f ? 0.0f : x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ inline float lead_score(uint32_t key)
{
    return cdz_float_of_bits(key >> 31 ? key & 0x7fffffffu : ~key);
}

/* So low that nothing below it becomes equal to the bound by a division. */
__device__ inline float lead_low(float bound)
{
    const float low = bound - (fabsf(bound) * 1e-6f + 1e-30f);
    return low > -FLT_MAX ? low : -FLT_MAX;
}

/* The largest of a warp's; NaN over everything. */
__device__ inline float top_of_warp(float top)
{
    for (unsigned lanes = GPU_WARP / 2; lanes > 0; lanes /= 2) {
        const float other = __shfl_xor_sync(GPU_ALL, top, lanes);
        top = other > top || other != other ? other : top;
    }
    return top;
}

/* Block r * groups + g: the largest of each piece of group g of row r, a warp for a piece. */
__global__ void __launch_bounds__(SCORE_THREADS) lead_survey(lead_call c, size_t groups)
{
    const size_t row = blockIdx.x / groups, lane = threadIdx.x % GPU_WARP;
    const lead_row x = lead_row_of(c, row);
    size_t s = blockIdx.x % groups * LEAD_GROUP + threadIdx.x / GPU_WARP;
    if (c.wish[row].least == 0) return;
    for (unsigned i = 0; i < LEAD_GROUP / LEAD_WARPS; i++, s += LEAD_WARPS) {
        if (s >= c.n_spans) return; /* the whole warp */
        const size_t first = s * c.span, end = first + c.span < c.n ? first + c.span : c.n;
        float top = -INFINITY;
        for (size_t k = first + lane; k < end; k += GPU_WARP) {
            const float v = lead_at(x, k);
            top = v > top || v != v ? v : top;
        }
        top = top_of_warp(top);
        if (lane == 0) c.tops[row * c.n_spans + s] = top;
    }
}

/* The sum over the block, for every thread. `parts` (LEAD_WARPS) is free again after a barrier. */
template <typename T> __device__ inline T sum_of_block(T value, T *parts)
{
    for (unsigned lanes = GPU_WARP / 2; lanes > 0; lanes /= 2)
        value += __shfl_xor_sync(GPU_ALL, value, lanes);
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) parts[threadIdx.x / GPU_WARP] = value;
    __syncthreads();
    T sum = parts[0];
    for (unsigned w = 1; w < LEAD_WARPS; w++) sum += parts[w];
    return sum;
}

/* The k-th largest of n keys, bit by bit; k from 1 to n. */
__device__ inline uint32_t kth_key(const uint32_t *keys, size_t n, uint32_t k, uint32_t *parts)
{
    uint32_t found = 0;
    for (unsigned bit = 32; bit-- > 0;) {
        const uint32_t tried = found | 1u << bit;
        uint32_t count = 0;
        for (size_t i = threadIdx.x; i < n; i += SCORE_THREADS) count += keys[i] >= tried;
        if (sum_of_block(count, parts) >= k) found = tried;
    }
    return found;
}

/* How many of a warp's lanes before this one, and in all, say yes. */
struct lead_vote {
    unsigned before, all;
};
__device__ inline lead_vote vote_of_warp(bool yes)
{
    const unsigned lane = threadIdx.x % GPU_WARP;
    unsigned sum = yes;
    for (unsigned step = 1; step < GPU_WARP; step *= 2) {
        const unsigned other = __shfl_sync(GPU_ALL, sum, lane >= step ? lane - step : lane);
        sum += lane >= step ? other : 0;
    }
    return {sum - yes, __shfl_sync(GPU_ALL, sum, GPU_WARP - 1)};
}

/* Elements of pieces [first, last) that are not below low: counted, and put down from place `at` on unless ids is NULL. */
__device__ inline unsigned lead_walk(const lead_call &c, const lead_row &x, const uint32_t *keys,
                                     size_t first, size_t last, float low, unsigned at,
                                     int32_t *ids, float *values)
{
    const uint32_t low_key = lead_key(low);
    for (size_t s = first; s < last; s++) {
        if (keys[s] < low_key) continue;
        const size_t end = (s + 1) * c.span < c.n ? (s + 1) * c.span : c.n;
        for (size_t k = s * c.span; k < end; k += GPU_WARP) {
            const size_t i = k + threadIdx.x % GPU_WARP;
            const float v = i < end ? lead_at(x, i) : -INFINITY;
            const lead_vote vote = vote_of_warp(v >= low);
            if (ids && v >= low) {
                ids[at + vote.before] = (int32_t)i;
                values[at + vote.before] = v;
            }
            at += vote.all;
        }
    }
    return at;
}

/* The pieces that a warp walks. */
struct lead_part {
    size_t first, last;
};
__device__ inline lead_part lead_part_of(const lead_call &c, size_t warp)
{
    const size_t each = (c.n_spans + LEAD_WARPS - 1) / LEAD_WARPS;
    const size_t first = warp * each < c.n_spans ? warp * each : c.n_spans;
    return {first, first + each < c.n_spans ? first + each : c.n_spans};
}

/* How many elements are not below low in the parts of the warps before this one, and in all; for every thread. */
__device__ inline lead_vote lead_count(const lead_call &c, const lead_row &x, const uint32_t *keys,
                                       float low, uint32_t *parts)
{
    const size_t warp = threadIdx.x / GPU_WARP;
    const lead_part part = lead_part_of(c, warp);
    const unsigned own = lead_walk(c, x, keys, part.first, part.last, low, 0, nullptr, nullptr);
    lead_vote count = {0, 0};
    __syncthreads();
    if (threadIdx.x % GPU_WARP == 0) parts[warp] = own;
    __syncthreads();
    for (unsigned w = 0; w < LEAD_WARPS; w++) {
        count.before += w < warp ? parts[w] : 0;
        count.all += parts[w];
    }
    return count;
}

/* The k-th largest element, bit by bit as in kth_key; k of them are above -inf. */
__device__ inline float kth_score(const lead_call &c, const lead_row &x, const uint32_t *keys,
                                  uint32_t k, uint32_t *parts)
{
    uint32_t found = 0;
    for (unsigned bit = 32; bit-- > 0;) {
        const uint32_t tried = found | 1u << bit;
        if (lead_count(c, x, keys, lead_score(tried), parts).all >= k) found = tried;
    }
    return lead_score(found);
}

/* Block r: where row r's list ends, and the list by rising index. Where fewer pieces than are asked for have anything above
 * -inf, as behind a mask, their largest are no bound: if all their elements are too many, the bound is looked for among these. */
__global__ void __launch_bounds__(SCORE_THREADS, 1) lead_pick(lead_call c)
{
    __shared__ uint32_t keys[LEAD_SPANS], parts[LEAD_WARPS];
    const size_t row = blockIdx.x;
    const lead_row x = lead_row_of(c, row);
    const uint32_t least = c.wish[row].least;
    if (least == 0) return;
    uint32_t nan = 0, top = 0;
    for (size_t s = threadIdx.x; s < c.n_spans; s += SCORE_THREADS) {
        const float v = c.tops[row * c.n_spans + s];
        nan += v != v;
        keys[s] = lead_key(v);
    }
    if (sum_of_block(nan, parts) > 0) {
        if (threadIdx.x == 0) c.head[row] = {CDZ_LEADERS_MOST + 1, INFINITY, NAN};
        return;
    }
    const uint32_t k = least < c.n_spans ? least : (uint32_t)c.n_spans;
    const bool whole = c.n <= CDZ_LEADERS_MOST;
    const float bound = whole ? -INFINITY : lead_score(kth_key(keys, c.n_spans, k, parts));
    float low = lead_low(bound);
    lead_vote count = lead_count(c, x, keys, low, parts);
    if (count.all > CDZ_LEADERS_MOST && bound == -INFINITY) {
        const uint32_t most = least < CDZ_LEADERS_MOST ? least : (uint32_t)CDZ_LEADERS_MOST;
        low = lead_low(kth_score(c, x, keys, most, parts));
        count = lead_count(c, x, keys, low, parts);
    }
    for (size_t s = 0; threadIdx.x == 0 && s < c.n_spans; s++) top = keys[s] > top ? keys[s] : top;
    if (threadIdx.x == 0) c.head[row] = {count.all, low, lead_score(top)};
    if (count.all > CDZ_LEADERS_MOST) return;
    const lead_part part = lead_part_of(c, threadIdx.x / GPU_WARP);
    lead_walk(c, x, keys, part.first, part.last, low, count.before, c.ids + row * CDZ_LEADERS_MOST,
              c.values + row * CDZ_LEADERS_MOST);
}

/* Block r * slices + s: what slice s of row r adds to its mass. Terms are float32, as in the reference; their sum is not. */
__global__ void __launch_bounds__(SCORE_THREADS) lead_mass(lead_call c)
{
    __shared__ double parts[LEAD_WARPS];
    const size_t row = blockIdx.x / c.slices, first = blockIdx.x % c.slices * SCORE_SLICE;
    const size_t end = first + SCORE_SLICE < c.n ? first + SCORE_SLICE : c.n;
    const float divisor = c.wish[row].divisor;
    if (c.wish[row].least == 0 || divisor == 0.0f) return;
    const lead_row x = lead_row_of(c, row);
    const float top = c.head[row].top / divisor;
    double sum = 0.0;
    for (size_t i = first + threadIdx.x; i < end; i += SCORE_THREADS)
        sum += (double)cdz_exp(lead_at(x, i) / divisor - top);
    sum = sum_of_block(sum, parts);
    if (threadIdx.x == 0) c.mass[blockIdx.x] = sum;
}

#endif
