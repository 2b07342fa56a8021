/* mxfp4.h - experts of MXFP4 as their checkpoints have them, brought into the blocks that kernels read. */
#ifndef CDZ_HOST_LOAD_MXFP4_H
#define CDZ_HOST_LOAD_MXFP4_H

#include "kernels.h"
#include "load/safetensors.h"

/* n_experts matrices (n, k), k a multiple of 32. */
typedef struct cdz_mxfp4 {
    const cdz_tensors *tensors;
    const cdz_tensor *blocks; /* bytes (experts, n, k / 32, 16) */
    const cdz_tensor *scales; /* bytes (experts, n, k / 32) */
    size_t n_experts, n, k;
    bool paired; /* rows alternate, a gate's and an up's: gate's come first in what is made */
} cdz_mxfp4;

/* out (n_experts): in the arena. */
cdz_status cdz_mxfp4_read(const cdz_mxfp4 *from, cdz_arena *arena, cdz_weight *out, cdz_error *err);

#endif
