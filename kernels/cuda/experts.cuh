/* experts.cuh - mixtures of experts: which a row goes to, which rows share one, and the sum of what they give.
 *
 * A pair is a row and one of its experts; pair i is the (i % k)th of row i / k. */
#ifndef CDZ_CUDA_EXPERTS_CUH
#define CDZ_CUDA_EXPERTS_CUH

#include "products.cuh"

enum { EXPERT_THREADS = 256, EXPERT_PAIRS = 256, ROUTE_MOST = 1024 };

/* ---- choosing: a block takes a row ---- */

/* How many experts come before expert i: larger ones, and equals of lower index. */
__device__ inline size_t rank_of(const float *key, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t j = 0; j < n; j++) before += key[j] > key[i] || (key[j] == key[i] && j < i) ? 1 : 0;
    return before;
}

/* ref_route.c: softmax with a sum in index order; the largest first, the lower index first among equals. A NaN makes
 * every weight NaN, so who is chosen beside it does not matter: it comes last. */
__global__ void __launch_bounds__(EXPERT_THREADS)
    route_rows(float *weights, int32_t *ids, size_t k, row_view scores, size_t n, bool normalise)
{
    __shared__ float score[ROUTE_MOST], key[ROUTE_MOST], power[ROUTE_MOST];
    __shared__ int32_t chosen[ROUTE_MOST];
    const float *from = scores.at + blockIdx.x * scores.ld;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        score[i] = from[i];
        key[i] = score[i] == score[i] ? score[i] : -INFINITY;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        const size_t rank = rank_of(key, n, i);
        if (rank < k) chosen[rank] = (int32_t)i;
    }
    __syncthreads();
    const float largest = score[chosen[0]];
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) power[i] = cdz_exp(score[i] - largest);
    __syncthreads();
    if (threadIdx.x != 0) return;

    float sum = 0.0f, all = 0.0f, *w = weights + blockIdx.x * k;
    for (size_t i = 0; i < n; i++) sum += power[i];
    for (size_t j = 0; j < k; j++) {
        ids[blockIdx.x * k + j] = chosen[j];
        w[j] = power[chosen[j]] / sum;
        all += w[j];
    }
    for (size_t j = 0; normalise && j < k; j++) w[j] /= all;
}

/* ---- sharing: one block, a thread for each pair ---- */

/* Up to PRODUCT_TILE pairs of one expert are a tile. Which tile comes when shows nowhere; those that nothing is left
 * for have n, which is no pair, in place of pairs. */
__global__ void __launch_bounds__(EXPERT_PAIRS)
    tile_experts(unsigned *tiles, unsigned n_tiles, const int32_t *ids, unsigned n)
{
    __shared__ int32_t id[EXPERT_PAIRS];
    __shared__ bool leads[EXPERT_PAIRS];
    const unsigned me = threadIdx.x;
    for (unsigned i = me; i < n_tiles * PRODUCT_TILE; i += blockDim.x) tiles[i] = n;
    if (me < n) id[me] = ids[me];
    __syncthreads();
    unsigned before = 0; /* of the same expert */
    for (unsigned i = 0; me < n && i < me; i++) before += id[i] == id[me] ? 1 : 0;
    if (me < n) leads[me] = before % PRODUCT_TILE == 0;
    __syncthreads();
    if (me >= n || !leads[me]) return;
    unsigned tile = 0, filled = 0;
    for (unsigned i = 0; i < me; i++) tile += leads[i] ? 1 : 0;
    for (unsigned i = me; i < n && filled < PRODUCT_TILE; i++)
        if (id[i] == id[me]) tiles[tile * PRODUCT_TILE + filled++] = i;
}

/* ---- summing: a block takes a piece of a row ---- */

/* y[r] = 0 + what its k pairs give, x, times their weights, in ascending index of experts. */
__global__ void __launch_bounds__(EXPERT_THREADS)
    sum_experts(row_view y, const float *weights, const int32_t *ids, unsigned k, row_view x,
                size_t n)
{
    __shared__ unsigned pair[EXPERT_PAIRS];
    const size_t pieces = (n + blockDim.x - 1) / blockDim.x, row = blockIdx.x / pieces;
    const size_t i = blockIdx.x % pieces * blockDim.x + threadIdx.x;
    const unsigned first = (unsigned)row * k;
    for (unsigned j = threadIdx.x; j < k; j += blockDim.x) {
        unsigned lower = 0;
        for (unsigned other = 0; other < k; other++)
            lower += ids[first + other] < ids[first + j] ? 1 : 0;
        pair[lower] = first + j;
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0.0f;
    for (unsigned j = 0; j < k; j++) sum += weights[pair[j]] * x.at[pair[j] * x.ld + i];
    y.at[row * y.ld + i] = sum;
}

#endif
