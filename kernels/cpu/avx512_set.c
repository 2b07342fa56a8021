/* avx512_set.c - the kernel sets for AVX-512 (F, VL, BW, DQ), with VNNI, with it and BF16, and without: their
 * tables, and the row operations vectorised. */
#include "cpu/amx.h"
#include "cpu/avx512.h"
#include "cpu/int8_types.h"
#include "ref/int8_rows.h"
#include "ref/recurrent.h"
#include "ref/rows.h"

/* Measured, like the other sets', beside dot. */
#define LANE_MIN_ROWS                                                                              \
    {                                                                                              \
        [CDZ_F32] = 65, [CDZ_F16] = 65, [CDZ_BF16] = 65, [CDZ_Q8_0] = 32, [CDZ_Q4_0] = 24,         \
        [CDZ_Q4_1] = 20, [CDZ_Q5_0] = 16, [CDZ_Q5_1] = 16, [CDZ_Q2_K] = 16, [CDZ_Q3_K] = 16,       \
        [CDZ_Q4_K] = 16, [CDZ_Q5_K] = 16, [CDZ_Q6_K] = 16, [CDZ_NF4] = 32, [CDZ_FP4] = 32,         \
        [CDZ_INT8] = 24, [CDZ_MXFP4] = 65, [CDZ_IQ4_NL] = 65, [CDZ_IQ4_XS] = 48, [CDZ_FP8] = 20    \
    }

/* All but the products with activations in int8 and bf16. */
#define EVERYTHING_ELSE                                                                            \
    .name = "avx512",                                                                              \
    .dot = {cdz_avx512_dot_f32, cdz_avx512_dot_f16, cdz_avx512_dot_bf16,                           \
            CDZ_BLOCK_KERNELS(cdz_avx512_dot)},                                                    \
    .n_tile = 32, .heights = {12, 8, 4}, .lane_min_rows = LANE_MIN_ROWS, .lane_min_pairs = 65,     \
    .pack_weights = {cdz_avx512_pack_f32, cdz_avx512_pack_f16, cdz_avx512_pack_bf16},              \
    .pack_rows = cdz_avx512_pack_rows, .lane_tile = cdz_avx512_lane_tile,                          \
    .quantise_x = quantise_x, .to_panel = cdz_avx2_to_panel,                                       \
    .widen = {widen_f32, widen_f16, widen_bf16, CDZ_BLOCK_KERNELS(cdz_avx512_widen)},              \
    CDZ_ROW_OPERATIONS, .conv = conv, .recur = recur,                                              \
    .attend = {[CDZ_F32] = cdz_avx512_attend,                                                      \
               [CDZ_F16] = cdz_avx512_attend_f16,                                                  \
               [CDZ_BF16] = cdz_avx512_attend_bf16,                                                \
               [CDZ_Q8_0] = cdz_avx512_attend_q8_0,                                                \
               [CDZ_Q4_0] = cdz_avx512_attend_q4_0},                                               \
    .attend_packed = cdz_avx512_attend_packed,                                                     \
    .attend_widens = {[CDZ_Q8_0] = 13, [CDZ_Q4_0] = 13},

#define PAIRS(with)                                                                                \
    .dot_pairs = cdz_avx512_dot_##with, .lane_tile_pairs = cdz_avx512_lane_tile_##with

#if defined(CDZ_SET_AVX512)
const cdz_kernel_set cdz_avx512_set = {CDZ_AVX2_INT8(cdz_avx2_int8), PAIRS(pairs), EVERYTHING_ELSE};
#endif
#if defined(CDZ_SET_VNNI) || defined(CDZ_SET_AMX) || defined(CDZ_SET_BF16)
/* Tall tiles take activations 128 too great. */
static void quantise_for_vnni(cdz_x8 *tile, size_t height, size_t row, const float *x, size_t blocks)
{
    quantise_x(tile + row, height, x, blocks);
    for (size_t b = 0; height >= CDZ_VNNI_TALL && b < blocks; b++) {
        __m256i *q = (__m256i *)(void *)tile[b * height + row].q;
        _mm256_storeu_si256(q, _mm256_xor_si256(_mm256_loadu_si256(q), _mm256_set1_epi8(-128)));
    }
}

#define BY_VNNI                                                                                    \
    .int8_tile = CDZ_INT8_TILES(cdz_vnni_int8), .int8_heights = {96, 48, 24, 12, 8, 4, 2, 1},      \
    .int8_full = 12, .int8_spare = 12, .quantise_in_tile = quantise_for_vnni
#endif

#if defined(CDZ_SET_VNNI)
const cdz_kernel_set cdz_avx512_vnni_set = {BY_VNNI, PAIRS(pairs), EVERYTHING_ELSE};
#endif
#if defined(CDZ_SET_AMX)
static void quantise_in_tile(cdz_x8 *tile, size_t height, size_t row, const float *x, size_t blocks)
{
    if (height < CDZ_AMX_TALL) {
        quantise_for_vnni(tile, height, row, x, blocks);
        return;
    }
    for (size_t b = 0; b < blocks; b++) {
        const cdz_x8_apart to = cdz_x8_apart_at(tile, height, b, row);
        cdz_x8 block = {.d = 0.0f};
        quantise_x(&block, 1, x + b * CDZ_X8, 1);
        memcpy(to.q, block.q, CDZ_X8);
        *to.d = block.d;
        *to.s = block.s;
        *to.both = both_sums(&block);
    }
}

const cdz_kernel_set cdz_amx_set = {.int8_tile = CDZ_INT8_TILES(cdz_amx_int8),
                                    .int8_heights = {64, 32, 24, 12, 8, 4, 2, 1},
                                    .int8_full = 12,
                                    .int8_spare = 4,
                                    .quantise_in_tile = quantise_in_tile,
                                    .parts_product = cdz_amx_parts_product,
                                    .pack_parts = cdz_amx_pack_parts,
                                    PAIRS(bf16_pairs),
                                    EVERYTHING_ELSE};
#endif
#if defined(CDZ_SET_BF16)
const cdz_kernel_set cdz_avx512_bf16_set = {BY_VNNI, PAIRS(bf16_pairs), EVERYTHING_ELSE};
#endif
