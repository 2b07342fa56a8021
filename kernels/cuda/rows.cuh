/* rows.cuh - what treats every row of activations alone: norms, rotation, element by element
 * operations, gathering rows of a table.
 *
 * Every element is rounded as in ref/rows.h, every sum has the CPU's lanes and order: a row has the
 * CPU's bits. */
#ifndef CDZ_CUDA_ROWS_CUH
#define CDZ_CUDA_ROWS_CUH

#include "elements.cuh"

enum { ROW_THREADS = 256, SUM_LANES = 16, SUM_CHUNK = 1024 };

struct vector_view {
    const void *data;
    int dtype;
};

/* ---- sums of a row, by a block ---- */

/* 16 lanes at stride `step` in shared memory, folded 16 -> 8 -> 4 -> 1. */
__device__ inline float fold16(const float *s)
{
    float v[8];
    for (unsigned l = 0; l < 8; l++) v[l] = s[l] + s[l + 8];
    for (unsigned l = 0; l < 4; l++) v[l] += v[l + 4];
    return (v[0] + v[1]) + (v[2] + v[3]);
}

/* dot(x, x) in the order of a product: the block's threads are 16 lanes of as many chunks as fit, and
 * go on to later ones. Every thread gets it. `lanes` holds one float a thread. */
__device__ inline float sum_of_squares(const float *x, size_t n, float *lanes, float *result)
{
    const unsigned lane = threadIdx.x % SUM_LANES, at_once = blockDim.x / SUM_LANES;
    float sum = 0.0f;
    for (size_t wave = 0; wave * at_once * SUM_CHUNK < n; wave++) {
        const size_t from = (wave * at_once + threadIdx.x / SUM_LANES) * SUM_CHUNK;
        const size_t to = from + SUM_CHUNK < n ? from + SUM_CHUNK : n;
        float s = 0.0f;
        for (size_t k = from; k < to; k += SUM_LANES) {
            const float v = k + lane < n ? x[k + lane] : 0.0f;
            s = fmaf(v, v, s);
        }
        lanes[threadIdx.x] = s;
        __syncthreads();
        if (threadIdx.x == 0)
            for (unsigned c = 0; c < at_once; c++) {
                if ((wave * at_once + c) * SUM_CHUNK >= n) break;
                const float chunk = fold16(lanes + c * SUM_LANES);
                sum = wave + c == 0 ? chunk : sum + chunk;
            }
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = sum;
    __syncthreads();
    return *result;
}

/* 16 lanes over the whole row; every thread gets the sum. */
__device__ inline float sum_of(const float *x, size_t n, float *lanes, float *result)
{
    if (threadIdx.x < SUM_LANES) {
        float s = 0.0f;
        for (size_t i = threadIdx.x; i < n; i += SUM_LANES) s += x[i];
        lanes[threadIdx.x] = s;
    }
    __syncthreads();
    if (threadIdx.x == 0) *result = fold16(lanes);
    __syncthreads();
    return *result;
}

/* ---- norms: a block takes a row ---- */

__global__ void __launch_bounds__(ROW_THREADS)
    rmsnorm(row_view y, row_view x, size_t n, vector_view w, float eps, float offset)
{
    __shared__ float lanes[ROW_THREADS], result;
    const float *from = x.at + blockIdx.x * x.ld;
    float *to = y.at + blockIdx.x * y.ld;
    const float squares = sum_of_squares(from, n, lanes, &result);
    const float inverse = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = (from[i] * inverse) * (offset + vector_at(w.data, w.dtype, i));
}

/* Centred first, so that the squares do not cancel. */
__global__ void __launch_bounds__(ROW_THREADS)
    layernorm(row_view y, row_view x, size_t n, vector_view w, vector_view bias, float eps)
{
    __shared__ float lanes[ROW_THREADS], result;
    const float *from = x.at + blockIdx.x * x.ld;
    float *to = y.at + blockIdx.x * y.ld;
    const float mean = sum_of(from, n, lanes, &result) / (float)n;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i] - mean;
    __syncthreads();
    const float squares = sum_of_squares(to, n, lanes, &result);
    const float inverse = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        to[i] =
            (to[i] * inverse) * vector_at(w.data, w.dtype, i) + vector_at(bias.data, bias.dtype, i);
}

/* ---- rotation: a block takes a row, its threads pairs ---- */

struct rope_call {
    float *x; /* (m, n_heads * head_dim) */
    size_t ld, n_heads, head_dim, half;
    const uint32_t *positions; /* (m) */
    const float *inv_freq;     /* (half) */
    float scale;
    bool interleaved, regroup;
};

/* An angle's cosine and sine serve all heads. A regrouped pair is written where others are read from, so
 * the block then has a thread for each pair and waits between. */
