/* relative.h - addends to attention's scores by distance: a table over distances, made from the learned one over buckets of
 * distances (t5), or by slopes (ALiBi), as far as sequences have come to reach. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_RELATIVE_H
#define CDZ_HOST_RUN_PASS_RELATIVE_H

#include "base/error.h"
#include "load/arch.h"

typedef struct cdz_relative {
    float *table; /* (n, n_heads, stride), distance 0 at `zero`; NULL: not made yet */
    uint32_t n;   /* one for all layers or one for each */
    size_t stride, zero;
    uint32_t reach; /* distances below this are in the table */
} cdz_relative;

/* Makes the tables good for sequences of n positions. learned: (buckets.n, n_heads) of each, unless arch has slopes. both_ways: a row may look ahead. */
cdz_status cdz_relative_reach(cdz_relative *relative, cdz_backend *backend, const cdz_arch *arch,
                              const cdz_weight *learned, bool both_ways, uint32_t n, cdz_error *err);
void cdz_relative_free(cdz_relative *relative, cdz_backend *backend); /* zeroed is fine */
void cdz_relative_apply(const cdz_relative *relative, uint32_t layer, cdz_attention *how);

/* The bucket of a distance, key position minus query position: T5Attention._relative_position_bucket. */
uint32_t cdz_relative_bucket(const cdz_arch *arch, bool both_ways, int64_t distance);

#endif
