/* attention.cuh - the paged key-value store and attention over it.
 *
 * Inside a block, per layer and kv head, keys lie as [head_dim][CDZ_KV_BLOCK] and values as
 * [CDZ_KV_BLOCK][head_dim]: a warp that gives each lane a position, or each lane a dimension, reads
 * neighbours. They are of the store's type, rounded as the CPU rounds them, and widened when read. Of
 * latents there are keys alone, whose first numbers are the values.
 *
 * Q8_0, Q4_0: 32 dims of a position share a factor. Keys lie in words of four bytes, [head_dim / n][CDZ_KV_BLOCK] of them, which hold
 * n = 4 numbers of Q8_0 and 8 of Q4_0, each two to a byte, the first below, 8 too great; then [head_dim / 32][CDZ_KV_BLOCK]
 * factors in float16. Values as [CDZ_KV_BLOCK][head_dim] numbers, then factors likewise.
 *
 * One order for every way of computing it. Positions are cut into spans at absolute multiples of 256.
 * In a span
 *   score(p) as in ref_attention.c, m the largest,  weight(p) = exp(score(p) - m)
 *   l = 32 lanes, lane p mod 32 ascending, folded 16, 8, 4, 2, 1 apart
 *   o[d] = four quarters of 64 positions, each ascending by fused multiply-add from +0, added ascending
 * and spans are put together ascending: with M the larger of both m, c = exp(m' - M), e = exp(m - M),
 * l' = l' * c + l * e, o' likewise. A sink joins last, as a span with m its score, l 1 and o 0. At last
 * out = o' * (1 / l').
 * So it does not show whether a block has walked the spans (prompts) or each span had a block and their
 * results were merged (decoding), how many queries shared the reading, or what else was in the batch. */
#ifndef CDZ_CUDA_ATTENTION_CUH
#define CDZ_CUDA_ATTENTION_CUH

#include "elements.cuh"

enum {
    SPAN = 256,      /* positions; a thread each */
    QUARTERS = 4,    /* of a span */
    ATTEND_MOST = 8, /* queries of an item: a warp each for the softmax */
    KV_RUN = 32,     /* dims of a position that share a factor: a warp's lanes */
};

struct kv_view {
    uint8_t *memory;
    size_t block_bytes, head_bytes; /* of a block; of one kv head in one layer of it */
    size_t keys_bytes;              /* of that head's keys, which its values follow */
    size_t n_kv_heads, dim, layer;
    size_t value_dim; /* dim, or less of latents */
    bool latents;
    int type;
};

/* A row of a call, on the device. */
struct device_row {
    uint32_t position, end; /* it sees positions below end */
    uint32_t list;          /* where its blocks begin in the lists */
};

/* Queries of one sequence and one kv head: counted through rows and the heads of the group,
 * row * group + head, from the first of `row`. One span when slot is not NO_SLOT: its result goes there. */
struct attend_item {
    uint32_t row, first, n;
    uint32_t span, n_spans;
    uint32_t slot;
};
#define NO_SLOT 0xffffffffu

struct attend_call {
    float *out;
    const float *q;
    size_t ldo, ldq;
    kv_view kv;
    const device_row *rows;
    const int32_t *blocks; /* the lists */
    const attend_item *items;
    float *partial;     /* [slot][kv head][queries][value_dim + 2]: o, m, l */
    const float *sinks; /* of the query heads; NULL: none */
    const float *bias;
    size_t bias_stride, bias_zero;
    float scale, soft_cap;
    uint32_t window, group;
};

__device__ inline uint8_t *kv_head_of(const kv_view &kv, int32_t block, size_t head)
{
    return kv.memory + (size_t)block * kv.block_bytes +
           (kv.layer * kv.n_kv_heads + head) * kv.head_bytes;
}

/* Keys or values in blocks: the factor of the run that dim d lies in. */
__device__ inline const uint8_t *kv_factor(const kv_view &kv, const uint8_t *numbers, size_t within,
                                           size_t d)
{
    const size_t factors = kv.keys_bytes - sizeof(uint16_t) * CDZ_KV_BLOCK * (kv.dim / KV_RUN);
    return numbers + factors + sizeof(uint16_t) * (d / KV_RUN * CDZ_KV_BLOCK + within);
}

