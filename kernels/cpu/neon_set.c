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
    .name = "neon",                                                                                \
    .dot = {cdz_avx2_dot_f32, cdz_avx2_dot_f16, cdz_avx2_dot_bf16,                                 \
            CDZ_BLOCK_KERNELS(cdz_avx2_dot)},                                                      \
    .n_tile = 16, .heights = {6, 4, 2}, .lane_min_rows = LANE_MIN_ROWS,                            \
    .pack_weights = {cdz_avx2_pack_f32, cdz_avx2_pack_f16, cdz_avx2_pack_bf16},                    \
    .pack_rows = cdz_avx2_pack_rows, .lane_tile = cdz_avx2_lane_tile,                              \
    .dot_pairs = cdz_neon_dot_pairs, .round_bf16 = round_bf16, .to_panel = cdz_avx2_to_panel,      \
    .quantise_x = quantise_x,                                                                      \
    .widen = {widen_f32, widen_f16, widen_bf16, CDZ_BLOCK_KERNELS(cdz_avx2_widen)}, .add = add,    \
    .scale_norm = scale_norm, .silu_mul = silu_mul, .clamped_mul = clamped_mul, .xielu = xielu,    \
    .activate = {gelu, gelu_tanh, relu, silu, sigmoid}, .mul = mul, .scale = scale,                \
    .add_scaled = add_scaled, .soft_cap = soft_cap, .subtract = subtract,                          \
    .scale_shift = scale_shift, .sum = sum, .rotate = rotate, .rotate_pairs = rotate_pairs,        \
    .conv = conv, .recur = recur,                                                                  \
    .attend = {[CDZ_F32] = cdz_avx2_attend,                                                        \
               [CDZ_F16] = cdz_avx2_attend_f16,                                                    \
               [CDZ_BF16] = cdz_avx2_attend_bf16,                                                  \
               [CDZ_Q8_0] = cdz_avx2_attend_q8_0,                                                  \
               [CDZ_Q4_0] = cdz_avx2_attend_q4_0},                                                 \
    .attend_packed = cdz_avx2_attend_packed,

const cdz_kernel_set cdz_neon_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_avx2_int8), .int8_heights = {4, 2, 1}, EVERYTHING_ELSE};
const cdz_kernel_set cdz_neon_dotprod_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_neon_dotprod), .int8_heights = {4, 2, 1}, EVERYTHING_ELSE};
const cdz_kernel_set cdz_neon_i8mm_set = {
    .int8_tile = CDZ_INT8_TILES(cdz_neon_i8mm), .int8_heights = {8, 4, 2, 1}, EVERYTHING_ELSE};
