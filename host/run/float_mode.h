/* float_mode.h - rounding and exception masks of the thread, which a plugin's call must leave as they were. */
#ifndef CDZ_HOST_FLOAT_MODE_H
#define CDZ_HOST_FLOAT_MODE_H

#include <stdbool.h>

#if defined(__SSE__) && !defined(NDEBUG)
#include <xmmintrin.h>
#define CDZ_CHECKS_MXCSR 1
#endif

/* Status bits may change freely. */
static inline unsigned cdz_float_mode(void)
{
#ifdef CDZ_CHECKS_MXCSR
    return _mm_getcsr() & ~0x3Fu;
#else
    return 0;
#endif
}

/* Puts the mode back; true when a plugin had changed it. */
static inline bool cdz_float_mode_changed(unsigned before)
{
    if (cdz_float_mode() == before) return false;
#ifdef CDZ_CHECKS_MXCSR
    _mm_setcsr(before);
#endif
    return true;
}

#endif
