/* avx2_set.c - the kernel sets for AVX2, FMA and F16C, with AVX-VNNI and without: their tables, and the row operations
 * vectorised. */
#include "cpu/avx2.h"
#include "ref/int8_rows.h"
#include "ref/recurrent.h"
#include "ref/rows.h"

/* All but the tiles of products with int8 activations. */
#define EVERYTHING_ELSE                                                                            \
    .name = "avx2",                                                                                \
    .lane_min_rows =                                                                               \
        {[CDZ_F32] = 24, [CDZ_F16] = 24, [CDZ_BF16] = 24, CDZ_BLOCK_TYPES(CDZ_TYPE_NUMBER, 8)},    \
    .lane_min_pairs = 33, .dot_pairs = cdz_avx2_dot_pairs,                                         \
    .lane_tile_pairs = cdz_avx2_lane_tile_pairs, .quantise_x = quantise_x,                         \
    .widen = {widen_f32, widen_f16, widen_bf16, CDZ_BLOCK_KERNELS(cdz_avx2_widen)},                \
    CDZ_AVX2_KERNELS, CDZ_ROW_OPERATIONS, .conv = conv, .recur = recur,                            \
    .attend_widens = {[CDZ_Q8_0] = 9, [CDZ_Q4_0] = 5},

#if defined(CDZ_SET_AVX2)
const cdz_kernel_set cdz_avx2_set = {CDZ_AVX2_INT8(cdz_avx2_int8), EVERYTHING_ELSE};
#endif
#if defined(CDZ_SET_AVXVNNI)
const cdz_kernel_set cdz_avx2_vnni_set = {CDZ_AVX2_INT8(cdz_avx2_vnni_int8), EVERYTHING_ELSE};
#endif
