/* rope_math.h - cosine and sine of a rotary angle, for every kernel set and every device.
 *
 * An angle is a float (position times inverse frequency, rounded, as in transformers' rotary
 * embedding); its cosine and sine are computed in double, to about 1e-16, and rounded to float
 * once, which is the correctly rounded float but for ties of a one in 10^8 kind. Plain
 * multiplications and additions: the same bits on any machine. Reduction by multiples of pi/2 in
 * three parts (Cody and Waite) is exact to a million radians and good to 1e-9 far beyond. */
#ifndef CDZ_ROPE_MATH_H
#define CDZ_ROPE_MATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef CDZ_SCALAR
#define CDZ_SCALAR static inline
#endif

/* c[0] + c[1] x + ... + c[7] x^7. */
CDZ_SCALAR double cdz_series(double x, const double c[8])
{
    double p = c[7];
    for (int i = 6; i >= 0; i--) p = p * x + c[i];
    return p;
}

/* Taylor terms suffice on [-pi/4, pi/4]: the first one left out is below 2e-17. */
CDZ_SCALAR double cdz_sine_of(double r, double r2)
{
    const double inverse_factorials[] = {
        -1.0 / 6.0,        1.0 / 120.0,        -1.0 / 5040.0,          1.0 / 362880.0,
        -1.0 / 39916800.0, 1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0};
    return r + r * r2 * cdz_series(r2, inverse_factorials);
}

CDZ_SCALAR double cdz_cosine_of(double r2)
{
    const double inverse_factorials[] = {-0.5,
                                         1.0 / 24.0,
                                         -1.0 / 720.0,
                                         1.0 / 40320.0,
                                         -1.0 / 3628800.0,
                                         1.0 / 479001600.0,
                                         -1.0 / 87178291200.0,
                                         1.0 / 20922789888000.0};
    return 1.0 + r2 * cdz_series(r2, inverse_factorials);
}

/* The quadrant is n mod 4; cos(r + n pi/2) and sin(r + n pi/2) are +-cos r or +-sin r. */
CDZ_SCALAR void cdz_cos_sin(float angle, float *cosine, float *sine)
{
    const double magic =
        6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer, held in the low bits */
    const double shifted = (double)angle * 0.63661977236758134308 + magic;
    const double n = shifted - magic;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);

    double r = (double)angle - n * 0x1.921fb544p+0; /* pi/2 in 33 + 33 + 53 bits */
    r = r - n * 0x1.0b4611a6p-34;
    r = r - n * 0x1.3198a2e037073p-69;
    const double c = cdz_cosine_of(r * r), s = cdz_sine_of(r, r * r);
    const bool swapped = quadrant & 1;
    const double cos_value = swapped ? s : c, sin_value = swapped ? c : s;
    *cosine = (float)((quadrant + 1) & 2 ? -cos_value : cos_value);
    *sine = (float)(quadrant & 2 ? -sin_value : sin_value);
}

#endif
