/* bnb.h - weights as bitsandbytes stores them in a safetensors file: 4 bits (nf4, fp4) with their
 * factors beside them, perhaps quantised again, and 8 bits with a factor a row. */
#ifndef CDZ_HOST_LOAD_BNB_H
#define CDZ_HOST_LOAD_BNB_H

#include "kernels.h"
#include "load/safetensors.h"

/* What reading one model's weights works on. */
typedef struct cdz_bnb {
    const cdz_tensors *tensors;
    bool *used; /* by tensor: those that belong to a weight are marked */
    cdz_arena *arena;
    cdz_error *err;
} cdz_bnb;

/* Is the tensor such a weight? By the names beside its own. */
bool cdz_bnb_is(const cdz_tensors *tensors, const cdz_tensor *weight);

/* The weight of n rows of k as blocks of CDZ_NF4, CDZ_FP4 or CDZ_INT8 in the arena; as float32 of
 * the same numbers where its blocks do not end with its rows. */
cdz_status cdz_bnb_read(const cdz_bnb *b, const cdz_tensor *weight, size_t n, size_t k,
                        cdz_weight *out);

#endif