__global__ void __launch_bounds__(CDZ_ROPE_REGROUP / 2) rotate(rope_call c)
{
    for (size_t base = 0; base < c.half; base += blockDim.x) {
        const size_t i = base + threadIdx.x;
        const bool mine = i < c.half;
        float cosine = 0.0f, sine = 0.0f;
        if (mine) cdz_cos_sin((float)c.positions[blockIdx.x] * c.inv_freq[i], &cosine, &sine);
        cosine *= c.scale;
        sine *= c.scale;
        for (size_t h = 0; h < c.n_heads; h++) {
            float *head = c.x + blockIdx.x * c.ld + h * c.head_dim;
            float u = 0.0f, v = 0.0f;
            if (mine) {
                u = c.interleaved ? head[2 * i] : head[i];
                v = c.interleaved ? head[2 * i + 1] : head[c.half + i];
            }
            if (c.regroup) __syncthreads();
            if (!mine) continue;
            const bool pairs = c.interleaved && !c.regroup;
            head[pairs ? 2 * i : i] = u * cosine - v * sine;
            head[pairs ? 2 * i + 1 : c.half + i] = v * cosine + u * sine;
        }
    }
}

/* ---- element by element ---- */

enum row_operation {
    ROW_SILU_MUL,
    ROW_CLAMPED_MUL,
    ROW_ACTIVATE,
    ROW_ADD,
    ROW_SCALE,
    ROW_SOFT_CAP,
    ROW_XIELU
};

struct element_call {
    float *y;           /* (m, n), stride ldy */
    const float *a, *b; /* stride ld; NULL where not used */
    size_t ldy, ld, m, n;
    float factor;
    int curve;
    cdz_xielu xielu;
};

__device__ inline float curve_of(int curve, float x)
{
    switch (curve) {
    case CDZ_CURVE_GELU: return cdz_gelu(x);
    case CDZ_CURVE_GELU_TANH: return cdz_gelu_tanh(x);
    case CDZ_CURVE_RELU: return x < 0.0f ? 0.0f : x;
    case CDZ_CURVE_SIGMOID: return cdz_sigmoid(x);
    default: return x / (1.0f + cdz_exp(-x));
    }
}

template <int O> __global__ void __launch_bounds__(ROW_THREADS) each_element(element_call c)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x, all = c.m * c.n;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += stride) {
        const size_t row = i / c.n, column = i % c.n;
        float *y = c.y + row * c.ldy + column;
        const float *a = c.a + row * c.ld + column;
        if (O == ROW_SILU_MUL)
            *y = *a / (1.0f + cdz_exp(-*a)) * c.b[row * c.ld + column];
        else if (O == ROW_CLAMPED_MUL)
            *y = cdz_clamped_product(*a, c.b[row * c.ld + column], CDZ_CLAMP_AT, CDZ_CLAMP_SLOPE);
        else if (O == ROW_ACTIVATE)
            *y = c.b ? curve_of(c.curve, *a) * c.b[row * c.ld + column] : curve_of(c.curve, *a);
        else if (O == ROW_XIELU)
            *y = cdz_xielu_of(*a, c.xielu.above, c.xielu.below, c.xielu.both);
        else if (O == ROW_ADD)
            *y += *a;
        else if (O == ROW_SCALE)
            *y *= c.factor;
        else
            *y = cdz_soft_cap(*y, c.factor);
    }
}

/* y[to[r]] += factors[r] * x[r] */
__global__ void __launch_bounds__(ROW_THREADS)
    add_scaled_rows(row_view y, const int32_t *to, const float *factors, row_view x, size_t n)
{
    float *sum = y.at + (size_t)to[blockIdx.x] * y.ld;
    const float *from = x.at + blockIdx.x * x.ld, factor = factors[blockIdx.x];
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) sum[i] += factor * from[i];
}

/* y (m, n) += bias */
__global__ void __launch_bounds__(ROW_THREADS)
    add_bias(row_view y, size_t m, size_t n, vector_view bias)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += stride)
        y.at[i / n * y.ld + i % n] += vector_at(bias.data, bias.dtype, i % n);
}

/* ---- rows of a table, widened ---- */

/* Block r: y[r] = table[ids[r]]; ids NULL: rows as they come. */
template <int D>
__global__ void __launch_bounds__(ROW_THREADS)
    gather_rows(row_view y, const uint8_t *table, const int32_t *ids, size_t n)
{
    const size_t id = ids ? (size_t)ids[blockIdx.x] : blockIdx.x;
    const uint8_t *row = table + id * row_bytes<D>(n);
    float *to = y.at + blockIdx.x * y.ld;
    if constexpr (D < CDZ_N_PLAIN) {
        for (size_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = load1<D>(row, i);
    } else {
        for (size_t i = threadIdx.x; 4 * i < n; i += blockDim.x) {
            float four[4];
            load4<D>(four, row, i);
            for (unsigned j = 0; j < 4; j++)
                if (D != CDZ_FP8 || 4 * i + j < n) to[4 * i + j] = four[j];
        }
    }
}

/* ---- rounding to 16 bits ---- */

/* (m, n) of a plain type, from floats; rows of y side by side. */
__global__ void __launch_bounds__(ROW_THREADS)
    round_rows(uint16_t *y, row_view x, size_t m, size_t n, int dtype)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < m * n; i += stride) {
        const float v = x.at[i / n * x.ld + i % n];
        y[i] = dtype == CDZ_F16 ? round_f16(v) : round_bf16(v);
    }
}

#endif
