/* avx2_on_neon.h - AVX2's instructions on arm64, each by the name that x86 gives it: eight lanes are two NEON registers. With it
 * the sources avx2_*.c are the NEON set too: one text for both, and the same bits. Multiply-adds round once, maxima and minima
 * give the second operand for NaN, conversions of float16 are exact. Only what the kernels use is here, and of an instruction
 * only how they use it.
 *
 * Shifts take any count: the kernels' counts are constants once their loops are unrolled, and the compiler finds the immediate. */
#ifndef CDZ_CPU_AVX2_ON_NEON_H
#define CDZ_CPU_AVX2_ON_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#define CDZ_NEON static inline __attribute__((always_inline))

typedef float32x4_t __m128;
typedef int32x4_t __m128i;
typedef struct __m256 {
    float32x4_t low, high;
} __m256;
typedef struct __m256i {
    int32x4_t low, high;
} __m256i;

enum { _CMP_LT_OQ = 17, _MM_HINT_T1 = 2, _MM_HINT_T0 = 3 };
#define _mm_prefetch(at, hint) __builtin_prefetch((at), 0, (hint))

/* ---- how four lanes are looked at ---- */

CDZ_NEON int8x16_t cdz_bytes(__m128i v)
{
    return vreinterpretq_s8_s32(v);
}

CDZ_NEON int16x8_t cdz_halves(__m128i v)
{
    return vreinterpretq_s16_s32(v);
}

CDZ_NEON uint32x4_t cdz_words(__m128i v)
{
    return vreinterpretq_u32_s32(v);
}

CDZ_NEON __m128i cdz_of_bytes(int8x16_t v)
{
    return vreinterpretq_s32_s8(v);
}

CDZ_NEON __m128i cdz_of_halves(int16x8_t v)
{
    return vreinterpretq_s32_s16(v);
}

CDZ_NEON __m128i cdz_of_words(uint32x4_t v)
{
    return vreinterpretq_s32_u32(v);
}

/* Unsigned lanes shifted: left by a positive count, right by a negative one. */
CDZ_NEON __m128i cdz_shift_words(__m128i v, int by)
{
    return cdz_of_words(vshlq_u32(cdz_words(v), vdupq_n_s32(by)));
}

CDZ_NEON __m128i cdz_shift_halves(__m128i v, int by)
{
    return vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(v), vdupq_n_s16((int16_t)by)));
}

