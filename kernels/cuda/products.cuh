/* products.cuh - y = x w^T + bias for a few rows of x: the kernel that decoding is made of.
 *
 * The order is the CPU's (kernels.h): chunks of 1024 columns, 16 lanes in a chunk, each ascending by
 * fused multiply-add, folded 16 -> 8 -> 4 -> 1, chunks added ascending. So a row has the same bits
 * whatever rows are beside it, and the same as on the CPU.
 *
 * Four threads carry one weight row through a chunk, four lanes each: together they read 16 elements
 * that lie side by side, 32 bytes of a 16-bit type. A warp carries eight rows, the warps of a block take
 * different chunks. Weights are read once for up to R rows of x, which come from the nearer cache: the
 * whole warp reads the same 64 bytes of them. */
#ifndef CDZ_CUDA_PRODUCTS_CUH
#define CDZ_CUDA_PRODUCTS_CUH

#include "elements.cuh"

enum {
    PRODUCT_CHUNK = 1024,
    PRODUCT_LANES = 16,
    PRODUCT_ROWS = 8,  /* weight rows of a warp, so of a block */
    PRODUCT_WARPS = 8, /* most of a block */
    PRODUCT_FUSED = 4, /* most products of a launch */
    PRODUCT_TILE = 4,  /* rows of a tile of a choice */
};

struct product_part {
    const uint8_t *w;
    const void *bias; /* NULL: none */
    float *y;         /* (m, n) */
    size_t ldy, n;
    int bias_dtype;
    unsigned first_block;
};

/* Which weights a row meets, where the device alone knows it: row i of y those of ids[i]. */
struct product_choice {
    const void *const *at; /* (n_ids, stride) an id's weights by part; NULL: no choice, the parts' w */
    const void *const *bias_at; /* the same of biases, where parts have one */
    const int32_t *ids;         /* (m) */
    /* (n_tiles, PRODUCT_TILE) rows of y, those of a tile of one id; m: none. NULL: each row is a tile. */
    const unsigned *tiles;
    unsigned n_tiles, stride;
    unsigned sharing; /* rows of y that read one of x */
};

struct product_call {
    product_part part[PRODUCT_FUSED];
    product_choice choice;
    const float *x; /* (m, k) */
    size_t ldx, k;
    unsigned n_parts, m, blocks; /* blocks: of a tile of R rows of x */
    bool vector;                 /* rows of x, and of a plain w, are aligned to four elements */
};

/* Four elements of a row of x or of a plain w from column e on, zeros past k. */
template <int D>
__device__ inline void load_tail(float out[4], const uint8_t *row, size_t e, size_t k)
{
#pragma unroll
    for (unsigned i = 0; i < 4; i++) out[i] = e + i < k ? load1<D>(row, e + i) : 0.0f;
}

template <int D>
__device__ inline void load_weights(float out[4], const uint8_t *row, size_t e, size_t k,
                                    bool vector)
{
    if constexpr (D >= CDZ_N_PLAIN) {
        load4<D>(out, row, e / 4);
        if (D == CDZ_FP8 && e + 4 > k) cut_off(out, e, k);
    } else if (vector && e + 4 <= k)
        load4_plain<D>(out, row, e / 4);
    else
        load_tail<D>(out, row, e, k);
}

__device__ inline void load_inputs(float out[4], const float *x, size_t e, size_t k, bool vector)
{
    if (vector && e + 4 <= k) {
        const float4 v = *reinterpret_cast<const float4 *>(x + e);
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    } else {
        load_tail<CDZ_F32>(out, reinterpret_cast<const uint8_t *>(x), e, k);
    }
}

/* Sixteen lanes, four on each of four neighbouring threads, to one number on all four. */
__device__ inline float fold_lanes(float s[4])
{
#pragma unroll
    for (unsigned q = 0; q < 4; q++) s[q] += __shfl_xor_sync(GPU_ALL, s[q], 2);
#pragma unroll
    for (unsigned q = 0; q < 4; q++) s[q] += __shfl_xor_sync(GPU_ALL, s[q], 1);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

template <unsigned R>
__device__ inline void multiply_add(float acc[R][4], const float w[4], const float *const x[R],
                                    size_t e, size_t k, bool vector)
{
#pragma unroll
    for (unsigned r = 0; r < R; r++) {
        float v[4];
        load_inputs(v, x[r], e, k, vector);
#pragma unroll
        for (unsigned q = 0; q < 4; q++) acc[r][q] = fmaf(w[q], v[q], acc[r][q]);
    }
}

/* One weight row by R rows of x over the columns [from, to), from a multiple of the chunk. Several loads
 * of weights are under way before the first is used. */
template <int D, unsigned R>
__device__ inline void dot_chunk(float acc[R][4], const uint8_t *w, const float *const x[R],
                                 size_t from, size_t to, size_t k, bool vector, unsigned lane)
{
    constexpr unsigned AHEAD = D < CDZ_N_PLAIN ? 8 : 2;
    size_t at = from;
    for (; at + AHEAD * PRODUCT_LANES <= to; at += AHEAD * PRODUCT_LANES) {
        float some[AHEAD][4];
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++)
            load_weights<D>(some[a], w, at + a * PRODUCT_LANES + 4 * lane, k, vector);
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++)
            multiply_add<R>(acc, some[a], x, at + a * PRODUCT_LANES + 4 * lane, k, vector);
    }
    for (; at < to; at += PRODUCT_LANES) {
        float some[4];
        load_weights<D>(some, w, at + 4 * lane, k, vector);
        multiply_add<R>(acc, some, x, at + 4 * lane, k, vector);
    }
}

