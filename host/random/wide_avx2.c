/* wide_avx2.c - the loops of a draw for machines with AVX2 (flags.cmake). */
#include "random/wide.h"

#if defined(__AVX2__)
#include "random/body_wide.h"

const cdz_wide *cdz_wide_avx2(void)
{
    return &wide;
}
#else
const cdz_wide *cdz_wide_avx2(void)
{
    return NULL;
}
#endif