CDZ_NEON float32x4_t cdz_larger(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

CDZ_NEON float32x4_t cdz_smaller(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

/* yes where the sign of mask is set, else no. */
CDZ_NEON float32x4_t cdz_choose(float32x4_t no, float32x4_t yes, float32x4_t mask)
{
    return vbslq_f32(vcltq_s32(vreinterpretq_s32_f32(mask), vdupq_n_s32(0)), yes, no);
}

/* ---- eight floats ---- */

CDZ_NEON __m256 _mm256_set1_ps(float x)
{
    return (__m256){vdupq_n_f32(x), vdupq_n_f32(x)};
}

CDZ_NEON __m256 _mm256_setzero_ps(void)
{
    return _mm256_set1_ps(0.0f);
}

CDZ_NEON __m256 _mm256_loadu_ps(const float *at)
{
    return (__m256){vld1q_f32(at), vld1q_f32(at + 4)};
}

CDZ_NEON __m256 _mm256_load_ps(const float *at)
{
    return _mm256_loadu_ps(at);
}

CDZ_NEON __m256 _mm256_broadcast_ss(const float *at)
{
    return (__m256){vld1q_dup_f32(at), vld1q_dup_f32(at)};
}

CDZ_NEON void _mm256_storeu_ps(float *at, __m256 v)
{
    vst1q_f32(at, v.low);
    vst1q_f32(at + 4, v.high);
}

CDZ_NEON void _mm256_store_ps(float *at, __m256 v)
{
    _mm256_storeu_ps(at, v);
}

CDZ_NEON __m256 _mm256_add_ps(__m256 a, __m256 b)
{
    return (__m256){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_sub_ps(__m256 a, __m256 b)
{
    return (__m256){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_mul_ps(__m256 a, __m256 b)
{
    return (__m256){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_div_ps(__m256 a, __m256 b)
{
    return (__m256){vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_max_ps(__m256 a, __m256 b)
{
    return (__m256){cdz_larger(a.low, b.low), cdz_larger(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_min_ps(__m256 a, __m256 b)
{
    return (__m256){cdz_smaller(a.low, b.low), cdz_smaller(a.high, b.high)};
}

/* a * b + c */
CDZ_NEON __m256 _mm256_fmadd_ps(__m256 a, __m256 b, __m256 c)
{
    return (__m256){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}

/* c - a * b */
CDZ_NEON __m256 _mm256_fnmadd_ps(__m256 a, __m256 b, __m256 c)
{
    return (__m256){vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
}

CDZ_NEON __m256 _mm256_castsi256_ps(__m256i v)
{
    return (__m256){vreinterpretq_f32_s32(v.low), vreinterpretq_f32_s32(v.high)};
}

CDZ_NEON __m256i _mm256_castps_si256(__m256 v)
{
    return (__m256i){vreinterpretq_s32_f32(v.low), vreinterpretq_s32_f32(v.high)};
}

CDZ_NEON __m256 _mm256_cvtepi32_ps(__m256i v)
{
    return (__m256){vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)};
}

CDZ_NEON __m256 _mm256_cvtph_ps(__m128i halves)
{
    const float16x8_t v = vreinterpretq_f16_s32(halves);
    return (__m256){vcvt_f32_f16(vget_low_f16(v)), vcvt_high_f32_f16(v)};
}

CDZ_NEON __m256 _mm256_cmp_ps(__m256 a, __m256 b, int less)
{
    (void)less;
    return (__m256){vreinterpretq_f32_u32(vcltq_f32(a.low, b.low)),
                    vreinterpretq_f32_u32(vcltq_f32(a.high, b.high))};
}

CDZ_NEON __m256 _mm256_blendv_ps(__m256 no, __m256 yes, __m256 mask)
{
    return (__m256){cdz_choose(no.low, yes.low, mask.low), cdz_choose(no.high, yes.high, mask.high)};
}

/* Lanes 0 and 1 of each register of a, then of b (0x44), or 2 and 3 (0xee). */
CDZ_NEON __m256 _mm256_shuffle_ps(__m256 a, __m256 b, int which)
{
    if (which == 0x44)
        return (__m256){vcombine_f32(vget_low_f32(a.low), vget_low_f32(b.low)),
                        vcombine_f32(vget_low_f32(a.high), vget_low_f32(b.high))};
    return (__m256){vcombine_f32(vget_high_f32(a.low), vget_high_f32(b.low)),
                    vcombine_f32(vget_high_f32(a.high), vget_high_f32(b.high))};
}

CDZ_NEON __m256 _mm256_unpacklo_ps(__m256 a, __m256 b)
{
    return (__m256){vzip1q_f32(a.low, b.low), vzip1q_f32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_unpackhi_ps(__m256 a, __m256 b)
{
    return (__m256){vzip2q_f32(a.low, b.low), vzip2q_f32(a.high, b.high)};
}

/* The low registers of both (0x20), or the high ones (0x31). */
CDZ_NEON __m256 _mm256_permute2f128_ps(__m256 a, __m256 b, int which)
{
    return which == 0x20 ? (__m256){a.low, b.low} : (__m256){a.high, b.high};
}

/* Of eight floats those whose numbers stand in the low three bits of each lane. */
CDZ_NEON __m256 _mm256_permutevar8x32_ps(__m256 of, __m256i which)
{
    const uint8x16x2_t table = {{vreinterpretq_u8_f32(of.low), vreinterpretq_u8_f32(of.high)}};
    const uint32x4_t byte = vdupq_n_u32(0x03020100), seven = vdupq_n_u32(7),
                     each = vdupq_n_u32(0x04040404);
    const uint32x4_t low = vmlaq_u32(byte, vandq_u32(cdz_words(which.low), seven), each),
                     high = vmlaq_u32(byte, vandq_u32(cdz_words(which.high), seven), each);
    return (__m256){vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(low))),
                    vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(high)))};
}

CDZ_NEON __m128 _mm256_castps256_ps128(__m256 v)
{
    return v.low;
}

CDZ_NEON __m128 _mm256_extractf128_ps(__m256 v, int one)
{
    (void)one;
    return v.high;
}

CDZ_NEON float _mm256_cvtss_f32(__m256 v)
{
    return vgetq_lane_f32(v.low, 0);
}

/* ---- eight words ---- */

CDZ_NEON __m256i _mm256_set1_epi32(int x)
{
    return (__m256i){vdupq_n_s32(x), vdupq_n_s32(x)};
}

CDZ_NEON __m256i _mm256_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h)
{
    return (__m256i){(int32x4_t){a, b, c, d}, (int32x4_t){e, f, g, h}};
}

CDZ_NEON __m256i _mm256_set1_epi8(char x)
{
    const __m128i v = cdz_of_bytes(vdupq_n_s8((int8_t)x));
    return (__m256i){v, v};
}

CDZ_NEON __m256i _mm256_loadu_si256(const __m256i *at)
{
    const int8_t *bytes = (const int8_t *)at;
    return (__m256i){cdz_of_bytes(vld1q_s8(bytes)), cdz_of_bytes(vld1q_s8(bytes + 16))};
}

CDZ_NEON void _mm256_storeu_si256(__m256i *at, __m256i v)
{
    int8_t *bytes = (int8_t *)at;
    vst1q_s8(bytes, cdz_bytes(v.low));
    vst1q_s8(bytes + 16, cdz_bytes(v.high));
}

CDZ_NEON __m256i _mm256_and_si256(__m256i a, __m256i b)
{
    return (__m256i){vandq_s32(a.low, b.low), vandq_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_or_si256(__m256i a, __m256i b)
{
    return (__m256i){vorrq_s32(a.low, b.low), vorrq_s32(a.high, b.high)};
}

CDZ_NEON __m256 _mm256_and_ps(__m256 a, __m256 b)
{
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

CDZ_NEON __m256 _mm256_or_ps(__m256 a, __m256 b)
{
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

/* b without the bits of a. */
CDZ_NEON __m256 _mm256_andnot_ps(__m256 a, __m256 b)
{
    const __m256i off = _mm256_castps_si256(a), from = _mm256_castps_si256(b);
    return _mm256_castsi256_ps(
        (__m256i){vbicq_s32(from.low, off.low), vbicq_s32(from.high, off.high)});
}

CDZ_NEON __m256i _mm256_add_epi32(__m256i a, __m256i b)
{
    return (__m256i){vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_sub_epi32(__m256i a, __m256i b)
{
    return (__m256i){vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_mullo_epi32(__m256i a, __m256i b)
{
    return (__m256i){vmulq_s32(a.low, b.low), vmulq_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_cmpgt_epi32(__m256i a, __m256i b)
{
    return (__m256i){cdz_of_words(vcgtq_s32(a.low, b.low)), cdz_of_words(vcgtq_s32(a.high, b.high))};
}

/* Products of signed halves, two to a word, added. */
CDZ_NEON __m128i cdz_pairs_of_halves(__m128i a, __m128i b)
{
    const int16x8_t left = cdz_halves(a), right = cdz_halves(b);
    return vpaddq_s32(vmull_s16(vget_low_s16(left), vget_low_s16(right)),
                      vmull_high_s16(left, right));
}

CDZ_NEON __m256i _mm256_madd_epi16(__m256i a, __m256i b)
{
    return (__m256i){cdz_pairs_of_halves(a.low, b.low), cdz_pairs_of_halves(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_slli_epi32(__m256i v, int by)
{
    return (__m256i){cdz_shift_words(v.low, by), cdz_shift_words(v.high, by)};
}

CDZ_NEON __m256i _mm256_srli_epi32(__m256i v, int by)
{
    return _mm256_slli_epi32(v, -by);
}

CDZ_NEON __m256i _mm256_srai_epi32(__m256i v, int by)
{
    return (__m256i){vshlq_s32(v.low, vdupq_n_s32(-by)), vshlq_s32(v.high, vdupq_n_s32(-by))};
}

/* Each lane by its own count, which is below 32. */
CDZ_NEON __m256i _mm256_srlv_epi32(__m256i v, __m256i by)
{
    return (__m256i){cdz_of_words(vshlq_u32(cdz_words(v.low), vnegq_s32(by.low))),
                     cdz_of_words(vshlq_u32(cdz_words(v.high), vnegq_s32(by.high)))};
}

CDZ_NEON __m256i _mm256_slli_epi16(__m256i v, int by)
{
    return (__m256i){cdz_shift_halves(v.low, by), cdz_shift_halves(v.high, by)};
}

CDZ_NEON __m256i _mm256_srli_epi16(__m256i v, int by)
{
    return _mm256_slli_epi16(v, -by);
}

/* The count is the first lane of a register. */
CDZ_NEON __m256i _mm256_srl_epi16(__m256i v, __m128i by)
{
    return _mm256_srli_epi16(v, vgetq_lane_s32(by, 0));
}

CDZ_NEON __m256i _mm256_srl_epi32(__m256i v, __m128i by)
{
    return _mm256_srli_epi32(v, vgetq_lane_s32(by, 0));
}

CDZ_NEON __m256i _mm256_sll_epi32(__m256i v, __m128i by)
{
    return _mm256_slli_epi32(v, vgetq_lane_s32(by, 0));
}

CDZ_NEON __m256i _mm256_unpacklo_epi32(__m256i a, __m256i b)
{
    return (__m256i){vzip1q_s32(a.low, b.low), vzip1q_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_unpackhi_epi32(__m256i a, __m256i b)
{
    return (__m256i){vzip2q_s32(a.low, b.low), vzip2q_s32(a.high, b.high)};
}

CDZ_NEON __m256i _mm256_unpacklo_epi64(__m256i a, __m256i b)
{
    return (__m256i){vcombine_s32(vget_low_s32(a.low), vget_low_s32(b.low)),
                     vcombine_s32(vget_low_s32(a.high), vget_low_s32(b.high))};
}

CDZ_NEON __m256i _mm256_unpackhi_epi64(__m256i a, __m256i b)
{
    return (__m256i){vcombine_s32(vget_high_s32(a.low), vget_high_s32(b.low)),
                     vcombine_s32(vget_high_s32(a.high), vget_high_s32(b.high))};
}

CDZ_NEON __m256i _mm256_castsi128_si256(__m128i v)
{
    return (__m256i){v, v};
}

CDZ_NEON __m256i _mm256_inserti128_si256(__m256i v, __m128i high, int one)
{
    (void)one;
    return (__m256i){v.low, high};
}

CDZ_NEON __m256i _mm256_cvtepi8_epi32(__m128i v)
{
    const int16x8_t wide = vmovl_s8(vget_low_s8(cdz_bytes(v)));
    return (__m256i){vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)};
}

CDZ_NEON __m256i _mm256_cvtepu8_epi32(__m128i v)
{
    const uint16x8_t wide = vmovl_u8(vget_low_u8(vreinterpretq_u8_s32(v)));
    return (__m256i){cdz_of_words(vmovl_u16(vget_low_u16(wide))),
                     cdz_of_words(vmovl_high_u16(wide))};
}

CDZ_NEON __m256i _mm256_cvtepu16_epi32(__m128i v)
{
    const uint16x8_t halves = vreinterpretq_u16_s32(v);
    return (__m256i){cdz_of_words(vmovl_u16(vget_low_u16(halves))),
                     cdz_of_words(vmovl_high_u16(halves))};
}

/* ---- four lanes ---- */

CDZ_NEON __m128 _mm_add_ps(__m128 a, __m128 b)
{
    return vaddq_f32(a, b);
}

CDZ_NEON __m128 _mm_hadd_ps(__m128 a, __m128 b)
{
    return vpaddq_f32(a, b);
}

CDZ_NEON __m128 _mm_max_ps(__m128 a, __m128 b)
{
    return cdz_larger(a, b);
}

/* The others are not looked at. */
CDZ_NEON __m128 _mm_max_ss(__m128 a, __m128 b)
{
    return cdz_larger(a, b);
}

/* Lanes 2 and 3 of b, then of a. */
CDZ_NEON __m128 _mm_movehl_ps(__m128 a, __m128 b)
{
    return vcombine_f32(vget_high_f32(b), vget_high_f32(a));
}

CDZ_NEON __m128 _mm_movehdup_ps(__m128 v)
{
    return vtrn2q_f32(v, v);
}

CDZ_NEON float _mm_cvtss_f32(__m128 v)
{
    return vgetq_lane_f32(v, 0);
}

CDZ_NEON float _cvtsh_ss(uint16_t half)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

CDZ_NEON __m128i _mm_loadu_si128(const __m128i *at)
{
    return cdz_of_bytes(vld1q_s8((const int8_t *)at));
}

/* Eight bytes, and zeros. */
CDZ_NEON __m128i _mm_loadl_epi64(const __m128i *at)
{
    return cdz_of_bytes(vcombine_s8(vld1_s8((const int8_t *)at), vdup_n_s8(0)));
}

CDZ_NEON __m128i _mm_cvtsi32_si128(int x)
{
    return vsetq_lane_s32(x, vdupq_n_s32(0), 0);
}

CDZ_NEON __m128i _mm_cvtsi64_si128(int64_t x)
{
    return vreinterpretq_s32_s64(vsetq_lane_s64(x, vdupq_n_s64(0), 0));
}

CDZ_NEON __m128i _mm_set1_epi8(char x)
{
    return cdz_of_bytes(vdupq_n_s8((int8_t)x));
}

CDZ_NEON __m128i _mm_set1_epi16(short x)
{
    return cdz_of_halves(vdupq_n_s16(x));
}

CDZ_NEON __m128i _mm_set1_epi64x(long long x)
{
    return vreinterpretq_s32_s64(vdupq_n_s64((int64_t)x));
}

CDZ_NEON __m128i _mm_setr_epi8(char a, char b, char c, char d, char e, char f, char g, char h,
                               char i, char j, char k, char l, char m, char n, char o, char p)
{
    const int8_t bytes[16] = {(int8_t)a, (int8_t)b, (int8_t)c, (int8_t)d, (int8_t)e, (int8_t)f,
                              (int8_t)g, (int8_t)h, (int8_t)i, (int8_t)j, (int8_t)k, (int8_t)l,
                              (int8_t)m, (int8_t)n, (int8_t)o, (int8_t)p};
    return cdz_of_bytes(vld1q_s8(bytes));
}

CDZ_NEON __m128i _mm_and_si128(__m128i a, __m128i b)
{
    return vandq_s32(a, b);
}

CDZ_NEON __m128i _mm_or_si128(__m128i a, __m128i b)
{
    return vorrq_s32(a, b);
}

CDZ_NEON __m128i _mm_add_epi8(__m128i a, __m128i b)
{
    return cdz_of_bytes(vaddq_s8(cdz_bytes(a), cdz_bytes(b)));
}

CDZ_NEON __m128i _mm_sub_epi8(__m128i a, __m128i b)
{
    return cdz_of_bytes(vsubq_s8(cdz_bytes(a), cdz_bytes(b)));
}

CDZ_NEON __m128i _mm_cmpeq_epi8(__m128i a, __m128i b)
{
    return vreinterpretq_s32_u8(vceqq_s8(cdz_bytes(a), cdz_bytes(b)));
}

CDZ_NEON __m128i _mm_slli_epi16(__m128i v, int by)
{
    return cdz_shift_halves(v, by);
}

CDZ_NEON __m128i _mm_srli_epi16(__m128i v, int by)
{
    return cdz_shift_halves(v, -by);
}

CDZ_NEON __m128i _mm_srl_epi16(__m128i v, __m128i by)
{
    return cdz_shift_halves(v, -vgetq_lane_s32(by, 0));
}

CDZ_NEON __m128i _mm_srai_epi16(__m128i v, int by)
{
    return cdz_of_halves(vshlq_s16(cdz_halves(v), vdupq_n_s16((int16_t)-by)));
}

/* The upper eight bytes, and zeros. */
CDZ_NEON __m128i _mm_srli_si128(__m128i v, int eight)
{
    (void)eight;
    return vcombine_s32(vget_high_s32(v), vdup_n_s32(0));
}

/* Bytes of v by their numbers, which are below 16. */
CDZ_NEON __m128i _mm_shuffle_epi8(__m128i v, __m128i which)
{
    return cdz_of_bytes(vqtbl1q_s8(cdz_bytes(v), vreinterpretq_u8_s32(which)));
}

CDZ_NEON __m128i _mm_unpacklo_epi8(__m128i a, __m128i b)
{
    return cdz_of_bytes(vzip1q_s8(cdz_bytes(a), cdz_bytes(b)));
}

CDZ_NEON __m128i _mm_cvtepu8_epi16(__m128i v)
{
    return vreinterpretq_s32_u16(vmovl_u8(vget_low_u8(vreinterpretq_u8_s32(v))));
}

/* ---- what x86 has no name for ---- */

/* sum + the products of four signed bytes of each word. Base: of processors before ARMv8.2 too. */
CDZ_NEON int32x4_t cdz_add_products(int32x4_t sum, __m128i a, __m128i b)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sum, cdz_bytes(a), cdz_bytes(b));
#else
    const int8x16_t left = cdz_bytes(a), right = cdz_bytes(b);
    const int16x8_t low = vmull_s8(vget_low_s8(left), vget_low_s8(right)),
                    high = vmull_high_s8(left, right);
    return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}

#endif
