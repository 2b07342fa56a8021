// limits.cu - what the card itself gives: bytes a second of a plain copy and of a plain read, and the rate of cuBLAS on the
// matrices of known models' layers in bf16. One JSON line each. Neither Cadenza nor its backend takes part.
//
//   nvcc -O3 -arch=native bench/cuda/limits.cu -lcublas -o limits && ./limits
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "limits: %s: %s\n", #call, cudaGetErrorString(error_));                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

namespace {

// Milliseconds of a few runs between two events; the best of seven, after one that is not counted.
template <typename Run> float best_ms(int repeats, Run run)
{
    cudaEvent_t start, end;
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&end));
    float best = 1e30f;
    for (int i = 0; i < 8; i++) {
        MUST(cudaEventRecord(start));
        for (int k = 0; k < repeats; k++) run();
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        float ms;
        MUST(cudaEventElapsedTime(&ms, start, end));
        if (i > 0 && ms / (float)repeats < best) best = ms / (float)repeats;
    }
    MUST(cudaGetLastError());
    MUST(cudaEventDestroy(start));
    MUST(cudaEventDestroy(end));
    return best;
}

// Pseudo-random words: zeros are read and multiplied faster than numbers are.
__global__ void fill(uint32_t *x, size_t n, uint32_t mask, uint32_t set)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (size_t)blockDim.x) {
        uint32_t v = (uint32_t)i * 2654435761u;
        v ^= v >> 15;
        x[i] = ((v * 2246822519u) & mask) | set;
    }
}

__global__ void copy_words(uint4 *to, const uint4 *from, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (size_t)blockDim.x)
        to[i] = from[i];
}

// Sums what it reads, four loads on their way at a time, so that nothing can be left out.
__global__ void read_words(uint32_t *sums, const uint4 *from, size_t n)
{
    uint32_t sum = 0;
    const size_t step = gridDim.x * (size_t)blockDim.x;
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        const uint4 a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
        sum += (a.x ^ a.y ^ a.z ^ a.w) + (b.x ^ b.y ^ b.z ^ b.w) + (c.x ^ c.y ^ c.z ^ c.w) +
               (d.x ^ d.y ^ d.z ^ d.w);
    }
    for (; i < n; i += step) sum += from[i].x ^ from[i].y ^ from[i].z ^ from[i].w;
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

void bandwidth(int multiprocessors)
{
    size_t left, total;
    MUST(cudaMemGetInfo(&left, &total));
    const size_t bytes = left / 4 < ((size_t)4 << 30) ? left / 4 & ~(size_t)15 : (size_t)4 << 30;
    uint4 *from, *to;
    uint32_t *sums;
    const int blocks = multiprocessors * 8, threads = 256;
    MUST(cudaMalloc(&from, bytes));
    MUST(cudaMalloc(&to, bytes));
    MUST(cudaMalloc(&sums, (size_t)blocks * threads * sizeof *sums));
    fill<<<blocks, threads>>>((uint32_t *)from, bytes / 4, 0xffffffffu, 0);
    const float copied = best_ms(4, [&] { copy_words<<<blocks, threads>>>(to, from, bytes / 16); });
    const float read = best_ms(4, [&] { read_words<<<blocks, threads>>>(sums, from, bytes / 16); });
    printf("{\"work\": \"bandwidth\", \"bytes\": %zu, \"copy\": %.0f, \"read\": %.0f}\n", bytes,
           2.0 * (double)bytes / (copied * 1e-3), (double)bytes / (read * 1e-3));
    MUST(cudaFree(from));
    MUST(cudaFree(to));
    MUST(cudaFree(sums));
}

struct shape {
    const char *name;
    int layers, hidden, heads, kv_heads, dim, inner;
};
const shape shapes[] = {
    {"0.5B", 24, 896, 14, 2, 64, 4864},
    {"7B", 28, 3584, 28, 4, 128, 18944},
    {"8B", 32, 4096, 32, 8, 128, 14336},
};

// The seven products of a layer, for `rows` positions, by all layers.
void products(cublasHandle_t blas, const shape &s, int rows, __nv_bfloat16 *x, __nv_bfloat16 *w,
              __nv_bfloat16 *y)
{
    const int wide = s.heads * s.dim, narrow = s.kv_heads * s.dim;
    const int sizes[][2] = {{wide, s.hidden},    {narrow, s.hidden},  {narrow, s.hidden}, {s.hidden, wide},
                            {s.inner, s.hidden}, {s.inner, s.hidden}, {s.hidden, s.inner}};
    const float one = 1.0f, zero = 0.0f;
    double operations = 0;
    for (const auto &size : sizes) operations += 2.0 * size[0] * size[1] * rows * s.layers;
    const float ms = best_ms(1, [&] {
        for (int layer = 0; layer < s.layers; layer++)
            for (const auto &size : sizes) {
                const cublasStatus_t status =
                    cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, size[0], rows, size[1], &one, w, CUDA_R_16BF, size[1], x,
                                 CUDA_R_16BF, size[1], &zero, y, CUDA_R_16BF, size[0], CUBLAS_COMPUTE_32F,
                                 CUBLAS_GEMM_DEFAULT);
                if (status != CUBLAS_STATUS_SUCCESS) {
                    fprintf(stderr, "limits: cublasGemmEx: status %d\n", (int)status);
                    exit(1);
                }
            }
    });
    printf("{\"work\": \"cublas\", \"shape\": \"%s\", \"length\": %d, \"ms\": %.3f, \"flops\": %.4g}\n", s.name, rows,
           ms, operations / (ms * 1e-3));
    fflush(stdout);
}

} // namespace

int main()
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        printf("not run: there is no CUDA device\n");
        return 77;
    }
    cudaDeviceProp device;
    MUST(cudaGetDeviceProperties(&device, 0));
    printf("{\"work\": \"card\", \"name\": \"%s\", \"capability\": \"%d.%d\", \"multiprocessors\": %d, "
           "\"bytes\": %zu, \"l2\": %d}\n",
           device.name, device.major, device.minor, device.multiProcessorCount, device.totalGlobalMem,
           device.l2CacheSize);
    bandwidth(device.multiProcessorCount);
    const size_t most = (size_t)4096 * 18944;
    __nv_bfloat16 *x, *w, *y;
    MUST(cudaMalloc(&x, most * sizeof *x));
    MUST(cudaMalloc(&w, most * sizeof *w));
    MUST(cudaMalloc(&y, most * sizeof *y));
    // Numbers between 2^-8 and 2^-6 of either sign.
    fill<<<device.multiProcessorCount * 8, 256>>>((uint32_t *)x, most / 2, 0x80ff80ffu, 0x3b803b80u);
    fill<<<device.multiProcessorCount * 8, 256>>>((uint32_t *)w, most / 2, 0x80ff80ffu, 0x3b803b80u);
    cublasHandle_t blas;
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "limits: cuBLAS cannot be opened\n");
        return 1;
    }
    for (const shape &s : shapes)
        for (const int rows : {512, 4096}) products(blas, s, rows, x, w, y);
    cublasDestroy(blas);
    return 0;
}
