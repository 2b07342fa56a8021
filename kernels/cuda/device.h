/* device.h - the language that kernels are written in: CUDA's own when nvcc reads them, and
 * otherwise tests/cuda/emulate.h, which gives the same words to a plain C++ compiler.
 *
 * Kernels keep to the words listed there: grids and blocks of one dimension, shared memory, whole
 * barriers, shuffles of full warps. Nothing is contracted to a fused multiply-add unless fmaf is
 * written (-fmad=false), as everywhere in kernels/. */
#ifndef CDZ_CUDA_DEVICE_H
#define CDZ_CUDA_DEVICE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
/* The launch's dynamic shared memory as an array of `type`; 16-byte aligned. */
#define GPU_SHARED(type, name)                                                                     \
    extern __shared__ __align__(16) unsigned char gpu_shared_bytes[];                              \
    type *const name = reinterpret_cast<type *>(gpu_shared_bytes)
/* An address that was itself read from memory, which is not known to be the device's: loads through it would ask each time. */
template <typename T> __device__ inline T *gpu_global(T *at)
{
    __builtin_assume(__isGlobal(at));
    return at;
}
#else
#include "emulate.h"
#endif

#define CDZ_SCALAR static __host__ __device__ inline

extern "C" {
#include "backend_abi.h"
}
#include "ref/levels.h"
#include "ref/rope_math.h"
#include "ref/scalar_math.h"

enum { GPU_WARP = 32 };
#define GPU_ALL 0xffffffffu

#endif
