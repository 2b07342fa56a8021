/* intrinsics.h - the eight-lane instructions that the vector kernels are written with, whatever the machine: x86's own, or
 * NEON's by their names. */
#ifndef CDZ_CPU_INTRINSICS_H
#define CDZ_CPU_INTRINSICS_H

#if defined(__aarch64__)
#include "cpu/avx2_on_neon.h"
#else
#include <immintrin.h>
#endif

#endif
