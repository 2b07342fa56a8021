/* float_mode.h - how the thread computes: rounding, exceptions that stop the program, and whether numbers below the smallest
 * normal one count as zero. Status bits, which any computation sets, are no part of it. Two moves of a register; any thread,
 * for itself. Where a machine's register is not known here, CDZ_SEES_FLOAT_MODE is 0 and the mode always the same. */
#ifndef CDZ_HOST_BASE_FLOAT_MODE_H
#define CDZ_HOST_BASE_FLOAT_MODE_H

#if defined(__SSE__)
#define CDZ_SEES_FLOAT_MODE 1
#define CDZ_FLOAT_FLUSH                                                                            \
    0x8040u /* numbers below the smallest normal one count as zero: results, and operands */

/* By hand, as below: the header of the intrinsics takes longer to compile than all that includes this one. */
static inline unsigned cdz_float_mode(void)
{
    unsigned mode;
    __asm__ volatile("stmxcsr %0" : "=m"(mode));
    return mode & ~0x3Fu;
}

static inline void cdz_float_mode_set(unsigned mode)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory");
}

#elif defined(__aarch64__)
#define CDZ_SEES_FLOAT_MODE 1
#define CDZ_FLOAT_FLUSH     0x1000000u

static inline unsigned cdz_float_mode(void)
{
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (unsigned)mode;
}

static inline void cdz_float_mode_set(unsigned mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)mode));
}

#else
#define CDZ_SEES_FLOAT_MODE 0
#define CDZ_FLOAT_FLUSH     0u

static inline unsigned cdz_float_mode(void)
{
    return 0;
}

static inline void cdz_float_mode_set(unsigned mode)
{
    (void)mode;
}
#endif

#endif
