/* machine.c - cpuid or the auxiliary vector, the affinity mask and the topology files of Linux. */
#include "cpu/machine.h"

#include <fenv.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(CDZ_HAVE_X86)
#include <cpuid.h>
#include <sys/syscall.h>
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(CDZ_HAVE_X86)
typedef struct cpu_features {
    unsigned ecx1, ebx7, ecx7, edx7; /* leaf 1 and leaf 7 */
    unsigned more;                   /* leaf 7, sub-leaf 1: eax */
    uint64_t saved;                  /* XCR0: register states the system saves */
} cpu_features;

static uint64_t saved_states(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static cpu_features features(void)
{
    cpu_features f = {0};
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return f;
    f.ecx1 = ecx;
    f.saved = saved_states();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return f;
    f.ebx7 = ebx;
    f.ecx7 = ecx;
    f.edx7 = edx;
    if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) f.more = eax;
    return f;
}

bool cdz_machine_has_avx2(void)
{
    const cpu_features f = features();
    const unsigned leaf1 = bit_AVX | bit_FMA | bit_F16C;
    return (f.saved & 0x6) == 0x6 && (f.ecx1 & leaf1) == leaf1 && (f.ebx7 & bit_AVX2);
}

bool cdz_machine_has_avx_vnni(void)
{
    enum { AVX_VNNI = 1 << 4 };
    return cdz_machine_has_avx2() && (features().more & AVX_VNNI);
}

bool cdz_machine_has_avx512(void)
{
    const cpu_features f = features();
    const unsigned leaf7 = bit_AVX512F | bit_AVX512VL | bit_AVX512BW | bit_AVX512DQ;
    return cdz_machine_has_avx2() && (f.saved & 0xe6) == 0xe6 && (f.ebx7 & leaf7) == leaf7;
}

bool cdz_machine_has_vnni(void)
{
    return cdz_machine_has_avx512() && (features().ecx7 & bit_AVX512VNNI);
}

bool cdz_machine_has_bf16(void)
{
    enum { AVX512_BF16 = 1 << 5 };
    return cdz_machine_has_vnni() && (features().more & AVX512_BF16);
}

/* Linux saves the eight kilobytes of the tiles for processes that asked for it, threads to come included. It refuses where a
 * thread has a stack for signals that is too small for them. */
static bool asked_for_tiles(void)
{
    enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
}

bool cdz_machine_has_amx(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25, SAVED = 0x60000 };
    const cpu_features f = features();
    return cdz_machine_has_bf16() && (f.edx7 & (BF16 | TILE | INT8)) == (BF16 | TILE | INT8) &&
           (f.saved & SAVED) == SAVED && asked_for_tiles();
}

void cdz_machine_set_rounding(void)
{
    _mm_setcsr(
        0x1f80); /* nearest, exceptions masked, no flush to zero, subnormals read as they are */
}
#else
#if defined(__aarch64__)
bool cdz_machine_has_dotprod(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

bool cdz_machine_has_i8mm(void)
{
    return cdz_machine_has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}
#endif

void cdz_machine_set_rounding(void)
{
    fesetenv(FE_DFL_ENV);
}
#endif

/* The lowest processor that shares a core with this one, or itself when the system does not say. */
static size_t core_of(size_t cpu)
{
    char path[96];
    unsigned long first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (!file) return cpu;
    if (fscanf(file, "%lu", &first) != 1) first = cpu;
    fclose(file);
    return first;
}

static uint32_t distinct_cores(const cpu_set_t *allowed, size_t bytes, size_t n)
{
    cpu_set_t *cores = CPU_ALLOC(n);
    if (!cores) return 1;
    CPU_ZERO_S(bytes, cores);
    for (size_t cpu = 0; cpu < n; cpu++) {
        if (!CPU_ISSET_S(cpu, bytes, allowed)) continue;
        const size_t core = core_of(cpu);
        CPU_SET_S(core < n ? core : cpu, bytes, cores);
    }
    const int count = CPU_COUNT_S(bytes, cores);
    CPU_FREE(cores);
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t cdz_machine_cores(void)
{
    for (size_t n = 1024; n <= 1u << 20; n *= 4) { /* the call fails while the mask is too short */
        cpu_set_t *allowed = CPU_ALLOC(n);
        if (!allowed) return 1;
        const size_t bytes = CPU_ALLOC_SIZE(n);
        const bool known = sched_getaffinity(0, bytes, allowed) == 0;
        const uint32_t cores = known ? distinct_cores(allowed, bytes, n) : 0;
        CPU_FREE(allowed);
        if (known) return cores;
    }
    return 1;
}

static size_t pages_as_bytes(int which)
{
    const long pages = sysconf(which), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
}

void cdz_machine_memory(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = pages_as_bytes(_SC_AVPHYS_PAGES);
    *total_bytes = pages_as_bytes(_SC_PHYS_PAGES);
}
