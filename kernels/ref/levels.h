/* levels.h - the sixteen numbers that a nibble stands for: of bitsandbytes' types, as initialisers:
 * quantiles of the normal distribution (QLoRA, appendix E), and floats of a sign, two exponent and
 * one mantissa bits; both up to 1. */
#ifndef CDZ_LEVELS_H
#define CDZ_LEVELS_H

/* clang-format off */
#define CDZ_NF4_LEVELS                                                                             \
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                     \
     -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,                    \
     0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,       \
     0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f}
#define CDZ_FP4_LEVELS                                                                             \
    {0.0f, 0.0625f / 12, 8.0f / 12, 1.0f, 4.0f / 12, 0.5f, 2.0f / 12, 0.25f, -0.0f,                \
     -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -0.5f, -2.0f / 12, -0.25f}
/* clang-format on */

/* MXFP4's, twice each: floats of a sign, two exponent and one mantissa bits, up to 6; the second zero is +0, as GGUF has
 * it. GGUF's IQ4 types have those of an 8-bit scale. */
/* clang-format off */
#define CDZ_MXFP4_LEVELS                                                                           \
    {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 6.0f, 8.0f, 12.0f, 0.0f, -1.0f, -2.0f, -3.0f, -4.0f, -6.0f,     \
     -8.0f, -12.0f}
#define CDZ_IQ4_LEVELS                                                                             \
    {-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f, 1.0f, 13.0f, 25.0f,         \
     38.0f, 53.0f, 69.0f, 89.0f, 113.0f}
/* clang-format on */

#endif