/* Numbers in a word of four bytes. */
__device__ constexpr size_t kv_in_word(int type)
{
    return type == CDZ_Q4_0 ? 8 : 4;
}

/* Keys in blocks: where number d lies among all of a head, counted in numbers. From a multiple of kv_in_word on, so many lie side by
 * side. */
__device__ inline size_t kv_key_place(int type, size_t within, size_t d)
{
    const size_t n = kv_in_word(type);
    return (d / n * CDZ_KV_BLOCK + within) * n + d % n;
}

/* Of blocks: number `at` of all. */
template <int T> __device__ inline float kv_number(const uint8_t *from, size_t at)
{
    if (T == CDZ_Q8_0) return (float)(int8_t)from[at];
    return (float)((int)(from[at / 2] >> at % 2 * 4 & 15) - 8);
}

/* Likewise number i of a word. */
template <int T> __device__ inline float kv_number_of(uint32_t word, unsigned i)
{
    return (float)(T == CDZ_Q8_0 ? s8_of(word, i) : (int)(word >> i * 4 & 15) - 8);
}

/* Number d of the key of a position. */
template <int T>
__device__ inline float kv_key(const kv_view &kv, const uint8_t *head, size_t within, size_t d)
{
    if (T < CDZ_N_PLAIN) return load1<T>(head, d * CDZ_KV_BLOCK + within);
    return kv_number<T>(head, kv_key_place(T, within, d)) * f16_at(kv_factor(kv, head, within, d));
}

/* Number d of the values of the positions of a block, from the element `at` on; the step to the next position's. */
struct kv_values {
    const uint8_t *from, *factors; /* of blocks the one of position 0 */
    size_t at, step;
};

__device__ inline kv_values kv_values_of(const kv_view &kv, const uint8_t *head, size_t within,
                                         size_t d)
{
    if (kv.latents) return {head, nullptr, d * CDZ_KV_BLOCK + within, 1};
    const uint8_t *from = head + kv.keys_bytes;
    return {from, kv_factor(kv, from, 0, d), within * kv.dim + d, kv.dim};
}

template <int T> __device__ inline float kv_value(const kv_values &v, size_t within)
{
    if (T < CDZ_N_PLAIN) return load1<T>(v.from, v.at);
    return kv_number<T>(v.from, v.at) * f16_at(v.factors + 2 * within);
}

