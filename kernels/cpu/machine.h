/* machine.h - what this machine can do: instruction sets and physical cores. */
#ifndef CDZ_MACHINE_H
#define CDZ_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* They ask the processor, and whether the operating system saves the registers. Each is there on the machines that it is
 * about. */
bool cdz_machine_has_avx2(void);     /* AVX2, FMA, F16C */
bool cdz_machine_has_avx_vnni(void); /* also AVX-VNNI */
bool cdz_machine_has_avx512(void);   /* also F, VL, BW, DQ */
bool cdz_machine_has_vnni(void);     /* also AVX512_VNNI */
bool cdz_machine_has_bf16(void);     /* also AVX512_BF16 */
bool cdz_machine_has_amx(
    void); /* also AMX, tiles with INT8 and BF16, and the system lets this process use them */
bool cdz_machine_has_dotprod(void); /* arm64's SDOT */
bool cdz_machine_has_i8mm(void);    /* also SMMLA */

/* Physical cores among the processors this process may run on; at least 1. */
uint32_t cdz_machine_cores(void);

/* Bytes of memory that nothing uses, not even as a cache of files, and in all. */
void cdz_machine_memory(size_t *free_bytes, size_t *total_bytes);

/* Rounding to nearest, subnormals kept: the arithmetic every kernel counts on, for the calling
 * thread. */
void cdz_machine_set_rounding(void);

#endif
