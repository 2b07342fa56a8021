/* avx2_set.c - the kernel sets for AVX2, FMA and F16C, with AVX-VNNI and without: their tables, and the row operations
 * vectorised. */
#include "cpu/avx2.h"
#include "ref/int8_rows.h"
#include "ref/recurrent.h"
#include "ref/rows.h"

/* All but the tiles of products with int8 activations. */
#define EVERYTHING_ELSE                                                                            \
    .name = "avx2",                                                                                \
    .dot = {cdz_avx2_dot_f32, cdz_avx2_dot_f16, cdz_avx2_dot_bf16,                                 \
            CDZ_BLOCK_KERNELS(cdz_avx2_dot)},                                                      \
    .n_tile = 16, .heights = {6, 4, 2},                                                            \
    .lane_min_rows =                                                                               \
        {[CDZ_F32] = 24, [CDZ_F16] = 24, [CDZ_BF16] = 24, CDZ_BLOCK_TYPES(CDZ_TYPE_NUMBER, 8)},    \
    .lane_min_pairs = 33,                                                                          \
    .pack_weights = {cdz_avx2_pack_f32, cdz_avx2_pack_f16, cdz_avx2_pack_bf16},                    \
    .pack_rows = cdz_avx2_pack_rows, .lane_tile = cdz_avx2_lane_tile,                              \
    .dot_pairs = cdz_avx2_dot_pairs, .lane_tile_pairs = cdz_avx2_lane_tile_pairs,                  \
    .round_bf16 = round_bf16, .int8_heights = {48, 24, 16, 12, 8, 4, 2, 1}, .int8_full = 4,        \
    .int8_spare = 7, .to_panel = cdz_avx2_to_panel, .quantise_x = quantise_x,                      \
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
    .attend_packed = cdz_avx2_attend_packed, .attend_widens = {[CDZ_Q8_0] = 9, [CDZ_Q4_0] = 5},

#if defined(CDZ_SET_AVX2)
const cdz_kernel_set cdz_avx2_set = {.int8_tile = CDZ_INT8_TILES(cdz_avx2_int8), EVERYTHING_ELSE};
#endif
#if defined(CDZ_SET_AVXVNNI)
const cdz_kernel_set cdz_avx2_vnni_set = {.int8_tile = CDZ_INT8_TILES(cdz_avx2_vnni_int8),
                                          EVERYTHING_ELSE};
#endif
