/* kernel_sets.h - the kernel sets themselves, for tests that take one without a backend: also those without a name of their own,
 * which this machine would not choose. */
#ifndef CDZ_TESTS_SUPPORT_KERNEL_SETS_H
#define CDZ_TESTS_SUPPORT_KERNEL_SETS_H

#if defined(__x86_64__) && !defined(CDZ_HAVE_X86)
#define CDZ_HAVE_X86
#endif
#include "cpu/machine.h"
#include "kernel_set.h"
#include "support/kernel_data.h"

/* Calls check for every one that runs here. */
static inline void each_set(void (*check)(const cdz_kernel_set *set))
{
    check(&cdz_scalar_set);
#if defined(CDZ_HAVE_X86)
    if (cdz_cpu_variant_runs_here("avx2")) check(&cdz_avx2_set);
    if (cdz_machine_has_avx_vnni())
        check(&cdz_avx2_vnni_set);
    else
        print_message("skipped: AVX-VNNI's kernels do not run on this machine\n");
    if (cdz_cpu_variant_runs_here("avx512")) check(&cdz_avx512_set);
    if (cdz_machine_has_vnni()) check(&cdz_avx512_vnni_set);
    if (cdz_machine_has_bf16()) check(&cdz_avx512_bf16_set);
    if (cdz_machine_has_amx())
        check(&cdz_amx_set);
    else
        print_message("skipped: AMX's kernels do not run on this machine\n");
#elif defined(__aarch64__)
    check(&cdz_neon_set);
    if (cdz_machine_has_dotprod()) check(&cdz_neon_dotprod_set);
    if (cdz_machine_has_i8mm()) check(&cdz_neon_i8mm_set);
#endif
}

#endif
