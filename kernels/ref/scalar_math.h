/* scalar_math.h - the scalar functions whose bits every kernel set must reproduce: widening, exp,
 * and what is built on it: tanh, erf, the gelus.
 *
 * Branch-free on values, so that a loop around them vectorises; FMA only where fmaf is written. A
 * device's compiler reads the same text, with its own words in CDZ_SCALAR. */
#ifndef CDZ_SCALAR_MATH_H
#define CDZ_SCALAR_MATH_H

#ifndef CDZ_SCALAR
#define CDZ_SCALAR static inline
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

CDZ_SCALAR float cdz_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

CDZ_SCALAR uint32_t cdz_bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

CDZ_SCALAR float cdz_widen_bf16(uint16_t h)
{
    return cdz_float_of_bits((uint32_t)h << 16);
}

/* To nearest, ties to even; what is no number becomes a quiet one. */
CDZ_SCALAR uint16_t cdz_narrow_bf16(float f)
{
    const uint32_t bits = cdz_bits_of_float(f), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? bits | 1u << 22 : rounded) >> 16);
}

/* As a processor told to flush has it: below the smallest normal number is zero. */
CDZ_SCALAR float cdz_small_to_zero(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

/* Half to float, exact: the exponent is re-biased by a multiplication, which also makes
 * subnormals right; exponent 31 lands at 65536 and above and becomes infinity or NaN. */
CDZ_SCALAR float cdz_widen_f16(uint16_t h)
{
    const float magnitude = cdz_float_of_bits((uint32_t)(h & 0x7fff) << 13) * 0x1p112f;
    const uint32_t special = magnitude >= 65536.0f ? 0x7f800000u : 0u;
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    return cdz_float_of_bits(cdz_bits_of_float(magnitude) | special | sign);
}

/* MXFP4's factor 2^(e - 128): half of what e stands for, the levels being twice theirs. 0 and 1 are below the smallest normal number. */
CDZ_SCALAR float cdz_mxfp4_factor(uint8_t e)
{
    return cdz_float_of_bits(e < 2 ? (uint32_t)0x200000 << e : (uint32_t)(e - 1) << 23);
}

/* float8_e4m3fn: a sign, four exponent bits of bias 7, three mantissa bits; no infinities, and no NaN here. Exact, as
 * cdz_widen_f16 is: exponent and mantissa re-biased by a multiplication. */
CDZ_SCALAR float cdz_e4m3(uint8_t code)
{
    const float magnitude = cdz_float_of_bits((uint32_t)(code & 0x7f) << 20) * 0x1p120f;
    return cdz_float_of_bits(cdz_bits_of_float(magnitude) | (uint32_t)(code & 0x80) << 24);
}

/* e^x, at most 1.4 ulp away; +0 below -104, +inf above 88.73, NaN for NaN. x = n ln2 + r with
 * |r| <= ln2 / 2; ln2 in two parts so that n * high is exact; a polynomial of degree 6 for e^r;
 * 2^n in two factors so that the end of the range, subnormals included, is reached without
 * leaving float. n is rounded by adding 1.5 * 2^23. */
CDZ_SCALAR float cdz_exp(float x)
{
    const float magic = 12582912.0f;
    float t = -104.0f > x ? -104.0f : x;
    t = 89.0f < t ? 89.0f : t;
    const float shifted = fmaf(t, 1.44269504f, magic);
    const float n = shifted - magic;
    float r = fmaf(n, -0.693145752f, t);
    r = fmaf(n, -1.42860677e-6f, r);
    float p = 1.38319808e-3f;
    p = fmaf(p, r, 8.37550033e-3f);
    p = fmaf(p, r, 4.16694112e-2f);
    p = fmaf(p, r, 1.66664466e-1f);
    p = fmaf(p, r, 4.99999851e-1f);
    p = fmaf(r * r, p, r + 1.0f);
    const int32_t i = (int32_t)(cdz_bits_of_float(shifted) - 0x4b400000u);
    const int32_t low = i >> 1;
    const float a = cdz_float_of_bits((uint32_t)(low + 127) << 23);
    const float b = cdz_float_of_bits((uint32_t)(i - low + 127) << 23);
    return p * a * b;
}

/* Odd polynomial near zero (Cephes' tanhf), 1 - 2 / (e^2|x| + 1) from 0.625 on; within 3 ulp. */
CDZ_SCALAR float cdz_tanh(float x)
{
    const float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = fmaf(p, z, 2.06390887954e-2f);
    p = fmaf(p, z, -5.37397155531e-2f);
    p = fmaf(p, z, 1.33314422036e-1f);
    p = fmaf(p, z, -3.33332819422e-1f);
    const float near_zero = fmaf(x * z, p, x);
    const float far = copysignf(1.0f - 2.0f / (cdz_exp(a + a) + 1.0f), x);
    return a < 0.625f ? near_zero : far;
}

/* x times a polynomial in x^2 near zero, 1 - e^p(|x|) from 0.9277 on; within 2 ulp. */
CDZ_SCALAR float cdz_erf(float x)
{
    const float a = fabsf(x), z = x * x;
    float p = -5.96761703e-4f;
    p = fmaf(p, z, 4.99119423e-3f);
    p = fmaf(p, z, -2.67681349e-2f);
    p = fmaf(p, z, 1.12819925e-1f);
    p = fmaf(p, z, -3.76125336e-1f);
    p = fmaf(p, z, 1.28379166e-1f);
    const float near_zero = fmaf(p, x, x);

    float q = fmaf(-1.72853470e-5f, a, 3.83197126e-4f);
    const float u = fmaf(-3.88396438e-3f, a, 2.42546219e-2f);
    q = fmaf(q, z, u);
    q = fmaf(q, a, -1.06777877e-1f);
    q = fmaf(q, a, -6.34846687e-1f);
    q = fmaf(q, a, -1.28717512e-1f);
    q = fmaf(q, a, -a);
    const float far = copysignf(1.0f - cdz_exp(q), x);
    return a < 0.927734375f ? near_zero : far;
}

/* torch's gelu: x / 2 * (1 + erf(x / sqrt 2)). */
CDZ_SCALAR float cdz_gelu(float x)
{
    return x * 0.5f * (1.0f + cdz_erf(x * 0.707106781f));
}

/* gelu_new, gelu_pytorch_tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))). */
CDZ_SCALAR float cdz_gelu_tanh(float x)
{
    const float inner = 0.797884561f * (x + 0.044715f * (x * x * x));
    return 0.5f * x * (1.0f + cdz_tanh(inner));
}

CDZ_SCALAR float cdz_sigmoid(float x)
{
    return 1.0f / (1.0f + cdz_exp(-x));
}

/* gpt_oss's experts: the gate cut from above, up on both sides; a NaN stays. */
CDZ_SCALAR float cdz_clamped_product(float gate, float up, float most, float slope)
{
    const float g = gate > most ? most : gate, below = up > most ? most : up;
    const float u = below < -most ? -most : below;
    return (u + 1.0f) * (g * (1.0f / (1.0f + cdz_exp(-(g * slope)))));
}

/* e^x - 1 - x of x <= 0: a series near 0, where the terms would cancel; within 4 ulp. */
CDZ_SCALAR float cdz_exp_rest(float x)
{
    float p = 2.48015873e-5f;
    p = fmaf(p, x, 1.98412698e-4f);
    p = fmaf(p, x, 1.38888889e-3f);
    p = fmaf(p, x, 8.33333333e-3f);
    p = fmaf(p, x, 4.16666667e-2f);
    p = fmaf(p, x, 1.66666667e-1f);
    p = fmaf(p, x, 0.5f);
    const float near = x * x * p, far = cdz_exp(x) - 1.0f - x;
    return x > -0.5f ? near : far;
}

/* transformers' XIELUActivation, but for its eps, which is in the last digits of numbers next to 0. */
CDZ_SCALAR float cdz_xielu_of(float x, float above, float below, float both)
{
    const float rest = below * cdz_exp_rest(x), square = above * x * x;
    return (x > 0.0f ? square : rest) + both * x;
}

/* log(1 + e^x), as torch's softplus: from 20 on x itself. log(1 + u) of u = e^-|x| is 2 atanh(u / (2 + u)), whose argument is at
 * most 1/3; within 2 ulp where x is not below -80. */
CDZ_SCALAR float cdz_softplus(float x)
{
    const float u = cdz_exp(-fabsf(x)), s = u / (2.0f + u), z = s * s;
    float p = 5.88235294e-2f;
    p = fmaf(p, z, 6.66666667e-2f);
    p = fmaf(p, z, 7.69230769e-2f);
    p = fmaf(p, z, 9.09090909e-2f);
    p = fmaf(p, z, 1.11111111e-1f);
    p = fmaf(p, z, 1.42857143e-1f);
    p = fmaf(p, z, 2.00000000e-1f);
    p = fmaf(p, z, 3.33333333e-1f);
    const float log1p = 2.0f * fmaf(s * z, p, s);
    const float y = (x > 0.0f ? x : 0.0f) + log1p;
    return x > 20.0f ? x : y;
}

/* A score drawn into (-cap, cap). */
CDZ_SCALAR float cdz_soft_cap(float x, float cap)
{
    return cdz_tanh(x / cap) * cap;
}

#endif
