/* scores.cuh - kernels that look at rows of scores, so that a row need not leave the device to be looked at. */
#ifndef CDZ_CUDA_SCORES_CUH
#define CDZ_CUDA_SCORES_CUH

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

#endif
