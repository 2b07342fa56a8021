/* wide.c - the loops of a draw in plain C, and which of them this machine gets. */
#include "random/wide.h"

#include "random/body_wide.h"

const cdz_wide *cdz_wide_plain(void)
{
    return &wide;
}

const cdz_wide *cdz_wide_here(void)
{
#if defined(__x86_64__)
    const cdz_wide *const avx2 = cdz_wide_avx2();
    if (avx2 && __builtin_cpu_supports("avx2")) return avx2;
#endif
    return &wide;
}
