/* emulate.h - CUDA's execution model for a plain C++ compiler: enough of it to run kernels/cuda on a
 * machine without a device, and to say where a kernel is wrong.
 *
 * The blocks of a launch run one after the other; the threads of a block are fibres, each of which runs
 * until a barrier or a shuffle. __shared__ variables are static ones, which is right as long as one
 * block runs at a time: launches of a process take turns. */
#ifndef EMULATE_H
#define EMULATE_H

#include <functional>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __shared__      static
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct emu_index {
    unsigned x;
};
extern emu_index threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

void emu_barrier(const char *file, int line);
#define __syncthreads() emu_barrier(__FILE__, __LINE__)

/* What the lane `from` of this warp hands over; all lanes of the warp take part. */
uint64_t emu_exchange(unsigned mask, uint64_t value, unsigned from, const char *file, int line);

template <typename T>
T emu_shuffle(unsigned mask, T value, unsigned from, const char *file, int line)
{
    static_assert(sizeof(T) <= sizeof(uint64_t), "too large for a shuffle");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emu_exchange(mask, bits, from, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define __shfl_sync(mask, value, lane)                                                             \
    emu_shuffle(mask, value, (unsigned)(lane) % 32u, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                                         \
    emu_shuffle(mask, value, (threadIdx.x % 32u) ^ (unsigned)(bits), __FILE__, __LINE__)
#define __syncwarp() ((void)emu_exchange(0xffffffffu, 0, threadIdx.x % 32u, __FILE__, __LINE__))

template <typename T> T __ldg(const T *at)
{
    return *at;
}
template <typename T> T __ldcs(const T *at)
{
    return *at;
}

template <typename T> T *gpu_global(T *at)
{
    return at;
}

void *emu_shared();
#define GPU_SHARED(type, name) type *const name = static_cast<type *>(emu_shared())

/* Runs a launch; NULL, or a sentence that names the kernel, the block, the thread and what it did. It
 * stays until the next launch of this thread. */
const char *emu_launch(const char *name, size_t blocks, size_t threads, size_t shared,
                       const std::function<void()> &body);

/* Memory with a page that may not be touched before it and one after it. A launch that goes there is ended
 * with a sentence. */
void *emu_alloc(size_t bytes);
bool emu_free(void *memory); /* false: not one of ours */

#endif