/* Row r of a tile; from c.m on there is none. */
template <unsigned R, bool CHOSEN>
__device__ inline unsigned tile_row(const product_call &c, unsigned tile, unsigned r)
{
    return CHOSEN && R > 1 ? c.choice.tiles[tile * R + r] : tile * R + r;
}

__device__ inline const uint8_t *chosen_weights(const product_call &c, unsigned row, unsigned part)
{
    const size_t id = (size_t)c.choice.ids[row];
    return gpu_global(static_cast<const uint8_t *>(c.choice.at[id * c.choice.stride + part]));
}

/* Adds a part's bias to output j of a row, where there is one. */
template <bool CHOSEN>
__device__ inline float with_bias(const product_call &c, unsigned p, unsigned row, float y, size_t j)
{
    const product_part &part = c.part[p];
    if (!part.bias) return y;
    const void *bias = part.bias;
    if (CHOSEN)
        bias = gpu_global(c.choice.bias_at[(size_t)c.choice.ids[row] * c.choice.stride + p]);
    return y + vector_at(bias, part.bias_dtype, j);
}

/* Block b of a call is tile b / blocks; its part has the weight rows of b % blocks. CHOSEN: there is a choice, with
 * tiles if R is more than 1. Shared memory: [chunk][R][PRODUCT_ROWS] floats. */
template <int D, unsigned R, bool CHOSEN>
__global__ void __launch_bounds__(PRODUCT_WARPS *GPU_WARP, 2)
    products(const __grid_constant__ product_call c)
{
    GPU_SHARED(float, sums);
    const unsigned tile = blockIdx.x / c.blocks, block = blockIdx.x % c.blocks;
    unsigned p = 0;
    while (p + 1 < c.n_parts && block >= c.part[p + 1].first_block) p++;
    const product_part &part = c.part[p];
    const unsigned leader = tile_row<R, CHOSEN>(c, tile, 0);
    if (CHOSEN && leader >= c.m) return;

    const unsigned warp = threadIdx.x / GPU_WARP, row = threadIdx.x % GPU_WARP / 4;
    const unsigned lane = threadIdx.x % 4, warps = blockDim.x / GPU_WARP;
    const size_t first = (size_t)(block - part.first_block) * PRODUCT_ROWS;
    const size_t j = first + row < part.n ? first + row : part.n - 1; /* none left: the last again */
    const uint8_t *w = CHOSEN ? chosen_weights(c, leader, p) : part.w;
    w += j * row_bytes<D>(c.k);
    const float *x[R];
#pragma unroll
    for (unsigned r = 0; r < R; r++) {
        const unsigned at = tile_row<R, CHOSEN>(c, tile, r);
        if (CHOSEN)
            x[r] = c.x + (at < c.m ? at : leader) / c.choice.sharing * c.ldx;
        else
            x[r] = c.x + (at < c.m ? at : c.m - 1) * c.ldx;
    }

    const unsigned chunks = (unsigned)((c.k + PRODUCT_CHUNK - 1) / PRODUCT_CHUNK);
    for (unsigned chunk = warp; chunk < chunks; chunk += warps) {
        const size_t from = (size_t)chunk * PRODUCT_CHUNK;
        const size_t to = c.k - from < PRODUCT_CHUNK ? c.k : from + PRODUCT_CHUNK;
        float acc[R][4] = {};
        dot_chunk<D, R>(acc, w, x, from, to, c.k, c.vector, lane);
#pragma unroll
        for (unsigned r = 0; r < R; r++) {
            const float sum = fold_lanes(acc[r]);
            if (lane == 0) sums[(chunk * R + r) * PRODUCT_ROWS + row] = sum;
        }
    }
    __syncthreads();

    for (unsigned i = threadIdx.x; i < R * PRODUCT_ROWS; i += blockDim.x) {
        const unsigned r = tile_row<R, CHOSEN>(c, tile, i / PRODUCT_ROWS);
        const size_t output = first + i % PRODUCT_ROWS;
        if (r >= c.m || output >= part.n) continue;
        float y = sums[i];
        for (unsigned chunk = 1; chunk < chunks; chunk++) y += sums[chunk * R * PRODUCT_ROWS + i];
        part.y[r * part.ldy + output] = with_bias<CHOSEN>(c, p, r, y, output);
    }
}

#endif
