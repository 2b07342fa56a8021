/* fp8.h - weights of float8_e4m3fn with factors beside them, brought into the blocks that kernels read. */
#ifndef CDZ_HOST_LOAD_FP8_H
#define CDZ_HOST_LOAD_FP8_H

#include "kernels.h"
#include "load/safetensors.h"

/* What reading one model's weights works on. */
typedef struct cdz_fp8 {
    const cdz_tensors *tensors;
    bool *used; /* by tensor: factors that belong to a weight are marked */
    cdz_arena *arena;
    size_t block_rows,
        block_columns; /* that share a factor, where it is neither a row's nor the tensor's */
    cdz_error *err;
} cdz_fp8;

bool cdz_fp8_is(const cdz_tensor *weight);

/* The weight of n rows of k as blocks of CDZ_FP8 in the arena; as float32 of the same numbers where blocks would not end with the
 * columns that share a factor. */
cdz_status cdz_fp8_read(const cdz_fp8 *f, const cdz_tensor *weight, size_t n, size_t k,
                        cdz_weight *out);

/* The same of a tensor (parts, n, k), as parts of one each; factors are of all, or have as many parts. */
cdz_status cdz_fp8_read_stack(const cdz_fp8 *f, const cdz_tensor *weight, size_t parts, size_t n,
                              size_t k, cdz_weight *out);

/* from, of CDZ_FP8, transposed, to from->k rows of from->n. False: its factors do not allow that. */
bool cdz_fp8_turn(const cdz_weight *from, void *to);

#endif
