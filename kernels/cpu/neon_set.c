/* neon_set.c - the kernel sets for arm64, with the products of four bytes, with those of matrices of bytes, and without: their
 * tables, and the row operations vectorised. The other kernels are those of AVX2 on NEON's registers (avx2_on_neon.h). */
#include "cpu/avx2.h"
#include "ref/int8_rows.h"
#include "ref/recurrent.h"
#include "ref/rows.h"

/* Of blocks what was measured of AVX2, whose kernels they are. */
#define LANE_MIN_ROWS                                                                              \
    {                                                                                              \
        [CDZ_F32] = 33, [CDZ_F16] = 33, [CDZ_BF16] = 33, CDZ_BLOCK_TYPES(CDZ_TYPE_NUMBER, 8)       \
    }

/* All but the products with activations in int8. Those of bf16 pairs have no lane passes: dot does them. */
#define EVERYTHING_ELSE                                                                            \
    .name = "neon", .lane_min_rows = LANE_MIN_ROWS, .dot_pairs = cdz_neon_dot_pairs,               \
    .quantise_x = quantise_x,                                                                      \
    .widen = {widen_f32, widen_f16, widen_bf16, CDZ_BLOCK_KERNELS(cdz_avx2_widen)},                \
    CDZ_AVX2_KERNELS, CDZ_ROW_OPERATIONS, .conv = conv, .recur = recur,

const cdz_kernel_set cdz_neon_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_avx2_int8), .int8_heights = {4, 2, 1}, EVERYTHING_ELSE};
const cdz_kernel_set cdz_neon_dotprod_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_neon_dotprod), .int8_heights = {4, 2, 1}, EVERYTHING_ELSE};
const cdz_kernel_set cdz_neon_i8mm_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_neon_i8mm), .int8_heights = {8, 4, 2, 1}, EVERYTHING_ELSE};