/* Stores stay finite: what float16 cannot hold becomes its largest number. */
__device__ inline float kv_kept(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

__device__ inline void kv_put(const kv_view &kv, uint8_t *to, size_t at, float x)
{
    if (kv.type == CDZ_F32)
        reinterpret_cast<float *>(to)[at] = x;
    else
        reinterpret_cast<uint16_t *>(to)[at] =
            kv.type == CDZ_BF16 ? round_bf16(x) : round_f16(kv_kept(x, 65504.0f));
}

__device__ inline float warp_largest(float v)
{
    for (unsigned apart = 16; apart; apart /= 2) {
        const float other = __shfl_xor_sync(GPU_ALL, v, apart);
        v = other > v ? other : v;
    }
    return v;
}

/* Of the lanes' numbers the one of largest size, the first among equals. */
__device__ inline float warp_extreme(float v)
{
    unsigned from = threadIdx.x % GPU_WARP;
    for (unsigned apart = 16; apart; apart /= 2) {
        const float other = __shfl_xor_sync(GPU_ALL, v, apart);
        const unsigned its = __shfl_xor_sync(GPU_ALL, from, apart);
        const bool takes = fabsf(other) > fabsf(v) || (fabsf(other) == fabsf(v) && its < from);
        v = takes ? other : v;
        from = takes ? its : from;
    }
    return v;
}

/* A lane's number of a run, of which each lane has one, and the run's factor, as in a block of the type. A
 * factor that is not a number stands for a number among them that is none. */
struct kv_rounded {
    uint8_t q;
    uint16_t factor;
};

__device__ inline uint16_t kv_factor_of(float d, bool none)
{
    const bool any = warp_largest(none ? 1.0f : 0.0f) != 0.0f;
    return any ? (uint16_t)0x7e00 : round_f16(d);
}

/* Q8_0: halves away from zero. */
__device__ inline kv_rounded kv_round8(float x)
{
    const bool none = x != x;
    const float kept = kv_kept(x, 65504.0f * 127.0f);
    const float d = warp_largest(none ? 0.0f : fabsf(kept)) / 127.0f;
    const float v = kept * (d != 0.0f ? 1.0f / d : 0.0f), size = fabsf(v);
    int q = none ? 0 : size < 127.0f ? (int)size : 127;
    if (q < 127 && size - (float)q >= 0.5f) q++;
    return {(uint8_t)(v < 0.0f ? -q : q), kv_factor_of(d, none)};
}

/* Q4_0: the extreme one is the lowest level; each 8 too great. */
__device__ inline kv_rounded kv_round4(float x)
{
    const bool none = x != x;
    const float kept = none ? 0.0f : kv_kept(x, 65504.0f * 8.0f), most = warp_extreme(kept);
    const float d = (most != 0.0f ? most : 0.0f) / -8.0f;
    const float v = kept * (d != 0.0f ? 1.0f / d : 0.0f) + 8.5f;
    const float level = v > 0.0f ? v : 0.0f; /* what is no number is none */
    return {(uint8_t)(level < 15.0f ? level : 15.0f), kv_factor_of(d, none)};
}

/* One number of a run, by its lane: number `at` of all; the first lane of a run writes the factor, and of two that share a byte the
 * first the byte. */
__device__ inline void kv_put_run(const kv_view &kv, uint8_t *numbers, size_t at, size_t within,
                                  size_t d, float x)
{
    const bool fours = kv.type == CDZ_Q4_0;
    const kv_rounded n = fours ? kv_round4(x) : kv_round8(x);
    const unsigned next = fours ? __shfl_xor_sync(GPU_ALL, (unsigned)n.q, 1) : 0;
    if (!fours)
        numbers[at] = n.q;
    else if (at % 2 == 0)
        numbers[at / 2] = (uint8_t)(n.q | next << 4);
    if (d % KV_RUN == 0)
        *reinterpret_cast<uint16_t *>(const_cast<uint8_t *>(kv_factor(kv, numbers, within, d))) =
            n.factor;
}

__device__ inline uint32_t first_seen(uint32_t position, uint32_t window)
{
    return window && position >= window ? position - window + 1 : 0;
}

/* ---- writing: block r stores row r ---- */

__global__ void __launch_bounds__(256)
    kv_store(kv_view kv, const device_row *rows, const int32_t *blocks, const float *k, size_t ldk,
             const float *v, size_t ldv)
{
    const device_row row = rows[blockIdx.x];
    const size_t within = row.position % CDZ_KV_BLOCK;
    const int32_t block = blocks[row.list + row.position / CDZ_KV_BLOCK];
    for (size_t i = threadIdx.x; i < kv.n_kv_heads * kv.dim; i += blockDim.x) {
        const size_t d = i % kv.dim;
        uint8_t *keys = kv_head_of(kv, block, i / kv.dim), *values = keys + kv.keys_bytes;
        if (kv.type >= CDZ_N_PLAIN) { /* whole warps: heads are whole runs */
            kv_put_run(kv, keys, kv_key_place(kv.type, within, d), within, d,
                       k[blockIdx.x * ldk + i]);
            kv_put_run(kv, values, within * kv.dim + d, within, d, v[blockIdx.x * ldv + i]);
            continue;
        }
        kv_put(kv, keys, d * CDZ_KV_BLOCK + within, k[blockIdx.x * ldk + i]);
        if (!kv.latents) kv_put(kv, values, within * kv.dim + d, v[blockIdx.x * ldv + i]);
    }
}

/* ---- a span ---- */

__device__ inline float finish_score(const attend_call &c, float s, size_t head, uint32_t position,
                                     uint32_t of)
{
    s *= c.scale;
    if (c.bias) s += c.bias[head * c.bias_stride + c.bias_zero + position - of];
    return c.soft_cap != 0.0f ? cdz_soft_cap(s, c.soft_cap) : s;
}

/* What the threads of an item share: [Q] of each, in dynamic shared memory. */
template <unsigned Q> struct shared_item {
    float *q, *score, *sum, *quarter; /* (Q, dim), (Q, SPAN), (Q, dim), (QUARTERS, Q, dim) */
    float *m, *l, *keep, *take;       /* (Q): so far; factors of what is there and of what is new */
    uint32_t *begin, *end;            /* (Q): positions seen */
};

template <unsigned Q> __device__ inline shared_item<Q> lay_out(float *memory, size_t dim)
{
    shared_item<Q> s;
    s.q = memory;
    s.score = s.q + Q * dim;
    s.sum = s.score + Q * SPAN;
    s.quarter = s.sum + Q * dim;
    s.m = s.quarter + QUARTERS * Q * dim;
    s.l = s.m + Q;
    s.keep = s.l + Q;
    s.take = s.keep + Q;
    s.begin = reinterpret_cast<uint32_t *>(s.take + Q);
    s.end = s.begin + Q;
    return s;
}

constexpr size_t attend_shared(size_t queries, size_t dim)
{
    return sizeof(float) * queries * ((2 + QUARTERS) * dim + SPAN + 6);
}

/* Loads the queries. Those that an item lacks see nothing. */
template <unsigned Q>
__device__ inline void begin_item(const attend_call &c, const attend_item &item, size_t kv_head,
                                  const shared_item<Q> &s)
{
    const size_t dim = c.kv.dim;
    for (size_t i = threadIdx.x; i < Q * dim; i += SPAN) {
        const uint32_t query = item.first + (uint32_t)(i / dim);
        const size_t head = kv_head * c.group + query % c.group;
        const float *q = c.q + (item.row + query / c.group) * c.ldq + head * dim;
        s.q[i] = i / dim < item.n ? q[i % dim] : 0.0f;
        s.sum[i] = 0.0f;
    }
    if (threadIdx.x < Q) {
        const bool there = threadIdx.x < item.n;
        const device_row row = c.rows[item.row + (there ? (item.first + threadIdx.x) / c.group : 0)];
        s.begin[threadIdx.x] = first_seen(row.position, c.window);
        s.end[threadIdx.x] = there ? row.end : 0;
        s.m[threadIdx.x] = -INFINITY;
        s.l[threadIdx.x] = 0.0f;
    }
    __syncthreads();
}

/* The positions that any query of the item sees. */
template <unsigned Q>
__device__ inline void range_of(const shared_item<Q> &s, uint32_t *begin, uint32_t *end)
{
    *begin = s.begin[0];
    *end = s.end[0];
    for (unsigned q = 1; q < Q; q++) {
        if (s.end[q] > *end) *end = s.end[q];
        if (s.end[q] && s.begin[q] < *begin) *begin = s.begin[q];
    }
}

/* Adds the products of a position's key with the queries, dims ascending. */
template <unsigned Q, int T>
__device__ inline void add_products(float score[Q], const kv_view &kv, const uint8_t *head,
                                    size_t within, const float *queries)
{
    const size_t dim = kv.dim;
    if constexpr (T >= CDZ_N_PLAIN) {
        constexpr unsigned N = kv_in_word(T);
        for (size_t run = 0; run < dim; run += KV_RUN) {
            const float factor = f16_at(kv_factor(kv, head, within, run));
#pragma unroll
            for (size_t d = run; d < run + KV_RUN; d += N) {
                const uint32_t word =
                    reinterpret_cast<const uint32_t *>(head)[kv_key_place(T, within, d) / N];
#pragma unroll
                for (unsigned i = 0; i < N; i++) {
                    const float k = kv_number_of<T>(word, i) * factor;
#pragma unroll
                    for (unsigned q = 0; q < Q; q++)
                        score[q] = fmaf(k, queries[q * dim + d + i], score[q]);
                }
            }
        }
    } else {
#pragma unroll 8
        for (size_t d = 0; d < dim; d++) {
            const float k = load1<T>(head, d * CDZ_KV_BLOCK + within);
#pragma unroll
            for (unsigned q = 0; q < Q; q++) score[q] = fmaf(k, queries[q * dim + d], score[q]);
        }
    }
}

/* score[q][thread]: -inf where the query does not see the position. */
template <unsigned Q, int T>
__device__ inline void score_span(const attend_call &c, const attend_item &item, size_t kv_head,
                                  const shared_item<Q> &s, uint32_t at, uint32_t begin, uint32_t end)
{
    const uint32_t position = at + threadIdx.x;
    float score[Q] = {};
    if (position >= begin && position < end) {
        const int32_t block = c.blocks[c.rows[item.row].list + position / CDZ_KV_BLOCK];
        add_products<Q, T>(score, c.kv, kv_head_of(c.kv, block, kv_head), position % CDZ_KV_BLOCK,
                           s.q);
    }
#pragma unroll
    for (unsigned q = 0; q < Q; q++) {
        float value = -INFINITY;
        if (position >= s.begin[q] && position < s.end[q]) {
            const uint32_t query = item.first + q;
            value = finish_score(c, score[q], kv_head * c.group + query % c.group, position,
                                 c.rows[item.row + query / c.group].position);
        }
        s.score[q * SPAN + threadIdx.x] = value;
    }
    __syncthreads();
}

__device__ inline float warp_sum(float v)
{
    for (unsigned apart = 16; apart; apart /= 2) v += __shfl_xor_sync(GPU_ALL, v, apart);
    return v;
}

/* How a new span (m, l) joins what there is: the factors of both. */
__device__ inline void join(float *m, float *l, float new_m, float new_l, float *keep, float *take)
{
    const float both = new_m > *m ? new_m : *m;
    *keep = both == -INFINITY ? 1.0f : cdz_exp(*m - both);
    *take = both == -INFINITY ? 0.0f : cdz_exp(new_m - both);
    *l = *l * *keep + new_l * *take;
    *m = both;
}

/* What the values of a head's positions are multiplied by at last. */
__device__ inline float share_of(const attend_call &c, size_t head, float m, float l)
{
    float keep = 1.0f, take;
    if (c.sinks) join(&m, &l, c.sinks[head], 1.0f, &keep, &take);
    return keep * (1.0f / l);
}

/* Scores to weights; warp q serves query q. With `alone` the span's own m and l stay as they are. */
template <unsigned Q> __device__ inline void weigh_span(const shared_item<Q> &s, bool alone)
{
    const unsigned q = threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP;
    if (q < Q) {
        float *score = s.score + q * SPAN, largest = score[lane], sum = 0.0f;
        for (unsigned p = lane + GPU_WARP; p < SPAN; p += GPU_WARP)
            largest = score[p] > largest ? score[p] : largest;
        largest = warp_largest(largest);
        for (unsigned p = lane; p < SPAN; p += GPU_WARP) {
            const float weight = score[p] == -INFINITY ? 0.0f : cdz_exp(score[p] - largest);
            score[p] = weight;
            sum += weight;
        }
        sum = warp_sum(sum);
        if (lane == 0 && alone) {
            s.m[q] = largest;
            s.l[q] = sum;
        } else if (lane == 0) {
            join(&s.m[q], &s.l[q], largest, sum, &s.keep[q], &s.take[q]);
        }
    }
    __syncthreads();
}

/* quarter[.][q][d]: each thread takes dimensions of a quarter. */
template <unsigned Q, int T>
__device__ inline void add_values(const attend_call &c, const attend_item &item, size_t kv_head,
                                  const shared_item<Q> &s, uint32_t at, uint32_t begin, uint32_t end)
{
    const size_t dim = c.kv.value_dim;
    const int32_t *blocks = c.blocks + c.rows[item.row].list;
    for (size_t i = threadIdx.x; i < QUARTERS * dim; i += SPAN) {
        const uint32_t first = at + (uint32_t)(i / dim) * (SPAN / QUARTERS);
        const uint32_t from = first > begin ? first : begin;
        const uint32_t to = first + SPAN / QUARTERS < end ? first + SPAN / QUARTERS : end;
        const size_t d = i % dim;
        float sum[Q] = {};
        for (uint32_t p = from; p < to;) {
            const uint32_t stop = (p / CDZ_KV_BLOCK + 1) * CDZ_KV_BLOCK;
            kv_values values = kv_values_of(
                c.kv, kv_head_of(c.kv, blocks[p / CDZ_KV_BLOCK], kv_head), p % CDZ_KV_BLOCK, d);
#pragma unroll 4
            for (; p < to && p < stop; p++, values.at += values.step) {
                const float v = kv_value<T>(values, p % CDZ_KV_BLOCK);
#pragma unroll
                for (unsigned q = 0; q < Q; q++)
                    sum[q] = fmaf(s.score[q * SPAN + p - at], v, sum[q]);
            }
        }
#pragma unroll
        for (unsigned q = 0; q < Q; q++) s.quarter[(i / dim * Q + q) * dim + d] = sum[q];
    }
    __syncthreads();
}

/* The span's o of element i of (Q, dim). */
template <unsigned Q>
__device__ inline float span_value(const shared_item<Q> &s, size_t i, size_t dim)
{
    float o = s.quarter[i];
    for (unsigned part = 1; part < QUARTERS; part++) o += s.quarter[part * Q * dim + i];
    return o;
}

template <unsigned Q>
__device__ inline void put_out(const attend_call &c, const attend_item &item, size_t kv_head,
                               const shared_item<Q> &s)
{
    const size_t dim = c.kv.value_dim;
    for (size_t i = threadIdx.x; i < item.n * dim; i += SPAN) {
        const uint32_t query = item.first + (uint32_t)(i / dim);
        const size_t head = kv_head * c.group + query % c.group;
        c.out[(item.row + query / c.group) * c.ldo + head * dim + i % dim] =
            s.sum[i] * share_of(c, head, s.m[i / dim], s.l[i / dim]);
    }
}

/* Block b is item b / kv heads, kv head b % kv heads. */
template <unsigned Q, int T>
__global__ void __launch_bounds__(SPAN, 2) attend(const __grid_constant__ attend_call c)
{
    GPU_SHARED(float, memory);
    const size_t kv_head = blockIdx.x % c.kv.n_kv_heads, dim = c.kv.value_dim;
    const attend_item item = c.items[blockIdx.x / c.kv.n_kv_heads];
    const shared_item<Q> s = lay_out<Q>(memory, c.kv.dim);
    const bool alone = item.slot != NO_SLOT;
    begin_item<Q>(c, item, kv_head, s);
    uint32_t begin, end;
    range_of<Q>(s, &begin, &end);

    for (uint32_t span = item.span; span < item.span + item.n_spans; span++) {
        score_span<Q, T>(c, item, kv_head, s, span * SPAN, begin, end);
        weigh_span<Q>(s, alone);
        add_values<Q, T>(c, item, kv_head, s, span * SPAN, begin, end);
        for (size_t i = threadIdx.x; i < Q * dim && !alone; i += SPAN)
            s.sum[i] = s.sum[i] * s.keep[i / dim] + span_value<Q>(s, i, dim) * s.take[i / dim];
        __syncthreads();
    }
    if (!alone) {
        put_out<Q>(c, item, kv_head, s);
        return;
    }
    float *to = c.partial + (item.slot * c.kv.n_kv_heads + kv_head) * ATTEND_MOST * (dim + 2);
    for (size_t i = threadIdx.x; i < item.n * dim; i += SPAN)
        to[i / dim * (dim + 2) + i % dim] = span_value<Q>(s, i, dim);
    if (threadIdx.x < item.n) {
        to[threadIdx.x * (dim + 2) + dim] = s.m[threadIdx.x];
        to[threadIdx.x * (dim + 2) + dim + 1] = s.l[threadIdx.x];
    }
}

/* Puts the spans of an item together, from slot on; blocks as in attend. */
__global__ void __launch_bounds__(SPAN) merge_spans(const __grid_constant__ attend_call c)
{
    const size_t kv_head = blockIdx.x % c.kv.n_kv_heads, dim = c.kv.value_dim;
    const attend_item item = c.items[blockIdx.x / c.kv.n_kv_heads];
    const size_t step = c.kv.n_kv_heads * ATTEND_MOST * (dim + 2);
    for (size_t i = threadIdx.x; i < item.n * dim; i += SPAN) {
        const float *from = c.partial +
                            (item.slot * c.kv.n_kv_heads + kv_head) * ATTEND_MOST * (dim + 2) +
                            i / dim * (dim + 2);
        float o = 0.0f, m = -INFINITY, l = 0.0f;
        for (uint32_t span = 0; span < item.n_spans; span++, from += step) {
            float keep, take;
            join(&m, &l, from[dim], from[dim + 1], &keep, &take);
            o = o * keep + from[i % dim] * take;
        }
        const uint32_t query = item.first + (uint32_t)(i / dim);
        const size_t head = kv_head * c.group + query % c.group;
        c.out[(item.row + query / c.group) * c.ldo + head * dim + i % dim] =
            o * share_of(c, head, m, l);
    }
}

/* Of a store whose type is known at run time only. */
__device__ inline float kv_key_of(const kv_view &kv, const uint8_t *head, size_t within, size_t d)
{
    switch (kv.type) {
    case CDZ_F16: return kv_key<CDZ_F16>(kv, head, within, d);
    case CDZ_BF16: return kv_key<CDZ_BF16>(kv, head, within, d);
    case CDZ_Q8_0: return kv_key<CDZ_Q8_0>(kv, head, within, d);
    case CDZ_Q4_0: return kv_key<CDZ_Q4_0>(kv, head, within, d);
    default: return kv_key<CDZ_F32>(kv, head, within, d);
    }
}

/* ---- for looking at: the weights of one row, out[head][position], as the CPU has them ---- */

__global__ void __launch_bounds__(SPAN) show_weights(attend_call c, float *out, size_t ldo)
{
    __shared__ float largest, sum;
    const device_row row = c.rows[0];
    const size_t dim = c.kv.dim, head = blockIdx.x, kv_head = head / c.group;
    const uint32_t begin = first_seen(row.position, c.window);
    float *to = out + head * ldo;
    for (uint32_t p = threadIdx.x; p < row.end; p += SPAN) {
        const uint8_t *keys = kv_head_of(c.kv, c.blocks[row.list + p / CDZ_KV_BLOCK], kv_head);
        float s = 0.0f;
        for (size_t d = 0; d < dim && p >= begin; d++)
            s = fmaf(kv_key_of(c.kv, keys, p % CDZ_KV_BLOCK, d), c.q[head * dim + d], s);
        to[p] = p < begin ? 0.0f : finish_score(c, s, head, p, row.position);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        largest = to[begin];
        for (uint32_t p = begin + 1; p < row.end; p++) largest = to[p] > largest ? to[p] : largest;
        if (c.sinks && c.sinks[head] > largest) largest = c.sinks[head];
    }
    __syncthreads();
    for (uint32_t p = begin + threadIdx.x; p < row.end; p += SPAN) to[p] = cdz_exp(to[p] - largest);
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (uint32_t p = begin; p < row.end; p++) sum += to[p];
        if (c.sinks) sum += cdz_exp(c.sinks[head] - largest);
    }
    __syncthreads();
    for (uint32_t p = begin + threadIdx.x; p < row.end; p += SPAN) to[p] /= sum;
}

#endif
