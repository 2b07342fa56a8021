/* int8_types.h - what tiles of products with int8 activations know of the types, however their numbers lie in registers. */
#ifndef CDZ_CPU_INT8_TYPES_H
#define CDZ_CPU_INT8_TYPES_H

#include "cpu/ahead.h"
#include "cpu/avx2.h"

/* Whether products of bytes add up in 16 bits first, for want of an instruction that adds them in 32. */
#if defined(CDZ_HAVE_X86) && !defined(__AVXVNNI__)
#define CDZ_SUMS_IN_16
#endif

/* What comes off the unsigned numbers that a type is stored as. */
CDZ_INLINE int offset_of(cdz_dtype type)
{
    return type == CDZ_Q4_0   ? 8
           : type == CDZ_Q3_K ? 4
           : type == CDZ_Q5_0 ? 16
           : type == CDZ_Q6_K ? 32
                              : 0;
}

/* Whose halves of 16 have scales of their own. */
CDZ_INLINE bool has_halves(cdz_dtype type)
{
    return type == CDZ_Q2_K || type == CDZ_Q3_K || type == CDZ_Q6_K;
}

CDZ_INLINE bool has_minimum(cdz_dtype type)
{
    return type == CDZ_Q4_1 || type == CDZ_Q5_1 || type == CDZ_Q4_K || type == CDZ_Q5_K;
}

/* Of two bytes. */
CDZ_INLINE bool two_fields(cdz_dtype type)
{
    return has_minimum(type) || type == CDZ_Q2_K;
}

CDZ_INLINE bool is_large(cdz_dtype type)
{
    return type >= CDZ_Q2_K && type <= CDZ_Q6_K;
}

/* The sum of a block's activations that meet one scale: of all, or of the first (0) or second (1) sixteen. */
CDZ_INLINE int sum_of(cdz_dtype type, const cdz_x8 *x, int half)
{
    return has_halves(type) ? x->half[half] : x->sum;
}

/* The sums of both sixteens. */
CDZ_INLINE int both_sums(const cdz_x8 *x)
{
    int32_t both;
    memcpy(&both, x->half, sizeof both);
    return both;
}

#endif
